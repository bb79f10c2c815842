"""``genderbias report``: reports made from the file of an earlier run, as the run would have made them."""

from __future__ import annotations

import sys
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.information import terminal_width
from pytest_genderbias.plugin.outputs import OUTPUTS, check_destinations, destination, write_files
from pytest_genderbias.reports.run_report import read_report


def carry_out(typed: Typed) -> int:
    """Write the files that ``--to`` names; without one, print verdicts and figures."""
    named = [destination(text, Path.cwd()) for text in typed.values["to"]]
    files = sorted(named, key=lambda file: OUTPUTS.index(file[0]))
    check_destinations(files)
    report = read_report(Path(typed.values["file"]))
    if not files:
        print_lines("\n".join(door("report in words")(report, terminal_width(), typed.values["verbose"])))
        return 0
    for output, path in files:
        if output.kind == "history":
            report = door("runs before")(report, Path(path))
    troubles = write_files(report, files)
    for trouble in troubles:
        print_lines(printable(trouble), sys.stderr)
    return WRONG if troubles else 0
