"""``genderbias report``: reports made from the file of an earlier run, as the run would have made them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.verdicts import FAILED
from pytest_genderbias.plugin.information import terminal_width
from pytest_genderbias.plugin.outputs import OUTPUTS, check_destinations, destination, write_files
from pytest_genderbias.plugin.reasons import Unjudged
from pytest_genderbias.plugin.summary import RunSummary, summary_lines
from pytest_genderbias.plugin.terminal import print_lines
from pytest_genderbias.reports.history import with_history
from pytest_genderbias.reports.run_pictures import pictures_of_history
from pytest_genderbias.reports.run_report import NotJudged, RunReport, read_report
from pytest_genderbias.reports.verdict import broken_tests, decisive_lines
from pytest_genderbias.text.paragraphs import paragraph


def carry_out(typed: Typed) -> int:
    """Write the files that ``--to`` names; without one, print verdicts and figures."""
    named = [destination(text, Path.cwd()) for text in typed.values["to"]]
    files = sorted(named, key=lambda file: OUTPUTS.index(file[0]))
    check_destinations(files)
    report = read_report(Path(typed.values["file"]))
    if not files:
        print_lines("\n".join(in_words(report, terminal_width(), typed.values["verbose"])))
        return 0
    for output, path in files:
        if output.kind == "history":
            report = _with_history(report, Path(path))
    troubles = write_files(report, files)
    for trouble in troubles:
        print_lines(printable(trouble), sys.stderr)
    return WRONG if troubles else 0


def in_words(report: RunReport, width: int, detail: int = 0) -> Iterator[str]:
    """Yield what the terminal showed at the end of a run: why gates failed, and the summary.

    Args:
        report: of the run.
        width: columns of the terminal.
        detail: 1 for all statistics, notes and reasons, 2 for the worst records, too.
    """
    names = ", ".join(model.name for model in report.run.models)
    yield paragraph(f"run of {report.run.date}" + (f" on {names}" if names else ""), width)
    for settled in report.judgements:
        if settled.outcome == FAILED:
            lines = [settled.judgement.text] if detail > 1 else decisive_lines(settled.judgement)
            yield "\n".join(("", *lines))
    broken = broken_tests(report)
    for test in broken:
        yield f"\n{test.test} failed without a verdict: {test.text}"
    yield ""
    summary = RunSummary(
        report.measurements,
        report.judgements,
        [(row.model, Unjudged(row.why, _name_of(row), row.reason)) for row in report.not_judged],
        [(text, "") for text in report.failures],
        report.comparisons or None,
        report.not_compared,
        report.variances or None,
        failed=len(broken),
    )
    yield from (text for text, _ in summary_lines(summary, width, detail))


def _name_of(row: NotJudged) -> str:
    """Return the suite of a test of ``--bias-suite``, and the name of any other test."""
    file, _, name = row.test.rpartition("::")
    return name.partition(":")[0] if file == "genderbias" else name


def _with_history(report: RunReport, path: Path) -> RunReport:
    """Return a report with the runs before it, and their pictures."""
    known = with_history(report, path)
    return replace(known, pictures=(*known.pictures, *pictures_of_history(known)))
