"""``Measurement``: what a suite gave on a model, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_genderbias.errors import UnknownNameError
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import Moments
from pytest_genderbias.statistics.inference.null import Null
from pytest_genderbias.suites.family import Family, Record, Statistic

SUITE_CASES = "the suite's cases"  #: what bounds on a sample are over
ALL_CASES = f"{SUITE_CASES}, all of them"  #: what bounds are over where every case was scored


@dataclass(frozen=True)
class Measurement:
    """What a suite gave on a model.

    ``values`` has the same keys for every model; the first is the main statistic. A value, or an interval, that cannot be
    had is ``None``, and ``reasons`` says why. ``n`` of ``n_total`` cases were scored. ``signature`` holds what must be equal
    for two measurements to be compared (suite, digest, definition, settings, sample), and what may differ (model).

    Two questions are kept apart. ``intervals`` say what other items of the same kind would give (occupations, names, seeds).
    ``bounds`` says what the suite's own cases give on this model: the value itself where all were scored; for a sample of a
    mean the bounds of a confidence sequence, which hold at whatever moment scoring stopped; ``None`` for a sample of anything else.
    What is drawn or trained inside hangs on the seed: there it is the interval over that, or the value of this seed, which it names.

    ``null`` has the values after shuffles, and the place of the measured one among them, by statistic: where that was asked for and
    the suite has such a control.
    """

    suite: str
    model: str
    values: Mapping[str, float | None]
    intervals: Mapping[str, Interval | None]
    bounds: Mapping[str, Interval | None]
    reasons: Mapping[str, str]
    statistics: Mapping[str, Statistic]
    n: int
    n_total: int
    records: list[Record] = field(repr=False)
    items: Mapping[str, Any] = field(repr=False)
    signature: Mapping[str, Any] = field(repr=False)
    family: Family = field(repr=False)
    notes: tuple[str, ...] = ()
    null: Mapping[str, Null] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        """Whether scoring ended before its limit, because every gate was decided. Such a measurement is no baseline."""
        return bool(self.signature["sample"].get("stopped", False))

    @property
    def restarts(self) -> int:
        """Over how many restarts of a training the values are means; 0 where nothing was repeated."""
        return int(self.signature["settings"].get("restarts", 0))

    def sampled(self, statistic: str) -> bool:
        """Whether a statistic is of a sample of its cases."""
        return self.n < self.n_total and statistic not in self.family.asked_apart

    def of_all_cases(self, statistic: str) -> str:
        """Say what a figure of all cases is of: these, and the seed of what is drawn or trained inside."""
        known = self.bounds.get(statistic)
        return known.over if known is not None and known.over.startswith(ALL_CASES) else ALL_CASES

    def moments(self, statistic: str, items: Mapping[str, Any] | None = None) -> Moments:
        """Return the sums of each item that give a statistic, of these items or of those that a baseline stored.

        Raises:
            UndefinedError: the statistic is not made of items, or these lack what it needs.
        """
        return self.family.moments(statistic, self.signature["settings"], self.items if items is None else items)

    @property
    def main(self) -> str:
        """The key of the main statistic."""
        return next(iter(self.values))

    @property
    def value(self) -> float | None:
        """The main statistic."""
        return self.values[self.main]

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the main statistic over the items of the suite, or ``None`` with its reason in ``reasons``."""
        return self.intervals[self.main]

    @property
    def direction(self) -> str:
        """Which way is worse for the main statistic: ``higher``, ``lower``, or ``away`` from neutral."""
        return self.statistics[self.main].direction

    @property
    def neutral(self) -> float:
        """The main statistic of a model without bias."""
        return self.statistics[self.main].neutral

    def statistic(self, name: str | None = None) -> str:
        """Return the name of a statistic, the main one by default; refuse one that the suite does not have."""
        if name is not None and name not in self.values:
            raise UnknownNameError(f"{self.suite} has no statistic {name!r}; it has {', '.join(self.values)}")
        return name or self.main

    def worst(self, most: int) -> list[Record]:
        """Return the ``most`` worst records, of each slice where the suite has slices."""
        kept: list[Record] = []
        seen: Counter[str] = Counter()
        for record in self.records:
            seen[str(record.get("slice"))] += 1
            if seen[str(record.get("slice"))] <= most:
                kept.append(record)
        return kept

    def to_dict(self, records: int | None = None) -> dict[str, Any]:
        """Return everything as plain JSON values; ``records`` keeps only so many of the worst records (of each slice)."""
        return {
            "suite": self.suite,
            "model": self.model,
            "values": dict(self.values),
            "intervals": {k: None if i is None else vars(i).copy() for k, i in self.intervals.items()},
            "bounds": {k: None if i is None else vars(i).copy() for k, i in self.bounds.items()},
            "reasons": dict(self.reasons),
            "null": {k: vars(n).copy() for k, n in self.null.items()},
            "statistics": {k: vars(s).copy() for k, s in self.statistics.items()},
            "n": self.n,
            "n_total": self.n_total,
            "records": list(self.records) if records is None else self.worst(records),
            "signature": dict(self.signature),
            "notes": list(self.notes),
        }
