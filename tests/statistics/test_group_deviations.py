"""Deviations of groups from their mean: against plain loops and scipy, properties, and coverage of the bounds."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from pytest_genderbias.statistics.combiners import find_combiner
from pytest_genderbias.statistics.gap_rms import UnitGaps, gap_change_bounds, gap_interval, unit_gaps
from pytest_genderbias.statistics.group_deviations import (
    against_reference,
    compared,
    contrast_columns,
    contrasts,
    exchanged_groups,
    largest_difference,
    rms_of_contrast_sums,
    simultaneous_level,
    unit_gaps_of_contrasts,
)
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.inference.paired import compare_items


def plain(values):
    """Return the signed root of the mean squared deviation less its variance, by loops over groups."""
    n, groups = values.shape
    centred = values - values.mean(axis=1, keepdims=True)
    squares = [centred[:, g].mean() ** 2 - np.var(centred[:, g], ddof=1) / n for g in range(groups)]
    mean = float(np.mean(squares))
    return np.copysign(np.sqrt(abs(mean)), mean)


def rms(values):
    return float(rms_of_contrast_sums(contrast_columns(values).sum(axis=0)))


def interval(values):
    found = unit_gaps_of_contrasts(contrast_columns(values))
    return gap_interval(found.gaps, found.variances, "prompts", unit=found.unit)


def drawn(seed, groups, prompts=14, effect=0.0, spread=0.2):
    """Return values whose groups deviate from their mean by ``effect``, as a root mean square."""
    rng = np.random.default_rng(seed)
    means = np.linspace(-1, 1, groups)
    means *= effect / np.sqrt(np.square(means).mean())
    return rng.normal(size=(prompts, 1)) + means + spread * rng.normal(size=(prompts, groups))


@pytest.mark.parametrize("groups", [2, 3, 5])
def test_the_root_mean_square_is_that_of_plain_loops(groups):
    for seed in range(20):
        values = drawn(seed, groups, effect=0.1)
        assert rms(values) == pytest.approx(plain(values), abs=1e-10)


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_contrasts_have_the_mean_square_of_deviations(groups):
    values = drawn(1, groups)
    deviations = values - values.mean(axis=1, keepdims=True)
    assert np.allclose(np.square(contrasts(values)).mean(axis=1), np.square(deviations).mean(axis=1))


def test_of_two_groups_it_is_half_of_the_difference_by_a_t_test():
    values = drawn(3, 2, effect=0.4)
    t = stats.ttest_rel(values[:, 0], values[:, 1])
    difference = float(np.mean(values[:, 0] - values[:, 1]))
    error = difference / t.statistic
    assert rms(values) == pytest.approx(np.sqrt(difference**2 - error**2) / 2)
    found, half = interval(values), t.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(sorted(abs(end) / 2 for end in half), abs=0.02)


@pytest.mark.parametrize(
    "change",
    [lambda v: v + 7.0, lambda v: v[:, [2, 0, 1]], lambda v: v[::-1], lambda v: -v],
    ids=["moved", "groups in another order", "prompts in another order", "mirrored"],
)
def test_what_does_not_change_it(change):
    values = drawn(5, 3, effect=0.2)
    assert rms(change(values)) == pytest.approx(rms(values))


@pytest.mark.parametrize("scale", [1e-3, 12.0, 25_000.0])
def test_value_and_bounds_are_in_the_units_of_the_values(scale):
    values = drawn(6, 3, effect=0.3)
    one, other = interval(values), interval(values * scale)
    assert rms(values * scale) == pytest.approx(scale * rms(values))
    assert (other.low, other.high) == pytest.approx((scale * one.low, scale * one.high), rel=1e-4)
    sides = [unit_gaps_of_contrasts(contrast_columns(drawn(seed, 3, effect=0.3))) for seed in (7, 8)]
    scaled = [UnitGaps(side.gaps * scale, side.influences * scale, side.unit * scale) for side in sides]
    plain_bounds, bounds = gap_change_bounds(*sides), gap_change_bounds(*scaled)
    assert bounds[:2] == pytest.approx([scale * bound for bound in plain_bounds[:2]], rel=1e-3)
    assert bounds[2:] == pytest.approx(plain_bounds[2:], abs=1e-6)


def test_rates_have_the_unit_one():
    assert unit_gaps(np.ones((4, 2, 1)), np.ones((4, 2, 1))).unit == 1.0


@pytest.mark.parametrize("groups", [2, 3, 4])
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_bounds_hold_the_true_value_about_as_often_as_they_say(groups, effect):
    """Of 150 measurements of 14 prompts, 95 % should hold it; three standard errors of that are 5 %."""
    found = [drawn(seed, groups, effect=effect) for seed in range(150)]
    inside = [bounds.low <= effect <= bounds.high for bounds in map(interval, found)]
    assert np.mean(inside) >= 0.88
    squares = np.asarray([np.copysign(rms(values) ** 2, rms(values)) for values in found])
    assert abs(squares.mean() - effect**2) < 4 * squares.std() / np.sqrt(len(squares))


@pytest.mark.parametrize("pairs", [against_reference(4), list(combinations(range(4), 2))], ids=["reference", "pairs"])
def test_bounds_of_all_comparisons_hold_together(pairs):
    """Of 120 measurements of four groups that do not differ, at most one in twenty has a difference outside; three
    standard errors of that are 6 %.
    """
    missed = 0
    for seed in range(120):
        missed += any(not found.low <= 0 <= found.high for _, found in compared(drawn(seed, 4), pairs, "prompts"))
    assert missed <= 13
    values = drawn(1, 4, effect=0.5)
    found = compared(values, pairs, "prompts")
    assert [d for d, _ in found] == pytest.approx([float(np.mean(values[:, a] - values[:, b])) for a, b in pairs])
    together, alone = found[0][1], compared(values, pairs[:1], "prompts")[0][1]
    assert alone.level == 0.95 < together.level < 1 - 0.05 / len(pairs)
    assert together.low < alone.low and alone.high < together.high


@pytest.mark.parametrize(("groups", "n"), [(3, 12), (5, 30)])
def test_the_level_is_that_of_dunnett_and_of_tukey_and_kramer(groups, n):
    """Groups of independent values with one variance: differences from a reference have the correlation 1/2, as in
    Dunnett's table; those of all pairs are a studentised range.
    """
    values = np.linalg.qr(np.column_stack([np.ones(n), np.random.default_rng(0).normal(size=(n, groups))]))[0][:, 1:]
    levels = [
        simultaneous_level(np.stack([values[:, a] - values[:, b] for a, b in pairs], axis=1))
        for pairs in (against_reference(groups), list(combinations(range(groups), 2)))
    ]
    reach = stats.t.ppf((1 + np.asarray(levels)) / 2, n - 1)
    assert reach[1] == pytest.approx(stats.studentized_range.ppf(0.95, groups, n - 1) / np.sqrt(2), rel=0.02)
    shape = np.full((groups - 1, groups - 1), 0.5) + 0.5 * np.eye(groups - 1)
    known = stats.multivariate_t(shape=shape, df=n - 1, seed=0)
    inside = known.cdf(np.full(groups - 1, reach[0]), lower_limit=np.full(groups - 1, -reach[0]))
    assert inside == pytest.approx(0.95, abs=0.006)


def test_exchanges_are_all_orders_of_the_groups():
    found, difference = exchanged_groups([[1.0, 2.0, 4.0], [0.0, 0.0, 3.0]], 4000, seed=1)
    assert set(np.round(difference, 6)) == {
        round((a + b) / 2, 6) for a in (-1.0, 1.0, -2.0, 2.0, -3.0, 3.0) for b in (0.0, 3.0, -3.0)
    }
    assert len(found) == 4000 and np.isfinite(found).all()
    assert largest_difference([[1.0, 2.0, 4.0], [0.0, 0.0, 3.0]]) == 3.0


def test_one_prompt_shows_nothing_and_equal_groups_differ_by_nothing():
    assert np.isnan(rms(np.ones((1, 3))))
    assert rms(np.arange(6.0)[:, None] * np.ones(3)) == 0
    assert interval(np.arange(6.0)[:, None] * np.ones(3)) is None


def test_a_change_is_compared_prompt_by_prompt():
    labels = np.asarray([f"prompt {k}" for k in range(14)])
    then, now = drawn(3, 3, effect=0.05), drawn(3, 3, effect=0.6)
    sides = [ItemSums(labels, contrast_columns(values), "contrast_rms", "prompts") for values in (then, now)]
    assert find_combiner("contrast_rms", {}).unit_gaps is not None
    assert sides[1].total == pytest.approx(rms(now))
    found = compare_items(*sides, distance=lambda value: value)
    assert found.value == pytest.approx(rms(now) - rms(then)) and found.low > 0.3
