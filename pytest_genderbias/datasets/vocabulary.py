"""The words of a corpus: their ids, their groups, and the words that can be scored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import SettingError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief

Ids = NDArray[np.int64]


class Vocabulary(dict[str, int]):
    """Word ids in the order of first appearance. Looking up a new word adds it.

    Args:
        words: Initial words, such as the gendered ones; their case is kept.
        fold_case: Convert all other words to lower case.

    >>> vocabulary = Vocabulary(["She"], fold_case=True)
    >>> [vocabulary[word] for word in ("She", "Sings", "sings", "she")], vocabulary.words
    ([0, 1, 1, 2], ['She', 'sings', 'she'])
    """

    def __init__(self, words: Iterable[str] = (), *, fold_case: bool = False) -> None:
        super().__init__()
        self.words: list[str] = []
        self.fold_case = fold_case
        for word in words:
            self.add(normal_form(word))

    def add(self, word: str) -> int:
        """Return the id of a word, adding it if it is new. Its case is kept, also with ``fold_case``."""
        known = self.get(word)
        if known is not None and self.words[known] == word:
            return known
        self.words.append(word)
        self[word] = len(self.words) - 1
        return self[word]

    def __missing__(self, word: str) -> int:
        """Add a word of a text, in lower case with ``fold_case``, and return its id."""
        if not self.fold_case or word == word.lower():
            return self.add(word)
        self[word] = self[word.lower()]
        return self[word]

    def ids(self, tokens: Sequence[str]) -> Ids:
        """Return the id of each token, shape (n,)."""
        return np.fromiter(map(self.__getitem__, tokens), dtype=np.int64, count=len(tokens))


def label_groups(vocabulary: Vocabulary, groups: Sequence[Iterable[str]]) -> NDArray[np.int8]:
    """Add the words of G groups to the vocabulary and return the group of each of its V words.

    Returns:
        The groups, shape (V,): 1 to G, or 0 for a word without a group.

    Raises:
        SettingError: a word is in two groups.

    >>> label_groups(Vocabulary(["sings"]), [["she", "her"], ["he"]])
    array([0, 1, 1, 2], dtype=int8)
    """
    numbers: dict[str, int] = {}
    for number, words in enumerate(groups, 1):
        for word in map(normal_form, words):
            if numbers.setdefault(word, number) != number:
                raise SettingError(f"{brief(word)} is in two groups; remove it from one of them")
    for word in numbers:
        vocabulary.add(word)
    return np.array([numbers.get(word, 0) for word in vocabulary.words], dtype=np.int8)


def scorable_words(
    words: Sequence[str], labels: ArrayLike, stop_words: Iterable[str] = (), *, punctuation: bool = False
) -> NDArray[np.bool_]:
    """Return which words can be scored, shape (V,): not words of a group, stop words, ``<unk>`` or punctuation.

    Args:
        words: The vocabulary, shape (V,).
        labels: The group of each word, 0 for none; words beyond its length have no group.
        stop_words: Words that are left out; case is ignored.
        punctuation: Whether tokens without a letter or digit can be scored.

    >>> scorable_words(["she", "sings", "The", "<unk>", "."], [1], ["the"]).tolist()
    [False, True, False, False, False]
    """
    stop = {normal_form(word).lower() for word in stop_words}
    kept = [punctuation or not is_punctuation(word) for word in words]
    known = [word.lower() not in stop and not _is_tag(word) for word in words]
    scorable = np.array(kept, dtype=np.bool_) & np.array(known, dtype=np.bool_)
    gendered = np.flatnonzero(np.asarray(labels))
    scorable[gendered[gendered < len(scorable)]] = False
    return scorable


def is_punctuation(token: str) -> bool:
    """Return whether a token has no letter and no digit.

    >>> is_punctuation("@-@"), is_punctuation("60"), is_punctuation("'s")
    (True, False, False)
    """
    return not any(map(str.isalnum, token))


def _is_tag(token: str) -> bool:
    """Return whether a token stands for others, as ``<unk>``."""
    return len(token) > 2 and token.startswith("<") and token.endswith(">")
