"""Measure how often the one-sided 95 % bounds of a paired worsening hold, and what gates on them decide.

Run as a script with the name of a table, ``methods``, ``smooth``, ``counts``, ``counts-power``, ``restarts`` or
``power``, it prints that table of docs/evidence/coverage-paired.md (one to ten minutes each).
"""

import sys

import numpy as np
from scipy import special, stats

from pytest_genderbias.statistics.combiners import COMBINERS, Combiner
from pytest_genderbias.statistics.inference import paired
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.statistics.inference.over_restarts import compare_restarts
from pytest_genderbias.statistics.inference.paired import compare_items

ITEMS = (12, 60, 164)
MANY = (60, 164, 600)
RESTARTS = (2, 3, 5, 10)
RESAMPLES, EXCHANGES = 499, 199  #: exchanges are fewer than a comparison draws, so that thousands of them take minutes


def names(n):
    return np.array([f"{i:04d}" for i in range(n)])


def own_sums(labels, sums, value, over, smooth=True, columns=None):
    """Return sums of a statistic of one's own; with ``columns``, ``value`` makes the function from the names of the
    sums.
    """
    name = f"own {id(value)} {smooth} {columns is not None}"

    def combine(totals, parameters, names):
        return value(totals) if columns is None else value(names)(totals)

    COMBINERS[name] = Combiner(combine, smooth, named=columns is not None)  # which keeps the function, and so its id
    return ItemSums(labels, sums, name, over, columns=columns)


# Means over cases: each population draws d, the worsening of each item, and knows its mean


def normal(rng, n):
    return rng.normal(0.1, 1.0, n)


def exponential(rng, n):
    """A long tail towards worse."""
    return rng.exponential(1.0, n) - 1.0


def ties(rng, n):
    """Seven of ten items do not change."""
    return (rng.random(n) < 0.3) * rng.normal(0.5, 1.0, n)


def some(share):
    """Return a population of which a share changes by a lot, and nothing else."""

    def draw(rng, n):
        return (rng.random(n) < share) * rng.normal(1.0, 0.3, n)

    draw.__name__ = f"{share:.0%} change"
    return draw


MEANS = {normal: 0.1, exponential: 0.0, ties: 0.15, some(0.2): 0.2, some(0.05): 0.05, some(0.01): 0.01}


def mean_pair(draw, unequal=False):
    """Return a maker of sums then and now: 40 cases an item, or 5 to 75 with scatter of their own."""

    def make(rng, n):
        counts = rng.integers(5, 76, n).astype(float) if unequal else np.full(n, 40.0)
        then = counts * rng.normal(0.0, 1.0, n)
        now = then + counts * draw(rng, n) + unequal * np.sqrt(counts) * rng.normal(0.0, 0.5, n)
        return mean_sums(names(n), then, counts, "items"), mean_sums(names(n), now, counts, "items")

    return make


# Other statistics, all of them farther from 0 is worse: then and now share four fifths of an item's deviation


def pearson(totals):
    n, x, y, xx, yy, xy = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y))


def slope(totals):
    n, x, y, xx, _, xy = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (n * xy - x * y) / (n * xx - x * x)


def effect_size(totals):
    n, y, yy = np.moveaxis(totals, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return y / n / np.sqrt(yy / n - np.square(y / n))


def two_alike(draw, n):
    shared, first, second = (draw(n) for _ in range(3))
    return [np.sqrt(0.8) * shared + np.sqrt(0.2) * own for own in (first, second)]


def line_pair(value, then, now, skewed=False):
    def make(rng, n):
        draw = (lambda size: rng.exponential(size=size) - 1) if skewed else (lambda size: rng.normal(size=size))
        x, found = draw(n), []
        for deviation, r in zip(two_alike(draw, n), (then, now), strict=True):
            y = r * x + np.sqrt(1 - r * r) * deviation
            sums = np.stack([np.ones(n), x, y, x * x, y * y, x * y], axis=1)
            found.append(own_sums(names(n), sums, value, "items"))
        return found

    return make


def location_pair(value, then, now):
    def make(rng, n):
        found = []
        for deviation, mean in zip(two_alike(lambda size: rng.normal(size=size), n), (then, now), strict=True):
            y = mean + deviation
            if value is None:
                found.append(mean_sums(names(n), y, np.ones(n), "items"))
            else:
                found.append(own_sums(names(n), np.stack([np.ones(n), y, y * y], axis=1), value, "items"))
        return found

    return make


SMOOTH = {
    "r, .3 to .6": (line_pair(pearson, 0.3, 0.6), 0.3),
    "r, .3 to .6, skewed": (line_pair(pearson, 0.3, 0.6, skewed=True), 0.3),
    "r, 0 to .3": (line_pair(pearson, 0.0, 0.3), 0.3),
    "slope, .3 to .6, skewed": (line_pair(slope, 0.3, 0.6, skewed=True), 0.3),
    "effect size, .5 to 1": (location_pair(effect_size, 0.5, 1.0), 0.5),
    "size of a mean, 0 to 0": (location_pair(None, 0.0, 0.0), 0.0),
    "size of a mean, 0 to .1": (location_pair(None, 0.0, 0.1), 0.1),
    "size of a mean, -.05 to .1": (location_pair(None, -0.05, 0.1), 0.05),
}


# Counts of significant tests: persons of two groups, 30 fills, each supplied more or less often and to one group more

FILLS = 30
RARE_TO_COMMON = np.linspace(-2.5, 0.5, FILLS)  #: log odds of a fill
EFFECTS = {"nothing": (0.0, 0.0), "equal effects": (0.7, 0.7), "new effects": (0.0, 0.7), "larger effects": (0.4, 0.8)}


def count_of(sizes):
    """Return the statistic: fills whose chi-square passes Bonferroni over those that were supplied."""
    cut = np.r_[np.inf, stats.chi2.isf(0.05 / np.arange(1, FILLS + 1), 1)]

    def value(totals):
        first, second = totals[..., 0::2], totals[..., 1::2]
        rate = (first + second) / sizes.sum()
        varies = rate * (1 - rate)
        square = np.square(first - rate * sizes[0]) * (1 / sizes[0] + 1 / sizes[1])
        supplied = (rate > 0).sum(axis=-1)
        return ((varies > 0) & (square > cut[supplied][..., None] * varies)).sum(axis=-1).astype(float)

    return value


def odds(effect):
    """Return log odds by group and fill; every third fill depends on the group."""
    depends = np.where(np.arange(FILLS) % 3 == 0, effect, 0.0)
    return np.stack([RARE_TO_COMMON - depends, RARE_TO_COMMON + depends])


def count_pair(then, now):
    """Return a maker of sums: nine of ten (person, fill) keep their luck from then to now."""

    def make(rng, n):
        group, found = np.arange(n) % 2, []
        luck = rng.random((n, FILLS))
        for effect, fresh in ((then, 0.0), (now, 0.1)):
            u = np.where(rng.random((n, FILLS)) < fresh, rng.random((n, FILLS)), luck)
            cells = np.zeros((n, FILLS, 2))
            cells[np.arange(n), :, group] = u < special.expit(odds(effect))[group]
            found.append(
                own_sums(names(n), cells.reshape(n, -1), count_of(np.bincount(group)), "persons", smooth=False)
            )
        return found

    return make


def expected_count(effect, n, runs=4000):
    """Return the mean count over very many suites of n persons."""
    rng, sizes = np.random.default_rng(99), np.bincount(np.arange(n) % 2)
    counts = rng.binomial(sizes[:, None], special.expit(odds(effect)), size=(runs, 2, FILLS))
    return count_of(sizes)(counts.transpose(0, 2, 1).reshape(runs, -1).astype(float)).mean()


# Measurements


def as_it_is(value):
    return value


def simulate(make, truth, items, runs, distance=as_it_is, tolerance=None, seed=0):
    """Return shares of comparisons: low holds, high holds, called regressed, called pass, without a change in any
    item.
    """
    rng = np.random.default_rng([seed, items])
    limit = truth if tolerance is None else tolerance
    found = np.zeros(5)
    for _ in range(runs):
        d = compare_items(*make(rng, items), distance, max(limit, 0.0), repeats=EXCHANGES)
        held = d.low <= truth + 1e-9, truth <= d.high + 1e-9
        found += [*held, d.p <= 0.05, d.high < limit - 1e-9, not d.moved]
    return found / runs


def upper_bounds(pair, rng, n, distance):
    """Return the upper bounds of two methods that were not chosen, Student's t and percentiles, and of the chosen one
    without regard to sides.
    """
    both = paired._Pair(*pair, distance)
    drawn = paired._weights(rng, RESAMPLES, n)
    values = both.bad_now(drawn @ both.now) - both.bad_then(drawn @ both.then)
    values = np.sort(np.where(np.isfinite(values), values, np.inf))
    return [
        both.worsening + stats.t.ppf(0.95, n - 1) * both.effects().error,
        values[round(0.95 * (RESAMPLES + 1)) - 1],
        both.effects().bounds(0.0, 0.95)[1],
    ]


METHODS = ("Student's t", "percentiles", "chosen")


def methods_rows(runs=1000, n=12):
    """Return how often the upper bound holds, by method, and how often it cannot be had."""
    rows = {draw.__name__: (mean_pair(draw), MEANS[draw], as_it_is) for draw in (normal, exponential, ties)}
    rows |= {label: (make, truth, np.abs) for label, (make, truth) in SMOOTH.items()}
    for label, (make, truth, distance) in rows.items():
        rng = np.random.default_rng([0, n])
        found = np.array([upper_bounds(make(rng, n), rng, n, distance) for _ in range(runs)])
        yield label, (found >= truth - 1e-9).mean(axis=0).tolist()


def smooth_rows(runs=1000):
    for label, (make, truth) in SMOOTH.items():
        yield label, [simulate(make, truth, n, runs, np.abs) for n in ITEMS]


def counts_rows(runs=500):
    for label, (then, now) in EFFECTS.items():
        cells = []
        for n in ITEMS[1:]:
            truth = expected_count(now, n) - expected_count(then, n)
            cells.append(simulate(count_pair(then, now), truth, n, runs))
        yield label, cells


def counts_power_rows(runs=100, sizes=MANY):
    """Return the true worsening, and what gates without tolerance decide."""
    for label in ("new effects", "larger effects"):
        then, now = EFFECTS[label]
        cells = []
        for n in sizes:
            truth = expected_count(now, n) - expected_count(then, n)
            cells.append((truth, simulate(count_pair(then, now), truth, n, runs, tolerance=0.0)))
        yield label, cells


def power_rows(runs=1000, tolerance=0.25):
    for worsening in (0.0, 0.25, 0.5, 0.75, 1.0):

        def draw(rng, n, worsening=worsening):
            return rng.normal(worsening, 1.0, n)

        yield f"{worsening:g}", [simulate(mean_pair(draw), worsening, n, runs, tolerance=tolerance) for n in ITEMS]


def restarts_rows(runs=2000):
    """Values of restarts of the same training, n then and n now: the true worsening is 0."""
    for draw in ("normal", "exponential"):
        cells = []
        for n in RESTARTS:
            rng = np.random.default_rng([0, n])
            found = np.zeros(5)
            for _ in range(runs):
                d = compare_restarts(getattr(rng, draw)(size=n), getattr(rng, draw)(size=n), as_it_is)
                found += [d.low <= 0, d.high >= 0, d.p <= 0.05, d.high < 0, 0]
            cells.append(found / runs)
        yield draw, cells


def held(found):
    low, high, *_, same = found
    return f"{low:.1%} / {high:.1%}" + (f" ({same:.0%})" if same >= 0.005 else "")


def decided(found):
    _, _, regressed, passed, _ = found
    return f"{regressed:.1%} / {passed:.1%} / {1 - regressed - passed:.1%}"


def held_above(share):
    return f"{share:.1%}"


def called(found):
    truth, decisions = found
    return f"{decisions[2]:.0%} (true worsening {truth:.1f})"


TABLES = {
    "methods": ("12 items", METHODS, "", methods_rows, held_above),
    "smooth": ("statistic, then to now", ITEMS, "items", smooth_rows, held),
    "counts": ("population", ITEMS[1:], "persons", counts_rows, held),
    "counts-power": ("population", MANY, "persons", counts_power_rows, called),
    "restarts": ("values", RESTARTS, "restarts a side", restarts_rows, held),
    "power": ("true worsening", ITEMS, "items", power_rows, decided),
}

if __name__ == "__main__":
    head, sizes, what, rows, cell = TABLES[sys.argv[1]]
    print(f"| {head} | {' | '.join(f'{n} {what}'.strip() for n in sizes)} |")
    print("|" + "---|" * (1 + len(sizes)))
    for label, found in rows():
        print(f"| {label} | {' | '.join(map(cell, found))} |", flush=True)
