"""Measure how often a gate in a family of 30 wrongly says ``regressed``: the tail of a paired comparison at .17 %.

Run as a script with the name of a table, ``alarms``, ``power`` or ``betting``, it prints that table of
docs/evidence/coverage-tails.md (half a minute each).
"""

import sys
from pathlib import Path

import numpy as np
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent))  # beside the script of bounds over items
from item_coverage import effects

from pytest_genderbias.statistics.inference.sequences import mean_bounds

ITEMS = (12, 60, 164)
LEVEL = 0.05 / 30
BLOCK = 500


def rare(share):
    """Return changes of a share of the items towards worse; the others stay."""

    def draw(rng, shape):
        return (rng.random(shape) < share) * rng.normal(1.0, 0.3, shape) - share

    return draw


def mirrored(draw):
    return lambda rng, shape: -draw(rng, shape)


def exponential(rng, shape):
    return rng.exponential(size=shape) - 1.0


def log_normal(rng, shape):
    return rng.lognormal(size=shape) - np.exp(0.5)


#: Populations of items' changes with the mean 0. A long tail towards better is what makes the mean of few items look
#: worse than it is.
POPULATIONS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "Student's t, 3 degrees": lambda rng, shape: rng.standard_t(3, size=shape),
    "exponential, tail worse": exponential,
    "exponential, tail better": mirrored(exponential),
    "log-normal, tail worse": log_normal,
    "log-normal, tail better": mirrored(log_normal),
    "3 of 10 items change, better": mirrored(rare(0.3)),
    "1 of 10 items changes, better": mirrored(rare(0.1)),
}


def p_values(changes):
    """Return p values of rows of changes, (S, n), against a worsening of 0: Student's, and the one of a gate."""
    n = changes.shape[1]
    mean, deviation = changes.mean(axis=1), changes.std(axis=1, ddof=1)
    t = np.divide(mean * n**0.5, deviation, out=np.full(len(mean), -np.inf), where=deviation > 1e-9)
    student = stats.t.sf(t, n - 1)
    gate = student.copy()
    for i in np.flatnonzero((student < 2 * LEVEL) | (deviation <= 1e-9)):  # the others are not called worse
        gate[i] = effects(changes[i]).bounds(0.0, 1 - LEVEL)[2]
    return np.stack([student, np.maximum(student, gate)])


def shares(draw, n, pairs, seed=0, shift=0.0):
    """Return the shares of pairs that each p value calls worse at LEVEL."""
    rng, size = np.random.default_rng([seed, n]), min(BLOCK, pairs)
    blocks = (p_values(draw(rng, (size, n)) + shift) for _ in range(pairs // size))
    return np.mean([(block <= LEVEL).mean(axis=1) for block in blocks], axis=0)


def print_table(first, header, rows):
    print(f"| {first} | " + " | ".join(header) + " |")
    print("|" + "---|" * (len(header) + 1))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def in_percent(found):
    return " / ".join(f"{100 * share:.2f}" for share in found) + " %"


def alarms():
    rows = ((name, [in_percent(shares(draw, n, 20_000)) for n in ITEMS]) for name, draw in POPULATIONS.items())
    print_table("population", [f"{n} items" for n in ITEMS], rows)


def power():
    """Of a worsening, in standard deviations of the items' changes, that Student's t finds in about 80 %."""
    rows = []
    for name in ("normal", "exponential, tail worse"):
        shifts = [(stats.t.isf(LEVEL, n - 1) + 0.84) / n**0.5 for n in ITEMS]
        found = [in_percent(shares(POPULATIONS[name], n, 4_000, 1, s)) for n, s in zip(ITEMS, shifts, strict=True)]
        rows.append((name, found))
    print_table("population", [f"{n} items" for n in ITEMS], rows)


def betting():
    """The shift, in standard deviations, is three times the one of ``power``; the changes lie in [-1, 1] with a
    deviation of .05.
    """
    rows = []
    for deviation in (0.05, 0.2):
        cells = []
        for n in ITEMS:
            rng = np.random.default_rng([2, n])
            shift = 3 * (stats.t.isf(LEVEL, n - 1) + 0.84) / n**0.5
            changes = np.clip(deviation * (rng.normal(size=(100, n)) + shift), -1, 1)
            low = [mean_bounds((row + 1) / 2, 10**9, 1 - 2 * LEVEL)[0] for row in changes]
            cells.append(f"{np.mean(np.array(low) > 0.5):.0%}")
        rows.append((f"{deviation:g}", cells))
    print_table("standard deviation of an item's change", [f"{n} items" for n in ITEMS], rows)


if __name__ == "__main__":
    {"alarms": alarms, "power": power, "betting": betting}[sys.argv[1]]()
