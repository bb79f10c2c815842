"""Escape what a terminal or the log of a CI service would obey: below every other module, so that errors can use it,
too.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

#: What GitHub Actions and Azure Pipelines take for a command: ``::error`` at the beginning of a line, behind spaces,
#: too; ``##[error]`` and ``##vso[...]`` anywhere in a line. The character that is escaped. Behind any space a line may
#: be broken by
#: whoever shows it.
_COMMAND = re.compile(r"(?<!\S):(?=:)|(?<=#)#(?=\w*\[)")
_ARABIC_OR_HEBREW = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff"
#: From a letter that is written from right to left to the last one before a Latin letter or the end of a cell.
_FROM_RIGHT = re.compile(rf"[{_ARABIC_OR_HEBREW}](?:(?:(?!  )[^A-Za-z\n])*[{_ARABIC_OR_HEBREW}])?")


def printable(text: str, keep: str = "") -> str:
    r"""Return a text with control, format and bidirectional characters escaped, except those in ``keep``.

    A terminal prints the result as it is: the text cannot move the cursor, set a colour or reverse a line. No line of
    it is a command to a CI service that reads the log. It can be encoded as UTF-8, since lone surrogates are escaped,
    too. To escape the result again changes nothing.

    >>> printable("a\x1b[31m\x9b1m\u202eb"), printable("a\nb", keep="\n")
    ('a\\x1b[31m\\x9b1m\\u202eb', 'a\nb')
    >>> printable("a::b\n ::error::c", keep="\n"), printable("a\n::b")
    ('a::b\n \\x3a:error::c', 'a\\n::b')
    >>> printable("wrapped ::c")
    'wrapped \\x3a:c'
    """
    rest = text
    for kept in keep:
        rest = rest.replace(kept, "")
    if not rest.isprintable():  # few texts
        obeyed = {c for c in set(text) if not c.isprintable() and c not in keep}
        text = text.translate({ord(c): c.encode("unicode_escape").decode() for c in obeyed})
    if "::" in text or "##" in text:
        text = _COMMAND.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    return text


def isolated(text: str) -> str:
    """Return a text for a terminal in which words that are written from right to left move nothing beside them.

    Each run of such words stands between U+2068 and U+2069, which have no width: a number after it stays after it.

    >>> isolated("\u0628\u0646\u062a  0.5, bint") == "\u2068\u0628\u0646\u062a\u2069  0.5, bint"
    True
    """
    return text if text.isascii() else _FROM_RIGHT.sub("\u2068\\g<0>\u2069", text)


def print_lines(text: str, stream: TextIO | None = None) -> None:
    """Print a text, which may come from files, to standard output or another stream: lines stay, all else is escaped.

    Characters that the stream cannot encode are also escaped.
    """
    to = sys.stdout if stream is None else stream
    encoding = to.encoding or "utf-8"
    shown = printable(text, keep="\n")
    if encoding.lower().startswith("utf"):
        shown = isolated(shown)
    print(shown.encode(encoding, "backslashreplace").decode(encoding), file=to, flush=True)
