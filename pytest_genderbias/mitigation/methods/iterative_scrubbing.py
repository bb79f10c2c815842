"""Iterative scrubbing: in each round a classifier finds the words that predict gender best, and they are scrubbed (orgad2022, appendix C)."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, cell_of, texts_of
from pytest_genderbias.mitigation.methods.nullspace import draw_held_out, logistic_weights
from pytest_genderbias.mitigation.methods.scrubbing import MASK
from pytest_genderbias.mitigation.words.matching import find_words, replace_spans
from pytest_genderbias.recipes.recipe import Row
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.linear_probe import predicted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_ZERO = 1e-5  #: a weight that is smaller than this share of the largest is rounding
Texts = TypeVar("Texts", str, tuple[str, ...])


@dataclass(frozen=True)
class Rounds:
    """The rounds of one iterative scrubbing.

    ``words`` are the words scrubbed in each round by group, those with the largest weights first. ``accuracies`` are those of a new
    classifier on held-out texts before the first round and after each round (0 to 1; neutral: ``majority``). ``majority`` is the
    share of the held-out texts with the training part's most frequent group, the accuracy of a classifier that ignores the texts.
    """

    words: tuple[Mapping[Hashable, tuple[str, ...]], ...]
    accuracies: tuple[float, ...]
    majority: float

    @property
    def all_words(self) -> frozenset[str]:
        """The words of all rounds and groups."""
        return frozenset(word for by_group in self.words for words in by_group.values() for word in words)


@dataclass(frozen=True)
class IterativeScrub(Generic[Texts]):
    """The result of iterative scrubbing.

    ``texts`` are the scrubbed texts. ``rounds`` holds the rounds of each class, or under ``None`` those over all texts. ``left``
    gives for each class that was left as it is the reason.
    """

    texts: tuple[Texts, ...]
    rounds: Mapping[Hashable, Rounds]
    left: Mapping[Hashable, str]


def iterative_scrub(
    texts: Sequence[Texts],
    groups: Sequence[Hashable],
    classes: Sequence[Hashable] | None = None,
    *,
    rounds: int = 10,
    words_per_group: int = 10,
    min_texts: int = 3,
    until_majority: bool = True,
    held_out: float = 0.25,
    ridge: float = 1.0,
    seed: int = 0,
    mask: str = MASK,
) -> IterativeScrub[Texts]:
    """Scrub, round by round, the words from which a classifier predicts the group best (orgad2022, appendix C, tables 9 and 10).

    Each round fits a logistic regression on word counts, and scrubs the words with the largest weights towards each group in all
    texts. Words are those of :func:`~pytest_genderbias.mitigation.methods.scrubbing.scrub`, in lower case and of letters only. The
    paper's texts were scrubbed of names and gender words first.

    Args:
        texts: texts, or tuples of texts that belong together; a tuple is counted and scrubbed like one text.
        groups: the person's gender in each text.
        classes: the profession in each text, to give each profession its own classifier and words (table 10).
        rounds: the largest number of rounds.
        words_per_group: the number of words of each group that a round scrubs (the paper's n).
        min_texts: the number of training texts in which a word must occur to be counted.
        until_majority: stop as soon as the held-out accuracy is not above the share of the majority.
        held_out: the share of the texts, drawn at random within each group, on which accuracies are measured.
        ridge: weight of half the squared norm of the weights beside the summed cross entropy (scikit-learn's 1 / C).
        seed: seed of that draw; the classifier itself uses no random numbers.
        mask: the replacement.

    Raises:
        UndefinedError: without classes: there is one group only, or a group has fewer than two texts. A class with this problem
            is ``left`` as it is.
        SettingError: the numbers of texts, groups and classes differ; a setting is out of range.

    >>> texts = ["a keen nurse", "a nurse, keen", "the nurse", "a keen coder", "one coder", "Coder here"]
    >>> result = iterative_scrub(texts, "FFFMMM", rounds=1, words_per_group=1, min_texts=1, until_majority=False)
    >>> result.rounds[None].words, result.texts[1], result.texts[5]
    (({'F': ('nurse',), 'M': ('coder',)},), 'a _, keen', '_ here')
    """
    limit = _Limit(rounds, words_per_group, min_texts, until_majority, held_out, ridge)
    if len(groups) != len(texts) or (classes is not None and len(classes) != len(texts)):
        raise SettingError(f"expected one group, and one class if classes are used, for each of the {len(texts)} texts")
    counts, vocabulary = _count_words(texts)
    rounds_of: dict[Hashable, Rounds] = {}
    left: dict[Hashable, str] = {}
    scrubbed = list(texts)
    for kind, rows in _rows_by_class(classes, len(texts)).items():
        try:
            rounds_of[kind] = _find_words(counts[rows], vocabulary, [groups[row] for row in rows], limit, seed)
        except UndefinedError as reason:
            if classes is None:
                raise
            left[kind] = str(reason)
            continue
        for row in rows:
            scrubbed[row] = _masked(texts[row], rounds_of[kind].all_words, mask)
    return IterativeScrub(tuple(scrubbed), rounds_of, left)


@dataclass(frozen=True)
class IterativeScrubbing(Method):
    """Scrub further words that predict gender, round by round (orgad2022, appendix C).

    The paper's method is ``Scrubbing() & IterativeScrubbing()``. ``by_class`` treats each class by itself (table 10); classes with
    too few rows of a group stay as they are. The other settings are those of :func:`iterative_scrub`.
    """

    name: ClassVar[str] = "iterative-scrubbing"
    rounds: int = 10
    words_per_group: int = 10
    by_class: bool = False
    min_texts: int = 3
    until_majority: bool = True
    held_out: float = 0.25
    ridge: float = 1.0

    def __post_init__(self) -> None:
        """Reject settings that are out of range."""
        _Limit(self.rounds, self.words_per_group, self.min_texts, self.until_majority, self.held_out, self.ridge)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Scrub the texts of each row.

        Raises:
            NotApplicableError: the rows have no column of the group, or no column of the class although ``by_class`` is set.
        """
        if columns.group is None:
            raise NotApplicableError(
                "iterative scrubbing needs the person's gender, but the training data have no column of it"
            )
        if self.by_class and columns.label is None:
            raise NotApplicableError(
                "iterative scrubbing by_class needs a class, but the training data have no column of it"
            )
        label = columns.label if self.by_class else None
        result = iterative_scrub(
            [texts_of(row, columns.texts, i) for i, row in enumerate(rows)],
            [cell_of(row, columns.group, i) for i, row in enumerate(rows)],
            None if label is None else [cell_of(row, label, i) for i, row in enumerate(rows)],
            rounds=self.rounds, words_per_group=self.words_per_group, min_texts=self.min_texts,
            until_majority=self.until_majority, held_out=self.held_out, ridge=self.ridge, seed=seed,
        )  # fmt: skip
        return [
            {**row, **dict(zip(columns.texts, texts, strict=True))}
            for row, texts in zip(rows, result.texts, strict=True)
        ]


class _LetterWords:
    """Words of letters only, all or some: a container for :func:`find_words` that ignores case."""

    def __init__(self, words: frozenset[str] | None = None) -> None:
        self.words = words

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.isalpha() and (self.words is None or word.lower() in self.words)


def _masked(texts: Texts, words: frozenset[str], mask: str) -> Texts:
    if not isinstance(texts, str):
        return tuple(_masked(text, words, mask) for text in texts)
    return replace_spans(texts, [(start, end, mask) for start, end in find_words(texts, _LetterWords(words))])


def _count_words(texts: Sequence[str] | Sequence[tuple[str, ...]]) -> tuple[csr_matrix[np.float64], list[str]]:
    """Return the word counts as a sparse matrix (texts, words), and the words in alphabetical order."""
    from scipy.sparse import csr_matrix

    number: dict[str, int] = {}
    columns, ends, letters = array("i"), array("q", [0]), _LetterWords()
    for text in texts:
        for part in (text,) if isinstance(text, str) else text:
            columns.extend(number.setdefault(part[a:b].lower(), len(number)) for a, b in find_words(part, letters))
        ends.append(len(columns))
    vocabulary = sorted(number)
    place = np.empty(len(number), dtype=np.int32)
    place[[number[word] for word in vocabulary]] = np.arange(len(number))
    indices = place[np.frombuffer(columns, dtype=np.int32)] if columns else np.zeros(0, dtype=np.int32)
    counts = csr_matrix((np.ones(len(indices)), indices, np.asarray(ends)), shape=(len(texts), len(number)))
    counts.sum_duplicates()
    return counts, vocabulary


def _rows_by_class(classes: Sequence[Hashable] | None, n: int) -> dict[Hashable, list[int]]:
    if classes is None:
        return {None: list(range(n))}
    rows: dict[Hashable, list[int]] = {}
    for row, kind in enumerate(classes):
        rows.setdefault(kind, []).append(row)
    return rows


@dataclass(frozen=True)
class _Limit:
    rounds: int
    words_per_group: int
    min_texts: int
    until_majority: bool
    held_out: float
    ridge: float

    def __post_init__(self) -> None:
        counts = {"rounds": self.rounds, "words_per_group": self.words_per_group, "min_texts": self.min_texts}
        for name, count in counts.items():
            if count < 1:
                raise SettingError(f"{name} should be 1 or more, got {count!r}")
        if not 0 < self.held_out < 1:
            raise SettingError(f"held_out should be a share above 0 and below 1, got {self.held_out!r}")
        if not 0 < self.ridge < float("inf"):
            raise SettingError(f"ridge should be a number above 0, got {self.ridge!r}")


def _find_words(
    counts: csr_matrix[np.float64], vocabulary: list[str], groups: Sequence[Hashable], limit: _Limit, seed: int
) -> Rounds:
    """Find the words that predict the group, round by round, from the sparse counts (texts, words)."""
    kinds = sorted(set(groups), key=str)
    y = np.array([kinds.index(group) for group in groups], dtype=np.int64)
    if len(kinds) < 2:
        raise UndefinedError("all texts are of one group")
    if np.bincount(y).min() < 2:
        raise UndefinedError("a group has fewer than two texts")
    test = draw_held_out(y, limit.held_out, np.random.default_rng(seed))
    majority = float((y[test] == np.bincount(y[~test]).argmax()).mean())
    left = np.flatnonzero(counts[~test].getnnz(axis=0) >= limit.min_texts)
    words: list[Mapping[Hashable, tuple[str, ...]]] = []
    accuracies: list[float] = []
    while True:
        table = counts[:, left]
        weights, bias = logistic_weights(table[~test], y[~test], limit.ridge)
        accuracies.append(float((predicted(table[test] @ weights.T + bias) == y[test]).mean()))
        if len(words) == limit.rounds or (limit.until_majority and accuracies[-1] <= majority):
            break
        best = _largest_weights(weights, limit.words_per_group)
        scrubbed = np.unique(np.concatenate(best))
        if not len(scrubbed):
            break
        words.append(
            {kind: tuple(vocabulary[i] for i in left[columns]) for kind, columns in zip(kinds, best, strict=True)}
        )
        left = np.delete(left, scrubbed)
    return Rounds(tuple(words), tuple(accuracies), majority)


def _largest_weights(weights: NDArray[np.float64], n: int) -> list[NDArray[np.int64]]:
    """Return the columns with the n largest weights towards each label, without rounding errors; ties in order of columns."""
    towards = np.vstack([-weights, weights]) if len(weights) == 1 else weights
    least = _ZERO * np.abs(weights).max(initial=0.0)
    best = [(row, np.argsort(-row, kind="stable")[:n]) for row in towards]
    return [columns[row[columns] > least] for row, columns in best]
