"""Co-occurrence with gendered words in a constructed text: array operations, compared with plain loops over the
definition.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rows import Row, ratio
from subprocesses import answer_of, main, peak_bytes
from timing import medians

from pytest_genderbias.datasets.corpora import Vocabulary, feed_corpus, label_groups
from pytest_genderbias.statistics.cooccurrence import ContextWindow, CooccurrenceCounter

_WORDS = 20_000
_GROUPS = ((10, 25, 60), (7, 20, 30))  #: ranks of the gendered words: 3 % of the tokens, as in novels and newspapers
_REACH = 100  #: distance at which the plain loop truncates the infinite context
_MIB = 1 << 20


def run(quick: bool) -> list[Row]:
    """Compare speeds and counts, then the memory for a document and for one of ten times the length."""
    tokens, sample, repeats = (400_000, 10_000, 1) if quick else (4_000_000, 100_000, 3)
    ids = _text(tokens)
    rows = []
    for name, context, reach, wanted in (
        ("fixed context", ContextWindow(1.0, 10), 10, 40.0),
        ("infinite context, untruncated", ContextWindow(), _REACH, 100.0),
    ):
        rows += _compare(f"{name}, {tokens:,} tokens", context, reach, ids, sample, repeats, wanted)
    return [*rows, *_read(400_000 if quick else 2_000_000)]


def _compare(
    name: str, context: ContextWindow, reach: int, ids: Any, sample: int, repeats: int, wanted: float
) -> list[Row]:
    first = ids[:sample].tolist()
    _assert_same(context, reach, ids[:sample], first)
    spent = medians(
        {
            "ours": partial(_ours, context, ids),
            "every word": partial(_loop_over_words, first, reach),
            "gendered words": partial(_loop_over_gendered_words, first, reach),
        },
        repeats,
    )
    ours = len(ids) / spent["ours"]
    cut = "" if context.decay == 1 else f" cut at {reach}"
    return [
        ratio(
            name, ours, sample / spent["every word"], f"loop over every word and its window{cut}", "tokens/s", wanted
        ),
        ratio(
            name, ours, sample / spent["gendered words"], f"loop over the windows of gendered words{cut}", "tokens/s"
        ),
    ]


def _read(tokens: int) -> list[Row]:
    few, many = (answer_of(__file__, n) for n in (tokens, 10 * tokens))
    name = f"corpus of {10 * tokens:,} tokens, read and counted in both contexts"
    beside = f"{tokens:,} tokens"
    memory = Row(
        f"{name}: peak memory",
        many["peak"] / _MIB,
        "MiB",
        many["peak"] / few["peak"],
        "x",
        beside,
        few["peak"] / _MIB,
        at_most=1.1,
    )
    return [
        memory,
        Row(name, 10 * tokens / many["seconds"], "tokens/s", baseline=beside, baseline_value=tokens / few["seconds"]),
    ]


def measure_once(tokens: int) -> dict[str, Any]:
    """Read a document from a file, and count its co-occurrences."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        with path.open("w") as file:
            for part in range(tokens // 100_000):
                file.write(" ".join(f"w{i}" for i in _text(100_000, part)) + " .\n")
        vocabulary = Vocabulary()
        labels = label_groups(vocabulary, [[f"w{i}" for i in group] for group in _GROUPS])
        counters = [CooccurrenceCounter(labels, context) for context in (ContextWindow(1.0, 10), ContextWindow())]
        start = time.perf_counter()
        size = feed_corpus(path, vocabulary, *(counter.feed for counter in counters))
        spent = time.perf_counter() - start
    assert size.documents == 1 and all(counter.result().words.sum() == size.tokens for counter in counters)
    return {"peak": peak_bytes(), "seconds": spent}


def _text(tokens: int, seed: int = 0) -> Any:
    """Draw words by Zipf's law."""
    weights = 1 / np.arange(1.0, _WORDS + 1)
    return np.random.default_rng(seed).choice(_WORDS, size=tokens, p=weights / weights.sum())


def _labels() -> Any:
    labels = np.zeros(_WORDS, dtype=np.int8)
    for number, group in enumerate(_GROUPS, 1):
        labels[list(group)] = number
    return labels


def _ours(context: ContextWindow, ids: Any) -> Any:
    counter = CooccurrenceCounter(_labels(), context)
    counter.feed(ids, [len(ids)])
    return counter.result().pairs


def _weights(reach: int) -> list[float]:
    return [1.0] * (reach + 1) if reach < _REACH else [0.95**distance for distance in range(reach + 1)]


def _loop_over_words(ids: list[int], reach: int) -> list[list[float]]:
    labels, weights = _labels().tolist(), _weights(reach)
    counts = [[0.0] * _WORDS for _ in _GROUPS]
    for i, word in enumerate(ids):
        for j in range(max(0, i - reach), min(len(ids), i + reach + 1)):
            group = labels[ids[j]]
            if group and i != j:
                counts[group - 1][word] += weights[abs(i - j)]
    return counts


def _loop_over_gendered_words(ids: list[int], reach: int) -> list[list[float]]:
    labels, weights = _labels().tolist(), _weights(reach)
    counts = [[0.0] * _WORDS for _ in _GROUPS]
    for j, word in enumerate(ids):
        if labels[word]:
            row = counts[labels[word] - 1]
            for i in range(max(0, j - reach), min(len(ids), j + reach + 1)):
                if i != j:
                    row[ids[i]] += weights[abs(i - j)]
    return counts


def _assert_same(context: ContextWindow, reach: int, ids: Any, some: list[int]) -> None:
    """Compare all counts; for an infinite context the difference must not exceed the weights beyond the reach of the
    loop.
    """
    ours, every = _ours(context, ids), np.transpose(_loop_over_words(some, reach))
    np.testing.assert_allclose(every, np.transpose(_loop_over_gendered_words(some, reach)), atol=1e-9)
    if context.decay < 1:
        beyond = 2 * 0.95 ** (reach + 1) / 0.05 * np.bincount(ids, minlength=_WORDS)[:, None]
        assert ((ours - every > -1e-9) & (ours - every < beyond + 1e-9)).all()
        ours = _ours(ContextWindow(reach=reach), ids)
    np.testing.assert_allclose(ours, every, atol=1e-9)


if __name__ == "__main__":
    main(measure_once)
