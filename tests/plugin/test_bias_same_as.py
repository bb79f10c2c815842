"""``--bias-same-as`` and ``same_as:``: gates that a better model fails as a worse one does."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model

SUITE = "--bias-suite=tiny-nli.yaml"


def test_a_model_may_be_neither_worse_nor_better(jobs: pytest.Pytester) -> None:
    models = model(jobs, "good", "a"), model(jobs, "worse", "b"), model(jobs, "better", "c")
    result = jobs.runpytest(SUITE, *models, "--bias-same-as=a", "--bias-margin=0.01", "--bias-json=run.json")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            (
                "limit broken (not the same): tiny-nli on b: net_neutral 0.9 -> 0.825: 0.075 worse (95 % * 0.0216 to"
                " 0.075), allowed 0.01"
            ),
            "  do        make the model more alike, or allow more (margin)",
            (
                "limit broken (not the same): tiny-nli on c: net_neutral 0.9 -> 0.95: 0.05 better (95 % * 0.0144 to"
                " 0.05), allowed 0.01"
            ),
            "  tiny-nli  net_neutral *0.075 worse (0.022 to 0.075) *a 0.9 ± 0.01 *limit broken (not the same) *",
            "  tiny-nli  net_neutral *0.050 better (0.014 to 0.050) *a 0.9 ± 0.01 *limit broken (not the same) *",
            "bias  2 limit broken (not the same) *",
        ]
    )
    content = json.loads((jobs.path / "run.json").read_text())
    assert [one["code"] for one in content["judgements"]] == ["different", "different"]
    assert content["run"]["settings"]["same_as"] == "a"
    result = jobs.runpytest(SUITE, *models, "--bias-same-as=a", "--bias-margin=80%")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["  tiny-nli  net_neutral *pass (the same) *"])


def test_a_copy_that_did_not_change_is_unchanged(jobs: pytest.Pytester) -> None:
    models = model(jobs, "good", "a"), model(jobs, "good", "b")
    result = jobs.runpytest(SUITE, *models, "--bias-same-as=a", "--bias-margin=0")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["  tiny-nli  net_neutral *pass (unchanged) *"])


def test_gates_of_a_file(jobs: pytest.Pytester) -> None:
    (jobs.path / "g.bias.yaml").write_text(
        "gates:\n"
        "  - {suite: tiny-nli.yaml, same_as: a, margin: 0.005}\n"
        "  - {suite: tiny-nli.yaml, no_worse_than: a, margin: 0.005}\n"
    )
    models = model(jobs, "good", "a"), model(jobs, "worse", "b"), model(jobs, "better", "c")
    result = jobs.runpytest("g.bias.yaml", *models, "-v", "--bias-json=run.json")
    result.assert_outcomes(passed=1, failed=3)
    judged = json.loads((jobs.path / "run.json").read_text())["judgements"]
    assert [(one["model"], one["code"], one["tests"]) for one in judged] == [
        ("b", "different", 4),
        ("b", "regressed", 4),
        ("c", "different", 4),
        ("c", "within", 4),
    ]
    result.stdout.fnmatch_lines(["*tiny-nli.net_neutral.same_as_a:b FAILED*"])


WRONG = [
    ("same_as: a", "'the same as' needs a margin, how much *"),
    ("same_as: a, no_worse_than: a, margin: 1", "'same_as' and 'no_worse_than' are two gates: give each its own entry"),
    ("same_as: 3, margin: 1", "'same_as' of the gate should be *"),
]


def test_wrong_gates_are_one_error(jobs: pytest.Pytester) -> None:
    for number, (gate, _) in enumerate(WRONG):
        (jobs.path / f"wrong-{number}.bias.yaml").write_text(f"gates:\n  - {{suite: tiny-nli.yaml, {gate}}}\n")
    result = jobs.runpytest(model(jobs, "good", "a"))
    result.assert_outcomes(errors=len(WRONG))
    for number, (_, said) in enumerate(WRONG):
        result.stdout.fnmatch_lines([f"*wrong-{number}.bias.yaml:2: {said}"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bias-same-as=a"], "needs --bias-margin=X, how much a figure may change to either side*"),
        (["--bias-same-as=z", "--bias-margin=1"], "no model 'z'; the run has a, b*"),
        (
            ["--bias-same-as=a", "--bias-no-worse-than=a", "--bias-margin=1"],
            "and --bias-no-worse-than exclude each other*",
        ),
    ],
)
def test_wrong_flags_are_one_error(jobs: pytest.Pytester, arguments: list[str], said: str) -> None:
    result = jobs.runpytest(SUITE, model(jobs, "good", "a"), model(jobs, "worse", "b"), *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --bias-same-as*{said}"])


def test_the_reference_needs_another_model_and_a_suite(jobs: pytest.Pytester) -> None:
    alone = jobs.runpytest(SUITE, model(jobs, "good", "a"), "--bias-same-as=a", "--bias-margin=1")
    alone.stderr.fnmatch_lines(["ERROR: --bias-same-as: a is the only model; *"])
    models = model(jobs, "good", "a"), model(jobs, "worse", "b")
    none = jobs.runpytest(*models, "--bias-same-as=a", "--bias-margin=1")
    none.stderr.fnmatch_lines(["ERROR: --bias-same-as: is for the suites of --bias-suite, and none is named"])


def test_a_suite_that_does_not_apply_to_the_reference_fails(jobs: pytest.Pytester) -> None:
    models = model(jobs, "writer", "a"), model(jobs, "good", "b")
    result = jobs.runpytest(SUITE, *models, "--bias-same-as=a", "--bias-margin=0.1")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["not judged: not compared with a: *answer_log_probs*verbaliser=yes-maybe-no; --bias-same-as makes *"]
    )


def test_the_flag_is_an_ini_key(jobs: pytest.Pytester) -> None:
    jobs.makeini("[pytest]\nbias_same_as = a\nbias_margin = 0.01\nbias_suite = tiny-nli.yaml")
    jobs.runpytest(model(jobs, "good", "a"), model(jobs, "better", "b")).assert_outcomes(passed=1, failed=1)
