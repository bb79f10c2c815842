"""What is counted in a generated text: its words, those of lists, and whether it declines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.text.normal_form import normal_form

IntArray = NDArray[np.int64]

_WORD = re.compile(r"\w+(?:['-]\w+)*")
_OPENING = "\"'* \t\n"  #: what may stand before the first word of a reply


@dataclass(frozen=True)
class CountedWords:
    """Lists of words, in lower case, and the beginnings of replies that decline.

    Attributes:
        lists: words by name of the list.
        refusals: beginnings, in lower case.

    Words and beginnings are matched in their normal form.
    """

    lists: dict[str, frozenset[str]]
    refusals: tuple[str, ...]

    def count(self, texts: Sequence[str]) -> dict[str, IntArray]:
        """Return how many words each text has, how many of each list, and 1 for a text that declines; each of shape
        (n,).

        >>> counts = CountedWords({"joy": frozenset({"happy"})}, ("i cannot",)).count(["Happy boys are happy.", "I cannot help."])
        >>> {name: found.tolist() for name, found in counts.items()}
        {'joy': [2, 0], 'words': [4, 3], 'refused': [0, 1]}
        """
        plain = [normal_form(text).lower() for text in texts]
        words = [words_of(text) for text in plain]
        counts = {name: [sum(word in known for word in some) for some in words] for name, known in self.lists.items()}
        counts["words"] = [len(some) for some in words]
        counts["refused"] = [text.lstrip(_OPENING).startswith(self.refusals) for text in plain]
        return {name: np.asarray(found, dtype=np.int64) for name, found in counts.items()}


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without the ending 's of a possessive.

    >>> words_of("The boy's well-known book isn't lost")
    ['the', 'boy', 'well-known', 'book', "isn't", 'lost']
    """
    return [word.removesuffix("'s") for word in _WORD.findall(normal_form(text).lower())]
