"""The columns of all tables of figures and of gates, once: their names, headers, values and how they are written.

Pages, summaries, files and lines of a terminal show some of them each, in an order of their own. Names are those that
files keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FLOAT_NOISE, describe_change, describe_direction
from pytest_genderbias.measurement.measurement import SUITE_CASES, Measurement
from pytest_genderbias.statistics.inference.intervals import Interval, Null
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite, load_suite, suite_names
from pytest_genderbias.text.printable import Write, format_bounds, format_number, format_share

#: Kinds of figures: the end of the shuffles on the side that is worse, or both ends; the share of splits; the value of
#: a control.
SHUFFLES, SPLITS, CONTROL = "shuffles", "splits", "control"
_SHARED = re.compile(r"\d+ of \d+ .+?(?= and |$)")  #: units of a comparison, where one side has others
_LEVEL = 0.05  #: p value of the null control below which a value is marked
#: Statistics that have a control among the statistics of their suite: the largest of some shuffles, or their mean.
_LARGEST = {"significant_fills": "random_groups_max"}
_MEANS = {"compression": "compression_shuffled"}
#: Statistics that have a permutation test among the statistics of their suite.
_TESTS = {"effect_size": "p_value", "combined_effect_size": "word_p_value"}


@dataclass(frozen=True)
class Chance:
    """Values of a statistic by chance.

    Attributes:
        kind: one of the kinds above.
        figures: one figure, or the two ends of the shuffles.
        beyond: whether the value is farther out than chance explains.
    """

    kind: str
    figures: tuple[float, ...]
    beyond: bool

    def describe(self, figure: Callable[[float], str]) -> str:
        """Return it as a cell, with numbers as ``figure`` writes them."""
        if self.kind == SPLITS:
            return f"p {self.figures[0]:.4f}"
        return " to ".join(figure(number) for number in self.figures)


def chance_of(measurement: Measurement, statistic: str) -> Chance | None:
    """Return what chance gives for a statistic; ``None`` where the measurement does not say.

    The null control decides where there is one. Otherwise it is a statistic of the same suite: a control, or the p
    value of a permutation test, which is one-sided unless the suite was told otherwise.
    """
    value, null = measurement.values[statistic], measurement.null.get(statistic)
    if value is None:
        return None
    if null is not None:
        ends = {"higher": (null.high,), "lower": (null.low,)}.get(measurement.statistics[statistic].direction)
        return Chance(SHUFFLES, ends or (null.low, null.high), null.p_value <= _LEVEL)
    largest = measurement.values.get(_LARGEST.get(statistic, ""))
    if largest is not None:
        return Chance(CONTROL, (largest,), value > largest)
    mean = measurement.values.get(_MEANS.get(statistic, ""))
    if mean is not None:
        return Chance(CONTROL, (mean,), False)
    p = measurement.values.get(_TESTS.get(statistic, ""))
    if p is None:
        return None
    two_sided = bool(measurement.signature["settings"].get("two_sided", False))
    return Chance(SPLITS, (p,), p <= _LEVEL if two_sided else min(p, 1 - p) <= _LEVEL / 2)


Cell = str | float | int | bool | None
Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table.

    Attributes:
        header: what stands above it.
        path: of its value in a row: names of attributes, with dots between them.
        write: what makes a text of a row; without it, the value is written as it is.
    """

    header: str
    path: str
    write: Callable[[Row, Write], str] | None = None

    def value(self, row: Row) -> Any:
        """Return its value; ``None`` where a part of its path is."""
        value: Any = row
        for name in self.path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None if value is None else getattr(value, name)
        return value

    def text(self, row: Row, write: Write = format_number) -> str:
        """Return its text, with numbers as ``write`` writes them."""
        if self.write is not None:
            return self.write(row, write)
        value = self.value(row)
        return "-" if value is None else write(value) if isinstance(value, float) else str(value)


class Figure(NamedTuple):
    """A statistic of a measurement: a row of a table of figures."""

    measurement: Measurement
    name: str

    @property
    def value(self) -> float | None:
        """Its value."""
        return self.measurement.values[self.name]

    @property
    def about(self) -> Statistic:
        """Its meaning."""
        return self.measurement.statistics[self.name]

    @property
    def interval(self) -> Interval | None:
        """Where its value lies for other items."""
        return self.measurement.intervals[self.name]

    @property
    def null(self) -> Null | None:
        """Values by chance, where there are shuffles."""
        return self.measurement.null.get(self.name)

    @property
    def reason(self) -> str:
        """Why it has no value or no interval."""
        return self.measurement.reasons.get(self.name, "")


def figures_of(measurements: Iterable[Measurement]) -> Iterator[Figure]:
    """Yield a row a statistic of each measurement."""
    return (Figure(measurement, name) for measurement in measurements for name in measurement.values)


def largest(measurements: Iterable[Measurement], subject: Callable[[Measurement], Hashable]) -> list[Measurement]:
    """Return of the measurements with the same subject the one with most cases, in their order."""
    found: dict[Hashable, Measurement] = {}
    for one in measurements:
        known = found.setdefault(subject(one), one)
        if one.n > known.n:
            found[subject(one)] = one
    return list(found.values())


def packaged_suite(measurement: Measurement) -> Suite | None:
    """Return the packaged suite that was measured; ``None`` for a suite of one's own, or of another version."""
    if measurement.suite not in suite_names():
        return None
    suite = load_suite(measurement.suite)
    return suite if measurement.signature["digest"] in suite.digests else None


def describe_cases(counted: Measurement | Judgement) -> str:
    """Return how many cases were scored, and of how many, if not all were."""
    return f"{counted.n:,}" if counted.n == counted.n_total else f"{counted.n:,} of {counted.n_total:,}"


def between(interval: Interval | None, write: Write = format_number) -> str:
    """Return the bounds of an interval in words; a dash without one.

    >>> between(Interval(0.25, 0.5, 0.95, "words", "by hand")), between(None)
    ('0.25 to 0.5', '-')
    """
    if interval is None:
        return "-"
    return "exact" if interval.low == interval.high else format_bounds(interval.low, interval.high, write)


def change_and_bounds(judgement: Judgement, write: Write = format_number) -> tuple[str, str]:
    """Return how much worse or better a value is than what it was compared with, and between which bounds; empty texts
    if it was not compared, or has no bounds.
    """
    worse, interval = judgement.difference, judgement.interval
    if worse is None:
        return "", ""
    change = describe_change(worse, write)
    if interval is None:
        return change, ""
    if shared := _SHARED.match(interval.over):
        change += f" on {shared[0]}"
    if interval.high - interval.low <= FLOAT_NOISE:
        over = "restart" if interval.over.startswith("restarts") else "item"
        return change, "exact" if interval.over.startswith(SUITE_CASES) else f"the same in every {over}"
    low, high = (-interval.high, -interval.low) if worse < -FLOAT_NOISE else (interval.low, interval.high)
    return change, f"({format_bounds(low, high, write)})"


def change_in_full(judgement: Judgement, write: Write = format_number) -> str:
    """Return a change with its bounds."""
    change, bounds = change_and_bounds(judgement, write)
    return change + (f" {bounds}" if bounds.startswith("(") else f", {bounds}" if bounds else "")


def _gone(settled: Judgement, _: Write) -> str:
    reduced = settled.of_reduction
    return format_share(None if reduced is None else reduced.reduction)


def _accepted(settled: Judgement, _: Write) -> str:
    values = settled.accepted
    return "; ".join(f"{one.date}: {one.statistic} {one.old} -> {one.new}: {one.reason}" for one in values)


FIGURE_COLUMNS: Mapping[str, Column[Figure]] = {
    "model": Column("model", "measurement.model"),
    "suite": Column("suite", "measurement.suite"),
    "statistic": Column("statistic", "name"),
    "value": Column("value", "value"),
    "low": Column("lower bound", "interval.low"),
    "high": Column("upper bound", "interval.high"),
    "interval": Column("95 % interval", "interval", lambda row, write: between(row.interval, write)),
    "level": Column("level", "interval.level"),
    "over": Column("bounds over", "interval.over"),
    "neutral": Column("neutral", "about.neutral", lambda row, _: f"{row.about.neutral:g}"),
    "direction": Column("worse", "about.direction", lambda row, _: describe_direction(row.about.direction)),
    "n": Column("cases", "measurement.n", lambda row, _: describe_cases(row.measurement)),
    "n_total": Column("of", "measurement.n_total"),
    "meaning": Column("meaning", "about.meaning"),
    "reason": Column("why missing", "reason"),
    "null_mean": Column("mean by chance", "null.mean"),
    "null_p_value": Column("p by chance", "null.p_value"),
}
#: What people say of a gate (:class:`~pytest_genderbias.gates.policy.Evidence`).
SAID = ("because", "owner", "harm", "decided")
GATE_COLUMNS: Mapping[str, Column[Judgement]] = {
    "outcome": Column("outcome", "outcome"),
    "verdict": Column("verdict", "in_words"),
    "code": Column("code", "code"),
    "model": Column("model", "model"),
    "suite": Column("suite", "suite"),
    "gate": Column("gate", "name"),
    "subject": Column("gate", "gate_name"),
    "statistic": Column("statistic", "statistic"),
    "value": Column("value", "value"),
    "low": Column("lower bound", "interval.low"),
    "high": Column("upper bound", "interval.high"),
    "over": Column("bounds over", "over"),
    "bound": Column("limit or baseline", "bound"),
    "difference": Column("worse by", "difference"),
    "change": Column("change", "difference", change_in_full),
    "p": Column("p", "p"),
    "tests": Column("corrected for", "tests"),
    "n": Column("cases", "n", lambda row, _: describe_cases(row)),
    "n_total": Column("of", "n_total"),
    "least": Column("at least", "of_limit.least"),
    "most": Column("at most", "of_limit.most"),
    "accepted_on": Column("baseline accepted on", "of_baseline.accepted_on"),
    "baseline": Column("baseline", "of_baseline.baseline"),
    "margin": Column("margin", "of_baseline.margin"),
    "anchor": Column("anchor", "of_baseline.anchor.value"),
    "before": Column("before", "of_reduction.before"),
    "after": Column("after", "of_reduction.after"),
    "control": Column("control", "of_reduction.control"),
    "reduction": Column("gone", "of_reduction.reduction", _gone),
    "accepted": Column("accepted with a reason", "accepted", _accepted),
    "settled_by": Column("settled by", "settled_by"),
    "test": Column("test", "test"),
    "reason": Column("reason", "text"),
    **{name: Column(name, f"evidence.{name}") for name in SAID},
}
