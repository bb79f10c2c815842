"""``--bias-stale``: whether a model that is better than its baseline fails or warns."""

from __future__ import annotations

import pytest
from support.small_projects import model
from support.wide_suites import gates


def test_a_stale_baseline_warns_or_fails(wide_project: pytest.Pytester) -> None:
    gates(wide_project, "suite: ./wide.yaml, baseline: true, tolerance: 0")
    wide_project.runpytest(model(wide_project, "usual"), "--bias-update-new").assert_outcomes(passed=1)
    result = wide_project.runpytest(model(wide_project, "best"))
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*GateWarning: stale: wide on m: net_neutral 0.694* better*refresh it with --bias-update"]
    )
    wide_project.runpytest(model(wide_project, "best"), "--bias-stale=fail").assert_outcomes(failed=1)
    wide_project.makeini("[pytest]\nbias_stale = fail")
    wide_project.runpytest(model(wide_project, "best")).assert_outcomes(failed=1)
    wide_project.runpytest(model(wide_project, "usual")).assert_outcomes(passed=1)
