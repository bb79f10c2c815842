"""The tail of a paired comparison, which families of gates need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from simulations.tail_coverage import LEVEL, POPULATIONS, p_values, shares

from pytest_genderbias.statistics.inference.item_bounds import kish_number, skewness, tail_p, tail_reach
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.paired import compare_items

CHANGES = st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=2, max_size=30)


@given(CHANGES)
def test_skewness_is_scipys_and_has_no_unit(changes):
    expected = stats.skew(changes) if np.ptp(changes) > 0 else 0.0
    assert skewness(changes) == pytest.approx(expected, abs=1e-6)
    assert skewness([-5e-6 * x + 3e-6 for x in changes]) == pytest.approx(-expected, abs=1e-6)


@given(CHANGES)
def test_kish_counts_the_items_that_carry_a_change(changes):
    moved = sum(x != 0 for x in changes)
    assert (0 if moved == 0 else 1 - 1e-9) <= kish_number(changes) <= moved + 1e-9
    assert kish_number([0.3 * x for x in changes] + [0.0] * 5) == pytest.approx(kish_number(changes))
    assert kish_number([0.2] * 7) == pytest.approx(7)


@given(CHANGES.filter(lambda x: np.ptp(x) > 0), st.floats(0.6, 0.9995))
def test_reach_and_p_are_two_sides_of_one_rule(changes, level):
    """Neither is less strict than Student's t, and a long tail on the other side makes neither stricter."""
    reach, n = tail_reach(level, changes), len(changes)
    assert tail_p(reach, changes) == pytest.approx(1 - level, rel=1e-6)
    assert reach >= stats.t.ppf(level, n - 1) - 1e-9
    better, worse = [-1.0] + [0.0] * 29, [1.0] + [0.0] * 29
    assert tail_p(4.0, better) > tail_p(4.0, [1.0, -1.0] * 15) > tail_p(4.0, worse)


def test_a_gate_has_the_p_values_of_the_simulation():
    """Bounds of a level in the tail, and p, agree on what is decided."""
    rng = np.random.default_rng(3)
    labels, ones = np.array([f"{i:02d}" for i in range(30)]), np.ones(30)
    for shift in (0.3, 0.55, 0.7, 1.0):
        changes = POPULATIONS["exponential, tail better"](rng, 30) + shift
        sides = [mean_sums(labels, x, ones, "letters") for x in (np.zeros(30), changes)]
        found = compare_items(*sides, lambda v: v, level=1 - LEVEL)
        assert (found.p <= LEVEL) == (p_values(changes[None])[1, 0] <= LEVEL) == (found.low > 0)
        usual = compare_items(*sides, lambda v: v, level=0.975)
        assert usual.low >= found.low and usual.p == found.p


def test_few_items_with_a_long_tail_are_called_worse_less_often():
    """Ten times as often as they should, by Student's t; a small part of docs/evidence/coverage-tails.md."""
    student, gate = shares(POPULATIONS["exponential, tail better"], 12, 4000)
    assert student > 0.02 and gate < 0.005
    assert shares(POPULATIONS["normal"], 60, 4000)[1] <= 0.0035
