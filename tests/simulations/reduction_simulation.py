"""Measure how often a mitigation is called reduced that is not, and how often one that is.

Run as a script with the name of a table, ``items``, ``skewed``, ``restarts``, ``fixed`` or ``ineffective``, it prints
that table of docs/evidence/mitigation-verdicts.md (one to three minutes each).
"""

import sys

import numpy as np

from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.reduction import compare_weighted_items, compare_weighted_restarts

ITEMS = (12, 60, 164)
SEEDS = (3, 5)
TRUE = (0.0, 0.15, 0.3, 0.5, 0.8)
KEPT = 0.7  #: correlation of an item's bias before and after
SPREAD = 0.1  #: standard deviation of a restart, as a share of the distance before


def as_it_is(value):
    return value


def normal(rng, n, reduction):
    """|B| of normal biases; after, each is a mixture of itself and of chance, and all are smaller by the reduction."""
    before = rng.normal(size=n)
    after = (1 - reduction) * (KEPT * before + np.sqrt(1 - KEPT**2) * rng.normal(size=n))
    return np.abs(before), np.abs(after)


def skewed(rng, n, reduction):
    """|B| with a long tail; after, each is smaller by the reduction times chance of its own."""
    before = rng.exponential(size=n)
    return before, (1 - reduction) * before * rng.lognormal(-(0.5**2) / 2, 0.5, n)


def of_items(draw, reduction, n, by, runs):
    """Return the shares of runs called reduced, not reduced, and neither."""
    rng, labels, ones = np.random.default_rng([7, n, round(100 * reduction)]), np.arange(n).astype(str), np.ones(n)
    found = np.zeros(3)
    for _ in range(runs):
        sides = [[mean_sums(labels, x, ones, "items")] for x in draw(rng, n, reduction)]
        found[decided(compare_weighted_items(*sides, as_it_is, kept=1 - by), by)] += 1
    return found / runs


def of_restarts(fixed, reduction, n, by, runs):
    """The same of the values of n restarts; ``fixed``: before is one model for all of them."""
    rng, found = np.random.default_rng([8, n, round(100 * reduction), fixed]), np.zeros(3)
    for _ in range(runs):
        before = np.ones(n) if fixed else rng.normal(1.0, SPREAD, n)
        after = rng.normal(1 - reduction, SPREAD, n)
        found[decided(compare_weighted_restarts([before], after, as_it_is, kept=1 - by), by)] += 1
    return found / runs


def decided(found, by):
    if found.high <= 0 if by else found.high < 0:
        return 0
    return 1 if (found.low > 0 if by else found.low >= 0) else 2


def table(shares, sizes, by=0.3, runs=2000):
    for true in TRUE:
        yield f"{true:.0%}", [shares(true, n, by, runs) for n in sizes]


def ineffective(runs=2000):
    """Nothing is reduced, and any reduction is asked for."""
    for label, draw in (("normal", normal), ("skewed", skewed)):
        yield label, [of_items(draw, 0.0, n, 0.0, runs) for n in ITEMS]


TABLES = {
    "items": ("true reduction", ITEMS, "items", lambda: table(lambda *a: of_items(normal, *a), ITEMS, runs=1000)),
    "skewed": ("true reduction", ITEMS, "items", lambda: table(lambda *a: of_items(skewed, *a), ITEMS, runs=1000)),
    "restarts": ("true reduction", SEEDS, "seeds", lambda: table(lambda *a: of_restarts(False, *a), SEEDS)),
    "fixed": ("true reduction", SEEDS, "seeds", lambda: table(lambda *a: of_restarts(True, *a), SEEDS)),
    "ineffective": ("bias of items", ITEMS, "items", ineffective),
}

if __name__ == "__main__":
    head, sizes, what, rows = TABLES[sys.argv[1]]
    print(f"| {head} | {' | '.join(f'{n} {what}' for n in sizes)} |")
    print("|" + "---|" * (1 + len(sizes)))
    for label, cells in rows():
        print(f"| {label} | {' | '.join(' / '.join(f'{x:.1%}' for x in cell) for cell in cells)} |", flush=True)
