"""Settings in the ini file."""

from __future__ import annotations

import pytest
from support.small_projects import model


def test_settings_come_from_ini_keys(project: pytest.Pytester) -> None:
    project.makeini(
        f"[pytest]\nbias_model = m={project.models}:good\nbias_suite = tiny-nli.yaml\nbias_limit = 100\nbias_seed = 7"
    )  # type: ignore[attr-defined]
    result = project.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["bias: m; seed 7*at most 100 cases*", "*tiny-nli 100 of 264 cases"])


def test_paths_in_the_ini_file_start_at_the_root_directory(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeini("[pytest]\nbias_suite = tiny-nli.yaml\nbias_json = report.json")
    below = project.mkdir("below")
    monkeypatch.chdir(below)
    project.runpytest(
        model(project, "good"), "--rootdir", str(project.path), "-c", str(project.path / "tox.ini")
    ).assert_outcomes(passed=1)
    assert (project.path / "report.json").is_file()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("bias_strct", "did you mean bias_strict?"),
        ("bias-strict", "did you mean bias_strict?"),
        ("bias_modle", "bias_model"),
    ],
)
def test_a_misspelt_key_is_refused(project: pytest.Pytester, key: str, said: str) -> None:
    """With pytest's warning alone a run would be less strict than its ini file says."""
    project.makeini(f"[pytest]\n{key} = true")
    result = project.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: unknown key '{key}' in the ini file; *{said}*"])
    assert "Traceback" not in result.stderr.str()


def test_a_key_that_is_like_none_of_ours_is_left_to_pytest(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nbias_of_the_night = true\nbiased = true")
    result = project.runpytest("--collect-only")
    result.stdout.no_fnmatch_line("*unknown key*")
    result.stdout.no_fnmatch_line("*pytest_genderbias/plugin*Warning*")
