"""Paired differences against slow loops and scipy, their symmetries, their coverage in simulation; Holm against
statsmodels.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulations.paired_coverage import (
    EFFECTS,
    MEANS,
    SMOOTH,
    count_of,
    count_pair,
    counts_power_rows,
    effect_size,
    expected_count,
    location_pair,
    mean_pair,
    methods_rows,
    names,
    normal,
    own_sums,
    pearson,
    simulate,
    slope,
    some,
)
from statsmodels.stats.multitest import multipletests

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference import paired
from pytest_genderbias.statistics.inference.intervals import clustered_mean_error, holm
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.paired import Difference, compare_items, items_to_decide, with_retraining

SEEDS = st.integers(0, 10_000)
BOUNDS = ("value", "low", "high", "p", "p_better")


def same(value):
    return value


def mean_of(values, counts=None):
    n = len(values)
    counts = np.ones(n) if counts is None else counts
    return mean_sums(names(n), np.asarray(values) * counts, counts, "items")


def permuted(item_sums, order):
    return replace(item_sums, labels=item_sums.labels[order], sums=item_sums.sums[order])


def line(x, y, value):
    return own_sums(names(len(x)), np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1), value, "items")


# What is equal, and what cannot be said


def test_the_same_sums_are_no_difference_at_all():
    then = mean_of(np.arange(12.0))
    found = compare_items(then, then, same)
    assert [getattr(found, key) for key in BOUNDS] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert found.method == "the same in every item" and (found.items, found.moved) == (12, 0)


def test_noise_is_no_difference():
    then, counts = np.linspace(0, 1, 12), np.full(12, 1000.0)
    near = compare_items(mean_of(then, counts), mean_of(then + 9e-7, counts), same)
    assert near.value == 0.0 and near.moved == 0
    assert compare_items(mean_of(then, counts), mean_of(then + 2e-6, counts), same).moved == 12


def test_only_items_in_common_are_compared():
    then, now = mean_of(np.arange(12.0)), mean_of(np.arange(12.0) ** 2)
    some_items = permuted(now, np.arange(3, 12))
    found = compare_items(then, some_items, same)
    assert found.labels.tolist() == names(12)[3:].tolist()
    assert found.value == pytest.approx(np.mean(np.arange(3.0, 12) ** 2) - np.mean(np.arange(3.0, 12)))


def test_too_little_in_common_is_refused():
    then, now = mean_of(np.arange(6.0)), mean_of(np.arange(6.0) ** 2)
    with pytest.raises(UndefinedError, match="4 items in common say nothing of others"):
        compare_items(permuted(then, np.arange(4)), now, same)
    with pytest.raises(UndefinedError, match="in common"):
        compare_items(permuted(then, np.arange(3)), permuted(now, np.arange(3, 6)), same)
    x = np.arange(6.0)
    with pytest.raises(UndefinedError, match="no value"):
        compare_items(line(x, np.ones(6), pearson), line(x, x, pearson), np.abs)


# Value, error and bounds against other computations


def test_equal_counts_give_students_t_with_the_tail_that_others_may_have():
    rng = np.random.default_rng(5)
    counts, then = rng.integers(5, 30, 17).astype(float), rng.normal(size=17)
    change = rng.exponential(size=17)
    found = compare_items(mean_of(then, counts), mean_of(then + change, counts), same, tolerance=0.4)
    mean, error = clustered_mean_error(change * counts, counts)
    influences = counts * (change - mean)
    assert found.value == pytest.approx(float(mean))
    skew = 3 * np.sqrt(6 / 17)
    for bound, tail in (
        (mean - found.low, skew - 3 * stats.skew(influences)),
        (found.high - mean, skew + 3 * stats.skew(influences)),
    ):
        t = stats.t.ppf(0.95, 16)
        assert bound / error == pytest.approx(t + max(0.0, tail) / (6 * np.sqrt(17)) * (2 * t * t + 1), rel=0.03)
    assert found.changes.sum() == pytest.approx(float(mean)) and found.moved == 17


@pytest.mark.parametrize("value", [pearson, slope])
def test_the_error_is_that_of_leaving_items_out(value):
    """The infinitesimal jackknife against the derivative by weights, the jackknife against refitting."""
    rng = np.random.default_rng(2)
    x, then = rng.normal(size=(2, 40))
    now = 0.5 * then + x + 0.3 * rng.normal(size=40)
    pair = paired._Pair(line(x, then, value), line(x, now, value), same)
    fit = (lambda a, b: stats.pearsonr(a, b)[0]) if value is pearson else (lambda a, b: stats.linregress(a, b).slope)
    left = [fit(np.delete(x, i), np.delete(now, i)) - fit(np.delete(x, i), np.delete(then, i)) for i in range(40)]
    assert pair.effects().error == pytest.approx(np.sqrt(39 * np.var(left)), rel=1e-6)
    ones, slopes = np.ones(40), []
    for i in range(40):
        up, down = ones.copy(), ones.copy()
        up[i], down[i] = 1 + 1e-4, 1 - 1e-4
        worse = [float(value(w @ line(x, now, value).sums) - value(w @ line(x, then, value).sums)) for w in (up, down)]
        slopes.append((worse[0] - worse[1]) / 2e-4)
    influences = pair.effects().influences
    assert influences / 40 == pytest.approx(np.array(slopes), abs=1e-3 * np.abs(slopes).max())


def test_bounds_and_p_say_the_same():
    for seed in range(20):
        then, now = mean_pair(normal)(np.random.default_rng(seed), 12)
        first = compare_items(then, now, same)
        assert (compare_items(then, now, same, tolerance=max(0, first.low - 1e-6)).p <= 0.05) == (first.low > 0)
        assert compare_items(then, now, same, tolerance=max(0, first.low + 1e-3)).p > 0.05


# Symmetries


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from([*MEANS]))
def test_swapping_then_and_now_mirrors_everything(seed, draw):
    then, now = mean_pair(draw)(np.random.default_rng(seed), 14)
    one, other = compare_items(then, now, same, 0.1), compare_items(now, then, same, 0.1)
    assert [one.value, one.low, one.high, one.p] == pytest.approx(
        [-other.value, -other.high, -other.low, other.p_better]
    )


@settings(max_examples=5, deadline=None)
@given(SEEDS, st.sampled_from([*SMOOTH]))
def test_swapping_mirrors_a_distance_too(seed, label):
    then, now = SMOOTH[label][0](np.random.default_rng(seed), 12)
    one, other = compare_items(then, now, np.abs, 0.01), compare_items(now, then, np.abs, 0.01)
    mirrored = [-other.value, -other.high, -other.low, other.p_better]
    assert [one.value, one.low, one.high, one.p] == pytest.approx(mirrored, abs=1e-9)


def test_swapping_mirrors_counts():
    then, now = count_pair(0.2, 0.8)(np.random.default_rng(3), 80)
    one, other = compare_items(then, now, same, 0.5), compare_items(now, then, same, 0.5)
    assert one.value == -other.value and one.p == pytest.approx(other.p_better, abs=0.03)
    assert one.low == pytest.approx(-other.high, abs=0.5) and one.high == pytest.approx(-other.low, abs=0.5)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_order_and_a_common_constant_change_nothing(seed):
    rng = np.random.default_rng(seed)
    then, counts = rng.normal(size=15), rng.integers(1, 9, 15).astype(float)
    now, order = then + rng.exponential(size=15), rng.permutation(15)
    first = compare_items(mean_of(then, counts), mean_of(now, counts), same, 0.3)
    shuffled = compare_items(
        permuted(mean_of(then, counts), order), permuted(mean_of(now, counts), order[::-1]), same, 0.3
    )
    shifted = compare_items(mean_of(then + 7, counts), mean_of(now + 7, counts), same, 0.3)
    for key in BOUNDS:
        assert getattr(shuffled, key) == getattr(first, key)
        assert getattr(shifted, key) == pytest.approx(getattr(first, key), abs=2e-4)


# Few items that vary


def test_one_changed_item_of_sixty_decides_nothing():
    then = np.linspace(0, 1, 60)
    now = then.copy()
    now[7] += 0.9
    found = compare_items(mean_of(then), mean_of(now), same, tolerance=0.01)
    share = stats.binomtest(1, 60).proportion_ci(0.90, "exact").high  # the others may be three times as far off
    assert found.method.startswith("random weights") and found.low < 0.01 < found.high and found.p > 0.1
    assert 0.9 * share < found.high < 3 * 0.9 * share and found.moved == 1
    assert int(np.argmax(found.changes)) == 7 and found.changes.sum() == pytest.approx(found.value)


@pytest.mark.parametrize("shift", [0.02, -0.02])
def test_a_shift_of_all_items_is_decided_as_by_the_sign_test(shift):
    """That of others lies beyond 0 as surely as all of twelve coins fall on one side."""
    counts = np.arange(3.0, 15.0)
    then = np.linspace(0, 1, 12)
    found = compare_items(mean_of(then, np.ones(12)), mean_of(then + shift, np.ones(12)), same)
    own, p, other = (found.low, found.p, found.p_better) if shift > 0 else (-found.high, found.p_better, found.p)
    assert p == pytest.approx(0.5**12, rel=0.05) and other == 1.0
    assert own == pytest.approx(abs(shift) * (2 * 0.05 ** (1 / 12) - 1), rel=0.03)
    heavier = compare_items(mean_of(then, counts), mean_of(then + shift, counts), same)
    assert abs(heavier.value) == pytest.approx(0.02) and heavier.high - heavier.low > found.high - found.low


@pytest.mark.parametrize("flip", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("flipped", [1, 2, 5, 60])
def test_small_flips_pass_a_tolerance(flip, flipped):
    then = np.linspace(0, 1, 60)
    now = then.copy()
    now[3 : 3 + flipped] += flip
    assert compare_items(mean_of(then), mean_of(now), same, tolerance=0.01).high < 0.01


# Near the neutral value


def test_a_side_in_doubt_widens_the_bounds():
    then, now = location_pair(None, 0.0, 0.0)(np.random.default_rng(8), 30)
    found = compare_items(then, now, np.abs)
    change = compare_items(then, now, same)
    assert found.high >= max(change.high, -change.low) and found.low <= -max(change.high, -change.low)
    assert found.p == 1.0 and found.p_better == 1.0


def test_a_side_beyond_doubt_is_taken_as_it_is():
    then, now = location_pair(None, 5.0, 5.5)(np.random.default_rng(8), 30)
    up, down = compare_items(then, now, np.abs), compare_items(then, now, same)
    assert [getattr(up, key) for key in BOUNDS] == pytest.approx([getattr(down, key) for key in BOUNDS])


# Counts of significant tests


def test_the_count_is_that_of_scipy():
    _, now = count_pair(0.0, 0.9)(np.random.default_rng(4), 90)
    group = np.arange(90) % 2
    supplied = now.sums.reshape(90, -1, 2).sum(axis=2)
    tables = [[[sum(f[group == g]), sum(1 - f[group == g])] for g in (0, 1)] for f in supplied.T]
    p = [stats.chi2_contingency(t, correction=False).pvalue for t in tables if min(map(sum, zip(*t, strict=True))) > 0]
    supplied_fills = int((supplied.sum(axis=0) > 0).sum())
    assert now.total == sum(q < 0.05 / supplied_fills for q in p) > 0


def test_counts_that_count_different_things_are_refused():
    then, now = count_pair(0.0, 0.9)(np.random.default_rng(4), 30)
    fewer = own_sums(now.labels, now.sums[:, :4], count_of(np.array([15, 15])), "persons", smooth=False)
    with pytest.raises(UndefinedError, match="counted in other ways"):
        compare_items(then, fewer, same)


def test_a_count_that_has_no_value_for_other_items_is_refused():
    def picky(totals):
        return np.where(totals[..., 1] == 30, totals[..., 0], np.nan)

    sums = np.stack([np.arange(30.0), np.ones(30)], axis=1)
    then = own_sums(names(30), sums, picky, "items", smooth=False)
    now = own_sums(names(30), sums[::-1] * [1, 1], picky, "items", smooth=False)
    assert np.isfinite(compare_items(then, now, same).high)
    half = np.concatenate([np.zeros((29, 1)), [[30.0]]])
    sparse = [own_sums(names(30), np.hstack([s.sums[:, :1], half]), picky, "items", smooth=False) for s in (then, now)]
    with pytest.raises(UndefinedError, match="often has no value"):
        compare_items(*sparse, same)


# Retraining


def over_items(value, below, above, p=0.5, p_better=0.5):
    return Difference(
        value, value - below, value + above, p, p_better, 30, 30, "any", "words", np.zeros(0), np.zeros(0, "U1")
    )


@given(
    st.floats(-3, 3),
    st.floats(0, 3),
    st.floats(0, 3),
    st.floats(0.01, 3),
    st.floats(0, 1),
    st.sampled_from([0.95, 0.975, 0.996]),
)
def test_retraining_adds_to_the_squared_reach(value, below, above, spread, tolerance, level):
    found = with_retraining(over_items(value, below, above), spread, tolerance, level)
    z = stats.norm.ppf(level) * spread
    assert found.low == pytest.approx(value - np.hypot(below, z))
    assert found.high == pytest.approx(value + np.hypot(above, z))
    assert (found.p <= 1 - level) == (found.low >= tolerance)
    assert (found.p_better <= 1 - level) == (found.high <= -tolerance)
    assert (found.over, found.what, found.value) == ("words and retraining", "words", value)
    mirrored = with_retraining(over_items(-value, above, below), spread, tolerance, level)
    assert (mirrored.p, mirrored.p_better) == pytest.approx((found.p_better, found.p))


@settings(max_examples=20, deadline=None)
@given(st.floats(-3, 3), st.floats(0.01, 3), st.floats(0.01, 3))
def test_of_normal_items_and_retraining_p_is_that_of_their_sum(value, error, spread):
    level = 0.975
    reach = stats.norm.ppf(level) * error
    found = with_retraining(over_items(value, reach, reach), spread, 0.2, level)
    assert found.p == pytest.approx(stats.norm.sf((value - 0.2) / np.hypot(error, spread)), abs=1e-9)


def test_a_copy_has_no_retraining_and_a_side_in_doubt_no_p():
    plain = over_items(0.4, 0.1, 0.2, 0.001, 1.0)
    assert with_retraining(plain, 0.0) is plain
    assert with_retraining(plain, 0.1).p_better == 1.0


def test_equal_trainings_are_rarely_worse_with_retraining():
    """Items say that they differ: a training moved all of them by the same. Beyond the items it moves by .3."""
    rng, wrong = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        then, moved = rng.normal(size=30), 0.3 * rng.normal()
        sides = mean_of(then), mean_of(then + moved + 0.5 * rng.normal(size=30))
        plain = compare_items(*sides, same, level=0.975, repeats=399)
        wrong += [plain.low > 0, with_retraining(plain, 0.3, level=0.975).low > 0]
    assert wrong[0] > 0.2 * 400
    assert wrong[1] <= 0.045 * 400


# The smallest p


def test_the_smallest_p_is_that_of_a_large_worsening():
    for items, shift in ((5, np.ones(5)), (12, 1 + np.linspace(0, 0.01, 12))):
        found = compare_items(mean_of(np.zeros(items)), mean_of(shift), same)
        assert found.p == pytest.approx(found.least_p, rel=0.03) and found.least_p == 0.5**items
    then, now = count_pair(0.0, 3.0)(np.random.default_rng(4), 90)
    found = compare_items(then, now, same)
    assert found.p == pytest.approx(found.least_p) and found.least_p == pytest.approx(1 / 20_000)


def test_large_tables_are_exchanged_less_often(monkeypatch):
    then, now = count_pair(0.0, 3.0)(np.random.default_rng(4), 30)
    monkeypatch.setattr(paired, "_MANY", 10)
    assert compare_items(then, now, same).least_p == pytest.approx(1 / 2_000)


# How many items


def test_items_to_decide_is_about_right():
    """With as many items as are named, of the same kind, about half of the comparisons decide."""
    then, now = mean_pair(normal)(np.random.default_rng(1), 200)
    found = compare_items(then, now, same, tolerance=0.3)
    needed = items_to_decide(found, 0.3)
    reach = (found.high - found.value) * np.sqrt(200 / needed)
    assert found.value + reach == pytest.approx(0.3, abs=0.01)
    assert items_to_decide(found, found.value) is None


# Coverage, in small


@pytest.mark.parametrize("draw", [normal, some(0.2)])
def test_bounds_of_means_hold(draw):
    low, high, regressed, passed, _ = simulate(mean_pair(draw), MEANS.get(draw, 0.2), 40, 300)
    assert min(low, high) > 0.91 and max(regressed, passed) < 0.09  # 3 standard errors beside 95 and 5 %


def test_bounds_of_a_correlation_hold():
    make, truth = SMOOTH["r, .3 to .6"]
    low, high, *_ = simulate(make, truth, 20, 150, np.abs)
    assert min(low, high) > 0.88


def test_bounds_of_counts_hold():
    then, now = EFFECTS["larger effects"]
    truth = expected_count(now, 60) - expected_count(then, 60)
    low, high, *_ = simulate(count_pair(then, now), truth, 60, 60)
    assert min(low, high) > 0.88


def test_exchangeable_models_are_seldom_called_worse():
    """Then and now exchanged at random: a p below .05 is no more frequent than that."""
    rng, small = np.random.default_rng(0), 0
    for _ in range(200):
        base, spread = rng.normal(size=(2, 20))
        first, second = base + rng.normal(size=20), base + spread * rng.normal(size=20)
        swap = rng.integers(2, size=20) == 1
        then, now = np.where(swap, second, first), np.where(swap, first, second)
        small += compare_items(mean_of(then), mean_of(now), same).p <= 0.05
    assert small <= 200 * 0.05 + 3 * np.sqrt(200 * 0.05 * 0.95)


def test_effect_size_of_a_shift():
    y = np.random.default_rng(1).normal(size=30)
    then, now = (own_sums(names(30), np.stack([np.ones(30), z, z * z], 1), effect_size, "items") for z in (y, y + 1))
    assert compare_items(then, now, np.abs).value == pytest.approx(
        abs((y + 1).mean() / y.std()) - abs(y.mean() / y.std())
    )


# Many tests


@pytest.mark.parametrize("number", [1, 7, 30])
def test_holm_is_that_of_statsmodels(number):
    p = np.random.default_rng(number).random(number) ** 4
    p[number // 2 :] = p[number // 2]  # ties
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@given(st.lists(st.integers(0, 100), min_size=1, max_size=12))
def test_holm_steps_down(percents):
    """One by one from the smallest, with as many tests as are left; never below one before it."""
    p, adjusted = np.array(percents) / 100, {}
    for place, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        adjusted[i] = max([min(1.0, p[i] * (len(p) - place)), *adjusted.values()])
    assert holm(p) == pytest.approx([adjusted[i] for i in range(len(p))])
    assert (holm(p) <= np.minimum(p * len(p), 1) + 1e-15).all() and (holm(p) >= p).all()


def test_corrections_refuse_what_is_no_p_value():
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1, np.nan])
    assert holm([]).shape == (0,)


def test_figures_of_methods_and_of_gates_on_counts_in_a_small_version():
    """Student's t and percentiles let pass what has a long tail towards worse more often than the chosen bounds."""
    shares = dict(methods_rows(runs=40))
    assert shares["exponential"][2] >= max(shares["exponential"][:2])
    ((_, cells), _) = counts_power_rows(runs=4, sizes=(164,))
    ((truth, decisions),) = cells
    assert truth == pytest.approx(6.4, abs=0.1)
    assert decisions[2] >= 0.75


def test_near_neutral_no_worsening_is_larger_than_the_change_of_the_statistic():
    """Items far apart whose mean is neutral, each moved by a thousandth: whichever side they are on, that is all it can
    be.
    """
    rng = np.random.default_rng(12)
    labels, far = np.asarray([f"item {k}" for k in range(64)]), rng.normal(0, 1, 64)
    then, now = (
        mean_sums(labels, x, np.ones(64), "items")
        for x in (far - far.mean(), far - far.mean() + rng.normal(0, 1e-3, 64))
    )
    found = compare_items(then, now, np.abs)
    assert max(-found.low, found.high) < 1e-3
    assert found.low <= found.value <= found.high


def test_fewer_draws_move_the_bounds_by_chance_only() -> None:
    """A simulation compares hundreds of counts of tests, with 1,999 draws instead of 9,999."""
    then, now = count_pair(0.0, 0.7)(np.random.default_rng(4), 60)
    usual, few = (compare_items(then, now, same, repeats=repeats) for repeats in (None, 1999))
    assert (usual.least_p, few.least_p) == (5e-5, 2.5e-4)
    assert [few.low, few.high] == pytest.approx([usual.low, usual.high], abs=0.2 * (usual.high - usual.low))
