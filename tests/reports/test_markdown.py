"""The summary in markdown, from objects alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.hand_made import hand_made
from support.run_reports import PASSED, REGRESSED, hostile_report, run_report, settled, without_code

from pytest_genderbias.gates.judgement import Comparison, Judgement, read_facts
from pytest_genderbias.gates.verdicts import FinishedTest, Paragraph
from pytest_genderbias.measurement.variance import ValueVariance
from pytest_genderbias.reports.markdown import LARGEST, MARKER, summary_text
from pytest_genderbias.reports.run_report import RunInfo, RunReport
from pytest_genderbias.statistics.inference.variance_shares import VarianceShare


def test_the_verdict_comes_first_then_what_failed_then_what_to_type_then_the_tables() -> None:
    lines = summary_text(run_report()).splitlines()
    assert lines[:3] == [MARKER, "## ❌ Bias: 1 of 2 gates failed", ""]
    assert lines[3].strip() == "1 worse · 1 pass · 1 not judged"
    assert lines[4] == "`m` · commit `0123456789ab` · 2026-11-22 10:00 · pytest-genderbias 0.1.0"
    order = [
        "- `baseline of m: accepted 31 days ago`",
        "**`tiny (release)`** on `m`: worse (`g.bias.yaml:3`)",
        "  moved     1 of 12 items; most: item 1 0.1 -> 0.9",
        'pytest --bias-model=m=runs/m --bias-update --bias-reason="why"',
        "| ❌ | `tiny (release)` | `m` | `share` | 0.4 | `baseline 0.25 + 0.02` | 0.15 worse (0.05 to 0.25) | worse |",
        "| ✅ | `tiny` | `m` | `other` | 0.1 | `at most 0.3` |  | pass |",
        "| `tiny` | `m` | `share` | 0.25 | 0.25 to 0.25 | 0 | higher | 12 |",
        "genderbias::weat:m: weat needs vectors",
    ]
    assert [line for line in lines if line in order] == order
    assert not any("record" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"judgements": (settled(PASSED, "passed"),), "tests": ()}, "✅ Bias: the gate passed"),
        ({"judgements": (settled(PASSED, "passed"),) * 2, "tests": ()}, "✅ Bias: all 2 gates passed"),
        (
            {"judgements": (settled(PASSED, "passed"),) * 2, "tests": ()},
            "❌ Bias: none of 2 gates failed, but another test of the run failed",
        ),
        (
            {"judgements": (settled(PASSED, "passed"), settled(REGRESSED, "xfail")), "tests": ()},
            "Bias: 1 of 2 gates passed, 1 failed as expected",
        ),
        ({"judgements": (), "tests": ()}, "❌ Bias: no gate was judged, and another test of the run failed"),
        (
            {"judgements": (settled(PASSED, "passed"), settled(replace(PASSED, code="better"), "passed")), "tests": ()},
            "✅ Bias: all 2 gates passed",
        ),
        ({"judgements": (), "tests": ()}, "Bias: 1 measured, 0 gated: nothing here can fail yet"),
        ({"judgements": (), "tests": (), "measurements": ()}, "Bias: nothing was measured"),
        (
            {"judgements": (settled(PASSED, "passed"),), "tests": (), "failures": ("unused",)},
            "❌ Bias: 1 failure beside the tests",
        ),
        (
            {"judgements": (), "tests": (FinishedTest("t", outcome="failed"),)},
            "❌ Bias: 1 test failed without a verdict",
        ),
        (
            {"judgements": (), "tests": (), "run": RunInfo("2026-11-22", "0", exit_status=2)},
            "❌ Bias: the run was cut short",
        ),
    ],
)
def test_the_first_line_never_hides_a_failure(changes: dict[str, object], line: str) -> None:
    report = run_report(**changes)
    if "run" not in changes:
        report = replace(report, run=replace(report.run, exit_status=int("❌" in line or "another test" in line)))
    assert summary_text(report).splitlines()[1] == f"## {line}"


@pytest.mark.parametrize(
    ("judgement", "outcome", "command"),
    [
        (REGRESSED, "failed", 'pytest --bias-model=m=runs/m --bias-update --bias-reason="why"'),
        (replace(REGRESSED, code="better"), "passed", "pytest --bias-model=m=runs/m --bias-update"),
        (
            Judgement("s", "m", "t", 1.0, None, 1, 1, "baseline", "no_baseline", (Paragraph("", "t"),)),
            "failed",
            "pytest --bias-model=m=runs/m --bias-update-new",
        ),
    ],
)
def test_it_says_what_to_type(judgement: Judgement, outcome: str, command: str) -> None:
    report = run_report(judgements=(settled(judgement, outcome),))
    arguments = ("--bias-model=m=runs/m", "--bias-summary", "s.md", "--bias-json=r.json")
    report = replace(report, run=replace(report.run, arguments=arguments))
    assert [line for line in summary_text(report).splitlines() if line.startswith("pytest ")] == [command]
    assert "pytest --" not in summary_text(run_report(judgements=(settled(PASSED, "passed"),)))


def test_a_hostile_text_ends_no_code_and_notifies_nobody() -> None:
    text = summary_text(hostile_report())
    assert len(text) < LARGEST
    outside = without_code(text)
    for sign in ("@octocat", "<b", "](", "#1", "\\|"):
        assert sign in text
        assert sign not in outside
    assert outside.count("<details>") == outside.count("</details>")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {9}


def test_tables_of_other_kinds_are_folded() -> None:
    facts = {"by": 0.3, "before": 1.0, "after": 0.5, "reduction": 0.5}
    reduced = Judgement(
        "s",
        "m|`@x`",
        "t",
        0.5,
        None,
        1,
        1,
        "reduced by 30 %",
        "reduced",
        (Paragraph("", "text"),),
        facts=read_facts(facts),
    )
    compared = Comparison("s", "t", True, "a", "b", 1.0, 2.0, 1.0, better="a", method="none: too few")
    variance = ValueVariance("s", "m", "t", (VarianceShare("words", 4, 0.5, 0.25, 0.125, False),), "")
    text = summary_text(
        run_report(judgements=(settled(reduced, "passed"),), comparisons=(compared,), variances=(variance,))
    )
    for title in ("Mitigations", "Models compared", "Sources of variance"):
        assert f"<summary>{title}</summary>" in text
    assert "| `s` | `` m\\|`@x` `` | `t` | 1.0000 | 0.5000 | - | 50 % | `reduced by 30 %` | `pass (reduced)` |" in text
    assert "| 25.0 % | 12.5 % |" in text


def test_what_does_not_fit_into_a_comment_is_left_out_and_named() -> None:
    report = run_report(measurements=tuple(hand_made(suite=f"suite-{i}") for i in range(2000)))
    text = summary_text(report)
    assert len(text) < LARGEST
    assert "1 of 2 gates failed" in text
    assert "Left out, since a comment has at most 65,536 characters: the table of all figures." in text


def test_of_a_thousand_gates_those_that_failed_are_in_the_table() -> None:
    passed = [settled(replace(PASSED, name=f"gate-{i}"), "passed") for i in range(999)]
    text = summary_text(run_report(judgements=(*passed, settled(REGRESSED, "failed"))))
    assert "## ❌ Bias: 1 of 1000 gates failed" in text.replace(",", "")
    rows = [line for line in text.splitlines() if line.startswith(("| ✅", "| ❌"))]
    assert len(rows) == 200
    assert rows[0].startswith("| ❌ | `tiny (release)`")
    assert "800 more gates, which `--bias-json` has." in text


def test_an_empty_run_has_a_summary() -> None:
    text = summary_text(RunReport(RunInfo("no date", "0")))
    assert text.splitlines()[1:3] == ["## Bias: nothing was measured", ""]
