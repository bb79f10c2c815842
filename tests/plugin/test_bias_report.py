"""``--bias-report``: the run as a page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.small_projects import GATES, model

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


def test_a_run_writes_the_page(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-report=out/report.html")
    result.assert_outcomes(passed=1, failed=2)
    page = project.path.joinpath("out/report.html").read_text()
    assert "1 of 2 gates failed, 1 test failed without a verdict" in page
    assert "not judged: tiny-lm needs a causal LM or a masked LM" in page
    assert "over the limit" in page
    assert "--bias-report=out/report.html" in page


def test_a_missing_package_is_a_usage_error_before_the_run(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.setattr("pytest_genderbias.plugin.outputs.find_spec", lambda name: None if name == "jinja2" else name)
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-report=report.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*--bias-report: needs jinja2; install with: pip install 'pytest-genderbias[[]report]'"]
    )
    assert not Path(project.path, "report.html").exists()


def test_a_page_that_cannot_be_written_fails_the_run(project: pytest.Pytester) -> None:
    project.path.joinpath("file").touch()
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.1))
    result = project.runpytest(model(project, "good"), "--bias-report=file/report.html")
    assert result.ret != pytest.ExitCode.OK
    output = result.stdout.str() + result.stderr.str()
    assert "--bias-report" in output
    assert "Traceback" not in output
