"""Measure the bounds of a root mean square of gaps. Run as a script it prints the tables of docs/coverage-gaps.md.

Each cell, one class and gender, has its own persons and rates. Two models answer for the same persons: for 70 % of them one random
number decides both answers.
"""

import sys

import numpy as np

from pytest_genderbias.statistics.gap_rms import rms_of_gaps
from pytest_genderbias.statistics.inference.gap_bounds import change_p, root_p, squared_gaps

CLASSES = 28
SIZES = ("4", "30", "200", "600", "4 to 600")
ACCURACIES = ((0.95, 0.95), (0.75, 0.75), (0.95, 0.75), (0.75, 0.95))
GAPS = ((0.0, 0.0), (0.1, 0.1), (0.0, 0.1), (0.1, 0.0), (0.0, 0.2))
SHARED = 0.7
SEED = 0


def persons(size, classes=CLASSES):
    """Return the number of persons by class and gender; a range is drawn once, evenly on a logarithmic scale."""
    low, _, high = size.partition(" to ")
    if not high:
        return np.full((classes, 2), int(low))
    drawn = np.random.default_rng(0).uniform(np.log(int(low)), np.log(int(high)), (classes, 2))
    return np.exp(drawn).round().astype(int)


def rates(accuracy, rms, classes=CLASSES):
    """Return the rate of each class and gender: normal gaps of this root mean square around rates of this mean."""
    rng = np.random.default_rng(7)
    middle = accuracy + rng.uniform(-0.5, 0.5, classes) * (1 - accuracy)
    gaps = rng.standard_normal(classes)
    gaps *= rms / np.sqrt(np.square(gaps).mean())
    return np.clip(np.stack([middle + gaps / 2, middle - gaps / 2], axis=-1), 0.005, 0.995)


def answers(rng, n, then, now, runs):
    """Return how many persons are right in both, only then, only now, and in neither: shape (runs, classes, 2, 4)."""
    both = SHARED * np.minimum(then, now) + (1 - SHARED) * then * now
    return rng.multinomial(
        n, np.stack([both, then - both, now - both, 1 - then - now + both], axis=-1), (runs, *n.shape)
    )


def gaps_and_errors(counts, n):
    """Return the gaps of both models, and the covariances of their errors, written another way than in the package."""
    then, now = (counts[..., 0] + counts[..., 1]) / n, (counts[..., 0] + counts[..., 2]) / n
    together = counts[..., 0] / n - then * now
    errors = np.empty((*counts.shape[:2], 2, 2))
    for i, j, product in ((0, 0, then * (1 - then)), (1, 1, now * (1 - now)), (0, 1, together), (1, 0, together)):
        errors[..., i, j] = (product / (n - 1)).sum(axis=-1)
    return np.stack([then[..., 0] - then[..., 1], now[..., 0] - now[..., 1]], axis=-1), errors


def simulate(size, accuracies, rms, runs, seed=SEED):
    """Return shares of runs: worse than it is, better than it is, each at 5 % and .2 %; worse than before; interval below, above.

    The first four are errors: bounds or p values that exclude the true change. The fifth is the share in which the change is found
    to be above 0.
    """
    rng = np.random.default_rng([seed, *size.encode(), *(int(1000 * x) for x in (*accuracies, *rms))])
    n = persons(size)
    then, now = (rates(a, g) for a, g in zip(accuracies, rms, strict=True))
    true = [float(np.sqrt(np.square(x[:, 0] - x[:, 1]).mean())) for x in (then, now)]
    gaps, errors = gaps_and_errors(answers(rng, n, then, now, runs), n)
    worse, better = change_p(squared_gaps(gaps, errors), np.full(runs, true[1] - true[0]))
    found = change_p(squared_gaps(gaps, errors), np.zeros(runs))[0]
    above, below = root_p(squared_gaps(gaps[..., 1:], errors[..., 1:, 1:]), np.full(runs, true[1]))
    shares = [(p <= level).mean() for p in (worse, better) for level in (0.05, 0.002)]
    return [*true, *shares, (found <= 0.05).mean(), (above <= 0.025).mean(), (below <= 0.025).mean()]


def means(size, accuracy, rms, runs, seed=SEED):
    """Return the true root mean square, the mean of the squared measured one with its sign, and the mean of the sum of absolute gaps."""
    rng = np.random.default_rng([seed, *size.encode(), int(1000 * accuracy), int(1000 * rms)])
    n, rate = persons(size), rates(accuracy, rms)
    gaps, errors = gaps_and_errors(answers(rng, n, rate, rate, runs), n)
    values = rms_of_gaps(gaps[..., 0], errors[..., 0, 0])
    true = np.abs(rate[:, 0] - rate[:, 1])
    squares = values * np.abs(values)
    return [
        np.sqrt(np.square(true).mean()),
        squares.mean(),
        values.mean(),
        true.sum(),
        np.abs(gaps[..., 0]).sum(axis=1).mean(),
    ]


def comparisons(runs):
    """Yield the rows of the table of comparisons."""
    for size in SIZES:
        for accuracies in ACCURACIES:
            for rms in GAPS:
                true_then, true_now, *shares = simulate(size, accuracies, rms, runs)
                worse, worse_tail, better, better_tail, found, low, high = (f"{100 * x:.1f}" for x in shares)
                power = found if true_now > true_then + 0.01 else "-"
                change = f"{accuracies[0]:.2f} -> {accuracies[1]:.2f}"
                root = f"{true_then:.3f} -> {true_now:.3f}"
                yield [size, change, root, worse, worse_tail, better, better_tail, power, low, high]


def noise(runs):
    """Yield the rows of the table of means."""
    for size in SIZES:
        for rms in (0.0, 0.1):
            for accuracy in (0.75, 0.85, 0.95):
                root, square, value, true_sum, total = means(size, accuracy, rms, runs)
                yield [
                    size,
                    f"{accuracy:.2f}",
                    f"{root**2:.4f}",
                    f"{square:.4f}",
                    f"{root:.3f}",
                    f"{value:.3f}",
                    f"{true_sum:.2f}",
                    f"{total:.2f}",
                ]


TABLES = {
    "comparisons": (
        ("persons", "accuracy", "true root", "worse", ".2 %", "better", ".2 %", "found", "below", "above"),
        comparisons,
        4000,
    ),
    "noise": (
        ("persons", "accuracy", "true square", "measured", "true root", "measured", "true sum", "measured"),
        noise,
        2000,
    ),
}

if __name__ == "__main__":
    header, rows, times = TABLES[sys.argv[1]]
    print("|", " | ".join(header), "|")
    print("|", " | ".join("---" for _ in header), "|")
    for row in rows(int(sys.argv[2]) if len(sys.argv) > 2 else times):
        print("|", " | ".join(row), "|", flush=True)
