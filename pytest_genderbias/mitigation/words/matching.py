"""Finding and replacing listed words in a text, with the same word boundaries for all methods that change texts."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.errors import SettingError
from pytest_genderbias.text.normal_form import NormalText, word_pattern
from pytest_genderbias.text.unspaced import check_of

_WORD = r"[\w]+(?:[-'][\w]+)*"
_JOINT = re.compile(r"([-'])")
_EDGES = ".,;:!?()[]\"'`…-–—"  #: most characters that adjoin a word without a space
_ADDRESS = re.compile(r"@|://|\bwww\.")
_BLACK = re.compile(r"\S+")


def reach_of(words: Iterable[str]) -> int:
    """Return the number of parts and joints of the longest compound.

    >>> reach_of(["wife", "father-in-law"])
    5
    """
    return max((len(_JOINT.split(word)) for word in words), default=1)


def refuse_uncut(texts: Iterable[str]) -> None:
    """Refuse texts whose words have no spaces between them (:mod:`~pytest_genderbias.text.unspaced`), as a whole.

    Raises:
        SettingError: they are such texts, or one is not a text.
    """
    check_of(map(as_text, texts)).refuse("texts in which words are matched")


def as_text(text: object) -> str:
    """Return a text.

    Raises:
        SettingError: it is none.
    """
    if not isinstance(text, str):
        raise SettingError(f"expected a text, got {text!r:.60}; leave it out, or make it a text")
    return text


def find_words(text: str, forms: Container[str], reach: int = 1) -> list[Span]:
    """Return the spans (start, end) of listed words in a text, in order.

    Most words are looked up between spaces, which is fast. ``'s`` and ``'ll`` are not part of a word. A compound with
    hyphens is matched as a whole if it is listed, otherwise part by part. Nothing is matched in addresses and in words
    with digits or ``_`` inside.

    The words of the text are matched in their normal form (:mod:`~pytest_genderbias.text.normal_form`).

    Args:
        text: any text.
        forms: the words, in each case in which they may be written, in normal form.
        reach: the result of :func:`reach_of` for the words.

    Raises:
        SettingError: ``text`` is not a text.

    >>> find_words("(She'll see her ex-wife.)", {"She", "her", "wife"})
    [(1, 4), (12, 15), (19, 23)]
    """
    normal = NormalText(as_text(text))
    return [normal.span(*span) for span in _matches(normal.text, forms, reach)]


def _matches(text: str, forms: Container[str], reach: int) -> list[Span]:
    start, spans = 0, []
    for word in text.split(" "):
        if word in forms:
            spans.append((start, start + len(word)))
        elif not word.isalpha():
            core = word.strip(_EDGES)
            if core in forms:
                first = start + word.index(core)
                spans.append((first, first + len(core)))
            elif core and not core.isalpha():
                spans += _matches_within(word, start, forms, reach)
        start += len(word) + 1
    return spans


def _matches_within(piece: str, offset: int, forms: Container[str], reach: int) -> Iterator[Span]:
    """Yield the spans of listed words in a piece of text with punctuation, digits or other white space."""
    if _ADDRESS.search(piece):
        if len(parts := list(_BLACK.finditer(piece))) > 1:  # other pieces are on other lines
            for part in parts:
                yield from _matches_within(part[0], offset + part.start(), forms, reach)
        return
    for match in word_pattern(_WORD, piece).finditer(piece):
        word = match[0].strip("_")
        start = offset + match.start() + len(match[0]) - len(match[0].lstrip("_"))
        if word in forms:
            yield start, start + len(word)
        elif _JOINT.search(word):
            yield from _matches_in_compound(_JOINT.split(word), start, forms, reach)


def _matches_in_compound(parts: list[str], start: int, forms: Container[str], reach: int) -> Iterator[Span]:
    """Yield the spans of the longest listed words among the parts, from the left; every second part is a hyphen or
    apostrophe.
    """
    i = 0
    while i < len(parts):
        if i and parts[i - 1] != "-":  # O'Neil, she'll
            start += sum(map(len, parts[i : i + 2]))
            i += 2
            continue
        for j in range(min(len(parts), i + reach), i, -2):
            word = "".join(parts[i:j])
            if word in forms:
                yield start, start + len(word)
                break
        else:
            j = i + 1
        start += sum(map(len, parts[i : j + 1]))
        i = j + 1


def moved_span(span: Span, replacements: Sequence[tuple[int, int, str]]) -> Span:
    """Return where a span lies after :func:`replace_spans`. A span of which a part was replaced has all of the
    replacement.

    >>> text, swaps = "His brother sings.", [(0, 3, "Her"), (4, 11, "sister")]
    >>> start, end = moved_span((0, 11), swaps)
    >>> replace_spans(text, swaps)[start:end]
    'Her sister'
    """
    start, end = span
    new_start, new_end = start, end
    for first, stop, new in replacements:
        if stop <= start:  # before the span
            new_start += len(new) - (stop - first)
        elif first < start:  # across its start
            new_start -= start - first
        if stop <= end:  # before the end
            new_end += len(new) - (stop - first)
        elif first < end:  # across its end
            new_end += first + len(new) - end
    return new_start, new_end


def replace_spans(text: str, replacements: Sequence[tuple[int, int, str]]) -> str:
    """Return a text with each span (start, end, new) replaced; the spans must be in order and must not overlap.

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
