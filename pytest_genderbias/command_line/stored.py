"""The commands that read what earlier runs stored.

``genderbias report``: reports made from the file of a run, as the run would have made them. ``genderbias history``:
each statistic over the runs that ``genderbias report --to history.db`` stored, as a table and as pictures.
``genderbias gates``: the gates on stored baselines, and what each of them sees.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.errors import SettingError
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.gates.book import BaselineEntry, read_book
from pytest_genderbias.gates.book_places import listed, place_of
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.outputs import OUTPUTS, destination, write_file
from pytest_genderbias.plugin.without_files import terminal_width
from pytest_genderbias.reports.run_report import RunInfo, RunReport, read_report
from pytest_genderbias.text.columns import paragraph, rows_or_blocks
from pytest_genderbias.text.printable import format_number

_HEADERS = ("suite", "statistic", "model", "stored", "margin", "sees")
_NOT_KNOWN = "what it sees is not known: the statistic has no bounds, or --bias-update stores what it sees"


def carry_out(typed: Typed) -> int:
    """Carry out a command, and return the exit status."""
    troubles = {"report": _report, "history": _history, "gates": _gates}[typed.command](typed)
    for trouble in troubles:
        print_lines(printable(trouble), sys.stderr)
    return WRONG if troubles else 0


def _report(typed: Typed) -> list[str]:
    """Write the files that ``--to`` names; without one, print verdicts and figures."""
    named = [destination(text, Path.cwd()) for text in typed.values["to"]]
    files = sorted(named, key=lambda file: OUTPUTS.index(file[0]))
    report = read_report(Path(typed.values["file"]))
    if not files:
        print_lines("\n".join(door("report in words")(report, terminal_width(), typed.values["verbose"])))
        return []
    troubles, shown = [], report
    for output, path in files:  # histories come first and take the run as it is; the others show the runs of the last
        if trouble := write_file(report if output.kind == "history" else shown, output, path):
            troubles.append(trouble)
        elif output.kind == "history":
            shown = door("runs of a history")(report, path)
    return troubles


def _history(typed: Typed) -> list[str]:
    """Print the statistics of a history, and draw them where a folder is named."""
    values = dict(typed.values)
    folder = values.pop("figures")
    figures = None if folder is None else destination(f"figures={folder}", Path.cwd())
    text, draw = door("page of a history")(**values, width=terminal_width())
    print_lines(text)
    trouble = figures and write_file(RunReport(RunInfo("", ""), pictures=draw()), *figures, "--figures")
    return [trouble] if trouble else []


def _gates(typed: Typed) -> list[str]:
    """Print the stored gates: a line each, or with ``--explain`` a sentence."""
    folder = place_of(typed.values["baseline"], Path())
    gates = [
        (book.parent.name, name, statistic, entry)
        for book in listed(folder, "*/*.json")
        for name, entry in read_book(book).items()
        for statistic in entry.gated
    ]
    if not gates:
        raise SettingError(
            f"{folder} has no gate on a baseline; store some with --bias-update-new, or name their folder:"
            " --baseline DIR"
        )
    width = terminal_width()
    if typed.values["explain"]:
        lines = [paragraph(printable(_sentence(*gate)), width) for gate in gates]
    else:
        lines = list(rows_or_blocks(_HEADERS, [tuple(map(printable, _row(*gate))) for gate in gates], 3, width))
    print_lines("\n".join(lines))
    return []


def _sentence(model: str, name: str, statistic: str, entry: BaselineEntry) -> str:
    """Return sentences on what turns a gate red, and what it sees."""
    subject = f"{name} on {model}, {statistic} {format_number(entry.values.get(statistic))}:"
    seen, margin = entry.sees.get(statistic), entry.gated[statistic]
    if seen is None:
        return f"{subject} {_NOT_KNOWN}."
    allowed = (
        "equal models are red in at most 5 % of files" if margin is None else f"a worsening of {margin:.3g} is allowed"
    )
    return f"{subject} {seen.sentence}; {allowed}."


def _row(model: str, name: str, statistic: str, entry: BaselineEntry) -> tuple[str, ...]:
    seen, margin = entry.sees.get(statistic), entry.gated[statistic]
    sees = "not known" if seen is None else seen.in_words
    allowed = "none" if margin is None else f"{margin:.3g}"
    return name, statistic, model, format_number(entry.values.get(statistic)), allowed, sees
