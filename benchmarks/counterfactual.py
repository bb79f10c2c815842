"""Counterfactual data augmentation of a constructed text: words per second, compared with common implementations for
the same pairs.
"""

from __future__ import annotations

import re
from collections import deque
from functools import partial
from typing import Any

import numpy as np
from rows import Row, ratio
from timing import medians

from pytest_genderbias.mitigation.methods.counterfactual import augment
from pytest_genderbias.mitigation.words.pairs import name_partners, read_names, read_pairs

_WORDS = 20_000
_GENDERED = 0.03  #: share of words that have a partner, as in novels and newspapers
_SENTENCE = 20
_PAIRS = read_pairs("lu2018-pairs")


def run(quick: bool) -> list[Row]:
    """Compare the speed of all interventions with one long pattern, a pattern per pair, and a look-up per word."""
    sentences, repeats = (1_000, 1) if quick else (50_000, 5)
    texts = _texts(sentences)
    few = texts[: max(100, sentences // 50)]
    _assert_same(few)
    names = name_partners(read_names())
    spent = medians(
        {
            "naive": partial(_drain, texts),
            "names": partial(_drain, texts, names=names),
            "grammatical": partial(_drain, texts, intervention="grammatical"),
            "alternation": partial(_each, _by_alternation(), few),
            "pair by pair": partial(_each, _by_pair(), few),
            "split": partial(_each, _by_split, texts),
        },
        repeats,
    )
    rate = {name: _n_words(few if name in ("alternation", "pair by pair") else texts) / s for name, s in spent.items()}
    name = f"counterfactual text, {_n_words(texts):,} words"
    return [
        Row(f"{name}: naive, one core", rate["naive"], "words/s", rate["naive"] / 1e6, "M words/s", at_least=1.0),
        ratio(f"{name}: naive", rate["naive"], rate["alternation"], "one long alternation", "words/s", 3.0),
        ratio(
            f"{name}: naive",
            rate["naive"],
            rate["pair by pair"],
            "a pattern for each word, one after the other",
            "words/s",
            20.0,
        ),
        ratio(
            f"{name}: naive",
            rate["naive"],
            rate["split"],
            "str.split and a dictionary, blind to punctuation",
            "words/s",
        ),
        ratio(
            f"{name}: naive with names", rate["names"], rate["alternation"], "one long alternation, no names", "words/s"
        ),
        ratio(
            f"{name}: grammatical, by rules",
            rate["grammatical"],
            rate["alternation"],
            "one long alternation, naive",
            "words/s",
        ),
    ]


def _texts(sentences: int) -> list[str]:
    """Draw words of letters by Zipf's law, 3 % of them gendered, with commas, full stops and capitals like
    sentences.
    """
    generator = np.random.default_rng(0)
    weights = 1 / np.arange(1.0, _WORDS + 1)
    ids = generator.choice(_WORDS, size=sentences * _SENTENCE, p=weights / weights.sum())
    words = np.array([_spell(i) for i in range(_WORDS)], dtype=object)[ids]
    gendered = np.array(sorted(word for word in _PAIRS.partner if word.isascii()), dtype=object)
    places = generator.random(len(words)) < _GENDERED
    words[places] = generator.choice(gendered, size=int(places.sum()))
    commas = generator.random(len(words)) < 0.06
    words[commas] += ","
    rows = words.reshape(sentences, _SENTENCE)
    return [f"{' '.join(row).capitalize()}." for row in rows.tolist()]


def _spell(number: int) -> str:
    letters = ""
    while number or len(letters) < 3:
        number, letter = divmod(number, 20)
        letters += "bcdfghjklmnpqrstvwxz"[letter] + "ou"[letter % 2]
    return letters


def _n_words(texts: list[str]) -> int:
    return len(texts) * _SENTENCE


def _drain(texts: list[str], **options: Any) -> None:
    deque(augment(texts, _PAIRS, sides="one", neutral="once", **options), maxlen=0)


def _each(swap: Any, texts: list[str]) -> None:
    for text in texts:
        swap(text)


def _by_alternation() -> Any:
    """Return a swap by one pattern of all forms, the longest first, as a careful user writes it."""
    forms = _PAIRS.forms
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, forms), key=len, reverse=True))})(?!\w)")
    return lambda text: pattern.sub(lambda match: forms[match[0]], text)


def _by_pair() -> Any:
    """Return a swap of one form after the other, with marks that keep a word from being swapped back, like loops over
    pairs.
    """
    patterns = [
        (re.compile(rf"(?<!\w){re.escape(word)}(?!\w)"), f"\0{'.'.join(partner)}\0")
        for word, partner in _PAIRS.forms.items()
    ]

    def swap(text: str) -> str:
        for pattern, marked in patterns:
            text = pattern.sub(marked, text)
        return re.sub("\0([^\0]*)\0", lambda match: match[1][::2], text)

    return swap


def _by_split(text: str) -> str:
    return " ".join([_PAIRS.forms.get(word, word) for word in text.split()])


def _assert_same(texts: list[str]) -> None:
    ours = list(augment(texts, _PAIRS, sides="one", neutral="once"))
    assert texts != ours == list(map(_by_alternation(), texts))
    assert ours[:100] == list(map(_by_pair(), texts[:100]))
