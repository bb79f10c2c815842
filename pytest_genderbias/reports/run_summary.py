"""The summary in the terminal at the end of a run: gates and suites in one line each, what did not run, what to do
next, and the verdict.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_genderbias.gates.comparison import growth_of
from pytest_genderbias.gates.judgement import Judgement
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
    NotJudged,
)
from pytest_genderbias.reports.overview import Line, overview
from pytest_genderbias.reports.run_report import RunReport, RunSummary
from pytest_genderbias.reports.run_tables import run_tables
from pytest_genderbias.reports.run_verdict import baseline_history, broken_tests, decisive_lines
from pytest_genderbias.text.columns import in_brief, note, one_line, paragraph, rows_or_blocks, together, wrapped
from pytest_genderbias.text.printable import format_number

_UNBROKEN = 10_000  #: width of a line that is to be copied
_FEW = 3  #: reasons of skips that are said in full


def summary_lines(summary: RunSummary, width: int, detail: int) -> Iterator[Line]:
    """Yield each text of the summary of a run with its markup.

    Args:
        summary: the results.
        width: columns of the terminal.
        detail: 1 for all statistics, notes and reasons; 2 also for the worst records.
    """
    for growth in growth_of(summary.judgements):
        yield (
            wrapped(f"{one_line(growth.model)}: {growth.in_words}", width, "    "),
            "red bold" if growth.worse else "bold",
        )
    yield from overview(summary.measurements, summary.judgements, width, detail)
    yield from _other_tables(summary, width)
    yield from _unjudged(summary.unjudged, width, detail)
    for text, markup in _remarks(summary):
        yield wrapped(text, width, "    "), markup
    has_figures = any(measurement.values[measurement.main] is not None for measurement in summary.measurements)
    if summary.next and has_figures and not summary.judgements and not summary.failed:
        yield f"{note('next', 'write gates from what was measured:', width)}\n{note('', summary.next, _UNBROKEN)}", ""
    if verdict := _verdict(summary):
        yield wrapped(f"bias  {verdict}", width, "      "), "red bold" if _has_failed(summary) else "bold"


def _other_tables(summary: RunSummary, width: int) -> Iterator[Line]:
    """Yield the tables of mitigations, comparisons and variances, each with what is said below it."""
    for table in run_tables(summary.judgements, summary.comparisons, summary.not_compared, summary.variances):
        if table.kind != "mitigations":
            yield table.title if table.kind == "grid" else "", ""
        lines = rows_or_blocks(table.headers, table.rows, table.heads, width, "verdict")
        yield from ((line, "") for line in lines if table.rows)
        yield from ((wrapped(text, width, "    "), "") for text in table.notes)


def _remarks(summary: RunSummary) -> Iterator[Line]:
    """Yield accepted values, the age of baselines, which to refresh, and messages of the run."""
    for line in _accepted(summary.judgements):
        yield line, "yellow"
    for line in baseline_history(summary.judgements, datetime.date.today()):
        yield line, ""
    if better := sum(settled.code == BETTER for settled in summary.judgements):
        what = (
            "1 gate is better than its baseline" if better == 1 else f"{better:,} gates are better than their baselines"
        )
        yield f"{what}: refresh with --bias-update, or the model may become as much worse unseen", "yellow"
    yield from summary.messages


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


# The last line.


def _has_failed(summary: RunSummary) -> bool:
    return bool(summary.failed) or any(settled.failed for settled in summary.judgements)


def _verdict(summary: RunSummary) -> str:
    """Return the last line: how many gates have which verdict, what was measured without one, and what did not run."""
    counts = Counter(map(_in_a_word, sorted(summary.judgements, key=_severity)))
    parts = [f"{count} {what}" for what, count in counts.items()]
    if summary.failed:
        parts.insert(0, f"{summary.failed} failed without a verdict")
    subjects = {(measurement.model, measurement.suite) for measurement in summary.measurements}
    gated = {(settled.model, settled.suite) for settled in summary.judgements}
    if not summary.judgements and subjects:
        certain = "" if summary.failed else ": nothing here can fail yet"
        parts.append(f"{len(subjects)} measured, 0 gated{certain}")
    elif rest := len(subjects - gated):
        parts.append(f"{rest} measured without a gate")
    kinds = Counter(test.why for test in summary.unjudged)
    if idle := kinds[NO_DATA] + kinds[INAPPLICABLE]:
        parts.append(f"{idle} not run")
    if others := kinds[OTHER_MODELS] + kinds[NO_MODEL]:
        parts.append(f"{others} not judged")
    return " · ".join(parts)


def _severity(settled: Judgement) -> tuple[int, str]:
    return {FAILED: 0, PASSED: 2}.get(settled.outcome, 1), _in_a_word(settled)


def _in_a_word(settled: Judgement) -> str:
    """Return the word under which a judgement is counted."""
    code = settled.code
    if settled.outcome == PASSED and code not in (STORED, NOT_STORED):
        return "passed"
    return settled.in_words


# The report of an earlier run.


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
    )
    yield from (text for text, _ in summary_lines(summary, width, detail))
