"""Cases, questions about them, and the answers of a model.

Cases are a product of templates and words (:class:`~pytest_genderbias.suites.space.CaseSpace`), or texts of a data set
(:class:`TextCases`). The engine treats both alike.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.suites.query import BesideText, Query

IntArray = NDArray[np.int64]
Spans = tuple[tuple[int, int], ...]
#: What is known of the cases (gold answers, groups, ids): one array per fact, whose dtype depends on the fact.
Facts: TypeAlias = Mapping[str, NDArray[Any]]
#: Arrays of a summary, by name.
Items: TypeAlias = dict[str, NDArray[np.generic]]


class Cases(ABC):
    """Numbered cases that are drawn in units and turned into text."""

    @property
    @abstractmethod
    def n_units(self) -> int:
        """Number of sampling units."""

    @property
    @abstractmethod
    def cases_per_unit(self) -> int:
        """Number of cases that are scored together with one unit."""

    @property
    def n_cases(self) -> int:
        """Number of cases in all."""
        return self.n_units * self.cases_per_unit

    def cases_of(self, units: IntArray) -> IntArray:
        """Return the case numbers of the units, unit by unit: shape (len(units) * cases_per_unit,)."""
        inner = np.arange(self.cases_per_unit, dtype=np.int64)
        return (units.astype(np.int64)[:, None] * self.cases_per_unit + inner).ravel()

    @abstractmethod
    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the text of each case, one string a segment."""

    @abstractmethod
    def digest(self) -> str:
        """Return a SHA-256 over everything that can change an answer or a statistic."""


@dataclass(frozen=True)
class TextCases(Cases):
    """Texts, sentence pairs or words of a data set.

    Attributes:
        texts: one row per case, of one or two segments.
        spans: for each case the character ranges [start, end) in its first segment that the query refers to (candidates
            and pronoun, words to score); empty if there are none.
        facts: known facts of the cases (gold answers, groups), arrays of length n; part of the digest.
        cases_per_unit: number of consecutive cases that make a sampling unit.
    """

    texts: Sequence[tuple[str, ...]]
    spans: Sequence[Spans] = ()
    facts: Facts = field(default_factory=dict)
    cases_per_unit: int = 1

    def __post_init__(self) -> None:
        """Check that all columns have the same length.

        Raises:
            ValueError: they do not, or the cases are no whole number of units.
        """
        n = len(self.texts)
        if (self.spans and len(self.spans) != n) or any(len(column) != n for column in self.facts.values()):
            raise ValueError("texts, spans and facts should have the same length")
        if n % self.cases_per_unit:
            raise ValueError("the cases should be whole units")

    @property
    def n_units(self) -> int:
        """Number of sampling units."""
        return len(self.texts) // self.cases_per_unit

    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the text of each case."""
        return [self.texts[i] for i in cases]

    def digest(self) -> str:
        """Return a SHA-256 over texts, spans and facts."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.sha256(repr((list(self.texts), list(self.spans), self.cases_per_unit)).encode())
        for name, column in sorted(self.facts.items()):
            digest.update(repr((name, np.asarray(column).tolist())).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class Question:
    """A question to the model: a query about cases.

    ``cases`` is ``None`` if the query returns the model's own content (a table of predictions, a text), or names a text
    beside it. ``whole``: all cases are scored whatever the sampling limit, such as the controls that show whether a
    model can do the task.
    """

    cases: Cases | None
    query: Query
    whole: bool = False

    @property
    def data_digest(self) -> str | None:
        """The SHA-256 of the data of the question, or ``None``."""
        if isinstance(self.query, BesideText):
            return self.query.sha256
        return None if self.cases is None else self.cases.digest()


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Attributes:
        cases: the cases of the question.
        units: numbers of the scored units, shape (n,).
        values: shape (n, cases_per_unit, width), as the query defines them.
        vocabulary: for fills, the text of each token id that occurs.
        content: the content that a query without cases returned, with ``count`` cases; or the texts of generated
            tokens.
        count: number of cases of ``content``.
        stopped: whether scoring ended before its limit because the gates were decided.
        unread: why the scores say nothing, where the model's tokenizer cannot tell the cases apart; no statistic of the
            question then has a value. Empty otherwise.
    """

    cases: Any  # TextCases, CaseSpace or None: each family knows which one it asked about
    units: IntArray
    values: NDArray[Any]
    vocabulary: Mapping[int, str] = field(default_factory=dict)
    content: Any = None  # of a type that the query defines
    count: int = 0
    stopped: bool = False
    unread: str = ""

    @property
    def n(self) -> int:
        """Number of cases that were scored."""
        return self.count if self.cases is None else len(self.units) * int(self.cases.cases_per_unit)

    @property
    def n_total(self) -> int:
        """Number of cases of the whole question."""
        return self.count if self.cases is None else int(self.cases.n_cases)

    def facts(self, each: int = 1) -> Facts:
        """Return the facts of the scored cases, in the order of the answer: of every ``each``-th one, where those
        between have the same.
        """
        numbers = self.cases.cases_of(self.units)[::each]
        return {name: np.asarray(column)[numbers] for name, column in self.cases.facts.items()}

    def scored_cases(self) -> tuple[IntArray, NDArray[Any]]:
        """Return the numbers of the scored cases, ascending, and their values, shape (n, width)."""
        order = np.argsort(self.units)
        return self.cases.cases_of(self.units[order]), self.values[order].reshape(self.n, -1)

    def in_order(self) -> NDArray[Any]:
        """Return the values by case number, shape (n_cases, width): all cases must have been scored."""
        if self.n != self.n_total:
            raise ValueError("not all cases were scored")
        ordered = np.empty_like(self.values)
        ordered[self.units] = self.values
        return ordered.reshape(self.n_total, -1)


Answers: TypeAlias = Mapping[str, Answer]  #: the answers to the questions of a suite, by name


def take_arrays(arrays: Mapping[str, NDArray[Any]], *names: str) -> list[NDArray[Any]]:
    """Return arrays by name.

    Raises:
        UndefinedError: an array is missing, as without a data set.
    """
    missing = [name for name in names if name not in arrays]
    if missing:
        raise UndefinedError(f"the items have no {', '.join(missing)}")
    return [np.asarray(arrays[name]) for name in names]


def refuse_unable(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse a figure of bias where the model cannot do the task, or where that is not known.

    Args:
        arrays: items of a measurement; ``undefined`` has the reason, or an empty text.

    Raises:
        UndefinedError: the model cannot do the task.
    """
    reason = str(take_arrays(arrays, "undefined")[0][0])
    if reason:
        raise UndefinedError(reason)
