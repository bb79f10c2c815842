"""``genderbias report``: reports made from the file of an earlier run, as the run would have made them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

from pytest_genderbias.command_line.arguments import WRONG, Typed
from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.flags import Origin, ValueFlag
from pytest_genderbias.plugin.options import FLAGS
from pytest_genderbias.plugin.outputs import OUTPUTS, check_packages, write_files
from pytest_genderbias.reports.history import with_history
from pytest_genderbias.reports.markdown import summary_text
from pytest_genderbias.reports.run_report import read_report


def carry_out(typed: Typed) -> int:
    """Write the files that flags name; without one, print verdicts and figures."""
    files = [(output, path_of(typed, output.field)) for output in OUTPUTS if output.field in typed.flags]
    check_packages(output for output, _ in files)
    report = read_report(Path(typed.values["file"]))
    if not files:
        print(printable(summary_text(report), keep="\n"), end="")
        return 0
    for output, path in files:
        if output.field == "history":
            report = with_history(report, path)
    troubles = write_files(report, files)
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    return WRONG if troubles else 0


def path_of(typed: Typed, field: str) -> Path:
    """Return the path that a flag names, checked as in a run."""
    flag, here = cast(ValueFlag, FLAGS[field]), Path.cwd()
    return cast(Path, flag.parse(str(typed.flags[field]), Origin(flag.name, here, here)))
