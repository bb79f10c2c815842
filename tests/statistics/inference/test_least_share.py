"""Bounds on a share: against Clopper and Pearson's, drawn weights, and how often they lie above the share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from simulations.share_coverage import shown_able

from pytest_genderbias.statistics.inference.intervals import least_share, share_interval


@pytest.mark.parametrize(("n", "hits"), [(1, 1), (2, 1), (5, 4), (16, 12), (24, 19), (24, 23), (100, 1), (396, 395)])
@pytest.mark.parametrize("size", [1.0, 7.0])
def test_clusters_that_are_right_as_a_whole_have_the_exact_bounds_of_a_share(n, hits, size):
    exact = binomtest(hits, n).proportion_ci(0.95)
    found = share_interval(size * (np.arange(n) < hits), np.full(n, size), "controls")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)
    assert (found.over, found.items, found.level) == ("controls", n, 0.95)


@pytest.mark.parametrize(("clusters", "most"), [(2, 3), (9, 3), (25, 28)])
def test_the_bound_is_the_quantile_of_drawn_weights(clusters, most):
    """Shares of right answers with random weights of all clusters, and of one more in which nothing is right."""
    rng = np.random.default_rng(clusters)
    counts = rng.integers(1, most + 1, clusters).astype(float)
    right = rng.binomial(counts.astype(int), 0.6).astype(float)
    right[0] = counts[0]
    weights = rng.exponential(size=(200_000, clusters + 1))
    drawn = weights @ np.append(right, 0.0) / (weights @ np.append(counts, counts.max()))
    bound = least_share(right, counts)
    assert (drawn < bound).mean() == pytest.approx(0.025, abs=0.0015)
    assert bound < right.sum() / counts.sum()


answers = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted), min_size=1, max_size=6)


@given(answers, st.integers(1, 5))
def test_bounds_enclose_the_share_and_know_neither_order_nor_unit_nor_empty_clusters(pairs, unit):
    right, counts = np.asarray(pairs, dtype=float).T
    found = share_interval(right, counts, "clusters")
    if not counts.any():
        assert found is None
        return
    assert 0.0 <= found.low <= right.sum() / counts.sum() <= found.high <= 1.0
    again = share_interval(unit * np.append(right[::-1], 0.0), unit * np.append(counts[::-1], 0.0), "clusters")
    assert (again.low, again.high) == pytest.approx((found.low, found.high), abs=1e-9)
    assert found.low == pytest.approx(1 - share_interval(counts - right, counts, "clusters").high, abs=1e-9)


@given(answers)
def test_one_more_right_answer_never_lowers_the_bound(pairs):
    right, counts = np.asarray(pairs, dtype=float).T
    free = np.flatnonzero(right < counts)
    if len(free):
        more = right + (np.arange(len(right)) == free[0])
        assert least_share(more, counts) >= least_share(right, counts) - 1e-9


def test_a_smaller_probability_gives_a_lower_bound():
    bounds = [least_share([3.0, 2.0, 3.0, 1.0], [3.0] * 4, outside) for outside in (0.005, 0.025, 0.25)]
    assert bounds == sorted(bounds) and len(set(bounds)) == 3
    assert least_share([0.0, 0.0], [3.0, 3.0]) == 0.0
    assert share_interval([], [], "clusters") is None


@pytest.mark.parametrize(("case", "most"), [((24, 1, 0.0, 1 / 2), 0.025), ((9, 3, 1.0, 1 / 3), 0.025)])
def test_guessing_is_seldom_taken_for_knowing(case, most):
    """A small version of docs/evidence/coverage-shares.md; a limit of 2.5 % and three standard errors of 1,000
    models.
    """
    assert shown_able(*case, above=0.0, repeats=1000) <= most + 3 * (most * (1 - most) / 1000) ** 0.5


def test_a_model_that_knows_is_shown_to_know():
    """Of models that are right in 85 % of 24 controls, 92 % and more have a bound above one half; with bounds over
    resamples it was 71 %.
    """
    assert shown_able(24, 1, 0.0, 1 / 2, above=0.35, repeats=1000) > 0.9
