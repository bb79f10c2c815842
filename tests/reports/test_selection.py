"""Impact ratios of files of predictions: which columns count, decisions, intersections and unknown groups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.reports.run_report import SelectionRow
from pytest_genderbias.reports.selection import ABOVE_MEDIAN, count_selected, selection_rows


def table(folder: Path, text: str, name: str = "hired.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def tables(path: Path) -> dict[tuple[str, str], list[SelectionRow]]:
    """Return the rows of each decision and category."""
    found: dict[tuple[str, str], list[SelectionRow]] = {}
    for row in count_selected("m", path):
        found.setdefault((row.decision, row.category), []).append(row)
    return found


def test_each_class_and_each_combination_of_groups_has_a_table(tmp_path) -> None:
    path = table(
        tmp_path,
        "id,prediction,gender,group_race\n"
        "1,hire,F,x\n2,hire,M,x\n3,no,F,x\n4,hire,M,y\n5,no,F,y\n6,no,M,y\n7,hire,f,Unknown\n8,no,M,\n",
    )
    found = tables(path)
    assert list(found) == [
        (decision, category)
        for decision in ("hire", "no")
        for category in ("gender", "group_race", "gender and group_race")
    ]
    by_gender, by_race, by_both = list(found.values())[:3]
    assert [(one.group, one.persons, one.selected) for one in by_gender] == [("female", 4, 2), ("male", 4, 2)]
    *known, unknown = by_race
    assert [(one.persons, one.selected, one.ratio) for one in known] == [(3, 2, 1.0), (3, 1, 0.5)]
    assert (unknown.group, unknown.persons) == ("unknown", 2)
    rates = [("female and x", 0.5), ("female and y", 0.0), ("male and x", 1.0), ("male and y", 0.5)]
    assert [(one.group, one.rate) for one in by_both if one.rate is not None] == rates


def test_scores_count_from_above_the_median_of_all(tmp_path) -> None:
    path = table(tmp_path, "score,group\n1,a\n2,a\n3,b\n4,b\n")
    ((decision, _), by_score), *others = tables(path).items()
    assert (decision, [one.rate for one in by_score], others) == (ABOVE_MEDIAN, [0.0, 1.0], [])


def test_who_was_selected_counts_and_so_do_columns_of_sex_and_race(tmp_path: Path) -> None:
    path = table(tmp_path, "id,sex,race,selected\n1,F,x,1\n2,f,y,0\n3,M,x,TRUE\n4,m,y,yes\n")
    found = tables(path)
    assert list(found) == [("selected", "sex"), ("selected", "race"), ("selected", "sex and race")]
    assert [(one.group, one.rate) for one in found["selected", "sex"]] == [("female", 0.5), ("male", 1.0)]
    lines = table(tmp_path, '{"sex": "F", "selected": true}\n{"sex": "M", "selected": false}\n', "hired.jsonl")
    assert selection_rows("m", lines, of_results=True)[0].selected == 1
    assert selection_rows("m", table(tmp_path, "sex,hired\nF,1\n"), of_results=True) == ()
    assert selection_rows("m", table(tmp_path, "[]", "log.json"), of_results=True) == ()
    with pytest.raises(DataFileError, match=r"hired.csv:3: expected 1 or 0 in column 'selected', got 'perhaps'"):
        tables(table(tmp_path, "sex,selected\nF,1\nM,perhaps\n"))


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
        tables(table(tmp_path, text))
    (row,) = selection_rows("m", tmp_path / "hired.csv")
    assert re.search(expected, row.note)
