"""Pearson's r and the slope against scipy and statsmodels, the intervals against slow bootstraps, and their coverage in
simulation.
"""

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from simulations.correlation_coverage import METHODS, POPULATIONS, heteroscedastic, normal, simulate_items, skewed

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import correlation
from pytest_genderbias.statistics.correlation import pearson, pearson_interval, slope, slope_interval
from pytest_genderbias.statistics.inference import intervals
from pytest_genderbias.statistics.inference.intervals import in_blocks


def items(seed, n=25, rho=0.6):
    rng = np.random.default_rng(seed)
    x = rng.beta(0.7, 0.9, n)
    return x, rho * x + 0.3 * rng.normal(size=n)


# The figures


@pytest.mark.parametrize("n", [3, 4, 17, 400])
def test_r_and_slope_against_scipy(n):
    x, y = items(n, n)
    fit = stats.linregress(x, y)
    assert pearson(x, y) == pytest.approx(fit.rvalue, rel=1e-10)
    assert slope(x, y) == pytest.approx(fit.slope, rel=1e-10)


def test_items_on_a_line_have_r_one_and_its_slope():
    x = [0.1, 0.4, 0.7, 0.8]
    assert pearson(x, [3 - 2 * v for v in x]) == pytest.approx(-1.0)
    assert slope(x, [3 - 2 * v for v in x]) == pytest.approx(-2.0)


def test_items_that_do_not_vary_in_y_have_slope_zero_and_no_r():
    assert slope([1, 2, 3, 4], [0.1] * 4) == pytest.approx(0.0, abs=1e-15)
    with pytest.raises(UndefinedError, match="y is the same for all items"):
        pearson([1, 2, 3, 4], [0.1] * 4)


@pytest.mark.parametrize("figure", [pearson, slope])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e300, 1e-300])
def test_items_that_do_not_vary_in_x_have_neither(figure, value):
    with pytest.raises(UndefinedError, match="x is the same for all items"):
        figure([value] * 7, range(7))


@pytest.mark.parametrize("figure", [pearson, slope])
def test_two_items_are_too_few(figure):
    with pytest.raises(UndefinedError, match="2 items are too few"):
        figure([0, 1], [0, 1])


@pytest.mark.parametrize("figure", [pearson, slope])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_figure_that_is_no_number_has_no_correlation(figure, bad):
    with pytest.raises(UndefinedError, match="not a finite number"):
        figure([0, 1, 2], [0, bad, 3])
    with pytest.raises(UndefinedError, match="not a finite number"):
        figure([0, bad, 3], [0, 1, 2])


def test_arrays_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="broadcast"):
        pearson([1, 2, 3], [1, 2, 3, 4])


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=3, max_size=20), st.floats(-150, 150))
def test_r_lies_in_its_range_and_does_not_know_units(pairs, power):
    x, y = np.asarray(pairs).T
    assume(np.ptp(x) > 1e-3 and np.ptp(y) > 1e-3)
    r, scale = pearson(x, y), 10.0**power
    assert -1.0 <= r <= 1.0
    assert pearson(scale * x, y) == pytest.approx(r, abs=1e-9)
    assert pearson(y, -x) == pytest.approx(-r, abs=1e-9)
    assert slope(scale * x, y) * scale == pytest.approx(slope(x, y), rel=1e-6, abs=1e-12)


# The errors behind the intervals


def test_the_error_of_the_slope_is_hc3():
    x, y = items(1)
    fit = sm.OLS(y, sm.add_constant(x)).fit(cov_type="HC3")
    b, error = correlation._slope(x, y)
    assert (float(b), float(error)) == pytest.approx((fit.params[1], fit.bse[1]), rel=1e-9)


def slow_fisher_error(x, y):
    """Return z and its error item by item: the change of z with the weight of the item, by differences."""
    n = len(x)

    def z_of(weights):
        cov = np.cov(x, y, aweights=weights, ddof=0)
        return np.arctanh(cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]))

    total = 0.0
    for i in range(n):
        step = np.zeros(n)
        step[i] = 1e-6
        influence = (z_of(np.ones(n) + step) - z_of(np.ones(n) - step)) / 2e-6 * n
        leverages = [1 / n + (v[i] - v.mean()) ** 2 / ((v - v.mean()) ** 2).sum() for v in (x, y)]
        total += (influence / (1 - max(leverages))) ** 2
    return z_of(np.ones(n)), np.sqrt(total) / n


@pytest.mark.parametrize("seed", range(3))
def test_the_error_of_z_against_numerical_derivatives(seed):
    x, y = items(seed)
    z, error = correlation._fisher_z(x, y)
    assert (float(z), float(error)) == pytest.approx(slow_fisher_error(x, y), rel=1e-5)


def test_many_normal_items_have_nearly_fishers_error():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=40_000), rng.normal(size=40_000)
    assert float(correlation._fisher_z(x, 0.7 * x + y)[1]) == pytest.approx(1 / np.sqrt(40_000), rel=0.03)


# The intervals


def slow_interval(x, y, resamples, seed, estimate):
    """Return the symmetric bootstrap-t interval resample by resample, with other random numbers and numpy's
    quantile.
    """
    rng = np.random.default_rng(seed)
    value, error = estimate(x, y)
    far = []
    for _ in range(resamples):
        drawn = rng.choice(len(x), len(x))
        other, other_error = estimate(x[drawn], y[drawn])
        far.append(abs(other - value) / other_error)
    reach = np.quantile(far, 0.95) * error
    return value - reach, value + reach


def hc3(x, y):
    fit = sm.OLS(y, sm.add_constant(x)).fit()
    return fit.params[1], fit.HC3_se[1]


def test_the_interval_of_the_slope_against_a_slow_bootstrap():
    x, y = items(4)
    found = slope_interval(x, y, "items")
    low, high = slow_interval(x, y, 3000, 8, hc3)
    assert [found.low, found.high] == pytest.approx([low, high], abs=0.08 * (high - low))


def test_the_interval_of_r_against_a_slow_bootstrap():
    x, y = items(4)
    found = pearson_interval(x, y, "items")
    low, high = slow_interval(x, y, 4000, 8, lambda u, v: tuple(map(float, correlation._fisher_z(u, v))))
    assert np.arctanh([found.low, found.high]) == pytest.approx([low, high], abs=0.08 * (high - low))


def test_many_normal_items_have_nearly_the_normal_interval():
    x, y = np.random.default_rng(6).normal(size=(2, 2000))
    found, (_, error) = slope_interval(x, y, "items"), correlation._slope(x, y)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * float(error), rel=0.045)


@pytest.mark.parametrize("interval", [pearson_interval, slope_interval])
def test_a_higher_level_is_wider_and_the_value_is_inside(interval):
    x, y = items(2)
    value = pearson(x, y) if interval is pearson_interval else slope(x, y)
    narrow, wide = (interval(x, y, "professions", level) for level in (0.8, 0.95))
    assert wide.low < narrow.low < value < narrow.high < wide.high
    assert (narrow.level, wide.level, wide.over) == (0.8, 0.95, "professions")


@pytest.mark.parametrize("interval", [pearson_interval, slope_interval])
def test_the_same_items_have_the_same_interval_in_any_order(interval):
    x, y = items(3)
    order = np.random.default_rng(0).permutation(len(x))
    found, again = interval(x, y, "items"), interval(x[order], y[order], "items")
    assert interval(x, y, "items") == found
    assert [again.low, again.high] == pytest.approx([found.low, found.high], rel=1e-9)


@pytest.mark.parametrize("interval", [pearson_interval, slope_interval])
def test_turning_the_sign_turns_the_interval(interval):
    x, y = items(3)
    found, turned = interval(x, y, "items"), interval(x, -y, "items")
    assert [turned.low, turned.high] == pytest.approx([-found.high, -found.low], rel=1e-9)


def test_units_move_the_slopes_interval_and_leave_that_of_r():
    x, y = items(3)
    found, moved = slope_interval(x, y, "items"), slope_interval(x * 100, y * 3 + 7, "items")
    assert [moved.low, moved.high] == pytest.approx([found.low * 0.03, found.high * 0.03], rel=1e-6)
    found, moved = pearson_interval(x, y, "items"), pearson_interval(x * 1e-9, y * 3 + 7, "items")
    assert [moved.low, moved.high] == pytest.approx([found.low, found.high], rel=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("interval", [pearson_interval, slope_interval])
def test_few_items_and_items_on_a_line_have_no_interval(interval):
    for n in (3, 4, 5):
        assert interval(*items(n, n), "items") is None
    assert interval(np.arange(9), 2 * np.arange(9) + 0.1, "items") is None
    assert interval([0] * 11 + [1], np.arange(12), "items") is None


@pytest.mark.parametrize("interval", [pearson_interval, slope_interval])
def test_a_figure_without_value_has_no_interval_either(interval):
    with pytest.raises(UndefinedError):
        interval([0.3] * 9, range(9), "items")


def test_many_items_are_resampled_in_blocks(monkeypatch):
    x, y = items(5, 40)
    whole = slope_interval(x, y, "items")
    monkeypatch.setattr(intervals, "_BLOCK", 40 * 300)
    assert list(in_blocks(1999, 40, intervals._BLOCK)) == [300] * 6 + [199]
    split = slope_interval(x, y, "items")
    assert [split.low, split.high] == pytest.approx([whole.low, whole.high], abs=0.1 * (whole.high - whole.low))


# Coverage


def documented(root):
    """Return the shares of the table of items in the documentation, by population and r, in the order of its
    columns.
    """
    text = (root / "docs" / "evidence" / "coverage-correlations.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    names = [draw.__name__ for draw in POPULATIONS]
    return {row[0]: [float(c.rstrip("%")) / 100 for c in row[1:]] for row in rows if row[0].split(", ")[0] in names}


def test_the_documentation_has_every_population(pytestconfig):
    rows = documented(pytestconfig.rootpath)
    assert len(rows) == 3 * len(POPULATIONS)
    assert all(len(row) == 3 * len(METHODS) for row in rows.values())


@pytest.mark.parametrize(
    "draw",
    [pytest.param(normal, marks=pytest.mark.slow), skewed, heteroscedastic],  # what holds for the others holds for it
    ids=lambda draw: draw.__name__,
)
@pytest.mark.parametrize(("items", "column"), [(12, 0), (30, 1)])
def test_coverage_in_simulation(pytestconfig, draw, items, column):
    """Four standard errors below the figures of the large run, with other random numbers."""
    row, runs = documented(pytestconfig.rootpath)[f"{draw.__name__}, 0.6"], 150
    found = simulate_items(draw, 0.6, items, runs, seed=11, methods=("r", "slope"))
    for share, expected in zip(found, (row[column], row[6 + column]), strict=True):
        assert share >= expected - 4 * np.sqrt(expected * (1 - expected) * (1 / runs + 1 / 1000))


def test_the_simulation_tells_an_interval_that_does_not_hold():
    assert simulate_items(skewed, 0.9, 60, 150, methods=("r, Fisher",))[0] < 0.85


@pytest.mark.parametrize("draw", POPULATIONS, ids=lambda draw: draw.__name__)
def test_the_simulation_knows_the_truth(draw):
    x, deviation = draw(np.random.default_rng(0), 400_000)
    y = 0.6 * x + 0.8 * deviation
    assert pearson(x, y) == pytest.approx(0.6, abs=0.015)
    assert slope(x, y) == pytest.approx(0.6, abs=0.015)
