"""Measure how often the bounds of impact ratios hold.

Run as a script it prints the first table of docs/evidence/coverage-impact-ratios.md, or with ``exact`` the second one.
"""

import sys

import numpy as np
from scipy import stats

from pytest_genderbias.statistics.impact_ratio import group_bounds

SIZES = (10, 20, 40, 100, 400)
RATES = (
    (0.5, 0.5), (0.4, 0.5), (0.2, 0.5), (0.05, 0.1), (0.02, 0.02), (0.5, 0.5, 0.5), (0.3, 0.4, 0.5), (0.1, 0.3, 0.3),
    (0.5,) * 6,
    (0.1, 0.2, 0.3, 0.4, 0.4, 0.4),
)  # fmt: skip
SEED = 7


def coverage(rates, persons, repeats, seed=SEED):
    """Return for each group how often its bounds contain its true ratio, where somebody is selected."""
    true = np.array(rates) / max(rates)
    hits = np.random.default_rng(seed).binomial(persons, rates, size=(repeats, len(rates)))
    drawn, counts = np.unique(hits[hits.any(axis=1)], axis=0, return_counts=True)
    low, high = group_bounds(drawn, np.full_like(drawn, persons), 0.95)
    holds = (low <= true + 1e-9) & (true - 1e-9 <= high)
    return (holds * counts[:, None]).sum(axis=0) / counts.sum()


GRID = np.r_[0.01, 0.02, 0.03, 0.05:0.96:0.05, 0.97, 0.99]
PAIRS = ((5, 5), (5, 20), (10, 10), (10, 40), (10, 400), (5, 300), (20, 20), (20, 100), (40, 40), (40, 400), (100, 100),
    (100, 200))  # fmt: skip


def least_coverage(persons, others, rates=GRID):
    """Return how often bounds of two groups hold at least, over all pairs of rates, and at which rates; all selections
    are enumerated.

    A selection of nobody has no ratio, and no bounds that fail.
    """
    hits = np.stack(np.meshgrid(np.arange(persons + 1), np.arange(others + 1), indexing="ij"), axis=-1).reshape(-1, 2)
    hits = hits[hits.any(axis=1)]
    low, high = group_bounds(hits, np.broadcast_to([persons, others], hits.shape), 0.95)
    of_first = stats.binom.pmf(hits[:, 0], persons, rates[:, None])
    of_second = stats.binom.pmf(hits[:, 1], others, rates[:, None])
    least = 1.0, 0.0, 0.0
    for i, first in enumerate(rates):
        for j, second in enumerate(rates):
            true = np.array([first, second]) / max(first, second)
            fails = (low > true + 1e-9) | (true - 1e-9 > high)
            least = min(least, (1 - float((of_first[i] * of_second[j] @ fails).max()), float(first), float(second)))
    return least


def main(repeats):
    """Print the table, a row a set of rates."""
    print(f"| selection rates | {' | '.join(f'{n} persons' for n in SIZES)} |")
    print("|---" * (1 + len(SIZES)) + "|")
    for rates in RATES:
        cells = [100 * coverage(rates, n, repeats) for n in SIZES]
        shown = [f"{cell.min():.1f} to {cell.max():.1f}" for cell in cells]
        print(f"| {', '.join(map(str, rates))} | {' | '.join(shown)} |", flush=True)


def print_exact():
    """Print the table of all selections."""
    print("| persons | least coverage | at the rates |")
    print("|---|---|---|")
    for persons in PAIRS:
        least, first, second = least_coverage(*persons)
        print(f"| {persons[0]} and {persons[1]} | {100 * least:.1f} % | {first:g}, {second:g} |", flush=True)


if __name__ == "__main__":
    print_exact() if sys.argv[1:] == ["exact"] else main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
