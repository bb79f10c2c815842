"""The error of a clustered mean against statsmodels and scipy, the interval against a slow bootstrap, and its coverage
in simulation.
"""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from simulations import coverage_simulation
from simulations.coverage_simulation import (
    BOUNDS,
    ITEMS,
    TRUTH,
    absolute_normal,
    bounded,
    cell,
    exponential,
    normal,
    simulate,
    table,
)

from pytest_genderbias.statistics.inference.intervals import clustered_mean_error, clustered_mean_interval


def clusters(rng, groups, most=30):
    """Return values, the cluster of each, and sums and counts by cluster."""
    counts = rng.integers(1, most, groups)
    index = np.repeat(np.arange(groups), counts)
    values = rng.normal(size=groups)[index] + rng.normal(size=len(index))
    return values, index, np.bincount(index, weights=values), counts.astype(float)


# The standard error


@pytest.mark.parametrize("groups", [2, 3, 17, 164])
def test_the_error_is_that_of_the_regression_on_a_constant_with_clustered_errors(groups):
    """statsmodels corrects by G / (G - 1) x (N - 1) / (N - K); with K = 1, a constant alone, the second factor is 1."""
    values, index, sums, counts = clusters(np.random.default_rng(groups), groups)
    fit = sm.OLS(values, np.ones((len(values), 1))).fit(cov_type="cluster", cov_kwds={"groups": index}, use_t=True)
    mean, error = clustered_mean_error(sums, counts)
    assert float(mean) == pytest.approx(fit.params[0], rel=1e-9)
    assert float(error) == pytest.approx(fit.bse[0], rel=1e-9)


def test_the_small_sample_factor_is_groups_over_groups_less_one():
    values, index, sums, counts = clusters(np.random.default_rng(5), 9)
    how = {"groups": index, "use_correction": False}
    plain = sm.OLS(values, np.ones((len(values), 1))).fit(cov_type="cluster", cov_kwds=how)
    assert float(clustered_mean_error(sums, counts)[1]) == pytest.approx(plain.bse[0] * np.sqrt(9 / 8), rel=1e-9)


@pytest.mark.parametrize("groups", [2, 5, 64])
def test_equal_sizes_give_the_error_of_the_mean_of_cluster_means(groups):
    means = np.random.default_rng(groups).normal(size=groups)
    mean, error = clustered_mean_error(means * 7, np.full(groups, 7.0))
    assert float(mean) == pytest.approx(means.mean())
    assert float(error) == pytest.approx(stats.sem(means))


def test_many_samples_at_once_are_the_same_as_one_after_another():
    rng = np.random.default_rng(0)
    sums, counts = rng.normal(size=(4, 5, 6)), rng.integers(1, 9, (4, 5, 6)).astype(float)
    mean, error = clustered_mean_error(sums, counts)
    one = clustered_mean_error(sums[2, 3], counts[2, 3])
    assert (float(mean[2, 3]), float(error[2, 3])) == pytest.approx(tuple(map(float, one)))


# The interval


def slow_interval(sums, counts, resamples, seed):
    """Return the bootstrap-t interval, resample by resample, with other random numbers and with numpy's own
    quantiles.
    """
    rng = np.random.default_rng(seed)
    groups = len(sums)
    mean = sum(sums) / sum(counts)

    def error_of(s, n):
        m = sum(s) / sum(n)
        return (groups / (groups - 1) * sum((a - m * b) ** 2 for a, b in zip(s, n, strict=True))) ** 0.5 / sum(n)

    t = []
    for _ in range(resamples):
        chosen = rng.choice(groups, groups)
        s, n = [sums[i] for i in chosen], [counts[i] for i in chosen]
        t.append((sum(s) / sum(n) - mean) / error_of(s, n))
    high, low = np.quantile(t, [0.025, 0.975])
    return mean - low * error_of(sums, counts), mean - high * error_of(sums, counts)


@pytest.mark.parametrize("skewed", [False, True])
def test_the_interval_against_a_slow_bootstrap(skewed):
    rng = np.random.default_rng(3)
    counts = rng.integers(5, 30, 25).astype(float)
    means = rng.exponential(1.0, 25) if skewed else rng.normal(size=25)
    found = clustered_mean_interval(means * counts, counts, "items")
    low, high = slow_interval((means * counts).tolist(), counts.tolist(), 6000, seed=8)
    width = high - low
    assert found.low == pytest.approx(low, abs=0.12 * width)
    assert found.high == pytest.approx(high, abs=0.12 * width)


def test_many_normal_clusters_of_equal_size_have_nearly_the_t_interval():
    means = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    low, high = stats.t.interval(0.95, 199, means.mean(), stats.sem(means))
    found = clustered_mean_interval(means * 9, np.full(200, 9), "items")
    assert [found.low, found.high] == pytest.approx([low, high], rel=0.1)


def test_the_interval_leans_to_the_side_of_the_tail():
    values = np.random.default_rng(1).exponential(1.0, 30)
    found = clustered_mean_interval(values, np.ones(30), "items")
    assert found.high - values.mean() > 1.2 * (values.mean() - found.low)


def test_a_higher_level_is_wider():
    _, _, sums, counts = clusters(np.random.default_rng(2), 30)
    narrow, wide = (clustered_mean_interval(sums, counts, "items", level) for level in (0.8, 0.95))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert (narrow.level, wide.level, wide.over) == (0.8, 0.95, "items")


def test_the_same_measurement_has_the_same_interval():
    _, _, sums, counts = clusters(np.random.default_rng(2), 30)
    assert clustered_mean_interval(sums, counts, "items") == clustered_mean_interval(sums, counts, "items")


def test_clusters_without_cases_are_left_out():
    _, _, sums, counts = clusters(np.random.default_rng(4), 20)
    padded = clustered_mean_interval([*sums, 0.0, 0.0], [*counts, 0, 0], "items")
    assert padded == clustered_mean_interval(sums, counts, "items")


@pytest.mark.parametrize(("sums", "counts"), [([], []), ([2.0], [4]), ([2.0, 0.0, 0.0], [4, 0, 0])])
def test_fewer_than_two_clusters_have_no_interval(sums, counts):
    assert clustered_mean_interval(sums, counts, "items") is None


@pytest.mark.parametrize("sums", [[2.0, 4.0, 6.0], [0.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
def test_clusters_without_any_difference_have_no_interval(sums):
    assert clustered_mean_interval(sums, [1, 2, 3], "items") is None


@pytest.mark.parametrize("odd", [1, 2])
def test_one_or_two_odd_clusters_among_equal_ones_have_no_interval(odd):
    """Many resamples leave the odd clusters out, and then nothing varies."""
    assert clustered_mean_interval([1.0] * odd + [0.0] * 30, [1] * (30 + odd), "items") is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.0, 1.0], [1e-9, 2e-9, 5e-9, 7e-9], [0.0] * 5 + [1e6] * 5])
def test_extreme_clusters_give_no_warning(values):
    found = clustered_mean_interval(values, np.ones(len(values)), "items")
    assert found is None or found.low <= found.high


def test_bounds_cut_the_interval_and_nothing_else():
    values = np.random.default_rng(0).beta(8, 0.3, 12)
    free = clustered_mean_interval(values, np.ones(12), "items")
    cut = clustered_mean_interval(values, np.ones(12), "items", bounds=(0.97, 0.975))
    assert free.low < 0.97
    assert free.high > 0.975
    assert (cut.low, cut.high) == (0.97, 0.975)
    assert clustered_mean_interval(values, np.ones(12), "items", bounds=(-9.0, 9.0)) == free


cells = st.lists(st.tuples(st.floats(-100, 100), st.integers(1, 50)), min_size=2, max_size=20)


@given(cells, st.randoms())
def test_the_interval_does_not_depend_on_the_order_of_clusters(pairs, random):
    found = clustered_mean_interval(*zip(*pairs, strict=True), "items")
    shuffled = list(pairs)
    random.shuffle(shuffled)
    again = clustered_mean_interval(*zip(*shuffled, strict=True), "items")
    assume(found is not None and again is not None)
    np.testing.assert_allclose([found.low, found.high], [again.low, again.high], rtol=1e-6, atol=1e-6)


@given(st.integers(0, 1000), st.integers(8, 40), st.floats(0.1, 10), st.floats(-5, 5))
def test_the_interval_moves_with_the_scale_and_the_origin(seed, groups, scale, shift):
    _, _, sums, counts = clusters(np.random.default_rng(seed), groups)
    found = clustered_mean_interval(sums, counts, "items")
    moved = clustered_mean_interval(sums * scale + shift * counts, counts, "items")
    expected = np.asarray([found.low, found.high]) * scale + shift
    np.testing.assert_allclose([moved.low, moved.high], expected, rtol=1e-6, atol=1e-6)
    assert found.low < sums.sum() / counts.sum() < found.high


# Coverage

#: Coverage measured with 2,000 runs (docs/evidence/coverage.md) for items of equal size.
MEASURED = {
    normal: {17: 0.950, 32: 0.946, 64: 0.962, 164: 0.962},
    absolute_normal: {17: 0.955, 32: 0.965, 64: 0.969, 164: 0.959},
    exponential: {17: 0.953, 32: 0.953, 64: 0.953, 164: 0.955},
    bounded: {17: 0.969, 32: 0.953, 64: 0.958, 164: 0.967},
}


@pytest.mark.parametrize("draw", MEASURED, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize(
    ("items", "runs"),  # more items are easier; all with -m slow
    [(17, 400), (64, 200), *(pytest.param(*case, marks=pytest.mark.slow) for case in [(32, 400), (164, 100)])],
)
def test_coverage_in_simulation(draw, items, runs):
    """Four standard errors below the figure of the large run: other random numbers, so a false alarm in some 30,000."""
    expected = MEASURED[draw][items]
    error = np.sqrt(expected * (1 - expected) * (1 / runs + 1 / 2000))
    held, without = simulate(items, draw, runs, seed=11)
    assert held >= expected - 4 * error
    assert without == 0


def test_the_simulation_tells_an_interval_that_does_not_hold(monkeypatch):

    def too_narrow(*args, level=0.95, **kwargs):
        return clustered_mean_interval(*args, level=0.7, **kwargs)

    monkeypatch.setattr(coverage_simulation, "clustered_mean_interval", too_narrow)
    assert simulate(32, normal, 300, seed=11)[0] < 0.8


def test_the_simulation_knows_the_truth():
    rng = np.random.default_rng(0)
    for draw, truth in TRUTH.items():
        values = draw(rng, 200_000)
        assert values.mean() == pytest.approx(truth, abs=0.01)
        low, high = BOUNDS[draw] or (-np.inf, np.inf)
        assert low <= values.min()
        assert values.max() <= high


def documented(root):
    """Return the rows of the table in the documentation."""
    text = (root / "docs" / "evidence" / "coverage.md").read_text(encoding="utf-8")
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]


def test_the_documentation_has_the_figures_that_these_tests_expect(pytestconfig):
    rows = documented(pytestconfig.rootpath)
    assert [int(row[0]) for row in rows] == list(ITEMS)
    for items, *shares in rows:
        for draw, share in zip(MEASURED, shares[::2], strict=True):
            if int(items) in MEASURED[draw]:
                assert share == f"{MEASURED[draw][int(items)]:.1%}"


@pytest.mark.slow
def test_the_table_in_the_documentation(pytestconfig):
    measured = [[str(items), *(cell(*shares) for shares in row)] for items, *row in table(2000)]
    assert documented(pytestconfig.rootpath) == measured
