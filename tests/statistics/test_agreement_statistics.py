"""Agreement of an intrinsic and an extrinsic figure: against scipy, a plain loop over the same draws, and
properties.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulations.agreement_coverage import POPULATIONS, covered

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.agreement import agreement, hierarchical_draws

METHODS = ["none"] * 4 + ["cda"] * 3 + ["scrubbing"] * 4 + ["dropout"] * 2


def figures(seed=0, slope=0.6, methods=METHODS):
    rng = np.random.default_rng(seed)
    shift = {name: rng.normal() for name in sorted(set(methods))}
    x = np.array([shift[name] for name in methods]) + rng.normal(size=len(methods))
    return x, slope * x + rng.normal(size=len(methods))


def test_estimates_equal_those_of_scipy():
    x, y = figures()
    found, line = agreement(METHODS, x, y, resamples=9), stats.linregress(x, y)
    assert found.r == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-14)
    assert (found.slope, found.intercept) == pytest.approx((line.slope, line.intercept), abs=1e-13)
    assert found.r_squared == pytest.approx(line.rvalue**2, abs=1e-14)
    assert (found.points, found.methods) == (13, 4)


def by_plain_loops(x, y, resamples, rng, draw_methods):
    """Return r and slope of resamples with the same draws, point by point."""
    names = list(dict.fromkeys(METHODS))
    rows = [[i for i, name in enumerate(METHODS) if name == wanted] for wanted in names]
    drawn, points = hierarchical_draws([len(places) for places in rows], resamples, rng, draw_methods)
    rs, slopes = [], []
    for methods, seeds in zip(drawn, points, strict=True):
        sample = [
            rows[method][seed] for method, of in zip(methods, seeds, strict=True) for seed in of[: len(rows[method])]
        ]
        assert min(min(of[: len(rows[method])]) for method, of in zip(methods, seeds, strict=True)) >= 0
        line = stats.linregress(x[sample], y[sample])
        rs.append(line.rvalue)
        slopes.append(line.slope)
    return np.array(rs), np.array(slopes)


def test_bounds_equal_those_of_a_plain_loop_over_the_same_draws():
    x, y = figures()
    found = agreement(METHODS, x, y, resamples=199, seed=3)
    rng = np.random.default_rng(3)
    rs, slopes = by_plain_loops(x, y, 199, rng, True)
    of_seeds, _ = by_plain_loops(x, y, 199, rng, False)
    cases = (
        (found.r_bounds, np.arctanh(rs), math.atanh(found.r), math.tanh, 3),
        (found.slope_bounds, slopes, found.slope, float, 3),
        (found.r_bounds_of_seeds, np.arctanh(of_seeds), math.atanh(found.r), math.tanh, 1),
    )
    for bounds, resampled, estimate, back, freedom in cases:
        low, high = np.percentile(resampled, [2.5, 97.5])
        half = stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975) * (high - low) / 2
        assert (bounds.low, bounds.high) == pytest.approx((back(estimate - half), back(estimate + half)), abs=1e-9)


def test_blocks_of_resamples_hold_the_draws_in_order(monkeypatch):
    from pytest_genderbias.statistics import agreement as module

    x, y = figures(methods=["a"] * 4 + ["b"] * 4 + ["c"] * 4)
    monkeypatch.setattr(module, "_BLOCK", 12 * 40)
    rng = np.random.default_rng(0)
    products = module.product_sums(x, y)
    groups = [np.arange(4) + first for first in (0, 4, 8)]
    rs, _ = module._resampled(products, groups, 100, rng, True)
    rng, expected = np.random.default_rng(0), []
    for size in (40, 40, 20):
        drawn, points = hierarchical_draws([4, 4, 4], size, rng)
        for methods, seeds in zip(drawn, points, strict=True):
            sample = [4 * m + k for m, of in zip(methods, seeds, strict=True) for k in of]
            expected.append(np.corrcoef(x[sample], y[sample])[0, 1])
    assert rs == pytest.approx(np.array(expected), abs=1e-9)


@given(st.integers(0, 10_000), st.floats(-2, 2), st.floats(0.1, 100), st.floats(-50, 50))
def test_r_and_its_bounds_stay_when_axes_are_swapped_or_rescaled(seed, slope, scale, shift):
    x, y = figures(seed, slope)
    found, swapped = agreement(METHODS, x, y, resamples=99), agreement(METHODS, y, x, resamples=99)
    rescaled = agreement(METHODS, scale * x + shift, -y, resamples=99)
    for other, sign in ((swapped, 1), (rescaled, -1)):
        assert other.r == pytest.approx(sign * found.r, abs=1e-9)
        ends = sorted((sign * found.r_bounds.low, sign * found.r_bounds.high))
        assert [other.r_bounds.low, other.r_bounds.high] == pytest.approx(ends, abs=1e-7)
        assert other.r_squared_bounds.high == pytest.approx(found.r_squared_bounds.high, abs=1e-7)
    assert rescaled.slope == pytest.approx(-found.slope / scale, rel=1e-6, abs=1e-9)
    assert rescaled.slope_bounds.high == pytest.approx(-found.slope_bounds.low / scale, rel=1e-6, abs=1e-9)


@given(st.integers(0, 10_000), st.floats(-2, 2))
def test_bounds_hold_the_estimate_and_those_of_r_squared_follow_from_those_of_r(seed, slope):
    found = agreement(METHODS, *figures(seed, slope), resamples=99)
    assert -1 <= found.r_bounds.low <= found.r <= found.r_bounds.high <= 1
    squares = np.square(np.linspace(found.r_bounds.low, found.r_bounds.high, 2001))
    assert found.r_squared_bounds.low == pytest.approx(squares.min(), abs=2e-6)
    assert found.r_squared_bounds.high == pytest.approx(squares.max(), abs=1e-12)
    assert found.slope_bounds.low <= found.slope <= found.slope_bounds.high


def test_bounds_of_permuted_pairs_hold_zero_about_as_often_as_they_should():
    names, rng, holds = [f"m{i // 5}" for i in range(60)], np.random.default_rng(0), []
    x, y = rng.normal(size=60), rng.normal(size=60)
    for seed in range(200):
        bounds = agreement(names, x, rng.permutation(y), resamples=99, seed=seed).r_bounds
        holds.append(bounds.low <= 0 <= bounds.high)
    assert 0.93 <= np.mean(holds) <= 1.0


def test_bounds_of_four_methods_hold_the_true_r_where_independent_points_do_not():
    studies = covered(POPULATIONS["methods agree closely"], 4, 10, 100, 99, np.random.default_rng(1))
    by_method, _, _, independent, _ = np.mean(list(studies), axis=0)
    assert by_method >= 0.9
    assert independent < 0.7


def test_the_same_seed_gives_the_same_bounds_and_more_methods_give_narrower_ones():
    x, y = figures()
    assert agreement(METHODS, x, y, seed=1) == agreement(METHODS, x, y, seed=1)
    assert agreement(METHODS, x, y, seed=1).r_bounds != agreement(METHODS, x, y, seed=2).r_bounds
    many = [f"m{i % 40}" for i in range(200)]
    found = agreement(many, *figures(methods=many))
    few = agreement(METHODS, x, y)
    assert found.r_bounds.high - found.r_bounds.low < few.r_bounds.high - few.r_bounds.low


def test_too_few_methods_or_seeds_have_no_bounds():
    two = agreement(["a", "a", "b", "b"], [1, 2, 3, 5], [1, 3, 2, 4])
    assert two.r_bounds is None and two.r_squared_bounds is None and two.slope_bounds is None
    three = agreement(["a", "b", "c"], [1, 2, 3], [1, 3, 2])
    assert three.r_bounds_of_seeds is None, "there are no seeds to draw"
    assert three.r_bounds is None, "one resample of nine holds one method only"
    four = agreement(["a", "b", "c", "d"], [1, 2, 3, 5], [1, 3, 2, 4])
    assert (four.r_bounds.low, four.r_bounds.high) == pytest.approx((-1, 1)), "most resamples lie on a line"


def test_points_on_a_line_have_the_bounds_of_the_line():
    found = agreement(METHODS, range(13), [2 * i for i in range(13)])
    assert found.r == pytest.approx(1.0)
    assert (found.r_bounds.low, found.slope_bounds.low) == pytest.approx((1.0, 2.0))


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([1, 2], [1, 2], "2 points are too few"),
        ([1, 1, 1], [1, 2, 3], "the intrinsic figure is the same for all points"),
        ([1, 2, 3], [0.1, 0.1, 0.1], "the extrinsic figure is the same for all points"),
        ([1, 2, math.nan], [1, 2, 3], "the intrinsic figure of a point is not a finite number"),
        ([1, 2, 3], [1, math.inf, 3], "the extrinsic figure of a point is not a finite number"),
    ],
)
def test_undefined_agreement_says_why(x, y, message):
    with pytest.raises(UndefinedError, match=message):
        agreement([str(i) for i in range(len(x))], x, y)


def test_a_point_without_a_method_is_refused():
    with pytest.raises(ValueError, match="got 2, 3 and 3"):
        agreement(["a", "b"], [1, 2, 3], [1, 2, 4])
