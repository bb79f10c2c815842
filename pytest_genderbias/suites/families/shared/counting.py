"""Texts that are counted in both contexts with one vocabulary, and the records that are made of the counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import (
    TOKENISERS,
    Size,
    corpus_files,
    feed_corpus,
    file_tokens,
)
from pytest_genderbias.datasets.vocabulary import Ids, Vocabulary, label_groups, scorable_words
from pytest_genderbias.statistics.cooccurrence import (
    bias_scores,
    flipped_biases,
    in_both,
    sums_by_block,
    without_outliers,
)
from pytest_genderbias.statistics.cooccurrence_counts import (
    Cooccurrence,
    CooccurrenceCounter,
    FixedContext,
    InfiniteContext,
)
from pytest_genderbias.statistics.correlation import pearson, pearson_interval
from pytest_genderbias.statistics.inference.blocks import block_of
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.summary import Record
from pytest_genderbias.text.wordlist import Entry

FloatArray = NDArray[np.float64]

FIXED, INFINITE = "", "_infinite"  #: the two contexts, as the keys of their statistics end
EXCERPT_WORDS = 3  #: words of each group of which excerpts are shown
_ENOUGH = 30  #: co-occurrences of a word, from which on it is shown before others
_MOST_ITEMS = 4000
_MOST_PAIRS = 60  #: that are exchanged each by itself; of more, some are exchanged together
_MOST_BIASES = 2_000_000  #: held at once while pairs are exchanged
_EXCERPTS, _AROUND = 2, 12  #: excerpts of a word, tokens on each side of it


@dataclass(frozen=True)
class Body:
    """Gendered words, stop words, and words for the records with the share of women where it is known (0 to 1)."""

    groups: tuple[str, str]
    pairs: tuple[Entry, ...]
    stop_words: tuple[str, ...]
    words: Mapping[str, float | None]

    def group_words(self, as_printed: bool) -> tuple[list[str], list[str]]:
        """Return the words of both groups; ``as_printed``: exchanged where the paper has them so."""
        found: tuple[list[str], list[str]] = ([], [])
        for entry in self.pairs:
            exchanged = as_printed and "as_printed" in entry.attributes
            found[(entry.attributes["group"] == self.groups[1]) != exchanged].append(entry.word)
        return found


@dataclass(frozen=True)
class Counted:
    """A text that was counted in both contexts, and the words in it that are scored, with their bias.

    ``split``: how it was split, ``spaces``, ``words``, or both where its files differ. ``counts`` and ``scores`` are by context.
    A context without any score has its reason in ``reasons``.
    """

    size: Size
    split: str
    counts: Mapping[str, Cooccurrence]
    scores: dict[str, tuple[NDArray[np.intp], FloatArray]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def bias_of(self, context: str, size: int) -> FloatArray:
        """Return the bias by word id, NaN where there is none: shape (size,)."""
        found = np.full(size, np.nan)
        if context in self.scores:
            ids, bias = self.scores[context]
            found[ids] = bias
        return found


class Counting:
    """Counts texts with one vocabulary, so that their words have the same ids."""

    def __init__(self, body: Body, options: Mapping[str, Any]) -> None:
        self._body, self._options = body, options
        self._vocabulary = Vocabulary(fold_case=options["fold_case"])
        self._labels = label_groups(self._vocabulary, body.group_words(options["as_printed"]))

    def files(self, paths: Sequence[str | Path]) -> Counted:
        """Count the texts in files, in a stream."""
        counters = self._counters()
        size = self._feed_files(paths, counters)
        return self._scored(size, " and ".join(self._splits(paths)), counters)

    def split_like(self, paths: Iterable[str | Path]) -> str | None:
        """Return how texts are split that are compared with those in files; ``None`` where these are split in no one way."""
        splits = [self._options["tokens"]] if self._options["tokens"] != "auto" else self._splits(paths)
        return splits[0] if len(splits) == 1 else None

    def documents(self, documents: Sequence[str], split: str) -> Counted:
        """Count texts in memory, each a document."""
        counters = self._counters()
        return self._scored(self._feed_documents(documents, split, counters), split, counters)

    def files_by_pair(self, paths: Sequence[str | Path]) -> dict[str, Cooccurrence]:
        """Count the texts in files beside the gendered words of each pair apart (:meth:`flipped`)."""
        counters = self._counters(by_pair=True)
        self._feed_files(paths, counters)
        return {context: counter.result() for context, counter in counters.items()}

    def documents_by_pair(self, documents: Sequence[str], split: str) -> dict[str, Cooccurrence]:
        """Count texts in memory in the same way."""
        counters = self._counters(by_pair=True)
        self._feed_documents(documents, split, counters)
        return {context: counter.result() for context, counter in counters.items()}

    def flipped(self, counts: Mapping[str, Cooccurrence], repeats: int, seed: int) -> Iterator[tuple[str, FloatArray]]:
        """Yield the bias of all words with random pairs exchanged, shape (some repeats, words), context by context."""
        fixed = counts[FIXED].pairs
        scorable = self._scorable(fixed)
        flips = np.random.default_rng(seed).integers(2, size=(repeats, fixed.shape[1] // 2)).astype(np.bool_)
        rows = max(1, _MOST_BIASES // max(1, len(fixed)))
        for context, found in counts.items():
            pairs = found.pairs.reshape(len(found.pairs), -1, 2)
            for at in range(0, repeats, rows):
                yield (
                    context,
                    flipped_biases(
                        pairs,
                        found.groups.reshape(-1, 2),
                        scorable,
                        flips[at : at + rows],
                        by_group_share=self._options["group_share"],
                    ),
                )

    def scores(self, counted: Counted, context: str, by_group_share: bool) -> tuple[NDArray[np.intp], FloatArray]:
        """Return ids and bias of the words that can be scored."""
        found, fixed = counted.counts[context], counted.counts[FIXED].pairs
        return bias_scores(found.pairs, found.groups, found.words, self._scorable(fixed), by_group_share=by_group_share)

    def extremes(self, found: Counted, training: Counted | None, side: int) -> Iterator[Record]:
        """Return the words of largest bias towards one group, those with enough co-occurrences first."""
        if FIXED not in found.scores:
            return
        ids, bias = found.scores[FIXED]
        rare = found.counts[FIXED].pairs[ids].sum(axis=1) < _ENOUGH
        order = ids[np.lexsort((ids, bias if side else -bias, rare))]
        yield from self._records(f"most {self._body.groups[side]}", order[: self._options["top"]], found, training)

    def chosen(self, found: Counted, training: Counted | None) -> Iterator[Record]:
        """Return the words of the suite's lists that have a score, the largest bias first."""
        ids = np.asarray([self._vocabulary[word] for word in self._shown(found)], dtype=np.intp)
        bias = found.bias_of(FIXED, len(self._vocabulary.words))[ids]
        yield from self._records("words of the suite", ids[np.lexsort((ids, -np.abs(bias)))], found, training)

    def against_share(self, found: Counted) -> Record:
        """Return r of bias with the share of women, over the words of the suite that have both."""
        known = {word: part for word in self._shown(found) if (part := self._body.words[word]) is not None}
        of_women, ids = list(known.values()), [self._vocabulary[word] for word in known]
        record: Record = {"slice": "share of women", "word": "all with a share", "words": len(known)}
        for context in (FIXED, INFINITE):
            bias = found.bias_of(context, len(self._vocabulary.words))[ids]
            try:
                record[f"pearson_r{context}"] = pearson(of_women, bias)
                interval = pearson_interval(of_women, bias, "words")
            except UndefinedError as error:
                record[f"pearson_r{context}"], interval = None, None
                record["reason"] = str(error)
            if interval:
                record |= {f"low{context}": interval.low, f"high{context}": interval.high}
        return record

    def excerpts(self, documents: Sequence[str], words: Sequence[str], split: str) -> list[Record]:
        """Return places where the words, as they were counted, stand near a gendered word."""
        left = {self._vocabulary[word]: _EXCERPTS for word in words}
        found: list[Record] = []
        for tokens in map(TOKENISERS[split], documents) if words else ():
            ids = [self._vocabulary[token] for token in tokens]
            for at in [i for i, word in enumerate(ids) if left.get(word)]:
                near = slice(max(0, at - _AROUND), at + _AROUND + 1)
                if left[ids[at]] and any(word < len(self._labels) for word in ids[near]):
                    left[ids[at]] -= 1
                    found.append(
                        {"slice": "excerpts", "word": self._vocabulary.words[ids[at]], "text": " ".join(tokens[near])}
                    )
        return sorted(found, key=lambda record: words.index(record["word"]))

    def items(self, found: Counted) -> dict[str, NDArray[Any]]:
        """Return the bias of the words with the most co-occurrences, in both contexts."""
        size = len(self._vocabulary.words)
        fixed, infinite = found.bias_of(FIXED, size), found.bias_of(INFINITE, size)
        ids = np.flatnonzero(~np.isnan(fixed) & ~np.isnan(infinite))
        most = ids[np.argsort(-found.counts[FIXED].pairs[ids].sum(axis=1), kind="stable")][:_MOST_ITEMS]
        words = np.asarray([self._vocabulary.words[i] for i in most], dtype=np.str_)
        return {
            "word": words,
            "bias": fixed[most].astype(np.float32),
            "bias_infinite": infinite[most].astype(np.float32),
        }

    def sums(self, found: Counted, training: Counted | None) -> dict[str, NDArray[Any]]:
        """Return sums of all scored words by block of words, for mu and sigma, and for beta where there is a training text."""
        block = block_of(self._vocabulary.words)
        items = {}
        for context, (ids, bias) in found.scores.items():
            items[f"bias_sums{context}"] = sums_by_block(block[ids], np.abs(bias), bias, bias * bias)
            if training is not None and context in training.scores:
                both, x, y = in_both(*training.scores[context], ids, bias)
                kept = np.ones(len(x), dtype=np.bool_) if self._options["outliers"] else without_outliers(x, y)
                x, y = x[kept], y[kept]
                items[f"beta_sums{context}"] = sums_by_block(block[both[kept]], x, y, x * x, x * y)
        return items

    def _scorable(self, fixed: FloatArray) -> NDArray[np.bool_]:
        """Tell which words may be scored, by their co-occurrences in the fixed context with each group."""
        scorable = scorable_words(self._vocabulary.words[: len(fixed)], self._labels, self._body.stop_words)
        if self._options["min_count"] > 1:
            scorable &= fixed.sum(axis=1) >= self._options["min_count"]
        return scorable

    def _counters(self, by_pair: bool = False) -> dict[str, CooccurrenceCounter]:
        options = self._options
        labels = self._pair_labels() if by_pair else self._labels
        groups = -(-int(labels.max()) // 2) * 2
        contexts: dict[str, FixedContext | InfiniteContext] = {
            FIXED: FixedContext(options["k"]),
            INFINITE: InfiniteContext(options["decay"], options["reach"]),
        }
        return {key: CooccurrenceCounter(labels, context, groups) for key, context in contexts.items()}

    def _pair_labels(self) -> NDArray[np.int8]:
        """Return 2 i + 1 for the words of the first group in pair i, 2 i + 2 for those of the second, and 0 for all others."""
        number: dict[str, int] = {}
        labels = np.zeros(len(self._labels), dtype=np.int8)
        for entry in self._body.pairs:
            of_first = entry.attributes["group"] == self._body.groups[0]
            key = entry.word if of_first else str(entry.attributes.get("partner", entry.word))
            pair = number.setdefault(key, len(number)) % _MOST_PAIRS
            word = self._vocabulary[entry.word]
            labels[word] = 2 * pair + self._labels[word]
        return labels

    def _feed_files(self, paths: Sequence[str | Path], counters: Mapping[str, CooccurrenceCounter]) -> Size:
        tokens = self._options["tokens"]
        sizes = [feed_corpus(path, self._vocabulary, *counters.values(), tokens=tokens) for path in paths]
        return Size(sum(s.documents for s in sizes), sum(s.tokens for s in sizes))

    def _feed_documents(
        self, documents: Sequence[str], split: str, counters: Mapping[str, CooccurrenceCounter]
    ) -> Size:
        tokens = 0
        for words in map(TOKENISERS[split], documents):
            ids: Ids = self._vocabulary.ids(words)
            tokens += len(ids)
            for counter in counters.values():
                counter.feed(ids, [len(ids)])
        return Size(len(documents), tokens)

    def _scored(self, size: Size, split: str, counters: Mapping[str, CooccurrenceCounter]) -> Counted:
        counted = Counted(size, split, {key: counter.result() for key, counter in counters.items()})
        for context in counters:
            try:
                counted.scores[context] = self.scores(counted, context, self._options["group_share"])
            except UndefinedError as error:
                counted.reasons[context] = str(error)
        return counted

    def _splits(self, paths: Iterable[str | Path]) -> list[str]:
        return sorted({file_tokens(file, self._options["tokens"]) for path in paths for file in corpus_files(path)})

    def _shown(self, found: Counted) -> list[str]:
        bias = found.bias_of(FIXED, len(self._vocabulary.words))
        return [w for w in self._body.words if w in self._vocabulary and not np.isnan(bias[self._vocabulary[w]])]

    def _records(self, name: str, ids: NDArray[np.intp], found: Counted, training: Counted | None) -> Iterator[Record]:
        size = len(self._vocabulary.words)
        bias = {f"bias{context}": found.bias_of(context, size) for context in (FIXED, INFINITE)}
        if training is not None:
            bias |= {f"training_bias{context}": training.bias_of(context, size) for context in (FIXED, INFINITE)}
        for i in ids:
            yield {
                "slice": name,
                "word": self._vocabulary.words[i],
                **{key: None if np.isnan(values[i]) else float(values[i]) for key, values in bias.items()},
                **{
                    f"{group}{context}": float(found.counts[context].pairs[i, g])
                    for context in (FIXED, INFINITE)
                    for g, group in enumerate(self._body.groups)
                },
                "occurrences": int(found.counts[FIXED].words[i]),
            }
