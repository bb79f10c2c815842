"""Shared by the families of word vectors: single words as cases, the layer of their vectors, and words without a
vector.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

import numpy as np

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.suites.cases import Answer, TextCases
from pytest_genderbias.suites.family import Option
from pytest_genderbias.suites.statistic import FloatArray
from pytest_genderbias.text.schema import Rule, at_least

_SHOWN = 12  #: The largest number of words that a note lists.
_FEWEST = 3  #: words of a set that have to be known, or all but one of a smaller set


def layer(default: str) -> Option:
    """Return an option for the layer of a network: ``last``, ``input`` (embeddings), or the number of a layer."""
    return Option(
        default,
        Annotated[Literal["last", "input"] | Annotated[int, at_least(0)], Rule("last, input or the number of a layer")],
        "layer of a network's vectors: last layer, input embeddings, or the number of a layer (0: embedding layer)",
    )


def bare_words(words: Sequence[str]) -> TextCases:
    """Return words as cases, each after a space, so that every tokenizer splits it as inside a text.

    GPT-2, RoBERTa and ModernBERT have other tokens for a word at the beginning of a text.
    """
    return TextCases([(f" {word}",) for word in words], [((1, 1 + len(word)),) for word in words])


def known_vectors(words: Sequence[str], answer: Answer) -> dict[str, FloatArray]:
    """Return the vector of each word that has one, from the answer about them; the row of another word is NaN."""
    rows = answer.in_order().astype(np.float64)
    return {word: row for word, row in zip(words, rows, strict=True) if np.isfinite(row).all()}


def missing_note(missing: Mapping[str, Sequence[str]], total: int, what: str) -> list[str]:
    """Return a note that counts the words without a vector and lists the first dozen, by set.

    >>> missing_note({"names": ["Amy", "Joan"], "career": []}, 16, "no vector")
    ['2 of 16 words left out, with no vector: Amy, Joan (names)']
    """
    count = sum(map(len, missing.values()))
    if not count:
        return []
    left = _SHOWN
    parts = []
    for label, words in missing.items():
        if words and left > 0:
            parts.append(f"{', '.join(words[:left])}{' ...' if len(words) > left else ''} ({label})")
            left -= len(words)
    return [f"{count} of {total} words left out, with {what}: {'; '.join(parts)}"]


def check_enough_known(label: str, words: Sequence[str], known: Collection[str], what: str) -> None:
    """Refuse a set of which too few words have a vector, or whatever ``what`` says.

    Raises:
        UndefinedError: they are too few.
    """
    count, needed = sum(word in known for word in words), max(1, min(_FEWEST, len(words) - 1))
    if count < needed:
        raise UndefinedError(
            f"{count} of {len(words)} words of the set {label!r} have a {what}; at least {needed} are needed"
        )
