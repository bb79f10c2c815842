"""Escape characters that a terminal would obey: below every other module, so that errors can use it, too."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with control, format and bidirectional characters escaped, except those in ``keep``.

    A terminal prints the result as it is: the text cannot move the cursor, set a colour or reverse a line. It can be encoded as
    UTF-8, since lone surrogates are escaped, too. To escape the result again changes nothing.

    >>> printable("a\x1b[31m\x9b1m\u202eb"), printable("a\nb", keep="\n")
    ('a\\x1b[31m\\x9b1m\\u202eb', 'a\nb')
    """
    rest = text
    for kept in keep:
        rest = rest.replace(kept, "")
    if rest.isprintable():  # nearly all texts
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
