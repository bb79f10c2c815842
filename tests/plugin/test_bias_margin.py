"""``--bias-margin``: how much worse the suites of flags may be. Gate files have margins of their own."""

from __future__ import annotations

import pytest
from support.abilities import UNASKED
from support.small_projects import model

from pytest_genderbias.gates.book import read_book

SUITE = "--bias-suite=tiny-nli.yaml"


@pytest.mark.parametrize(
    ("margin", "outcome", "text"),
    [
        ("0.08", "passed", "*  a 0.9 - 0.08 *pass *"),
        ("80%", "passed", "*  a 0.9 - 0.08 *pass *"),
        ("50%", "failed", "worse: *0.075 worse, allowed 0.05 (50% of the distance 0.1 from neutral)"),
        (None, "failed", "worse: *net_neutral 0.9 -> 0.825: 0.075 worse"),
    ],
)
def test_the_flag_is_the_margin_between_models(
    jobs: pytest.Pytester, margin: str | None, outcome: str, text: str
) -> None:
    models = model(jobs, "good", "a"), model(jobs, "worse", "b")
    flags = [] if margin is None else [f"--bias-margin={margin}"]
    result = jobs.runpytest(SUITE, *models, "--bias-no-worse-than=a", *flags)
    assert result.parseoutcomes().get(outcome) == (2 if outcome == "passed" else 1)
    result.stdout.fnmatch_lines([text])


def test_the_flag_is_the_margin_of_a_stored_suite(jobs: pytest.Pytester) -> None:
    jobs.runpytest(SUITE, model(jobs, "good"), "--bias-update").assert_outcomes(passed=1)
    (book,) = jobs.path.glob("bias_baselines/*/*.json")
    assert read_book(book)["tiny-nli"].gated == {"net_neutral": None}, "nothing is allowed but chance"
    arguments = SUITE, model(jobs, "worse")
    result = jobs.runpytest(*arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["worse: *net_neutral 0.9 -> 0.825: 0.075 worse", "*  baseline 0.9 *worse *"])
    passed = jobs.runpytest(*arguments, "--bias-margin=80%")
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines(["*  baseline 0.9 - 0.08 *pass *"])
    jobs.runpytest(*arguments, "--bias-margin=80%", "--bias-update").assert_outcomes(passed=1)
    assert read_book(book)["tiny-nli"].gated["net_neutral"] == pytest.approx(0.14), (
        "80% of the distance that is stored now"
    )


@pytest.mark.parametrize("workers", [[], ["-n", "2", *UNASKED]])
def test_gates_of_a_file_have_margins_of_their_own(jobs: pytest.Pytester, workers: list[str]) -> None:
    gate = "suite: ./tiny-nli.yaml, baseline: true"
    jobs.path.joinpath("g.bias.yaml").write_text(
        f"gates:\n  - {{{gate}, margin: 80%}}\n  - {{{gate}, statistic: threshold_0.7}}\n"
        "  - {suite: ./tiny-nli.yaml, no_worse_than: a, margin: 0.08}\n"
    )
    good = model(jobs, "good", "b")
    jobs.runpytest("g.bias.yaml", model(jobs, "good", "a"), good, "--bias-update", "-k", "baseline", *workers)
    (book,) = jobs.path.glob("bias_baselines/b/*.json")
    assert read_book(book)["tiny-nli"].gated == {"net_neutral": pytest.approx(0.08), "threshold_0.7": None}
    result = jobs.runpytest("g.bias.yaml", model(jobs, "good", "a"), model(jobs, "worse", "b"), *workers)
    result.stdout.fnmatch_lines_random(
        [
            "*  net_neutral *baseline 0.9 - 0.08 *pass *",
            "*  threshold_0.7 *baseline 1 *worse *",
            "*  net_neutral *a 0.9 - 0.08 *pass *",
        ]
    )
