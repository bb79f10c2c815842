"""Impact ratios of files of predictions: which columns count, decisions, intersections and unknown groups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.reports.selection import ABOVE_MEDIAN, selection_rows, selection_tables


def table(folder: Path, text: str, name: str = "hired.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_each_class_and_each_combination_of_groups_has_a_table(tmp_path) -> None:
    path = table(
        tmp_path,
        "id,prediction,gender,group_race\n"
        "1,hire,F,x\n2,hire,M,x\n3,no,F,x\n4,hire,M,y\n5,no,F,y\n6,no,M,y\n7,hire,f,Unknown\n8,no,M,\n",
    )
    tables = selection_tables(path)
    assert [(one.decision, one.categories) for one in tables] == [
        (decision, categories)
        for decision in ("hire", "no")
        for categories in (("gender",), ("group_race",), ("gender", "group_race"))
    ]
    by_gender, by_race, by_both = (one.ratios for one in tables[:3])
    assert (by_gender.groups, by_gender.persons.tolist(), by_gender.selected.tolist()) == (
        (("female",), ("male",)),
        [4, 4],
        [2, 2],
    )
    assert by_gender.unknown == 0
    assert (by_race.persons.tolist(), by_race.selected.tolist(), by_race.unknown) == ([3, 3], [2, 1], 2)
    assert by_race.ratios.tolist() == [1.0, 0.5]
    assert by_both.groups == (("female", "x"), ("female", "y"), ("male", "x"), ("male", "y"))
    assert by_both.rates.tolist() == [0.5, 0.0, 1.0, 0.5]


def test_scores_count_from_above_the_median_of_all(tmp_path) -> None:
    path = table(tmp_path, "score,group\n1,a\n2,a\n3,b\n4,b\n")
    (by_score,) = selection_tables(path)
    assert by_score.decision == ABOVE_MEDIAN
    assert by_score.ratios.rates.tolist() == [0.0, 1.0]


def test_who_was_selected_counts_and_so_do_columns_of_sex_and_race(tmp_path: Path) -> None:
    path = table(tmp_path, "id,sex,race,selected\n1,F,x,1\n2,f,y,0\n3,M,x,TRUE\n4,m,y,yes\n")
    tables = selection_tables(path)
    assert [(one.decision, one.categories) for one in tables] == [
        ("selected", ("sex",)),
        ("selected", ("race",)),
        ("selected", ("sex", "race")),
    ]
    assert tables[0].ratios is not None
    assert (tables[0].ratios.groups, tables[0].ratios.rates.tolist()) == ((("female",), ("male",)), [0.5, 1.0])
    lines = table(tmp_path, '{"sex": "F", "selected": true}\n{"sex": "M", "selected": false}\n', "hired.jsonl")
    assert selection_rows("m", lines, of_results=True)[0].selected == 1
    assert selection_rows("m", table(tmp_path, "sex,hired\nF,1\n"), of_results=True) == ()
    assert selection_rows("m", table(tmp_path, "[]", "log.json"), of_results=True) == ()
    with pytest.raises(DataFileError, match=r"hired.csv:3: expected 1 or 0 in column 'selected', got 'perhaps'"):
        selection_tables(table(tmp_path, "sex,selected\nF,1\nM,perhaps\n"))


def test_rows_name_small_and_unknown_groups(tmp_path) -> None:
    people = [f"{i},{'yes' if i % 2 else 'no'},{'a' if i % 3 else 'b'}" for i in range(100)]
    path = table(tmp_path, "\n".join(["id,prediction,group", *people, "x,yes,few", "y,yes,"]) + "\n")
    rows = selection_rows("m", path)
    few = next(row for row in rows if (row.decision, row.group) == ("yes", "few"))
    assert (few.persons, few.rate, few.ratio, few.note) == (1, 1.0, None, "under 2 % of the persons: no ratio")
    unknown = next(row for row in rows if row.group == "unknown")
    assert (unknown.persons, unknown.note) == (1, "not counted")
    assert {row.model for row in rows} == {"m"}


def test_a_decision_that_is_never_made_for_a_known_group_says_so(tmp_path) -> None:
    path = table(tmp_path, "prediction,group\nno,a\nno,b\nyes,\n")
    last = selection_rows("m", path)[-1]
    assert (last.decision, last.category, last.persons) == ("yes", "group", 0)
    assert last.note.startswith("nobody is selected of the 2 groups")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prediction,age\nyes,a\n", "'score' or 'selected', and one to 3 columns of groups"),
        ("group\na\n", "expected a column 'prediction', 'score' or 'selected'"),
        ("prediction,group,group_b,group_c,group_d\nyes,1,2,3,4\n", "one to 3 columns of groups"),
        ("score,group\nhigh,a\n", r"hired.csv:2: expected a number in column 'score', got 'high'"),
        ("score,group\nnan,a\n", "expected a number in column 'score'"),
        ("prediction,group\n,a\n", r"hired.csv:2: expected a text in column 'prediction'"),
    ],
)
def test_what_cannot_be_counted_is_one_line_with_the_place(tmp_path, text, expected) -> None:
    with pytest.raises(DataFileError, match=expected):
        selection_tables(table(tmp_path, text))
    (row,) = selection_rows("m", tmp_path / "hired.csv")
    assert re.search(expected, row.note)
