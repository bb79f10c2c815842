"""One checkpoint against restarts of a training, and several restarts against several on crossed units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulations.restarts_coverage import crossed_row, prediction_row

from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.inference.paired import Difference, compare_restarts
from pytest_genderbias.statistics.inference.resolution import RestartSimulation, resolve
from pytest_genderbias.statistics.inference.restarts import (
    compare_crossed,
    compare_with_restarts,
    prediction_bounds,
    restarts_to_decide,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError

VALUES = st.lists(st.floats(-2, 2).map(lambda x: round(x, 3)), min_size=2, max_size=8)


def same(value: FloatArray) -> FloatArray:
    return value


def bounds(difference: Difference) -> tuple[float, float, float, float]:
    return difference.low, difference.high, difference.p, difference.p_better


def regression(restarts: list[float], one: float) -> tuple[float, float, float]:
    """Return coefficient, standard error and degrees of freedom of a dummy variable for the one, by least squares."""
    y = np.array([*restarts, one])
    design = np.column_stack([np.ones(len(y)), np.arange(len(y)) == len(restarts)]).astype(float)
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    rest, freedom = y - design @ beta, len(y) - 2
    error = np.sqrt(rest @ rest / freedom * np.linalg.inv(design.T @ design)[1, 1])
    return float(beta[1]), float(error), freedom


@given(VALUES.filter(lambda values: np.ptp(values) > 0.01), st.floats(-3, 3))
def test_one_checkpoint_is_a_regression_on_a_dummy_variable(restarts: list[float], one: float) -> None:
    beta, error, freedom = regression(restarts, one)
    reach = stats.t.ppf(0.95, freedom) * error
    found = compare_with_restarts(restarts, [one], same, tolerance=0.1)
    expected = (
        beta - reach,
        beta + reach,
        stats.t.sf((beta - 0.1) / error, freedom),
        stats.t.cdf((beta + 0.1) / error, freedom),
    )
    assert bounds(found) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert (found.items, found.over) == (len(restarts), "restarts")
    mirrored = compare_with_restarts([one], restarts, same, tolerance=0.1)
    assert mirrored.value == pytest.approx(-found.value)
    assert bounds(mirrored) == pytest.approx((-found.high, -found.low, found.p_better, found.p))
    low, high = prediction_bounds(restarts)
    assert (one > high) == (found.low > 0)
    assert (one < low) == (found.high < 0)


def test_neutral_between_the_restarts_widens_the_bounds() -> None:
    restarts = [-0.1, 0.1, 0.0, 0.02]
    near = compare_with_restarts(restarts, [0.1], np.abs)
    assert near.p == 1.0, "a checkpoint near neutral is no worse, on whichever side it lies"
    far = compare_with_restarts(restarts, [0.5], np.abs)
    other = compare_with_restarts(restarts, [-0.5], np.abs)
    assert far.value == pytest.approx(0.495)
    assert 0 < far.low < 0.495 < far.high
    assert other.low == pytest.approx(far.low, abs=0.02)
    plain = compare_with_restarts(np.add(restarts, 5), [5.5], same)
    assert bounds(compare_with_restarts(np.add(restarts, 5), [5.5], np.abs)) == pytest.approx(bounds(plain))


def test_restarts_without_spread_have_the_p_of_a_permutation() -> None:
    assert compare_with_restarts([2.0] * 3, [2.0], same).moved == 0
    worse = compare_with_restarts([2.0] * 3, [2.5], same, tolerance=0.1)
    assert (worse.low, worse.high, worse.p, worse.least_p) == (0.5, 0.5, 0.25, 0.25)
    assert compare_with_restarts([2.0] * 19, [2.5], same).p == pytest.approx(0.05)


def test_what_says_nothing_of_other_restarts() -> None:
    with pytest.raises(UndefinedError, match="one restart says nothing of others"):
        compare_with_restarts([1.0], [2.0], same)
    with pytest.raises(UndefinedError, match="no value in one"):
        compare_with_restarts([1.0, np.nan], [2.0], same)
    with pytest.raises(ValueError, match="one value on one side"):
        compare_with_restarts([1.0, 2.0], [2.0, 3.0], same)


@given(st.integers(0, 2**32 - 1), st.floats(0.2, 3))
def test_as_many_restarts_as_said_decide(seed: int, room: float) -> None:
    restarts = np.random.default_rng(seed).normal(size=4)
    needed = restarts_to_decide(restarts, 0.0, room)
    k = np.arange(2, 1001)
    reach = stats.t(k - 1).isf(0.05) * restarts.std(ddof=1) * (1 + 1 / k) ** 0.5
    assert needed == next((int(n) for n, r in zip(k, reach, strict=True) if r <= room), None)


# Several restarts on both sides, crossed with units


def side(scores: FloatArray) -> list[ItemSums]:
    """Return the sums of each restart, from scores of shape (restarts, units)."""
    labels = np.array([f"{i:03d}" for i in range(scores.shape[1])])
    return [mean_sums(labels, 4 * row, np.full(len(row), 4), "words") for row in scores]


def drawn(rng: np.random.Generator, k: int, units: int) -> FloatArray:
    of_units = rng.normal(size=units)
    return rng.normal(0, 0.5, (k, 1)) + of_units + rng.normal(0, 0.7, (k, units))


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(2, 5), st.integers(5, 20))
def test_crossed_variance_is_that_of_the_mean_squares(seed: int, k: int, m: int, units: int) -> None:
    rng = np.random.default_rng(seed)
    then, now = drawn(rng, k, units), drawn(rng, m, units)
    parts, freedom = [], []
    rest = 0.0
    for scores in (then, now):
        n = len(scores)
        grand = sum(scores.flat) / (n * units)
        mean_square_restarts = units * sum((row.mean() - grand) ** 2 for row in scores) / (n - 1)
        left = [scores[r, g] - scores[r].mean() - scores[:, g].mean() + grand for r in range(n) for g in range(units)]
        parts.append(mean_square_restarts / (n * units))
        freedom.append(n - 1)
        rest += sum(x * x for x in left) / ((n - 1) * (units - 1)) / (n * units)
    parts.append(float(np.var(now.mean(axis=0) - then.mean(axis=0), ddof=1)) / units)
    freedom.append(units - 1)
    variance = max(sum(parts) - rest, parts[0] + parts[1], parts[2])
    degrees = variance**2 / sum(part**2 / n for part, n in zip(parts, freedom, strict=True))
    reach = stats.t.ppf(0.95, degrees) * variance**0.5
    found = compare_crossed(side(then), side(now), same, tolerance=0.1)
    value = now.mean() - then.mean()
    assert found.value == pytest.approx(value)
    assert (found.low, found.high) == pytest.approx((value - reach, value + reach), rel=1e-6)
    assert found.p == pytest.approx(stats.t.sf((value - 0.1) / variance**0.5, degrees), rel=1e-6)
    assert found.changes.sum() == pytest.approx(value)
    mirrored = compare_crossed(side(now), side(then), same, tolerance=0.1)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


def test_bounds_are_never_within_those_over_restarts_alone() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        then, now = drawn(rng, 3, 12), drawn(rng, 3, 12)
        crossed = compare_crossed(side(then), side(now), same)
        error = (now.mean(axis=1).var(ddof=1) / 3 + then.mean(axis=1).var(ddof=1) / 3) ** 0.5
        assert crossed.high - crossed.value >= stats.norm.ppf(0.95) * error - 1e-12
    assert crossed.over == "restarts and words"


def test_distances_on_both_sides_of_neutral_are_bounded() -> None:
    rng = np.random.default_rng(5)
    then, now = drawn(rng, 3, 30) - 4, drawn(rng, 3, 30) + 5
    across = compare_crossed(side(then), side(now), np.abs)
    assert across.value == pytest.approx(abs(now.mean()) - abs(then.mean()))
    assert across.low < across.value < across.high
    at_neutral = then - then.mean(), now - now.mean()
    near = compare_crossed(side(at_neutral[0]), side(at_neutral[1]), np.abs)
    assert near.p == 1.0


@pytest.mark.parametrize(
    ("then", "now", "why"),
    [
        (np.ones((1, 9)), np.ones((3, 9)), "one restart says nothing"),
        (np.ones((2, 4)), np.ones((2, 4)), "4 words say nothing of others"),
        (np.ones((2, 9)), np.ones((2, 8)), "do not have the same words"),
        (np.ones((2, 9)), np.ones((2, 9)), "no restart and no unit differs"),
    ],
)
def test_what_cannot_be_crossed(then: FloatArray, now: FloatArray, why: str) -> None:
    with pytest.raises(UndefinedError, match=why):
        compare_crossed(side(then), side(now), same)


def test_bounds_over_restarts_alone_miss_other_units() -> None:
    """Units change by 1 at random: on other units a mean of 12 would differ by .29, and restarts that agree cannot show it."""
    rng = np.random.default_rng(0)
    wrong = np.zeros(2)
    for _ in range(200):
        then = rng.normal(0, 0.05, (3, 12))
        now = rng.normal(size=12) + rng.normal(0, 0.05, (3, 12))
        welch = compare_restarts(then.mean(axis=1), now.mean(axis=1), same)
        wrong += [welch.low > 0, compare_crossed(side(then), side(now), same).low > 0]
    assert wrong[0] > 60
    assert wrong[1] < 20


# Small versions of the tables of docs/evidence/coverage-restarts.md


@pytest.mark.parametrize("k", [3, 5, 10])
def test_equal_checkpoints_are_rarely_outside(k: int) -> None:
    row = prediction_row("normal", k, runs=4000)
    assert row.above == pytest.approx(0.025, abs=0.009)
    assert row.below == pytest.approx(0.025, abs=0.009)
    assert row.of_family <= 0.05 / 6 + 0.006


def test_crossed_bounds_hold() -> None:
    row = crossed_row(units=60, k=5, runs=400)
    assert row.crossed <= 0.07


@pytest.mark.parametrize("k", [3, 5])
def test_a_plan_of_six_gates_keeps_its_promise(k: int) -> None:
    """Equal trainings are green at all six in 95 %, and one that is worse by what was promised is found at its gate in 80 %."""
    start = np.arange(k, dtype=float)
    planned = resolve(RestartSimulation(start, same, tests=6), tests=6)
    tolerance, worsening = (x / start.std(ddof=1) for x in (planned.tolerance, planned.worsening_together))
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4000, 6, k + 1))
    restarts, one = values[..., :k], values[..., k]
    spread = restarts.std(axis=-1, ddof=1)
    reach = {level: stats.t.isf(level, k - 1) * np.sqrt(1 + 1 / k) * spread for level in (0.025, 0.05 / 6)}
    worse = one - restarts.mean(axis=-1)
    green = (worse + reach[0.025] <= tolerance * spread).all(axis=1).mean()
    found = (worse + worsening * spread - reach[0.05 / 6] > tolerance * spread).mean()
    assert green == pytest.approx(0.95, abs=0.015)
    assert found == pytest.approx(0.8, abs=0.02)
