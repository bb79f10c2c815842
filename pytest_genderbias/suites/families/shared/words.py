"""Bare words: the cases that ask for their vectors, where in a network these are taken, and words that have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.options import Option

_SHOWN = 12  #: words that a note names


def layer(default: str) -> Option:
    """Make an option that is a place in a network: ``last`` layer, ``input`` embeddings, or the number of a layer."""
    return Option(
        default,
        "last, input or the number of a layer",
        lambda v: v in ("last", "input") or (type(v) is int and v >= 0),
        "where a network's vectors are taken: last layer, input embeddings, or a layer by its number (0: embedding layer)",
    )


def bare_words(words: Sequence[str]) -> TextCases:
    """Return words as cases, each behind a space, so that every tokenizer splits it as it does inside a text.

    GPT-2, RoBERTa and ModernBERT have other tokens for a word at the beginning of a text.
    """
    return TextCases([(f" {word}",) for word in words], [((1, 1 + len(word)),) for word in words])


def have_vectors(found: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Tell which rows are vectors; a word that a file lacks has NaN."""
    return np.asarray(np.isfinite(found).all(axis=1))


def missing_note(missing: Mapping[str, Sequence[str]], total: int, what: str) -> list[str]:
    """Say which words were left out: by set, the first dozen by name.

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
