"""What a gate sees: the size of a worsening at which most releases are red."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulations.restarts_coverage import prior_of, seen_items_row, seen_row

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.gap_rms import signed_root
from pytest_genderbias.statistics.inference.detectable import (
    red_from,
    restarts_like,
    seen_over_items,
    seen_over_restarts,
)
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.statistics.inference.over_restarts import Prior, compare_restarts, prediction_bounds

SEEDS = st.integers(0, 2**32 - 1)


def same(value: FloatArray) -> FloatArray:
    return value


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(2, 6), st.sampled_from([None, Prior(0.7), Prior(2.0, 4.0)]), st.booleans())
def test_red_begins_at_the_prediction_bound(seed: int, k: int, prior: Prior | None, root: bool) -> None:
    values = np.random.default_rng(seed).normal(1.0, 0.5, k)
    low, high = prediction_bounds(values, 0.99, prior, root)
    assert red_from(values, same, prior, 0.99, root=root) == pytest.approx(high, rel=1e-6, abs=1e-9)
    if not root:
        assert red_from(values, lambda v: -v, prior, 0.99) == pytest.approx(low, rel=1e-6, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(2, 6), st.sampled_from([None, Prior(0.7), Prior(2.0, 4.0)]), st.booleans())
def test_a_checkpoint_is_worse_from_there_on(seed: int, k: int, prior: Prior | None, root: bool) -> None:
    rng = np.random.default_rng(seed)
    values, distance = rng.normal(0.3, 0.5, k), same if root else np.abs
    at = red_from(values, distance, prior, 0.98, 0.1, root)
    side = np.sign(at - values.mean())
    for beyond, red in ((1e-6, True), (1.0, True), (-1e-6, False), (-0.1, False)):
        found = compare_restarts(values, [at + side * beyond], distance, 0.1, 0.98, prior, root)
        assert (found.low > 0.1) == red


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.floats(0.01, 100), st.integers(2, 8))
def test_what_is_seen_has_the_unit_of_the_statistic(seed: int, unit: float, k: int) -> None:
    values = np.random.default_rng(seed).normal(0, 1, k)
    seen = seen_over_restarts(values, same, Prior(1.0))
    assert seen_over_restarts(unit * values + 3, same, Prior(unit)) == pytest.approx(unit * seen, rel=1e-5)
    assert seen_over_restarts(-values, lambda v: -v, Prior(1.0)) == pytest.approx(seen, rel=1e-6)
    assert seen_over_restarts(values, same, Prior(1.0), tolerance=0.5) == pytest.approx(seen + 0.5, rel=1e-6)


def test_more_restarts_and_a_prior_see_more() -> None:
    seen = [seen_over_restarts(restarts_like(5.0, 1.0, k), same) for k in (2, 3, 5, 10, 100)]
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] == pytest.approx((1.98 + 0.84), abs=0.05)
    with_prior = [seen_over_restarts(restarts_like(5.0, 1.0, k), same, Prior(1.0)) for k in (1, 2, 3, 5, 10)]
    assert with_prior == sorted(with_prior, reverse=True)
    assert all(a < b for a, b in zip(with_prior[1:], seen, strict=False))
    with pytest.raises(UndefinedError, match="one restart says nothing"):
        seen_over_restarts([5.0], same)


def test_roots_are_seen_on_their_squares() -> None:
    """Near 0 a root moves far, and means little: on the square the step is that of any normal statistic."""
    squares = np.array([-1.0, 0.0, 1.0])
    seen = seen_over_restarts(signed_root(squares), same, root=True)
    assert seen == pytest.approx(seen_over_restarts(squares, same) ** 0.5, rel=1e-6)
    far = [10.0, 10.01, 10.03]
    assert seen_over_restarts(far, same, root=True) == pytest.approx(seen_over_restarts(far, same), rel=0.01)


def test_roots_are_seen_when_it_is_said() -> None:
    rng, factors = np.random.default_rng(0), []
    for values, one in zip(rng.normal(1, 1, (60, 5)), rng.normal(0, 1, 60), strict=True):
        restarts = signed_root(values)
        red = red_from(restarts, same, Prior(0.5), root=True)
        needed = signed_root(red * abs(red) - one) - 1.0
        factors.append(float(needed) / seen_over_restarts(restarts, same, Prior(0.5), root=True))
    assert np.quantile(factors, 0.8) == pytest.approx(1.0, abs=0.15)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 200), st.floats(0.01, 10), st.sampled_from([0.95, 0.975, 0.99]))
def test_over_items_alone_it_is_the_power_of_students_test(freedom: int, error: float, level: float) -> None:
    seen = seen_over_items(error, 0.0, freedom, level)
    power = stats.nct.sf(stats.t.ppf(level, freedom), freedom, seen / error)
    assert power == pytest.approx(0.8, abs=0.006)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.01, 10), st.floats(0, 10), st.integers(5, 300))
def test_retraining_hides_a_worsening(error: float, beyond: float, freedom: int) -> None:
    seen = seen_over_items(error, beyond, freedom)
    assert seen >= seen_over_items(error, 0.0, freedom) * (1 - 1e-9)
    assert seen >= 2.8 * beyond
    assert seen_over_items(error, beyond, np.inf) == pytest.approx(2.8016 * np.hypot(error, beyond), rel=1e-3)
    reach = 1.96 * np.hypot(error, beyond)
    for trainings in (0.0, 1e-9 * reach):
        assert seen_over_items(error, beyond, np.inf, trainings=trainings) == pytest.approx(reach, rel=1e-3)
    assert seen_over_items(0.0, 0.0, freedom, tolerance=0.5) == 0.5


# Small versions of the tables of docs/evidence/coverage-restarts.md


#: The ends and the middle; with ``-m slow`` all others.
_QUICK = {(2, 20), (3, 6), (10, 1)}


@pytest.mark.parametrize(
    ("k", "gates"),
    [
        pytest.param(k, gates, marks=[] if (k, gates) in _QUICK else [pytest.mark.slow])
        for k in (2, 3, 5, 10)
        for gates in (1, 6, 20)
    ],
)
@pytest.mark.parametrize("ratio", [None, 1.0, 0.5])
def test_what_is_said_is_what_releases_show(k: int, gates: int, ratio: float | None) -> None:
    for population in ("normal", "long tails (t, 5 degrees)", "skewed towards worse (gamma, skewness 1)"):
        assert seen_row(population, k, gates, prior_of(ratio), runs=4000) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("at", [0.0, 0.5, 1.0])
def test_it_is_so_near_neutral(at: float) -> None:
    for k in (3, 10):
        assert seen_row("normal", k, 6, prior_of(1.0), neutral_at=at, runs=4000) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("beyond", [0.0, 1.0, 3.0])
def test_it_is_so_over_items(beyond: float) -> None:
    for population in ("normal", "long tails (t, 5 degrees)"):
        assert seen_items_row(population, 60, beyond, 6) == pytest.approx(1.0, abs=0.1)
