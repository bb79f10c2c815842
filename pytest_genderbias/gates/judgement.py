"""A verdict on one statistic of a measurement, and the text that explains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pytest_genderbias.gates.listening import LISTENER
from pytest_genderbias.measurement import Measurement
from pytest_genderbias.statistics.intervals import Interval

PASS, REGRESSED, STALE, NOT_COMPARABLE, MISSING, NO_VALUE, UPDATED = (
    "pass", "regressed", "stale", "not comparable", "missing", "no value", "updated",
)  # fmt: skip
FAILING = frozenset({REGRESSED, NOT_COMPARABLE, MISSING, NO_VALUE})


@dataclass(frozen=True)
class Judgement:
    """What a gate found. ``bound`` is the limit or baseline in short, for the table; ``text`` explains it whole."""

    suite: str
    model: str
    statistic: str
    value: float | None
    interval: Interval | None
    n: int
    n_total: int
    bound: str
    verdict: str
    text: str

    @property
    def failed(self) -> bool:
        """Whether the test that holds this gate fails."""
        return self.verdict in FAILING

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        interval = None if self.interval is None else vars(self.interval).copy()
        return {**vars(self), "interval": interval}


def make_judgement(measurement: Measurement, statistic: str, bound: str, verdict: str, finding: str) -> Judgement:
    """Make a judgement and tell the listener."""
    judgement = Judgement(
        measurement.suite, measurement.model, statistic, measurement.values[statistic], measurement.intervals[statistic],
        measurement.n, measurement.n_total, bound, verdict, explain(measurement, statistic, verdict, finding),
    )  # fmt: skip
    listener = LISTENER.get()
    if listener is not None:
        listener(judgement)
    return judgement


def explain(measurement: Measurement, statistic: str, verdict: str, finding: str) -> str:
    """Return the whole text: finding, value, interval, direction, n, notes, and the worst records."""
    value, about = measurement.values[statistic], measurement.statistics[statistic]
    reason = measurement.reasons.get(statistic, "")
    lines = [
        f"{verdict}: {measurement.suite} on {measurement.model}: {finding}",
        f"  {statistic} = {format_number(value)}" + (f" ({reason})" if value is None else ""),
        f"  95 % interval: {format_interval(measurement.intervals[statistic]) or 'none: ' + (reason or 'not available')}",
        f"  {about.meaning}; {direction_in_words(about.direction)} is worse, neutral is {about.neutral:g}",
        f"  {measurement.n:,} of {measurement.n_total:,} cases scored",
        *(f"  note: {note}" for note in measurement.notes),
    ]
    if measurement.records:
        few = 2 if "slice" in measurement.records[0] else 5
        lines += ["  worst records:", *(f"    {format_record(record)}" for record in measurement.worst(few))]
    return "\n".join(lines)


def direction_in_words(direction: str) -> str:
    """Return a direction as it is said."""
    return "farther from neutral" if direction == "away" else direction


def format_number(value: float | None) -> str:
    """Return a number with four significant figures; ``None`` is a dash."""
    return "-" if value is None else f"{value:.4g}"


def format_interval(interval: Interval | None) -> str:
    """Return ``[low, high] over what``, or nothing."""
    return "" if interval is None else f"[{interval.low:.4g}, {interval.high:.4g}] over {interval.over}"


def format_record(record: dict[str, Any]) -> str:
    """Return a record on one line."""

    def show(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, float):
            return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        return f"{value:.3g}"

    return "; ".join(f"{key}: {show(value)}" for key, value in record.items())
