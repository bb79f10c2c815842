"""``--bias-report``: the run as a page."""

from __future__ import annotations

import pytest
from support.small_projects import GATES, model


def test_a_run_writes_the_page(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-report=out/report.html")
    result.assert_outcomes(passed=1, failed=2)
    page = project.path.joinpath("out/report.html").read_text()
    assert "1 of 2 gates failed, 1 test failed without a verdict" in page
    assert "not judged: tiny-lm needs a causal LM or a masked LM" in page
    assert "limit broken" in page
    assert "--bias-report=out/report.html" in page


def test_a_page_that_cannot_be_written_fails_the_run(project: pytest.Pytester) -> None:
    project.path.joinpath("file").touch()
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.1))
    result = project.runpytest(model(project, "good"), "--bias-report=file/report.html")
    assert result.ret != pytest.ExitCode.OK
    output = result.stdout.str() + result.stderr.str()
    assert "--bias-report" in output
    assert "Traceback" not in output
