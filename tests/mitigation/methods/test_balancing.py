"""Balancing: by hand, and by properties on random tables."""

import json
import warnings
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.balancing import Balancing, balance
from pytest_genderbias.mitigation.methods.base import Columns
from pytest_genderbias.mitigation.methods.registry import make_method

FEW = settings(max_examples=80, deadline=None)


def table(cells):
    return [{"job": job, "sex": sex, "id": i} for i, (job, sex) in enumerate(cells)]


def cells_of(rows):
    return Counter((row["job"], row["sex"]) for row in rows)


#: Tables of two classes that have both groups, and more at random.
TABLES = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("FM")), max_size=40).flatmap(
    lambda more: st.permutations([("a", "F"), ("a", "M"), ("b", "F"), ("b", "M"), *more]).map(table)
)
HOWS = st.sampled_from(["subsample", "oversample"])


@FEW
@given(TABLES, HOWS, st.integers(0, 1000))
def test_each_class_has_as_many_of_each_group(rows, how, seed):
    found, before = cells_of(balance(rows, "job", "sex", how, seed)), cells_of(rows)
    pick = min if how == "subsample" else max
    for job in "ab":
        assert found[job, "F"] == found[job, "M"] == pick(before[job, "F"], before[job, "M"])


@FEW
@given(TABLES, HOWS, st.integers(0, 1000))
def test_rows_are_the_given_ones_in_their_order(rows, how, seed):
    before = [dict(row) for row in rows]
    ids = [row["id"] for row in balance(rows, "job", "sex", how, seed)]
    assert rows == before
    assert ids == sorted(ids)
    times, size = Counter(ids), cells_of(rows)
    if how == "subsample":
        assert set(times.values()) == {1}
        assert times.keys() <= set(range(len(rows)))
        return
    assert times.keys() == set(range(len(rows)))
    for row in rows:  # whole copies of all, then one more of some
        most = max(size[row["job"], "F"], size[row["job"], "M"])
        own = size[row["job"], row["sex"]]
        assert times[row["id"]] in {most // own, -(-most // own)}


@FEW
@given(TABLES, HOWS, st.integers(0, 1000))
def test_the_same_seed_draws_the_same_rows(rows, how, seed):
    assert balance(rows, "job", "sex", how, seed) == balance(rows, "job", "sex", how, seed)


def test_every_row_is_drawn_as_often():
    rows = table([("a", "F")] * 6 + [("a", "M")] * 2)
    drawn = Counter(row["id"] for seed in range(600) for row in balance(rows, "job", "sex", "subsample", seed))
    assert drawn[6] == drawn[7] == 600
    assert all(150 < drawn[i] < 250 for i in range(6))  # 200 in the mean, standard deviation 11.5
    again = Counter(
        row["id"]
        for seed in range(600)
        for row in balance(table(["aF", "aF", "aM", "aM", "aM"]), "job", "sex", "oversample", seed)
    )
    assert again[2] == again[3] == again[4] == 600
    assert again[0] + again[1] == 1800
    assert 820 < again[0] < 980  # 900 in the mean, standard deviation 12.2


def test_classes_are_drawn_one_by_one():
    rows = table(["aF", "aF", "aF", "aM", "bF", "bM", "bM", "bM"])
    found = balance(rows, "job", "sex", "oversample", 0)
    assert [row["id"] for row in found] == [0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7]
    assert cells_of(found) == dict.fromkeys([("a", "F"), ("a", "M"), ("b", "F"), ("b", "M")], 3)


def test_a_class_without_a_group_stays_and_is_named():
    rows = table(["aF", "aF", "aM", "bF", "bF"])
    with pytest.warns(UserWarning, match=r"1 of 2 classes stay unbalanced, because they lack a group: b"):
        found = balance(rows, "job", "sex")
    assert cells_of(found) == {("a", "F"): 1, ("a", "M"): 1, ("b", "F"): 2}


def test_a_missing_number_is_a_class_like_another():
    nan = float("nan")
    rows = [{"job": nan, "sex": sex} for sex in "FFM"]
    assert [row["sex"] for row in balance(rows, "job", "sex")] == ["F", "M"]


def test_three_groups():
    found = balance(table(["aF", "aM", "aM", "aX", "aX", "aX"]), "job", "sex", "oversample")
    assert cells_of(found) == {("a", "F"): 3, ("a", "M"): 3, ("a", "X"): 3}


def test_nothing_warns_where_all_is_well_and_no_rows_are_no_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        balance(table(["aF", "aM"]), "job", "sex")
        assert balance([], "job", "sex") == []


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        (("job", "sex"), "both", "how should be one of subsample, oversample, got 'both'"),
        (("job", "gender"), "subsample", "row 1 has no column 'gender'; it has job, sex, id"),
        (("job", "job"), "subsample", "nothing to balance: 'job' is 'a' in every row"),
    ],
)
def test_what_cannot_be_balanced(columns, how, message):
    with pytest.raises(SettingError, match=message):
        balance(table(["aF", "aM"]), *columns, how)


def test_the_method():
    rows = table(["aF", "aF", "aM"])
    columns = Columns(("text",), "job", "sex")
    method = make_method("balancing", how="oversample")
    assert method.rows(rows, columns, 5) == balance(rows, "job", "sex", "oversample", 5)
    assert json.loads(json.dumps(method.settings())) == {"method": "balancing", "how": "oversample"}
    assert method.control(0) is None
    assert method.trains
    with pytest.raises(SettingError, match="how should be"):
        make_method("balancing", how="twice")


@pytest.mark.parametrize(
    ("columns", "lacking"), [(Columns(("t",), None, "sex"), "class"), (Columns(("t",), "job"), "gender")]
)
def test_the_method_needs_class_and_group(columns, lacking):
    with pytest.raises(NotApplicableError, match=lacking):
        Balancing().rows(table(["aF", "aM"]), columns, 0)
