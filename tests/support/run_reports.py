"""Reports of runs, made by hand, for tests of what writes them, and what is written as its readers take it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from support.hand_made import hand_made

from pytest_genderbias.gates.judgement import BaselineFacts, Judgement
from pytest_genderbias.gates.verdicts import FinishedTest, NotJudged, Paragraph
from pytest_genderbias.reports.run_report import ReportedModel, RunInfo, RunReport
from pytest_genderbias.statistics.inference.intervals import Interval

#: A formula, markup, quotes, markdown, mentions, the same escaped, escape codes, a workflow command, bidirectional
#: controls, commas, a lone surrogate. No NUL: a file with one is no text.
HOSTILE = (
    "=<b onclick=x>\"',|`*[a](b)@octocat \\`\\[a\\](b)\\@octocat #1 & \x1b[31m\x9b2J\r\n::error::x\n\u202e\u2066\u2028"
    ",:%0A ``` </details> \ud800"
)
WORST = HOSTILE + "x\x1b`|" * 25_000  #: and 100,000 characters
REGRESSED = Judgement(
    "tiny",
    "m",
    "share",
    0.4,
    Interval(0.05, 0.25, 0.95, "items", "by hand"),
    12,
    12,
    "baseline 0.25 + 0.02",
    "regressed",
    (
        Paragraph("", "worse: tiny on m: share 0.25 -> 0.4, 0.15 worse, margin 0.02"),
        Paragraph("moved", "1 of 12 items; most: item 1 0.1 -> 0.9"),
    ),
    (Paragraph("records", "the worst:"), Paragraph("", "a record")),
    difference=0.15,
    name="release",
    facts=BaselineFacts("2026-10-22"),
)
PASSED = Judgement(
    "tiny",
    "m",
    "other",
    0.1,
    None,
    12,
    12,
    "at most 0.3",
    "within",
    (Paragraph("", "pass: tiny on m: other is 0.1, expected at most 0.3"),),
)


def settled(judgement: Judgement, outcome: str, test: str = "g.bias.yaml::gate:m") -> Judgement:
    return judgement.settled(outcome, test)


def run_report(**changes: Any) -> RunReport:
    """Return a report of one gate that failed, one that passed and one test that was skipped."""
    info = RunInfo(
        "2026-11-22T10:00:00+00:00",
        "0.1.0",
        ("--bias-model=m=runs/m", "--bias-json=r.json"),
        (ReportedModel("m", "runs/m"),),
        commit="0123456789abcdef",
        exit_status=1,
        seconds=2.5,
    )
    records = [{"word": "nurse", "score": 0.5, "counts": {"female": 3, "male": 1}}, {"word": "pilot", "rank": -1}]
    report = RunReport(
        info,
        (hand_made(records=records),),
        (settled(REGRESSED, "failed"), settled(PASSED, "passed", "g.bias.yaml::other:m")),
        not_judged=(NotJudged("genderbias::weat:m", "m", "inapplicable", "weat needs vectors"),),
        tests=(
            FinishedTest("g.bias.yaml::gate:m", "m", "tiny", "g.bias.yaml", 3, "failed", 1.25, "g.bias.yaml:3: worse"),
            FinishedTest("g.bias.yaml::other:m", "m", "tiny", "g.bias.yaml", 7, "passed", 0.5),
            FinishedTest("genderbias::weat:m", "m", "weat", "", 0, "skipped", 0.001, "weat needs vectors"),
        ),
    )
    return replace(report, **changes)


def hostile_report(length: int = 100_000) -> RunReport:
    """Return a report in which every foreign text is hostile and so many characters long."""
    worst = HOSTILE + "x\x1b`|" * (length // 4)
    measurement = hand_made(
        suite=worst, model=worst, notes=(worst,), records=[{worst: worst, "value": {"inner": worst}, "list": [worst]}]
    )
    judgement = replace(
        REGRESSED,
        suite=worst,
        model=worst,
        statistic=worst,
        name=worst,
        bound=worst,
        shown=(Paragraph("", worst),) * 2,
        details=(Paragraph(worst, worst),),
    )
    report = run_report(
        measurements=(measurement,),
        judgements=(settled(judgement, "failed", worst), settled(replace(judgement, code="better"), "passed", worst)),
        not_judged=(NotJudged(worst, worst, "inapplicable", worst),),
        failures=(worst,),
        tests=(
            FinishedTest(worst, worst, worst, worst, 3, "failed", 0.0, worst),
            FinishedTest(f"{worst}2", worst, worst, worst, 3, "failed", 0.0, worst),
        ),
    )
    run = replace(
        report.run,
        date=f"\r\n::{HOSTILE}",
        version=HOSTILE,
        models=(ReportedModel(worst, worst),),
        commit=worst,
        arguments=(worst, "--bias-json", worst),
        versions={HOSTILE: worst},
        baselines=worst,
    )
    return replace(report, run=run)


def without_code(text: str) -> str:
    """Return markdown without its code blocks and code spans, and without what is escaped, as CommonMark reads them."""
    lines, fence = [], ""
    for line in text.splitlines():
        if fence:
            fence = "" if line.strip("`") == "" and len(line) >= len(fence) else fence
        elif match := re.match("(`{3,})text$", line):
            fence = match[1]
        else:
            lines.append(re.sub(r"\\[!-/:-@[-`{-~]|(`+)(?!`).+?(?<!`)\1(?!`)|`+", "", line))
    assert not fence, "every block ends"
    return "\n".join(lines)
