"""``--bias-plan``: what each gate on a baseline resolves, and the tolerances that ``auto`` takes."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model
from support.wide_suites import gates, stored_book

from pytest_genderbias.gates.book import read_book
from pytest_genderbias.statistics.inference import resolution

GATE = "suite: ./wide.yaml, baseline: true, tolerance: "


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolution, "_DRAWS", 60)
    monkeypatch.setattr(resolution, "_REPEATS", 199)


def test_a_plan_is_stored_and_auto_takes_it(wide_project: pytest.Pytester) -> None:
    gates(wide_project, GATE + "auto")
    result = wide_project.runpytest(model(wide_project, "usual"), "--bias-plan", "--bias-update-new")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  suite *least tolerance *finds, alone *",
            "  wide *m *net_neutral *one checkpoint, 20 premise words *planned",
            "an equal model is green at the planned gate of g.bias.yaml on m in *%",
            "note: planned from one checkpoint, *",
            "planned: the tolerances of 1 gate were stored in *",
        ]
    )
    margin = read_book(stored_book(wide_project))["wide"].planned["net_neutral"]
    worsening = margin.measured["worsening"]
    assert isinstance(worsening, float) and 0 < margin.tolerance < worsening
    usual = wide_project.runpytest(model(wide_project, "slightly"))
    usual.assert_outcomes(passed=1)
    usual.stdout.fnmatch_lines(["*  pass *"])
    wide_project.runpytest(model(wide_project, "late_0")).assert_outcomes(failed=1)


def test_two_checkpoints_of_a_training(wide_project: pytest.Pytester) -> None:
    """The second is an equal model; its own gates are not planned. A plan alone changes no value of an entry."""
    gates(wide_project, GATE + "auto")
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update-new").assert_outcomes(passed=1)
    before = read_book(stored_book(wide_project))["wide"]
    models = model(wide_project, "usual"), model(wide_project, "few", "again")
    result = wide_project.runpytest(*models, "--bias-plan", "--bias-plan-with=again", "--bias-json=report.json")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["  wide *two checkpoints, 20 premise words *", "note: planned from two checkpoints, *"]
    )
    after = read_book(stored_book(wide_project))["wide"]
    assert (after.values, after.items_sha256) == (before.values, before.items_sha256)
    planned, second = json.loads(wide_project.path.joinpath("report.json").read_text())["judgements"]
    assert (planned["verdict"], second["verdict"]) == ("planned", "planned")
    facts = planned["facts"]["plan"]
    assert facts["planned"] == after.planned["net_neutral"].tolerance
    assert facts["source"] == "two checkpoints" and facts["tests"] == 1 and "plan" not in second["facts"]
    assert not (wide_project.path / "bias_baselines" / "again").exists()


def test_a_gate_without_power_is_told_so(wide_project: pytest.Pytester) -> None:
    gates(wide_project, GATE + "0.001")
    arguments = model(wide_project, "usual"), "--bias-update-new", "--bias-plan"
    result = wide_project.runpytest(*arguments)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  wide *0.001 (as written) *underpowered",
            "underpowered: wide.net_neutral on m at tolerance 0.001. What would help: a tolerance of *, or another suite",
        ]
    )
    judged = wide_project.runpytest(model(wide_project, "bad"))
    judged.stdout.fnmatch_lines(
        ["  power     underpowered: *a tolerance of * has power (--bias-plan)*", "*  * (underpowered)*"]
    )


def test_restarts_and_what_has_no_entry_yet(wide_project: pytest.Pytester) -> None:
    gates(wide_project, GATE + "auto")
    result = wide_project.runpytest(model(wide_project, "seed_{seed}"), "--bias-seeds=3", "--bias-plan")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "  wide *3 restarts, one checkpoint against them *",
            "planned, and not stored: m has no baseline entry of wide for g.bias.yaml; run with --bias-plan --bias-update-new *",
        ]
    )
    assert not stored_book(wide_project).exists()


def test_where_planning_finds_no_margin_the_gate_says_so(project: pytest.Pytester) -> None:
    """Three premise words that all have the same value: no draw of them differs from another."""
    arguments = model(project, "worse"), "--bias-suite=./tiny-nli.yaml"
    planned = project.runpytest(*arguments, "--bias-plan", "--bias-update-new", "--bias-json=report.json")
    planned.assert_outcomes(passed=1)
    planned.stdout.fnmatch_lines(
        ["  tiny-nli *none: the two checkpoints are the same in every one of the 3 premise words"]
    )
    planned.stdout.no_fnmatch_line("planned: the tolerances of *")
    judged = project.runpytest(*arguments, "--bias-summary=summary.md")
    judged.assert_outcomes(failed=1)
    judged.stdout.fnmatch_lines(
        [
            "missing: *the tolerance is auto, and --bias-plan found no margin for net_neutral of 'tiny-nli' in *",
            "  do        write a tolerance, as 0.02 or 20% (in the gate, or --bias-tolerance); or let several restarts show *",
        ]
    )
    summary = project.path.joinpath("summary.md").read_text()
    assert "planning found no margin" in summary and "nothing is planned yet" not in summary
    (book,) = project.path.glob("bias_baselines/m/*.json")
    before = book.read_bytes()
    project.runpytest(*arguments, "--bias-plan").assert_outcomes(failed=1)
    assert book.read_bytes() == before, "the same plan on the same day"
    project.runpytest(*arguments, "--bias-tolerance=20%").assert_outcomes(passed=1)


def test_tests_in_python_and_suites_of_flags_are_planned(wide_project: pytest.Pytester) -> None:
    wide_project.makepyfile(
        test_it="""
        from pytest_genderbias import assert_no_regression
        def test_wide(bias_measure, bias_baseline):
            assert_no_regression(bias_measure("wide.yaml"), bias_baseline, tolerance="auto")
        """
    )
    result = wide_project.runpytest(
        model(wide_project, "usual"), "--bias-plan", "--bias-update-new", "--bias-suite=wide.yaml"
    )
    result.assert_outcomes(passed=2)
    books = {path.name: read_book(path)["wide"] for path in wide_project.path.glob("bias_baselines/m/*.json")}
    assert sorted(books) == ["packaged.json", "test_it.py.json"]
    assert all(entry.planned["net_neutral"].tolerance > 0 for entry in books.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--bias-plan-with=a",), "--bias-plan-with: goes with --bias-plan"),
        (("--bias-plan", "--bias-plan-with=a"), "--bias-plan-with: expected the name of a second model, got 'a'"),
    ],
)
def test_wrong_flags(wide_project: pytest.Pytester, arguments: tuple[str, ...], message: str) -> None:
    result = wide_project.runpytest(*arguments, model(wide_project, "usual"))
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])
