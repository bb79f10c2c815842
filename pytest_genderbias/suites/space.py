"""The cases of a suite as a product of axes, so that two million cases take no memory before they are scored."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.suites.cases import IntArray
from pytest_genderbias.text.template import Piece, Word, piece_texts

TEMPLATE = "template"
MOST_CASES = 10**8  #: The largest number of cases: they are shuffled before a sample of them is drawn.


@dataclass(frozen=True)
class Template:
    """One or two segments (two for a sentence pair), each a sequence of pieces."""

    segments: tuple[tuple[Piece, ...], ...]


@dataclass(frozen=True)
class Axis:
    """One factor of the product. Each row of ``choices`` picks a value for every column: a slot or ``template``."""

    columns: tuple[str, ...]
    choices: IntArray  # (size, len(columns))

    @property
    def size(self) -> int:
        """Number of values on this axis."""
        return int(self.choices.shape[0])

    @classmethod
    def whole(cls, column: str, size: int) -> Axis:
        """Make the axis that runs over all values of one column."""
        return cls((column,), np.arange(size, dtype=np.int64)[:, None])


@dataclass(frozen=True)
class CaseSpace:
    """All cases of a suite. The first ``unit_axes`` axes make the sampling units; the rest is scored with each unit."""

    templates: tuple[Template, ...]
    words: Mapping[str, tuple[Word, ...]]
    axes: tuple[Axis, ...]
    unit_axes: int

    def __post_init__(self) -> None:
        """Check that the cases can be numbered.

        Raises:
            SettingError: there are too many.
        """
        refuse_too_many([axis.size for axis in self.axes])

    @property
    def n_units(self) -> int:
        """Number of sampling units."""
        return math.prod(axis.size for axis in self.axes[: self.unit_axes])

    @property
    def cases_per_unit(self) -> int:
        """Number of cases that are scored together with one unit."""
        return math.prod(axis.size for axis in self.axes[self.unit_axes :])

    @property
    def n_cases(self) -> int:
        """Number of cases in the whole suite."""
        return self.n_units * self.cases_per_unit

    def cases_of(self, units: IntArray) -> IntArray:
        """Return the case numbers of the units, unit by unit: shape (len(units) * cases_per_unit,)."""
        inner = np.arange(self.cases_per_unit, dtype=np.int64)
        return (units.astype(np.int64)[:, None] * self.cases_per_unit + inner).ravel()

    def digest(self) -> str:
        """Return a SHA-256 over templates, words and axes."""
        digest = hashlib.sha256(repr((self.templates, sorted(self.words.items()), self.unit_axes)).encode())
        for axis in self.axes:
            digest.update(repr(axis.columns).encode())
            digest.update(axis.choices.tobytes())
        return digest.hexdigest()

    def digits(self, cases: IntArray) -> list[IntArray]:
        """Return the position of each case on each axis: one array of shape (len(cases),) an axis."""
        rest, digits = cases, []
        for axis in reversed(self.axes):
            rest, digit = np.divmod(rest, axis.size)
            digits.append(digit)
        return digits[::-1]

    def columns(self, cases: IntArray) -> dict[str, IntArray]:
        """Return, for each slot and for ``template``, the index of the value that each case has."""
        values: dict[str, IntArray] = {}
        for axis, digit in zip(self.axes, self.digits(cases), strict=True):
            for position, column in enumerate(axis.columns):
                values[column] = axis.choices[digit, position]
        values.setdefault(TEMPLATE, np.zeros(len(cases), dtype=np.int64))
        return values

    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the text of each case, one string a segment."""
        columns = self.columns(cases)
        return [
            self.sentence({name: int(values[row]) for name, values in columns.items()}, mask)
            for row in range(len(cases))
        ]

    def sentence(self, choice: Mapping[str, int], mask: str = "[MASK]") -> tuple[str, ...]:
        """Return the text for one choice of template and words."""
        segments = self.templates[choice[TEMPLATE]].segments
        return tuple("".join(piece_texts(s, lambda slot: self.words[slot][choice[slot]], mask)) for s in segments)

    def prefix(self, choice: Mapping[str, int], slot: str) -> str:
        """Return the text before ``slot`` in the first segment, and with :meth:`word_of` the word that follows it."""
        (pieces, *_) = self.templates[choice[TEMPLATE]].segments
        at = next(i for i, piece in enumerate(pieces) if piece.slot == slot and not piece.article)
        return "".join(piece_texts(pieces[:at], lambda name: self.words[name][choice[name]], ""))

    def word_of(self, choice: Mapping[str, int], slot: str) -> str:
        """Return the word in a slot, as it stands inside a sentence."""
        return self.words[slot][choice[slot]].text


def refuse_too_many(sizes: Sequence[int]) -> None:
    """Raise an error if the product of these axes has too many cases.

    Raises:
        SettingError: it has.
    """
    if math.prod(sizes) > MOST_CASES:
        shown = " x ".join(f"{size:,}" for size in sizes[:8]) + (" x ..." if len(sizes) > 8 else "")
        raise SettingError(f"expected at most {MOST_CASES:,} cases in the suite, got {shown}; shorten its word lists")


def product(columns: Sequence[IntArray]) -> IntArray:
    """Return all combinations of a value of each column, shape (product of the lengths, columns); the last varies
    fastest.

    Raises:
        SettingError: there are too many.

    >>> product([np.array([0, 1]), np.array([5, 6, 7])]).tolist()
    [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]
    """
    refuse_too_many([len(column) for column in columns])
    rest, rows = np.arange(math.prod(len(column) for column in columns), dtype=np.int64), []
    for column in reversed(columns):
        rest, digit = np.divmod(rest, len(column))
        rows.append(column[digit])
    return np.stack(rows[::-1], axis=1)
