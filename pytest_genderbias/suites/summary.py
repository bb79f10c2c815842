"""The summary of the answers to a family's questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import FloatArray, Interval
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.statistic import Arrays, FamilyStatistic, Options

_PREFIX = "example."  #: of the arrays of :func:`example_arrays`
_ITEM, _TEXT, _FIGURE = f"{_PREFIX}item", f"{_PREFIX}text", f"{_PREFIX}figure."
_MOST, _LONGEST = 1000, 200  #: items, and characters of a sentence, that are kept
_DIGITS = 4  #: after the point, of what is kept of a figure


@dataclass(frozen=True)
class Example:
    """A sentence, and by name the figures that the model gave for it."""

    text: str
    figures: Mapping[str, float]


#: An example for each item, by its label in the item sums.
Examples: TypeAlias = Mapping[str, Example]


def example_arrays(examples: Examples) -> dict[str, NDArray[np.generic]]:
    """Return everything as arrays of numbers and texts, which need no pickle; none without examples.

    >>> sorted(example_arrays({"nurse": Example("He is a nurse", {"ln P": -2.5})}))
    ['example.figure.ln P', 'example.item', 'example.text']
    """
    if not examples:
        return {}
    shown = list(examples.values())
    figures = {
        f"{_FIGURE}{name}": np.asarray([example.figures[name] for example in shown], dtype=np.float32)
        for name in shown[0].figures
    }
    return {_ITEM: _as_bytes(list(examples)), _TEXT: _as_bytes([example.text for example in shown]), **figures}


def read_examples(arrays: Mapping[str, NDArray[np.generic]]) -> Examples:
    """Return the examples among arrays; none if there are none, or they are of another form. Other arrays are
    ignored.
    """
    columns = {name: array for name, array in arrays.items() if name.startswith(_PREFIX)}
    items, texts = columns.pop(_ITEM, None), columns.pop(_TEXT, None)
    numbers = {name.removeprefix(_FIGURE): array for name, array in columns.items() if name.startswith(_FIGURE)}
    if items is None or texts is None or items.dtype.kind != "S" or texts.dtype.kind != "S" or items.ndim != 1:
        return {}
    if any(array.shape != items.shape for array in (texts, *numbers.values())):
        return {}
    if any(array.dtype.kind != "f" for array in numbers.values()):
        return {}
    rows = zip(*(array.tolist() for array in numbers.values()), strict=True) if numbers else [()] * len(items)
    return {
        item.decode(errors="replace"): Example(text.decode(errors="replace"), dict(zip(numbers, row, strict=True)))
        for item, text, row in zip(items.tolist(), texts.tolist(), rows, strict=True)
    }


def _as_bytes(texts: Sequence[str]) -> NDArray[np.bytes_]:
    """Return texts as UTF-8, which takes a quarter of the space of numpy's own texts."""
    return np.asarray([text.encode(errors="replace") for text in texts], dtype=np.bytes_)


def examples_of(
    labels: Sequence[str],
    items: IntArray,
    units: IntArray,
    text: Callable[[int], str],
    figures: Mapping[str, FloatArray],
) -> Examples:
    """Return an example for each item: the scored unit with the smallest number, so that every model has the same one.

    Args:
        labels: names of the items, shape (G,).
        items: the item of each scored unit, shape (n,).
        units: the number of each scored unit, shape (n,).
        text: returns the sentence of a unit.
        figures: what the model gave for each scored unit, by name, each of shape (n,).

    >>> shown = examples_of(["a", "b"], np.array([1, 0, 1]), np.array([5, 7, 3]), str, {"p": np.array([0.1, 0.2, 0.3])})
    >>> shown["b"], sorted(shown)
    (Example(text='3', figures={'p': 0.3}), ['a', 'b'])
    """
    first = np.full(len(labels), np.iinfo(np.int64).max)
    np.minimum.at(first, items, units)
    rows = np.flatnonzero(first[items] == units)[:_MOST]
    return {
        labels[items[row]]: Example(
            text(int(units[row]))[:_LONGEST],
            {name: round(float(values[row]), _DIGITS) for name, values in figures.items()},
        )
        for row in rows.tolist()
    }


def text_of_versions(cases: Cases, unit: int) -> str:
    """Return the first two sentences of a unit on one line."""
    return " | ".join(text for (text,) in cases.sentences(cases.cases_of(np.array([unit]))[:2]))


Record = dict[str, Any]  #: a row of a table of the suite's own


def rows_of(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> list[Record]:
    """Return a record for each row of some columns of one length.

    >>> rows_of({"word": ["nurse", "pilot"], "bias": np.array([0.5, -0.1])})
    [{'word': 'nurse', 'bias': 0.5}, {'word': 'pilot', 'bias': -0.1}]
    """
    rows = zip(*(c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def records_by(
    items: Mapping[str, NDArray[np.generic]],
    slices: Sequence[str],
    row: Callable[[NDArray[np.bool_]], Record],
    worst: Callable[[Record], float],
) -> list[Record]:
    """Return a record for each distinct text of some item arrays, array by array, the worst first.

    Args:
        items: the arrays.
        slices: names of the arrays with the texts, shape (n,).
        row: returns the figures of the units that a mask of shape (n,) selects; nothing leaves the record out.
        worst: returns how bad a record is.

    >>> items = {"field": np.array(["law", "art", "law"]), "gap": np.array([0.1, 0.5, 0.3])}
    >>> mean = lambda here: {"gap": float(items["gap"][here].mean())}
    >>> records_by(items, ["field"], mean, lambda record: record["gap"])
    [{'slice': 'field', 'value': 'art', 'gap': 0.5}, {'slice': 'field', 'value': 'law', 'gap': 0.2}]
    """
    records: list[Record] = []
    for what in slices:
        figures = {str(label): row(items[what] == label) for label in np.unique(items[what])}
        rows: list[Record] = [{"slice": what, "value": label, **found} for label, found in figures.items() if found]
        records += sorted(rows, key=lambda record: -worst(record))
    return records


@dataclass
class Summary:
    """Values, intervals, records and item statistics that a family computes from the answers.

    Attributes:
        statistics: of the family; those that are not taken have no value.
        values: by statistic; ``None`` if the statistic is undefined, with the reason in ``reasons``.
        intervals: by statistic; ``None`` if there is none, with the reason in ``reasons``.
        reasons: by statistic.
        records: rows of the suite's own tables.
        items: raw item statistics.
        notes: remarks for the reader.
        count: number of cases, if the questions do not tell (the words of a text).
        data: digests of data that the cases of the questions do not contain (the persons in a file of predictions).
            Measurements of other data are never compared.
        unstored: arrays from which sums over units are made, but which are not among the items.
        examples: a sentence of each item, with what the model gave for it.
    """

    statistics: Mapping[str, FamilyStatistic] = field(repr=False)
    values: dict[str, float | None] = field(default_factory=dict)
    intervals: dict[str, Interval | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    items: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    count: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    unstored: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    examples: Examples = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Say of each statistic that it is not computed, where nothing is known of any."""
        if not self.reasons and not self.values:
            self.values, self.intervals = dict.fromkeys(self.statistics), dict.fromkeys(self.statistics)
            self.reasons = dict.fromkeys(self.statistics, "not computed")

    def take(
        self,
        key: str,
        value: Callable[[], float],
        interval: Callable[[], Interval | None] | None = None,
        no_interval: str = "",
        over: str = "items",
    ) -> None:
        """Compute a value and its interval; if one is undefined, record the reason.

        Args:
            key: the statistic.
            value: computes the value.
            interval: computes the interval.
            no_interval: the reason if there is no ``interval``, or if it returns ``None``; by default that too few
                units differ.
            over: what the units are, in the plural.
        """
        if interval is None and not no_interval:
            raise ValueError(f"{key} has no interval and no reason why")
        try:
            self.values[key] = float(value())
        except UndefinedError as error:
            self.reasons[key] = str(error)
            return
        self.reasons.pop(key)
        try:
            self.intervals[key] = interval() if interval else None
            reason = no_interval or f"too few {over}, or too few that differ, for an interval"
        except UndefinedError as error:
            reason = str(error)
        if self.intervals[key] is None:
            self.reasons[key] = reason

    def take_sums(self, options: Options, items: Arrays, *names: str, value: Callable[[], float] | None = None) -> None:
        """Compute statistics and their intervals for other units from their own sums, as :meth:`take`.

        Args:
            options: of the measurement.
            items: its arrays.
            *names: of the statistics.
            value: computes the value; by default it is that of the sums.
        """
        for name in names:
            sums = partial(self.statistics[name].item_sums, options, items)
            self.take(name, value or partial(_total, sums), partial(_interval, self.statistics[name], sums))

    def miss(self, reason: str, *keys: str) -> None:
        """Record the reason why statistics (all by default) have no value."""
        for key in keys or self.values:
            self.values[key] = self.intervals[key] = None
            self.reasons[key] = reason


def _total(sums: Callable[[], ItemSums]) -> float:
    return sums().total


def _interval(statistic: FamilyStatistic, sums: Callable[[], ItemSums]) -> Interval:
    if (found := statistic.interval(sums(), statistic.scale.limits)) is None:
        raise UndefinedError(f"too few {sums().over}, or too few that differ, for an interval")
    return found
