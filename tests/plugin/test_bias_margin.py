"""``--bias-margin``: how much worse the suites of flags may be. Gate files have margins of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.abilities import UNASKED
from support.small_projects import model

from pytest_genderbias.gates.book import read_book
from pytest_genderbias.gates.book_update import write_margins
from pytest_genderbias.gates.margin import PlannedMargin

SUITE = "--bias-suite=tiny-nli.yaml"


def plan(jobs: pytest.Pytester, book: Path, amount: float) -> None:
    name, module = book.parent.name, book.name.removesuffix(".json")
    margin = PlannedMargin(amount, "2026-11-22")
    write_margins(jobs.path / "bias_baselines", name, module, {"tiny-nli": {"net_neutral": margin}})


@pytest.mark.parametrize(
    ("margin", "outcome", "text"),
    [
        ("0.08", "passed", "*  a 0.9 - 0.08 *pass *"),
        ("80%", "passed", "*  a 0.9 - 0.08 *pass *"),
        ("50%", "failed", "regressed: *0.075 worse, allowed 0.05 (50% of the distance 0.1 from neutral)"),
        (
            None,
            "failed",
            "missing: *the margin is auto, and no baseline has a plan for net_neutral*",
        ),
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


def test_a_stored_suite_has_the_planned_margin(jobs: pytest.Pytester) -> None:
    jobs.runpytest(SUITE, model(jobs, "good"), "--bias-update").assert_outcomes(passed=1)
    (book,) = jobs.path.glob("bias_baselines/*/*.json")
    arguments = SUITE, model(jobs, "worse")
    result = jobs.runpytest(*arguments)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["missing: *nothing is planned for net_neutral of 'tiny-nli' in *", "  do        run pytest with --bias-plan*"]
    )
    plan(jobs, book, 0.08)
    passed = jobs.runpytest(*arguments)
    passed.assert_outcomes(passed=1)
    passed.stdout.fnmatch_lines(["*  baseline 0.9 - 0.08 *pass *"])
    jobs.runpytest(*arguments, "--bias-update").assert_outcomes(passed=1)
    entry = read_book(book)["tiny-nli"]
    assert entry.planned["net_neutral"].margin == 0.08 == entry.gated["net_neutral"], "an update keeps the plan"


@pytest.mark.parametrize("workers", [[], ["-n", "2", *UNASKED]])
def test_gates_of_a_file_have_margins_of_their_own(jobs: pytest.Pytester, workers: list[str]) -> None:
    gate = "suite: ./tiny-nli.yaml, baseline: true"
    jobs.path.joinpath("g.bias.yaml").write_text(
        f"gates:\n  - {{{gate}, margin: 80%}}\n  - {{{gate}, statistic: threshold_0.7, margin: auto}}\n"
        "  - {suite: ./tiny-nli.yaml, no_worse_than: a, margin: auto}\n"
    )
    good = model(jobs, "good", "b")
    jobs.runpytest("g.bias.yaml", model(jobs, "good", "a"), good, "--bias-update", "-k", "baseline", *workers)
    (book,) = jobs.path.glob("bias_baselines/b/*.json")
    text = book.read_text()
    assert '"net_neutral": 0.08' in text and '"threshold_0.7": 0.0' in text
    margin = {"tiny-nli": {"net_neutral": PlannedMargin(0.08, "2026-11-22")}}
    write_margins(jobs.path / "bias_baselines", "b", "g.bias.yaml", margin)
    result = jobs.runpytest("g.bias.yaml", model(jobs, "good", "a"), model(jobs, "worse", "b"), *workers)
    result.stdout.fnmatch_lines_random(
        [
            "*  net_neutral *baseline 0.9 - 0.08 *pass *",
            "*  threshold_0.7 *no plan *missing *",
            "*  net_neutral *a 0.9 - 0.08 *pass *",
        ]
    )
