"""The JSON file of a run: everything that was measured and judged."""

from __future__ import annotations

from pathlib import Path

from pytest_genderbias.folders import write_whole
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.text.printable import json_text


def write_json(report: RunReport, path: Path) -> None:
    """Write the report in one step, statistics in the order of their suites. NaN and infinities become ``null``; item
    statistics are left out.
    """
    write_whole(path, (json_text(report.to_dict(), sort_keys=False) + "\n").encode())
