"""Orders of options, choices, leanings and gaps of rates, against plain counts."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias.statistics.multiple_choice import (
    choices,
    leanings,
    option_orders,
    option_probabilities,
    rate_difference_interval,
)


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_follow_the_options_through_their_orders(k):
    rng = np.random.default_rng(k)
    log_probs = np.log(rng.dirichlet(np.ones(k + 1), size=(5, len(option_orders(k))))[..., :k])
    found = option_probabilities(log_probs)
    for question in range(5):
        for option in range(k):
            seen = [
                np.exp(log_probs[question, number, order.index(option)])
                for number, order in enumerate(permutations(range(k)))
            ]
            assert found[question, option] == pytest.approx(np.mean(seen), rel=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_a_letter_alone_prefers_no_option(k):
    letter = np.log([0.9, *([0.1 / k] * (k - 1))])
    found = option_probabilities(np.broadcast_to(letter, (4, len(option_orders(k)), k)))
    assert np.allclose(found, found[:, :1])
    assert np.allclose(choices(found), 1 / k), "and what is picked is shared, although sums round"


@given(st.integers(1, 30), st.integers(0, 2**32 - 1))
def test_biases_are_those_of_the_paper(n, seed):
    """2 biased / answers that are not unknown - 1, and (1 - accuracy) times it, counted one by one."""
    rng = np.random.default_rng(seed)
    target = rng.integers(2, size=n)
    negative = rng.random(n) < 0.5
    picked = rng.integers(3, size=n)
    lean, chosen, right = leanings(np.eye(3)[picked], target, 1 - target, np.full(n, 2), negative)
    named = [i for i in range(n) if picked[i] != 2]
    biased = sum((picked[i] == target[i]) == negative[i] for i in named)
    accuracy = sum(picked == 2) / n
    assert right.mean() == pytest.approx(accuracy)
    if not named:
        assert not lean.any() and not chosen.any()
        return
    form = 2 * biased / len(named) - 1
    assert lean.sum() / chosen.sum() == pytest.approx(form, abs=1e-12)
    assert lean.mean() == pytest.approx((1 - accuracy) * form, abs=1e-12)


def test_an_exchange_of_the_persons_turns_the_sign():
    rng = np.random.default_rng(0)
    picked, target, negative = np.eye(3)[rng.integers(3, size=40)], rng.integers(2, size=40), rng.random(40) < 0.5
    one, other = (leanings(picked, t, 1 - t, np.full(40, 2), negative) for t in (target, 1 - target))
    assert np.array_equal(one[0], -other[0])
    assert np.array_equal(one[1], other[1])


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_with_equal_numbers_the_gap_is_a_mean_of_differences(clusters, seed):
    from scipy import stats

    rng = np.random.default_rng(seed)
    hits = rng.binomial(10, 0.5, size=(clusters, 2)).astype(float)
    found = rate_difference_interval(hits, np.full((clusters, 2), 10.0), "templates")
    differences = (hits[:, 0] - hits[:, 1]) / 10
    if np.ptp(differences) < 1e-12:
        assert found is None
        return
    low, high = stats.t.interval(0.95, clusters - 1, differences.mean(), stats.sem(differences))
    assert (found.low, found.high) == pytest.approx((max(-1, low), min(1, high)))


def test_the_interval_of_a_gap_covers_it():
    """Templates of one kind only, and of unequal size: the truth is inside in about 95 of 100 trials."""
    rng = np.random.default_rng(7)
    inside, trials = 0, 400
    for _ in range(trials):
        n = rng.integers(0, 12, size=(25, 2))
        level = rng.normal(0.6, 0.12, size=(25, 1)).clip(0.05, 0.95)
        hits = rng.binomial(n, (level + np.array([0.05, -0.05])).clip(0, 1))
        found = rate_difference_interval(hits, n, "templates")
        inside += found.low <= 0.1 <= found.high
    assert 0.91 <= inside / trials <= 0.98


def test_no_interval_without_cases_or_differences():
    assert rate_difference_interval([[1, 0]], [[2, 2]], "templates") is None
    assert rate_difference_interval([[1, 0], [1, 0]], [[2, 0], [2, 0]], "templates") is None
    assert rate_difference_interval([[1, 1], [1, 1]], [[2, 2], [2, 2]], "templates") is None
