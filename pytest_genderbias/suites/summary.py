"""The summary of the answers to a family's questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.suites.examples import Examples

Record = dict[str, Any]  #: a row of a table of the suite's own


@dataclass(frozen=True)
class Summary:
    """Values, intervals, records and item statistics that a family computes from the answers.

    Attributes:
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

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]
    reasons: dict[str, str]
    records: list[Record]
    items: dict[str, NDArray[np.generic]]
    notes: list[str] = field(default_factory=list)
    count: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    unstored: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    examples: Examples = field(default_factory=Examples)


class SummaryBuilder:
    """Collects values, intervals and reasons of a summary; values that are not set are ``None``."""

    def __init__(self, statistics: Iterable[str]) -> None:
        self.values: dict[str, float | None] = dict.fromkeys(statistics)
        self.intervals: dict[str, Interval | None] = dict.fromkeys(self.values)
        self.reasons: dict[str, str] = dict.fromkeys(self.values, "not computed")

    def take(
        self,
        key: str,
        value: Callable[[], float],
        interval: Callable[[], Interval | None] | None = None,
        no_interval: str = "",
    ) -> None:
        """Compute a value and its interval; if one is undefined, record the reason.

        Args:
            key: the statistic.
            value: computes the value.
            interval: computes the interval.
            no_interval: the reason if there is no ``interval``, or if it returns ``None``; by default that too few
                units differ.
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
            reason = no_interval or "too few items, or too few that differ, for an interval"
        except UndefinedError as error:
            reason = str(error)
        if self.intervals[key] is None:
            self.reasons[key] = reason

    def miss(self, reason: str, *keys: str) -> None:
        """Record the reason why statistics (all by default) have no value."""
        for key in keys or self.values:
            self.values[key] = self.intervals[key] = None
            self.reasons[key] = reason

    def summary(
        self,
        records: list[Record],
        items: dict[str, NDArray[np.generic]],
        notes: Sequence[str] = (),
        data: Mapping[str, str] | None = None,
        unstored: Mapping[str, NDArray[np.generic]] | None = None,
        examples: Examples | None = None,
    ) -> Summary:
        """Return the summary."""
        figures = self.values, self.intervals, self.reasons
        more: dict[str, Any] = {"data": data or {}, "unstored": unstored or {}}
        return Summary(*figures, records, items, list(notes), examples=examples or Examples(), **more)
