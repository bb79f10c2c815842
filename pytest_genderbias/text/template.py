"""Sentences with slots.

A template is a text with slots in braces: ``"The {occupation} {verb} {a:object} {object}."``. ``{slot}`` is replaced by
the word, ``{slot:form}`` by a form of it that its list declares, ``{a:slot}`` by its indefinite article (which may be
empty), ``{blank}`` by the mask. White space before a slot belongs to the slot, as for most tokenizers, so an empty
article leaves no double space.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

#: Without the white space before it, which takes a time quadratic in its length.
_SLOT = re.compile(r"\{(?:(a):)?([A-Za-z_]\w*(?::[\w.*]+)?)\}")
BLANK = "blank"


@dataclass(frozen=True)
class Word:
    """A word that fills a slot: its text in a sentence, its article, and its label in tables (the word-list entry)."""

    text: str
    article: str
    label: str

    @classmethod
    def of(cls, text: str, article: str | None = None, label: str | None = None) -> Word:
        """Make a word. Without ``article``, its pronunciation decides; without ``label``, the text is the label."""
        return cls(text, indefinite_article(text) if article is None else article, label or text)


@dataclass(frozen=True)
class Piece:
    """A part of a template: fixed text (``slot`` is empty), the word or the article of a slot, or the blank.

    ``slot``: its name, with the form after a colon where the template asks for one (``occupation:female``).
    """

    lead: str
    text: str = ""
    slot: str = ""
    article: bool = False

    @property
    def is_slot(self) -> bool:
        """Whether this piece is the word or the article of a slot."""
        return self.slot not in ("", BLANK)

    @property
    def name(self) -> str:
        """The name of the slot without the form."""
        return self.slot.partition(":")[0]

    @property
    def form(self) -> str:
        """The form of the word; empty for the word itself."""
        return self.slot.partition(":")[2]

    def fills(self, slot: str) -> bool:
        """Return whether this piece is the word of a slot, in whatever form."""
        return self.name == slot and not self.article


def parse_template(text: str) -> tuple[Piece, ...]:
    """Split a template into its pieces.

    >>> [p.slot or p.text for p in parse_template("The {x} likes {a:y} {y:plural}.")]
    ['The', 'x', ' likes', 'y', 'y:plural', '.']
    """
    pieces: list[Piece] = []
    end = 0
    for match in _SLOT.finditer(text):
        before = text[end : match.start()]
        fixed = before.rstrip()
        if fixed:
            pieces.append(Piece("", fixed))
        pieces.append(Piece(before[len(fixed) :], slot=match[2], article=match[1] is not None))
        end = match.end()
    if end < len(text):
        pieces.append(Piece("", text[end:]))
    return tuple(pieces)


def slots_of(pieces: Iterable[Piece]) -> set[str]:
    """Return the names of the slots in the pieces, without the blank."""
    return {piece.slot for piece in pieces if piece.is_slot}


def piece_texts(pieces: Iterable[Piece], word_in: Callable[[str], Word], mask: str) -> list[str]:
    """Return the text of each piece with the slots filled; joined, the texts are the sentence.

    A word at the start of the sentence is capitalised.

    Args:
        pieces: The pieces of a template.
        word_in: Returns the word for the name of a slot.
        mask: The text that replaces the blank.
    """
    texts: list[str] = []
    started = False
    for piece in pieces:
        if not piece.slot:
            body = piece.text
        elif piece.slot == BLANK:
            body = mask
        else:
            word = word_in(piece.slot)
            body = word.article if piece.article else word.text
            if body and not started:
                body = body[0].upper() + body[1:]
        texts.append(piece.lead + body if body else "")
        started = started or bool(body)
    return texts


_AN = re.compile(r"^(?:[aeiou]|hour|honest|honou?r|heir)")
_A = re.compile(r"^(?:uni(?!n|m|d(?!ir))|unanim|us[aeiu]|ut[aeio]|ur[aeiou]|uga|eu|ewe|one(?![ir])|once|ubiq|uk(?=r))")
_INITIALS = re.compile(r"^(?:[A-Z]\.?){2,}$|^[A-Za-z]$")


def indefinite_article(word: str) -> str:
    """Return ``a`` or ``an``, by the pronunciation of the word.

    A word in capitals, or a single letter before a hyphen, is pronounced letter by letter. The attribute ``article`` of
    a word-list entry overrides this rule.

    >>> [indefinite_article(w) for w in ("bagel", "apple", "hour", "university", "SUV", "VIP", "urchin", "European")]
    ['a', 'an', 'an', 'a', 'an', 'a', 'an', 'a']
    """
    first = re.split(r"[\s-]", word, maxsplit=1)[0]
    if _INITIALS.match(first):
        return "an" if first[0].upper() in "AEFHILMNORSX" else "a"
    lower = first.lower()
    if _A.match(lower):
        return "a"
    return "an" if _AN.match(lower) else "a"
