"""``--bias-inconclusive``: whether an undecided verdict fails or warns."""

from __future__ import annotations

import pytest
from support.small_projects import model
from support.wide_suites import gates


def test_an_undecided_gate_fails_or_warns(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, at_least: 0.69, settings: {limit: 200}")
    wide_project.runpytest(model(wide_project, "usual")).assert_outcomes(failed=1)
    result = wide_project.runpytest(model(wide_project, "usual"), "--bias-inconclusive=warn")
    result.assert_outcomes(passed=1, warnings=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*GateWarning: inconclusive: *", "inconclusive: wide on m: *does not decide whether it is at least 0.69"])  # fmt: skip
    wide_project.makeini("[pytest]\nbias_inconclusive = warn")
    wide_project.runpytest(model(wide_project, "usual")).assert_outcomes(passed=1, warnings=1)
