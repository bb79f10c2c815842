"""Measure how often the 95 % intervals of correlations, slopes and gap sums hold the truth.

Run as a script with the name of a table, ``items``, ``sums`` or ``classes``, it prints that table of
docs/evidence/coverage-correlations.md (two to ten minutes each).
"""

import sys

import numpy as np
from scipy import stats

from pytest_genderbias.statistics import correlation
from pytest_genderbias.statistics.correlation import pearson_interval, slope_interval
from pytest_genderbias.statistics.group_gaps import beside_shares, class_gaps, gap_sum_interval, hits_and_trials

RUNS = 1000

# Items: r and slope of y on x, both drawn anew for every item

ITEMS = (12, 30, 60)
CORRELATIONS = (0.0, 0.6, 0.9)


def normal(rng, n):
    """Return x and the deviation of y from the line, both with mean 0 and variance 1."""
    return rng.normal(size=n), rng.normal(size=n)


def skewed(rng, n):
    """Draw both with a long tail."""
    return rng.exponential(size=n) - 1, rng.exponential(size=n) - 1


def heteroscedastic(rng, n):
    """Draw x like shares of women in occupations, many near 0 and 1; y scatters the more the larger the share."""
    x = rng.beta(0.7, 0.9, n)
    mean, variance = 0.7 / 1.6, 0.7 * 0.9 / (1.6**2 * 2.6)
    scatter = (0.3 + 2 * x) / np.sqrt(0.09 + 1.2 * mean + 4 * (variance + mean**2))
    return (x - mean) / np.sqrt(variance), scatter * rng.normal(size=n)


def only_extremes_scatter(rng, n):
    """Let y scatter in proportion to |x|: the items that decide on r are the least certain ones."""
    x = rng.normal(size=n)
    return x, np.abs(x) * rng.normal(size=n)


POPULATIONS = (normal, skewed, heteroscedastic, only_extremes_scatter)


def fisher(x, y):
    """Return Fisher's interval of r."""
    z, reach = np.arctanh(stats.pearsonr(x, y).statistic), stats.norm.ppf(0.975) / np.sqrt(len(x) - 3)
    return np.tanh(z - reach), np.tanh(z + reach)


def student_hc3(x, y):
    """Return the interval of the slope by Student's t on its HC3 error."""
    b, error = correlation._slope(x, y)
    reach = stats.t.ppf(0.975, len(x) - 2) * error
    return b - reach, b + reach


def bounds(interval):
    return None if interval is None else (interval.low, interval.high)


METHODS = {
    "r": lambda x, y: bounds(pearson_interval(x, y, "items")),
    "r, Fisher": fisher,
    "slope": lambda x, y: bounds(slope_interval(x, y, "items")),
    "slope, t": student_hc3,
}


def simulate_items(draw, rho, items, runs, seed=0, methods=tuple(METHODS)):
    """Return, for each method, the share of intervals that hold, of those given. Variances are 1, so r and slope are
    both rho.
    """
    rng = np.random.default_rng([seed, items, round(10 * rho)])
    held, given = dict.fromkeys(methods, 0), dict.fromkeys(methods, 0)
    for _ in range(runs):
        x, deviation = draw(rng, items)
        y = rho * x + np.sqrt(1 - rho**2) * deviation
        for name in methods:
            found = METHODS[name](x, y)
            if found is not None:
                given[name] += 1
                held[name] += found[0] <= rho <= found[1]
    return [held[name] / given[name] for name in methods]


# Classes: true positives, false positives and precision of a classifier with known rates

SIZES = {"3 to 9": (3, 9), "10": (10, 10), "10 to 30": (10, 30), "10 to 200": (10, 200), "200": (200, 200)}
SPREADS = (0.0, 0.05, 0.2)
RATES = ("true_positive", "false_positive", "precision")


def classifier(rng, classes, spread):
    """Return P(predicted | gold, group), shape (2, K, K): right with some 80 %, more or less by group; wrong ones at
    random.
    """
    right = rng.beta(16, 4, classes)
    gap = rng.normal(0, spread, classes)
    p = np.clip(np.stack([right + gap / 2, right - gap / 2]), 0.02, 0.98)
    wrong = rng.dirichlet(np.full(classes, 0.5), classes) * (1 - np.eye(classes))
    wrong /= wrong.sum(axis=-1, keepdims=True)
    return p[:, :, None] * np.eye(classes) + (1 - p[:, :, None]) * wrong


def true_sum(expected, rate, classes):
    """Return the sum of absolute gaps of expected counts, over the classes that have a gap in the sample."""
    hits, trials = hits_and_trials(np.rint(expected * 1e9), rate)
    rates = hits / np.maximum(trials, 1)
    return np.abs(rates[0] - rates[1])[classes].sum()


def plain_bootstrap(rng, gaps, resamples=299):
    """Return the percentile interval of the sum with each cell drawn again."""
    drawn = rng.binomial(gaps.trials, gaps.rates, size=(resamples, *gaps.trials.shape)) / gaps.trials
    return np.quantile(np.abs(drawn[:, 0] - drawn[:, 1]).sum(axis=-1), [0.025, 0.975])


def simulate_sums(sizes, spread, runs, seed=0, classes=28):
    """Return shares of intervals that hold: the sum for each rate, and a plain bootstrap of that of the true
    positives.
    """
    rng = np.random.default_rng([seed, *sizes, round(100 * spread)])
    held = np.zeros(4)
    for _ in range(runs):
        p = classifier(rng, classes, spread)
        gold = rng.integers(sizes[0], sizes[1] + 1, (2, classes))
        tables = rng.multinomial(gold, p)
        for i, rate in enumerate(RATES):
            gaps = class_gaps(tables, rate)
            found, truth = gap_sum_interval(gaps), true_sum(gold[:, :, None] * p, rate, gaps.classes)
            held[i] += found.low <= truth <= found.high
            if i == 0:
                low, high = plain_bootstrap(rng, gaps)
                held[3] += low <= truth <= high
    return held / runs


# Gaps beside shares of women: other classes, or other persons

CLASSES = (12, 28, 60)


def professions(rng, n):
    """Return shares of women, true rates of both groups (their gap grows with the share), and persons (10 to 200 a
    cell).
    """
    x = rng.beta(0.7, 0.9, n)
    right = rng.beta(16, 4, n)
    gap = 0.35 * (x - 0.44) + rng.normal(0, 0.05, n)
    p = np.clip(np.stack([right + gap / 2, right - gap / 2]), 0.02, 0.98)
    size = rng.uniform(0, 190, n)
    return x, p, np.rint(10 + np.stack([x * size, (1 - x) * size])).astype(int)


def tables_of(hits, trials):
    """Return tables with these recognised; every wrong one goes to an answer that is no class."""
    n = trials.shape[-1]
    tables = np.zeros((2, n, n + 1), dtype=int)
    tables[:, np.arange(n), np.arange(n)] = hits
    tables[:, :, n] = trials - hits
    return tables


def population(seed=0, n=400_000):
    """Return r and slope of measured gaps on shares over very many classes."""
    rng = np.random.default_rng(seed)
    x, p, trials = professions(rng, n)
    rates = rng.binomial(trials, p) / trials
    return correlation.pearson(x, rates[0] - rates[1]), correlation.slope(x, rates[0] - rates[1])


def bootstrap_over_persons(rng, x, gaps, resamples=299):
    """Return the percentile interval of r with each cell drawn again."""
    drawn = rng.binomial(gaps.trials, gaps.rates, size=(resamples, *gaps.trials.shape)) / gaps.trials
    u, v = correlation._standardised(x), correlation._standardised(drawn[:, 0] - drawn[:, 1])
    return np.quantile((u * v).mean(axis=-1), [0.025, 0.975])


def simulate_classes(classes, runs, seed=0):
    """Return shares that hold: r and slope over classes, bootstrapped r over persons."""
    rng = np.random.default_rng([seed, classes])
    r, b = population()
    held = np.zeros(3)
    for _ in range(runs):
        x, p, trials = professions(rng, classes)
        gaps = class_gaps(tables_of(rng.binomial(trials, p), trials), "true_positive")
        over_classes = (
            pearson_interval(*beside_shares(gaps, x), "classes"),
            slope_interval(*beside_shares(gaps, x), "classes"),
        )
        low, high = bootstrap_over_persons(rng, x, gaps)
        held += [
            over_classes[0].low <= r <= over_classes[0].high,
            over_classes[1].low <= b <= over_classes[1].high,
            low <= correlation.pearson(x, p[0] - p[1]) <= high,
        ]
    return held / runs


# Tables


def items_rows(runs):
    for draw in POPULATIONS:
        for rho in CORRELATIONS:
            shares = np.transpose([simulate_items(draw, rho, n, runs) for n in ITEMS]).ravel()
            yield [f"{draw.__name__}, {rho}", *shares]


def sums_rows(runs):
    for name, sizes in SIZES.items():
        for spread in SPREADS:
            yield [f"{name} persons, {spread}", *simulate_sums(sizes, spread, runs)]


def classes_rows(runs):
    for n in CLASSES:
        yield [f"{n} classes", *simulate_classes(n, runs)]


TABLES = {
    "items": (["population, r", *(f"{m}: {n}" for m in METHODS for n in ITEMS)], items_rows),
    "sums": (["cells, spread of true gaps", *RATES, "true_positive, plain bootstrap"], sums_rows),
    "classes": (
        ["classes", "r, over classes", "slope, over classes", "r, over persons, plain bootstrap"],
        classes_rows,
    ),
}

if __name__ == "__main__":
    head, rows = TABLES[sys.argv[1]]
    print(f"| {' | '.join(head)} |")
    print("|" + "---|" * len(head))
    for label, *cells in rows(RUNS):
        print(f"| {label} | {' | '.join(f'{c:.1%}' for c in cells)} |", flush=True)
