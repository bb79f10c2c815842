"""``genderbias report``: reports made from the file of an earlier run, as the run would have made them. ``genderbias
history``: each statistic over the runs that ``genderbias report --to history.db`` stored, as a table and as pictures.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.information import terminal_width
from pytest_genderbias.plugin.outputs import OUTPUTS, check_destinations, destination, write_files
from pytest_genderbias.reports.run_report import RunInfo, RunReport, read_report


def carry_out(typed: Typed) -> int:
    """Carry out either command, and return the exit status."""
    troubles = _report(typed) if typed.command == "report" else _history(typed)
    for trouble in troubles:
        print_lines(printable(trouble), sys.stderr)
    return WRONG if troubles else 0


def _report(typed: Typed) -> list[str]:
    """Write the files that ``--to`` names; without one, print verdicts and figures."""
    named = [destination(text, Path.cwd()) for text in typed.values["to"]]
    files = sorted(named, key=lambda file: OUTPUTS.index(file[0]))
    check_destinations(files)
    report = read_report(Path(typed.values["file"]))
    if not files:
        print_lines("\n".join(door("report in words")(report, terminal_width(), typed.values["verbose"])))
        return []
    for output, path in files:
        if output.kind == "history":
            report = door("runs before")(report, path)
    return write_files(report, files)


def _history(typed: Typed) -> list[str]:
    """Print the statistics of a history, and draw them where a folder is named."""
    values = dict(typed.values)
    folder = values.pop("figures")
    figures = [] if folder is None else [destination(f"figures={folder}", Path.cwd())]
    text, draw = door("page of a history")(**values, width=shutil.get_terminal_size((100, 24)).columns)
    print_lines(text)
    return write_files(RunReport(RunInfo("", ""), pictures=draw()), figures, "--figures") if figures else []
