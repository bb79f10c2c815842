"""``genderbias history``: each statistic over the runs that ``genderbias report --to history.db`` stored, as a table
and as pictures.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.escaping import print_lines, printable
from pytest_genderbias.plugin.doors import door
from pytest_genderbias.plugin.outputs import destination, write_files
from pytest_genderbias.reports.run_report import RunInfo, RunReport


def carry_out(typed: Typed) -> int:
    """Print the statistics of a history, and draw them where a folder is named."""
    values = dict(typed.values)
    folder = values.pop("figures")
    figures = [] if folder is None else [destination(f"figures={folder}", Path.cwd())]
    text, draw = door("page of a history")(**values, width=shutil.get_terminal_size((100, 24)).columns)
    print_lines(text)
    if not figures:
        return 0
    troubles = write_files(RunReport(RunInfo("", ""), pictures=draw()), figures, "--figures")
    for trouble in troubles:
        print_lines(printable(trouble), sys.stderr)
    return WRONG if troubles else 0
