"""The interface of all scorers, and the checks that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ScoreError
from pytest_genderbias.models.model import Model
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import ClassProbabilities, Query, TextVectors

HALVED = "batches halved {} times: out of memory"  #: a remark of whatever runs batches


class Progress(Protocol):
    """Shows the progress of scoring, or of a training."""

    def __call__(self, label: str, total: int, done: int) -> AbstractContextManager[Callable[[int], object]]:
        """Show ``total`` cases, ``done`` of them complete. The context yields a function that adds to the complete
        cases.
        """


class CountNote(str):
    """A remark with a count, such as ``3 texts cut``. Those of several workers can be added.

    ``text`` has ``{}`` in the place of ``number``.
    """

    number: int
    text: str

    def __new__(cls, number: int, text: str) -> CountNote:
        """Make the remark."""
        note = super().__new__(cls, text.format(number))
        note.number, note.text = number, text
        return note

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # pickle makes it anew from these
        """Return the arguments with which a copy is made."""
        return self.number, self.text


class Scorer(Protocol):
    """The scores of a model for the cases of a space."""

    def score(self, cases: IntArray) -> NDArray[np.generic]:
        """Return the scores of the cases with these numbers: shape (len(cases), width of the query).

        They may be NaN or infinite. The caller refuses these with :func:`check_finite`, as the engine does.
        """

    @property
    def notes(self) -> list[str]:
        """Remarks on how the scores were computed, for the result."""


@dataclass(frozen=True)
class PlainScorer:
    """A scorer that is a function.

    Attributes:
        score: returns the scores of the cases with some numbers: shape (len(cases), width of the query).
        remarks: returns the remarks so far; ``None`` stands for no remark.
    """

    score: Callable[[IntArray], NDArray[np.generic]]
    remarks: Callable[[], Iterable[str | None]] = tuple

    @property
    def notes(self) -> list[str]:
        """Remarks on how the scores were computed, for the result."""
        return [remark for remark in self.remarks() if remark]


def answer_width(query: Query, model: Model) -> int:
    """Return the number of values that a query has for each case."""
    if query.width is not None:
        return query.width
    if isinstance(query, ClassProbabilities):
        return len(model.role.labels)
    return model.width_of(query.where) if isinstance(query, TextVectors) else model.width


def check_finite(finite: NDArray[np.bool_], space: Cases, cases: IntArray, name: str) -> None:
    """Check that the scores of all cases are finite: ``finite`` has the shape (len(cases),).

    Raises:
        ScoreError: naming the first case whose scores are not.
    """
    if not finite.all():
        text = " / ".join(space.sentences(cases[[int(np.argmin(finite))]])[0])
        raise ScoreError(f"{name} gives NaN or infinite scores, first for {text!r}; nothing is measured with it")
