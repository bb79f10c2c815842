"""The family ``corpus``: co-occurrence of words with gendered words, in a text or in generated texts (bordia2019,
section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets import corpora
from pytest_genderbias.datasets.folder import MissingDataError, data_set_of, known_data_sets
from pytest_genderbias.errors import UndefinedError, UnknownNameError
from pytest_genderbias.statistics import cooccurrence
from pytest_genderbias.statistics.block_tables import block_of
from pytest_genderbias.statistics.correlation import pearson, pearson_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.perplexity import perplexity
from pytest_genderbias.statistics.sums import perplexity_sums, word_bias_sums, word_slope_sums
from pytest_genderbias.suites.cases import Answer, Answers, Items, Question, TextCases, take_arrays
from pytest_genderbias.suites.families.shared.persons import some_of
from pytest_genderbias.suites.family import Context, Family, Option, flag, one_of, share, text, whole
from pytest_genderbias.suites.query import BesideText, BlockLogLikelihood, GeneratedTokens, StoredText
from pytest_genderbias.suites.space import read_groups
from pytest_genderbias.suites.statistic import SIGNED, SIZE, FamilyStatistic, MakeSums, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Record, Summary
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Count, LocatedList, LocatedMap, Rule, take, take_texts
from pytest_genderbias.text.unspaced import refuse_uncut_replies
from pytest_genderbias.text.wordlist import WordEntry, load_wordlist

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


@dataclass(frozen=True)
class Counted:
    """The counts of a text in both contexts, and the bias of its scored words.

    ``split``: the tokeniser mode, ``spaces``, ``words``, or both if the files differ. ``counts`` and ``scores`` (ids,
    bias) are by context. ``reasons`` explains a context without scores.
    """

    size: corpora.Size
    split: str
    counts: Mapping[str, cooccurrence.Cooccurrence]
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
        self._vocabulary = corpora.Vocabulary(fold_case=options["fold_case"])
        words: tuple[list[str], list[str]] = ([], [])
        for entry in body.pairs:
            exchanged = options["as_printed"] and "as_printed" in entry.attributes
            words[(entry.attributes["group"] == body.groups[1]) != exchanged].append(entry.word)
        self._labels = corpora.label_groups(self._vocabulary, words)

    def count(self, texts: Sequence[str | Path], split: str | None) -> Counted:
        """Count texts in memory, each as a document, or without the mode ``split`` of the tokeniser those in files."""
        size, counts = self._counts(texts, split, self._labels)
        counted = Counted(size, split or " and ".join(self._splits(texts)), counts)
        for context in counts:
            try:
                counted.scores[context] = self.scores(counted, context, self._options["group_share"])
            except UndefinedError as error:
                counted.reasons[context] = str(error)
        return counted

    def count_by_pair(self, texts: Sequence[str | Path], split: str | None) -> dict[str, cooccurrence.Cooccurrence]:
        """Count texts, as :meth:`count`, for each pair of gendered words separately, for :meth:`flipped`: label 2 i + 1
        for words of the first group in pair i, 2 i + 2 for those of the second, and 0 for other words.
        """
        number: dict[str, int] = {}
        labels = np.zeros(len(self._labels), dtype=np.int8)
        for entry in self._body.pairs:
            of_first = entry.attributes["group"] == self._body.groups[0]
            key = entry.word if of_first else str(entry.attributes.get("partner", entry.word))
            pair = number.setdefault(key, len(number)) % _MOST_PAIRS
            word = self._vocabulary[normal_form(entry.word)]
            labels[word] = 2 * pair + self._labels[word]
        return self._counts(texts, split, labels)[1]

    def split_like(self, paths: Iterable[str | Path]) -> str | None:
        """Return the tokeniser mode of files, to split other texts the same way; None if the files differ or there are
        none.
        """
        splits = [self._options["tokens"]] if self._options["tokens"] != "auto" else self._splits(paths)
        return splits[0] if len(splits) == 1 else None

    def flipped(
        self, counts: Mapping[str, cooccurrence.Cooccurrence], repeats: int, seed: int
    ) -> Iterator[tuple[str, FloatArray]]:
        """Yield context and bias of all words after random exchanges of pairs, shape (part of the repeats, words)."""
        fixed = counts[FIXED].pairs
        scorable = self._scorable(fixed)
        flips = np.random.default_rng(seed).integers(2, size=(repeats, fixed.shape[1] // 2)).astype(np.bool_)
        rows = max(1, _MOST_BIASES // max(1, len(fixed)))
        for context, counted in counts.items():
            pairs = counted.pairs.reshape(len(counted.pairs), -1, 2)
            for at in range(0, repeats, rows):
                groups, some, share = counted.groups.reshape(-1, 2), flips[at : at + rows], self._options["group_share"]
                yield context, cooccurrence.flipped_biases(pairs, groups, scorable, some, by_group_share=share)

    def scores(self, counted: Counted, context: str, by_group_share: bool) -> tuple[NDArray[np.intp], FloatArray]:
        """Return ids and bias of the scorable words."""
        counts, fixed = counted.counts[context], counted.counts[FIXED].pairs
        return cooccurrence.bias_scores(
            counts.pairs, counts.groups, self._scorable(fixed), by_group_share=by_group_share
        )

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
        for tokens in map(corpora.TOKENISERS[split], documents) if words else ():
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
        marks = [i for i, word in enumerate(self._vocabulary.words[: len(occurrences)]) if corpora.is_punctuation(word)]
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
            items[f"bias_sums{context}"] = cooccurrence.sums_by_block(block[ids], np.abs(bias), bias, bias * bias)
            if training is not None and context in training.scores:
                both, x, y = cooccurrence.in_both(*training.scores[context], ids, bias)
                inside = (
                    np.ones(len(x), dtype=np.bool_)
                    if self._options["outliers"]
                    else cooccurrence.without_outliers(x, y)
                )
                x, y = x[inside], y[inside]
                items[f"beta_sums{context}"] = cooccurrence.sums_by_block(
                    block[both[inside].astype(np.intp)], x, y, x * x, x * y
                )
        return items

    def _scorable(self, fixed: FloatArray) -> NDArray[np.bool_]:
        """Return which words can be scored, by their co-occurrences with each group in the fixed context."""
        scorable = corpora.scorable_words(
            self._vocabulary.words[: len(fixed)],
            self._labels,
            self._body.stop_words,
            punctuation=self._options["punctuation"] == "keep",
        )
        if self._options["min_count"] > 1:
            scorable &= fixed.sum(axis=1) >= self._options["min_count"]
        return scorable

    def _counts(
        self, texts: Sequence[str | Path], split: str | None, labels: NDArray[np.int8]
    ) -> tuple[corpora.Size, dict[str, cooccurrence.Cooccurrence]]:
        """Return the size of texts, and their counts in each context, of the groups in ``labels``."""
        options, groups = self._options, -(-int(labels.max()) // 2) * 2
        contexts = {
            FIXED: cooccurrence.ContextWindow(1.0, options["k"]),
            INFINITE: cooccurrence.ContextWindow(options["decay"], options["reach"]),
        }
        counters = {key: cooccurrence.CooccurrenceCounter(labels, context, groups) for key, context in contexts.items()}
        if split is None:
            feeds, tokens = [counter.feed for counter in counters.values()], options["tokens"]
            sizes = [corpora.feed_corpus(path, self._vocabulary, *feeds, tokens=tokens) for path in texts]
        else:
            documents, sizes = [str(text) for text in texts], []
            refuse_uncut_replies(documents)
            for words in map(corpora.TOKENISERS[split], documents):
                ids: corpora.Ids = self._vocabulary.ids(words)
                sizes.append(corpora.Size(1, len(ids)))
                for counter in counters.values():
                    counter.feed(ids, [len(ids)])
        size = corpora.Size(sum(s.documents for s in sizes), sum(s.tokens for s in sizes))
        return size, {key: counter.result() for key, counter in counters.items()}

    def _splits(self, paths: Iterable[str | Path]) -> list[str]:
        return sorted(
            {
                corpora.file_tokens(file, self._options["tokens"])
                for path in paths
                for file in corpora.corpus_files(path)
            }
        )

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


_NO_INTERVAL = "the words of one text depend on each other: no valid interval is known"
_PUNCTUATION = {"keep": "scored as words", "drop": "not scored"}
_EVALUATION = "wikitext2"  #: The default text for the perplexity, if it is available.


def _generated(options: Options, role: str) -> str:
    """Return what is drawn at random: the generated texts of a model, nothing for a text."""
    return "" if role == "text" else "generated texts"


def _stored(of: Callable[..., ItemSums], *names: str) -> MakeSums:
    """Return the function that makes the sums of a figure from stored arrays."""
    return lambda options, arrays: of(*take_arrays(arrays, *names))


def _bias_statistic(figure: Literal["mu", "sigma"], context: str, meaning: str) -> FamilyStatistic:
    """Return mu or sigma in one context."""
    sums = _stored(partial(word_bias_sums, figure=figure), f"bias_sums{context}")
    return FamilyStatistic(SIZE, meaning, sums, f"beta{context}", draws=_generated)


def _beta_statistic(context: str, meaning: str) -> FamilyStatistic:
    """Return beta in one context."""
    sums = _stored(word_slope_sums, f"beta_sums{context}")
    return FamilyStatistic(SIGNED, meaning, sums, plot="scatter", draws=_generated)


class Corpus(Family[CorpusBody]):
    """bias(w) = ln( P(w | first group) / P(w | second group) ) of the words of a text, and its reproduction by a
    model.
    """

    name: ClassVar[str] = "corpus"
    definition: ClassVar[str] = "corpus/2"
    picture: ClassVar[str] = "word_bias"
    null_control: ClassVar[str] = (
        "the words of a pair (she and he) are exchanged at random, and the text counted once more"
    )
    needs: ClassVar[str] = "a text (text:FILE) or a causal LM"
    roles: ClassVar[tuple[str, ...]] = ("text", "causal-lm")
    keys: ClassVar[tuple[str, ...]] = ("groups", "pairs", "stop_words", "words", "share")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {
        "mu": _bias_statistic("mu", FIXED, "mean |bias| over words, fixed context, in nats"),
        "sigma": _bias_statistic("sigma", FIXED, "standard deviation of bias over words, fixed context, in nats"),
        "mu_infinite": _bias_statistic("mu", INFINITE, "mean |bias|, infinite context"),
        "sigma_infinite": _bias_statistic("sigma", INFINITE, "standard deviation of bias, infinite context"),
        "beta": _beta_statistic(
            FIXED, "slope of bias on bias in the training text, fixed context; 1 = carried over whole"
        ),
        "beta_infinite": _beta_statistic(INFINITE, "the same slope, infinite context"),
        "perplexity": FamilyStatistic(
            Scale("higher", 1.0, (1.0, np.inf)),
            "perplexity by word of the model on a text",
            _stored(perplexity_sums, "passage_log_probability", "passage_words"),
            question="perplexity",
            draws=_generated,
        ),
    }
    options: ClassVar[Mapping[str, Option]] = {
        "k": whole(10, "words before and after in the fixed context"),
        "decay": share(0.95, "base of the weight in the infinite context, to the power of the distance"),
        "reach": Option(
            None,
            Annotated[Count | None, Rule("a whole number of at least 1, or nothing")],
            "length of the infinite context in words (100 in the reference code)",
        ),
        "group_share": flag(
            "keep the factor c(g) of the printed formula, which adds ln(c(second) / c(first)) to every score"
        ),
        "min_count": whole(1, "smallest number of co-occurrences (fixed context) of a scored word"),
        "outliers": flag("keep outliers in beta"),
        "as_printed": flag("count wife as male and husband as female, as in the paper's lists"),
        "fold_case": flag("convert words to lower case, except the gendered ones"),
        "punctuation": one_of(
            "drop", "keep", meaning="tokens without a letter or digit: not scored, or scored as words", implied=True
        ),
        "tokens": one_of(
            *corpora.TOKENS,
            meaning=(
                "split texts at white space, or as running text; auto: by the beginning of each file, generated texts"
                " as the training text"
            ),
        ),
        "seeds": whole(2000, "number of generated texts"),
        "length": whole(500, "tokens of each generated text"),
        "training": text(
            "the training text, for beta: a path, or a data set such as wikitext2 or wikitext2/valid", display=True
        ),
        "evaluation": text(
            f"the text for the perplexity, named as for training; by default {_EVALUATION}, if available", display=True
        ),
        "evaluation_words": whole(50_000, "words of the evaluation text to read"),
        "top": whole(10, "words of each group in the records", least=0, display=True),
    }

    def read(self, data: LocatedMap) -> CorpusBody:
        """Read groups and the names of the lists."""
        groups = read_groups(data, ("female", "male"))
        pairs = _read_list(data, "pairs")
        lacking = [group for group in groups if all(entry.attributes.get("group") != group for entry in pairs)]
        if len(groups) != 2 or lacking:
            raise data.error_at(
                "pairs",
                f"'pairs' should be a list with words of two groups, it has none of {', '.join(lacking or groups[2:])}",
            )
        key = take(data, "share", str, "the suite", default="women_share")
        words: dict[str, float | None] = {}
        for entry in _read_list(data, "words") if "words" in data else ():
            percent = entry.attributes.get(key)
            words.setdefault(entry.word, percent / 100 if isinstance(percent, (int, float)) else None)
        stop_words = tuple(entry.word for entry in _read_list(data, "stop_words"))
        gendered = tuple(entry for entry in pairs if entry.attributes.get("group") in groups)
        return CorpusBody((groups[0], groups[1]), gendered, stop_words, words)

    def content(self, body: CorpusBody) -> object:
        """Return groups and words."""
        pairs = [[e.word, e.attributes["group"], "as_printed" in e.attributes] for e in body.pairs]
        return [list(body.groups), pairs, list(body.stop_words), list(body.words.items())]

    def questions(self, body: CorpusBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the text, or for generated texts and the perplexity; add the training text."""
        questions = {"text": Question(None, StoredText())}
        if context.role != "text":
            query = GeneratedTokens(options["length"], context.seed)
            questions = {"texts": Question(TextCases([("",)] * options["seeds"]), query)}
        if options["training"]:
            paths, _ = _find(options["training"], context, "train")
            questions["training"] = Question(None, BesideText(tuple(map(str, paths)), corpora.corpus_sha256(paths)))
        if context.role != "text":
            questions |= _perplexity_question(options, context)
        return questions

    def summarise(self, body: CorpusBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Count, score, and compare with the training text."""
        counting = Counting(body, options)
        generated, beside = _texts(answers)
        counted = counting.count(*_source(counting, answers))
        training = counting.count(beside, None) if beside else None
        figures = Summary(self.statistics)
        for context in (FIXED, INFINITE):
            _take_figures(figures, context, counted, training, options, "texts" in answers)
        notes = [
            _size_note("", counted, counting.punctuation(counted), body),
            f"tokens without a letter or digit are {_PUNCTUATION[options['punctuation']]} (option punctuation), and"
            " stand between words either way",
            _share_note(counted, counting, options["group_share"]),
        ]
        if training:
            notes.append(_size_note("training text: ", training, counting.punctuation(training), body))
        notes += _unread_notes([*beside, *([] if "texts" in answers else _source(counting, answers)[0])])
        notes.append(_split_note(counted, training, _look(generated) if generated else counted.split))
        notes += _take_perplexity(figures, answers.get("perplexity"), "texts" in answers)
        extremes = [list(counting.extremes(counted, training, side)) for side in (0, 1)]
        shown = [record["word"] for side in extremes for record in side[:EXCERPT_WORDS]]
        records = [
            *(record for side in extremes for record in side),
            *counting.of_suite(counted, training),
            counting.against_share(counted),
            *(counting.excerpts(generated, list(dict.fromkeys(shown)), counted.split) if generated else ()),
        ]
        items = counting.items(counted) | counting.sums(counted, training) | _passages(answers.get("perplexity"))
        # With tokens=auto, another text may be split in another way; record the mode, so that a baseline notices.
        data = {"tokens": counted.split} if options["tokens"] == "auto" else {}
        tokens = None if "texts" in answers else counted.size.tokens - counting.punctuation(counted)
        shown = [note for note in notes if note]
        return replace(figures, records=records, items=items, notes=shown, count=tokens, data=data)

    def null(self, body: CorpusBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return mu, sigma and, with a training text, beta, with the groups of random pairs exchanged in the text (not
        there).
        """
        return self._exchanged(body, options, answers, seed, repeats, _texts(answers)[1])

    def null_sizes(self, body: CorpusBody, options: Options, answers: Answers, seed: int, repeats: int) -> NullFigures:
        """Return mu and sigma, for which the training text is not counted."""
        return self._exchanged(body, options, answers, seed, repeats, ())

    def _exchanged(
        self, body: CorpusBody, options: Options, answers: Answers, seed: int, repeats: int, beside: Sequence[str]
    ) -> NullFigures:
        counting = Counting(body, options)
        counts = counting.count_by_pair(*_source(counting, answers))
        training = counting.count(beside, None) if beside else None
        values_of: dict[str, list[float]] = {}
        for context, biases in counting.flipped(counts, repeats, seed):
            for bias in biases:
                for key, value in _figures_of(bias, context, training, options["outliers"]).items():
                    values_of.setdefault(key, []).append(value)
        return {key: np.asarray(values) for key, values in values_of.items()}


def _texts(answers: Answers) -> tuple[list[str], Sequence[str]]:
    """Return the generated texts and the files of the training text; either may be empty."""
    generated = [part for sample in answers["texts"].content for part in sample] if "texts" in answers else []
    return generated, answers["training"].content.paths if "training" in answers else ()


def _source(counting: Counting, answers: Answers) -> tuple[Sequence[str], str | None]:
    """Return the texts that are counted and their tokeniser mode, as :meth:`Counting.count` takes them."""
    if "texts" not in answers:
        return [answers["text"].content], None
    generated, beside = _texts(answers)
    return generated, counting.split_like(beside) or _look(generated)


def _figures_of(bias: FloatArray, context: str, training: Counted | None, outliers: bool) -> dict[str, float]:
    """Return the statistics of one context, from the bias by word id; NaN if undefined."""
    ids = np.flatnonzero(~np.isnan(bias))
    scores = bias[ids]
    figures = {
        f"mu{context}": partial(cooccurrence.mean_absolute_bias, scores),
        f"sigma{context}": partial(cooccurrence.bias_deviation, scores),
    }
    if training is not None:
        of_training = training.scores.get(context, (ids[:0], scores[:0]))
        _, x, y = cooccurrence.in_both(*of_training, ids, scores)
        figures[f"beta{context}"] = partial(cooccurrence.bias_slope, x, y, outliers=outliers)
    values = {}
    for key, figure in figures.items():
        try:
            values[key] = figure()
        except UndefinedError:
            values[key] = np.nan
    return values


def _passages(answer: Answer | None) -> Items:
    """Return the items of the perplexity, empty without an answer."""
    if answer is None:
        return {}
    return {"passage_log_probability": answer.in_order()[:, 0], "passage_words": answer.cases.facts["words"]}


def _read_list(data: LocatedMap, key: str) -> list[WordEntry]:
    named = take(data, key, str | LocatedList, "the suite")
    names = [named] if isinstance(named, str) else take_texts(data, key, "the suite")
    try:
        lists = [load_wordlist(name, data.folder) for name in names]
    except UnknownNameError as error:
        raise data.error_at(key, f"{error}") from None
    return [entry for words in lists for entry in words.entries]


def _find(name: str, context: Context, split: str | None = None) -> tuple[tuple[Path, ...], str]:
    """Return the files and the title of a text, named by its path or by a data set.

    ``split`` is the default split, if the data set has it.
    """
    data_set = data_set_of(name, known_data_sets())
    if data_set is None:
        return (expand(name),), "a text of your own"
    _, _, wanted = name.partition("/")
    files, found = context.data.locate(
        data_set, wanted or (split if split in known_data_sets()[data_set].splits else None)
    )
    return files, f"{data_set}, {found}"


def _perplexity_question(options: Options, context: Context) -> dict[str, Question]:
    try:
        paths, what = _find(options["evaluation"] or _EVALUATION, context)
    except MissingDataError:
        if options["evaluation"]:
            raise
        return {}
    passages = corpora.read_passages(paths, options["evaluation_words"], tokens=options["tokens"])
    facts = {"words": np.asarray([n for _, n in passages]), "text": np.asarray([what] * len(passages))}
    cases = TextCases([(passage,) for passage, _ in passages], facts=facts)
    return {"perplexity": Question(cases, BlockLogLikelihood(), whole=True)}


def _take_figures(
    figures: Summary, context: str, found: Counted, training: Counted | None, options: Options, generated: bool
) -> None:
    """Add mu, sigma and beta in one context."""
    mu, sigma, beta = f"mu{context}", f"sigma{context}", f"beta{context}"
    if context in found.reasons:
        figures.miss(found.reasons[context], mu, sigma, beta)
    else:
        bias = found.scores[context][1]
        figures.take(mu, lambda: cooccurrence.mean_absolute_bias(bias), no_interval=_NO_INTERVAL)
        figures.take(sigma, lambda: cooccurrence.bias_deviation(bias), no_interval=_NO_INTERVAL)
    if training is None:
        whose = "the model's training text is unknown" if generated else "a text has no training text"
        figures.miss(f"{whose}: name one with the option training (a path or a data set)", beta)
    elif context not in found.reasons and context in training.reasons:
        figures.miss(f"the training text: {training.reasons[context]}", beta)
    elif context not in found.reasons:
        _, x, y = cooccurrence.in_both(*training.scores[context], *found.scores[context])
        keep = options["outliers"]
        figures.take(
            beta,
            lambda: cooccurrence.bias_slope(x, y, outliers=keep),
            lambda: cooccurrence.bias_slope_interval(x, y, outliers=keep),
            "the words scored in both texts are too few",
        )


def _take_perplexity(figures: Summary, answer: Answer | None, is_generated: bool) -> list[str]:
    if answer is None:
        where = f"name a text with the option evaluation, or {_EVALUATION} with --bias-data (docs/reference/data.md)"
        figures.miss(where if is_generated else "only language models have a perplexity", "perplexity")
        return []
    log_probability, tokens = answer.in_order().T
    words = answer.cases.facts["words"]
    figures.take(
        "perplexity",
        lambda: perplexity(log_probability, words),
        no_interval="the passages of one text depend on each other",
    )
    try:
        by_token = f", {perplexity(log_probability, tokens):.2f} by token"
    except UndefinedError:
        by_token = ""
    text = answer.cases.facts["text"][0]
    return [
        f"perplexity: by word and punctuation mark, of {words.sum():,} words ({tokens.sum():,.0f} tokens) of"
        f" {text}{by_token}"
    ]


def _size_note(what: str, found: Counted, marks: int, body: CorpusBody) -> str:
    words = ", ".join(f"{n:,.0f} {g}" for g, n in zip(body.groups, found.counts[FIXED].groups, strict=True))
    scored = len(found.scores[FIXED][0]) if FIXED in found.scores else 0
    size = f"{found.size.tokens - marks:,} words in {found.size.documents:,} documents"
    apart = f", beside {marks:,} tokens without a letter or digit" if marks else ""
    return f"{what}{size}{apart}; gendered: {words}; scored: {scored:,}"


def _unread_notes(paths: Iterable[str | Path]) -> list[str]:
    """Return a note on each folder of which something is not read."""
    unread = ((path, corpora.unread_in(path)) for path in paths)
    ends = ", ".join(corpora.SUFFIXES)
    return [f"not read in {path}, where a text ends in {ends}: {some_of(names)}" for path, names in unread if names]


def _look(documents: Sequence[str]) -> str:
    return corpora.text_tokens(" \n".join(documents[:1000]))


def _split_note(found: Counted, training: Counted | None, look: str) -> str:
    """Return a note on the tokeniser mode of the texts, with a warning if it may not fit them."""
    note = f"words are split with tokens={found.split}"
    if training is not None and training.split != found.split:
        return f"{note}, those of the training text with tokens={training.split}: fewer words may match (option tokens)"
    return note if look == found.split else f"{note}, though the texts look like tokens={look} (option tokens)"


def _share_note(found: Counted, counting: Counting, by_group_share: bool) -> str:
    """Return a note on the effect of the factor c(g), with the values of mu with and without it."""
    if found.reasons:
        return ""
    first, second = found.counts[FIXED].groups
    fixed, infinite = (
        cooccurrence.mean_absolute_bias(counting.scores(found, context, not by_group_share)[1])
        for context in (FIXED, INFINITE)
    )
    other = f"mu is {fixed:.4f} and mu_infinite {infinite:.4f}"
    shift = f"adds {log(second / first):+.4f} to every score"
    if by_group_share:
        return f"the factor c(g) of the printed formula {shift}; without it (the default) {other}"
    return f"without the factor c(g) of the printed formula, which {shift}; with it (option group_share=true) {other}"
