"""Measure how often the bounds of impact ratios hold. Run as a script it prints the table of docs/evidence/coverage-impact-ratios.md."""

import sys

import numpy as np

from pytest_genderbias.statistics.impact_ratio import group_bounds

SIZES = (10, 20, 40, 100, 400)
RATES = (
    (0.5, 0.5), (0.4, 0.5), (0.2, 0.5), (0.05, 0.1), (0.02, 0.02), (0.5, 0.5, 0.5), (0.3, 0.4, 0.5), (0.1, 0.3, 0.3), (0.5,) * 6,
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


def main(repeats):
    """Print the table, a row a set of rates."""
    print(f"| selection rates | {' | '.join(f'{n} persons' for n in SIZES)} |")
    print("|---" * (1 + len(SIZES)) + "|")
    for rates in RATES:
        cells = [100 * coverage(rates, n, repeats) for n in SIZES]
        shown = [f"{cell.min():.1f} to {cell.max():.1f}" for cell in cells]
        print(f"| {', '.join(map(str, rates))} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
