"""Bounds of root mean squares of gaps: moments against brute force, tails against scipy, and false alarms in
simulation.
"""

import numpy as np
import pytest
import scipy.stats
from simulations.gap_coverage import (
    answers,
    gaps_and_errors,
    persons,
    rates,
    simulate,
    simulate_pairs,
    sums_without_bias,
)

from pytest_genderbias.statistics.block_tables import BlockTables
from pytest_genderbias.statistics.count_sums import gap_sums
from pytest_genderbias.statistics.gap_rms import (
    METHOD,
    SquaredGaps,
    change_p,
    gap_change_bounds,
    gap_interval,
    gap_rms,
    gaps_and_variances,
    root_p,
    squared_gaps,
    unit_gaps,
)
from pytest_genderbias.statistics.inference.paired import compare_items

LEVELS = (0.05, 0.002)


def random_models(seed, classes=6, units=80, shift=0.0):
    """Return the gaps of two models on the same units."""
    rng = np.random.default_rng(seed)
    trials = rng.integers(0, 3, (units, 2, classes))
    both = rng.random((units, 2, classes, 3))
    then = (both < 0.8).astype(int)
    now = np.where(
        rng.random(both.shape) < 0.3, rng.random(both.shape) < 0.75 + shift * np.array([1, -1])[:, None, None], then
    )
    counted = np.arange(3) < trials[..., None]
    return [unit_gaps((x * counted).sum(axis=-1), trials) for x in (then, now)]


def test_the_moments_are_those_of_drawn_errors():
    """Normal errors with known covariances around known gaps, drawn 400,000 times."""
    rng = np.random.default_rng(3)
    classes = 5
    gaps = rng.normal(0, 0.1, (classes, 2))
    roots = rng.normal(0, 0.05, (classes, 2, 2))
    errors = roots @ np.swapaxes(roots, 1, 2)
    found = SquaredGaps(np.square(gaps).mean(axis=0), errors / classes, gaps[:, :, None] * gaps[:, None, :] / classes)
    drawn = gaps + np.einsum("kij,nkj->nki", roots, rng.standard_normal((400_000, classes, 2)))
    means = (np.square(drawn) - np.diagonal(errors, axis1=1, axis2=2)).mean(axis=1)
    np.testing.assert_allclose(found.means, means.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(found.covariance, np.cov(means.T), rtol=0.01, atol=4e-7)
    for direction in (np.array([1.0, -1.0]), np.array([-0.3, 1.0])):
        along = (means - found.means) @ direction
        for q in (0.5, 0.9, 0.99):
            off = np.quantile(along, q) * direction / (direction @ direction)
            assert float(found.tail(off, direction)) == pytest.approx(1 - q, rel=0.12)


@pytest.mark.parametrize("skewness", [0.5, 2.0, -1.0])
def test_tails_are_those_of_scipys_pearson_type_3(skewness):
    from pytest_genderbias.statistics.gap_rms import _upper_tail

    z = np.array([-1.5, -0.3, 0.0, 0.9, 2.5])
    np.testing.assert_allclose(_upper_tail(z, np.full(5, skewness)), scipy.stats.pearson3.sf(z, skewness), atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_the_change_and_agree_with_the_p_values(seed):
    then, now = random_models(seed, shift=0.1 * seed)
    low, high, p, p_better = gap_change_bounds(then, now, 0.02)
    change = gap_rms(now.gaps, now.variances) - gap_rms(then.gaps, then.variances)
    assert low < change < high
    assert (p <= 0.05) == (low >= 0.02) and (p_better <= 0.05) == (high <= -0.02)
    wide = gap_change_bounds(then, now, 0.02, level=0.99)
    assert wide[0] < low and wide[1] > high and wide[2:] == (p, p_better)
    turned = gap_change_bounds(now, then)
    assert turned[:2] == pytest.approx((-high, -low), abs=2e-3)  # the nearest point is searched along the root of then
    interval = gap_interval(now.gaps, now.variances, "persons")
    assert interval.low < gap_rms(now.gaps, now.variances) < interval.high
    assert (interval.method, interval.over, interval.items) == (METHOD, "persons", 6)


def test_no_change_is_the_test_of_equal_mean_squares():
    rng = np.random.default_rng(8)
    n = persons("200")
    gaps, errors = gaps_and_errors(answers(rng, n, rates(0.9, 0.1), rates(0.9, 0.15), 20), n)
    found = squared_gaps(gaps, errors)
    p = change_p(found, np.zeros(20))[0]
    contrast = found.covariance[:, 0, 0] + found.covariance[:, 1, 1] - 2 * found.covariance[:, 0, 1]
    z = (found.means[:, 1] - found.means[:, 0]) / np.sqrt(contrast)
    np.testing.assert_allclose(p, scipy.stats.norm.sf(z), atol=0.03)  # the tails are a little skewed


def test_rates_without_errors_have_no_bounds():
    trials = np.ones((10, 2, 3))
    perfect, wrong = unit_gaps(trials, trials), unit_gaps(trials * [[1], [0]], trials)
    assert gap_change_bounds(perfect, wrong) is None
    assert gap_interval(wrong.gaps, wrong.variances, "persons") is None


@pytest.mark.parametrize("size", ["4", "30", "4 to 600"])
@pytest.mark.parametrize("accuracies", [(0.95, 0.75), (0.75, 0.95)])
@pytest.mark.parametrize("rms", [(0.0, 0.0), (0.1, 0.1)])
def test_false_alarms_are_rare_when_accuracy_alone_moves(size, accuracies, rms):
    """600 runs: 5 % are exceeded by two standard errors at 6.8 %."""
    _, _, worse, worse_tail, better, better_tail, _, below, above = simulate(size, accuracies, rms, 600)
    assert max(worse, better) <= 0.068
    assert max(worse_tail, better_tail) <= 0.02
    assert max(below, above) <= 0.08


@pytest.mark.parametrize(("size", "least"), [("30", 0.3), ("200", 0.98)])
def test_bias_that_appears_while_accuracy_rises_is_found(size, least):
    assert simulate(size, (0.75, 0.95), (0.0, 0.1), 300)[6] >= least


@pytest.mark.parametrize(("pairs", "accuracies"), [(4, (0.8, 0.6)), (10, (0.6, 0.8))])
def test_false_alarms_are_rare_over_pairs_of_sentences(pairs, accuracies):
    """500 runs: 5 % are exceeded by two standard errors at 7 %."""
    _, _, worse, _, better, _, _, below, above = simulate_pairs(pairs, accuracies, (0.0, 0.0), 500)
    assert max(worse, better) <= 0.07 and max(below, above) <= 0.05
    assert simulate_pairs(10, (0.6, 0.8), (0.0, 0.2), 500)[6] > 0.85


def test_a_less_accurate_classifier_without_bias_is_called_worse_by_its_sum_alone():
    worse, comparable, moved, root = sums_without_bias("30", (0.95, 0.75), 12)
    assert worse >= 0.8 and comparable == 0 and moved == 1 and root <= 0.2


def test_root_p_is_one_half_at_about_the_measured_root():
    gaps, variances = gaps_and_variances([[30, 20], [25, 22]], [[40, 40], [40, 40]])
    found = squared_gaps(gaps[:, None], variances[:, None, None])
    above, below = root_p(found, gap_rms(gaps, variances))
    assert above + below == pytest.approx(1) and above == pytest.approx(0.5, abs=0.15)


def blocks_of(rng, gap, accuracy, persons_each=12, classes=10):
    """Return the tables of two models on persons in 100 blocks, the second with a gap and another accuracy."""
    group, gold = (x.ravel() for x in np.indices((2, classes, persons_each))[:2])
    block = rng.integers(0, 100, len(gold))
    names = [f"c{i}" for i in range(classes)]
    shared = rng.random(len(gold))
    for rate in (np.full(len(gold), 0.8), accuracy + gap / 2 * np.where((group == 0) ^ (gold % 2 == 0), 1, -1)):
        luck = np.where(rng.random(len(gold)) < 0.5, shared, rng.random(len(gold)))
        yield BlockTables.of(names, block, group, gold, np.where(luck < rate, gold, (gold + 1) % classes))


@pytest.mark.parametrize(("gap", "least", "most"), [(0.0, 0.0, 0.1), (0.35, 0.85, 1.0)])
def test_comparisons_over_blocks_of_persons_are_as_good(gap, least, most):
    rng, runs, worse = np.random.default_rng(5), 30, 0
    for _ in range(runs):
        then, now = (
            gap_sums(tables, "true_positive", np.full(10, np.nan), "rms") for tables in blocks_of(rng, gap, 0.6)
        )
        difference = compare_items(then, now, lambda v: v)
        assert difference.method == METHOD and difference.over == "blocks of persons"
        assert difference.low < difference.value < difference.high
        assert difference.value == pytest.approx(now.total - then.total)
        worse += difference.low > 0
    assert least <= worse / runs <= most
    assert compare_items(now, now, lambda v: v).method == "the same in every item"
