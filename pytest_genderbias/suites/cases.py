"""What is put to a model: cases, and questions about them.

Cases are a product of templates and words (:class:`~pytest_genderbias.suites.space.CaseSpace`), or texts that were read
from a data set (:class:`TextCases`). The engine treats both alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.suites.query import BesideText, Query

IntArray = NDArray[np.int64]
Spans = tuple[tuple[int, int], ...]


class Cases(Protocol):
    """Cases that can be numbered, drawn in units, and turned into text."""

    @property
    def n_units(self) -> int:
        """Number of sampling units."""

    @property
    def cases_per_unit(self) -> int:
        """Number of cases that are scored together with one unit."""

    @property
    def n_cases(self) -> int:
        """Number of cases in all."""

    def cases_of(self, units: IntArray) -> IntArray:
        """Return the case numbers of the units, unit by unit: shape (len(units) * cases_per_unit,)."""

    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the text of each case, one string a segment."""

    def digest(self) -> str:
        """Return a SHA-256 over everything that can change an answer or what is made of it."""


@dataclass(frozen=True)
class TextCases:
    """Texts, sentence pairs or words that were read, and what is known of each.

    ``texts``: one row a case, of one or two segments. ``spans``: for each case the character ranges [start, end) in its first
    segment that the query speaks of (candidates and pronoun, words to be scored); empty where there are none. ``facts``: what
    is known of the cases (gold answers, groups), one array of the length n each; part of the digest.
    """

    texts: Sequence[tuple[str, ...]]
    spans: Sequence[Spans] = ()
    facts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    cases_per_unit: int = 1

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        n = len(self.texts)
        if (self.spans and len(self.spans) != n) or any(len(column) != n for column in self.facts.values()):
            raise ValueError("texts, spans and facts should have the same length")
        if n % self.cases_per_unit:
            raise ValueError("the cases should be whole units")

    @property
    def n_units(self) -> int:
        """Number of sampling units."""
        return len(self.texts) // self.cases_per_unit

    @property
    def n_cases(self) -> int:
        """Number of cases in all."""
        return len(self.texts)

    def cases_of(self, units: IntArray) -> IntArray:
        """Return the case numbers of the units, unit by unit."""
        inner = np.arange(self.cases_per_unit, dtype=np.int64)
        return (units.astype(np.int64)[:, None] * self.cases_per_unit + inner).ravel()

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
    """One thing that a family asks of the model.

    ``cases`` is ``None`` where the query asks for what the model is (a table of predictions, a text), or names a text beside it.
    ``whole``: scored whole whatever the sampling limit, as the accuracy beside a sampled bias.
    """

    cases: Cases | None
    query: Query
    whole: bool = False

    @property
    def data_digest(self) -> str | None:
        """The SHA-256 of the data that the question brings along, or ``None``."""
        if isinstance(self.query, BesideText):
            return self.query.sha256
        return None if self.cases is None else self.cases.digest()


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    ``units``: numbers of the scored units, shape (n,). ``values``: shape (n, cases_per_unit, width), as the query says.
    ``vocabulary``: for fills, the text of each token id that occurs. ``content``: what a query without cases gave, with
    ``count`` as its number of cases; or the texts of generated tokens. ``cases`` are those of the question. ``stopped``: scoring
    ended before its limit, because it was enough.
    """

    cases: Any
    units: IntArray
    values: NDArray[Any]
    vocabulary: Mapping[int, str] = field(default_factory=dict)
    content: Any = None
    count: int = 0
    stopped: bool = False

    @property
    def n(self) -> int:
        """Number of cases that were scored."""
        return self.count if self.cases is None else len(self.units) * int(self.cases.cases_per_unit)

    @property
    def n_total(self) -> int:
        """Number of cases of the whole question."""
        return self.count if self.cases is None else int(self.cases.n_cases)

    def in_order(self) -> NDArray[Any]:
        """Return the values by case number, shape (n_cases, width): only where all cases were scored."""
        if self.n != self.n_total:
            raise ValueError("not all cases were scored")
        ordered = np.empty_like(self.values)
        ordered[self.units] = self.values
        return ordered.reshape(self.n_total, -1)
