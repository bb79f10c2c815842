"""The verdict on a whole run, and what failed in it, for everything that reports it in a few words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FAILED, PASSED, with_note
from pytest_genderbias.gates.wording import WIDTH, in_lines
from pytest_genderbias.reports.run_report import FinishedTest, RunReport

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
    of_gates, failed = f"of {count(len(gates), 'gate')}", counts[FAILED]
    cut_short = report.run.exit_status not in _COMPLETE
    if failed or errors or report.failures or cut_short:
        parts = [f"{failed:,} {of_gates} failed"] if failed else []
        parts += [f"{count(len(errors), 'test')} failed without a verdict"] if errors else []
        parts += [f"{count(len(report.failures), 'failure')} beside the tests"] if report.failures else []
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


def gate_name(judgement: Judgement) -> str:
    """Return the suite of a judgement, with the name of its gate or baseline entry in brackets, if it has one."""
    return f"{judgement.suite} ({judgement.name})" if judgement.name else judgement.suite


def decisive_lines(judgement: Judgement, width: int = WIDTH) -> list[str]:
    """Return what a failing test shows of a judgement: at least one line.

    Args:
        judgement: of a gate.
        width: columns, to which its paragraphs are wrapped.
    """
    return in_lines(judgement.shown, width).splitlines() or [with_note(judgement.code)]


def count(number: int, what: str) -> str:
    """Return a number of things.

    >>> count(1, "gate"), count(1200, "gate")
    ('1 gate', '1,200 gates')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
