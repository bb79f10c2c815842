"""The verdict on a whole run and what failed in it, for everything that reports it in a few words; and the text that
its terminal showed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_genderbias.gates.comparison import growth_of
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FAILED, PASSED, WIDTH, FinishedTest, in_lines, with_note
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.reports.run_summary import RunSummary
from pytest_genderbias.text.columns import paragraph
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


def report_in_words(report: RunReport, width: int, detail: int = 0) -> Iterator[str]:
    """Yield what the terminal showed at the end of a run: why gates failed, and the summary.

    Args:
        report: of the run.
        width: columns of the terminal.
        detail: 1 for all statistics, notes and reasons; 2 also for the worst records.
    """
    names = ", ".join(model.name for model in report.run.models)
    yield paragraph(f"run of {report.run.date}" + (f" on {names}" if names else ""), width)
    for settled in report.judgements:
        if settled.outcome == FAILED:
            lines = [settled.text] if detail > 1 else decisive_lines(settled)
            yield "\n".join(("", *lines))
    broken = broken_tests(report)
    for test in broken:
        yield f"\n{test.test} failed without a verdict: {test.text}"
    yield ""
    summary = RunSummary(
        report.measurements,
        report.judgements,
        report.not_judged,
        [(text, "") for text in report.failures],
        report.comparisons or None,
        report.not_compared,
        report.variances or None,
        failed=len(broken),
        growths=growth_of(report.judgements),
    )
    yield from (text for text, _ in summary.lines(width, detail))
