"""``--bias-compare``: a table of the models, each against the first one."""

from __future__ import annotations

import json
import re
from itertools import takewhile
from typing import Any

import pytest
from support.small_projects import model

from pytest_genderbias.measurement.plain_data import pack_arrays

SUITES = "--bias-suite=tiny-nli.yaml,tiny-lm.yaml"


def rows_of(result: pytest.RunResult) -> list[list[str]]:
    """Return the rows of the table of comparisons, without its head."""
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if "worse by" in line)
    return [re.split("  +", line.strip()) for line in takewhile(lambda line: line.startswith("  "), lines[start + 1 :])]


def test_the_table_has_each_model_against_the_first(jobs: pytest.Pytester) -> None:
    models = [
        model(jobs, which, name) for which, name in (("good", "a"), ("worse", "b"), ("better", "c"), ("writer", "w"))
    ]
    result = jobs.runpytest(SUITES, *models, "--bias-compare", "--bias-json=r.json")
    assert result.ret == 0
    rows = rows_of(result)
    main = [row for row in rows if row[1] == "net_neutral"]
    assert [(row[2], row[4], row[3], row[5]) for row in main] == [
        ("b", "a", "0.8250", "0.9000"),
        ("c", "a", "0.9500", "0.9000"),
    ]
    # All ten words alike: p is that of the sign test, two-sided, and two in the family; others may have changed the
    # other way.
    assert [row[6:] for row in main] == [
        ["0.0750", "0.0285 to 0.0750", "premise words (4 words in 1 template fixed)", "0.004", "a"],
        ["-0.0500", "-0.0500 to -0.0190", "premise words (4 words in 1 template fixed)", "0.004", "c"],
    ]
    assert ["(1)", "(the same)"] in [row[-2:] for row in rows if row[1] == "threshold_0.5"]
    result.stdout.fnmatch_lines(
        [
            "p: two-sided, corrected (Holm) for 2 comparisons of main statistics, all of this table; *",
            "In brackets: other statistics, whose p is not corrected*",
            "not compared: tiny-lm on w: measured on one model only with these settings and sample",
        ]
    )
    report = json.loads((jobs.path / "r.json").read_text())
    found = next(one for one in report["comparisons"] if one["main"] and one["other"] == "b")
    assert found["p"] == pytest.approx(2 * 0.5**10, rel=0.05)
    assert found["p_holm"] == pytest.approx(2 * found["p"])
    assert report["not_compared"] == [
        {
            "schema": 1,
            "suite": "tiny-lm",
            "models": ["w"],
            "reason": "measured on one model only with these settings and sample",
        }
    ]


def test_without_the_flag_nothing_is_packed(jobs: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[bool] = []

    def pack(arrays: Any) -> str:
        packed.append(len(arrays) > 1)  # the packed sums of no statistic are their index alone
        return pack_arrays(arrays)

    monkeypatch.setattr("pytest_genderbias.measurement.measurement.pack_arrays", pack)
    models = model(jobs, "good", "a"), model(jobs, "worse", "b")
    jobs.runpytest("--bias-suite=tiny-nli.yaml", *models, "--bias-json=r.json").assert_outcomes(passed=2)
    assert json.loads((jobs.path / "r.json").read_text())["comparisons"] == []
    assert packed and not any(packed)
    jobs.runpytest("--bias-suite=tiny-nli.yaml", *models, "--bias-compare").assert_outcomes(passed=2)
    assert any(packed)


def test_nothing_to_compare_is_said(jobs: pytest.Pytester) -> None:
    result = jobs.runpytest(SUITES, model(jobs, "good", "a"), model(jobs, "writer", "w"), "--bias-compare")
    result.stdout.fnmatch_lines(
        [
            "--bias-compare: no suite was measured on two models",
            "not compared: tiny-lm on w; tiny-nli on a: measured on *",
        ]
    )


@pytest.mark.parametrize(
    ("names", "flags", "message"),
    [
        ("", ["--bias-compare"], "--bias-compare: needs two models or more, got none; name each with a --bias-model=*"),
        ("a", ["--bias-compare"], "--bias-compare: needs two models or more, got a; *"),
        (
            "ab",
            ["--bias-no-worse-than=c", SUITES],
            "--bias-no-worse-than: no model 'c'; the run has a, b. Give it with --bias-model=c=SPEC",
        ),
        ("a", ["--bias-no-worse-than=a", SUITES], "--bias-no-worse-than: a is the only model; name another *"),
        (
            "ab",
            ["--bias-no-worse-than=a"],
            "--bias-no-worse-than: is for the suites of --bias-suite, and none is named",
        ),
    ],
)
def test_too_few_models_are_a_usage_error(jobs: pytest.Pytester, names: str, flags: list[str], message: str) -> None:
    result = jobs.runpytest(*(model(jobs, "good", name) for name in names), *flags)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message.replace('[', '[[]')}"])
