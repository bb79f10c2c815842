"""Plain text for a terminal of a given width: paragraphs, lists of names, and columns whose last one is cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from pytest_genderbias.escaping import printable

NARROWEST = 40  #: columns that texts take at least
_LONGEST = 4_000  #: characters of a paragraph; nobody reads more of a title or reason


def paragraph(text: str, width: int, indent: str = "", first: str | None = None) -> str:
    r"""Return a text in lines of at most ``width`` characters; longer words, such as paths, stay whole.

    Args:
        text: of any origin: characters that a terminal would obey are escaped. Line breaks begin new lines.
        width: columns of the terminal.
        indent: what each line begins with.
        first: what the first line begins with, ``indent`` by default.

    >>> print(paragraph("one two three\nfour", 40, "  ", "- "))
    - one two three
      four
    """
    lines = []
    for number, line in enumerate(printable(shortened(text, _LONGEST), keep="\n").splitlines() or [""]):
        start = indent if number or first is None else first
        wrapped = textwrap.wrap(
            line, max(NARROWEST, width), initial_indent=start, subsequent_indent=indent, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        lines += wrapped or [start.rstrip()]
    return "\n".join(lines)


def columns(
    rows: Sequence[Sequence[str]], width: int, right: Iterable[int] = (), indent: str = "  ", wrap: bool = False
) -> str:
    """Return rows of cells under each other. Where a line would be longer than ``width``, its last cell is cut, or
    wrapped.

    Args:
        rows: of equally many cells, of any origin: they are escaped, and have one line each.
        width: columns of the terminal.
        right: numbers of the columns that are aligned to the right.
        indent: what each line begins with.
        wrap: continue the last cell on further lines instead of cutting it.

    >>> print(columns([("a", "5", "first"), ("bc", "10", "second")], 40, right=[1]))
      a    5  first
      bc  10  second
    """
    cells = [[printable(" ".join(shortened(cell, _LONGEST).split())) for cell in row] for row in rows]
    if not cells:
        return ""
    wide, at_right = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))], set(right)
    lines = []
    for row in cells:
        padded = [
            cell.rjust(n) if i in at_right else cell.ljust(n) for i, (cell, n) in enumerate(zip(row, wide, strict=True))
        ]
        before = indent + "".join(f"{cell}  " for cell in padded[:-1])
        if wrap and len(before) + NARROWEST // 2 <= width:
            lines.append(paragraph(row[-1], width, " " * len(before), before).rstrip())
        else:
            lines.append(shortened(f"{before}{row[-1]}".rstrip(), max(NARROWEST, width)))
    return "\n".join(lines)


def shortened(line: str, width: int) -> str:
    """Return a line of at most ``width`` characters, with dots where some were cut.

    >>> shortened("a long line", 8), shortened("short", 8)
    ('a lon...', 'short')
    """
    return line if len(line) <= width else f"{line[: width - 3].rstrip()}..."
