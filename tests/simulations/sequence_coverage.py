"""Measure how often the bounds of a sequence ever leave out the true mean, and how many scores they need to decide.

Run as a script with the name of a table, ``ever``, ``needed``, ``small``, ``rules`` or ``estimate``, it prints that
table of docs/evidence/coverage-sequences.md (up to three minutes each).
"""

import sys
from unittest.mock import patch

import numpy as np

from pytest_genderbias.statistics.inference import sequences
from pytest_genderbias.statistics.inference.sequences import cases_to_decide, mean_bounds, wealth

RUNS = 2000
LEVEL = 0.95
ENOUGH = 2 / (1 - LEVEL)  #: wealth from which on one side rejects
BLOCK = 2_000_000  #: scores held at a time
SIZES = (60, 500, 5_000, 100_000)
DRAWN = 20_000  #: scores drawn at most
WHOLE = 1_936_512  #: pairs of nli-occupation

# Populations


def shares(p):
    """Ones and zeros."""
    return lambda rng, n: (rng.permutation(n) < round(p * n)).astype(float)


def all_but_a_few(rng, n):
    """0.9 but for one in a hundred, at least two, which are 0."""
    return np.where(rng.permutation(n) < max(2, n // 100), 0.0, 0.9)


POPULATIONS = {
    "Bernoulli .5": shares(0.5),
    "Bernoulli .01": shares(0.01),
    "Bernoulli .99": shares(0.99),
    "two points, .25 and .75": lambda rng, n: 0.25 + 0.5 * shares(0.5)(rng, n),
    "beta(2, ½)": lambda rng, n: rng.beta(2.0, 0.5, n),
    "beta(.3, .3)": lambda rng, n: rng.beta(0.3, 0.3, n),
    "uniform": lambda rng, n: rng.random(n),
    "constant but for a few": all_but_a_few,
}


def orders(population, drawn, runs, rng):
    """Yield blocks of runs, shape (runs, drawn): the first scores of random orders of one population."""
    rows = max(1, BLOCK // len(population))
    for start in range(0, runs, rows):
        block = np.tile(population, (min(rows, runs - start), 1))
        yield rng.permuted(block, axis=1)[:, :drawn]


def crossed_at(scores, population, mean):
    """Return at which draw each run rejects a mean as too low, shape (runs,); infinite where it never does."""
    rich = wealth(scores, population, LEVEL)(mean) >= ENOUGH
    return np.where(rich.any(axis=1), rich.argmax(axis=1) + 1.0, np.inf)


# The true mean: ever left out, at any draw or at a look of the engine


def excluded_at(population, drawn, runs, seed=0):
    """Return at which draw each run first leaves out the true mean, shape (runs,)."""
    rng = np.random.default_rng([seed, len(population)])
    mean, found = float(population.mean()), []
    for x in orders(population, drawn, runs, rng):
        sides = crossed_at(x, len(population), mean), crossed_at(1 - x, len(population), 1 - mean)
        found.append(np.minimum(*sides))
    return np.concatenate(found)


def looks(most):
    """Return the numbers of scores after which the engine looks: 64, 128, ..., then every eighth more."""
    found = [64]
    while found[-1] < most:
        found.append(found[-1] + max(64, found[-1] // 8 // 64 * 64))
    return np.array([n for n in found if n <= most])


def excluded(name, size, runs, seed=0):
    """Return two shares of runs: those that ever leave out the true mean, and those that do so at a look.

    The second ones decide, with the limit at the mean, where neither decision is right. None where there is no look
    before all are drawn.
    """
    population = POPULATIONS[name](np.random.default_rng([seed, 1]), size)
    at, drawn = excluded_at(population, min(size - 1, DRAWN), runs, seed), looks(min(size - 1, DRAWN))
    return float(np.isfinite(at).mean()), float((at <= drawn[-1]).mean()) if len(drawn) else None


# Scores needed


KINDS = {
    "beta, sd .35": (lambda rng, shape: rng.beta(0.575, 0.384, shape), 0.575 / 0.959),
    "Bernoulli .4": (lambda rng, shape: (rng.random(shape) < 0.4).astype(float), 0.4),
    "Bernoulli .95": (lambda rng, shape: (rng.random(shape) < 0.95).astype(float), 0.95),
}
DISTANCES = {
    0.2: 1_500,
    0.1: 4_000,
    0.05: 12_000,
    0.02: 60_000,
}  #: and the scores drawn, at which nearly all have decided


def needed(kind, distance, above, runs, seed=0, crossed=crossed_at, size=WHOLE):
    """Return the draw at which each run decides that the mean is above (below) a limit at this distance, shape
    (runs,).
    """
    draw, mean = KINDS[kind]
    rng, drawn, found = np.random.default_rng([seed, round(1000 * distance)]), DISTANCES[distance], []
    rows = max(1, BLOCK // drawn)
    for start in range(0, runs, rows):
        x = draw(rng, (min(rows, runs - start), drawn))
        found.append(crossed(x, size, mean - distance) if above else crossed(1 - x, size, 1 - mean - distance))
    return np.concatenate(found)


def next_look(draws):
    """Return the number of scores at the first look not before these draws."""
    at = looks(2 * max(DISTANCES.values()))
    return np.where(np.isfinite(draws), at[np.searchsorted(at, np.minimum(draws, at[-1]))], np.inf)


def needed_of_few(kind, size, distance, above, runs, seed=0):
    """Return the number of scores after which each run decides, where the population is small: all of them at most."""
    draw, _ = KINDS[kind]
    rng = np.random.default_rng([seed, size])
    x = draw(rng, (runs, size))
    mean = x.mean(axis=1, keepdims=True)
    crossed = crossed_at(x, size, mean - distance) if above else crossed_at(1 - x, size, 1 - mean - distance)
    return np.minimum(crossed, size)


def one_schedule(cut):
    """Return the rule of the papers to compare with: one gambler, whose bets shrink like 1 / sqrt(t log(1 + t))."""

    def crossed(x, population, mean):
        t = np.arange(1, x.shape[1] + 1)
        total = x.cumsum(axis=1)
        spread = (0.25 + ((x - (0.5 + total) / (t + 1)) ** 2).cumsum(axis=1)) / (t + 1)
        before = np.concatenate([np.zeros((len(x), 1)), total[:, :-1]], axis=1)
        known = np.concatenate([np.full((len(x), 1), 0.25), spread[:, :-1]], axis=1)
        rest = (population * mean - before) / (population - t + 1)
        bet = np.minimum(np.sqrt(2 * np.log(ENOUGH) / (known * t * np.log1p(t))), cut / np.maximum(rest, 1e-300))
        rich = (np.log1p(bet * (x - rest)).cumsum(axis=1) >= np.log(ENOUGH)) | (rest < 0)
        return np.where(rich.any(axis=1), rich.argmax(axis=1) + 1.0, np.inf)

    return crossed


def altered(**constants):
    """Return the rule of the package with other constants."""

    def crossed(x, population, mean):
        with patch.multiple(sequences, **constants):
            return crossed_at(x, population, mean)

    return crossed


RULES = {
    "as chosen": crossed_at,
    "c = 1/2": altered(_MOST_LOST=0.5),
    "c = 9/10": altered(_MOST_LOST=0.9),
    "horizons from 64": altered(_NEAREST=64),
    "horizons x 16": altered(_RATIO=16),
    "far horizons like others": altered(_FAR_SHARE=1.0),
    "papers, c = 1/2": one_schedule(0.5),
    "papers, c = 3/4": one_schedule(0.75),
}


def estimate_ratios(kind, distance, above, at, runs, seed=0):
    """Return estimated over needed scores of runs that are undecided after ``at`` scores and decide later."""
    draw, mean = KINDS[kind]
    limit = mean - distance if above else mean + distance
    took = needed(kind, distance, above, runs, seed)
    rng, drawn = np.random.default_rng([seed, round(1000 * distance)]), DISTANCES[distance]
    x = np.concatenate(
        [
            draw(rng, (min(max(1, BLOCK // drawn), runs - s), drawn))[:, :at]
            for s in range(0, runs, max(1, BLOCK // drawn))
        ]
    )
    open_ = np.flatnonzero((took > at) & np.isfinite(took))
    return np.array(
        [cases_to_decide(at, mean_bounds(x[i], WHOLE), float(x[i].mean()), limit, WHOLE) / took[i] for i in open_]
    )


# Tables


def percent(share):
    return "-" if share is None else f"{share:.1%}"


def ever_rows(runs):
    for name in POPULATIONS:
        yield [name, *(" / ".join(map(percent, excluded(name, size, runs))) for size in SIZES)]


def middle(draws):
    """Return a cell: median and 90th percentile."""
    return f"{np.median(draws):,.0f} ({np.quantile(draws, 0.9):,.0f})"


def needed_rows(runs):
    for kind, (_, mean) in KINDS.items():
        for above, where in ((True, "below"), (False, "above")):
            inside = [above or mean + d < 1 for d in DISTANCES]
            found = (needed(kind, d, above, runs // 4) if ok else None for d, ok in zip(DISTANCES, inside, strict=True))
            yield [f"{kind}, limit {where}", *("-" if f is None else middle(next_look(f)) for f in found)]


def small_rows(runs):
    for size in (200, 1_000, 5_000):
        for kind in KINDS:
            found = (needed_of_few(kind, size, d, True, runs // 4) for d in DISTANCES)
            yield [f"{size:,}, {kind}", *map(middle, found)]


def rules_rows(runs):
    for kind in KINDS:
        for name, crossed in RULES.items():
            found = (needed(kind, d, True, runs // 20, crossed=crossed) for d in DISTANCES)
            yield [f"{kind}, {name}", *(f"{np.median(f):,.0f}" for f in found)]


def estimate_rows(runs):
    for kind in KINDS:
        for at in (128, 512, 2048):
            found = (estimate_ratios(kind, d, True, at, runs // 20) for d in DISTANCES)
            quartiles = (np.quantile(f, [0.25, 0.5, 0.75]) if len(f) >= 20 else None for f in found)
            yield [
                f"{kind}, after {at}",
                *("-" if q is None else f"{q[1]:.2f} ({q[0]:.2f} to {q[2]:.2f})" for q in quartiles),
            ]


TABLES = {
    "ever": (["population", *(f"N = {n:,}" for n in SIZES)], ever_rows),
    "needed": (["scores", *DISTANCES], needed_rows),
    "small": (["N, scores", *DISTANCES], small_rows),
    "rules": (["scores, rule", *DISTANCES], rules_rows),
    "estimate": (["scores, looked at", *DISTANCES], estimate_rows),
}

if __name__ == "__main__":
    head, rows = TABLES[sys.argv[1]]
    print(f"| {' | '.join(map(str, head))} |")
    print("|" + "---|" * len(head))
    for cells in rows(RUNS):
        print(f"| {' | '.join(cells)} |", flush=True)
