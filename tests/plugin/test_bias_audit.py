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


#: Applicants by sex and race: (sex, race, persons, selected).
APPLICANTS = (
    ("F", "Asian", 40, 12), ("F", "White", 60, 21), ("M", "Asian", 50, 20), ("M", "White", 70, 35),
    ("M", "Black", 2, 1), ("unknown", "White", 3, 3), ("F", "", 4, 1),
)  # fmt: skip
BY_SEX = """
suite: by-sex
family: results
title: Selections by sex
source: the test
licence: own
language: en
id: id
group: sex
value: selected
groups: [female, male]
statistic: impact_ratio
"""


def test_results_with_selections_by_sex_and_race_have_the_three_tables(pytester: pytest.Pytester) -> None:
    rows = [(sex, race, int(i < chosen)) for sex, race, persons, chosen in APPLICANTS for i in range(persons)]
    lines = [f"{i},{sex},{race},{selected}" for i, (sex, race, selected) in enumerate(rows)]
    (pytester.path / "screened.csv").write_text("\n".join(["id,sex,race,selected", *lines]) + "\n")
    (pytester.path / "by-sex.yaml").write_text(BY_SEX)
    (pytester.path / "g.bias.yaml").write_text("gates: [{suite: ./by-sex.yaml, at_least: 0.5, harm: fewer interviews}]")
    run = pytester.runpytest("--bias-model=tool=results:screened.csv", "--bias-json=run.json", "-v")
    run.assert_outcomes(passed=1)
    run.stdout.fnmatch_lines(["*3 items of an unknown group in 'sex' are not counted*"])
    assert make_reports("audit").status == 0
    (pack,) = (pytester.path / "audit").iterdir()
    assert check_pack(pack) == []
    page = (pack / "local-law-144.md").read_text()
    sex, race, both = page.split("#### ")[1:]
    women, men = (sum(n for s, _, n, _ in APPLICANTS if s == name) for name in "FM")
    chosen = [sum(k for s, _, _, k in APPLICANTS if s == name) for name in "FM"]
    rates = chosen[0] / women, chosen[1] / men
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in sex.splitlines() if line.startswith("|")]
    assert found[2:] == [
        ["female", str(women), str(chosen[0]), f"{100 * rates[0]:.1f} %", f"{rates[0] / rates[1]:.3f}", ""],
        ["male", str(men), str(chosen[1]), f"{100 * rates[1]:.1f} %", "1.000", ""],
    ]
    assert "not counted**: 3\n" in sex and "not counted**: 4\n" in race and "not counted**: 7\n" in both
    assert "| Black " in race and "under 2 %" in race, "2 of 222 persons"
    assert "female and Asian" in both
    assert "results:screened.csv, fingerprint " in page
    assert "fewer interviews" in (pack / "bias-profile.md").read_text()


def test_results_that_do_not_say_who_was_selected_have_no_rates(pytester: pytest.Pytester) -> None:
    lines = [f"{i},{'FM'[i % 2]},{int(i < 12)}" for i in range(40)]
    (pytester.path / "scores.csv").write_text("\n".join(["id,sex,hired", *lines]) + "\n")
    (pytester.path / "by-sex.yaml").write_text(BY_SEX.replace("value: selected", "value: hired"))
    pytester.runpytest(
        "--bias-model=tool=results:scores.csv", "--bias-suite=by-sex.yaml", "--bias-json=run.json"
    ).assert_outcomes(passed=1)
    assert make_reports("audit").status == 0
    (pack,) = (pytester.path / "audit").iterdir()
    assert not (pack / "local-law-144.md").exists()


def test_a_place_where_no_pack_can_be_written_is_a_usage_error(pytester: pytest.Pytester) -> None:
    (pytester.path / "evidence").write_text("precious")
    printed = make_reports("audit=evidence")
    assert printed.status == pytest.ExitCode.USAGE_ERROR
    assert printed.err.endswith("evidence cannot be written; choose another folder\n") and "--to: " in printed.err
