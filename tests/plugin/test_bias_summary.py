"""``--bias-summary``: the run in markdown, for a comment on a pull request."""

from __future__ import annotations

import re

import pytest
from support.abilities import UNASKED
from support.command_lines import make_reports
from support.small_projects import GATES, NLI, WORKERS, model

from pytest_genderbias.plugin.outputs import OUTPUTS
from pytest_genderbias.reports.markdown import repeated_arguments

#: Besides a gate that fails: a gate that passes, an error, and a test that was expected to fail.
TESTS = """
import pytest
from pytest_genderbias import assert_at_least, assert_no_regression, load_model

def test_error(bias_model):
    load_model("./nowhere")

def test_release(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0.02)

@pytest.mark.xfail
def test_expected(bias_measure):
    assert_at_least(bias_measure("tiny-nli.yaml"), 0.95)
"""


def test_the_summary_of_a_failed_run(jobs: pytest.Pytester) -> None:
    jobs.makepyfile(test_release=TESTS)
    jobs.path.joinpath("ok.bias.yaml").write_text("gates: [{suite: ./tiny-nli.yaml, at_least: 0.5}]")
    jobs.runpytest(model(jobs, "good"), "--bias-update", "test_release.py::test_release")
    result = jobs.runpytest(model(jobs, "worse"), "--bias-summary=out/s.md")
    result.assert_outcomes(failed=2, passed=1, xfailed=1)
    text = jobs.path.joinpath("out/s.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[:2] == [
        "<!-- pytest-genderbias -->",
        "## ❌ Bias: 1 of 3 gates failed, 1 test failed without a verdict",
    ]
    assert lines[3].strip() == "1 pass · 1 worse · 1 limit broken (xfail)"
    assert "- `baseline of m: accepted today`" in lines
    assert re.search(r"^\*\*`tiny-nli`\*\* on `m`: worse \(`test_release.py:8`\)$", text, re.MULTILINE)
    assert re.search(
        r"^\*\*`test_release.py::test_error\[m\]`\*\* failed without a verdict\n\n```text\n.*nowhere",
        text,
        re.MULTILINE,
    )
    assert "--bias-summary" not in text
    [command] = [line for line in lines if line.startswith("pytest ")]
    assert command.endswith(' --bias-update --bias-reason="why"')


@pytest.mark.parametrize("flag", [output.flag for output in OUTPUTS if output.flagged])
def test_the_command_to_accept_names_no_file_of_the_run(flag: str) -> None:
    assert repeated_arguments(["-q", f"{flag}=FILE", flag, "FILE", "tests"]) == ["-q", "tests"]


def test_no_summary_without_the_flag(project: pytest.Pytester) -> None:
    before = set(project.path.iterdir())
    project.runpytest(*NLI, model(project, "good"), "--bias-limit=10")
    assert {path.name for path in set(project.path.iterdir()) - before} <= {"__pycache__"}


@pytest.mark.slow
def test_the_files_are_the_same_on_two_workers(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "job.md"))
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    runs = []
    for workers in ((), WORKERS):
        result = project.runpytest_subprocess(
            model(project, "good"),
            "--bias-summary=s.md",
            "--bias-json=run.json",
            "-obias_github=true",
            *UNASKED,
            *workers,
        )
        summary = re.sub(r"\d\d:\d\d", "", project.path.joinpath("s.md").read_text(encoding="utf-8"))
        assert make_reports("r.csv").status == 0
        commands = [line for line in result.outlines if line.startswith("::")]
        runs.append(
            (summary.replace(f" {' '.join(WORKERS)}", ""), project.path.joinpath("r.csv").read_text(), commands)
        )
    assert runs[0] == runs[1]
    assert len(runs[0][2]) == 2
    job = project.path.joinpath("job.md").read_text(encoding="utf-8")
    assert job.count("## ❌ Bias: 1 of 2 gates failed, 1 test failed without a verdict") == 2, (
        "each run appends to it once"
    )
