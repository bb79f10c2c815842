"""Escape untrusted text for terminals and markdown."""

from __future__ import annotations

import re


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
