"""``genderbias history``: each statistic over the runs that ``--bias-history`` kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_genderbias.command_line.arguments import Typed
from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.escaping import printable
from pytest_genderbias.reports.history import MOST_RUNS, read_history
from pytest_genderbias.reports.history_table import make_history_table, shown_traces
from pytest_genderbias.reports.traces import Trace
from pytest_genderbias.text.printable import brief, brief_list


def carry_out(typed: Typed) -> int:
    """Print the table of a history."""
    path = Path(typed.values["file"])
    traces: Sequence[Trace] = read_history(path, typed.values["runs"] or MOST_RUNS)
    _refuse_unknown(path, "model", typed.values["model"], [trace.model for trace in traces])
    _refuse_unknown(path, "suite", typed.values["suite"], [trace.suite for trace in traces])
    models, suites = typed.values["model"] or (), typed.values["suite"] or ()
    chosen = [
        trace for trace in traces if (not models or trace.model in models) and (not suites or trace.suite in suites)
    ]
    table = make_history_table(shown_traces(chosen, typed.values["all"]))
    print(printable(table or f"{path}: no run has measured anything yet", keep="\n"))
    return 0


def _refuse_unknown(path: Path, what: str, names: Sequence[str] | None, known: Sequence[str]) -> None:
    """Refuse a name that no run of a history has.

    Raises:
        UnknownNameError: there is one.
    """
    for name in names or ():
        if name not in known:
            raise UnknownNameError(
                f"{path}: no run has the {what} {brief(name)}; it has {brief_list(dict.fromkeys(known))}"
            )
