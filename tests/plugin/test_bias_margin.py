"""``--bias-margin``: how much worse the suites of flags may be. Gate files have margins of their own."""

from __future__ import annotations

import pytest
from support.abilities import UNASKED
from support.small_projects import WORKERS, model

from pytest_genderbias.gates.book import read_book

SUITE = "--bias-suite=tiny-nli.yaml"


@pytest.mark.parametrize(
    ("margin", "outcome", "text"),
    [
        ("0.08", "passed", "*  a 0.9 - 0.08 *pass *"),
        ("80%", "passed", "*  a 0.9 - 0.08 *pass *"),
        (
            "20%",
            "failed",
            "worse: *0.075 worse (95 %: 0.0285 to 0.075), allowed 0.02 (20% of the distance 0.1 from neutral)",
        ),
        (
            "50%",
            "failed",
            "cannot judge (too few cases): *0.075 worse (95 %: 0.0285 to 0.075), allowed 0.05 (50% of *)",
        ),
        (None, "failed", "worse: *net_neutral 0.9 -> 0.825: 0.075 worse (95 %: 0.0285 to 0.075)"),
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


def test_the_flag_is_the_margin_of_a_stored_suite(wide_project: pytest.Pytester) -> None:
    suite = "--bias-suite=wide.yaml"
    wide_project.runpytest(suite, model(wide_project, "usual"), "--bias-update").assert_outcomes(passed=1)
    (book,) = wide_project.path.glob("bias_baselines/*/*.json")
    assert read_book(book)["wide"].gated == {"net_neutral": None}, "nothing is allowed but chance"
    arguments = suite, model(wide_project, "bad")
    result = wide_project.runpytest(*arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "worse: *net_neutral 0.6947 -> 0.5447: 0.15 worse (95 %: *)*",
            "  wide *0.695  0.545 *+49 % (*)  +* % of 0.305  worse *",
        ]
    )
    passed = wide_project.runpytest(*arguments, "--bias-margin=80%")
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines(["  wide *0.695  0.545 * 0.244 *pass *"])
    wide_project.runpytest(*arguments, "--bias-margin=80%", "--bias-update").assert_outcomes(passed=1)
    assert read_book(book)["wide"].gated["net_neutral"] == pytest.approx(0.8 * 0.4553, abs=1e-4), (
        "80% of the distance that is stored now"
    )


def test_a_stored_suite_whose_items_are_all_alike_needs_a_margin(jobs: pytest.Pytester) -> None:
    result = jobs.runpytest(SUITE, model(jobs, "good"), "--bias-update")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["cannot judge (too weak): tiny-nli on m: net_neutral has no bounds, *"])
    assert not list(jobs.path.glob("bias_baselines/*/*.json"))
    jobs.runpytest(SUITE, model(jobs, "good"), "--bias-update", "--bias-margin=50%").assert_outcomes(passed=1)
    (book,) = jobs.path.glob("bias_baselines/*/*.json")
    assert read_book(book)["tiny-nli"].gated == {"net_neutral": pytest.approx(0.05)}


@pytest.mark.parametrize("workers", [(), pytest.param((*WORKERS, *UNASKED), marks=pytest.mark.slow)])
def test_gates_of_a_file_have_margins_of_their_own(jobs: pytest.Pytester, workers: tuple[str, ...]) -> None:
    gate = "suite: ./tiny-nli.yaml, baseline: true"
    jobs.path.joinpath("g.bias.yaml").write_text(
        f"gates:\n  - {{{gate}, margin: 80%}}\n  - {{{gate}, statistic: threshold_0.7, margin: 0.05}}\n"
        "  - {suite: ./tiny-nli.yaml, no_worse_than: a, margin: 0.08}\n"
    )
    good = model(jobs, "good", "b")
    jobs.runpytest("g.bias.yaml", model(jobs, "good", "a"), good, "--bias-update", "-k", "baseline", *workers)
    (book,) = jobs.path.glob("bias_baselines/b/*.json")
    assert read_book(book)["tiny-nli"].gated == {"net_neutral": pytest.approx(0.08), "threshold_0.7": 0.05}
    result = jobs.runpytest("g.bias.yaml", model(jobs, "good", "a"), model(jobs, "worse", "b"), *workers)
    result.stdout.fnmatch_lines_random(
        [
            "*  net_neutral *0.900  0.825 *0.080 *pass *",
            "*  threshold_0.7 *1.000  0.750 *0.050 *worse *",
            "*  net_neutral *a 0.9 - 0.08 *pass *",
        ]
    )
