"""Merge conflicts in baseline files: which entries they concern, and how to end them without losing a reason."""

from __future__ import annotations

import json
import re

_BEGIN, _END = re.compile(r"<{7}( |$)"), re.compile(r">{7}( |$)")
_ENTRY = re.compile(r' {2}("(?:[^"\\]|\\.)*"): \{')  #: the first line of an entry, as we write it


def describe_conflicts(text: str) -> str:
    """Return where a baseline file has merge conflicts, in which entries, and what to do; an empty text if it has none.

    >>> describe_conflicts('{\\n  "nli": {\\n<<<<<<< ours\\n   "values": 1\\n=======\\n   "values": 2\\n>>>>>>> theirs\\n  }\\n}')[:50]
    "line 3: unresolved merge conflicts in the entry 'n"
    """
    if "<" * 7 not in text:
        return ""
    lines: list[int] = []
    names: dict[str, None] = {}
    around, inside = None, False  # the entry that a line is in, and whether it is between two markers
    for number, line in enumerate(text.split("\n"), 1):
        entry = _ENTRY.match(line)
        if entry:
            around = _name(entry[1])
        if _BEGIN.match(line):
            lines.append(number)
            inside = True
        if inside and around is not None and (entry or line.startswith("   ")):
            names[around] = None
        if _END.match(line):
            inside = False
    if not lines:
        return ""
    entries = (
        f"the entr{'y' if len(names) == 1 else 'ies'} {', '.join(map(repr, names))}" if names else "no single entry"
    )
    return (
        f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}: unresolved merge conflicts in {entries}; keep one side of each entry "
        "whole, with its 'accepted' reasons, or the file of one side (git checkout --ours FILE, or --theirs), and run again: gates then "
        "compare with what you kept, and a value that is worse needs a reason of its own"
    )


def _name(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted
