"""Text that somebody else wrote, made safe to print."""

from __future__ import annotations

import re


def printable(text: str, keep: str = "") -> str:
    r"""Return a text that moves no cursor, sets no colour and turns no line around: control, format and bidi characters as escapes.

    >>> printable("a\x1b[31m\x9b1m\u202eb"), printable("a\nb", keep="\n")
    ('a\\x1b[31m\\x9b1m\\u202eb', 'a\nb')
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def escape(text: str) -> str:
    """Escape what markdown would read as markup, and what a terminal would read as a command.

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
