"""What a family makes of the answers to its questions: values, intervals, records and item statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.undefined import UndefinedError

Record = dict[str, Any]  #: a row of a table of the suite's own


@dataclass(frozen=True)
class Summary:
    """What a family makes of its scores. A key whose value is ``None`` has its reason in ``reasons``.

    ``count``: how much was counted, where cases do not say it (the tokens of a text). ``data``: digests of what the cases of the
    questions do not hold (who is in a file of predictions); measurements of other data are never compared.
    ``unstored``: arrays from which sums of units are made, but which are not among the items.
    """

    values: dict[str, float | None]
    intervals: dict[str, Interval | None]
    reasons: dict[str, str]
    records: list[Record]
    items: dict[str, NDArray[Any]]
    notes: list[str] = field(default_factory=list)
    count: int | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    unstored: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class SummaryBuilder:
    """Collects the values of a summary: what has no value is ``None``, with its reason."""

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
        """Compute a value, and its interval; keep the reason of what is undefined.

        ``no_interval``: why there is no interval, where there is no ``interval`` or it gives ``None``. What has an interval may
        leave it out, if a lack of items that differ is the reason.
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
        """Say why keys (all, if none is named) have no value."""
        for key in keys or self.values:
            self.values[key] = self.intervals[key] = None
            self.reasons[key] = reason

    def summary(
        self,
        records: list[Record],
        items: dict[str, NDArray[Any]],
        notes: Sequence[str] = (),
        data: Mapping[str, str] | None = None,
        unstored: Mapping[str, NDArray[Any]] | None = None,
    ) -> Summary:
        """Return the summary."""
        return Summary(
            self.values,
            self.intervals,
            self.reasons,
            records,
            items,
            list(notes),
            data=data or {},
            unstored=unstored or {},
        )
