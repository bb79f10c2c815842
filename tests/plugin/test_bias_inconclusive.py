"""``--bias-inconclusive`` and ``--bias-stale``: whether a verdict fails or warns."""

from __future__ import annotations

import pytest
from support.small_projects import model
from support.wide_suites import gates


def test_inconclusive_and_stale_fail_or_warn(wide_project: pytest.Pytester) -> None:
    gates(
        wide_project, "suite: ./wide.yaml, at_least: 0.69, settings: {limit: 200}", "suite: ./wide.yaml, baseline: true"
    )
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update-new").assert_outcomes(passed=1, failed=1)
    result = wide_project.runpytest(model(wide_project, "best"))
    result.assert_outcomes(passed=2, warnings=1)
    result.stdout.fnmatch_lines(
        ["*GateWarning: stale: wide on m: net_neutral 0.694* better*refresh it with --bias-update"]
    )
    wide_project.runpytest(model(wide_project, "best"), "--bias-stale=fail").assert_outcomes(passed=1, failed=1)
    result = wide_project.runpytest(model(wide_project, "usual"), "--bias-inconclusive=warn")
    result.assert_outcomes(passed=2, warnings=1)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*GateWarning: inconclusive: *", "inconclusive: wide on m: *does not decide whether it is at least 0.69"])  # fmt: skip
    wide_project.makeini("[pytest]\nbias_inconclusive = warn\nbias_stale = fail")
    wide_project.runpytest(model(wide_project, "usual")).assert_outcomes(passed=2, warnings=1)
    wide_project.runpytest(model(wide_project, "best")).assert_outcomes(passed=1, failed=1)
