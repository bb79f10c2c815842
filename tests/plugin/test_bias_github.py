"""``bias_github``: annotations and the summary of a job, in GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_projects import model

TESTS = """
from pytest_genderbias import assert_at_least

def test_nli(bias_measure):
    measurement = bias_measure("tiny-nli.yaml")
    assert_at_least(measurement, 0.5)
    assert_at_least(measurement, 0.95)
"""
GATES = """
gates:
  - suite: ./tiny-nli.yaml
    at_least: 0.99
  - suite: ./tiny-nli.yaml
    at_least: 0.5
    name: low
"""


@pytest.fixture
def actions(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the summary of the job; the project is a folder of the repository."""
    project.makepyfile(test_release=TESTS)
    project.path.joinpath("release.bias.yaml").write_text(GATES)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path.parent))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


def test_failed_gates_are_annotated_in_their_files(project: pytest.Pytester, actions: Path) -> None:
    actions.write_text("of an earlier command\n")
    result = project.runpytest(model(project, "good"), "-obias_github=true")
    result.assert_outcomes(failed=2, passed=1)
    folder = project.path.name
    annotations = sorted(line for line in result.outlines if line.startswith("::"))
    assert len(annotations) == 2
    assert annotations[0].startswith(
        f"::error file={folder}/release.bias.yaml,line=3,title=tiny-nli on m%3A limit broken::limit broken: "
    )
    assert annotations[1].startswith(
        f"::error file={folder}/test_release.py,line=6,title=tiny-nli on m%3A limit broken::"
    )
    text = actions.read_text(encoding="utf-8")
    assert text.startswith("of an earlier command\n<!-- pytest-genderbias -->\n## ❌ Bias: 2 of 4 gates failed\n")


def test_a_summary_that_cannot_be_written_fails_the_run(
    project: pytest.Pytester, actions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actions.mkdir()
    result = project.runpytest(model(project, "good"), "-obias_github=true", "-k", "low")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"bias_github: {actions} cannot be written: Is a directory"])
    monkeypatch.delenv("GITHUB_ACTIONS")
    result = project.runpytest(model(project, "good"), "-obias_github=true", "-k", "at_least")
    assert not [line for line in result.outlines if line.startswith("::")], "elsewhere the flag has no effect"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("bias_github: *")
