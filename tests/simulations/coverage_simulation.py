"""Measure how often the 95 % interval over items holds the true mean. Run as a script it prints the table of
docs/evidence/coverage.md.
"""

import numpy as np

from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval

ITEMS = (12, 17, 32, 60, 64, 164)


def normal(rng, shape):
    """Means of items, symmetric: a signed bias."""
    return rng.normal(0.3, 1.0, shape)


def absolute_normal(rng, shape):
    """Means of items as the aggregate bias has them: absolute values of a symmetric bias."""
    return np.abs(rng.normal(0.0, 1.0, shape))


def exponential(rng, shape):
    """Means of items with a long tail on one side."""
    return rng.exponential(1.0, shape)


def bounded(rng, shape):
    """Means of items in 0 to 1 that pile up at the upper end: a share of neutral pairs."""
    return rng.beta(2.0, 0.5, shape)


TRUTH = {normal: 0.3, absolute_normal: float(np.sqrt(2 / np.pi)), exponential: 1.0, bounded: 0.8}
BOUNDS = {normal: None, absolute_normal: (0.0, np.inf), exponential: (0.0, np.inf), bounded: (0.0, 1.0)}


def simulate(items, draw, runs, seed=0, unequal=False):
    """Return, of the intervals of simulated suites, the share that holds the mean of all items, and the share of suites
    without one.

    Each item has its own mean, and 40 cases that scatter around it. ``unequal`` draws the number of cases from 5 to 75
    instead, more unequal than ``--bias-limit`` leaves the items of an NLI suite; it does not depend on the item, so the
    truth stays the same.
    """
    rng = np.random.default_rng([seed, items, unequal])
    held, without = 0, 0
    for _ in range(runs):
        means = draw(rng, items)
        counts = rng.integers(5, 76, items) if unequal else np.full(items, 40)
        if draw is bounded:
            sums = rng.binomial(counts, means).astype(float)
        else:
            sums = counts * means + np.sqrt(counts) * rng.normal(0.0, 0.5, items)
        interval = clustered_mean_interval(sums, counts, "items", bounds=BOUNDS[draw])
        if interval is None:
            without += 1
        else:
            held += interval.low <= TRUTH[draw] <= interval.high
    return held / (runs - without), without / runs


def table(runs, items=ITEMS):
    """Return the rows of the table: items, then a pair of shares for each kind of values and of sizes."""
    return [[n, *(simulate(n, draw, runs, unequal=u) for draw in TRUTH for u in (False, True))] for n in items]


def cell(held, without):
    """Return a cell of the table."""
    return f"{held:.1%}" + (f" ({without:.1%} none)" if without else "")


if __name__ == "__main__":
    columns = [f"{draw.__name__}, {sizes}" for draw in TRUTH for sizes in ("equal", "unequal")]
    print(f"| items | {' | '.join(columns)} |")
    print("|" + "---|" * (1 + len(columns)))
    for number in ITEMS:
        ((_, *cells),) = table(2000, (number,))
        print(f"| {number} | {' | '.join(cell(*shares) for shares in cells)} |", flush=True)
