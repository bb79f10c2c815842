"""Where the words of a list stand in a text: one look-up a word, and the same word boundaries for every method that changes texts."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.errors import SettingError

_WORD = re.compile(r"[\w\u0300-\u036f]+(?:[-'’][\w\u0300-\u036f]+)*")
_JOINT = re.compile(r"([-'’])")
_EDGES = ".,;:!?()[]\"'`“”‘’…-–—"  #: most of what stands beside a word without a space
_ADDRESS = re.compile(r"@|://|\bwww\.")
_BLACK = re.compile(r"\S+")


def reach_of(words: Iterable[str]) -> int:
    """Return how many parts and joints the longest compound has.

    >>> reach_of(["wife", "father-in-law"])
    5
    """
    return max((len(_JOINT.split(word)) for word in words), default=1)


def find_words(text: str, forms: Container[str], reach: int = 1) -> list[Span]:
    """Return where words of a list stand in a text, in order: (start, end) of each, as :data:`str` counts.

    Nearly all words are looked up as they stand between spaces, which is fast. ``'s`` and ``'ll`` are no part of a word. A compound
    with hyphens is found whole where the list has it, else part by part. Addresses and words with digits or ``_`` inside have none.

    Args:
        text: any text.
        forms: the words in every case that they are written in.
        reach: :func:`reach_of` them.

    Raises:
        SettingError: it is no text.

    >>> find_words("(She'll see her ex-wife.)", {"She", "her", "wife"})
    [(1, 4), (12, 15), (19, 23)]
    """
    start, found = 0, []
    if not isinstance(text, str):
        raise SettingError(f"expected a text, got {text!r:.60}; leave it out, or make it a text")
    for word in text.split(" "):
        if word in forms:
            found.append((start, start + len(word)))
        elif not word.isalpha():
            core = word.strip(_EDGES)
            if core in forms:
                first = start + word.index(core)
                found.append((first, first + len(core)))
            elif core and not core.isalpha():
                found += _found_within(word, start, forms, reach)
        start += len(word) + 1
    return found


def _found_within(piece: str, offset: int, forms: Container[str], reach: int) -> Iterator[Span]:
    """Find them in what has punctuation, digits or other white space in it."""
    if _ADDRESS.search(piece):
        if len(parts := list(_BLACK.finditer(piece))) > 1:  # others stand on other lines
            for part in parts:
                yield from _found_within(part[0], offset + part.start(), forms, reach)
        return
    for match in _WORD.finditer(piece):
        word = match[0].strip("_")
        start = offset + match.start() + len(match[0]) - len(match[0].lstrip("_"))
        if word in forms:
            yield start, start + len(word)
        elif _JOINT.search(word):
            yield from _found_in_compound(_JOINT.split(word), start, forms, reach)


def _found_in_compound(parts: list[str], start: int, forms: Container[str], reach: int) -> Iterator[Span]:
    """Find the longest words of the list among the parts, from the left; every second part is a hyphen or apostrophe."""
    i = 0
    while i < len(parts):
        if i and parts[i - 1] != "-":  # O'Neil, she'll
            start += sum(map(len, parts[i : i + 2]))
            i += 2
            continue
        for j in range(min(len(parts), i + reach), i, -2):
            word = "".join(parts[i:j])
            if word.replace("’", "'") in forms:
                yield start, start + len(word)
                break
        else:
            j = i + 1
        start += sum(map(len, parts[i : j + 1]))
        i = j + 1


def replace_spans(text: str, replacements: Sequence[tuple[int, int, str]]) -> str:
    """Return a text with each span (start, end, new) replaced; they come in order and do not overlap.

    >>> replace_spans("She sings.", [(0, 3, "He")])
    'He sings.'
    """
    if not replacements:
        return text
    pieces: list[str] = []
    end = 0
    for start, stop, new in replacements:
        pieces += (text[end:start], new)
        end = stop
    return "".join((*pieces, text[end:]))
