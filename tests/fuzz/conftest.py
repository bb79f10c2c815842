"""Counts the files of each format at the end of a run, over all workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_COUNTS = "fuzzed files"


@pytest.fixture
def count_files(request: pytest.FixtureRequest) -> Callable[[str, Counter[str]], None]:
    """Return a function that takes the counts of a format: ``read`` and ``refused``."""

    def count(name: str, counts: Counter[str]) -> None:
        request.node.user_properties.append((_COUNTS, [name, counts["read"], counts["refused"]]))

    return count


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the counts."""
    totals: dict[str, Counter[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or report.when != "call":
                continue
            for name, read, refused in (value for key, value in report.user_properties if key == _COUNTS):
                totals.setdefault(name, Counter()).update(read=read, refused=refused)
    if totals:
        terminalreporter.section("fuzzed files")
        for name, counts in sorted(totals.items()):
            terminalreporter.write_line(
                f"{name:24} {counts.total():8,}: {counts['read']:8,} read, {counts['refused']:8,} refused"
            )
        files = sum(counts.total() for counts in totals.values())
        terminalreporter.write_line(f"{len(totals)} formats, {files:,} files")
