"""Calls of the user's objects, whose answers are checked: numbers, their shape and range, and equal answers to equal
questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import BiasError, ScoreError

#: How far the probabilities of a case may sum from one, and how far a number may lie outside its range: rounding.
SUM_TOLERANCE, RANGE_TOLERANCE = 1e-3, 1e-5
#: Two answers to one question may differ by this, as sums in another order do.
SAME_RELATIVE, SAME_ABSOLUTE = 1e-4, 1e-5
_PROBED = 4  #: cases that are asked about twice

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Range:
    """The numbers that an answer may have: between ``low`` and ``high``, and, of ``classes``, those of a case sum to
    one.
    """

    what: str
    low: float = -np.inf
    high: float = np.inf
    classes: bool = False

    def problem(self, answer: FloatArray) -> tuple[int, str] | None:
        """Return the first case with a number outside the range and what is wrong with it, or ``None``. NaN is not
        looked at.
        """
        rows = answer.reshape(len(answer), -1)
        outside = (rows < self.low - RANGE_TOLERANCE) | (rows > self.high + RANGE_TOLERANCE)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            limits = f"{self.low:g} to {self.high:g}" if np.isfinite(self.low) else f"at most {self.high:g}"
            return int(row), f"gives {rows[row, column]:g}, expected {self.what}, {limits}"
        sums = rows.sum(axis=1)
        if self.classes and (np.abs(sums - 1) > SUM_TOLERANCE).any():
            row = int(np.argmax(np.abs(sums - 1) > SUM_TOLERANCE))
            return row, f"gives {self.what} that do not sum to one (they sum to {sums[row]:g})"
        return None


PROBABILITIES = Range("probabilities", 0.0, 1.0, classes=True)
LOG_PROBABILITIES = Range("natural logarithms of probabilities", high=0.0)
ANY_NUMBER = Range("numbers")


class ObjectMethod:
    """A method of the user's object. Its answers are arrays of numbers of the expected shape and range.

    After the first answer a few cases are asked about twice, and both answers have to be equal.

    Args:
        name: the model's name, for messages.
        called: the method's name.
        method: takes columns of equal length, and returns one number or one row for each case.
        within: the numbers that it may return.
    """

    def __init__(self, name: str, called: str, method: Callable[..., object], within: Range = ANY_NUMBER) -> None:
        self._name, self._called, self._method, self._within = name, f"{called} of {name}", method, within
        self._probed = False

    def __call__(self, *columns: Sequence[object], width: int | str | None = None) -> FloatArray:
        """Return the answer for some cases: shape (n,), or (n, ``width``); a text as width names any number of columns.

        Raises:
            ScoreError: the method raises an error; the answer has another shape, is no array of numbers, or has numbers
                outside the range; or a second answer to the same question differs. NaN passes: callers name the case
                that it is for.
        """
        answer = self._ask(columns, width)
        problem = self._within.problem(answer)
        if problem is not None:
            row, text = problem
            raise ScoreError(f"{self._called} {text} for {_case(columns, row)}; nothing is measured with it")
        if not self._probed and len(answer):
            self._probe(columns, width)
            self._probed = True
        return answer

    def _ask(self, columns: Sequence[Sequence[object]], width: int | str | None) -> FloatArray:
        try:
            raw = self._method(*columns)
        except BiasError:
            raise
        except Exception as error:  # of the user's code, of any kind
            raise ScoreError(f"{self._called} failed: {type(error).__name__}: {error}") from error
        try:
            array = np.asarray(raw)
        except Exception as error:  # ragged rows, tensors with a gradient or on another device
            raise ScoreError(f"{self._called} answered with no array of numbers: {error}") from None
        n = len(columns[0])
        expected = (n,) if width is None else (n, width)
        fits = array.shape == expected or (isinstance(width, str) and array.ndim == 2 and len(array) == n)
        if not fits:
            shown = str(expected).replace("'", "")
            raise ScoreError(f"{self._name} answered with an array of the shape {array.shape}, expected {shown}")
        if array.dtype.kind not in "fiu":
            raise ScoreError(f"{self._called} answered with an array of {array.dtype}, expected numbers")
        return array.astype(np.float64)

    def _probe(self, columns: Sequence[Sequence[object]], width: int | str | None) -> None:
        few = [column[:_PROBED] for column in columns]
        first, second = self._ask(few, width), self._ask(few, width)
        if first.shape == second.shape:
            same = np.isclose(first, second, SAME_RELATIVE, SAME_ABSOLUTE, equal_nan=True).reshape(len(first), -1)
            if same.all():
                return
            row, column = np.argwhere(~same)[0]
            one, other = (answer.reshape(len(first), -1)[row, column] for answer in (first, second))
            differ = f"{one:g} and {other:g} for {_case(few, int(row))}"
        else:
            differ = f"arrays of the shapes {first.shape} and {second.shape}"
        raise ScoreError(
            f"{self._called} gives different answers to the same question: {differ}; nothing is measured with it: put"
            " the model into evaluation mode (no dropout), or fix the seed of what it draws"
        )


def _case(columns: Sequence[Sequence[object]], row: int) -> str:
    return repr(" / ".join(str(column[row]) for column in columns))[:200]
