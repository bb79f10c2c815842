"""The verdict on a whole run, and what failed in it, for everything that reports it in a few words."""

from __future__ import annotations

from pytest_genderbias.gates.account import WIDTH, in_lines
from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
from pytest_genderbias.gates.verdicts import FAILED, PLANNED, WARNED
from pytest_genderbias.reports.run_report import FinishedTest, RunReport

#: Exit statuses of pytest after which all tests ran: none failed, some failed, there were none.
_COMPLETE = (0, 1, 5)
_FAILED = 1
_RECORDS = (
    "  worst records:",
    "  records of what moved most",
)  #: begin the part of a judgement's text that lists records


def verdict_line(report: RunReport) -> str:
    """Return the verdict on a run in one line: what failed, or how many gates passed."""
    gates, errors = gates_of(report), broken_tests(report)
    failed = sum(settled.failed for settled in gates)
    cut_short = report.run.exit_status not in _COMPLETE
    if failed or errors or report.failures or cut_short:
        parts = [f"{failed} of {count(len(gates), 'gate')} failed"] if failed else []
        parts += [f"{count(len(errors), 'test')} could not be judged"] if errors else []
        parts += [f"{count(len(report.failures), 'failure')} beside the tests"] if report.failures else []
        parts += ["the run was cut short"] if cut_short else []
        return f"❌ Bias: {', '.join(parts)}"
    if report.run.exit_status == _FAILED:  # of another test, or of a worker that died with its test
        what = f"none of {count(len(gates), 'gate')} failed, but" if gates else "no gate was judged, and"
        return f"⚠️ Bias: {what} another test of the run failed"
    if warned := sum(settled.outcome == WARNED for settled in gates):
        return f"⚠️ Bias: {warned} of {count(len(gates), 'gate')} passed with a warning, none failed"
    if gates:
        return f"✅ Bias: {'the gate' if len(gates) == 1 else f'all {len(gates)} gates'} passed"
    if report.measurements:
        return f"Bias: {count(len(report.measurements), 'suite')} measured, 0 gated: nothing here can fail yet"
    return "Bias: nothing was measured"


def gates_of(report: RunReport) -> list[SettledJudgement]:
    """Return the judgements of a run that were no plan."""
    return [settled for settled in report.judgements if settled.judgement.verdict != PLANNED]


def broken_tests(report: RunReport) -> list[FinishedTest]:
    """Return the tests that failed without a failed judgement: their model could not be loaded, say."""
    judged = {settled.test for settled in report.judgements if settled.failed}
    return [test for test in report.tests if test.outcome == FAILED and test.test not in judged]


def gate_name(judgement: Judgement) -> str:
    """Return the suite of a judgement, with the name of its gate or baseline entry in brackets, if it has one."""
    return f"{judgement.suite} ({judgement.name})" if judgement.name else judgement.suite


def decisive_lines(judgement: Judgement, width: int = WIDTH) -> list[str]:
    """Return what a failing test shows of a judgement, or else its text without its records: at least one line.

    Args:
        judgement: of a gate.
        width: columns, to which its paragraphs are wrapped.
    """
    if judgement.shown:
        return in_lines(judgement.shown, width).splitlines()
    lines: list[str] = []
    for line in judgement.text.splitlines():
        if line.startswith(_RECORDS):
            break
        lines.append(line)
    return lines or [judgement.verdict]


def count(number: int, what: str) -> str:
    """Return a number of things.

    >>> count(1, "gate"), count(1200, "gate")
    ('1 gate', '1,200 gates')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
