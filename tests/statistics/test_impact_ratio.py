"""Impact ratios: counts by hand, bounds against statsmodels, and how often the bounds hold."""

import numpy as np
import pytest
from scipy.stats import binomtest
from simulations.impact_ratio_coverage import coverage, least_coverage

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.impact_ratio import above_median, impact_ratios, ratio_bounds


def people(**counts):
    """Return whether each person is selected and the group of each, from NAME=(selected, persons)."""
    selected, groups = [], []
    for name, (hits, persons) in counts.items():
        selected += [True] * hits + [False] * (persons - hits)
        groups += [name] * persons
    return selected, groups


def test_rates_and_ratios_are_those_counted_by_hand() -> None:
    ratios = impact_ratios(*people(black=(20, 80), asian=(40, 100), white=(50, 100)))
    assert ratios.groups == (("asian",), ("black",), ("white",))
    assert ratios.rates.tolist() == [0.4, 0.25, 0.5]
    assert ratios.ratios.tolist() == [0.8, 0.5, 1.0]
    assert ratios.shares.tolist() == pytest.approx([100 / 280, 80 / 280, 100 / 280])
    assert (ratios.low <= ratios.ratios).all()
    assert (ratios.ratios <= ratios.high).all()
    assert ratios.high.max() == 1.0


def test_intersections_are_groups_of_their_own() -> None:
    selected = [1, 1, 0, 0, 1, 0, 0, 0]
    sex = ["f", "f", "f", "f", "m", "m", "m", "m"]
    race = ["x", "x", "y", "y", "x", "x", "y", ""]
    ratios = impact_ratios(selected, sex, race)
    assert dict(zip(ratios.groups, ratios.rates.tolist(), strict=True)) == {
        ("f", "x"): 1.0,
        ("f", "y"): 0.0,
        ("m", "x"): 0.5,
        ("m", "y"): 0.0,
    }
    assert ratios.ratios.tolist() == [1.0, 0.0, 0.5, 0.0]
    assert ratios.unknown == 1
    assert ratios.persons.tolist() == [2, 2, 2, 1]


def test_a_group_under_two_percent_has_a_rate_and_no_ratio_and_is_no_reference() -> None:
    ratios = impact_ratios(*people(few=(3, 3), many=(50, 100), others=(25, 97)))
    assert ratios.groups[0] == ("few",)
    assert ratios.rates[0] == 1.0
    assert np.isnan([ratios.ratios[0], ratios.low[0], ratios.high[0]]).all()
    assert ratios.ratios[1] == 1.0, "the reference is the most selected of the groups that count"
    at_the_edge = impact_ratios(*people(few=(1, 2), many=(50, 98)))
    assert np.isfinite(at_the_edge.ratios).all()


def test_without_a_selected_person_there_is_no_ratio() -> None:
    with pytest.raises(UndefinedError, match="nobody is selected"):
        impact_ratios([False] * 4, ["f", "f", "m", "m"])
    with pytest.raises(UndefinedError, match="nobody is selected of the 0 groups"):
        impact_ratios([True] * 2, ["", ""])
    with pytest.raises(ValueError, match="one name of each category for 4 persons"):
        impact_ratios([True] * 4, ["f"] * 3)


def test_a_group_alone_has_the_ratio_one() -> None:
    ratios = impact_ratios(*people(f=(3, 10)))
    assert (ratios.ratios.tolist(), ratios.low.tolist(), ratios.high.tolist()) == ([1.0], [1.0], [1.0])


def test_scores_count_from_above_the_median() -> None:
    assert above_median([3, 1, 2]).tolist() == [True, False, False]
    assert not above_median([1, 1, 1]).any()


@pytest.mark.parametrize("counts", [(30, 100, 60, 100), (3, 10, 9, 10), (0, 10, 5, 10), (1, 7, 500, 1000)])
def test_bounds_of_a_ratio_are_those_of_statsmodels_or_exact_and_wider(counts) -> None:
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    low, high = proportion.confint_proportions_2indep(*counts, compare="ratio", method="score", correction=True)
    found = [float(bound) for bound in ratio_bounds(*counts)]
    if counts == (30, 100, 60, 100):
        assert found == pytest.approx((low, high), abs=1e-8)
        return
    x, n, y, m = counts
    mine = 0.025 * m**0.5 / (n**0.5 + m**0.5)
    one, other = (
        binomtest(k, of).proportion_ci(1 - 2 * tail, "exact") for k, of, tail in ((x, n, mine), (y, m, 0.025 - mine))
    )
    assert found == pytest.approx((one.low / other.high, one.high / other.low))
    assert found[0] <= low + 1e-8 and high - 1e-8 <= found[1]


def test_bounds_where_a_rate_is_zero_or_one() -> None:
    low, high = ratio_bounds([9, 0, 10], [10, 10, 10], [0, 0, 10], [10, 10, 10])
    assert low[0] > 1
    assert high[0] == np.inf
    assert (low[1], high[1]) == (0.0, np.inf)
    assert low[2] == pytest.approx(1 / high[2])


@pytest.mark.parametrize(
    ("persons", "least"),
    [((5, 5), 0.95), ((10, 10), 0.95), ((10, 40), 0.95), ((5, 300), 0.95), ((10, 400), 0.95), ((40, 40), 0.946)],
)
def test_bounds_hold_by_enumeration_of_all_selections(persons, least) -> None:
    """Those of the score test alone held in 85.9 % (5 and 5 persons) to 93.7 % (40 and 40)."""
    found, *_ = least_coverage(*persons)
    assert found >= least


@pytest.mark.parametrize("rates", [(0.5, 0.5, 0.5), (0.2, 0.5, 0.5), (0.05, 0.1, 0.4)])
def test_bounds_hold_although_chance_chooses_the_most_selected_group(rates) -> None:
    repeats = 2000
    assert (coverage(rates, 40, repeats) > 0.95 - 3 * np.sqrt(0.05 * 0.95 / repeats)).all()
