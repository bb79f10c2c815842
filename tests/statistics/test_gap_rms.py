"""Root mean squares of gaps without chance: unbiased by enumeration, and what loops over persons find."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.block_tables import gap_figure
from pytest_genderbias.statistics.gap_rms import (
    gap_rms,
    gaps_and_variances,
    paired_columns,
    rms_of_gaps,
    rms_of_paired_sums,
    signed_root,
    unit_gaps,
    unit_gaps_of_pairs,
)


@pytest.mark.parametrize(("women", "men"), [((2, 0.9), (4, 0.9)), ((4, 0.95), (5, 0.6)), ((3, 0.0), (2, 1.0))])
def test_the_squared_gap_is_unbiased_over_all_outcomes(women, men):
    """Each outcome of two binomial counts, weighted with its probability."""
    (n_women, p_women), (n_men, p_men) = women, men
    mean = 0.0
    for hits in product(range(n_women + 1), range(n_men + 1)):
        weight = stats.binom.pmf(hits[0], n_women, p_women) * stats.binom.pmf(hits[1], n_men, p_men)
        root = float(rms_of_gaps(*gaps_and_variances([[hits[0]], [hits[1]]], [[n_women], [n_men]])))
        mean += weight * root * abs(root)
    assert mean == pytest.approx((p_women - p_men) ** 2, abs=1e-12)


@pytest.mark.parametrize("answers", [10, 40])
def test_paired_squared_gaps_are_unbiased_too(answers):
    """Pairs of which half have one answer for both groups: independent variances would take too much off."""
    rng = np.random.default_rng(answers)
    runs, pairs = 4000, answers
    one, other = rng.random((2, runs, pairs))
    other = np.where(rng.random((runs, pairs)) < 0.5, one, other)
    hits = np.stack([one < 0.8, other < 0.7], axis=-1).astype(float)[..., None]
    paired = unit_gaps(hits, np.ones_like(hits), paired=True)
    squares = np.square(paired.gaps) - paired.variances
    assert squares.mean() == pytest.approx(0.01, abs=4 * squares.std() / runs**0.5)
    apart = unit_gaps(hits, np.ones_like(hits))
    assert (np.square(apart.gaps) - apart.variances).mean() < 0.01 - 10 * squares.std() / runs**0.5


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(4, 40))
def test_units_give_what_totals_give(seed, classes, units):
    rng = np.random.default_rng(seed)
    trials = rng.integers(0, 4, (units, 2, classes))
    hits = rng.binomial(trials, 0.7)
    found, (gaps, variances) = unit_gaps(hits, trials), gaps_and_variances(hits.sum(axis=0), trials.sum(axis=0))
    assert np.array_equal(np.isfinite(found.gaps), np.isfinite(gaps))
    there = np.isfinite(gaps)
    np.testing.assert_allclose(found.gaps[there], gaps[there], atol=1e-12)
    # Blocks whose rates are all alike show no spread, and then no error: only units that differ say how models go
    # together.
    spread = (np.abs(hits - hits.sum(0) / np.maximum(trials.sum(0), 1) * trials).sum(axis=0) > 1e-9).all(axis=0)
    np.testing.assert_allclose(found.variances[there & spread], variances[there & spread], atol=1e-12)
    value = float(rms_of_gaps(gaps, variances))
    assert np.isnan(value) == (not there.any())
    if there.any():
        assert (
            -1 <= value <= 1 and float(gap_figure(hits.sum(0), trials.sum(0), np.full(classes, np.nan), "rms")) == value
        )
        turned = gaps_and_variances(hits.sum(axis=0)[::-1], trials.sum(axis=0)[::-1])
        assert float(rms_of_gaps(*turned)) == value  # exchanging the groups turns gaps round, and no square


def test_single_persons_are_units_of_a_binomial_rate():
    rng = np.random.default_rng(1)
    right, is_woman = rng.random(50) < 0.8, rng.random(50) < 0.4
    trials = np.stack([is_woman, ~is_woman], axis=-1)[..., None]
    found = unit_gaps(trials & right[:, None, None], trials)
    expected = sum(np.var(right[z], ddof=1) / z.sum() for z in (is_woman, ~is_woman))
    assert found.gaps[0] == pytest.approx(right[is_woman].mean() - right[~is_woman].mean())
    assert found.variances[0] == pytest.approx(expected)


def test_pairs_have_the_variance_of_their_differences():
    rng = np.random.default_rng(2)
    hits = (rng.random((40, 2, 3)) < 0.7).astype(float)
    found = unit_gaps(hits, np.ones_like(hits), paired=True)
    expected = np.var(hits[:, 0] - hits[:, 1], axis=0, ddof=1) / 40
    np.testing.assert_allclose(found.variances, expected, rtol=1e-12)


def test_a_class_with_one_person_of_a_group_is_left_out():
    gaps, variances = gaps_and_variances([[1, 3, 0], [2, 1, 5]], [[1, 4, 0], [4, 4, 9]])
    assert np.isnan(gaps).tolist() == [True, False, True]
    assert gap_rms(gaps, variances) == pytest.approx(float(signed_root(0.25 - 2 * 0.75 * 0.25 / 3)))
    with pytest.raises(UndefinedError, match="no class has 2 cases of each group"):
        gap_rms(gaps[:1], variances[:1])


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(3, 30))
def test_totals_of_pairs_give_what_pairs_give(seed, classes, pairs):
    rng = np.random.default_rng(seed)
    trials = (rng.random((pairs, 2, classes)) < 0.8).astype(float)
    hits = trials * (rng.random(trials.shape) < 0.6)
    columns, found = paired_columns(hits, trials), unit_gaps(hits, trials, paired=True)
    expected = float(rms_of_gaps(found.gaps, found.variances))
    # The square is compared: the root of almost nothing is no small number.
    square, other = (x * abs(x) for x in (float(rms_of_paired_sums(columns.sum(axis=0))), expected))
    assert square == pytest.approx(other, abs=1e-12, nan_ok=True)
    again = unit_gaps_of_pairs(columns, {}, ())
    np.testing.assert_array_equal(again.gaps, found.gaps)
    np.testing.assert_array_equal(again.influences, found.influences)
