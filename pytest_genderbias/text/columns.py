"""Text that fits the width of a terminal: cells, paragraphs, notes, and tables, whose last column is cut or wrapped, or
whose rows become blocks.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

from pytest_genderbias.escaping import printable

NARROWEST = 40  #: columns that texts take at least
Key = TypeVar("Key")
_GAP = "  "
_LONGEST = 60  #: columns of a cell with words of others
_LONGEST_LINE = 4_000  #: characters of a line of prose, which may hold texts of others
_LONGEST_WORD = 150  #: characters of a path that is not broken
_LONGEST_CELL = 200  #: columns of a cell of :func:`rows_or_blocks`
_KEY = 9  #: columns of the word that begins a note


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes: two for a wide character, none for a combining one.

    >>> [columns_of(text) for text in ("nurse", "看護師", "e\u0301", "\u0932\u0941", "\u2068\u0628\u2069")]
    [5, 6, 1, 1, 1]
    """
    if text.isascii():
        return len(text)
    none = ("Mn", "Me", "Cf")
    return sum(
        0 if unicodedata.category(c) in none else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def one_line(text: str, most: int = _LONGEST) -> str:
    r"""Return a text as a cell shows it: in one line, without what a terminal would obey, and cut.

    >>> one_line("a\nb\x1b[31m"), one_line("nli-occupation", 8)
    ('a b\\x1b[31m', 'nli-o...')
    """
    shown = printable(" ".join(text[: 4 * most].splitlines()))
    if columns_of(shown) <= most:
        return shown
    while columns_of(shown) > most - 3:
        shown = shown[: max(0, len(shown) - max(1, (columns_of(shown) - most) // 2))]
    return f"{shown.rstrip()}..."


def padded(text: str, columns: int, right: bool = False) -> str:
    """Return a text with spaces behind it, or before it, up to so many columns.

    >>> padded("a", 3), padded("a", 3, right=True)
    ('a  ', '  a')
    """
    spaces = " " * max(0, columns - columns_of(text))
    return spaces + text if right else text + spaces


def widths(rows: Iterable[Mapping[str, str]], names: Sequence[str]) -> dict[str, int]:
    """Return the width of each column: that of its widest cell. Missing cells are empty."""
    found = dict.fromkeys(names, 0)
    for row in rows:
        for name in names:
            found[name] = max(found[name], columns_of(row.get(name, "")))
    return found


def total(of_columns: Mapping[str, int]) -> int:
    """Return the width of a row, with a gap between two columns."""
    return sum(of_columns.values()) + len(_GAP) * max(0, len(of_columns) - 1)


def aligned(row: Mapping[str, str], of_columns: Mapping[str, int], right: frozenset[str] = frozenset()) -> str:
    """Return a row with every cell as wide as its column. Columns in ``right`` are aligned to the right.

    >>> aligned({"suite": "weat", "value": "0.5"}, {"suite": 6, "value": 4}, frozenset({"value"}))
    'weat     0.5'
    """
    cells = (padded(row.get(name, ""), columns, name in right) for name, columns in of_columns.items())
    return _GAP.join(cells).rstrip()


def wrapped(text: str, width: int, indent: str = "") -> str:
    """Return a text in lines of at most ``width`` columns, all but the first indented, without what a terminal would
    obey. Words are not broken, unless they are longer than any path.

    >>> wrapped("a message that is long", 12, "  ")
    'a message\\n  that is\\n  long'
    """
    lines = []
    for line in map(printable, text.split("\n")):
        cut = line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..."
        if columns_of(cut) > width:
            of_letters = width if columns_of(cut) == len(cut) else width // 2
            is_hostile = max(map(len, cut.split()), default=0) > _LONGEST_WORD
            cut = textwrap.fill(
                cut, of_letters, subsequent_indent=indent, break_long_words=is_hostile, break_on_hyphens=False
            )
        lines.append(cut)
    return "\n".join(lines)


def paragraph(text: str, width: int, indent: str = "", first: str | None = None) -> str:
    r"""Return a text in lines of at most ``width`` columns, ``NARROWEST`` at least; longer words, such as paths, stay
    whole.

    Args:
        text: of any origin. Line breaks begin new lines.
        width: columns of the terminal.
        indent: what each line begins with.
        first: what the first line begins with, ``indent`` by default.

    >>> print(paragraph("one two three\nfour", 40, "  ", "- "))
    - one two three
      four
    """
    lines = text[: 2 * _LONGEST_LINE].splitlines() or [""]
    starts = [indent if first is None else first, *[indent] * (len(lines) - 1)]
    wide = max(NARROWEST, width)
    return "\n".join(
        wrapped(f"{start}{line}", wide, indent).rstrip() for start, line in zip(starts, lines, strict=True)
    )


def note(key: str, text: str, width: int) -> str:
    """Return a note below a table: its key, and the text wrapped beside it.

    >>> note("more", "71 figures with the flag -v", 24)
    '  more     71 figures\\n           with the flag\\n           -v'
    """
    return wrapped(f"  {padded(key, _KEY)}{text}", width, " " * (_KEY + 2))


def in_brief(names: Iterable[str]) -> str:
    """Return names of suites, those of one kind as a count. Kinds are the words before the first hyphen.

    >>> in_brief(["weat", "bios", "weat-names", "probe-compression"])
    'weat x 2, bios, probe-compression'
    """
    kinds: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        kinds.setdefault(name.partition("-")[0], []).append(name)
    brief = [one_line(same[0] if len(same) == 1 else f"{kind} x {len(same)}") for kind, same in kinds.items()]
    return ", ".join(brief[:12]) + (f" and {len(brief) - 12} more" if len(brief) > 12 else "")


def columns(
    rows: Sequence[Sequence[str]], width: int, right: Collection[int] = (), indent: str = "  ", wrap: bool = False
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
    cells = [[one_line(" ".join(cell.split()), _LONGEST_LINE) for cell in row] for row in rows]
    wide = [max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        *front, last = (padded(cell, n, i in right) for i, (cell, n) in enumerate(zip(row, wide, strict=True)))
        before = indent + "".join(f"{cell}{_GAP}" for cell in front)
        if wrap and columns_of(before) + NARROWEST // 2 <= width:
            lines.append(paragraph(row[-1], width, " " * columns_of(before), before))
        else:
            lines.append(one_line(f"{before}{last}".rstrip(), max(NARROWEST, width)))
    return "\n".join(lines)


def together(pairs: Iterable[tuple[Key, str]]) -> dict[Key, list[str]]:
    """Return the names that have something in common, such as a reason, each once and in their order.

    >>> together([("too few", "weat"), ("no data", "bios"), ("too few", "ceat"), ("too few", "weat")])
    {'too few': ['weat', 'ceat'], 'no data': ['bios']}
    """
    names: dict[Key, dict[str, None]] = {}
    for key, name in pairs:
        names.setdefault(key, {})[name] = None
    return {key: list(same) for key, same in names.items()}


def rows_or_blocks(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    heads: int,
    width: int,
    verdict: str = "",
    right: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Yield a table with aligned columns where it fits, and otherwise each row as a block.

    Rows of one name stand as a table below it, where that fits. Columns without a cell are left out.

    Args:
        headers: names of the columns.
        rows: cells, one for each header.
        heads: the number of columns that name a row; a block begins with a line of them.
        width: columns of the terminal.
        verdict: name of a column whose cell ends the first line of a block; none by default.
        right: names of columns that are aligned to the right.

    >>> print("\\n".join(rows_or_blocks(("suite", "gone"), [["weat", "50 %"]], 1, 80)))
      suite  gone
      weat   50 %
    >>> print("\\n".join(rows_or_blocks(("suite", "gone"), [["weat", "50 %"]], 1, 10)))
      weat
        gone
        50 %
    """
    cells = [dict(zip(headers, (one_line(cell, _LONGEST_CELL) for cell in row), strict=True)) for row in rows]
    wide = {name: max(most, len(name)) for name, most in widths(cells, headers).items() if most}
    if total(wide) + 2 <= width:
        yield from (f"  {aligned(row, wide, right)}" for row in ({name: name for name in wide}, *cells))
        return
    named = [tuple(row[name] for name in headers[:heads] if row[name]) for row in cells]
    rest = {name: most for name, most in wide.items() if name not in headers[:heads]}
    if len(set(named)) < len(named) and total(rest) + 4 <= width:
        yield f"    {aligned({name: name for name in rest}, rest)}"
        for names, group in groupby(zip(named, cells, strict=True), key=lambda pair: pair[0]):
            yield wrapped(f"  {'  '.join(names)}", width, "    ")
            yield from (f"    {aligned(row, rest)}" for _, row in group)
        return
    for row in cells:
        first = [row[name] for name in (*headers[:heads], verdict) if row.get(name)]
        yield wrapped(f"  {'  '.join(first)}", width, "    ")
        pairs = "; ".join(f"{name} {row[name]}" for name in headers[heads:] if row[name] and name != verdict)
        yield wrapped(f"    {pairs}", width, "    ")
