"""The result of one test as shown in reports: location, outcome and failure reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest._code.code import ExceptionRepr, ReprFileLocation

from pytest_genderbias.plugin.items.bias_item import BiasItem, node_id

if TYPE_CHECKING:
    from pytest_genderbias.reports.run_report import FinishedTest

_LONGEST = 4_000  #: characters of a text


def finished_test(item: pytest.Item, report: pytest.TestReport, model: str, seconds: float) -> FinishedTest:
    """Return the result of a test.

    Args:
        item: the test.
        report: of the part of it that counts: its call, or a setup or teardown that failed.
        model: name of the model; empty if the run has none for it.
        seconds: how long all of its parts took.
    """
    from pytest_genderbias.reports.run_report import FinishedTest

    file, line, crash = *_place(item), _crash(report)
    if crash is not None and file and os.path.abspath(item.config.rootpath / crash.path) == str(item.path):
        line = crash.lineno  # the assertion, and not the first line of its test
    return FinishedTest(
        test=node_id(item),
        suite=item.suite_name if isinstance(item, BiasItem) else "",
        model=model,
        file=file,
        line=line,
        outcome=_outcome(report),
        seconds=round(seconds, 3),
        text=_text(report, crash)[:_LONGEST],
    )


def _place(item: pytest.Item) -> tuple[str, int]:
    """Return the file of a test, relative to the project, and its line; an empty text for a suite that no file
    names.
    """
    if isinstance(item, BiasItem) and item.line is None:
        return "", 0
    file, line, _ = item.location
    return Path(file).as_posix(), (line or 0) + 1


def _crash(report: pytest.TestReport) -> ReprFileLocation | None:
    """Return where a test in Python failed."""
    return report.longrepr.reprcrash if isinstance(report.longrepr, ExceptionRepr) else None


def _outcome(report: pytest.TestReport) -> str:
    return (
        "xfailed" if report.skipped and "wasxfail" in vars(report) else report.outcome
    )  # pytest sets it for xfail only


def _text(report: pytest.TestReport, crash: ReprFileLocation | None) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    if not report.failed:
        return ""
    return report.longreprtext if crash is None else crash.message
