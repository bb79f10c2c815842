"""The table of ``genderbias history``: each statistic over the runs of a history, in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence

from pytest_genderbias.reports.traces import Trace
from pytest_genderbias.text.printable import escape

HEADERS = ("model", "suite", "statistic", "runs", "since", "first", "last", "change", "allowed", "verdict")
_NUMBER = ".4g"


def shown_traces(traces: Sequence[Trace], all_statistics: bool = False) -> list[Trace]:
    """Return the traces that a table shows: main statistics and those with a gate, or all."""
    return [trace for trace in traces if all_statistics or trace.main or trace.is_gated]


def make_history_table(traces: Sequence[Trace]) -> str:
    """Return a markdown table with a row a trace; an empty text without any. Texts are escaped for markdown.

    ``change``: since the first value that can be compared with the last one. ``allowed``: what the gates of the last run allow.
    """
    from tabulate import tabulate

    rows = [[escape(cell) for cell in row] for row in history_rows(traces)]
    return tabulate(rows, HEADERS, tablefmt="github", disable_numparse=True) if rows else ""


def history_rows(traces: Sequence[Trace]) -> list[tuple[str, ...]]:
    """Return a row a trace, its cells as in :data:`HEADERS`; texts are as they are."""
    alike = Counter((trace.model, trace.suite, trace.statistic) for trace in traces)
    with_options = {about for about, count in alike.items() if count > 1}
    return [_row(trace, with_options) for trace in traces]


def _row(trace: Trace, with_options: Container[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the cells of a trace, with its options where there are others of the same suite."""
    last, change = trace.last, trace.worsening()
    moved = (
        "" if change is None else "none" if change == 0 else f"{abs(change):.3g} {'worse' if change > 0 else 'better'}"
    )
    settings = f" {trace.options[:60]}" if (trace.model, trace.suite, trace.statistic) in with_options else ""
    return (
        trace.model, trace.suite + settings, trace.statistic, str(len(trace.points)), trace.points[0].date[:10],
        _number(trace.points[0].value), _number(last.value), moved, _allowed(trace), last.verdict or "measured",
    )  # fmt: skip


def _allowed(trace: Trace) -> str:
    """Return in words what the gates of the last run allow."""
    last = trace.last
    sign = {"higher": "+", "lower": "-"}.get(trace.direction, "±")
    words = []
    if last.baseline is not None:
        words.append(
            f"baseline {last.baseline:{_NUMBER}}" + ("" if last.margin is None else f" {sign} {last.margin:.3g}")
        )
    if last.anchor is not None:
        words.append(f"anchor {last.anchor:{_NUMBER}}")
    if last.least is not None:
        words.append(f"at least {last.least:{_NUMBER}}")
    if last.most is not None:
        words.append(f"at most {last.most:{_NUMBER}}")
    return ", ".join(words)


def _number(value: float | None) -> str:
    return "-" if value is None else format(value, _NUMBER)
