"""What GitHub Actions reads, from objects alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from support.run_reports import PASSED, REGRESSED, hostile_report, run_report, settled

from pytest_genderbias.gates.verdicts import FinishedTest
from pytest_genderbias.reports.markdown import annotation_lines, append_summary


def test_a_failed_gate_is_annotated_where_it_is_declared() -> None:
    assert annotation_lines(run_report()) == [
        "::error file=g.bias.yaml,line=3,title=tiny (release) on m%3A worse::worse: tiny on m: share 0.25 -> 0.4, 0.15"
        " worse, margin 0.02%0A  moved     1 of 12 items; most: item 1 0.1 -> 0.9"
    ]
    [inside] = annotation_lines(run_report(), "models/nli")
    assert inside.startswith("::error file=models/nli/g.bias.yaml,line=3,")
    assert annotation_lines(run_report(judgements=(settled(PASSED, "passed"),), tests=())) == []


def test_better_values_broken_tests_and_other_failures_are_annotated() -> None:
    report = run_report(
        judgements=(settled(replace(REGRESSED, code="better"), "passed", "elsewhere"),),
        tests=(FinishedTest("test_a.py::test", file="test_a.py", line=9, outcome="failed", text="no such model"),),
        failures=("unused baseline entries: a",),
    )
    assert annotation_lines(report) == [
        "::error file=test_a.py,line=9,title=test_a.py%3A%3Atest failed without a verdict::no such model",
        "::error title=bias::unused baseline entries: a",
        (
            "::warning title=tiny (release) on m%3A pass (better%3A refresh)::worse: tiny on m: share 0.25 -> 0.4, 0.15"
            " worse, margin 0.02"
        ),
    ]


def test_of_many_the_tenth_counts_the_rest() -> None:
    failed = tuple(settled(replace(REGRESSED, name=str(i)), "failed") for i in range(12))
    lines = annotation_lines(run_report(judgements=failed))
    assert len(lines) == 10
    assert lines[-1] == "::error title=bias::3 more are in the summary of the job"


def test_no_text_ends_a_command_or_begins_another() -> None:
    lines = annotation_lines(hostile_report())
    assert len(lines) == 4
    for line in lines:
        assert line.isprintable()
        assert len(line) < 10_000
        command, _, message = line.removeprefix("::").partition("::")
        values = dict(part.split("=", 1) for part in command.partition(" ")[2].split(","))
        assert set(values) in ({"file", "line", "title"}, {"title"})
        assert "\\x3a:error::x" in f"{unquote(message)} {unquote(values['title'])}"


def test_the_summary_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("of an earlier command\n")
    append_summary(run_report(), path)
    append_summary(hostile_report(), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("of an earlier command\n<!-- pytest-genderbias -->\n## ❌ Bias: 1 of 2 gates failed\n")
    assert text.count("<!-- pytest-genderbias -->") == 2
