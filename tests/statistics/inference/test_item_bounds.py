"""Bounds of a mean over items: exact where answers are yes or no, by enumeration; others in small simulations."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from simulations.item_coverage import POPULATIONS, cluster_failures, effects, failures, yes_no_failure

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import least_share
from pytest_genderbias.statistics.inference.item_bounds import (
    ItemEffects,
    cluster_interval,
    fewest_items,
    least_mean,
    share_below,
)
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items
from pytest_genderbias.statistics.sums import line_sums

LEVELS = (0.95, 0.975, 0.99875)


def same(value):
    return value


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", [6, 8, 12])
def test_bounds_of_yes_and_no_fail_no_more_often_than_they_say(n, level):
    """All outcomes of n items, and all probabilities in steps of a twentieth: bootstrap-t failed in 13 to 16 % for
    2.5.
    """
    assert max(yes_no_failure(n, level)) <= 1 - level + 1e-9


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("right", "n"), [(3, 3), (2, 12), (11, 12), (30, 60)])
def test_the_bound_of_a_share_is_that_of_clopper_and_pearson(right, n, level):
    values = (np.arange(n) < right).astype(float)
    found = least_mean(values, np.ones(n), 0.0, 1 - level)
    expected = binomtest(right, n).proportion_ci(2 * level - 1, "exact").low
    assert found == pytest.approx(expected, rel=0.015)
    assert share_below(values, np.ones(n), 0.0, expected) == pytest.approx(1 - level, rel=0.05)


@given(st.lists(st.floats(0, 1).map(lambda x: round(x, 2)), min_size=2, max_size=30), st.integers(1, 9))
def test_weights_are_those_of_clusters(shares, largest):
    """The saddlepoint approximation against the integral that bounds shares of clusters."""
    weights = 1.0 + np.arange(len(shares)) % largest
    expected = least_share(weights * shares, weights)
    assert least_mean(shares, weights, 0.0, 0.025) == pytest.approx(expected, abs=3e-3)


@given(
    st.lists(st.floats(-1, 1).map(lambda x: round(x, 2)), min_size=10, max_size=30).filter(any), st.sampled_from(LEVELS)
)
def test_bounds_mirror_have_a_scale_and_lie_around_the_value(changes, level):
    own = np.array(changes)
    low, high, p, p_better = effects(own).bounds(0.0, level)
    assert low <= own.mean() + 1e-12 and own.mean() - 1e-12 <= high
    assert effects(-own).bounds(0.0, level) == pytest.approx((-high, -low, p_better, p))
    assert effects(1e-4 * own).bounds(0.0, level)[:2] == pytest.approx((1e-4 * low, 1e-4 * high), abs=1e-9)
    wider = effects(own).bounds(0.0, 0.999)
    assert wider[0] <= low + 1e-12 and high <= wider[1] + 1e-12


@pytest.mark.parametrize("name", ["normal", "3 of 10 change", "exponential"])
@pytest.mark.parametrize("n", [6, pytest.param(12, marks=pytest.mark.slow), 60])  # the ends tell the middle
def test_bounds_of_means_hold(name, n):
    draw, truth = POPULATIONS[name]
    assert failures(draw, truth, n, 0.975, 400)[:2].max() <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 400)


def test_items_in_declared_clusters_err_as_seldom_as_others():
    """Fours with a correlation of .5: 9 % for 2.5 on each side, as if they were independent."""
    undeclared, declared = cluster_failures(15, 4, 0.5, 0.975, 400)
    assert undeclared > 0.05 and declared <= 0.025 + 3 * np.sqrt(0.025 * 0.975 / 800)


def test_a_level_that_so_few_items_cannot_reach_has_no_bounds_and_says_how_many_are_needed():
    labels = np.array(list("abcdefgh"))
    then, now = (mean_sums(labels, x, np.ones(8), "letters") for x in (np.zeros(8), np.linspace(1, 2, 8)))
    found = compare_items(then, now, same, level=0.99875)
    assert (found.low, found.high, found.p, found.p_better) == (-np.inf, np.inf, 1.0, 1.0)
    assert (
        found.method == "8 letters say nothing of others at this level, 10 are needed" and fewest_items(0.99875) == 10
    )
    assert compare_items(then, now, same, level=0.975).low > 0


def clustered(values, clusters, over="jobs"):
    labels = np.array([f"{i:02d}" for i in range(len(values))])
    sums = mean_sums(labels, np.asarray(values), np.ones(len(values)), over)
    return sums.in_clusters(dict(zip(labels.tolist(), clusters, strict=True)))


def test_clusters_take_the_place_of_their_items_and_items_are_still_named():
    rng = np.random.default_rng(1)
    before, after, of = rng.normal(size=24), rng.normal(size=24), [str(i // 2) for i in range(24)]
    found = compare_items(clustered(before, of), clustered(after, of), same, level=0.975)
    merged = [
        mean_sums(np.arange(12).astype(str), x.reshape(12, 2).sum(axis=1), np.full(12, 2.0), "pairs")
        for x in (before, after)
    ]
    other = compare_items(*merged, same, level=0.975)
    assert (found.low, found.high, found.p) == pytest.approx((other.low, other.high, other.p))
    assert (found.over, found.what, found.items, found.moved) == ("clusters of jobs", "jobs", 12, 12)
    assert len(found.changes) == len(found.labels) == len(found.of_now) == 24
    assert found.changes.sum() == pytest.approx(found.value)


def test_clusters_of_the_model_now_count_and_are_stored():
    of = [str(i // 2) for i in range(24)]
    rng = np.random.default_rng(2)
    then, now = clustered(rng.normal(size=24), range(24)), clustered(rng.normal(size=24), of)
    assert then.clusters is None and compare_items(then, now, same).over == "clusters of jobs"
    again = SumsByStatistic.from_arrays(SumsByStatistic({"then": then, "now": now}).to_arrays())
    assert again["now"].clusters is not None and again["now"].clusters.tolist() == of
    assert again["then"].clusters is None


def test_too_few_clusters_have_no_bounds():
    with pytest.raises(UndefinedError, match="3 clusters of jobs in common say nothing of others"):
        compare_items(clustered(np.zeros(12), "aaaabbbbcccc"), clustered(np.arange(12.0), "aaaabbbbcccc"), same)


def test_a_dominant_item_widens_the_bounds():
    changes = np.linspace(0.5, 1.5, 12)
    even = ItemEffects(1.0, changes, np.ones(12), 0.1)
    heavy = ItemEffects(1.0, np.round(changes), np.r_[6.0, np.full(11, 6 / 11)], 0.1)
    assert heavy.tied and heavy.bounds(0.0, 0.975)[0] < 0 < even.bounds(0.0, 0.975)[0]


def test_clusters_that_give_the_same_or_lie_on_a_line_have_no_interval():
    labels, x = np.arange(12).astype(str), np.linspace(0.0, 1.0, 12)
    flat = mean_sums(labels, np.ones(12), np.ones(12), "words"), line_sums(labels, x, np.ones(12), "slope", "words")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sums in (*flat, line_sums(labels, x, 2 * x + 1, "pearson", "words")):
            assert cluster_interval(sums.in_clusters({str(i): f"pair {i // 2}" for i in range(12)})) is None
