"""One checkpoint against restarts of a training, and several restarts against several on crossed units."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulations.restarts_coverage import crossed_row, one_row, prior_of, several_row, squares_row

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.gap_rms import signed_root
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.statistics.inference.over_restarts import (
    Prior,
    compare_crossed,
    compare_restarts,
    next_restart,
    prediction_bounds,
    restarts_to_decide,
)
from pytest_genderbias.statistics.inference.paired import Difference
from pytest_genderbias.statistics.sums import f1_gap_sums

BOUNDS = ("value", "low", "high", "p", "p_better")
SEEDS = st.integers(0, 2**32 - 1)
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
    found = compare_restarts(restarts, [one], same, tolerance=0.1)
    expected = (
        beta - reach,
        beta + reach,
        stats.t.sf((beta - 0.1) / error, freedom),
        stats.t.cdf((beta + 0.1) / error, freedom),
    )
    assert bounds(found) == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert (found.items, found.over) == (len(restarts), "restarts")
    mirrored = compare_restarts([one], restarts, same, tolerance=0.1)
    assert mirrored.value == pytest.approx(-found.value)
    assert bounds(mirrored) == pytest.approx((-found.high, -found.low, found.p_better, found.p))
    low, high = prediction_bounds(restarts)
    assert (one > high) == (found.low > 0)
    assert (one < low) == (found.high < 0)


def test_neutral_between_the_restarts_widens_the_bounds() -> None:
    restarts = [-0.1, 0.1, 0.0, 0.02]
    near = compare_restarts(restarts, [0.1], np.abs)
    assert near.p == 1.0, "a checkpoint near neutral is no worse, on whichever side it lies"
    far = compare_restarts(restarts, [0.5], np.abs)
    other = compare_restarts(restarts, [-0.5], np.abs)
    assert far.value == pytest.approx(0.495)
    assert 0 < far.low < 0.495 < far.high
    assert other.low == pytest.approx(far.low, abs=0.02)
    plain = compare_restarts(np.add(restarts, 5), [5.5], same)
    assert bounds(compare_restarts(np.add(restarts, 5), [5.5], np.abs)) == pytest.approx(bounds(plain))


def test_what_says_nothing_of_other_restarts() -> None:
    with pytest.raises(UndefinedError, match="one restart says nothing of others"):
        compare_restarts([1.0], [2.0], same)
    with pytest.raises(UndefinedError, match="no value in one"):
        compare_restarts([1.0, np.nan], [2.0], same)
    for then, now, paired in (([], [2.0], False), ([1.0, 2.0], [], False), ([], [], False), ([1.0], [1.0, 2.0], True)):
        with pytest.raises(UndefinedError, match="one restart says nothing of others"):
            compare_restarts(then, now, same, paired=paired)


@given(st.integers(0, 2**32 - 1), st.floats(0.2, 3))
def test_as_many_restarts_as_said_decide(seed: int, room: float) -> None:
    restarts = np.random.default_rng(seed).normal(size=4)
    needed = restarts_to_decide(restarts, 0.0, room)
    k = np.arange(2, 1001)
    reach = stats.t(k - 1).isf(0.05) * restarts.std(ddof=1) * (1 + 1 / k) ** 0.5
    assert needed == next((int(n) for n, r in zip(k, reach, strict=True) if r <= room), None)


# A spread that is borrowed

PRIORS = st.builds(Prior, st.floats(0.05, 5), st.floats(0.1, 8))


@given(VALUES, st.floats(-3, 3), PRIORS)
def test_with_a_prior_the_spread_is_moderated(restarts: list[float], one: float, prior: Prior) -> None:
    k, freedom = len(restarts), prior.freedom + len(restarts) - 1
    variance = (prior.freedom * prior.spread**2 + (k - 1) * np.var(restarts, ddof=1)) / freedom
    error, value = (variance * (1 + 1 / k)) ** 0.5, one - np.mean(restarts)
    for found, sign in (
        (compare_restarts(restarts, [one], same, 0.1, prior=prior), 1),
        (compare_restarts([one], restarts, same, 0.1, prior=prior), -1),
    ):
        if not found.moved:
            assert np.ptp([*restarts, one]) < 1e-150  # whose square is 0
            continue
        assert found.value == pytest.approx(sign * value, abs=1e-9)
        assert found.high - found.value == pytest.approx(stats.t.ppf(0.95, freedom) * error)
        assert found.p == pytest.approx(stats.t.sf((sign * value - 0.1) / error, freedom))
    assert prediction_bounds(restarts, 0.95, prior)[1] == pytest.approx(
        np.mean(restarts) + stats.t.ppf(0.95, freedom) * error
    )


@given(VALUES.filter(lambda values: np.ptp(values) > 0.01), SEEDS)
def test_a_prior_of_no_weight_changes_nothing(restarts: list[float], seed: int) -> None:
    rng, nothing = np.random.default_rng(seed), Prior(3.0, 0.0)
    now = rng.normal(size=3)
    for other in (now[:1], now):
        plain, found = (compare_restarts(restarts, other, np.abs, 0.1, prior=prior) for prior in (None, nothing))
        assert bounds(found) == pytest.approx(bounds(plain))


def test_with_a_prior_one_restart_on_each_side_is_enough() -> None:
    found = compare_restarts([1.0], [2.0], same, prior=Prior(0.1, 8.0))
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.95, 8) * 0.1 * 2**0.5)
    assert found.low > 0
    pairs = [1.0, 1.1], [2.0, 2.1]
    plain, two = (compare_restarts(*pairs, same, prior=prior) for prior in (None, Prior(0.1, 8.0)))
    assert two.high - two.low < 0.9 * (plain.high - plain.low)


@given(st.integers(0, 2**32 - 1), PRIORS)
def test_a_prior_counts_once_on_both_sides(seed: int, prior: Prior) -> None:
    then, now = np.random.default_rng(seed).normal(size=(2, 3))
    found = compare_restarts(then, now, same, prior=prior)
    mirrored = compare_restarts(now, then, same, prior=prior)
    assert bounds(mirrored) == pytest.approx((-found.high, -found.low, found.p_better, found.p))
    variances = [(prior.freedom * prior.spread**2 + 2 * x.var(ddof=1)) / (prior.freedom + 2) / 3 for x in (then, now)]
    least = stats.t.ppf(0.95, 4 + prior.freedom) * sum(variances) ** 0.5
    assert found.high - found.value >= least * (1 - 1e-9)


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 3))
def test_a_prior_widens_crossed_bounds_or_narrows_them(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    then, now = drawn(rng, 2, 30), drawn(rng, 2, 30)
    plain = compare_crossed(side(then), side(now), same)
    none, small, large = (
        compare_crossed(side(then), side(now), same, prior=prior)
        for prior in (Prior(spread, 0.0), Prior(spread, 2.0), Prior(100 * spread, 2.0))
    )
    assert bounds(none) == pytest.approx(bounds(plain))
    assert large.high - large.low > small.high - small.low


# Roots of mean squares


@given(SEEDS, st.floats(-1, 1), st.floats(0, 0.5), st.booleans(), st.integers(1, 3))
def test_roots_are_compared_on_their_squares(seed: int, mean: float, tolerance: float, turned: bool, now: int) -> None:
    rng = np.random.default_rng(seed)
    then, after = (signed_root(rng.normal(mean, 0.3, k)) for k in (4, now))
    if turned and now == 1:
        then, after = after, then
    found = compare_restarts(then, after, same, tolerance, root=True)
    squares = [values * np.abs(values) for values in (then, after)]
    plain = compare_restarts(*squares, same)
    assert found.value == pytest.approx(float(np.diff([signed_root(s.mean()) for s in squares])[0]))
    assert found.low <= found.value <= found.high
    assert [np.sign(found.low), np.sign(found.high)] == [np.sign(plain.low), np.sign(plain.high)]
    assert (found.p <= 0.05) == (found.low >= tolerance)
    assert (found.p_better <= 0.05) == (found.high <= -tolerance)


def test_roots_far_from_0_have_the_bounds_of_any_statistic() -> None:
    then, now = [10.0, 10.01, 10.03], [10.05]
    plain, root = (compare_restarts(then, now, same, 0.01, root=root) for root in (False, True))
    assert bounds(root) == pytest.approx(bounds(plain), rel=0.02)
    prior = Prior(0.02)
    plain, root = (compare_restarts(then, now, same, 0.01, prior=prior, root=root) for root in (False, True))
    assert bounds(root) == pytest.approx(bounds(plain), rel=0.02)


@pytest.mark.parametrize(("mean", "most"), [(0.0, 1.05), (1.0, 1.5), (10.0, 1.05)])
def test_the_prior_spread_of_a_root_is_turned_into_that_of_its_square(mean: float, most: float) -> None:
    """It is right at 0 and far from it, and too large in between."""
    roots = signed_root(np.random.default_rng(0).normal(mean, 1, 100_000))
    prior = Prior(float(roots.std()), 4.0)
    _, error, _ = next_restart([float(signed_root(mean))], prior, root=True)
    assert 0.95 < error / 2**0.5 < most


# Several restarts on both sides


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=9, unique=True), st.integers(2, 9), SEEDS)
def test_restarts_are_compared_by_welch(then, m, seed):
    then = np.asarray(then) + np.arange(len(then))
    now = np.random.default_rng(seed).normal(size=m)
    found = compare_restarts(then, now, same, tolerance=0.2)
    expected = stats.ttest_ind(now - 0.2, then, equal_var=False, alternative="greater")
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)
    above = stats.ttest_ind(now, then, equal_var=False, alternative="greater").confidence_interval(0.95)
    below = stats.ttest_ind(now, then, equal_var=False, alternative="less").confidence_interval(0.95)
    assert [found.low, found.high] == pytest.approx([above.low, below.high])


def test_restarts_without_spread_and_single_ones():
    found = compare_restarts([0.3, 0.3], [0.3, 0.3, 0.3], same)
    assert [getattr(found, key) for key in BOUNDS] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert (found.method, found.moved) == ("the same in every restart", 0)
    with pytest.raises(UndefinedError, match="one restart says nothing of others"):
        compare_restarts([0.3], [0.4], same, paired=True)


def test_restarts_without_spread_say_nothing_of_others():
    """Counts of few steps: how far another restart lies is not known, however far the sides are apart."""
    for sides in (([5, 5], [6, 6]), ([0.3] * 9, [0.5] * 9), ([5, 5, 5], [6])):
        with pytest.raises(UndefinedError, match="do not differ"):
            compare_restarts(*sides, same)
        assert compare_restarts(*sides, same, prior=Prior(0.1)).low > -1


def test_restarts_on_both_sides_of_neutral_are_judged_by_their_mean():
    """Their mean was neutral and is .1 away; the mean of their distances was .1 already."""
    then, now = [-0.1, 0.1, -0.1001, 0.1001], [0.1, 0.1001, 0.0999]
    found = compare_restarts(then, now, np.abs, tolerance=0.02)
    assert found.value == pytest.approx(0.1)
    assert found.low < 0.02 < found.value < found.high


def test_restarts_far_from_neutral_have_the_bounds_of_their_side():
    then, now = [1.0, 1.1, 1.3], [1.4, 1.5, 1.45]
    plain = compare_restarts(then, now, same)
    for sign in (1, -1):
        found = compare_restarts(sign * np.array(then), sign * np.array(now), np.abs)
        assert [getattr(found, key) for key in BOUNDS] == pytest.approx([getattr(plain, key) for key in BOUNDS])
    across = compare_restarts(-np.array(then), now, np.abs)
    assert [across.value, across.low, across.high] == pytest.approx([plain.value, plain.low, plain.high])


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_swapping_restarts_mirrors_a_distance(seed):
    then, now = np.random.default_rng(seed).normal(0.5, 1.0, (2, 4))
    one, other = compare_restarts(then, now, np.abs, 0.01), compare_restarts(now, then, np.abs, 0.01)
    mirrored = [-other.value, -other.high, -other.low, other.p_better]
    assert [one.value, one.low, one.high, one.p] == pytest.approx(mirrored, abs=1e-9)


@pytest.mark.parametrize(("then", "now"), [(0.0, 0.0), (0.0, 0.5), (0.3, 0.3), (-0.3, 0.3)])
def test_bounds_of_restarts_hold_near_neutral(then, now):
    rng, held = np.random.default_rng(2), np.zeros(3)
    for _ in range(300):
        found = compare_restarts(rng.normal(then, 0.3, 4), rng.normal(now, 0.3, 4), np.abs, abs(now) - abs(then) + 1e-9)
        truth = abs(now) - abs(then)
        held += [found.low <= truth, found.high >= truth, found.p > 0.05]
    assert (held / 300).min() > 0.91  # 3 standard errors below 95 %


def test_restarts_of_equal_seeds_are_paired():
    """What a seed does to both sides cancels: bounds are Student's over the differences."""
    rng = np.random.default_rng(2)
    seeds = rng.normal(0.0, 1.0, 5)
    then, now = 2.0 + seeds, 1.8 + seeds + rng.normal(0.0, 0.02, 5)
    found = compare_restarts(then, now, same, tolerance=0.01, paired=True)
    low, high = stats.ttest_rel(now, then).confidence_interval(0.90)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.p == pytest.approx(stats.ttest_rel(now, then + 0.01, alternative="greater").pvalue)
    assert found.p_better == pytest.approx(stats.ttest_rel(now, then - 0.01, alternative="less").pvalue)
    apart = compare_restarts(then, now, same)
    assert found.value == pytest.approx(apart.value) and found.high - found.low < 0.1 * (apart.high - apart.low)
    nothing = compare_restarts(then, then, same, paired=True)
    assert (nothing.low, nothing.high, nothing.moved, nothing.p) == (0.0, 0.0, 0, 1.0)
    with pytest.raises(ValueError, match="as many restarts"):
        compare_restarts(then, now[:4], same, paired=True)


def test_paired_restarts_that_all_change_alike_are_exact():
    for then in ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [1.0] * 4):
        with pytest.raises(UndefinedError, match="restarts that all moved alike say too little"):
            compare_restarts(then, np.add(then, 0.5), same, paired=True)
    nothing = compare_restarts([1.0, 2.0], [1.0, 2.0], same, paired=True)
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
    for then in (np.arange(5.0), np.ones(5)):
        found = compare_restarts(then, then + 0.5, same, paired=True)
        assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
        assert found.p == pytest.approx(1 / 32) and found.p_better == 1.0


def test_few_paired_restarts_of_a_count_that_is_mostly_0_decide_nothing():
    """Half a test is significant in the mean, and so with the model before: three restarts without any are no news."""
    after = np.random.default_rng(0).poisson(0.5, (400, 3)).astype(float)
    wrong = 0
    for values in after:
        try:
            wrong += compare_restarts(np.full(3, 0.5), values, same, paired=True).high < 0
        except UndefinedError:
            continue
    assert wrong <= 0.05 * len(after)


# Several restarts on both sides, crossed with units


def side(scores: FloatArray) -> list[ItemSums]:
    """Return the sums of each restart, from scores of shape (restarts, units)."""
    labels = np.array([f"{i:03d}" for i in range(scores.shape[1])])
    return [mean_sums(labels, 4 * row, np.full(len(row), 4), "words") for row in scores]


def drawn(rng: np.random.Generator, k: int, units: int) -> FloatArray:
    of_units = rng.normal(size=units)
    return rng.normal(0, 0.5, (k, 1)) + of_units + rng.normal(0, 0.7, (k, units))


def test_the_same_restarts_in_another_order_differ_in_nothing() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 4, (3, 8, 2, 1, 4)) + np.array([0, 3, 0, 3])  # of three restarts and eight pairs
    sides = [f1_gap_sums(np.arange(8).astype(str), of[:, 0], of[:, 1], "pairs of sentences") for of in counts]
    found = compare_crossed(sides, [sides[2], *sides[:2]], same)
    assert (found.value, found.moved) == (0.0, 0)
    assert found.low < 0 < found.high


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
    """Units change by 1 at random: on other units a mean of 12 would differ by .29, and restarts that agree cannot show
    it.
    """
    rng = np.random.default_rng(0)
    wrong = np.zeros(2)
    for _ in range(200):
        then = rng.normal(0, 0.05, (3, 12))
        now = rng.normal(size=12) + rng.normal(0, 0.05, (3, 12))
        welch = compare_restarts(then.mean(axis=1), now.mean(axis=1), same)
        wrong += [welch.low > 0, compare_crossed(side(then), side(now), same).low > 0]
    assert wrong[0] > 60
    assert wrong[1] < 20


def test_clusters_count_unless_they_are_all_that_there_are() -> None:
    """Twelve pairs of equal words are twelve words, or 24 where the pairs are all that there are."""
    rng = np.random.default_rng(1)
    then, now = np.zeros((2, 12)), rng.normal(0.5, 1.0, (2, 12))
    halves = compare_crossed(side(then), side(now), same)
    doubled = side(np.repeat(then, 2, axis=1)), side(np.repeat(now, 2, axis=1))
    labels = doubled[0][0].labels.tolist()
    pairs = {label: f"pair {i // 2}" for i, label in enumerate(labels)}
    sampled = compare_crossed(doubled[0], [one.in_clusters(pairs) for one in doubled[1]], same)
    assert (sampled.low, sampled.high) == pytest.approx((halves.low, halves.high))
    assert sampled.over == "restarts and clusters of words"
    assert len(sampled.changes) == 24
    complete = compare_crossed(doubled[0], [one.in_clusters(pairs, complete=True) for one in doubled[1]], same)
    undeclared = compare_crossed(*doubled, same)
    assert (complete.low, complete.high, complete.over) == (undeclared.low, undeclared.high, "restarts and words")
    assert complete.low > sampled.low


# Small versions of the tables of docs/evidence/coverage-restarts.md


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_equal_checkpoints_are_rarely_worse(k: int) -> None:
    for population in ("normal", "long tails (t, 5 degrees)"):
        for ratio in (None, 1.0, 0.5, 2.0):
            assert one_row(population, k, prior_of(ratio)).alone <= 0.044
    assert one_row("normal", k).alone == pytest.approx(0.025, abs=0.004)


@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_equal_restarts_are_rarely_worse(k: int) -> None:
    for population in ("normal", "long tails (t, 5 degrees)", "skewed towards worse (gamma, skewness 1)"):
        for ratio in (None, 1.0, 0.5, 2.0):
            assert several_row(population, k, k, prior_of(ratio), runs=8000).alone <= 0.044
        for ratio in (None, 1.0):
            assert several_row(population, k, k, prior_of(ratio), spread=2.0, runs=8000).alone <= 0.04


def test_roots_are_found_on_their_squares() -> None:
    """Of a mean square that is 0, a worsening by four standard deviations: 20 % by the roots."""
    assert squares_row(0.0, 4.0, 5, root=True, runs=500) > 0.7
    assert squares_row(0.0, 4.0, 5, root=False, runs=500) < 0.3
    assert squares_row(0.0, 0.0, 5, root=True, runs=1000) <= 0.04


@pytest.mark.parametrize("ratio", [None, 1.0, 0.5])
def test_crossed_bounds_hold(ratio: float | None) -> None:
    assert crossed_row(units=60, k=5, runs=400, ratio=ratio).crossed <= 0.045


def test_declared_clusters_are_what_crossed_bounds_are_over() -> None:
    """Of eights of items that change alike, undeclared ones are called worse too often."""
    undeclared, declared = (
        crossed_row(units=64, k=3, runs=400, size=8, declared=declared).crossed for declared in (False, True)
    )
    assert undeclared > 0.06
    assert declared <= 0.04
