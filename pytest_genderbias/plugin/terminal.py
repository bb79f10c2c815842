"""The way to the terminal in a run, through pytest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_genderbias.escaping import printable

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


def show(terminalreporter: TerminalReporter, text: str, markup: str = "") -> None:
    """Write a text, which may come from files and flags: lines stay, characters that a terminal would obey are escaped.

    Args:
        terminalreporter: Pytest's plugin.
        text: One or more lines.
        markup: A colour, ``bold``, both with a space between them, or nothing.
    """
    terminalreporter.write_line(printable(text, keep="\n"), **dict.fromkeys(markup.split(), True))
