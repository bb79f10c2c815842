"""``RunReport``: everything that a run measured and judged, as plain data, and the JSON file of it. Every file that a
run writes is made from it. Where a report is made with a history, it holds a ``Trace`` of each statistic: its values
over the runs.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.judgement import Comparison, Judgement, LeftOut
from pytest_genderbias.gates.verdicts import FinishedTest, NotJudged
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Stored, as_plain, from_plain, read_schema, read_stored
from pytest_genderbias.measurement.variance import ValueVariance
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.text.plain_files import parse_json, read_whole
from pytest_genderbias.text.printable import brief, json_text
from pytest_genderbias.text.schema import field_hints

if TYPE_CHECKING:
    from pytest_genderbias.gates.comparison import Growth


SCHEMA = 2  #: of :meth:`RunReport.to_dict`; files of schema 1 had no ``run``, and no way back
_WHERE = "report"
_LARGEST = 2**28  #: bytes of a file
#: Parts of a report that are stored in a form of their own, and those that are not.
_STORED = ("judgements", "comparisons", "not_compared", "pictures", "history")
_PLAIN = ("not_judged", "failures", "selections", "tests")
_BOUNDS = {"low": float("-inf"), "high": float("inf")}  #: what a bound is that JSON has no number for


@dataclass(frozen=True)
class ReportedModel:
    """A model of the run: its name in tables and baselines, and the SPEC that was typed."""

    name: str
    spec: str


@dataclass(frozen=True)
class RunInfo:
    """When, with what and on which code a run was made.

    Attributes:
        date: when it ended, in ISO format with its offset from UTC, to the second.
        version: of pytest-genderbias.
        arguments: the arguments that the user gave pytest.
        models: the models of the run, in the order of the flags.
        commit: hash of the project's commit; empty outside a Git repository.
        modified: whether files of the project differed from that commit.
        settings: seed, number format, device, largest number of cases, and the models that others are compared with.
        versions: of Python and of the packages that a score can depend on.
        baselines: folder of the baselines, relative to the project where it lies inside.
        exit_status: of pytest.
        seconds: how long the run took.
    """

    date: str
    version: str
    arguments: tuple[str, ...] = ()
    models: tuple[ReportedModel, ...] = ()
    commit: str = ""
    modified: bool = False
    settings: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    baselines: str = ""
    exit_status: int = 0
    seconds: float = 0.0

    @property
    def moment(self) -> datetime.datetime | None:
        """When it ended; ``None`` if the date of a file is none."""
        with suppress(ValueError):
            return datetime.datetime.fromisoformat(self.date)
        return None

    @property
    def moment_in_utc(self) -> datetime.datetime | None:
        """When it ended, in UTC; ``None`` if the date of a file is none, or at an end of the calendar."""
        with suppress(ValueError, OverflowError, OSError):
            return self.moment and self.moment.astimezone(datetime.timezone.utc)
        return None


@dataclass(frozen=True)
class SelectionRow:
    """Selection of a group of persons in one decision, as plain data.

    Attributes:
        model: name of the model.
        decision: the predicted class that counts as selected, "score above the median", or ``selected``.
        category: the columns by which persons are grouped.
        group: name of the group; ``unknown`` for persons who are not counted.
        persons: persons of the group.
        share: their share of all persons whose group is known; ``None`` where there is no figure, as in the rest.
        selected: selected persons.
        rate: selection rate.
        ratio: impact ratio.
        low: lower bound of the ratio.
        high: upper bound of the ratio.
        note: why a figure is missing.
    """

    model: str
    decision: str
    category: str
    group: str
    persons: int
    share: float | None = None
    selected: int | None = None
    rate: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class TracePoint:
    """A statistic in one run.

    Attributes:
        date: when the run ended, in ISO format.
        commit: hash of the project's commit; empty if it is not known.
        fingerprint: of the model's weights; empty if it is not known.
        comparable: what must be equal for two values to be compared (suite, definition, settings, sample, data), as a
            short digest.
        value: the value; ``None`` if it has none.
        low: lower bound of the interval for other items; ``None`` without an interval.
        high: upper bound.
        n: cases that were scored.
        verdict: of its gate, the worst of several; empty without a gate.
        outcome: ``failed`` or ``passed``, or as :class:`~pytest_genderbias.gates.judgement.Judgement` has it;
            empty without a gate.
        least: smallest value that a limit allowed; ``None`` without one, as the rest of these.
        most: largest value that a limit allowed.
        baseline: value of the baseline entry.
        margin: how much worse than the baseline the value was allowed to be, in units of the statistic; ``None`` where
            nothing was but chance.
        anchor: value that was accepted first, where the baseline has left it.
    """

    date: str
    commit: str
    fingerprint: str
    comparable: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    verdict: str = ""
    outcome: str = ""
    least: float | None = None
    most: float | None = None
    baseline: float | None = None
    margin: float | None = None
    anchor: float | None = None

    @property
    def started(self) -> float | None:
        """The value that was accepted first: that of the anchor, or of the baseline as long as it has not left it."""
        return self.baseline if self.anchor is None else self.anchor


@dataclass(frozen=True)
class Trace(Stored):
    """A statistic over the runs of a history, the earliest first.

    Attributes:
        model: name of the model, under which releases follow each other.
        suite: name of the suite.
        options: settings of the suite, as JSON; traces of a suite with other settings are others.
        statistic: name of the statistic.
        main: whether it is the main statistic of the suite.
        direction: the direction that is worse, as :class:`~pytest_genderbias.suites.statistic.Statistic` has it, like
            the next two.
        neutral: value of a model without bias.
        meaning: what the statistic is, in one clause.
        points: at least one, one per run.
    """

    model: str
    suite: str
    options: str
    statistic: str
    main: bool
    direction: str
    neutral: float
    meaning: str
    points: tuple[TracePoint, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Key that distinguishes it from other traces of a history."""
        return (self.model, self.suite, self.options, self.statistic)

    @property
    def last(self) -> TracePoint:
        """The point of the latest run."""
        return self.points[-1]

    @property
    def is_gated(self) -> bool:
        """Whether a gate judged it in any run."""
        return any(point.verdict for point in self.points)

    def worsening(self) -> float | None:
        """Return how much worse the last value is than the first that it can be compared with; ``None`` if there is
        none.
        """
        alike = (point for point in self.points[:-1] if point.comparable == self.last.comparable)
        first = next((point for point in alike if point.value is not None), None)
        if first is None or first.value is None or self.last.value is None:
            return None
        return self.distance(self.last.value) - self.distance(first.value)

    def distance(self, value: float) -> float:
        """Return how bad a value is: larger is worse, 0 is neutral."""
        signed = value - self.neutral
        return signed if self.direction == "higher" else -signed if self.direction == "lower" else abs(signed)

    @classmethod
    def from_dict(cls, data: object, where: str = "history") -> Trace:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type, or there are no points.
        """
        trace = super().from_dict(from_plain(data, where), where)
        if not trace.points:
            raise DataFileError(f"{where}: expected at least one point of {brief(trace.statistic)}, got none")
        return trace


@dataclass(frozen=True)
class RunReport:
    """Everything that a run measured and judged.

    Measurements have the worst records of each slice, and no item statistics.

    Attributes:
        run: when, with what and on which code.
        measurements: each once, in the order of the tests.
        judgements: after the policy of the run, in the order of the tests.
        comparisons: between models, with ``--bias-compare``.
        not_compared: suites that could not be compared.
        not_judged: tests that were skipped since they could not judge.
        variances: sources of variance, with ``bias_variance``.
        pictures: of the measurements.
        failures: what failed the run beside its tests, in words.
        history: the values of the statistics in this and earlier runs, where a report is made with a history.
        selections: selection rates and impact ratios of files of predictions or results, one row per group.
        tests: result of each test.
    """

    run: RunInfo
    measurements: tuple[Measurement, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    not_compared: tuple[LeftOut, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()
    variances: tuple[ValueVariance, ...] = ()
    pictures: tuple[Picture, ...] = ()
    failures: tuple[str, ...] = ()
    history: tuple[Trace, ...] = ()
    selections: tuple[SelectionRow, ...] = ()
    tests: tuple[FinishedTest, ...] = ()

    @property
    def growths(self) -> list[Growth]:
        """How much the bias of each model grew since its baselines, over all its suites."""
        if not self.judgements:
            return []
        from pytest_genderbias.gates.comparison import growth_of

        return growth_of(self.judgements)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads. NaN and infinities become ``None``."""
        return {
            "schema": SCHEMA,
            "run": as_plain(self.run, finite=True),
            "measurements": [measurement.to_dict(arrays=False) for measurement in self.measurements],
            **{name: [one.to_dict(finite=True) for one in getattr(self, name)] for name in _STORED},
            "variance": [variance.to_dict(finite=True) for variance in self.variances],
            **{name: as_plain(getattr(self, name), finite=True) for name in _PLAIN},
        }

    @classmethod
    def from_dict(cls, data: object, where: str = _WHERE) -> RunReport:
        """Return what :meth:`to_dict` wrote.

        Args:
            data: plain JSON values.
            where: what is read, a file; it begins every message.

        Raises:
            DataFileError: a key is missing, unknown or of another type, or the schema is another.
        """
        content = read_schema(_with_open_bounds(from_plain(data, where)), SCHEMA, where)
        known = set(cls(RunInfo("", "")).to_dict()) - {"schema"}
        if wrong := sorted(content.keys() ^ known):
            raise DataFileError(
                f"{where}: expected the keys {', '.join(sorted(known))}; missing or unknown: {', '.join(wrong)}"
            )
        hints = {"variance" if name == "variances" else name: hint for name, hint in field_hints(cls).items()}
        read = {name: read_stored(hint, content[name], f"{where}.{name}") for name, hint in hints.items()}
        return cls(variances=read.pop("variance"), **read)


def read_report(path: Path) -> RunReport:
    """Return the report that ``--bias-json`` wrote to a file.

    Raises:
        DataFileError: the file cannot be read, is no such report, or was written by another version.
    """
    return RunReport.from_dict(parse_json(read_whole(path, _LARGEST), str(path)), str(path))


def _with_open_bounds(value: object) -> object:
    """Return plain data with the infinite bounds of intervals that JSON has no number for."""
    if isinstance(value, list):
        return [_with_open_bounds(element) for element in value]
    if not isinstance(value, Mapping):
        return value
    content = {key: _with_open_bounds(element) for key, element in value.items()}
    if {"low", "high", "level", "over", "method"} <= content.keys():
        content |= {key: bound for key, bound in _BOUNDS.items() if content[key] is None}
    return content


def write_json(report: RunReport, path: Path) -> None:
    """Write the report in one step, statistics in the order of their suites. NaN and infinities become ``null``; item
    statistics are left out.
    """
    write_whole(path, (json_text(report.to_dict(), sort_keys=False) + "\n").encode())


# What the history of a report says.


def tried(traces: Iterable[Trace]) -> Iterator[str]:
    """Yield a line for each model and suite whose last weights were measured with several seeds, samples or settings.

    A gate that passes with one of them may be the luckiest.

    Args:
        traces: of a history.
    """
    ways: dict[tuple[str, str], dict[str, set[tuple[str, str]]]] = {}
    last: dict[tuple[str, str], TracePoint] = {}
    for trace in traces:
        if not trace.main:
            continue
        key = trace.model, trace.suite
        if key not in last or trace.last.date > last[key].date:
            last[key] = trace.last
        for point in trace.points:
            ways.setdefault(key, {}).setdefault(point.fingerprint, set()).add((trace.options, point.comparable))
    for (model, suite), point in last.items():
        count = len(ways[model, suite][point.fingerprint])
        if point.fingerprint and count > 1:
            yield (
                f"{model}: {suite} was measured in {count} ways on the same weights (seeds, samples or settings): its"
                " verdict may be the luckiest"
            )
