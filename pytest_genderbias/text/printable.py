"""Escape untrusted text for terminals and markdown, and show untrusted values in a few words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with control, format and bidirectional characters escaped, except those in ``keep``.

    A terminal prints the result as it is: the text cannot move the cursor, set a colour or reverse a line.

    >>> printable("a\x1b[31m\x9b1m\u202eb"), printable("a\nb", keep="\n")
    ('a\\x1b[31m\\x9b1m\\u202eb', 'a\nb')
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


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
