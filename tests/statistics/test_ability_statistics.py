"""Shares of right answers: their bounds against independent computations, and how far they fell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_1samp, ttest_ind
from sklearn.metrics import balanced_accuracy_score

from pytest_genderbias.statistics.right_answers import fall_bound, mean_recall, share_bounds


@pytest.mark.parametrize(("right", "n"), [(0, 5), (5, 5), (1, 3), (170, 220), (199, 200)])
def test_bounds_of_a_share_are_those_of_clopper_and_pearson(right, n):
    expected = binomtest(right, n).proportion_ci(0.95, "exact")
    assert share_bounds(right, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(st.integers(1, 60), st.data())
def test_bounds_of_a_share_contain_it(n, data):
    right = data.draw(st.integers(0, n))
    low, high = share_bounds(right, n)
    assert 0 <= low <= right / n <= high <= 1
    mirrored = share_bounds(n - right, n)
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_the_mean_recall_is_balanced_accuracy():
    rng = np.random.default_rng(0)
    gold, predicted = rng.integers(4, size=300), rng.integers(4, size=300)
    right = [int(((gold == c) & (predicted == c)).sum()) for c in range(4)]
    n = [int((gold == c).sum()) for c in range(4)]
    value, low, high = mean_recall(right, n)
    assert value == pytest.approx(balanced_accuracy_score(gold, predicted))
    assert low < value < high


def test_bounds_of_the_mean_recall_hold_in_95_of_100_draws():
    rng = np.random.default_rng(1)
    recalls, n, inside = np.array([0.9, 0.6, 0.97]), np.array([70, 70, 70]), 0
    for _ in range(2000):
        _, low, high = mean_recall(rng.binomial(n, recalls), n)
        inside += low <= recalls.mean() <= high
    assert 0.935 <= inside / 2000 <= 0.975


def test_a_class_without_answers_is_left_out():
    assert mean_recall([5, 0], [10, 0])[0] == 0.5
    with pytest.raises(ValueError, match="no class"):
        mean_recall([0], [0])


def test_the_fall_is_a_paired_t_test_over_items():
    rng = np.random.default_rng(2)
    then, now = rng.integers(2, size=80).astype(float), rng.integers(2, size=80).astype(float)
    fall, low = fall_bound([then], [now])
    expected = ttest_1samp(then - now, 0).confidence_interval(0.95)
    assert (fall, low) == pytest.approx(((then - now).mean(), expected.low))


def test_restarts_widen_the_bound_of_a_fall():
    rng = np.random.default_rng(3)
    then = (rng.random((3, 200)) < np.array([0.9, 0.7, 0.8])[:, None]).astype(float)
    now = (rng.random((3, 200)) < np.array([0.6, 0.85, 0.7])[:, None]).astype(float)
    fall, low = fall_bound(then, now)
    means = then.mean(axis=1), now.mean(axis=1)
    expected = ttest_ind(*means, equal_var=True).confidence_interval(0.95)
    assert fall == pytest.approx(means[0].mean() - means[1].mean())
    assert low == pytest.approx(expected.low)
    items_alone = ttest_1samp(then.mean(0) - now.mean(0), 0).confidence_interval(0.95).low
    assert low < items_alone


def test_items_that_were_not_asked_on_both_sides_do_not_count():
    then, now = np.array([[1, 1, 1, np.nan]]), np.array([[0, 1, 0, 0]])
    assert fall_bound(then, now)[0] == pytest.approx(2 / 3)
    assert np.isnan(fall_bound([[np.nan, 1.0]], [[1.0, np.nan]])).all()


@given(st.lists(st.booleans(), min_size=2, max_size=40))
def test_nothing_falls_where_every_answer_is_the_same(answers):
    right = np.asarray([answers], dtype=float)
    assert fall_bound(right, right) == (0.0, 0.0)
