"""Measure how often the 95 % intervals of coreference F1, and of means over restarts, hold.

Run as a script with the name of a table, ``gap``, ``f1``, ``methods`` or ``restarts``, it prints that table of
docs/evidence/coverage-coreference.md (some minutes for the first three).
"""

import sys
from contextlib import contextmanager

import numpy as np
from scipy import stats

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import coreference_scores as coreference
from pytest_genderbias.statistics.coreference_scores import conll_f1, document_counts, f1_gap_interval, f1_interval
from pytest_genderbias.statistics.inference.intervals import restart_interval

ITEMS = (12, 60, 164, 792)  #: the last is that of WinoBias's dev set
RESTARTS = (3, 5, 10)
RESAMPLES = 399  #: fewer than a measurement draws, so that thousands of them take minutes

# What a system may answer: the right candidate alone, the other alone, both, neither

PAIRS = np.array([[1, 1, 1, 1], [0, 1, 0, 1], [1, 2, 1, 1], [0, 0, 0, 1]], dtype=float)[:, None]
LINKS = (["gp"], ["op"], ["gop"], [])  #: as clusters of the right candidate g, the other o and the pronoun p
CLUSTERS = np.stack([document_counts(["gp"], [*found, *more]) for more in ([], ["xy"]) for found in LINKS])


def links(f1, wrong):
    """Return chances of the four answers that make F1 so high, where the other candidate is linked in a share of
    ``wrong``.
    """
    right = f1 * (1 + wrong) / (2 - f1)
    both = min(0.05, wrong / 2, right / 2)
    return np.array([right - both, wrong - both, both, 1 - right - wrong + both])


def beside(chances, share):
    """Return chances of eight answers: with a needless cluster beside them in such a share of the sentences."""
    return np.concatenate([np.multiply(chances, 1 - share), np.multiply(chances, share)])


def moved(chances, share):
    """Return the chances where so many sentences that were right go to the other candidate."""
    return chances + share * np.array([-1.0, 1.0, 0.0, 0.0])


#: chances for the stereotype and against it, counts of each answer, and how many pairs are answered by one luck
POPULATIONS = {
    "low": (links(0.3, 0.3), links(0.3, 0.3), PAIRS, 0.5),
    "low, gap": (links(0.4, 0.3), links(0.2, 0.4), PAIRS, 0.5),
    "middle, gap": (links(0.7, 0.25), links(0.5, 0.4), PAIRS, 0.5),
    "high": (links(0.9, 0.08), links(0.9, 0.08), PAIRS, 0.5),
    "high, gap": (links(0.95, 0.04), links(0.75, 0.2), PAIRS, 0.5),
    "very high": (links(0.98, 0.015), links(0.98, 0.015), PAIRS, 0.5),
    "few links": (links(0.15, 0.05), links(0.15, 0.05), PAIRS, 0.5),
    "few links, gap": (links(0.2, 0.05), links(0.1, 0.05), PAIRS, 0.5),
    "alike": (links(0.6, 0.3), links(0.6, 0.3), PAIRS, 0.9),
    "one way": (links(0.9, 0.1), moved(links(0.9, 0.1), 0.05), PAIRS, 1.0),
    "clusters, gap": (beside([0.6, 0.25, 0.03, 0.12], 0.1), beside([0.31, 0.5, 0.03, 0.16], 0.1), CLUSTERS, 0.3),
    "clusters, high": (beside([0.9, 0.04, 0.02, 0.04], 0.05), beside([0.9, 0.04, 0.02, 0.04], 0.05), CLUSTERS, 0.5),
}


def truth(population):
    """Return the gap and the F1 of all sentences of endless many pairs."""
    pro, anti, counts, _ = population
    first, second, both = (float(conll_f1(np.tensordot(p, counts, 1))) for p in (pro, anti, pro + anti))
    return {"gap": first - second, "f1": both}


def draw(rng, population, n):
    """Return counts of both sentences of n pairs: with the chance of one luck, the same number between 0 and 1 decides
    both.
    """
    pro, anti, counts, alike = population
    luck = rng.random((n, 2))
    same = rng.random(n) < alike
    luck[same, 1] = luck[same, 0]
    answers = [np.searchsorted(np.cumsum(p)[:-1], u, side="right") for p, u in zip((pro, anti), luck.T, strict=True)]
    return counts[answers[0]], counts[answers[1]]


# Measurements


@contextmanager
def simulated():
    """Let an interval be made of fewer pairs than a measurement wants, to see how it would hold, and of fewer
    resamples.
    """
    before = coreference._LEAST_DRAWN, coreference._RESAMPLES
    coreference._LEAST_DRAWN, coreference._RESAMPLES = 2, RESAMPLES
    try:
        yield
    finally:
        coreference._LEAST_DRAWN, coreference._RESAMPLES = before


def chosen(kind, pro, anti):
    """Return the interval that the suite gives, as the only one."""
    found = f1_gap_interval(pro, anti, "pairs") if kind == "gap" else f1_interval(pro + anti, "pairs")
    return {"chosen": None if found is None else (found.low, found.high)}


def of_each_method(kind, pro, anti):
    """Return the intervals of several methods."""
    counts, signs = {
        "gap": lambda: (np.stack([pro, anti], axis=1), np.array([1.0, -1.0])),
        "f1": lambda: ((pro + anti)[:, None], np.ones(1)),
    }[kind]()
    n = len(counts)
    value, error = (x[0] for x in coreference._signed_f1(counts, np.ones((1, n)), signs))
    if error <= 1e-12:
        return {}
    reach = stats.t.ppf(0.975, n - 1) * error
    found = {"Student's t": (value - reach, value + reach)}
    drawn = np.random.default_rng(7).multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(float)
    values = np.sort(coreference._signed_f1(counts, drawn, signs)[0])
    if np.isfinite(values).all():
        found["percentiles"] = (values[9], values[389])
    try:
        found["bootstrap-t"] = coreference._bootstrap_t(counts, signs, "pairs", 0.95)[2:]
    except UndefinedError:
        return found
    found["wider"] = tuple(
        pick(found[method][side] for method in ("Student's t", "bootstrap-t")) for side, pick in enumerate((min, max))
    )
    return found


METHODS = ("percentiles", "Student's t", "bootstrap-t", "wider")


def simulate(population, n, runs, kinds=("gap", "f1"), make=chosen, seed=0):
    """Return by kind and method the share of intervals that hold, and the share of samples without one."""
    rng, true, seen = np.random.default_rng([seed, n]), truth(population), {}
    with simulated():
        for _ in range(runs):
            sides = draw(rng, population, n)
            for kind in kinds:
                try:
                    found = make(kind, *sides)
                except UndefinedError:
                    found = {}
                for method in METHODS if make is of_each_method else ("chosen",):
                    tally = seen.setdefault((kind, method), np.zeros(2))
                    if found.get(method) is not None:
                        low, high = found[method]
                        tally += [low - 1e-9 <= true[kind] <= high + 1e-9, 1]
    return {key: (held / max(1.0, given), 1 - given / runs) for key, (held, given) in seen.items()}


def cell(held, without):
    """Return a cell of a table; a share of nothing is left out."""
    if without > 0.99:
        return "none"
    return f"{held:.1%}" + (f" ({without:.0%})" if without >= 0.005 else "")


def rows_of(kind, runs=2000):
    """Return the rows of the table of the gap, or of F1."""
    for name, population in POPULATIONS.items():
        found = [simulate(population, n, runs, (kind,))[kind, "chosen"] for n in ITEMS]
        yield [name, f"{truth(population)[kind]:.2f}", *(cell(*share) for share in found)]


def rows_of_methods(runs=1000):
    """Return the rows of the table of methods, with 60 pairs."""
    for name, population in POPULATIONS.items():
        found = simulate(population, 60, runs, make=of_each_method)
        for kind in ("gap", "f1"):
            yield [name, kind, *(cell(*found[kind, method]) for method in METHODS)]


VALUES = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "uniform": (lambda rng, n: rng.random(n), 0.5),
    "lognormal": (lambda rng, n: rng.lognormal(0.0, 0.5, n), float(np.exp(0.125))),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "one in five fails": (lambda rng, n: rng.normal(size=n) + 5 * (rng.random(n) < 0.2), 1.0),
}


def restarts_held(name, n, runs, seed=0):
    """Return the share of intervals over n restarts that hold the mean of all restarts, and of those that lack."""
    draw_values, mean = VALUES[name]
    rng = np.random.default_rng([seed, n])
    found = [restart_interval(draw_values(rng, n)) for _ in range(runs)]
    given = [interval for interval in found if interval is not None]
    return sum(i.low <= mean <= i.high for i in given) / max(1, len(given)), 1 - len(given) / runs


def rows_of_restarts(runs=2000):
    """Return the rows of the table of restarts."""
    for name in VALUES:
        yield [name, *(cell(*restarts_held(name, n, runs)) for n in RESTARTS)]


TABLES = {
    "gap": (("pairs", "gap", *(f"{n} pairs" for n in ITEMS)), lambda: rows_of("gap")),
    "f1": (("pairs", "F1", *(f"{n} pairs" for n in ITEMS)), lambda: rows_of("f1")),
    "methods": (("60 pairs", "of", *METHODS), rows_of_methods),
    "restarts": (("values", *(f"{n} restarts" for n in RESTARTS)), rows_of_restarts),
}

if __name__ == "__main__":
    head, rows = TABLES[sys.argv[1]]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows():
        print(f"| {' | '.join(row)} |", flush=True)
