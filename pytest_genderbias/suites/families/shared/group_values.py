"""Shared by the families that compare any number of groups: each unit, such as a prompt, has a value for every group.

Item arrays ``NAME_0``, ``NAME_1`` and so on hold the values of one group each, in the order of the groups; the last one
is the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics import group_deviations
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, mean_sums
from pytest_genderbias.suites.cases import Items, refuse_unable, take_arrays
from pytest_genderbias.suites.statistic import SIGNED, Arrays, FamilyStatistic, NullFigures, Options, Scale
from pytest_genderbias.suites.summary import Record, Summary, records_by


def refuse_most_missing(there: ArrayLike, over: str) -> None:
    """Refuse a figure of less than half of the units, as of a system that declines nearly everything.

    Raises:
        UndefinedError: ``there``, whether a unit has an answer for every group, mostly says no.
    """
    known = np.asarray(there)
    if 2 * known.sum() < known.size:
        raise UndefinedError(
            f"{known.sum()} of {known.size} {over} have an answer for every group, expected at least half:"
            " more replies to each question (bias_samples), or fewer that decline"
        )


@dataclass(frozen=True)
class Value:
    """A value that groups are compared in.

    Attributes:
        statistic: the name of their root mean square.
        of: what the values are, in words.
        limits: the least and the largest difference.
        of_able: whether a model that cannot do the task has none.
        difference: the name of the mean difference of two groups; empty where it is no statistic.
    """

    statistic: str
    of: str
    limits: tuple[float, float] = SIGNED.limits
    of_able: bool = False
    difference: str = ""


@dataclass(frozen=True)
class GroupValues:
    """The values that a family compares its groups in, by name, the main one first.

    Attributes:
        values: the values.
        unit: name of the item array that names the units.
        over: what these are, in the plural.
        missing: why a value may not be there.
    """

    values: Mapping[str, Value]
    unit: str
    over: str
    missing: str = ""

    @property
    def main(self) -> str:
        """The name of the main value."""
        return next(iter(self.values))

    def items(self, name: str, values: FloatArray) -> Items:
        """Return the item arrays of a value, from its values by unit and group, shape (n, K)."""
        return {f"{name}_{place}": column for place, column in enumerate(values.T)}

    def table(self, arrays: Arrays, name: str) -> FloatArray:
        """Return a value by unit and group, shape (n, K); NaN where a unit has none.

        Raises:
            UndefinedError: nothing has this value.
        """
        if f"{name}_0" not in arrays:
            raise UndefinedError(self.missing or f"the items have no {name}")
        keys = [key for key in arrays if key.rpartition("_")[0] == name and key.rpartition("_")[2].isdigit()]
        columns = take_arrays(arrays, *sorted(keys, key=lambda key: int(key.rpartition("_")[2])))
        return np.stack(columns, axis=1).astype(np.float64)

    def of(self, arrays: Arrays, name: str) -> tuple[NDArray[np.str_], FloatArray]:
        """Return the units that have a value for every group, and the values, shape (n, K).

        Raises:
            UndefinedError: the model cannot do the task, nothing has this value, or less than half of the units are
                such.
        """
        if self.values[name].of_able:
            refuse_unable(arrays)
        values = self.table(arrays, name)
        there = np.isfinite(values).all(axis=1)
        if not there.any():
            raise UndefinedError(f"no {self.unit} has an answer for every group")
        refuse_most_missing(there, self.over)
        return take_arrays(arrays, self.unit)[0][there], values[there]

    def statistics(self, *names: str) -> dict[str, FamilyStatistic]:
        """Return the root mean square, and the mean difference of two groups, of the named values or of all."""
        found = {}
        for name in names or self.values:
            value = self.values[name]
            meaning = (
                f"root mean square of the groups' deviations from their mean in {value.of}, without what chance adds"
            )
            sums, scale = partial(self._sums, name=name), Scale("higher", 0.0, value.limits)
            found[value.statistic] = FamilyStatistic(scale, meaning, sums, root=True)
            if value.difference:
                found[value.difference] = FamilyStatistic(
                    Scale("away", 0.0, value.limits),
                    f"of two groups: mean difference of {value.of}, first group minus reference",
                    partial(self._difference_sums, name=name),
                )
        return found

    def _sums(self, options: Options, arrays: Arrays, name: str) -> ItemSums:
        units, values = self.of(arrays, name)
        return ItemSums(units, group_deviations.contrast_columns(values), "contrast_rms", self.over)

    def take(self, figures: Summary, items: Arrays) -> None:
        """Add the root mean squares, and the differences of two groups, with their intervals."""
        for name, value in self.values.items():
            values = partial(self.of, items, name)
            figures.take(
                value.statistic,
                lambda values=values: group_deviations.group_rms(values()[1]),  # type: ignore[misc]
                lambda values=values: group_deviations.group_rms_interval(values()[1], self.over),  # type: ignore[misc]
                over=self.over,
            )
            if value.difference:
                bounds = value.limits if np.isfinite(value.limits).all() else None
                figures.take(
                    value.difference,
                    lambda name=name: float(self._difference_sums({}, items, name).total),  # type: ignore[misc]
                    lambda values=values, bounds=bounds: group_deviations.compared(  # type: ignore[misc]
                        values()[1], [(0, 1)], self.over, bounds
                    )[0][1],
                    over=self.over,
                )

    def sums_of(self, options: Options, arrays: Arrays, name: str) -> ItemSums:
        """Return the sums of the mean of an item array over units."""
        units, values = take_arrays(arrays, self.unit, name)
        return mean_sums(units, values, np.ones(len(units)), self.over)

    def level_sums(self, options: Options, arrays: Arrays) -> ItemSums:
        """Return the sums of the mean of the main value over groups and units. Errors as of :meth:`of`."""
        units, values = self.of(arrays, self.main)
        return mean_sums(units, values.mean(axis=1), np.ones(len(units)), self.over)

    def _difference_sums(self, options: Options, arrays: Arrays, name: str) -> ItemSums:
        """Return the sums of the mean difference of two groups.

        Raises:
            UndefinedError: as :meth:`of`, or there are more groups.
        """
        units, values = self.of(arrays, name)
        if values.shape[1] != 2:
            raise UndefinedError(f"{values.shape[1]} groups have no one difference; the records have each of them")
        return mean_sums(units, values[:, 0] - values[:, 1], np.ones(len(units)), self.over)

    def exchanged(self, items: Arrays, repeats: int, seed: int) -> NullFigures:
        """Return the figures of :meth:`statistics` with the groups exchanged at random in each unit."""
        shuffled = {}
        for name, value in self.values.items():
            if f"{name}_0" in items:
                values = self.of(items, name)[1]
                shuffled[value.statistic], differences = group_deviations.exchanged_groups(values, repeats, seed)
                shuffled |= {value.difference: differences} if value.difference and values.shape[1] == 2 else {}
        return shuffled

    def records(
        self,
        items: Arrays,
        groups: Sequence[str],
        of_group: Callable[[int], Record] = lambda place: {},
        slices: Sequence[str] = (),
    ) -> list[Record]:
        """Return the means of each group, each group against the reference, of three groups or more each pair of them,
        and then each slice, those that differ most first; nothing where nothing has the main value.

        Args:
            items: of the measurement.
            groups: their names.
            of_group: returns what else is known of a group, by its number.
            slices: names of item arrays, of which each different text is a row.
        """
        tables = {name: self.table(items, name) for name in self.values if f"{name}_0" in items}
        records: list[Record] = [
            {"slice": "group", "value": group, **of_group(place)}
            | {name: _mean(table[:, place]) for name, table in tables.items()}
            for place, group in enumerate(groups)
        ]
        if self.main not in tables:
            return []
        last = dict(zip(groups, group_deviations.against_reference(len(groups)), strict=False))
        for name in tables:
            records += self._compared(items, name, last, f"{name} against {groups[-1]}")
        if len(groups) > 2:
            pairs = {
                f"{groups[one]} - {groups[other]}": (one, other) for one, other in combinations(range(len(groups)), 2)
            }
            records += self._compared(items, self.main, pairs, f"{self.main}, each pair")
        main = tables[self.main]

        def means(here: NDArray[np.bool_]) -> Record:
            by_group = [_mean(column) for column in main[here].T]
            known = [mean for mean in by_group if mean is not None]
            spread = max(known) - min(known) if known else 0.0
            return {**dict(zip(groups, by_group, strict=True)), "spread": spread}

        return records + records_by(items, slices, means, lambda row: float(row["spread"]))

    def _compared(self, items: Arrays, name: str, pairs: Mapping[str, tuple[int, int]], what: str) -> list[Record]:
        try:
            found = group_deviations.compared(self.of(items, name)[1], list(pairs.values()), self.over)
        except UndefinedError:
            return []
        records: list[Record] = []
        for label, (difference, interval) in zip(pairs, found, strict=True):
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            bounds = "" if interval is None else interval.method
            if bounds and len(pairs) > 1:
                bounds += f", {len(pairs)} comparisons together at .95"
            row = {"slice": what, "value": label, "difference": difference, "low": low, "high": high}
            records.append({**row, "bounds": bounds})
        return records


def _mean(values: FloatArray) -> float | None:
    there = values[np.isfinite(values)]
    return float(there.mean()) if len(there) else None
