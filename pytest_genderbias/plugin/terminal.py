"""The ways to the terminal: through pytest in a run, and standard output for what runs no tests."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

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


def print_lines(text: str, stream: TextIO | None = None) -> None:
    """Print a text, which may come from files, to standard output or another stream, escaped as :func:`show` escapes it.

    Characters that the stream cannot encode are escaped, too.
    """
    to = sys.stdout if stream is None else stream
    encoding = to.encoding or "utf-8"
    print(printable(text, keep="\n").encode(encoding, "backslashreplace").decode(encoding), file=to, flush=True)
