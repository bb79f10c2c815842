"""``Trace``: one statistic of a model over the runs of a history, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.measurement.plain_data import Stored, from_plain
from pytest_genderbias.text.printable import brief


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
