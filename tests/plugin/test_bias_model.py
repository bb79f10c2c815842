"""``--bias-model`` and the fixtures that take the model: one run of a test for every model."""

from __future__ import annotations

import pytest
from support.small_projects import NLI, model


def test_no_model_is_a_skip_that_says_what_to_type(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(bias_model): assert False")
    result = project.runpytest(*NLI, "-rs")
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*give one with --bias-model=*"])
    project.runpytest("--bias-strict").assert_outcomes(errors=1)


def test_fixtures_run_once_for_every_model(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pytest_genderbias import assert_at_least, assert_at_most

        def test_neutral(bias_measure, bias_model, bias_suite):
            suite = bias_suite("tiny-nli.yaml")
            first = bias_measure(suite)
            assert first is bias_measure("tiny-nli.yaml"), "computed once a run and model"
            assert first.model == bias_model.name and first.direction == "lower" and first.neutral == 1.0
            assert_at_least(first, 0.85)
        """
    )
    result = project.runpytest(model(project, "good", "a"), model(project, "worse", "b"), "-v")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*test_neutral?a? PASSED*",
            "*test_neutral?b? FAILED*",
            "*limit broken: tiny-nli on b: net_neutral is 0.825, expected at least 0.85*",
        ]
    )


def test_nan_scores_are_refused_and_name_the_case(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, model(project, "nan"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ScoreError: m gives NaN or infinite scores, first for 'The * ate *"])


def test_the_command_line_names_the_import_error(project: pytest.Pytester) -> None:
    result = project.runpytest(*NLI, "--bias-model=m=no_such_module:make")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*ModelError: no_such_module:make cannot be imported: ModuleNotFoundError: No module named 'no_such_module'*"]
    )
