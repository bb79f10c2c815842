"""The verdict on a whole run, what failed in it, and how old its baselines are, for everything that reports it in a few
words.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FAILED, PASSED, WIDTH, in_lines, with_note
from pytest_genderbias.reports.run_report import FinishedTest, RunReport
from pytest_genderbias.text.printable import counted

#: Exit statuses of pytest after which all tests ran: none failed, some failed, there were none.
_COMPLETE = (0, 1, 5)
_FAILED = 1
OTHER = (
    "other"  #: outcome of what neither passes nor fails: measured without a gate, or a failure that its test expects
)


@dataclass(frozen=True)
class RunVerdict:
    """The verdict on a whole run: a text that begins in lower case, and ``failed``, ``passed`` or ``other``."""

    text: str
    outcome: str

    @property
    def headline(self) -> str:
        """The text as a heading."""
        return self.text[:1].upper() + self.text[1:]


def run_verdict(report: RunReport) -> RunVerdict:
    """Return the verdict on a run: what failed, or how many gates passed. A run that pytest ended as failed never
    passes here.
    """
    gates, errors = report.judgements, broken_tests(report)
    counts = Counter(settled.outcome for settled in gates)
    of_gates, failed = f"of {counted(len(gates), 'gates')}", counts[FAILED]
    cut_short = report.run.exit_status not in _COMPLETE
    if failed or errors or report.failures or cut_short:
        parts = [f"{failed:,} {of_gates} failed"] if failed else []
        parts += [f"{counted(len(errors), 'tests')} failed without a verdict"] if errors else []
        parts += [f"{counted(len(report.failures), 'failures')} beside the tests"] if report.failures else []
        parts += ["the run was cut short"] if cut_short else []
        return RunVerdict(", ".join(parts), FAILED)
    if report.run.exit_status == _FAILED:  # of another test, or of a worker that died with its test
        what = f"none {of_gates} failed, but" if gates else "no gate was judged, and"
        return RunVerdict(f"{what} another test of the run failed", FAILED)
    if gates and counts[PASSED] == len(gates):
        return RunVerdict(f"{'the gate' if len(gates) == 1 else f'all {len(gates):,} gates'} passed", PASSED)
    if gates:
        expected = len(gates) - counts[PASSED]
        return RunVerdict(f"{counts[PASSED]:,} {of_gates} passed, {expected:,} failed as expected", OTHER)
    if subjects := {(one.suite, one.model) for one in report.measurements}:
        return RunVerdict(f"{len(subjects):,} measured, 0 gated: nothing here can fail yet", OTHER)
    return RunVerdict("nothing was measured", OTHER)


def broken_tests(report: RunReport) -> list[FinishedTest]:
    """Return the tests that failed without a failed judgement: their model could not be loaded, say."""
    judged = {settled.test for settled in report.judgements if settled.failed}
    return [test for test in report.tests if test.outcome == FAILED and test.test not in judged]


def decisive_lines(judgement: Judgement, width: int = WIDTH) -> list[str]:
    """Return what a failing test shows of a judgement: at least one line.

    Args:
        judgement: of a gate.
        width: columns, to which its paragraphs are wrapped.
    """
    return in_lines(judgement.shown, width).splitlines() or [with_note(judgement.code)]


def baseline_history(judgements: Sequence[Judgement], today: datetime.date) -> Iterator[str]:
    """Yield a line on the age of each model's baseline, and one for each value that has left its anchor.

    Args:
        judgements: of the run; only those that compare with a baseline have a history.
        today: the date from which ages are counted.
    """
    compared = [settled for settled in judgements if settled.of_baseline.accepted_on is not None]
    for model in dict.fromkeys(judgement.model for judgement in compared):
        dates = {str(judgement.of_baseline.accepted_on) for judgement in compared if judgement.model == model}
        yield f"baseline of {model}: {_ages(dates, today)}"
    for line in dict.fromkeys(_since_anchor(judgement) for judgement in compared):
        if line:
            yield line


def _ages(dates: set[str], today: datetime.date) -> str:
    days = sorted(days for date in dates if (days := _days(date, today)) is not None)
    if not days:
        return "of unknown age"
    oldest, newest = _ago(days[-1]), _ago(days[0])
    accepted = f"accepted {oldest}" if oldest == newest else f"accepted {oldest} to {newest}"
    return accepted if len(days) == len(dates) else f"{accepted}; some entries are of unknown age"


def _days(date: str, today: datetime.date) -> int | None:
    """Return how many days ago a date was; ``None`` if it is none. Files are edited by hand and merged."""
    try:
        return max(0, (today - datetime.date.fromisoformat(date)).days)
    except ValueError:
        return None


def _ago(days: int) -> str:
    return "today" if days == 0 else "1 day ago" if days == 1 else f"{days:,} days ago"


def _since_anchor(judgement: Judgement) -> str:
    """Return in words how far a value has come from its anchor; an empty text if it is still there."""
    anchor = judgement.of_baseline.anchor
    if anchor is None or not anchor.has_moved:
        return ""
    return (
        f"since {anchor.since}: {judgement.name or judgement.suite}.{judgement.statistic} on {judgement.model}"
        f" {anchor.value:.6g} -> {'-' if judgement.value is None else format(judgement.value, '.6g')}, {anchor.change}"
    )
