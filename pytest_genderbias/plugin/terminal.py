"""The way to the terminal in a run, through pytest: lines, and what fails the run beside its tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.escaping import isolated, printable

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


def show(terminalreporter: TerminalReporter, text: str, markup: str = "") -> None:
    """Write a text, which may come from files and flags: lines stay, characters that a terminal would obey are escaped.

    Args:
        terminalreporter: Pytest's plugin.
        text: One or more lines.
        markup: A colour, ``bold``, both with a space between them, or nothing.
    """
    terminalreporter.write_line(isolated(printable(text, keep="\n")), **dict.fromkeys(markup.split(), True))


@dataclass(frozen=True)
class _Explanation:
    """Failures in the form of pytest's reports: the short summary takes a line from the ``message`` of the crash."""

    reprcrash: SimpleNamespace

    def __str__(self) -> str:
        return str(self.reprcrash.message)


def count_failures(failures: Sequence[str], terminalreporter: TerminalReporter) -> None:
    """Add an error to the short summary and to the last line for each failure, and so colour the last line red.

    Call it when the section that shows them in full is printed: pytest then does not show them once more.
    """
    for text in failures:
        explanation = _Explanation(SimpleNamespace(message=printable(text)))
        report = pytest.TestReport(
            nodeid="bias",
            location=("bias", None, "bias"),
            keywords={},
            outcome="failed",
            longrepr=explanation,  # type: ignore[arg-type]
            when="teardown",
        )
        terminalreporter._add_stats("error", [report])
