"""Measure how often a gate in a family of 30 wrongly says ``regressed``: the tail of a paired comparison at .17 %.

Run as a script with the name of a table, ``alarms``, ``power`` or ``betting``, it prints that table of docs/evidence/coverage-tails.md (half a
minute each).
"""

import sys

import numpy as np
from scipy import stats

from pytest_genderbias.statistics.inference import paired
from pytest_genderbias.statistics.inference.sequences import mean_bounds
from pytest_genderbias.statistics.inference.tails import TAIL, tail_p

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


#: Populations of items' changes with the mean 0. A long tail towards better is what makes the mean of few items look worse than it is.
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


def p_values(changes, weights):
    """Return p values of rows of changes, (S, n), against a worsening of 0: Student's, the bootstrap-t's, and the one of a gate.

    This is what ``compare_items`` computes for means of items of equal weight, on many rows at once.
    """
    n, repeats = changes.shape[1], len(weights)
    mean, deviation = changes.mean(axis=1), changes.std(axis=1, ddof=1)
    varies = deviation > 1e-9
    t = np.divide(mean * n**0.5, deviation, out=np.full(len(mean), -np.inf), where=varies)
    centred = changes - mean[:, None]
    moved = centred @ weights.T / n
    squares = np.maximum(np.square(centred) @ weights.T / n - np.square(moved), 0.0)
    errors = np.sqrt(squares / (n - 1))
    flat = errors <= 1e-5 * (deviation / n**0.5)[:, None]
    drawn = np.where(flat, np.copysign(np.inf, moved), moved / np.where(flat, 1.0, errors))
    boot = (1 + (drawn >= t[:, None]).sum(axis=1)) / (repeats + 1)
    gate = boot.copy()
    for i in np.flatnonzero(boot < TAIL):
        gate[i] = max(boot[i], min(TAIL, tail_p(t[i], changes[i])))
    return np.stack([stats.t.sf(t, n - 1), boot, gate])


def shares(draw, n, pairs, resamples, seed=0, shift=0.0):
    """Return the shares of pairs that each p value calls worse at LEVEL."""
    weights = paired._weights(np.random.default_rng(paired._SEED), resamples, n)
    rng, size = np.random.default_rng([seed, n]), min(BLOCK, pairs)
    blocks = (p_values(draw(rng, (size, n)) + shift, weights) for _ in range(pairs // size))
    return np.mean([(block <= LEVEL).mean(axis=1) for block in blocks], axis=0)


def print_table(first, header, rows):
    print(f"| {first} | " + " | ".join(header) + " |")
    print("|" + "---|" * (len(header) + 1))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def in_percent(found):
    return " / ".join(f"{100 * share:.2f}" for share in found) + " %"


def alarms():
    rows = ((name, [in_percent(shares(draw, n, 20_000, 1999)) for n in ITEMS]) for name, draw in POPULATIONS.items())
    print_table("population", [f"{n} items" for n in ITEMS], rows)


def power():
    """Of a worsening, in standard deviations of the items' changes, that Student's t finds in about 80 %."""
    rows = []
    for name in ("normal", "exponential, tail worse"):
        shifts = [(stats.t.isf(LEVEL, n - 1) + 0.84) / n**0.5 for n in ITEMS]
        found = [
            in_percent(shares(POPULATIONS[name], n, 4_000, 1999, 1, s)) for n, s in zip(ITEMS, shifts, strict=True)
        ]
        rows.append((name, found))
    print_table("population", [f"{n} items" for n in ITEMS], rows)


def betting():
    """The shift, in standard deviations, is three times the one of ``power``; the changes lie in [-1, 1] with a deviation of .05."""
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
