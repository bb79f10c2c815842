"""``genderbias history``: each statistic over the runs that ``genderbias report --to history.db`` stored, as a table and as pictures."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.outputs import destination, write_files
from pytest_genderbias.plugin.terminal import print_lines
from pytest_genderbias.reports.history import MOST_RUNS, read_history
from pytest_genderbias.reports.history_table import history_rows, make_history_table, shown_traces
from pytest_genderbias.reports.run_report import RunInfo, RunReport
from pytest_genderbias.reports.traces import Trace
from pytest_genderbias.text.paragraphs import columns
from pytest_genderbias.text.printable import brief, brief_list
from pytest_genderbias.text.suggestions import close_names, expected_instead

_RIGHT = (2,)  #: columns with numbers
_WIDE = 100  #: columns of a terminal that shows first values, too


def carry_out(typed: Typed) -> int:
    """Print the statistics of a history, and draw them where a folder is named."""
    folder = typed.values["figures"]
    figures = [] if folder is None else [destination(f"figures={folder}", Path.cwd())]
    path = Path(typed.values["file"])
    stored = read_history(path, typed.values["runs"] or MOST_RUNS)
    _refuse_unknown(path, "model", typed.values["model"], [trace.model for trace in stored])
    _refuse_unknown(path, "suite", typed.values["suite"], [trace.suite for trace in stored])
    models, suites = typed.values["model"] or (), typed.values["suite"] or ()
    traces = [one for one in stored if (not models or one.model in models) and (not suites or one.suite in suites)]
    shown = shown_traces(traces, typed.values["all"])
    print_lines(make_history_table(shown) if typed.values["markdown"] else _page(path, traces, shown))
    if not figures:
        return 0
    from pytest_genderbias.reports.figures.runs import over_releases

    drawn = tuple(picture for trace in shown if (picture := over_releases(trace)) is not None)
    troubles = write_files(RunReport(RunInfo("", ""), pictures=drawn), figures, "--figures")
    for trouble in troubles:
        print_lines(printable(trouble), sys.stderr)
    return WRONG if troubles else 0


def _refuse_unknown(path: Path, what: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    """Refuse a name that no run of a history has.

    Raises:
        UnknownNameError: there is one.
    """
    for name in names or ():
        if name not in known:
            raise UnknownNameError(
                f"{path}: no run has the {what} {brief(name)}; "
                + (
                    expected_instead(name, known)
                    if close_names(name, known)
                    else f"it has {brief_list(dict.fromkeys(known))}"
                )
            )


def _page(path: Path, traces: Sequence[Trace], shown: Sequence[Trace]) -> str:
    """Return the statistics for a terminal, by model."""
    dates = sorted({point.date[:10] for trace in traces for point in trace.points})
    if not dates:
        return printable(f"{path}: no run with a measurement")
    count = max(len(dates), *(len(trace.points) for trace in traces))
    days = f"from {dates[0]} to {dates[-1]}" if len(dates) > 1 else f"of {dates[0]}"
    runs = f"{count} run{'s' * (count > 1)} {days}"
    lines = [printable(f"{path}: {runs}")]
    width = shutil.get_terminal_size((100, 24)).columns
    for model, of_model in groupby(zip(shown, history_rows(shown), strict=True), key=lambda pair: pair[0].model):
        lines += ["", printable(model), columns([_cells(row, width) for _, row in of_model], width, _RIGHT, wrap=True)]
    if hidden := len(traces) - len(shown):
        lines += ["", f"{hidden} more statistics: --all"]
    return "\n".join(lines)


def _cells(row: Sequence[str], width: int) -> tuple[str, ...]:
    """Return what a line shows of the cells of a table: neither the model, which stands above, nor the number and the first of its runs."""
    _, suite, statistic, _, _, first, last, change, allowed, verdict = row
    moved = last if first == last or width < _WIDE else f"{first} -> {last}"
    return suite, statistic, moved, change, verdict, allowed
