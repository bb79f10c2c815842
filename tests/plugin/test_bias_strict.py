"""``--bias-strict``: a suite that does not apply fails instead of being skipped."""

from __future__ import annotations

import pytest
from support.small_projects import NLI, model


def test_a_suite_that_does_not_apply_is_a_skip_with_the_reason(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "filler"), "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*tiny-nli needs a pair classifier with entailment, neutral and contradiction labels, or a chat model; m is a masked LM*"
        ]
    )
    result = project.runpytest(*NLI, model(project, "filler"), "--bias-strict")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["not judged: tiny-nli needs a pair classifier *; --bias-strict fails a suite that is named and does not apply"]
    )
    result.stdout.no_fnmatch_line("*another exception*")
