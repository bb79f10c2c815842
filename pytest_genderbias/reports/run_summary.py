"""The summary in the terminal at the end of a run: gates and suites in one line each, what did not run, what to do
next, and the verdict. The verdict on a whole run, and what failed in it, for everything that reports it in a few words.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_genderbias.gates.verdicts import (
    BETTER,
    FAILED,
    INAPPLICABLE,
    NO_DATA,
    NO_MODEL,
    NOT_STORED,
    OTHER_MODELS,
    PASSED,
    STORED,
    WIDTH,
    FinishedTest,
    NotJudged,
    in_lines,
    with_note,
)
from pytest_genderbias.reports.overview import Line, overview
from pytest_genderbias.reports.run_tables import baseline_history, run_tables
from pytest_genderbias.text.columns import in_brief, note, one_line, paragraph, rows_or_blocks, together, wrapped
from pytest_genderbias.text.printable import counted, format_number

if TYPE_CHECKING:
    from pytest_genderbias.gates.judgement import Judgement
    from pytest_genderbias.reports.run_report import RunReport

_UNBROKEN = 10_000  #: width of a line that is to be copied
_FEW = 3  #: reasons of skips that are said in full


def summary_lines(
    report: RunReport,
    width: int,
    detail: int = 0,
    messages: Sequence[Line] = (),
    broken: int = 0,
    next: str = "",
    **asked: bool,
) -> Iterator[Line]:
    """Yield each text of the summary of a run with its markup.

    Args:
        report: what was measured and judged. When and with what is not shown.
        width: columns of the terminal.
        detail: 1 for all statistics, notes and reasons; 2 also for the worst records.
        messages: lines with their markup.
        broken: number of tests that failed without a verdict that failed them.
        next: the command that writes gates from what was measured; empty if the run writes them.
        asked: as in :func:`~pytest_genderbias.reports.run_tables.run_tables`.
    """
    from pytest_genderbias.gates.comparison import growth_of

    for growth in growth_of(report.judgements):
        yield (
            wrapped(f"{one_line(growth.model)}: {growth.in_words}", width, "    "),
            "red bold" if growth.worse else "bold",
        )
    yield from overview(report.measurements, report.judgements, width, detail)
    for table in run_tables(report, **asked):
        if table.kind != "mitigations":
            yield table.title if table.kind == "grid" else "", ""
        lines = rows_or_blocks(table.headers, table.rows, table.heads, width, "verdict")
        yield from ((line, "") for line in lines if table.rows)
        yield from ((wrapped(text, width, "    "), "") for text in table.notes)
    if report.not_judged:
        yield from _unjudged(report.not_judged, width, detail)
    for text, markup in (*_remarks(report.judgements), *messages):
        yield wrapped(text, width, "    "), markup
    has_figures = any(measurement.values[measurement.main] is not None for measurement in report.measurements)
    if next and has_figures and not report.judgements and not broken:
        yield f"{note('next', 'write gates from what was measured:', width)}\n{note('', next, _UNBROKEN)}", ""
    if verdict := _verdict(report, broken):
        has_failed = broken or any(settled.failed for settled in report.judgements)
        yield wrapped(f"bias  {verdict}", width, "      "), "red bold" if has_failed else "bold"


def _remarks(judgements: Sequence[Judgement]) -> Iterator[Line]:
    """Yield accepted values, the age of baselines, and which to refresh."""
    for line in _accepted(judgements):
        yield line, "yellow"
    for line in baseline_history(judgements, datetime.date.today()):
        yield line, ""
    if better := sum(settled.code == BETTER for settled in judgements):
        what = (
            "1 gate is better than its baseline" if better == 1 else f"{better:,} gates are better than their baselines"
        )
        yield f"{what}: refresh with --bias-update, or the model may become as much worse unseen", "yellow"


def _verdict(report: RunReport, broken: int) -> str:
    """Return the last line: how many gates have which verdict, what was measured without one, what did not run."""
    counts = Counter(map(_in_a_word, sorted(report.judgements, key=_severity)))
    parts = [f"{count} {what}" for what, count in counts.items()]
    if broken:
        parts.insert(0, f"{broken} failed without a verdict")
    subjects = {(measurement.model, measurement.suite) for measurement in report.measurements}
    gated = {(settled.model, settled.suite) for settled in report.judgements}
    if not report.judgements and subjects:
        certain = "" if broken else ": nothing here can fail yet"
        parts.append(f"{len(subjects)} measured, 0 gated{certain}")
    elif rest := len(subjects - gated):
        parts.append(f"{rest} measured without a gate")
    kinds = Counter(test.why for test in report.not_judged)
    if idle := kinds[NO_DATA] + kinds[INAPPLICABLE]:
        parts.append(f"{idle} not run")
    if others := kinds[OTHER_MODELS] + kinds[NO_MODEL]:
        parts.append(f"{others} not judged")
    return " · ".join(parts)


def _unjudged(tests: Sequence[NotJudged], width: int, detail: int) -> Iterator[Line]:
    """Yield what was skipped: counts by kind, or each reason where they are few or ``detail`` asks for them."""
    skipped = [test for test in tests if test.why in (NO_DATA, INAPPLICABLE)]
    reasons = together(((test.model, test.reason.removeprefix(test.name).lstrip(": ")), test.name) for test in skipped)
    if detail or len(reasons) <= _FEW:
        for (model, reason), names in reasons.items():
            where = f" on {model}" if model else ""
            yield wrapped(f"not run{where}: {', '.join(names)}: {reason}", width, "    "), ""
    else:
        yield from _counted(tests, width)
    if elsewhere := [test for test in tests if test.why == OTHER_MODELS]:
        others = ", ".join(test.name for test in elsewhere)
        yield wrapped(f"not for the models of this run: {others}", width, "    "), ""
    if idle := sum(test.why == NO_MODEL for test in tests):
        text = (
            f"{idle} bias test{'s were' if idle > 1 else ' was'} not judged, since no model is named: give one with"
            " --bias-model=[NAME=]SPEC. With 'bias_strict = true' in the ini file, or --bias-strict, this fails"
        )
        yield wrapped(text, width, "    "), "yellow"


def _counted(tests: Sequence[NotJudged], width: int) -> Iterator[Line]:
    """Yield a line for each kind of reason, with the number of tests, and what to do."""
    key = "not run"
    if missing := [test.name for test in tests if test.why == NO_DATA]:
        text = f"{len(missing)} need data: {in_brief(missing)}: --bias-data=DIR; -v names files and sources"
        yield note(key, text, width), ""
        key = ""
    unfit = [test.model for test in tests if test.why == INAPPLICABLE]
    if unfit:
        models = ", ".join(f"{count} on {model}" if model else str(count) for model, count in Counter(unfit).items())
        do = "does not fit its model" if len(unfit) == 1 else "do not fit their model"
        yield note(key, f"{len(unfit)} {do}: {models}: genderbias list lists what fits, and -v says why", width), ""


def _accepted(judgements: Sequence[Judgement]) -> dict[str, None]:
    """Return the worse values that were accepted with a reason, until the value recovers."""
    return {
        f"accepted on {value.date}: {judgement.suite}.{value.statistic} on {judgement.model}"
        f" {format_number(value.old, 6)} -> {format_number(value.new, 6)}: {value.reason}": None
        for judgement in (judgements)
        for value in judgement.accepted
    }


def _severity(settled: Judgement) -> tuple[int, str]:
    return {FAILED: 0, PASSED: 2}.get(settled.outcome, 1), _in_a_word(settled)


def _in_a_word(settled: Judgement) -> str:
    """Return the word under which a judgement is counted."""
    code = settled.code
    if settled.outcome == PASSED and code not in (STORED, NOT_STORED):
        return "passed"
    return settled.in_words


# The verdict on a whole run.

#: Exit statuses of pytest after which all tests ran: none failed, some failed, there were none.
_COMPLETE = (0, 1, 5)
_FAILED = 1
#: Outcome of what neither passes nor fails: measured without a gate, or a failure that its test expects.
OTHER = "other"


def run_verdict(report: RunReport) -> tuple[str, str]:
    """Return the verdict on a run, what failed or how many gates passed: a text that begins in lower case, and
    ``failed``, ``passed`` or ``other``. A run that pytest ended as failed never passes here.
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
        return ", ".join(parts), FAILED
    if report.run.exit_status == _FAILED:  # of another test, or of a worker that died with its test
        what = f"none {of_gates} failed, but" if gates else "no gate was judged, and"
        return f"{what} another test of the run failed", FAILED
    if gates and counts[PASSED] == len(gates):
        return f"{'the gate' if len(gates) == 1 else f'all {len(gates):,} gates'} passed", PASSED
    if gates:
        expected = len(gates) - counts[PASSED]
        return f"{counts[PASSED]:,} {of_gates} passed, {expected:,} failed as expected", OTHER
    if subjects := {(one.suite, one.model) for one in report.measurements}:
        return f"{len(subjects):,} measured, 0 gated: nothing here can fail yet", OTHER
    return "nothing was measured", OTHER


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
    messages = [(text, "") for text in report.failures]
    yield from (text for text, _ in summary_lines(report, width, detail, messages, len(broken)))
