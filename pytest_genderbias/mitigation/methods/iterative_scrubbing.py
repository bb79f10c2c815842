"""Iterative scrubbing: in each round a classifier finds the words that predict gender best, and they are scrubbed
(orgad2022, appendix C).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError, UndefinedError
from pytest_genderbias.mitigation.methods.base import Columns, Method, cell_of, texts_of
from pytest_genderbias.mitigation.methods.nullspace import draw_held_out, logistic_weights
from pytest_genderbias.mitigation.methods.scrubbing import MASK, Scrubbing, scrub
from pytest_genderbias.mitigation.words.matching import find_words, refuse_uncut, replace_spans
from pytest_genderbias.recipes.recipe import ADDED_LATER, Row, numbers_by_key
from pytest_genderbias.statistics.linear_probe import predicted
from pytest_genderbias.text.normal_form import is_letters, normal_form
from pytest_genderbias.text.schema import Count, Positive, Share, check_fields

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_ZERO = 1e-5  #: a weight that is smaller than this share of the largest is rounding
Texts: TypeAlias = tuple[str, ...]  #: texts that belong together, which are counted and scrubbed like one


@dataclass(frozen=True)
class Rounds:
    """The rounds of one iterative scrubbing.

    ``words`` are the words scrubbed in each round by group, each with its weight towards the group (above 0), the
    largest weights first. ``accuracies`` are those of a new classifier on held-out texts before the first round and
    after each round (0 to 1; neutral: ``majority``). ``majority`` is the share of the held-out texts with the training
    part's most frequent group, the accuracy of a classifier that ignores the texts.
    """

    words: tuple[Mapping[Hashable, Mapping[str, float]], ...]
    accuracies: tuple[float, ...]
    majority: float


def scrub_in_rounds(
    texts: Sequence[Texts],
    groups: Sequence[Hashable],
    classes: Sequence[Hashable] | None,
    limit: IterativeScrubbing,
    seed: int,
) -> tuple[list[Texts], dict[Hashable, Rounds]]:
    """Scrub, round by round, the words from which a classifier predicts the group best (orgad2022, appendix C, tables 9
    and 10).

    Each round fits a logistic regression on word counts, and scrubs the words with the largest weights towards each
    group in all texts. Words are those of :func:`~pytest_genderbias.mitigation.methods.scrubbing.scrub`, in lower case
    and of letters only. The paper's texts were scrubbed of names and gender words first.

    Args:
        texts: tuples of texts that belong together; a tuple is counted and scrubbed like one text.
        groups: the person's gender in each text.
        classes: the profession in each text, to give each profession its own classifier and words (table 10); ``None``
            for one classifier of all texts.
        limit: the limits; what it does with rows is left aside.
        seed: seed of the held-out texts; the classifier itself uses no random numbers.

    Returns:
        The scrubbed texts. And the rounds of each class, or under ``None`` those over all texts; a class of one group
        only, or with a group of fewer than two texts, has none and is left as it is.

    Raises:
        UndefinedError: without classes: there is one group only, or a group of fewer than two texts.
        SettingError: the numbers of texts, groups and classes differ; the texts have no spaces between words.

    >>> told = ("a keen nurse", "a nurse, keen", "the nurse", "a keen coder", "one coder", "Coder here")
    >>> texts = [(text,) for text in told]
    >>> limit = IterativeScrubbing(rounds=1, words_per_group=1, min_texts=1, until_majority=False)
    >>> scrubbed, rounds = scrub_in_rounds(texts, "FFFMMM", None, limit, 0)
    >>> [list(words) for words in rounds[None].words[0].values()], scrubbed[1], scrubbed[5]
    ([['nurse'], ['coder']], ('a _, keen',), ('_ here',))
    """
    if len(groups) != len(texts) or (classes is not None and len(classes) != len(texts)):
        raise SettingError(f"expected one group, and one class if classes are used, for each of the {len(texts)} texts")
    counts, vocabulary = _count_words(texts)
    rounds_of: dict[Hashable, Rounds] = {}
    scrubbed = list(texts)
    rows_of = {None: list(range(len(texts)))} if classes is None else numbers_by_key(classes)
    for kind, rows in rows_of.items():
        try:
            rounds_of[kind] = _find_words(counts[rows], vocabulary, [groups[row] for row in rows], limit, seed)
        except UndefinedError:
            if classes is None:
                raise
            continue
        removed = frozenset(word for by_group in rounds_of[kind].words for words in by_group.values() for word in words)
        for row in rows:
            scrubbed[row] = _masked(texts[row], removed)
    return scrubbed, rounds_of


def removed_words(
    texts: Sequence[str],
    groups: Sequence[Hashable],
    classes: Sequence[Hashable] | None = None,
    *,
    profession: Hashable = None,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    **settings: Any,
) -> dict[int, Rounds]:
    """Return by seed which words iterative scrubbing removes, and the accuracy of each classifier (orgad2022, appendix
    C). :func:`rounds_table` makes a table of them.

    First names and gender words are scrubbed first. Then each round fits a logistic regression on word counts that
    predicts the group, and removes the words with the largest weights towards each group. The paper has five seeds and
    ten words a group; it does not say when it stops (**choice**: after ``rounds`` rounds; with ``until_majority``,
    seeds may have different numbers of them), nor what a seed changes (**choice**: the held-out texts).

    Args:
        texts: texts.
        groups: the person's gender in each text.
        classes: the profession in each text; needed for ``profession`` only.
        profession: use the texts of this class alone (table 10: nurses); ``None`` for all (table 9).
        seeds: seeds of the held-out texts.
        **settings: of :class:`IterativeScrubbing`, but for ``by_class``. ``until_majority`` is False by default.

    Raises:
        UndefinedError: there is one group only, or a group has fewer than two texts.
        SettingError: the numbers of texts, groups and classes differ; no text has the class; a setting is out of range.

    >>> texts = ["She is a keen nurse"] * 4 + ["He is a calm nurse"] * 4
    >>> found = removed_words(texts, "FFFFMMMM", seeds=[0, 1], rounds=1, words_per_group=1)
    >>> {seed: rounds.accuracies for seed, rounds in found.items()}, rounds_table(found)[0]["words"]
    ({0: (1.0, 0.5), 1: (1.0, 0.5)}, {'F': ['keen'], 'M': ['calm']})
    """
    if not seeds:
        raise SettingError("there is no seed; give at least one")
    limit = IterativeScrubbing(**{"until_majority": False, **settings})
    if limit.by_class:
        raise SettingError("by_class is a setting of the method; name one class instead (profession=...)")
    if any(len(column) != len(texts) for column in (groups, classes) if column is not None):
        raise SettingError(f"expected one group for each of the {len(texts)} texts, and as many classes if given")
    rows = range(len(texts)) if profession is None else _rows_of(classes or (), profession)
    selected = [(scrub(texts[row]) if limit.scrub_first else texts[row],) for row in rows]
    of_rows = [groups[row] for row in rows]
    return {seed: scrub_in_rounds(selected, of_rows, None, limit, seed)[1][None] for seed in seeds}


def rounds_table(by_seed: Mapping[int, Rounds], words: int = 10) -> list[dict[str, object]]:
    """Return a row of plain values for each round of several seeds, and one for the classifier after the last.

    A row has ``iteration`` (from 1), ``accuracy`` and ``majority`` (means over the seeds of the round), ``sd``
    (standard deviation of the accuracy, ``None`` for one seed), ``seeds``, and ``words``: for each group the first
    ``words`` words. Those that most seeds removed in the round come first; of equally many, those with the largest mean
    weight. The last row has none.
    """
    rows: list[tuple[dict[int, float], dict[Hashable, list[str]]]] = []
    for number in range(max(len(found.words) for found in by_seed.values())):
        reached = {seed: found for seed, found in by_seed.items() if number < len(found.words)}
        ranked = _ranked([found.words[number] for found in reached.values()])
        rows.append(({seed: found.accuracies[number] for seed, found in reached.items()}, ranked))
    rows.append(({seed: found.accuracies[-1] for seed, found in by_seed.items()}, {}))
    return [
        {
            "iteration": number,
            "accuracy": fmean(accuracies.values()),
            "sd": stdev(accuracies.values()) if len(accuracies) > 1 else None,
            "majority": fmean(by_seed[seed].majority for seed in accuracies),
            "seeds": len(accuracies),
            "words": {str(group): found[:words] for group, found in ranked.items()},
        }
        for number, (accuracies, ranked) in enumerate(rows, 1)
    ]


def _ranked(chosen: Sequence[Mapping[Hashable, Mapping[str, float]]]) -> dict[Hashable, list[str]]:
    """Return by group the words that seeds chose in one round, in the order of :func:`rounds_table`."""
    weights: dict[Hashable, dict[str, list[float]]] = {}
    for of_seed in chosen:
        for group, words in of_seed.items():
            of_group = weights.setdefault(group, {})
            for word, weight in words.items():
                of_group.setdefault(word, []).append(weight)
    return {
        group: sorted(of_group, key=lambda word: (-len(of_group[word]), -fmean(of_group[word]), word))
        for group, of_group in weights.items()
    }


def _rows_of(classes: Sequence[Hashable], profession: Hashable) -> list[int]:
    """Return the rows of a class.

    Raises:
        SettingError: there are none; the message names the classes that there are.
    """
    rows = [row for row, kind in enumerate(classes) if kind == profession]
    if not rows:
        present = sorted({str(kind) for kind in classes})
        shown = ", ".join(present[:12]) + (", ..." if len(present) > 12 else "")
        raise SettingError(f"no text has the profession {profession!r}; there are {shown or 'no classes'}")
    return rows


@dataclass(frozen=True)
class IterativeScrubbing(Method):
    """Scrub first names and gender words, and then further words that predict gender, round by round (orgad2022,
    appendix C).

    ``scrub_first`` false leaves names and gender words to the rounds. ``by_class`` treats each class by itself; classes
    with too few rows of a group stay as the first part left them. ``profession`` is the one class whose texts lose
    further words (table 10: nurses). ``rounds`` is the largest number of rounds, ``words_per_group`` the number of
    words of each group that a round scrubs, ``min_texts`` the number of texts in which a word must occur.
    ``until_majority`` stops as soon as the accuracy on the share ``held_out`` of the texts is not above that of the
    majority. ``ridge`` is the penalty of the logistic regression: the weight of half the squared norm of the weights
    beside the summed cross entropy (scikit-learn's 1 / C). :func:`removed_words` and :func:`rounds_table` show the
    words over several seeds.
    """

    name: ClassVar[str] = "iterative-scrubbing"
    rounds: Count = 10
    words_per_group: Count = 10
    by_class: bool = False
    min_texts: Count = 3
    until_majority: bool = True
    held_out: Share = 0.25
    ridge: Positive = 1.0
    scrub_first: bool = True
    profession: str | None = field(default=None, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        """Reject settings that are out of range."""
        check_fields(self)
        if self.by_class and self.profession is not None:
            raise SettingError("profession names one class, and by_class takes each; set one of them")

    def rows(self, rows: Sequence[Row], columns: Columns, seed: int) -> list[Row]:
        """Scrub the texts of each row.

        Raises:
            NotApplicableError: the rows have no column of the group, or no column of the class although a setting needs
                it.
            SettingError: no row has the profession.
        """
        if columns.group is None:
            raise NotApplicableError(
                "iterative scrubbing needs the person's gender, but the training data have no column of it"
            )
        needing = "by_class" if self.by_class else "of one profession" if self.profession is not None else ""
        if needing and columns.label is None:
            raise NotApplicableError(
                f"iterative scrubbing {needing} needs a class, but the training data have no column of it"
            )
        groups = [cell_of(row, columns.group, i) for i, row in enumerate(rows)]
        classes = None
        if needing and columns.label is not None:
            classes = [cell_of(row, columns.label, i) for i, row in enumerate(rows)]
        scrubbed: list[Row] = Scrubbing().rows(rows, columns, seed) if self.scrub_first else list(rows)
        used = range(len(rows)) if self.profession is None else _rows_of(classes or (), self.profession)
        texts = [texts_of(scrubbed[i], columns.texts, i) for i in used]
        of_class = classes if self.by_class else None
        of_rows, _ = scrub_in_rounds(texts, [groups[i] for i in used], of_class, self, seed)
        for i, of_row in zip(used, of_rows, strict=True):
            scrubbed[i] = {**scrubbed[i], **dict(zip(columns.texts, of_row, strict=True))}
        return scrubbed


class _LetterWords:
    """Words of letters only, all or some: a container for :func:`find_words` that ignores case."""

    def __init__(self, words: frozenset[str] | None = None) -> None:
        self.words = words

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and is_letters(word) and (self.words is None or word.lower() in self.words)


def _masked(texts: Texts, words: frozenset[str]) -> Texts:
    found = [[(*span, MASK) for span in find_words(text, _LetterWords(words))] for text in texts]
    return tuple(map(replace_spans, texts, found))


def _count_words(texts: Sequence[Texts]) -> tuple[csr_matrix[np.float64], list[str]]:
    """Return the word counts as a sparse matrix (texts, words), and the words in alphabetical order."""
    from scipy.sparse import csr_matrix

    refuse_uncut(text for of_row in texts for text in of_row)
    number: dict[str, int] = {}
    columns, ends, letters = array("i"), array("q", [0]), _LetterWords()
    for of_row in texts:
        for text in of_row:
            columns.extend(
                number.setdefault(normal_form(text[a:b]).lower(), len(number)) for a, b in find_words(text, letters)
            )
        ends.append(len(columns))
    vocabulary = sorted(number)
    place = np.empty(len(number), dtype=np.int32)
    place[[number[word] for word in vocabulary]] = np.arange(len(number))
    indices = place[np.frombuffer(columns, dtype=np.int32)] if columns else np.zeros(0, dtype=np.int32)
    counts = csr_matrix((np.ones(len(indices)), indices, np.asarray(ends)), shape=(len(texts), len(number)))
    counts.sum_duplicates()
    return counts, vocabulary


def _find_words(
    counts: csr_matrix[np.float64],
    vocabulary: list[str],
    groups: Sequence[Hashable],
    limit: IterativeScrubbing,
    seed: int,
) -> Rounds:
    """Find the words that predict the group, round by round, from the sparse counts (texts, words)."""
    kinds = sorted(set(groups), key=str)
    y = np.array([kinds.index(group) for group in groups], dtype=np.int64)
    test, majority = draw_held_out(y, limit.held_out, seed)
    left = np.flatnonzero(counts[~test].getnnz(axis=0) >= limit.min_texts)
    words: list[Mapping[Hashable, Mapping[str, float]]] = []
    accuracies: list[float] = []
    while True:
        table = counts[:, left]
        weights, bias = logistic_weights(table[~test], y[~test], limit.ridge)
        accuracies.append(float((predicted(table[test] @ weights.T + bias) == y[test]).mean()))
        if len(words) == limit.rounds or (limit.until_majority and accuracies[-1] <= majority):
            break
        towards = np.vstack([-weights, weights]) if len(weights) == 1 else weights
        best = _largest_weights(towards, limit.words_per_group)
        scrubbed = np.unique(np.concatenate(best))
        if not len(scrubbed):
            break
        words.append(
            {
                kind: {vocabulary[left[i]]: float(row[i]) for i in columns}
                for kind, row, columns in zip(kinds, towards, best, strict=True)
            }
        )
        left = np.delete(left, scrubbed)
    return Rounds(tuple(words), tuple(accuracies), majority)


def _largest_weights(towards: NDArray[np.float64], n: int) -> list[NDArray[np.int64]]:
    """Return the columns with the n largest weights towards each label, a row each, without rounding errors; ties in
    order of columns.
    """
    least = _ZERO * np.abs(towards).max(initial=0.0)
    best = [(row, np.argsort(-row, kind="stable")[:n]) for row in towards]
    return [columns[row[columns] > least] for row, columns in best]
