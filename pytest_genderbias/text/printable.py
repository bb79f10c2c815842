"""Escape untrusted text for markdown and JSON, and show untrusted texts and values in a few words."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pytest_genderbias.escaping import printable


def escape(text: str) -> str:
    """Escape markdown markup and terminal control characters, and replace line breaks by spaces.

    >>> escape("a|b <i>")
    'a\\\\|b &lt;i&gt;'
    """
    text = (
        printable(re.sub(r"[\x00-\x1f\x7f]+", " ", text))
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
    return re.sub(r"([|`*\[\]])", r"\\\1", text)


def markdown_table(headers: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> str:
    """Return a table in markdown, whose texts are escaped.

    Args:
        headers: names of the columns.
        rows: cells, one for each header; without any row the text is empty.
        right: numbers of the columns that are aligned to the right.
    """
    from tabulate import tabulate

    cells = [[escape(cell) for cell in row] for row in rows]
    align = ["right" if i in right else "left" for i in range(len(headers))]
    names = [escape(header) for header in headers]
    return tabulate(cells, names, tablefmt="github", disable_numparse=True, colalign=align) if cells else ""


def cut(text: str, most: int) -> str:
    """Return a text of which at most ``most`` characters are left, with dots behind them.

    >>> cut("abcdef", 3), cut("abc", 3)
    ('abc...', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}..."


def json_text(data: object, sort_keys: bool = True) -> str:
    r"""Return plain data as JSON, one value a line, with sorted keys or in their order. Characters that a terminal
    would obey are escaped.

    A parser reads exactly the data, lone surrogates included.

    >>> print(json_text({"b": "é \u202e\x9b", "a": "\ud800"}))
    {
     "a": "\ud800",
     "b": "é \u202e\u009b"
    }
    """
    text = json.dumps(data, indent=1, sort_keys=sort_keys, ensure_ascii=False)
    if text.replace("\n", "").isprintable():  # nearly all texts
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def brief(value: object, most: int = 80) -> str:
    """Return the ``repr`` of a value of a file, cut to ``most`` characters. A larger value is not walked to its end.

    >>> brief({"a": [1, 2.5]}), brief("x" * 1000, 5), brief([[[]]] * 10**6, 9)
    ("{'a': [1, 2.5]}", "'xxxx...", '[[[]], [[...')
    """
    shown = ""
    for piece in _pieces(value, most):
        shown += piece
        if len(shown) > most:
            return f"{shown[:most]}..."
    return shown


def brief_list(values: Iterable[object], most: int = 400) -> str:
    """Return the values, separated by commas; of many or large ones the first.

    >>> brief_list(["a", 1]), brief_list(map(str, range(10**6)), 12)
    ("'a', 1", "'0', '1', '2', ...")
    """
    shown = ""
    for value in values:
        if len(shown) > most:
            return f"{shown}, ..."
        shown += f"{', ' if shown else ''}{brief(value)}"
    return shown


def _pieces(value: object, most: int) -> Iterator[str]:
    if isinstance(value, str):
        yield repr(value[: most + 1])
    elif isinstance(value, Mapping):
        yield "{"
        for number, (key, element) in enumerate(value.items()):
            yield ", " if number else ""
            yield from _pieces(key, most)
            yield ": "
            yield from _pieces(element, most)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, element in enumerate(value):
            yield ", " if number else ""
            yield from _pieces(element, most)
        yield "]"
    else:
        yield repr(value)
