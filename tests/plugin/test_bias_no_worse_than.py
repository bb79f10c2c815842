"""``--bias-no-worse-than``: every suite of the flags is a gate between models."""

from __future__ import annotations

import json

import pytest
from support.abilities import UNASKED
from support.small_projects import WORKERS, model

SUITES = "--bias-suite=tiny-nli.yaml,tiny-lm.yaml"


def test_no_suite_may_be_worse_than_a_named_model(jobs: pytest.Pytester) -> None:
    models = model(jobs, "good", "a"), model(jobs, "worse", "b"), model(jobs, "better", "c")
    result = jobs.runpytest("--bias-suite=tiny-nli.yaml", *models, "--bias-no-worse-than=a", "--bias-margin=0")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            (
                "worse: tiny-nli on b: net_neutral 0.9 -> 0.825: 0.075 worse (95 % for all 2 comparisons of models:"
                " 0.0216 to 0.075), allowed 0"
            ),
            "  moved     all * premise words; most: * 0.9 -> 0.*",
            "  scored    * of * cases, those of a; judged for other premise words*",
            "  do        fix the model, or allow more (margin)",
            "  tiny-nli  net_neutral *0.075 worse (0.022 to 0.075) *a 0.9 - 0 *worse *",
            "  tiny-nli  net_neutral *0.050 better (0.014 to 0.050) *a 0.9 - 0 *pass *",
        ]
    )


@pytest.mark.slow
def test_the_verdict_hangs_on_the_flags_alone(jobs: pytest.Pytester) -> None:
    a, b = model(jobs, "good", "a"), model(jobs, "few", "b")
    runs = {
        "whole": (a, b, "--bias-compare"),
        "reversed": (b, a),
        "alone": (a, b, "-k", "nli and b"),
        "workers": (a, b, "--bias-compare", *WORKERS, *UNASKED),
    }
    found = {}
    for name, arguments in runs.items():
        jobs.runpytest(SUITES, *arguments, "--bias-no-worse-than=a", "--bias-margin=0", f"--bias-json={name}.json")
        found[name] = json.loads((jobs.path / f"{name}.json").read_text())
    judged = found["whole"]["judgements"]
    assert [(one["code"], one["tests"]) for one in judged] == [("too_few", 2)]  # two suites, one other model
    assert all(one["judgements"] == judged for one in found.values())
    assert found["whole"]["comparisons"] == found["workers"]["comparisons"] != []


def test_a_suite_that_does_not_apply_to_the_reference_fails(jobs: pytest.Pytester) -> None:
    models = model(jobs, "writer", "a"), model(jobs, "good", "b")
    result = jobs.runpytest("--bias-suite=tiny-nli.yaml", *models, "--bias-no-worse-than=a", "--bias-margin=0")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "not judged: not compared with a: *answer_log_probs*verbaliser=yes-maybe-no; --bias-no-worse-than makes *",
            "bias  2 failed without a verdict · 1 measured, 0 gated",
        ]
    )


@pytest.mark.parametrize(("selected", "later"), [([], 2), (["-k", "nli:b"], 0)])
def test_a_reference_that_cannot_be_loaded_says_why_once(
    jobs: pytest.Pytester, selected: list[str], later: int
) -> None:
    models = [model(jobs, which, name) for which, name in (("absent", "a"), ("good", "b"), ("worse", "c"))]
    result = jobs.runpytest(
        "--bias-suite=tiny-nli.yaml", *models, "--bias-no-worse-than=a", "--bias-margin=0", *selected
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    errors = [line for line in result.outlines if line.startswith("ModelError: ")]
    assert ["absent" in line for line in errors] == [True] + [False] * later
    assert all("a cannot be measured; the first error about it says why" in line for line in errors[1:])


def test_a_baseline_is_judged_where_the_reference_cannot_be(jobs: pytest.Pytester) -> None:
    stored = jobs.runpytest("--bias-suite=tiny-nli.yaml", model(jobs, "good", "b"), "--bias-update", "--bias-margin=0")
    stored.assert_outcomes(passed=1)
    models = model(jobs, "writer", "a"), model(jobs, "worse", "b")
    result = jobs.runpytest("--bias-suite=tiny-nli.yaml", *models, "--bias-no-worse-than=a", "--bias-margin=0")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["worse: tiny-nli on b: net_neutral 0.9 -> 0.825*"])


def test_the_flag_is_an_ini_key(jobs: pytest.Pytester) -> None:
    jobs.makeini("[pytest]\nbias_no_worse_than = a\nbias_margin = 0\nbias_suite = tiny-nli.yaml")
    jobs.runpytest(model(jobs, "good", "a"), model(jobs, "worse", "b")).assert_outcomes(passed=1, failed=1)
