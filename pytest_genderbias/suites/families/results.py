"""The family ``results``: values that another tool measured item by item, compared between groups."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from pytest_genderbias.datasets.item_results import Columns, Values, take_values
from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.gap_rms import FEWEST, gap_interval, paired_columns, unit_gaps_of_pairs
from pytest_genderbias.statistics.impact_ratio import group_bounds
from pytest_genderbias.statistics.inference.intervals import Interval, least_share
from pytest_genderbias.statistics.inference.item_bounds import cluster_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.suites.cases import Answers, Items, Question, take_arrays
from pytest_genderbias.suites.family import Context, Family, Option
from pytest_genderbias.suites.query import StoredPredictions
from pytest_genderbias.suites.space import read_groups
from pytest_genderbias.suites.statistic import (
    EXCESS_SHARE,
    SHARE,
    SIGNED,
    SIGNED_SHARE,
    Arrays,
    FamilyStatistic,
    Options,
)
from pytest_genderbias.suites.summary import Record, Summary
from pytest_genderbias.text.schema import LocatedMap, one_of, take

_OVER = "items"
_TAIL = 0.025
_NEEDED = ("id", "group", "value")
_COLUMNS = (*_NEEDED, "class", "cluster", "template", "restart")


@dataclass(frozen=True)
class ResultsBody:
    """Groups, the last of which is the reference; the columns; and the statistic."""

    groups: tuple[str, ...]
    columns: Columns
    statistic: str
    samples: str  #: what ``cluster`` or ``template`` holds, in the plural


def _by_group(arrays: Arrays) -> tuple[FloatArray, FloatArray]:
    """Return the value and the number of each item, in the column of its group, each of shape (n, G)."""
    group, values, names = take_arrays(arrays, "group", "value", "groups")
    counts = np.eye(len(names))[group]
    return counts * values[:, None], counts


def _sums(options: Options, arrays: Arrays, combiner: str) -> ItemSums:
    """Return the sum of the values and the number of items of each group, by item."""
    return _clustered(arrays, np.concatenate(_by_group(arrays), axis=1), combiner)


def _class_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of the gaps of each class, by item."""
    names, of = np.unique(take_arrays(arrays, "class")[0], return_inverse=True)
    in_class = np.eye(len(names))[of][:, None, :]
    return _clustered(
        arrays, paired_columns(*(part[:, :, None] * in_class for part in _by_group(arrays))), "paired_gap_rms"
    )


def _clustered(arrays: Arrays, sums: FloatArray, combiner: str) -> ItemSums:
    (ids,) = take_arrays(arrays, "id")
    clusters = np.asarray(arrays["cluster"], dtype=np.str_) if "cluster" in arrays else None
    return ItemSums(np.asarray(ids, dtype=np.str_), sums, combiner, _OVER, clusters=clusters)


def _ratio_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    """Return bounds of the lowest impact ratio: the lowest lower bound of a group, and the lowest upper one by
    Bonferroni.
    """
    hits, persons = np.split(np.asarray(sums.sums, dtype=np.float64).sum(axis=0).astype(np.int64), 2)
    low = float(group_bounds(hits, persons)[0].min())
    high = float(group_bounds(hits, persons, 1 - 2 * _TAIL / len(hits))[1].min())
    return Interval(low, high, 1 - 2 * _TAIL, sums.over, "score test or exact rates, by Bonferroni", len(sums.labels))


def _worst_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    """Return bounds of the mean of the worst group, likewise."""
    flat = sums.by_cluster()
    values, counts = np.split(np.asarray(flat.sums, dtype=np.float64), 2, axis=1)
    pairs = list(zip(values.T, counts.T, strict=True))
    low = min(least_share(y, n, _TAIL) for y, n in pairs)
    high = min(1.0 - least_share(n - y, n, _TAIL / len(pairs)) for y, n in pairs)
    return Interval(
        low, high, 1 - 2 * _TAIL, flat.over, "Gaffke's bounds of each group, by Bonferroni", len(flat.labels)
    )


def _class_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    gaps = unit_gaps_of_pairs(np.asarray(sums.sums, dtype=np.float64), {}, ())
    return gap_interval(gaps.gaps, gaps.variances, sums.over)


@dataclass(frozen=True)
class _Kind:
    """A statistic, and what it needs.

    ``interval``: function from its sums and limits. ``undefined``: why it has no value. ``most``: the largest value of
    an item. ``whole``: whether values are 0 or 1. ``pair``: whether it compares two groups. ``alone``: whether its
    items are independent samples. ``unknown``: whether items of an unknown group are left out.
    """

    statistic: FamilyStatistic
    interval: Callable[[ItemSums, tuple[float, float]], Interval | None]
    undefined: str = ""
    most: float = 1.0
    whole: bool = False
    pair: bool = True
    alone: bool = False
    unknown: bool = False


_DIFFERENCE = partial(_sums, combiner="accuracy_gap")
_KINDS: Mapping[str, _Kind] = {
    "mean_difference": _Kind(
        FamilyStatistic(SIGNED, "mean value of the first group minus that of the reference", _DIFFERENCE),
        cluster_interval,
        most=np.inf,
    ),
    "rate_difference": _Kind(
        FamilyStatistic(SIGNED_SHARE, "rate of the first group minus that of the reference", _DIFFERENCE),
        cluster_interval,
    ),
    "impact_ratio": _Kind(
        FamilyStatistic(
            SHARE, "lowest rate of a group divided by the highest", partial(_sums, combiner="lowest_ratio")
        ),
        _ratio_interval,
        "no item of any group has the value 1",
        whole=True,
        pair=False,
        alone=True,
        unknown=True,
    ),
    "class_rms": _Kind(
        FamilyStatistic(
            EXCESS_SHARE,
            "root mean square over classes of the difference of rates, without what chance adds; below 0: less than"
            " chance adds",
            _class_sums,
            root=True,
        ),
        _class_interval,
        f"no class has {FEWEST} items of each group",
        whole=True,
        alone=True,
    ),
    "worst_group": _Kind(
        FamilyStatistic(SHARE, "mean value of the group that has the worst", partial(_sums, combiner="lowest_mean")),
        _worst_interval,
        pair=False,
    ),
}


class ResultsOfOthers(Family[ResultsBody]):
    """A difference between groups in the values that another tool gave each item."""

    name: ClassVar[str] = "results"
    definition: ClassVar[str] = "results/1"
    picture: ClassVar[str] = ""
    no_null_control: ClassVar[str] = "how a tool chose its items is not known, and so neither what to shuffle"
    needs: ClassVar[str] = "a file of results of another tool (results:FILE)"
    roles: ClassVar[tuple[str, ...]] = ("results",)
    keys: ClassVar[tuple[str, ...]] = (*_COLUMNS, "groups", "statistic")
    statistics: ClassVar[Mapping[str, FamilyStatistic]] = {name: kind.statistic for name, kind in _KINDS.items()}
    options: ClassVar[Mapping[str, Option]] = {}

    def read(self, data: LocatedMap) -> ResultsBody:
        """Read which columns are what, the groups, and the statistic."""
        columns = {key: take(data, key, str, "the suite") for key in _COLUMNS if key in data or key in _NEEDED}
        statistic = take(data, "statistic", Annotated[str, one_of(*_KINDS)], "the suite")
        groups, kind = read_groups(data), _KINDS[statistic]
        if kind.pair and len(groups) != 2:
            raise data.error_at("groups", f"{statistic} compares two groups, got {len(groups)}")
        if ("class" in columns) != (statistic == "class_rms"):
            raise data.error_at(
                "statistic", "class_rms needs the column of the classes, 'class'; no other statistic has it"
            )
        samples = [key for key in ("cluster", "template") if key in columns]
        if len(samples) > 1 or (samples and kind.alone):
            raise data.error_at(
                samples[-1],
                f"the bounds of {statistic} hold for independent items; leave {samples[0]!r} out"
                if kind.alone
                else "expected one of 'cluster' and 'template': bounds are for others of one kind",
            )
        if samples:
            columns["cluster"] = columns.pop(samples[0])
        return ResultsBody(groups, columns, statistic, f"{samples[0]}s" if samples else "")

    def of_body(self, body: ResultsBody) -> ResultsOfOthers:
        """Return the family with the one statistic of a suite."""
        return _OF[body.statistic]

    def content(self, body: ResultsBody) -> object:
        """Return groups, statistic, what is compared, and which other columns there are, whatever their names."""
        grouped = ["class" in body.columns, body.samples, "restart" in body.columns]
        return [list(body.groups), body.statistic, body.columns["value"], *grouped]

    def questions(self, body: ResultsBody, options: Options, context: Context) -> dict[str, Question]:
        """Ask for the rows of the file."""
        return {"results": Question(None, StoredPredictions())}

    def summarise(self, body: ResultsBody, options: Options, answers: Answers, seed: int) -> Summary:
        """Compare the groups, with an interval over items or their clusters."""
        kind = _KINDS[body.statistic]
        values = take_values(answers["results"].content, body.columns, body.groups, kind.most, kind.whole, kind.unknown)
        named = {"class": values.classes, "cluster": values.clusters}
        items: Items = {"id": values.ids, "group": values.group, "value": values.values}
        items |= {name: column for name, column in named.items() if len(column)} | {"groups": np.asarray(body.groups)}
        figures = Summary(self.statistics)
        figures.take(
            body.statistic,
            lambda: _value(kind, items, values.restarts),
            lambda: kind.interval(kind.statistic.item_sums({}, items), kind.statistic.scale.limits),
        )
        there = [column.tolist() for column in (values.ids, values.group, values.classes, values.clusters)]
        digest = hashlib.sha256(repr(there).encode()).hexdigest()[:16]  # of the items, whatever their values
        records, notes = _records(body, values), _notes(body, values)
        return replace(
            figures, records=records, items=items, notes=notes, data={"items": digest}, count=len(values.ids)
        )


_OF: Mapping[str, ResultsOfOthers] = {
    name: type("ResultsOfOthers", (ResultsOfOthers,), {"statistics": {name: kind.statistic}})()
    for name, kind in _KINDS.items()
}


def _value(kind: _Kind, items: Items, restarts: int) -> float:
    if kind.whole and restarts > 1:
        raise UndefinedError(
            f"items are 0 or 1, and not their means over {restarts} restarts; measure results:FILE#{{seed}} with"
            " --bias-seeds"
        )
    value = kind.statistic.item_sums({}, items).total
    if np.isnan(value):
        raise UndefinedError(kind.undefined)
    return value


def _records(body: ResultsBody, values: Values) -> list[Record]:
    """Return the number of items and their mean, by group, and by class and group."""
    records: list[Record] = []
    for place, group in enumerate(body.groups):
        own = values.values[values.group == place]
        records.append({"slice": "group", "value": group, "items": len(own), "mean": float(own.mean())})
    for label in np.unique(values.classes).tolist():
        row: Record = {"slice": "class", "value": label}
        for place, group in enumerate(body.groups):
            own = values.values[(values.classes == label) & (values.group == place)]
            row[group] = float(own.mean()) if len(own) else None
        records.append(row)
    return records


def _notes(body: ResultsBody, values: Values) -> list[str]:
    notes = [f"values: {body.columns['value']}; reference: {body.groups[-1]}"]
    if values.restarts > 1:
        notes.append(f"the value of each item is its mean over {values.restarts} restarts")
    if values.unknown:
        notes.append(f"{values.unknown:,} items of an unknown group in {body.columns['group']!r} are not counted")
    return notes
