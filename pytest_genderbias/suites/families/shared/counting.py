"""Word counts of texts in both contexts with one vocabulary, and the records made from them, for the family
``corpus``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.corpora import (
    TOKENISERS,
    Ids,
    Size,
    Vocabulary,
    corpus_files,
    feed_corpus,
    file_tokens,
    is_punctuation,
    label_groups,
    scorable_words,
)
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.block_tables import block_of
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
from pytest_genderbias.suites.cases import Items
from pytest_genderbias.suites.statistic import FloatArray, Options
from pytest_genderbias.suites.summary import Record
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.unspaced import refuse_uncut_replies
from pytest_genderbias.text.wordlist import WordEntry

FIXED, INFINITE = "", "_infinite"  #: The two contexts, by the suffix of their statistics' names.
EXCERPT_WORDS = 3  #: Words of each group with excerpts in the records.
_ENOUGH = 30  #: Words with fewer co-occurrences are listed after the others.
_MOST_ITEMS = 4000  #: The largest number of words whose bias is stored.
_MOST_PAIRS = 60  #: Pairs that are exchanged independently; with more pairs, some are exchanged together.
_MOST_BIASES = 2_000_000  #: Scores in memory at a time while pairs are exchanged.
_EXCERPTS, _AROUND = 2, 12  #: Excerpts of a word, and tokens on each side of it.


@dataclass(frozen=True)
class CorpusBody:
    """Gendered words, stop words, and words for the records, with their share of women (0 to 1) if it is known."""

    groups: tuple[str, str]
    pairs: tuple[WordEntry, ...]
    stop_words: tuple[str, ...]
    words: Mapping[str, float | None]

    def group_words(self, as_printed: bool) -> tuple[list[str], list[str]]:
        """Return the words of both groups. ``as_printed`` exchanges the groups of the words that the paper lists so."""
        words: tuple[list[str], list[str]] = ([], [])
        for entry in self.pairs:
            exchanged = as_printed and "as_printed" in entry.attributes
            words[(entry.attributes["group"] == self.groups[1]) != exchanged].append(entry.word)
        return words


@dataclass(frozen=True)
class Counted:
    """The counts of a text in both contexts, and the bias of its scored words.

    ``split``: the tokeniser mode, ``spaces``, ``words``, or both if the files differ. ``counts`` and ``scores`` (ids,
    bias) are by context. ``reasons`` explains a context without scores.
    """

    size: Size
    split: str
    counts: Mapping[str, Cooccurrence]
    scores: dict[str, tuple[NDArray[np.intp], FloatArray]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def bias_of(self, context: str, size: int) -> FloatArray:
        """Return the bias by word id, NaN for a word without a score: shape (size,)."""
        by_id = np.full(size, np.nan)
        if context in self.scores:
            ids, bias = self.scores[context]
            by_id[ids] = bias
        return by_id


class Counting:
    """A counter of texts with one vocabulary, so that a word has the same id in all of them."""

    def __init__(self, body: CorpusBody, options: Options) -> None:
        self._body, self._options = body, options
        self._vocabulary = Vocabulary(fold_case=options["fold_case"])
        self._labels = label_groups(self._vocabulary, body.group_words(options["as_printed"]))

    def files(self, paths: Sequence[str | Path]) -> Counted:
        """Count the texts in files, read as a stream."""
        counters = self._counters()
        size = self._feed_files(paths, counters)
        return self._scored(size, " and ".join(self._splits(paths)), counters)

    def split_like(self, paths: Iterable[str | Path]) -> str | None:
        """Return the tokeniser mode of files, to split other texts the same way; None if the files differ or there are
        none.
        """
        splits = [self._options["tokens"]] if self._options["tokens"] != "auto" else self._splits(paths)
        return splits[0] if len(splits) == 1 else None

    def documents(self, documents: Sequence[str], split: str) -> Counted:
        """Count texts in memory, each as a document."""
        counters = self._counters()
        return self._scored(self._feed_documents(documents, split, counters), split, counters)

    def files_by_pair(self, paths: Sequence[str | Path]) -> dict[str, Cooccurrence]:
        """Count the texts in files for each pair of gendered words separately, for :meth:`flipped`."""
        counters = self._counters(by_pair=True)
        self._feed_files(paths, counters)
        return {context: counter.result() for context, counter in counters.items()}

    def documents_by_pair(self, documents: Sequence[str], split: str) -> dict[str, Cooccurrence]:
        """Count texts in memory for each pair of gendered words separately, for :meth:`flipped`."""
        counters = self._counters(by_pair=True)
        self._feed_documents(documents, split, counters)
        return {context: counter.result() for context, counter in counters.items()}

    def flipped(self, counts: Mapping[str, Cooccurrence], repeats: int, seed: int) -> Iterator[tuple[str, FloatArray]]:
        """Yield context and bias of all words after random exchanges of pairs, shape (part of the repeats, words)."""
        fixed = counts[FIXED].pairs
        scorable = self._scorable(fixed)
        flips = np.random.default_rng(seed).integers(2, size=(repeats, fixed.shape[1] // 2)).astype(np.bool_)
        rows = max(1, _MOST_BIASES // max(1, len(fixed)))
        for context, counted in counts.items():
            pairs = counted.pairs.reshape(len(counted.pairs), -1, 2)
            for at in range(0, repeats, rows):
                groups, some, share = counted.groups.reshape(-1, 2), flips[at : at + rows], self._options["group_share"]
                yield context, flipped_biases(pairs, groups, scorable, some, by_group_share=share)

    def scores(self, counted: Counted, context: str, by_group_share: bool) -> tuple[NDArray[np.intp], FloatArray]:
        """Return ids and bias of the scorable words."""
        counts, fixed = counted.counts[context], counted.counts[FIXED].pairs
        return bias_scores(counts.pairs, counts.groups, self._scorable(fixed), by_group_share=by_group_share)

    def extremes(self, counted: Counted, training: Counted | None, side: int) -> Iterator[Record]:
        """Return the words with the largest bias towards one group, those with enough co-occurrences first."""
        if FIXED not in counted.scores:
            return
        ids, bias = counted.scores[FIXED]
        rare = counted.counts[FIXED].pairs[ids].sum(axis=1) < _ENOUGH
        order = ids[np.lexsort((ids, bias if side else -bias, rare))]
        yield from self._records(f"most {self._body.groups[side]}", order[: self._options["top"]], counted, training)

    def of_suite(self, counted: Counted, training: Counted | None) -> Iterator[Record]:
        """Return the scored words of the suite's lists, the largest bias first."""
        ids = np.asarray([self._vocabulary[normal_form(word)] for word in self._scored_words(counted)], dtype=np.intp)
        bias = counted.bias_of(FIXED, len(self._vocabulary.words))[ids]
        yield from self._records("words of the suite", ids[np.lexsort((ids, -np.abs(bias)))], counted, training)

    def against_share(self, counted: Counted) -> Record:
        """Return r of the bias with the share of women, over the words of the suite that have both."""
        known = {word: part for word in self._scored_words(counted) if (part := self._body.words[word]) is not None}
        of_women, ids = list(known.values()), [self._vocabulary[normal_form(word)] for word in known]
        record: Record = {"slice": "share of women", "word": "all with a share", "words": len(known)}
        for context in (FIXED, INFINITE):
            bias = counted.bias_of(context, len(self._vocabulary.words))[ids]
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
        """Return excerpts with the words near a gendered word, as they were counted."""
        left = {self._vocabulary[word]: _EXCERPTS for word in words}
        records: list[Record] = []
        for tokens in map(TOKENISERS[split], documents) if words else ():
            ids = [self._vocabulary[token] for token in tokens]
            for at in [i for i, word in enumerate(ids) if left.get(word)]:
                near = slice(max(0, at - _AROUND), at + _AROUND + 1)
                if left[ids[at]] and any(word < len(self._labels) for word in ids[near]):
                    left[ids[at]] -= 1
                    records.append(
                        {"slice": "excerpts", "word": self._vocabulary.words[ids[at]], "text": " ".join(tokens[near])}
                    )
        return sorted(records, key=lambda record: words.index(record["word"]))

    def punctuation(self, counted: Counted) -> int:
        """Return how many tokens of the text have no letter or digit."""
        occurrences = counted.counts[FIXED].words
        marks = [i for i, word in enumerate(self._vocabulary.words[: len(occurrences)]) if is_punctuation(word)]
        return int(occurrences[marks].sum())

    def items(self, counted: Counted) -> Items:
        """Return the bias of the words with the most co-occurrences, in both contexts."""
        size = len(self._vocabulary.words)
        fixed, infinite = counted.bias_of(FIXED, size), counted.bias_of(INFINITE, size)
        ids = np.flatnonzero(~np.isnan(fixed) & ~np.isnan(infinite))
        most = ids[np.argsort(-counted.counts[FIXED].pairs[ids].sum(axis=1), kind="stable")][:_MOST_ITEMS]
        words = np.asarray([self._vocabulary.words[i] for i in most], dtype=np.str_)
        return {
            "word": words,
            "bias": fixed[most].astype(np.float32),
            "bias_infinite": infinite[most].astype(np.float32),
        }

    def sums(self, counted: Counted, training: Counted | None) -> Items:
        """Return sums of the scored words by block of words, for mu and sigma and, with a training text, for beta."""
        block = block_of(self._vocabulary.words)
        items: Items = {}
        for context, (ids, bias) in counted.scores.items():
            items[f"bias_sums{context}"] = sums_by_block(block[ids], np.abs(bias), bias, bias * bias)
            if training is not None and context in training.scores:
                both, x, y = in_both(*training.scores[context], ids, bias)
                inside = np.ones(len(x), dtype=np.bool_) if self._options["outliers"] else without_outliers(x, y)
                x, y = x[inside], y[inside]
                items[f"beta_sums{context}"] = sums_by_block(block[both[inside].astype(np.intp)], x, y, x * x, x * y)
        return items

    def _scorable(self, fixed: FloatArray) -> NDArray[np.bool_]:
        """Return which words can be scored, by their co-occurrences with each group in the fixed context."""
        scorable = scorable_words(
            self._vocabulary.words[: len(fixed)],
            self._labels,
            self._body.stop_words,
            punctuation=self._options["punctuation"] == "keep",
        )
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
        """Return 2 i + 1 for words of the first group in pair i, 2 i + 2 for those of the second, and 0 for other
        words.
        """
        number: dict[str, int] = {}
        labels = np.zeros(len(self._labels), dtype=np.int8)
        for entry in self._body.pairs:
            of_first = entry.attributes["group"] == self._body.groups[0]
            key = entry.word if of_first else str(entry.attributes.get("partner", entry.word))
            pair = number.setdefault(key, len(number)) % _MOST_PAIRS
            word = self._vocabulary[normal_form(entry.word)]
            labels[word] = 2 * pair + self._labels[word]
        return labels

    def _feed_files(self, paths: Sequence[str | Path], counters: Mapping[str, CooccurrenceCounter]) -> Size:
        tokens = self._options["tokens"]
        sizes = [feed_corpus(path, self._vocabulary, *counters.values(), tokens=tokens) for path in paths]
        return Size(sum(s.documents for s in sizes), sum(s.tokens for s in sizes))

    def _feed_documents(
        self, documents: Sequence[str], split: str, counters: Mapping[str, CooccurrenceCounter]
    ) -> Size:
        refuse_uncut_replies(documents)
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

    def _scored_words(self, counted: Counted) -> list[str]:
        """Return the words of the suite's lists that have a score."""
        bias = counted.bias_of(FIXED, len(self._vocabulary.words))
        return [
            word
            for word in self._body.words
            if (form := normal_form(word)) in self._vocabulary and not np.isnan(bias[self._vocabulary[form]])
        ]

    def _records(
        self, name: str, ids: NDArray[np.intp], counted: Counted, training: Counted | None
    ) -> Iterator[Record]:
        size = len(self._vocabulary.words)
        bias = {f"bias{context}": counted.bias_of(context, size) for context in (FIXED, INFINITE)}
        if training is not None:
            bias |= {f"training_bias{context}": training.bias_of(context, size) for context in (FIXED, INFINITE)}
        for i in ids:
            yield {
                "slice": name,
                "word": self._vocabulary.words[i],
                **{key: None if np.isnan(values[i]) else float(values[i]) for key, values in bias.items()},
                **{
                    f"{group}{context}": float(counted.counts[context].pairs[i, g])
                    for context in (FIXED, INFINITE)
                    for g, group in enumerate(self._body.groups)
                },
                "occurrences": int(counted.counts[FIXED].words[i]),
            }
