"""``Measurement``: the result of a suite on a model, as plain data."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partialmethod
from html import escape
from numbers import Number
from typing import Annotated, Any, NoReturn

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.escaping import printable
from pytest_genderbias.measurement.plain_data import (
    Arrays,
    as_plain,
    from_plain,
    pack_arrays,
    read_schema,
    same_arrays,
    unpack_arrays,
)
from pytest_genderbias.statistics.inference.intervals import Interval, Null
from pytest_genderbias.statistics.inference.item_sums import ItemSums, SumsByStatistic
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.suites.family import CANNOT
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.summary import Example, Examples, Record
from pytest_genderbias.text.columns import one_line
from pytest_genderbias.text.printable import brief, format_bounds, format_decimals, refuse_unknown_name
from pytest_genderbias.text.schema import at_least, field_hints, read_value

SUITE_CASES = "the suite's cases"  #: what bounds on a sample are over
ALL_CASES = f"{SUITE_CASES}, all of them"  #: what bounds are over where every case was scored


_WORSE = {"higher": "higher is worse", "lower": "lower is worse", "away": "away from it is worse"}
_HEADERS = ("statistic", "value", "interval", "neutral", "meaning")
_LONGEST = 300  #: characters of notes and reasons in a line
SCHEMA = 1  #: of :meth:`Measurement.to_dict`
_WHERE = "measurement"
_EXAMPLES = "examples"  #: a key that is only there where there are some
_PLAIN_FIELDS = (
    "suite", "model", "values", "intervals", "bounds", "reasons", "null", "statistics", "n", "n_total", "signature",
    "notes", "abilities", "ability_unasked",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Measurement:
    """The result of a suite on a model, as plain data.

    Unavailable values and intervals are ``None``, and ``reasons`` says why.

    Attributes:
        suite: name of the suite.
        model: name of the model.
        values: statistics by name, the same names for every model; the first is the main statistic.
        intervals: what other items of the same kind (occupations, names, restarts) would give.
        bounds: what the suite's own cases give on this model: the value itself if all were scored; the bounds of a
            confidence sequence, which hold whenever scoring stopped, for a mean over a sample; ``None`` for a sample of
            anything else. A value that depends on random draws or a training has the interval over those, or the value
            with this seed; ``over`` names the seed.
        reasons: by statistic, why a value or an interval is ``None``.
        statistics: direction, neutral value and meaning of each statistic.
        n: number of scored cases.
        n_total: number of cases of the suite.
        records: results of single items or groups, the worst first.
        items: arrays of item statistics by name.
        signature: suite, digest, definition, settings and sample, which must be equal for two measurements to be
            compared; and model and versions, which may differ.
        notes: remarks for the reader.
        null: null control by statistic, if it was requested and the suite has one.
        sums: by statistic, the sums of each unit from which it is computed, or the reason why there are none.
        examples: a sentence of each item, with what the model gave for it, for families of templates.
        abilities: how many control items the model answers right. A model that is not able has no values.
        ability_unasked: why no control items were asked; empty if they were, or there are none for such a model.
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
    records: list[Record]
    items: Arrays
    signature: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    null: Mapping[str, Null] = field(default_factory=dict)
    sums: SumsByStatistic = field(default_factory=lambda: SumsByStatistic({}), repr=False)
    examples: Examples = field(default_factory=dict, repr=False)
    abilities: tuple[Ability, ...] = ()
    ability_unasked: str = ""

    @property
    def stopped(self) -> bool:
        """Whether scoring stopped before its limit, since every gate was decided. Such a measurement cannot become a
        baseline.
        """
        return bool(self.signature["sample"].get("stopped", False))

    @property
    def unable(self) -> str:
        """Why the model cannot do the task; empty if it can, or was not asked."""
        reason = self.reasons.get(self.main, "") if self.value is None else ""
        _, cannot, why = reason.partition(CANNOT)
        return cannot + why

    @property
    def ability(self) -> str:
        """Whether the model can do the task, in words, with the figures of its control items; empty where there are
        none for such a model.
        """
        if self.ability_unasked:
            return f"ability not asked: {self.ability_unasked}"
        figures = "; ".join(one.describe() for one in self.abilities)
        return self.unable or (f"able: {figures}" if figures else "")

    @property
    def restarts(self) -> int:
        """Number of restarts that the values are means of; 0 without restarts."""
        return int(self.signature["settings"].get("restarts", 0))

    def sampled(self, statistic: str) -> bool:
        """Whether a statistic was computed on a sample of its cases."""
        question = self.statistics[statistic].question
        if question is None:
            return self.n < self.n_total
        return " of " in str(self.signature["data"].get(question, ""))  # the digest, and the size of a sample

    def worsening(self, statistic: str, before: float | None) -> float | None:
        """Return how much worse a statistic is than a value before, in its units; ``None`` if either is not finite."""
        now = self.values.get(statistic)
        if before is None or now is None or not (math.isfinite(before) and math.isfinite(now)):
            return None
        about = self.statistics[statistic]
        return about.distance(now) - about.distance(before)

    def of_all_cases(self, statistic: str) -> str:
        """Return what a value on all cases is over: the cases, and the seed of random draws or a training inside."""
        known = self.bounds.get(statistic)
        return known.over if known is not None and known.over.startswith(ALL_CASES) else ALL_CASES

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic.

        Raises:
            UndefinedError: the statistic is not made of sums over units, or this measurement lacks what it needs.
        """
        return self.sums[statistic]

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
        """The 95 % interval of the main statistic over the items of the suite; ``None`` if ``reasons`` says why not."""
        return self.intervals[self.main]

    @property
    def direction(self) -> str:
        """The worse direction of the main statistic: ``higher``, ``lower``, or ``away`` from neutral."""
        return self.statistics[self.main].direction

    @property
    def neutral(self) -> float:
        """The value of the main statistic for a model without bias."""
        return self.statistics[self.main].neutral

    def without_values(self, why: str) -> Measurement:
        """Return the same measurement of a model that is not able: nothing but its abilities and the reason.

        What had no value before keeps its own reason, with this one after it unless both say that the model cannot do
        the task.
        """
        nothing = dict.fromkeys(self.values)
        reasons = dict.fromkeys(self.values, why)
        for name, own in self.reasons.items():
            if self.values.get(name, 0.0) is None:
                reasons[name] = own if CANNOT in own else f"{own}; {why}"
        return replace(
            self,
            values=nothing,
            intervals=nothing,
            bounds=nothing,
            reasons=reasons,
            records=[],
            items={},
            null={},
            sums=SumsByStatistic(reasons),
            examples={},
        )

    def statistic(self, name: str | None = None) -> str:
        """Return the name of a statistic, the main one by default.

        Raises:
            UnknownNameError: the suite has no such statistic.
        """
        if name is not None:
            refuse_unknown_name(name, self.values, f"{self.suite} has no statistic {name!r}", "it has")
        return name or self.main

    def worst(self, most: int) -> list[Record]:
        """Return the ``most`` worst records, of each slice where the suite has slices."""
        worst: list[Record] = []
        seen: Counter[str] = Counter()
        for record in self.records:
            seen[str(record.get("slice"))] += 1
            if seen[str(record.get("slice"))] <= most:
                worst.append(record)
        return worst

    def to_dict(self, records: int | None = None, arrays: bool = True) -> dict[str, object]:
        """Return the measurement as plain JSON values, which :meth:`from_dict` reads.

        Args:
            records: keep only this many of the worst records (of each slice); all by default.
            arrays: whether the item statistics are included, as text. A report leaves them out, and has ``None`` for
                NaN and infinities.
        """
        content = self._plain(list(self.records) if records is None else self.worst(records), finite=not arrays)
        if not arrays:
            return content
        packed = {"arrays": pack_arrays(self.items), "sums": pack_arrays(self.sums.to_arrays())}
        return {**content, **packed, **({_EXAMPLES: as_plain(self.examples)} if self.examples else {})}

    def _plain(self, records: list[Record], finite: bool = False) -> dict[str, object]:
        fields = {name: as_plain(getattr(self, name), finite) for name in _PLAIN_FIELDS}
        return {"schema": SCHEMA, "main": self.main, **fields, "records": as_plain(records, finite)}

    @classmethod
    def from_dict(cls, data: object) -> Measurement:
        """Return the measurement that :meth:`to_dict` wrote. Tuples inside records and settings have become lists.

        One that was written without item statistics has none.

        Raises:
            DataFileError: a key is missing, unknown or of another type, the schema is another, or parts do not belong
                to each other.
        """
        content = read_schema(data, SCHEMA, _WHERE)
        if not {"arrays", "sums"} & content.keys():
            content |= {"arrays": pack_arrays({}), "sums": pack_arrays(SumsByStatistic({}).to_arrays())}
        content.setdefault(_EXAMPLES, {})
        known = ("main", *_PLAIN_FIELDS, "records", "arrays", "sums")
        if wrong := sorted(content.keys() ^ {*known, _EXAMPLES}):
            raise DataFileError(
                f"{_WHERE}: expected the keys {', '.join(known)}; missing or unknown: {', '.join(wrong)}"
            )
        hints = {**field_hints(cls), "main": Any, "arrays": str, "sums": str, _EXAMPLES: Mapping[str, Example]}
        read: dict[str, Any] = {
            name: read_value(hints[name], from_plain(value, f"{_WHERE}.{name}"), f"{_WHERE}.{name}")
            for name, value in content.items()
        }
        main, arrays, sums, examples = (read.pop(key) for key in ("main", "arrays", "sums", _EXAMPLES))
        if main not in list(read["values"]):
            raise DataFileError(f"{_WHERE}.main: expected one of {', '.join(read['values'])}, got {brief(main)}")
        read["values"] = {main: read["values"][main], **read["values"]}  # JSON may have been written with sorted keys
        _check_agreement(read)
        packed = unpack_arrays(sums, f"{_WHERE}.sums")
        try:
            known_sums = SumsByStatistic.from_arrays(packed)
        except ValueError as error:
            raise DataFileError(f"{_WHERE}.sums: {error}") from None
        items = unpack_arrays(arrays, f"{_WHERE}.arrays")
        return cls(**read, items=items, sums=known_sums, examples=examples)

    def __repr__(self) -> str:
        """Return three lines: the main statistic, the cases, and the notes."""
        name, value = self.main, self.value
        statistic, interval = self.statistics[name], self._interval_text(name)
        if value is None:
            text = f"has no value ({one_line(self.reasons.get(name, 'no reason given'), _LONGEST)})"
        else:
            text = format_decimals(value) + (f" ({interval})" if interval else " (no interval)")
        return printable(
            f"{self.suite} on {self.model}: {name} {text}; neutral {statistic.neutral:g},"
            f" {_WORSE[statistic.direction]}\n{self._cases_text(name)}\nnotes:"
            f" {one_line('; '.join(self.notes), _LONGEST) or 'none'}",
            keep="\n",
        )

    def _repr_html_(self) -> str:
        """Return a table with a row for each statistic, for notebooks. Every text is escaped."""
        main = next(iter(self.values))
        lines = [
            "<table>",
            f"<caption>{escape(f'{self.suite} on {self.model}')}: {escape(self._cases_text(main))}</caption>",
            f"<thead><tr>{''.join(f'<th>{escape(header)}</th>' for header in _HEADERS)}</tr></thead>",
            "<tbody>",
        ]
        for name in self.values:
            cells = "".join(f"<td>{escape(text)}</td>" for text in self._cells(name))
            lines.append(f"<tr>{cells}</tr>")
        lines.append("</tbody></table>")
        if self.notes:
            lines.append(f"<p>{escape('; '.join(self.notes))}</p>")
        return printable("\n".join(lines), keep="\n")

    def __bool__(self) -> bool:
        """Refuse a truth value: ``assert m`` would hold for every model."""
        __tracebackhide__ = True
        raise TypeError(
            "a measurement has no truth value, so that 'assert m' cannot pass for every model; write assert_at_most(m,"
            " 0.3) for a verdict with bounds, or compare its value: m.value <= 0.3"
        )

    def __ne__(self, other: object) -> bool:
        """Compare as ``==`` does, which refuses a number."""
        __tracebackhide__ = True
        if isinstance(other, Number):
            self._refuse_comparison("!=", other)
        return not self == other

    def _refuse_comparison(self, sign: str, other: object) -> NoReturn:
        __tracebackhide__ = True
        if isinstance(other, Measurement):
            raise TypeError(
                f"measurements cannot be compared with {sign}; compare their values, m.value {sign} other.value, or"
                " write assert_no_worse(m, other) for a verdict with bounds"
            )
        shown = str(other) if isinstance(other, Number) else "0.3"
        verdict = "at_least" if sign.startswith(">") else "at_most"
        raise TypeError(
            f"a measurement cannot be compared with {sign}; write m.value {sign} {shown}, or assert_{verdict}(m,"
            f" {shown}) for a verdict with bounds"
        )

    def _interval_text(self, name: str) -> str:
        interval = self.intervals[name]
        if interval is None:
            return ""
        bounds = format_bounds(interval.low, interval.high, format_decimals)
        return f"{100 * interval.level:g} % interval {bounds} over {interval.over}"

    def _cases_text(self, name: str) -> str:
        """Return how many cases were scored, and for a sample the bounds of the value over all of them."""
        if self.n == self.n_total:
            return f"{self.n:,} cases, all of the suite"
        bounds = self.bounds.get(name)
        known = "no bounds" if bounds is None else format_bounds(bounds.low, bounds.high, format_decimals)
        return f"{self.n:,} of {self.n_total:,} cases; {name} over all of them: {known}"

    def _cells(self, name: str) -> tuple[str, ...]:
        value, statistic = self.values[name], self.statistics[name]
        return (
            name,
            format_decimals(value),
            self._interval_text(name),
            f"{statistic.neutral:g}, {_WORSE[statistic.direction]}",
            statistic.meaning if value is not None else f"no value: {self.reasons.get(name, 'no reason given')}",
        )

    __lt__, __le__ = partialmethod(_refuse_comparison, "<"), partialmethod(_refuse_comparison, "<=")
    __gt__, __ge__ = partialmethod(_refuse_comparison, ">"), partialmethod(_refuse_comparison, ">=")

    def __eq__(self, other: object) -> bool:
        """Compare all plain values, and arrays bit for bit. A tuple equals a list, and NaN equals NaN. A number is
        refused.
        """
        if isinstance(other, Number):
            self._refuse_comparison("==", other)
        if not isinstance(other, Measurement):
            return NotImplemented
        same = self._plain(self.records) == other._plain(other.records)
        return (
            same and same_arrays(self.items, other.items) and same_arrays(self.sums.to_arrays(), other.sums.to_arrays())
        )

    __hash__ = None  # type: ignore[assignment]


def _check_agreement(read: Mapping[str, Any]) -> None:
    """Reject fields that do not belong to each other: everything about a statistic is there, and the signature can be
    compared.

    Raises:
        DataFileError: they do not.
    """
    for key in ("statistics", "intervals", "bounds"):
        if missing := sorted(read["values"].keys() - read[key].keys()):
            raise DataFileError(
                f"{_WHERE}.{key}: expected the names {', '.join(read['values'])}, {', '.join(missing)} missing"
            )
    signature = read["signature"]
    for key in ("settings", "data", "sample", "model"):
        if not isinstance(signature.get(key), Mapping):
            raise DataFileError(f"{_WHERE}.signature.{key}: expected a mapping, got {brief(signature.get(key))}")
    if missing := [key for key in ("digest", "definition") if key not in signature]:
        raise DataFileError(
            f"{_WHERE}.signature: expected the keys digest and definition, {' and '.join(missing)} missing"
        )
    restarts = signature["settings"].get("restarts", 0)
    read_value(Annotated[int, at_least(0)], restarts, f"{_WHERE}.signature.settings.restarts")
