"""Mentions as character spans in a text, with or without their determiner, and the gender of pronouns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from pytest_genderbias.text.normal_form import NormalText, normal_form, word_pattern
from pytest_genderbias.text.wordlist import PRONOUN_FORMS, load_wordlist

#: A range of characters [start, end) in a text.
Span = tuple[int, int]

_DETERMINER = r"\b(?:the|an?)\s+"
_POSSESSION = re.compile(r"\s?['’]s?\s+\S")


def words_of(text: str, span: Span) -> str:
    """Return the words in a span.

    >>> words_of("The nurse left.", (4, 9))
    'nurse'
    """
    return text[span[0] : span[1]]


def with_determiner(text: str, span: Span) -> Span:
    """Return the span extended by the determiner (the, a, an) before it, unless it begins with one.

    >>> with_determiner("The nurse left.", (4, 9)), with_determiner("The nurse left.", (0, 9))
    ((0, 9), (0, 9))
    """
    before = re.search(_DETERMINER + r"\Z", text[: span[0]], re.IGNORECASE)
    if before is None or without_determiner(text, span) != span:
        return span
    return before.start(), span[1]


def without_determiner(text: str, span: Span) -> Span:
    """Return the span without its initial determiner (the, a, an); a repeated determiner is also removed.

    >>> without_determiner("The nurse left.", (0, 9))
    (4, 9)
    """
    first = re.match(f"(?:{_DETERMINER})+", words_of(text, span), re.IGNORECASE)
    return span[0] + (first.end() if first else 0), span[1]


def is_mention_of(text: str, mention: Span, person: Span) -> bool:
    """Return whether a mention in the output of a system is a mention of a person.

    Determiners are ignored. The mention may be longer than the person's ("the physician complaining about sores", "the
    baker's"), but not if it continues with a possession ("the baker's kitchen").

    >>> text = "The baker's kitchen is small."
    >>> is_mention_of(text, (0, 9), (4, 9)), is_mention_of(text, (0, 11), (0, 9)), is_mention_of(text, (0, 19), (0, 9))
    (True, True, False)
    """
    start, end = without_determiner(text, mention)
    first, final = without_determiner(text, person)
    return start == first and end >= final and not _POSSESSION.match(text, final, end)


def find_words(text: str, words: Iterable[str]) -> list[Span]:
    """Return the spans of the words in a text: whole words, case ignored, the longest of several matches.

    >>> find_words("The construction worker met a Worker.", ["worker", "construction worker"])
    [(4, 23), (30, 36)]
    """
    longest_first = sorted(map(re.escape, map(normal_form, words)), key=len, reverse=True)
    normal = NormalText(text)
    any_of = word_pattern(rf"(?<![\w])(?:{'|'.join(longest_first)})(?![\w])", normal.text, re.IGNORECASE)
    return [normal.span(*match.span()) for match in any_of.finditer(normal.text)]


def gender_of_pronoun(word: str) -> str | None:
    """Return the gender of a third-person pronoun in any form, by the packaged list ``pronouns``, or None.

    >>> gender_of_pronoun("Her"), gender_of_pronoun("themselves"), gender_of_pronoun("it")
    ('female', 'neutral', None)
    """
    return pronoun_genders().get(normal_form(word).lower())


@cache
def pronoun_genders() -> Mapping[str, str]:
    """Return the gender of every form of every pronoun, in lower case."""
    entries = load_wordlist("pronouns").entries
    return {e.attributes[form].lower(): e.attributes["group"] for e in entries for form in PRONOUN_FORMS}
