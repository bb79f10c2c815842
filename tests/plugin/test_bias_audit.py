"""``genderbias report --to audit``: the evidence of a run, with the impact ratios of files of predictions."""

from __future__ import annotations

import csv

import pytest
from support.command_lines import make_reports
from support.small_projects import model

from pytest_genderbias.reports.audit import check_pack

PEOPLE = "id,prediction,gold,gender,group_race\n" + "".join(
    f"{i},{'hire' if i % 3 else 'no'},{'hire' if i // 2 % 2 else 'no'},{'FM'[i % 2]},{'xy'[i // 20 % 2]}\n"
    for i in range(80)
)


def test_a_run_leaves_a_pack_with_the_verdicts_of_its_gates(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update-new", "--bias-json=run.json").assert_outcomes(passed=1)
    assert make_reports("audit=evidence").status == 0
    gated.runpytest(model(gated, "worse"), "--bias-json=run.json").assert_outcomes(failed=1)
    assert make_reports("audit=evidence").status == 0
    packs = sorted((gated.path / "evidence").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert [check_pack(pack) for pack in packs] == [[], []]
    verdicts = []
    for pack in packs:
        with (pack / "verdicts.csv").open(newline="") as file:
            verdicts += [(row["verdict"], row["margin"]) for row in csv.DictReader(file)]
    assert verdicts == [("pass (stored)", ""), ("worse", "0.01")]


def test_predictions_have_impact_ratios_by_group_and_intersection(pytester: pytest.Pytester) -> None:
    (pytester.path / "hr.csv").write_text(PEOPLE)
    pytester.runpytest("--bias-model=hr.csv", "--bias-suite=bios", "--bias-json=run.json").assert_outcomes(passed=1)
    assert make_reports("audit").status == 0
    (pack,) = (pytester.path / "audit").iterdir()
    with (pack / "impact-ratios.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["model"], row["decision"]) for row in rows} == {("hr", "hire"), ("hr", "no")}
    assert {row["category"] for row in rows} == {"gender", "group_race", "gender and group_race"}
    women = next(row for row in rows if (row["decision"], row["group"]) == ("hire", "female"))
    assert (women["persons"], women["selected"]) == ("40", "26")
    assert check_pack(pack) == []


def test_a_place_where_no_pack_can_be_written_is_a_usage_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "evidence").write_text("precious")
    printed = make_reports("audit=evidence")
    assert printed.status == pytest.ExitCode.USAGE_ERROR
    assert printed.err.endswith("evidence cannot be written; choose another folder\n") and "--to: " in printed.err
