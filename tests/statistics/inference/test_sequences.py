"""Bounds that hold at all times: against a slow loop, the papers' code where it is installed, by hand, and their
coverage in simulation.
"""

from itertools import pairwise, permutations
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulations.sequence_coverage import (
    DISTANCES,
    ENOUGH,
    POPULATIONS,
    RULES,
    TABLES,
    WHOLE,
    estimate_ratios,
    excluded,
    looks,
    needed,
    next_look,
)

from pytest_genderbias.statistics.inference.sequences import cases_to_decide, mean_bounds, wealth

SCORES = {
    "beta": lambda rng, n: rng.beta(0.575, 0.384, n),
    "ones and zeros": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.03).astype(float),
    "ties": lambda rng, n: rng.choice([0.25, 0.5, 0.75], n),
    "constant": lambda rng, n: np.full(n, 0.3),
}


# Wealth, written another way


def slow_wealth(scores, population, mean, level=0.95):
    """Return the largest wealth so far after each draw, by the definition, one draw and one gambler at a time; None
    where m is impossible.
    """
    horizons = [16]
    while horizons[-1] * 4 <= population:
        horizons.append(horizons[-1] * 4)
    stakes = [1.0 if h <= 65536 else 0.1 for h in horizons]
    purse = [s / sum(stakes) for s in stakes]
    total, spread, found = 0.0, 0.25, []
    for t, x in enumerate(scores, start=1):
        rest = (population * mean - total) / (population - t + 1)
        if rest < 0:
            return None
        deviation = sqrt(spread / t)
        for j, h in enumerate(horizons):
            bet = sqrt(2 * log(2 / (1 - level)) / h) / deviation * population / (population - t + 1)
            if bet * rest > 0.75:
                bet = 0.75 / rest
            purse[j] *= 1 + bet * (x - rest)
        total += x
        spread += (x - (0.5 + total) / (t + 1)) ** 2
        found.append(sum(purse))
    return found


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(("n", "population"), [(1, 40), (39, 40), (60, 500), (90, 2_000_000)])
def test_wealth_is_that_of_a_loop_over_draws_and_gamblers(kind, n, population):
    x = SCORES[kind](np.random.default_rng(n), n)
    for mean in (0.0, 0.03, 0.3, 0.5, 0.77, 1.0):
        expected = slow_wealth(x, population, mean)
        fast = wealth(x, population)(mean)
        if x.sum() > population * mean:
            assert np.isinf(fast[-1])
        else:
            assert fast == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(
    ("n", "population", "level"), [(1, 2, 0.95), (39, 40, 0.95), (60, 500, 0.99), (90, 2_000_000, 0.8)]
)
def test_the_bounds_are_those_of_a_slow_search_on_a_grid(kind, n, population, level):
    """The grid has steps of 1 / 100; the slow wealth at both ends of the step that holds a bound tells its place."""
    x = SCORES[kind](np.random.default_rng(n), n)
    low, high = mean_bounds(x, population, level)
    for bound, seen in ((low, x), (1 - high, 1 - x)):
        rejected = []
        for m in np.arange(100) / 100:
            found = slow_wealth(seen, population, m, level)
            impossible = found is None or sum(seen) > population * m + 1e-9
            rejected.append(impossible or max(found) >= 2 / (1 - level))
        first_kept = rejected.index(False) / 100
        assert not any(rejected[rejected.index(False) :])
        assert first_kept - 1 / 100 - 1e-9 <= bound <= first_kept + 1e-9


def test_wealth_is_that_of_the_authors_code(monkeypatch):
    monkeypatch.setattr(np, "float_", np.float64, raising=False)  # confseq 0.0.11 names what NumPy 2 dropped
    betting = pytest.importorskip(
        "confseq.betting", reason="confseq, the code of the papers' authors, is not installed"
    )
    rng, population, mean = np.random.default_rng(3), 700, 0.55
    x = rng.beta(0.575, 0.384, 300)
    t, total = np.arange(1, 301), x.cumsum()
    spread = (0.25 + ((x - (0.5 + total) / (t + 1)) ** 2).cumsum()) / (t + 1)
    unit = np.sqrt(2 * np.log(40) / np.append(0.25, spread[:-1])) * population / (population - t + 1)
    for seen, m in ((x, mean), (1 - x, 1 - mean)):
        each = [
            betting.betting_mart(
                seen, m, N=population, theta=1, trunc_scale=0.75, lambdas_fn_positive=lambda x, m, h=h: unit / h**0.5
            )
            for h in (16, 64, 256)
        ]
        assert wealth(seen, population)(m) == pytest.approx(np.mean(each, axis=0), rel=1e-9)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(0, 300), st.floats(0, 1), st.floats(0, 1))
def test_wealth_never_rises_with_the_candidate(scores, more, one, other):
    """The algebra behind the search: whatever is rejected as a mean, all that is lower is."""
    at = wealth(scores, len(scores) + more)
    low, high = at(min(one, other)), at(max(one, other))
    assert np.all(low >= high * (1 - 1e-9))


def test_bets_are_fair_at_the_true_mean():
    """All orders of a small population: the mean of the wealth after each draw is 1, which is what Ville's inequality
    needs.
    """
    population = np.array([0.0, 0.1, 0.35, 0.8, 0.8, 1.0, 1.0])
    drawn = np.array(list(permutations(population)))
    for seen in (drawn, 1 - drawn):
        found = wealth(seen, 7)(float(seen[0].mean()))
        assert found.mean(axis=0) == pytest.approx(np.ones(7), rel=1e-9)


# Bounds


def test_no_scores_tell_nothing_and_all_tell_the_mean():
    x = np.random.default_rng(0).random(500)
    assert mean_bounds([], 500) == (0.0, 1.0)
    assert mean_bounds(x, 500) == (float(x.mean()), float(x.mean()))
    assert mean_bounds([0.25], 1) == (0.25, 0.25)


@pytest.mark.parametrize("population", [2, 3, 4, 50, 1000])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.5, 1 / 3])
def test_constant_scores_keep_their_value_inside(population, value):
    for n in sorted({1, 2, population // 2, population - 1} - {population}):
        low, high = mean_bounds(np.full(n, value), population)
        assert 0 <= low <= value <= high <= 1
        assert high - low <= 1 - n / population + 1e-9


def test_what_is_left_bounds_the_mean_by_itself():
    """One score of two: the mean is between that of 1 and 0, and of 1 and 1. Both are far from rejected by a bet."""
    assert mean_bounds([1.0], 2) == pytest.approx((0.5, 1.0), abs=1e-9)
    assert mean_bounds([0.2], 2) == pytest.approx((0.1, 0.6), abs=1e-9)
    assert mean_bounds([0.0, 1.0], 3) == pytest.approx((1 / 3, 2 / 3), abs=1e-9)


@pytest.mark.parametrize("population", [60, 4096])
def test_the_mean_stays_inside_where_all_that_is_left_is_0(population):
    """The lower bound touches the mean then, where rounding must not exclude it."""
    x = np.where(np.arange(population) < 3, 1 / 3, 0.0)
    for n in (3, 7, population // 2, population - 1):
        assert mean_bounds(x[:n], population)[0] <= float(x.mean())
        assert mean_bounds(1 - x[:n], population)[1] >= float((1 - x).mean())


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), min_size=2, max_size=80), st.integers(1, 500), st.data())
def test_a_longer_prefix_never_widens(scores, more, data):
    """Whatever the order, even one that no chance makes: bounds that would cross stay where they were."""
    population = len(scores) + more
    n = data.draw(st.integers(0, len(scores) - 1))
    (low, high), (inner_low, inner_high) = mean_bounds(scores[:n], population), mean_bounds(scores, population)
    assert 0 <= low <= inner_low <= inner_high <= high <= 1


def test_prefixes_of_a_long_run_are_nested():
    x = np.random.default_rng(4).beta(0.575, 0.384, 3000)
    found = np.array([mean_bounds(x[:n], 5000) for n in range(1, 3000, 37)])
    assert np.all(np.diff(found[:, 0]) >= 0)
    assert np.all(np.diff(found[:, 1]) <= 0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.integers(1, 500))
def test_other_ends_of_the_scale_are_mirrored(scores, more):
    x = np.array(scores)
    low, high = mean_bounds(x, len(x) + more)
    assert mean_bounds(1 - x, len(x) + more) == pytest.approx((1 - high, 1 - low), abs=2e-9)


def test_bounds_that_would_cross_stay_where_they_were():
    """First 300 ones, then 300 zeros, of many: no random order. The first bounds are kept, those before the ones were
    contradicted.
    """
    x = np.repeat([1.0, 0.0], [300, 300])
    ones = mean_bounds(x[:300], 100_000)
    low, high = mean_bounds(x, 100_000)
    assert ones[0] <= low <= high <= ones[1]
    assert mean_bounds(np.append(x, np.full(200, 0.5)), 100_000) == (low, high)


def test_the_order_of_the_draws_counts_only_before_all_are_drawn():
    x = np.random.default_rng(6).random(200)
    assert mean_bounds(x, 200) == pytest.approx(mean_bounds(x[::-1], 200), abs=1e-12)
    assert mean_bounds(x[:150], 200) != mean_bounds(x[:150][::-1], 200)
    assert mean_bounds(x[:150], 200) == pytest.approx(mean_bounds(x[:150][::-1], 200), abs=0.05)


def test_a_higher_level_has_wider_bounds():
    x = np.random.default_rng(7).random(400)
    found = [mean_bounds(x, 9000, level) for level in (0.5, 0.8, 0.95, 0.999)]
    assert all(a[0] >= b[0] and a[1] <= b[1] for a, b in pairwise(found))


def test_a_softmax_in_float32_may_end_beyond_1_by_rounding():
    x = np.array([1.0000001, 0.5, -1e-7], dtype=np.float32)
    assert mean_bounds(x, 30) == mean_bounds([1.0, 0.5, 0.0], 30)


@pytest.mark.parametrize(
    ("scores", "population", "level", "message"),
    [
        ([0.5, 1.1], 10, 0.95, "score 1 is 1.1"),
        ([-0.1], 10, 0.95, "score 0 is -0.1"),
        ([0.5, float("nan")], 10, 0.95, "score 1 is nan"),
        ([0.5, float("inf")], 10, 0.95, "score 1 is inf"),
        ([0.5] * 3, 2, 0.95, "3 scores were drawn from a population of 2"),
        ([], 0, 0.95, "population of 0"),
        ([[0.5]], 10, 0.95, "shape"),
        ([0.5], 10, 1.0, "level"),
        ([0.5], 10, 0.0, "level"),
    ],
)
def test_what_is_no_sample_of_scores_is_refused(scores, population, level, message):
    with pytest.raises(ValueError, match=message):
        mean_bounds(scores, population, level)


# Scores to decide


def estimate(scores, population, limit):
    mean = float(np.mean(scores)) if len(scores) else 0.5
    return cases_to_decide(len(scores), mean_bounds(scores, population), mean, limit, population)


@pytest.mark.parametrize("limit", [0.0, 0.3, 0.45, 0.55, 0.9, 1.0])
@pytest.mark.parametrize("population", [300, 5000, WHOLE])
def test_what_is_decided_needs_no_more_and_the_rest_more_but_not_more_than_all(limit, population):
    x = np.random.default_rng(8).random(250)
    low, high = mean_bounds(x, population)
    found = estimate(x, population, limit)
    assert found == 250 if not low <= limit <= high else 250 < found <= population


def test_nothing_known_needs_all():
    assert estimate([], 700, 0.5) == 700
    assert estimate([0.0, 1.0], 700, 0.5) == 700
    assert cases_to_decide(64, (0.4, 0.6), 0.5, 0.5) is None


def test_the_estimate_falls_with_the_distance_and_is_right_within_a_factor():
    x = np.random.default_rng(9).random(64)
    mean = float(x.mean())
    found = [estimate(x, WHOLE, mean + d) for d in (0.01, 0.02, 0.04, 0.08)]
    assert found == sorted(found, reverse=True)
    ratios = estimate_ratios("beta, sd .35", 0.05, True, 128, 100)
    assert 0.4 < np.median(ratios) < 2.5


# Coverage and power, a small version of docs/evidence/coverage-sequences.md

SMALL_RUNS = 400


@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("size", [60, 500, 5000])
def test_the_true_mean_is_ever_left_out_in_five_of_a_hundred_runs_at_most(name, size):
    """The share is at most 5 %; 5 % and three standard errors of 400 runs are 8.3 %."""
    ever, at_a_look = excluded(name, size, SMALL_RUNS if size < 5000 else SMALL_RUNS // 4)
    error = sqrt(0.05 * 0.95 / (SMALL_RUNS if size < 5000 else SMALL_RUNS // 4))
    assert ever <= 0.05 + 3 * error
    assert at_a_look is None or at_a_look <= ever


def test_an_order_that_is_not_random_is_noticed():
    """The check of coverage can fail: scores that rise while they are drawn leave out their mean."""
    population = np.sort(np.random.default_rng(10).random(500))
    sides = wealth(population, 500)(float(population.mean())), wealth(1 - population, 500)(1 - float(population.mean()))
    assert max(float(side.max()) for side in sides) > ENOUGH


def test_wealth_at_the_mean_tells_whether_the_bounds_leave_it_out():
    """The simulation looks at the wealth at the true mean alone; the bounds say the same."""
    population = POPULATIONS["beta(.3, .3)"](np.random.default_rng(11), 300)
    mean, rng, seen = float(population.mean()), np.random.default_rng(12), set()
    for _ in range(150):
        x = rng.permutation(population)[:200]
        low, high = mean_bounds(x, 300)
        rich = max(wealth(x, 300)(mean).max(), wealth(1 - x, 300)(1 - mean).max()) >= ENOUGH
        assert (low <= mean <= high) != rich
        seen.add(bool(rich))
    assert seen == {True, False}


def test_looks_are_those_of_the_engine():
    assert looks(1024 + 200).tolist() == [*range(64, 1025, 64), 1152]
    assert next_look(np.array([1, 64, 65, 1025])).tolist() == [64, 64, 128, 1152]


@pytest.mark.parametrize(("distance", "most"), [(0.2, 968), (0.1, 968), (0.05, 3872)])
def test_limits_at_a_distance_are_decided_by_few_scores(distance, most):
    """In the median 2,000 and 500 times fewer than the pairs of nli-occupation, and in nine of ten runs."""
    for above in (True, False):
        found = next_look(needed("beta, sd .35", distance, above, 100))
        assert np.quantile(found, 0.9) <= most


def test_dividing_the_stake_needs_fewer_scores_than_one_schedule_where_the_limit_is_near():
    here, papers = (
        np.median(needed("beta, sd .35", 0.05, True, 60, crossed=RULES[name]))
        for name in ("as chosen", "papers, c = 1/2")
    )
    assert here < papers


def test_the_tables_have_a_cell_for_each_heading():
    for head, rows in TABLES.values():
        if DISTANCES.keys() <= set(head):
            assert all(len(row) == len(head) for row in rows(20))
