"""Measure the bounds of a root mean square of gaps. Run as a script it prints the tables of
docs/evidence/coverage-gaps.md.

Each cell, one class and gender, has its own persons and rates. Two models answer for the same persons: for 70 % of them
one random number decides both answers.
"""

import sys

import numpy as np

from pytest_genderbias.statistics.block_tables import BlockTables
from pytest_genderbias.statistics.count_sums import accuracy_sums, gap_sums
from pytest_genderbias.statistics.gap_rms import change_p, rms_of_gaps, root_p, squared_gaps, unit_gaps
from pytest_genderbias.statistics.inference.paired import compare_items

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
    """Return shares of runs: worse than it is, better than it is, each at 5 % and .2 %; worse than before; interval
    below, above.

    The first four are errors: bounds or p values that exclude the true change. The fifth is the share in which the
    change is found to be above 0.
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
    """Return the true root mean square, the mean of the squared measured one with its sign, and the mean of the sum of
    absolute gaps.
    """
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
                yield row_of(size, accuracies, simulate(size, accuracies, rms, runs))


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


def pairs(rng, n, then, now, runs):
    """Return gaps and covariances of classes with n pairs of cases, one of each group: one number decides half of the
    answers of a pair.

    ``then`` and ``now`` are rates by class and group. For 70 % of the cases one number decides the answers of both
    models.
    """
    shape = (runs, len(then), n, 2)
    pair = rng.random((*shape[:3], 1))
    luck = np.where(rng.random((*shape[:3], 1)) < 0.5, pair, rng.random(shape))
    again = np.where(rng.random(shape) < SHARED, luck, rng.random(shape))
    right = [(x < rate[:, None, :]).astype(float) for x, rate in ((luck, then), (again, now))]
    found = [unit_gaps(np.moveaxis(x, 1, -1), np.ones((runs, n, 2, len(then))), paired=True) for x in right]
    influences = np.stack([side.influences for side in found], axis=-1)
    return np.stack([side.gaps for side in found], axis=-1), np.einsum("rukm,rukn->rkmn", influences, influences)


def simulate_pairs(n, accuracies, rms, runs, seed=SEED, classes=40):
    """Return, of simulated comparisons of pairs, the shares of :func:`simulate`."""
    rng = np.random.default_rng([seed, n, *(int(1000 * x) for x in (*accuracies, *rms))])
    then, now = (rates(a, g, classes) for a, g in zip(accuracies, rms, strict=True))
    true = [float(np.sqrt(np.square(x[:, 0] - x[:, 1]).mean())) for x in (then, now)]
    shares = []
    for _ in range(-(-runs // 500)):
        gaps, errors = pairs(rng, n, then, now, 500)
        worse, better = change_p(squared_gaps(gaps, errors), np.full(500, true[1] - true[0]))
        found = change_p(squared_gaps(gaps, errors), np.zeros(500))[0]
        above, below = root_p(squared_gaps(gaps[..., 1:], errors[..., 1:, 1:]), np.full(500, true[1]))
        errs = [(p <= level).mean() for p in (worse, better) for level in (0.05, 0.002)]
        shares.append([*errs, (found <= 0.05).mean(), (above <= 0.025).mean(), (below <= 0.025).mean()])
    return [*true, *np.mean(shares, axis=0).tolist()]


def paired_comparisons(runs):
    """Yield the rows of the table of pairs."""
    for n in (4, 10, 20):
        for accuracies in ((0.6, 0.6), (0.8, 0.6), (0.6, 0.8)):
            for rms in ((0.0, 0.0), (0.2, 0.2), (0.0, 0.2)):
                yield row_of(str(n), accuracies, simulate_pairs(n, accuracies, rms, runs))


def row_of(size, accuracies, shares):
    """Return a row of a table of comparisons."""
    true_then, true_now, *errs = shares
    worse, worse_tail, better, better_tail, found, low, high = (f"{100 * x:.1f}" for x in errs)
    power = found if true_now > true_then + 0.01 else "-"
    roots = f"{true_then:.3f} -> {true_now:.3f}"
    change = f"{accuracies[0]:.2f} -> {accuracies[1]:.2f}"
    return [size, change, roots, worse, worse_tail, better, better_tail, power, low, high]


def tables_of(rng, n, accuracies):
    """Return the tables by block of two unbiased classifiers of the same persons."""
    cells = n.ravel()
    cell = np.repeat(np.arange(len(cells)), cells)
    gold, group, block = cell // 2, cell % 2, rng.integers(0, 100, len(cell))
    shared, said = rng.random(len(cell)), []
    for accuracy in accuracies:
        rate = rates(accuracy, 0.0, len(n))[gold, 0]
        luck = np.where(rng.random(len(cell)) < SHARED, shared, rng.random(len(cell)))
        said.append(np.where(luck < rate, gold, (gold + rng.integers(1, len(n), len(cell))) % len(n)))
    names = [f"c{c:02}" for c in range(len(n))]
    return [BlockTables.of(names, block, group, gold, predicted) for predicted in said]


def sums_without_bias(size, accuracies, runs, seed=SEED):
    """Return how often unbiased classifiers are called worse at tolerance 0, in shares of runs.

    By the sum of absolute gaps; by it where the accuracy did not move; how often it moved; by the root mean square.
    """
    rng = np.random.default_rng([seed, *size.encode(), *(int(1000 * a) for a in accuracies)])
    called, unknown = [], np.full(CLASSES, np.nan)
    for _ in range(runs):
        sides = tables_of(rng, persons(size), accuracies)
        sums, roots = (
            compare_items(*(gap_sums(t, "true_positive", unknown, figure) for t in sides), lambda v: v, repeats=999)
            for figure in ("sum", "rms")
        )
        right = compare_items(*map(accuracy_sums, sides), lambda v: -v, repeats=999)
        moved = 2 * min(right.p, right.p_better) <= 0.05
        called.append([sums.low > 0, sums.low > 0 and not moved, moved, roots.low > 0])
    return np.mean(called, axis=0).tolist()


def unbiased(runs):
    """Yield the rows of the table of sums."""
    for size in ("30", "4 to 600"):
        for now in (0.95, 0.94, 0.92, 0.9, 0.85, 0.75):
            shares = (f"{100 * x:.1f}" for x in sums_without_bias(size, (0.95, now), runs))
            yield [size, f"0.95 -> {now:.2f}", *shares]


TABLES = {
    "comparisons": (
        ("persons", "accuracy", "true root", "worse", ".2 %", "better", ".2 %", "found", "below", "above"),
        comparisons,
        4000,
    ),
    "pairs": (
        ("pairs", "accuracy", "true root", "worse", ".2 %", "better", ".2 %", "found", "below", "above"),
        paired_comparisons,
        4000,
    ),
    "sums": (("persons", "accuracy", "sum worse", "and comparable", "not comparable", "root worse"), unbiased, 100),
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
