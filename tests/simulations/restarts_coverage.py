"""Measure how often equal trainings seem worse by the bounds over restarts, and whether what a gate is said to see is
true.

Run as a script with the name of a table (``one``, ``several``, ``neutral``, ``squares``, ``crossed``, ``clusters``,
``freedom``, ``seen``, ``items``), it prints that table of docs/evidence/coverage-restarts.md (up to four minutes each).
Bounds are computed in one go for all draws; the first of each cell are those of the functions that gates call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from pytest_genderbias.statistics.gap_rms import signed_root
from pytest_genderbias.statistics.inference.detectable import seen_over_items, seen_over_restarts
from pytest_genderbias.statistics.inference.item_sums import FloatArray, mean_sums
from pytest_genderbias.statistics.inference.over_restarts import PRIOR_FREEDOM, Prior, compare_crossed, compare_restarts

RESTARTS = (2, 3, 5, 10)
ITEMS = (12, 60, 164)
ALPHA = 0.025  #: share of equal models beyond each bound
GATES = 6  #: of a usual project
DRAWS = 20_000
CHECKED = 20  #: draws of a cell that are compared with the functions of the package
Draw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]

#: What the restarts of one training give: mean 0 and standard deviation 1; where some fail, that of the others is 0.5.
POPULATIONS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "long tails (t, 5 degrees)": lambda rng, shape: rng.standard_t(5, size=shape) / (5 / 3) ** 0.5,
    "skewed towards worse (gamma, skewness 1)": lambda rng, shape: (rng.gamma(4, size=shape) - 4) / 2,
    "exponential (skewness 2)": lambda rng, shape: rng.exponential(size=shape) - 1,
    "one training in ten fails by 10 s": lambda rng, shape: (
        rng.normal(0, 0.5, size=shape) + 5 * (rng.random(shape) < 0.1) - 0.5
    ),
}
USUAL = list(POPULATIONS)[:3]
#: Prior spread divided by the true one.
PRIORS: dict[str, float | None] = {"none": None, "right": 1.0, "half": 0.5, "double": 2.0}


@dataclass(frozen=True)
class Rates:
    """Shares of equal trainings that are worse: by a bound at 97.5 %, and by that of one of six gates."""

    alone: float
    of_family: float

    def __str__(self) -> str:
        return f"{self.alone:.1%} ({self.of_family:.2%})"


def prior_of(ratio: float | None, freedom: float = PRIOR_FREEDOM) -> Prior | None:
    return None if ratio is None else Prior(ratio, freedom)


def variances(values: FloatArray, prior: Prior | None) -> tuple[FloatArray, float]:
    """Return the moderated variance of each row of restarts, and its degrees of freedom."""
    spread, borrowed = (0.0, 0.0) if prior is None else (prior.spread, prior.freedom)
    own = values.shape[1] - 1
    return (borrowed * spread**2 + own * values.var(axis=1, ddof=1)) / (borrowed + own), borrowed + own


def rates_of(t: FloatArray, freedom: FloatArray | float) -> Rates:
    return Rates(*(float((t > stats.t.isf(alpha, freedom)).mean()) for alpha in (ALPHA, ALPHA / GATES)))


def one_row(
    population: str, k: int, prior: Prior | None = None, spread: float = 1.0, runs: int = DRAWS, seed: int = 0
) -> Rates:
    """Draw k restarts and one more checkpoint, of an equal training whose standard deviation is ``spread``."""
    rng = np.random.default_rng(seed)
    restarts, one = POPULATIONS[population](rng, (runs, k)), spread * POPULATIONS[population](rng, (runs,))
    variance, freedom = variances(restarts, prior)
    t = (one - restarts.mean(axis=1)) / np.sqrt(variance * (1 + 1 / k))
    for then, now, p in zip(restarts[:CHECKED], one, stats.t.sf(t, freedom), strict=False):
        assert np.isclose(compare_restarts(then, [now], lambda v: v, prior=prior).p, p)
    return rates_of(t, freedom)


def several_row(
    population: str, n: int, m: int, prior: Prior | None = None, spread: float = 1.0, runs: int = DRAWS, seed: int = 0
) -> Rates:
    """Draw n restarts and m of an equal training whose standard deviation is ``spread``."""
    rng = np.random.default_rng(seed)
    then, now = POPULATIONS[population](rng, (runs, n)), spread * POPULATIONS[population](rng, (runs, m))
    (a, f), (b, g) = variances(then, prior), variances(now, prior)
    a, b = a / n, b / m
    borrowed = 0.0 if prior is None else prior.freedom
    freedom = np.minimum((a + b) ** 2 / (a**2 / f + b**2 / g), n + m - 2 + borrowed)
    t = (now.mean(axis=1) - then.mean(axis=1)) / np.sqrt(a + b)
    for before, after, p in zip(then[:CHECKED], now, stats.t.sf(t, freedom), strict=False):
        assert np.isclose(compare_restarts(before, after, lambda v: v, prior=prior).p, p)
    return rates_of(t, freedom)


def head(first: str, columns: list[str]) -> None:
    print(f"| {first} | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))


def one() -> None:
    """Print how often an equal checkpoint seems worse than k restarts."""
    head("values, prior", [f"{k} restarts" for k in RESTARTS])
    for population in POPULATIONS:
        for name, ratio in PRIORS.items():
            cells = [str(one_row(population, k, prior_of(ratio))) for k in RESTARTS]
            print(f"| {population}; {name} | " + " | ".join(cells) + " |", flush=True)
    cells = [str(one_row("normal", k, spread=2.0)) for k in RESTARTS]
    print("| normal, the checkpoint of a training with twice the spread; none | " + " | ".join(cells) + " |")


def several() -> None:
    """Print how often restarts of an equal training seem worse than others."""
    pairs = [(2, 2), (3, 3), (5, 5), (10, 10), (10, 3)]
    head("values, prior", [f"{n} and {m}" for n, m in pairs])
    for spread in (1.0, 2.0):
        for population in USUAL:
            for name, ratio in PRIORS.items():
                cells = [str(several_row(population, n, m, prior_of(ratio), spread)) for n, m in pairs]
                twice = ", twice the spread now" if spread == 2 else ""
                print(f"| {population}{twice}; {name} | " + " | ".join(cells) + " |", flush=True)


def freedom() -> None:
    """Print how far a prior may be too small, by its degrees of freedom: the worst cell, and the mean over priors that
    vary.
    """
    factors, logs = (1.0, 1.2, 1.4, 1.7, 2.0, 4.0, 8.0), (0.2, 0.35, 0.5, 0.7)
    head("degrees of freedom", [f"too small by {f:g}" for f in factors] + [f"ln varies by {s:g}" for s in logs])
    cases = [(population, k) for population in USUAL[:2] for k in RESTARTS]
    for borrowed in (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0):
        worst = [max(one_row(*case, Prior(1 / f, borrowed)).alone for case in cases) for f in factors]
        mean = []
        for log in logs:
            drawn = np.exp(np.random.default_rng(0).normal(0, log, 20))
            at = [[one_row(*case, Prior(float(r), borrowed), runs=4000).alone for r in drawn] for case in cases]
            mean.append(max(np.mean(row) for row in at))
        print(f"| {borrowed:g} | " + " | ".join(f"{share:.1%}" for share in worst + mean) + " |", flush=True)


def neutral(runs: int = 4000) -> None:
    """Print the same for distances from neutral, where the mean lies near neutral."""
    head("mean, in standard deviations; prior", [f"{k} restarts" for k in RESTARTS])
    for mean in (0.0, 0.5, 1.0, 2.0, 5.0):
        for name in ("none", "right", "half"):
            cells = []
            for k in RESTARTS:
                rng = np.random.default_rng(0)
                cells.append(f"{_worse_near(rng, mean, k, prior_of(PRIORS[name]), runs):.1%}")
            print(f"| {mean:g}; {name} | " + " | ".join(cells) + " |", flush=True)


def _worse_near(rng: np.random.Generator, mean: float, k: int, prior: Prior | None, runs: int) -> float:
    drawn = [(rng.normal(mean, 1, k), rng.normal(mean, 1, 1)) for _ in range(runs)]
    return float(np.mean([compare_restarts(*d, np.abs, level=1 - ALPHA, prior=prior).low > 0 for d in drawn]))


def squares_row(mean: float, shift: float, k: int, root: bool, runs: int = 2000, seed: int = 0) -> float:
    """Draw k restarts and one more checkpoint of a root mean square, and return how often the one is worse.

    Args:
        mean: of the mean square, which is normal over trainings, in its standard deviations.
        shift: how much worse the one is, in the same units.
        k: restarts.
        root: whether they are compared on the squares.
        runs: draws.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    then, now = signed_root(rng.normal(mean, 1, (runs, k))), signed_root(rng.normal(mean + shift, 1, (runs, 1)))
    found = [
        compare_restarts(*pair, lambda v: v, level=1 - ALPHA, root=root).low > 0 for pair in zip(then, now, strict=True)
    ]
    return float(np.mean(found))


def squares() -> None:
    """Print how often a root mean square of a checkpoint is worse, compared by the roots and on the squares."""
    shifts = (0.0, 2.0, 4.0, 6.0)
    head("mean square; restarts; compared", [f"+{shift:g} s" for shift in shifts])
    for mean in (0.0, 1.0, 4.0):
        for k in (3, 5, 10):
            for root in (False, True):
                cells = [f"{squares_row(mean, shift, k, root):.1%}" for shift in shifts]
                print(f"| {mean:g} s; {k}; {'squares' if root else 'roots'} | " + " | ".join(cells) + " |", flush=True)


@dataclass(frozen=True)
class CrossedRow:
    """Shares of equal trainings, on other units, that are worse at 97.5 %: by crossed variance, and by Welch's t."""

    crossed: float
    welch: float


def crossed_row(
    units: int,
    k: int,
    runs: int = 2000,
    seed: int = 0,
    of_restarts: float = 0.1,
    of_units: float = 0.5,
    skewed: bool = False,
    ratio: float | None = None,
    size: int = 1,
    declared: bool = True,
) -> CrossedRow:
    """Draw two trainings whose change is 0 over all units and all seeds, and count how often it seems to be above 0.

    Args:
        units: number of units.
        k: restarts on each side.
        runs: pairs of trainings.
        seed: of the draws.
        of_restarts: standard deviation of a restart.
        of_units: that of the change of a unit, which the two trainings differ by; single cells have .5.
        skewed: whether changes of units are exponential.
        ratio: prior spread divided by that of a restart; ``None`` without a prior.
        size: units in a cluster, whose changes have the correlation .5.
        declared: whether the units have their clusters.
    """
    rng = np.random.default_rng(seed)
    of_cluster = {f"{i:04d}": f"{i // size}" for i in range(units)} if declared and size > 1 else {}
    labels, counts = np.array([f"{i:04d}" for i in range(units)]), np.ones(units)
    prior = None if ratio is None else Prior(ratio * (of_restarts**2 + 0.25 / units) ** 0.5)
    wrong = np.zeros(2)
    for _ in range(runs):
        change = of_units * (rng.exponential(size=units) - 1 if skewed else rng.normal(size=units))
        if size > 1:
            shared = np.repeat(rng.normal(size=units // size), size)
            change = (change + of_units * shared) * 0.5**0.5
        own = rng.normal(size=units)
        sides = [
            rng.normal(0, of_restarts, (k, 1)) + own + worse + rng.normal(0, 0.5, (k, units)) for worse in (0, change)
        ]
        sums = [[mean_sums(labels, row, counts, "words").in_clusters(of_cluster) for row in scores] for scores in sides]
        welch = compare_restarts(
            sides[0].mean(axis=1), sides[1].mean(axis=1), lambda v: v, level=1 - ALPHA, prior=prior
        )
        both = compare_crossed(*sums, lambda v: v, level=1 - ALPHA, prior=prior)
        wrong += [both.low > 0, welch.low > 0]
    return CrossedRow(*(wrong / runs).tolist())


def crossed() -> None:
    """Print how often several restarts seem worse although the trainings are equal over all units."""
    head("restarts, units vary by; prior", [f"{n} items" for n in ITEMS])
    for k in RESTARTS:
        for name, settings in (
            (".1, .5", {}),
            (".1, .5 skewed", {"skewed": True}),
            (".5, .1", {"of_restarts": 0.5, "of_units": 0.1}),
        ):
            for prior in ("none", "right", "half"):
                rows = [crossed_row(n, k, ratio=PRIORS[prior], **settings) for n in ITEMS]
                cells = [f"{r.crossed:.1%} ({r.welch:.1%})" for r in rows]
                print(f"| {k} a side; {name}; {prior} | " + " | ".join(cells) + " |", flush=True)


def clusters() -> None:
    """Print how often equal trainings seem worse whose items change in clusters: undeclared / declared."""
    sizes = (4, 8)
    head("restarts; items", [f"clusters of {size}" for size in sizes])
    for k in RESTARTS[:3]:
        for units in ITEMS[1:]:
            pairs = [
                [crossed_row(units // size * size, k, size=size, declared=d).crossed for d in (False, True)]
                for size in sizes
            ]
            cells = [f"{undeclared:.1%} / {declared:.1%}" for undeclared, declared in pairs]
            print(f"| {k} a side; {units} items | " + " | ".join(cells) + " |", flush=True)


def seen_row(
    population: str,
    k: int,
    gates: int,
    prior: Prior | None = None,
    neutral_at: float | None = None,
    runs: int = DRAWS,
    seed: int = 0,
) -> float:
    """Return the factor by which what a gate is said to see has to be multiplied so that 80 % of releases are red.

    Each draw is a stored baseline with its own figure, and a release that is worse by a multiple of it.

    Args:
        population: of restarts.
        k: restarts of the baseline.
        gates: of the project.
        prior: of the spread.
        neutral_at: for distances on both sides of neutral: where it lies, in standard deviations from the mean. The
            release is worse on either side in half of the draws.
        runs: draws.
        seed: of the draws.
    """
    rng, level = np.random.default_rng(seed), 1 - ALPHA / gates
    draw, far = POPULATIONS[population], 0.0 if neutral_at is None else neutral_at
    restarts, one = far + draw(rng, (runs, k)), draw(rng, (runs,))
    one *= 1.0 if neutral_at is None else rng.choice([-1.0, 1.0], runs)
    variance, freedom = variances(restarts, prior)
    middle = restarts.mean(axis=1)
    error = np.sqrt(variance * (1 + 1 / k))
    at, power = stats.t.isf(1 - level, freedom) * error, stats.t.ppf(0.8, freedom) * error
    red = middle + at
    if neutral_at is not None:
        middle = np.abs(middle)
        red = np.maximum(middle + at, stats.t.isf((1 - level) / 2, freedom) * np.sqrt(variance))
    said = red + power - middle
    distance = np.abs if neutral_at is not None else lambda v: v
    for values, figure in zip(restarts[:CHECKED], said, strict=False):
        assert np.isclose(seen_over_restarts(values, distance, prior, level), figure, rtol=1e-4)
    return float(np.quantile((red - far - one) / said, 0.8))


def seen() -> None:
    """Print the true figure divided by the one that is said, over restarts."""
    columns = [f"{name}, {gates} gates" for name in PRIORS for gates in (1, 6, 20)]
    head("restarts; values", columns)
    for k in RESTARTS:
        for population in USUAL:
            cells = [f"{seen_row(population, k, g, prior_of(r)):.2f}" for r in PRIORS.values() for g in (1, 6, 20)]
            print(f"| {k}; {population} | " + " | ".join(cells) + " |", flush=True)
        for at in (0.0, 0.5, 1.0):
            factors = [
                seen_row("normal", k, g, prior_of(r), neutral_at=at) for r in PRIORS.values() for g in (1, 6, 20)
            ]
            cells = [f"{factor:.2f}" for factor in factors]
            print(f"| {k}; normal, neutral {at:g} s from the mean | " + " | ".join(cells) + " |", flush=True)


def seen_items_row(population: str, items: int, beyond: float, gates: int, runs: int = 4000, seed: int = 0) -> float:
    """Return the factor of :func:`seen_row` for one checkpoint each, over items and retraining.

    Args:
        population: of the changes of items.
        items: their number.
        beyond: the standard deviation of retraining, in standard errors over items.
        gates: of the project.
        runs: draws.
        seed: of the draws.
    """
    rng, level = np.random.default_rng(seed), 1 - ALPHA / gates
    changes = POPULATIONS[population](rng, (runs, items)) * items**0.5  # so that the standard error is 1
    retrained = beyond * rng.normal(size=runs)
    error = changes.std(axis=1, ddof=1) / items**0.5
    reach = np.hypot(stats.t.isf(1 - level, items - 1) * error, stats.norm.isf(1 - level) * beyond)
    said = seen_over_items(1.0, beyond, items - 1, level)
    return float(np.quantile((reach - changes.mean(axis=1) - retrained) / said, 0.8))


def items() -> None:
    """Print the true figure divided by the one that is said, over items and retraining."""
    head("items; values", [f"beyond {b:g}, {g} gates" for b in (0, 1, 3) for g in (1, 6, 20)])
    for count in (12, 60, 200):
        for population in USUAL:
            cells = [f"{seen_items_row(population, count, b, g):.2f}" for b in (0, 1, 3) for g in (1, 6, 20)]
            print(f"| {count}; {population} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    tables = (one, several, freedom, neutral, squares, crossed, clusters, seen, items)
    {table.__name__: table for table in tables}[sys.argv[1]]()
