"""CEAT: 10,000 draws with the sizes of stimulus 6, compared with loops that compute the cosines of each draw anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rows import Row, ratio
from timing import medians

from pytest_genderbias.statistics.association import ceat

_WORDS, _DIM = 8, 768  #: words in each of the four sets, and the width of a base-sized encoder
_SEED = 0
FloatArray = NDArray[np.float64]
WordSet = list[FloatArray]
Effect = Callable[[WordSet, WordSet, WordSet, WordSet], float]


def run(quick: bool) -> list[Row]:
    """Time CEAT on constructed vectors, and compare its effect sizes with those of the loops."""
    draws, contexts, fewer = (500, 20, 20) if quick else (10_000, 200, 500)
    sets = _word_sets(contexts)
    times = medians(
        {
            "ours": lambda: ceat(*sets, draws=draws, seed=_SEED),
            "words": lambda: _loop(sets, fewer, _word_by_word),
            "matrices": lambda: _loop(sets, fewer, _by_matrices),
        },
        1 if quick else 3,
    )
    name, unit = f"CEAT, {draws:,} draws of {4 * _WORDS} words x {contexts} contexts", "draws/s"
    ours = draws / times["ours"]
    our_sizes = ceat(*sets, draws=fewer, seed=_SEED).effect_sizes
    same = np.mean(np.abs(our_sizes - _loop(sets, fewer, _word_by_word)) < 1e-9)
    return [
        Row(name, times["ours"], "s", times["ours"], "s", at_most=2.0),
        ratio(name, ours, fewer / times["words"], f"loop over draws and pairs of words, rate on {fewer}", unit, 20.0),
        ratio(name, ours, fewer / times["matrices"], f"loop over draws, a matrix each, rate on {fewer}", unit),
        Row(f"{name}: the loop's effect sizes", fewer, "draws", 100.0 * float(same), "%", at_least=100.0),
    ]


def _word_sets(contexts: int) -> list[WordSet]:
    """Return X, Y, A, B: the context vectors of a word are scattered around a vector of the word."""
    rng = np.random.default_rng(_SEED)
    return [[rng.normal(size=_DIM) + rng.normal(size=(contexts, _DIM)) for _ in range(_WORDS)] for _ in range(4)]


def _loop(sets: list[WordSet], draws: int, effect: Effect) -> FloatArray:
    """Return the effect size of each draw, on the contexts that our implementation draws."""
    rng = np.random.default_rng(_SEED)
    halves = (sets[0] + sets[1], sets[2] + sets[3])
    drawn = [rng.integers([len(word) for word in words], size=(draws, len(words))) for words in halves]
    effects = []
    for rows in zip(*drawn, strict=True):
        (targets, attributes) = (
            [word[i] for word, i in zip(words, row, strict=True)] for words, row in zip(halves, rows, strict=True)
        )
        effects.append(effect(targets[:_WORDS], targets[_WORDS:], attributes[:_WORDS], attributes[_WORDS:]))
    return np.asarray(effects)


def _word_by_word(x: WordSet, y: WordSet, a: WordSet, b: WordSet) -> float:
    """Return the effect size, with one cosine at a time."""

    def cosine(u: FloatArray, v: FloatArray) -> float:
        return float(u @ v / np.sqrt((u @ u) * (v @ v)))

    s = [np.mean([cosine(w, v) for v in a]) - np.mean([cosine(w, v) for v in b]) for w in x + y]
    return float((np.mean(s[: len(x)]) - np.mean(s[len(x) :])) / np.std(s, ddof=1))


def _by_matrices(x: WordSet, y: WordSet, a: WordSet, b: WordSet) -> float:
    """Return the effect size, with one matrix of cosines."""
    u, v = np.asarray(x + y), np.asarray(a + b)
    table = u @ v.T / np.outer(np.linalg.norm(u, axis=1), np.linalg.norm(v, axis=1))
    s = table[:, : len(a)].mean(axis=1) - table[:, len(a) :].mean(axis=1)
    return float((s[: len(x)].mean() - s[len(x) :].mean()) / s.std(ddof=1))
