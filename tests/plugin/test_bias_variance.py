"""``bias_variance``: what a value hangs on."""

from __future__ import annotations

import json
import re
from itertools import takewhile

import pytest
from support.small_projects import model


def rows_of(result: pytest.RunResult) -> list[list[str]]:
    lines = result.outlines
    start = next(i for i, line in enumerate(lines) if "share of the value's variance" in line)
    return [re.split("  +", line.strip()) for line in takewhile(lambda line: line.startswith("  "), lines[start + 1 :])]


def test_the_table_and_the_report_have_the_shares(jobs: pytest.Pytester) -> None:
    run = (
        "--bias-suite=lm-occupation,tiny-nli.yaml,tiny-disco.yaml",
        "--bias-model=demo-lm",
        model(jobs, "worse", "n"),
    )
    result = jobs.runpytest(*run, model(jobs, "filler", "f"), "-obias_variance=true", "--bias-json=r.json")
    assert result.ret == 0
    rows = rows_of(result)
    assert [row[3:5] for row in rows if row[:3] == ["lm-occupation", "demo-lm", "aggregate_bias"]] == [
        ["occupations", "64"],
        ["templates", "4"],
        ["rest", "256"],
    ]
    gendered = [row for row in rows if row[:3] == ["tiny-nli", "n", "net_neutral"]]
    assert [row[3:5] for row in gendered] == [["premise words", "10"], ["words", "4"], ["rest", "40"]]
    assert gendered[0][5] == "0 (estimate below 0)" or gendered[0][6] == "0.0 %", "all words of premises are alike"
    assert gendered[1][6:] == ["100.0 %", "100.0 %"], "only the gendered words differ"
    result.stdout.fnmatch_lines(["no shares of variance: tiny-disco on f: *"])
    report = json.loads((jobs.path / "r.json").read_text())["variance"]
    shares = next(
        one["shares"] for one in report if (one["suite"], one["statistic"]) == ("lm-occupation", "signed_bias")
    )
    assert sum(one["share"] for one in shares) == pytest.approx(1.0)
    assert {one["reason"] for one in report if one["suite"] == "tiny-disco"} != {""}


def test_without_the_flag_nothing_is_shown(jobs: pytest.Pytester) -> None:
    result = jobs.runpytest("--bias-suite=lm-occupation", "--bias-model=demo-lm", "--bias-json=r.json")
    result.stdout.no_fnmatch_line("*share of the value's variance*")
    assert json.loads((jobs.path / "r.json").read_text())["variance"] == []
