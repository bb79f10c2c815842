"""Measure how often one-sided bounds over items fail, at the levels that gates use: few items, long tails, ties, yes
and no, and clusters.

Run as a script with the name of a table, ``means``, ``smooth``, ``clusters`` or ``yes-no``, it prints that table of
docs/evidence/coverage-paired.md or coverage-tails.md (a minute or two each).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import comb
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))  # beside the script of the other statistics, whose populations these are
import paired_coverage as populations

from pytest_genderbias.statistics.inference.item_bounds import ItemEffects
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items

LEVELS = (0.975, 0.99875)
ITEMS = (6, 12, 24, 60, 164)
DRAWS = {0.975: 4_000, 0.99875: 10_000}
BLOCK = 200
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def rare(share: float) -> Draw:
    """Return changes of a share of the items, about as large as their spread; the others stay."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return (rng.random(shape) < share) * rng.normal(1.0, 0.3, shape)

    return draw


#: Changes of items, with their mean. Tails lie towards worse: the upper bound is the one that they endanger.
POPULATIONS: dict[str, tuple[Draw, float]] = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "Student's t, 3 degrees": (lambda rng, shape: rng.standard_t(3, size=shape), 0.0),
    "exponential": (lambda rng, shape: rng.exponential(size=shape) - 1.0, 0.0),
    "log-normal": (lambda rng, shape: rng.lognormal(size=shape) - np.exp(0.5), 0.0),
    "7 of 10 stay": (lambda rng, shape: (rng.random(shape) < 0.3) * rng.normal(0.5, 1.0, shape), 0.15),
    "3 of 10 change": (rare(0.3), 0.3),
    "1 of 5 changes": (rare(0.2), 0.2),
    "1 of 20 changes": (rare(0.05), 0.05),
}


def effects(changes: np.ndarray) -> ItemEffects:
    """Return the effects of items of equal weight, as a comparison of means makes them."""
    n = len(changes)
    return ItemEffects(float(changes.mean()), changes, np.ones(n), float(changes.std(ddof=1)) / n**0.5)


def failures(draw: Draw, truth: float, n: int, level: float, draws: int | None = None, seed: int = 0) -> np.ndarray:
    """Return how often the lower bound lies above the truth, how often the upper one lies below it, and how often no
    item changed.
    """
    rng, found, draws = np.random.default_rng([seed, n]), np.zeros(3), draws or DRAWS[level]
    for _ in range(max(1, draws // BLOCK)):
        for changes in draw(rng, (min(BLOCK, draws), n)):
            if not np.abs(changes).max() > 0:  # which passes by rule
                found[2] += 1
                continue
            low, high, *_ = effects(changes).bounds(0.0, level)
            found[:2] += low > truth + 1e-9, high < truth - 1e-9
    return found / (max(1, draws // BLOCK) * min(BLOCK, draws))


def yes_no_failure(n: int, level: float, grid: np.ndarray | None = None) -> tuple[float, float]:
    """Return the largest chance that a lower bound of n yes or no items lies above the truth, without a change, and
    with any.

    All outcomes are enumerated: a items become worse by 1, b better, each with its probability; no simulation.
    """
    grid = np.linspace(0.0, 1.0, 21) if grid is None else grid
    outcomes = [(a, b) for a in range(n + 1) for b in range(n + 1 - a) if a + b]
    lows = np.array(
        [effects(np.repeat([1.0, -1.0, 0.0], [a, b, n - a - b])).bounds(0.0, level)[0] for a, b in outcomes]
    )
    worse, better = np.array(outcomes).T
    ways = np.array([comb(n, a) * comb(n - a, b) for a, b in outcomes], dtype=float)
    equal = changed = 0.0
    for p in grid:
        for q in grid[grid <= 1 - p + 1e-9]:
            chance = ways * p**worse * q**better * max(0.0, 1 - p - q) ** (n - worse - better)
            wrong = float(chance[lows > p - q + 1e-9].sum())
            equal, changed = (max(equal, wrong), changed) if abs(p - q) < 1e-9 else (equal, max(changed, wrong))
    return equal, changed


def correlated(rng: np.random.Generator, clusters: int, size: int, correlation: float) -> np.ndarray:
    """Return changes of items in clusters of one size, mean 0 and variance 1."""
    shared, own = rng.normal(size=(clusters, 1)), rng.normal(size=(clusters, size))
    return (correlation**0.5 * shared + (1 - correlation) ** 0.5 * own).ravel()


def cluster_failures(clusters: int, size: int, correlation: float, level: float, draws: int = 2_000) -> list[float]:
    """Return how often a bound lies beyond the truth 0, without and with declared clusters."""
    rng, labels = np.random.default_rng(clusters), populations.names(clusters * size)
    of_units, wrong = {label: str(i // size) for i, label in enumerate(labels.tolist())}, np.zeros(2)
    for _ in range(draws):
        change = correlated(rng, clusters, size, correlation)
        then, now = (mean_sums(labels, x, np.ones(len(x)), "items") for x in (np.zeros(len(change)), change))
        for k, side in enumerate((now, now.in_clusters(of_units))):
            found = compare_items(then, side, populations.as_it_is, 0.0, level)
            wrong[k] += (found.low > 0) + (found.high < 0)
    return (wrong / (2 * draws)).tolist()


def smooth_failures(label: str, n: int, level: float, draws: int = 2_000) -> np.ndarray:
    """Return how often each bound of another statistic than a mean lies beyond the truth."""
    (make, truth), rng, wrong = populations.SMOOTH[label], np.random.default_rng([0, n]), np.zeros(2)
    for _ in range(draws):
        found = compare_items(*make(rng, n), np.abs, max(truth, 0.0), level)
        wrong += found.low > truth + 1e-9, found.high < truth - 1e-9
    return wrong / draws


def percent(shares: object) -> str:
    return " / ".join(f"{100 * share:.2f}" for share in np.asarray(shares)) + " %"


def means() -> Iterator[list[str]]:
    for level in LEVELS:
        yield [f"{100 * (1 - level):g} %", *(f"{n} items" for n in ITEMS)]
        for name, (draw, truth) in POPULATIONS.items():
            cells = [failures(draw, truth, n, level) for n in ITEMS]
            yield [name, *(percent(c[:2]) + (f" ({c[2]:.0%})" if c[2] > 0.005 else "") for c in cells)]


def smooth() -> Iterator[list[str]]:
    for level in LEVELS:
        yield [f"{100 * (1 - level):g} %", *(f"{n} items" for n in ITEMS[1:])]
        for label in populations.SMOOTH:
            yield [label, *(percent(smooth_failures(label, n, level)) for n in ITEMS[1:])]


def clusters() -> Iterator[list[str]]:
    yield ["clusters of items", "correlation", *(f"{100 * (1 - level):g} %, undeclared / declared" for level in LEVELS)]
    for number, size in ((8, 4), (15, 4), (41, 4), (15, 8)):
        for correlation in (0.0, 0.5):
            cells = [percent(cluster_failures(number, size, correlation, level)) for level in LEVELS]
            yield [f"{number} of {size}", f"{correlation:g}", *cells]


def yes_no() -> Iterator[list[str]]:
    yield ["level", *(f"{n} items" for n in (6, 8, 12, 24))]
    for level in (0.95, *LEVELS):
        yield [f"{100 * (1 - level):g} %", *(percent(yes_no_failure(n, level)) for n in (6, 8, 12, 24))]


def main(rows: Iterator[list[str]]) -> None:
    for number, row in enumerate(rows):
        print(f"| {' | '.join(row)} |", flush=True)
        if not number:
            print("|---" * len(row) + "|")


if __name__ == "__main__":
    main({"means": means, "smooth": smooth, "clusters": clusters, "yes-no": yes_no}[sys.argv[1]]())
