"""The difference between two groups of units: against means, under changes that should do nothing, and shuffled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.correlation import pearson_of_sums, slope_interval, slope_of_sums
from pytest_genderbias.statistics.group_deviations import group_contrast, shuffled_lines

VALUES = st.lists(st.floats(-20, 20), min_size=2, max_size=12)


@given(VALUES, VALUES, st.floats(-100, 100))
def test_it_is_the_difference_of_two_means_and_no_constant_matters(
    first: list[float], second: list[float], constant: float
) -> None:
    values, in_first = np.array([*first, *second]), np.repeat([True, False], [len(first), len(second)])
    found = group_contrast(values, in_first)
    assert found == pytest.approx(np.mean(first) - np.mean(second), abs=1e-9)
    assert group_contrast(values + constant, in_first) == pytest.approx(found, abs=1e-9)
    assert group_contrast(values, ~in_first) == pytest.approx(-found, abs=1e-9)
    assert group_contrast(-values, in_first) == pytest.approx(-found, abs=1e-9)


def test_its_interval_holds_unequal_variances_as_welch_does() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.normal(1.0, 2.0, 40), rng.normal(0.0, 0.5, 60)
    values, in_first = np.concatenate([first, second]), np.repeat([True, False], [40, 60])
    interval = slope_interval(in_first, values, "words")
    welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((welch.low, welch.high), abs=0.15)


@pytest.mark.parametrize("in_first", [[True] * 4, [False] * 4])
def test_one_group_alone_has_no_difference(in_first: list[bool]) -> None:
    with pytest.raises(UndefinedError, match="x is the same for all items"):
        group_contrast([1.0, 2.0, 3.0, 4.0], in_first)


def test_shuffles_keep_the_values_and_their_places_in_every_line() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(9), rng.normal(size=9)
    by_share, by_group = (shuffled_lines(places, y, 500, seed=7) for places in (x, (x > 0.5).astype(float)))
    assert by_share.shape == (500, 6)
    assert by_share[:, 2] == pytest.approx(np.full(500, y.sum()))
    assert by_share[:, 4] == pytest.approx(np.full(500, (y * y).sum()))
    assert np.abs(slope_of_sums(by_group).mean()) < 0.15 and np.abs(pearson_of_sums(by_share).mean()) < 0.05
    drawn = np.random.default_rng(7).permuted(np.tile(y, (500, 1)), axis=1)
    assert slope_of_sums(by_group) == pytest.approx([group_contrast(row, x > 0.5) for row in drawn])
