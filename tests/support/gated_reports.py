"""Reports of runs that are made by hand, for what writes and shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.hand_made import hand_made

from pytest_genderbias.gates.judgement import BaselineFacts, Judgement, SinceAnchor
from pytest_genderbias.gates.verdicts import Paragraph, with_note
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.run_report import ReportedModel, RunInfo, RunReport
from pytest_genderbias.statistics.inference.intervals import Interval

RUN = RunInfo(
    date="2026-11-22T10:20:30+01:00",
    version="0.1.0",
    arguments=("release.bias.yaml", "--bias-model=candidate=./november run"),
    models=(ReportedModel("candidate", "./november run"),),
    commit="0123456789abcdef0123456789abcdef01234567",
    settings={"seed": 0, "limit": None},
    versions={"python": "3.11.7", "torch": "2.13.0"},
    baselines="bias_baselines",
    exit_status=1,
    seconds=75.25,
)


def judged(code: str = "within", outcome: str = "passed", **changes: Any) -> Judgement:
    """Return a judgement of ``share`` of the suite ``tiny`` on ``candidate``, against a limit."""
    content: dict[str, Any] = {
        "suite": "tiny",
        "model": "candidate",
        "statistic": "share",
        "value": 0.25,
        "interval": Interval(0.2, 0.3, 0.95, "items", ""),
        "n": 12,
        "n_total": 12,
        "bound": "at most 0.4",
        "code": code,
        "shown": (Paragraph("", f"{with_note(code)}: tiny on candidate: share is 0.25"),),
    }
    return Judgement(**{**content, **changes}).settled(outcome, "release.bias.yaml::tiny")


def regressed(number: int = 1, worse: float = 0.13) -> Judgement:
    """Return a judgement against a baseline that failed."""
    return judged(
        "regressed",
        "failed",
        name=f"gate {number}",
        value=0.25 + worse,
        difference=worse,
        bound="baseline 0.25 + 0.01",
        interval=Interval(worse - 0.01, worse + 0.01, 0.95, "items", ""),
        p=0.001,
        facts=BaselineFacts("2026-10-22", anchor=SinceAnchor("2026-08-01", 0.2, worse + 0.05)),
        shown=(
            Paragraph(
                "", f"worse: tiny on candidate: share 0.25 -> {0.25 + worse:.3g}, {worse:.3g} worse, margin 0.01"
            ),
        ),
    )


def gated_report(
    judgements: Sequence[Judgement] = (), measurements: Sequence[Measurement] | None = None, **changes: Any
) -> RunReport:
    """Return the report of a run of one suite with two records."""
    records = [{"item": "nurse", "score": 0.4, "slice": "worst"}, {"item": "plumber", "score": 0.05, "slice": "worst"}]
    measured = hand_made(model="candidate", records=records, notes=("two items only",))
    return RunReport(RUN, tuple(measurements or (measured,)), tuple(judgements), **changes)
