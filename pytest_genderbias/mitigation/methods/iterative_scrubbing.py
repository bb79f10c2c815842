"""Iterative scrubbing: a classifier finds, round by round, the words that tell gender, and they are scrubbed (orgad2022, appendix C)."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Columns, Method, Row, cell_of
from pytest_genderbias.mitigation.methods.nullspace import draw_held_out, logistic_weights
from pytest_genderbias.mitigation.methods.scrubbing import MASK
from pytest_genderbias.mitigation.words.matching import find_words, replace_spans
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.linear_probe import predicted

_ZERO = 1e-5  #: a weight that is smaller than this share of the largest is rounding
Texts = TypeVar("Texts", str, tuple[str, ...])


@dataclass(frozen=True)
class Rounds:
    """What the rounds of iterative scrubbing took out.

    ``words``: of each round, the words by group, the most telling first. ``accuracies``: of a fresh classifier on held-out texts after
    each round, from 0 rounds on (0 to 1; neutral: ``majority``, the share of the held-out texts with the training part's most
    frequent group, which a classifier that reads nothing reaches).
    """

    words: tuple[Mapping[Any, tuple[str, ...]], ...]
    accuracies: tuple[float, ...]
    majority: float


@dataclass(frozen=True)
class IterativeScrub:
    """The scrubbed ``texts``; the ``rounds`` of each class, or under ``None`` those over all; why each class in ``left`` stayed as it was."""

    texts: tuple[Any, ...]
    rounds: Mapping[Any, Rounds]
    left: Mapping[Any, str]


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
) -> IterativeScrub:
    """Scrub, round by round, the words from which a classifier tells the group best (orgad2022, appendix C, tables 9 and 10).

    Each round fits a logistic regression on the counts of words, and scrubs the words with the largest weights towards each group, in
    all texts. Words are those of :func:`scrub`, in lower case, of letters alone. The paper's texts were scrubbed before.

    Args:
        texts: texts, or tuples of texts that belong together; those of a tuple are counted, and scrubbed, as one.
        groups: the person's gender in each.
        classes: the profession of each, where each profession is to have its own classifier and words (table 10).
        rounds: at most so many.
        words_per_group: how many words of each group a round scrubs (the paper's n).
        min_texts: a word counts that is in so many of the texts that the classifier is fitted on.
        until_majority: stop as soon as the held-out accuracy is no better than the majority's share.
        held_out: share of the texts, at random and by group, that accuracies are of.
        ridge: weight of half the squared length of the weights beside the summed cross entropy (scikit-learn's 1 / C).
        seed: of that draw; the classifier itself depends on none.
        mask: what takes the words' places.

    Raises:
        UndefinedError: without classes: one group only, or fewer than two texts of one. With classes such a class is ``left``.
        SettingError: not as many texts as groups or classes; settings that cannot be.

    >>> texts = ["a keen nurse", "a nurse, keen", "the nurse", "a keen coder", "one coder", "Coder here"]
    >>> found = iterative_scrub(texts, "FFFMMM", rounds=1, words_per_group=1, min_texts=1, until_majority=False)
    >>> found.rounds[None].words, found.texts[1], found.texts[5]
    (({'F': ('nurse',), 'M': ('coder',)},), 'a _, keen', '_ here')
    """
    limit = _Limit(rounds, words_per_group, min_texts, until_majority, held_out, ridge)
    if len(groups) != len(texts) or (classes is not None and len(classes) != len(texts)):
        raise SettingError(f"expected a group, and a class if any, of each of the {len(texts)} texts")
    counts, vocabulary = _count_words(texts)
    found: dict[Any, Rounds] = {}
    left: dict[Any, str] = {}
    scrubbed: list[Any] = list(texts)
    for kind, rows in _rows_by_class(classes, len(texts)).items():
        try:
            found[kind] = _read_out(counts[rows], vocabulary, [groups[row] for row in rows], limit, seed)
        except UndefinedError as reason:
            if classes is None:
                raise
            left[kind] = str(reason)
            continue
        chosen = _Letters({word for by_group in found[kind].words for words in by_group.values() for word in words})
        for row in rows:
            scrubbed[row] = _masked(texts[row], chosen, mask)
    return IterativeScrub(tuple(scrubbed), found, left)


@dataclass(frozen=True)
class IterativeScrubbing(Method):
    """Scrub what else tells gender, round by round (orgad2022, appendix C): ``Scrubbing() & IterativeScrubbing()`` is the paper's.

    ``by_class``: each class by itself (table 10); classes that have too few rows of a group stay as they are. Other settings as
    :func:`iterative_scrub`.
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
        """Refuse settings that there are not."""
        _Limit(self.rounds, self.words_per_group, self.min_texts, self.until_majority, self.held_out, self.ridge)

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Scrub the texts of each row.

        Raises:
            NotApplicableError: the rows have no column of the group, or of the class where that is asked for.
        """
        if columns.group is None:
            raise NotApplicableError(
                "iterative scrubbing needs the person's gender, but the training data have no column of it"
            )
        if self.by_class and columns.label is None:
            raise NotApplicableError(
                "iterative scrubbing by_class needs a class, but the training data have no column of it"
            )
        found = iterative_scrub(
            [tuple(row[column] for column in columns.texts) for row in rows],
            [cell_of(row, columns.group, i) for i, row in enumerate(rows)],
            [cell_of(row, columns.label, i) for i, row in enumerate(rows)] if self.by_class and columns.label is not None else None,
            rounds=self.rounds, words_per_group=self.words_per_group, min_texts=self.min_texts,
            until_majority=self.until_majority, held_out=self.held_out, ridge=self.ridge, seed=seed,
        )  # fmt: skip
        return [
            {**row, **dict(zip(columns.texts, texts, strict=True))}
            for row, texts in zip(rows, found.texts, strict=True)
        ]


class _Letters:
    """The words of letters alone, all or some; a container for :func:`find_words`, in which lower and upper case are one."""

    def __init__(self, chosen: set[str] | None = None) -> None:
        self.chosen = chosen

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and word.isalpha() and (self.chosen is None or word.lower() in self.chosen)


def _masked(texts: Texts, chosen: _Letters, mask: str) -> Any:
    if not isinstance(texts, str):
        return tuple(_masked(text, chosen, mask) for text in texts)
    return replace_spans(texts, [(start, end, mask) for start, end in find_words(texts, chosen)])


def _count_words(texts: Sequence[str | tuple[str, ...]]) -> tuple[Any, list[str]]:
    """Return the counts of words, sparse (texts, words), and the words in alphabetical order."""
    from scipy.sparse import csr_matrix

    number: dict[str, int] = {}
    columns, ends, letters = array("i"), array("q", [0]), _Letters()
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


def _rows_by_class(classes: Sequence[Hashable] | None, n: int) -> dict[Any, list[int]]:
    if classes is None:
        return {None: list(range(n))}
    rows: dict[Any, list[int]] = {}
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
        for name in ("rounds", "words_per_group", "min_texts"):
            if getattr(self, name) < 1:
                raise SettingError(f"{name} should be 1 or more, got {getattr(self, name)!r}")
        if not 0 < self.held_out < 1:
            raise SettingError(f"held_out is a share above 0 and below 1, got {self.held_out!r}")
        if not 0 < self.ridge < float("inf"):
            raise SettingError(f"ridge should be a number above 0, got {self.ridge!r}")


def _read_out(counts: Any, vocabulary: list[str], groups: Sequence[Hashable], limit: _Limit, seed: int) -> Rounds:
    """Find the words that tell the group, round by round, given the sparse counts (texts, words)."""
    kinds = sorted(set(groups), key=str)
    y = np.array([kinds.index(group) for group in groups], dtype=np.int64)
    if len(kinds) < 2:
        raise UndefinedError("all texts are of one group")
    if np.bincount(y).min() < 2:
        raise UndefinedError("a group has fewer than two texts")
    test = draw_held_out(y, limit.held_out, np.random.default_rng(seed))
    majority = float((y[test] == np.bincount(y[~test]).argmax()).mean())
    left = np.flatnonzero(counts[~test].getnnz(axis=0) >= limit.min_texts)
    words: list[Mapping[Any, tuple[str, ...]]] = []
    accuracies: list[float] = []
    while True:
        table = counts[:, left]
        weights, bias = logistic_weights(table[~test], y[~test], limit.ridge)
        accuracies.append(float((predicted(table[test] @ weights.T + bias) == y[test]).mean()))
        if len(words) == limit.rounds or (limit.until_majority and accuracies[-1] <= majority):
            break
        best = _most_telling(weights, limit.words_per_group)
        gone = np.unique(np.concatenate(best))
        if not len(gone):
            break
        words.append(
            {kind: tuple(vocabulary[i] for i in left[chosen]) for kind, chosen in zip(kinds, best, strict=True)}
        )
        left = np.delete(left, gone)
    return Rounds(tuple(words), tuple(accuracies), majority)


def _most_telling(weights: NDArray[np.float64], n: int) -> list[NDArray[np.int64]]:
    """Return the columns with the n largest weights towards each label, none that is rounding; ties by column."""
    towards = np.vstack([-weights, weights]) if len(weights) == 1 else weights
    least = _ZERO * np.abs(weights).max(initial=0.0)
    best = [(row, np.argsort(-row, kind="stable")[:n]) for row in towards]
    return [chosen[row[chosen] > least] for row, chosen in best]
