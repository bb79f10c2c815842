"""The table of ``genderbias history``: each statistic over the runs of a history, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.verdicts import describe_change
from pytest_genderbias.reports.history import MOST_RUNS, Where, read_history
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import Trace
from pytest_genderbias.text.columns import columns
from pytest_genderbias.text.printable import brief, counted, format_number, markdown_table, refuse_unknown_name

HEADERS = ("model", "suite", "statistic", "runs", "since", "first", "last", "change", "allowed", "verdict")
_RIGHT = (2,)  #: columns of the page with numbers
_WIDE = 100  #: columns of a terminal that shows first values, too


def history_page(
    file: str,
    runs: int | None,
    model: Sequence[str] | None,
    suite: Sequence[str] | None,
    all: bool,
    markdown: bool,
    width: int,
) -> tuple[str, Callable[[], tuple[Picture, ...]]]:
    """Return the statistics of a history as text, and what draws them.

    Args:
        file: path of the history, or the URL of its database.
        runs: how many runs to go back; ``None`` for the usual number.
        model: names of models; ``None`` for all.
        suite: names of suites; ``None`` for all.
        all: also statistics beside the main ones and those with a gate.
        markdown: a table in markdown, and not a page for a terminal.
        width: columns of the terminal.

    Raises:
        UnknownNameError: no run has a model or suite.
        DataFileError: as :func:`~pytest_genderbias.reports.history.read_history`.
    """
    path = file if "://" in file else Path(file)
    stored = read_history(path, runs or MOST_RUNS)
    for what, names in (("model", model), ("suite", suite)):
        known = dict.fromkeys(getattr(trace, what) for trace in stored)
        for name in names or ():
            refuse_unknown_name(name, known, f"{path}: no run has the {what} {brief(name)}", "it has")
    traces = [one for one in stored if (not model or one.model in model) and (not suite or one.suite in suite)]
    shown = shown_traces(traces, all)
    return make_history_table(shown) if markdown else _page(path, traces, shown, width), partial(_drawn, shown)


def _drawn(traces: Sequence[Trace]) -> tuple[Picture, ...]:
    from pytest_genderbias.reports.figures.runs import over_releases

    return tuple(picture for trace in traces if (picture := over_releases(trace)) is not None)


def shown_traces(traces: Sequence[Trace], all_statistics: bool = False) -> list[Trace]:
    """Return the traces that a table shows: main statistics and those with a gate, or all."""
    return [trace for trace in traces if all_statistics or trace.main or trace.is_gated]


def make_history_table(traces: Sequence[Trace]) -> str:
    """Return a markdown table with a row a trace; an empty text without any. Texts are escaped for markdown.

    ``change``: since the first value that can be compared with the last one. ``allowed``: what the gates of the last
    run allow.
    """
    return markdown_table(HEADERS, history_rows(traces))


def history_rows(traces: Sequence[Trace]) -> list[tuple[str, ...]]:
    """Return a row a trace, its cells as in :data:`HEADERS`; texts are as they are."""
    alike = Counter((trace.model, trace.suite, trace.statistic) for trace in traces)
    with_options = {about for about, count in alike.items() if count > 1}
    return [_row(trace, with_options) for trace in traces]


def _row(trace: Trace, with_options: Container[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the cells of a trace, with its options where there are others of the same suite."""
    last, change = trace.last, trace.worsening()
    moved = "" if change is None else describe_change(change)
    settings = f" {trace.options[:60]}" if (trace.model, trace.suite, trace.statistic) in with_options else ""
    first = trace.points[0]
    what = trace.model, trace.suite + settings, trace.statistic, str(len(trace.points)), first.date[:10]
    values = format_number(first.value), format_number(last.value)
    return *what, *values, moved, _allowed(trace), last.verdict or "measured"


def _allowed(trace: Trace) -> str:
    """Return in words what the gates of the last run allow."""
    last = trace.last
    sign = {"higher": "+", "lower": "-"}.get(trace.direction, "±")
    words = []
    if last.baseline is not None:
        words.append(
            f"baseline {format_number(last.baseline)}" + ("" if last.margin is None else f" {sign} {last.margin:.3g}")
        )
    if last.anchor is not None:
        words.append(f"anchor {format_number(last.anchor)}")
    if last.least is not None:
        words.append(f"at least {format_number(last.least)}")
    if last.most is not None:
        words.append(f"at most {format_number(last.most)}")
    return ", ".join(words)


def _page(path: Where, traces: Sequence[Trace], shown: Sequence[Trace], width: int) -> str:
    """Return the statistics for a terminal, by model."""
    dates = sorted({point.date[:10] for trace in traces for point in trace.points})
    if not dates:
        return printable(f"{path}: no run with a measurement")
    count = max(len(dates), *(len(trace.points) for trace in traces))
    days = f"from {dates[0]} to {dates[-1]}" if len(dates) > 1 else f"of {dates[0]}"
    runs = f"{counted(count, 'runs')} {days}"
    lines = [printable(f"{path}: {runs}")]
    for model, of_model in groupby(zip(shown, history_rows(shown), strict=True), key=lambda pair: pair[0].model):
        lines += ["", printable(model), columns([_cells(row, width) for _, row in of_model], width, _RIGHT, wrap=True)]
    if hidden := len(traces) - len(shown):
        lines += ["", f"{hidden} more statistics: --all"]
    return "\n".join(lines)


def _cells(row: Sequence[str], width: int) -> tuple[str, ...]:
    """Return what a line shows of the cells of a table: neither the model, which stands above, nor the number and the
    first of its runs.
    """
    _, suite, statistic, _, _, first, last, change, allowed, verdict = row
    moved = last if first == last or width < _WIDE else f"{first} -> {last}"
    return suite, statistic, moved, change, verdict, allowed
