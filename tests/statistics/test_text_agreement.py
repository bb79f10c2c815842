"""Agreement of probabilities and replies, against plain loops and planted replies."""

from collections import Counter

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_genderbias.statistics import agreement
from pytest_genderbias.statistics.agreement import picks_in_common, text_agreement


def counts_of(draws, p, samples, refused=0.0, unreadable=0.0):
    """Return counts of replies that are drawn from the probabilities of each question."""
    whole = np.column_stack([p * (1 - refused - unreadable), np.full((len(p), 2), [refused, unreadable])])
    return draws.multinomial(samples, whole)


def in_common(p, replies):
    """Return the share of a question by counting: of its most frequent replies, those that are the likeliest."""
    names = [str(k) for k in range(len(p))]
    votes = Counter(dict(zip([*names, "refused", "unreadable"], replies, strict=True)))
    frequent = [name for name, count in votes.items() if count == max(votes.values())]
    likely = [name for name, value in zip(names, p, strict=True) if value == max(p)]
    return sum(name in likely for name in frequent) / len(frequent) / len(likely)


@given(st.integers(2, 3), st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_picks_are_those_of_a_plain_count(k, n, samples, seed):
    draws = np.random.default_rng(seed)
    p = draws.integers(0, 4, size=(n, k)) + 0.5
    p = p / p.sum(axis=1, keepdims=True)
    replies = counts_of(draws, p, samples, 0.2, 0.2)
    expected = [in_common(*pair) for pair in zip(p.tolist(), replies.tolist(), strict=True)]
    assert picks_in_common(p, replies) == pytest.approx(expected)


@pytest.mark.parametrize("k", [2, 3])
def test_r_is_that_of_scipy_without_the_means_of_the_labels(k):
    draws = np.random.default_rng(k)
    p = draws.dirichlet(np.ones(k), size=80)
    replies = counts_of(draws, p, 7, 0.1, 0.1)
    found = text_agreement(p, replies, np.arange(80) // 2)
    picked = replies[:, :k].sum(axis=1) > 0
    rates = replies[picked, :k] / replies[picked, :k].sum(axis=1, keepdims=True)
    x, y = (column - column.mean(axis=0) for column in (p[picked], rates))
    assert found.r == pytest.approx(scipy.stats.pearsonr(x.ravel(), y.ravel()).statistic, abs=1e-12)
    assert found.r_bounds.low < found.r < found.r_bounds.high
    assert found.refused == replies[:, -2].sum() / replies.sum()
    assert found.unreadable == replies[:, -1].sum() / replies.sum()


def test_a_label_that_is_always_preferred_is_no_correlation():
    """Both ways prefer the first label by far, and what is left of them has nothing to do with each other."""
    draws = np.random.default_rng(0)
    p = np.clip(0.8 + 0.1 * draws.standard_normal(400), 0.01, 0.99)
    other = np.clip(0.8 + 0.1 * draws.standard_normal(400), 0.01, 0.99)
    replies = counts_of(draws, np.column_stack([other, 1 - other]), 20)
    found = text_agreement(np.column_stack([p, 1 - p]), replies, np.arange(400))
    assert abs(found.r) < 0.15 and found.drawn_r > 0.6


@settings(max_examples=25)
@given(st.integers(3, 40), st.integers(2, 3), st.integers(0, 2**32 - 1))
def test_neither_order_nor_numbering_of_the_options_matters(n, k, seed):
    draws = np.random.default_rng(seed)
    p = draws.dirichlet(np.ones(k), size=n)
    replies, items = counts_of(draws, p, 5, 0.1), draws.integers(0, 5, size=n)
    rows, options = draws.permutation(n), draws.permutation(k)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(agreement, "_DRAWS", 5)  # the share and r of drawn replies are not looked at
        found = text_agreement(p, replies, items)
        again = text_agreement(p[rows][:, options], replies[rows][:, [*options, k, k + 1]], items[rows])
    assert again.share == pytest.approx(found.share) and 0 <= found.share <= 1
    assert (again.r is None) == (found.r is None)
    if found.r is not None:
        assert again.r == pytest.approx(found.r, abs=1e-9) and -1 <= found.r <= 1


def test_the_most_frequent_replies_of_many_samples_are_the_likeliest():
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    found = text_agreement(p, np.column_stack([np.round(p * 10_000), np.zeros((50, 2))]), np.arange(50))
    assert found.share == 1 and found.r > 0.999 and found.drawn_share > 0.9


def test_replies_that_are_drawn_lie_within_what_is_expected_of_draws():
    inside = 0
    for seed in range(12):
        draws = np.random.default_rng(seed)
        p = draws.beta(2, 2, size=60)
        p = np.column_stack([p, 1 - p])
        found = text_agreement(p, counts_of(draws, p, 3), np.arange(60))
        inside += found.share_bounds.low <= found.drawn_share <= found.share_bounds.high
        assert found.r_bounds.low - 0.1 <= found.drawn_r <= found.r_bounds.high + 0.1
    assert inside >= 10


def test_a_system_that_says_the_opposite_is_seen():
    p = np.column_stack([np.linspace(0.1, 0.9, 40), np.linspace(0.9, 0.1, 40)])
    replies = counts_of(np.random.default_rng(1), p[:, ::-1], 5)
    found = text_agreement(p, replies, np.arange(40))
    assert found.share_bounds.high < 0.5 < 0.6 < found.drawn_share and found.r_bounds.high < 0 < found.drawn_r


def test_nothing_that_varies_has_no_r():
    found = text_agreement(np.full((5, 2), 0.5), np.tile([2, 1, 0, 0], (5, 1)), np.arange(5))
    assert found.r is None and found.r_bounds is None and found.drawn_r is None
    with pytest.raises(ValueError, match="replies to each"):
        text_agreement([[0.5, 0.5]], [[0, 0, 0, 0]], [0])


def test_replies_that_only_decline_agree_with_nothing():
    found = text_agreement(np.tile([0.9, 0.1], (5, 1)), np.tile([0, 0, 3, 0], (5, 1)), np.arange(5))
    assert found.share == 0 and found.drawn_share == 0 and found.refused == 1 and found.r is None
