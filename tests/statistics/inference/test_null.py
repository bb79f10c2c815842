"""The place of a value among those of shuffles."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import summarise_null


def higher(x):
    return x


def lower(x):
    return -x


def away(x):
    return np.abs(x - 1.0)


@pytest.mark.parametrize(
    ("direction", "value", "place"),
    [
        (higher, 9.0, 1 / 6),
        (higher, 3.0, 3 / 6),
        (higher, -9.0, 1.0),
        (lower, 9.0, 1.0),
        (lower, 1.0, 3 / 6),
        (lower, -9.0, 1 / 6),
        (away, 1.0, 1.0),
        (away, 0.0, 5 / 6),
        (away, 2.5, 3 / 6),
        (away, -2.5, 1 / 6),
    ],
)
def test_place_counts_what_is_at_least_as_bad(direction, value, place):
    assert summarise_null(value, [0.0, 1.0, 2.0, 3.0, 4.0], direction, "labels").p_value == pytest.approx(place)


def test_mean_and_quantiles_are_those_of_the_shuffles():
    drawn = np.random.default_rng(0).normal(size=1001)
    found = summarise_null(0.3, drawn, higher, "labels")
    assert found.mean == pytest.approx(drawn.mean())
    assert (found.low, found.high) == pytest.approx((np.sort(drawn)[25], np.sort(drawn)[975]))
    assert (found.repeats, found.undefined, found.what) == (1001, 0, "labels")
    assert all(type(value) in (int, float, str) for value in vars(found).values())


def test_undefined_shuffles_are_left_out_and_counted():
    drawn = np.array([np.nan, 1.0, np.nan, 2.0, 3.0])
    found = summarise_null(2.5, drawn, higher, "labels")
    assert replace(found, undefined=0) == summarise_null(2.5, drawn[~np.isnan(drawn)], higher, "labels")
    assert found.undefined == 2
    assert found.repeats == 3
    with pytest.raises(UndefinedError, match="every shuffle"):
        summarise_null(2.5, [np.nan, np.nan], higher, "labels")


def test_the_same_sum_in_another_order_is_a_tie():
    value, other = (0.1 + 0.2) + 0.3, 0.1 + (0.2 + 0.3)
    assert value != other
    for direction in (higher, lower, away):
        assert summarise_null(value, [other] * 9, direction, "labels").p_value == 1.0
        assert summarise_null(other, [value] * 9, direction, "labels").p_value == 1.0
    tiny = np.array([1.0, 2.0, 3.0]) * 1e-12
    assert summarise_null(3e-12, tiny, higher, "labels").p_value == 2 / 4, "small units are no ties"


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=30), st.floats(-9, 9), st.sampled_from([higher, lower, away]))
def test_place_is_a_share_that_falls_as_the_value_gets_worse(drawn, value, direction):
    found = summarise_null(value, drawn, direction, "labels")
    assert 1 / (1 + len(drawn)) <= found.p_value <= 1.0
    worse = value + 1.0 if direction is higher or (direction is away and value >= 1.0) else value - 1.0
    assert summarise_null(worse, drawn, direction, "labels").p_value <= found.p_value
    assert min(drawn) - 1e-9 <= found.low <= found.high <= max(drawn) + 1e-9


@pytest.mark.parametrize("direction", [higher, lower, away])
@pytest.mark.parametrize("ties", [False, True])
def test_a_place_is_not_too_small_where_labels_can_be_exchanged(direction, ties):
    """Under exchangeable labels the share of places of at most alpha is at most alpha."""
    rng = np.random.default_rng(1)
    places = []
    for _ in range(1000):
        values = rng.integers(3, size=12).astype(float) if ties else rng.normal(size=12)
        signs = rng.choice([-1.0, 1.0], size=(40, 12))
        measured, *shuffled = (signs * values).mean(axis=1) + 1.0
        places.append(summarise_null(measured, shuffled, direction, "signs").p_value)
    for alpha in (0.05, 0.1, 0.25, 0.5):
        error = (alpha * (1 - alpha) / len(places)) ** 0.5
        assert np.mean(np.asarray(places) <= alpha) <= alpha + 3.5 * error
    if not ties:
        assert np.mean(np.asarray(places) <= 0.25) == pytest.approx(0.25, abs=0.05)
