"""A verdict on one statistic of a measurement, and the text that explains it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_genderbias.gates.verdicts import INCONCLUSIVE, PASS, REGRESSED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.null import Null

#: The questions that a gate can answer.
WHOLE_SUITE = "the suite's cases"
LEVEL = 0.95


@dataclass(frozen=True)
class Finding:
    """What a comparison came to, before it is told: the verdict, why, and the bounds that it rests on.

    ``over``: what varies between the bounds, which says the question that was answered: the suite's cases on this model (whole, or
    as far as they were scored), or other items or restarts. ``settled_by``: what would settle an inconclusive one. ``p``: of the
    hypothesis that it is not worse than allowed, where there is one; ``tests``: how many such tests ``regressed`` is corrected for.
    ``level``: the confidence that the bounds have. ``facts``: figures beside the verdict, as plain JSON values.
    """

    verdict: str
    bound: str
    text: str
    low: float | None = None
    high: float | None = None
    over: str = ""
    settled_by: str = ""
    p: float | None = None
    tests: int = 1
    difference: float | None = None
    lines: Sequence[str] = ()
    accepted: Sequence[Mapping[str, Any]] = ()
    level: float = LEVEL
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Judgement:
    """What a gate found. ``bound`` is the limit or baseline in short, for the table; ``text`` explains it whole.

    ``interval`` has the bounds that decided, ``over`` what varies between them. ``accepted``: worse values that were accepted with a reason, still in force. ``name``: of the gate or baseline entry, where it
    was given one. ``facts``: figures beside the verdict, as a mitigation's share that is gone, as plain JSON values.
    """

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
    over: str = ""
    settled_by: str = ""
    p: float | None = None
    tests: int = 1
    difference: float | None = None
    accepted: Sequence[Mapping[str, Any]] = field(default_factory=list)
    null: Null | None = None
    name: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        interval = None if self.interval is None else vars(self.interval).copy()
        null = None if self.null is None else vars(self.null).copy()
        return {**vars(self), "interval": interval, "null": null, "accepted": [dict(one) for one in self.accepted]}


def decide(low: float, high: float, least: float, most: float) -> str:
    """Return the verdict on a figure between two bounds that should lie from ``least`` to ``most``: one rule for every gate.

    >>> decide(0.1, 0.2, 0.0, 0.3), decide(0.4, 0.5, 0.0, 0.3), decide(0.2, 0.4, 0.0, 0.3)
    ('pass', 'regressed', 'inconclusive')
    """
    if least <= low and high <= most:
        return PASS
    return REGRESSED if high < least or low > most else INCONCLUSIVE


def approximate(number: int) -> str:
    """Return an estimate with two figures, rounded up.

    >>> approximate(87), approximate(1234)
    ('about 87', 'about 1,300')
    """
    unit = 10 ** max(0, len(str(number)) - 2)
    return f"about {-(-number // unit) * unit:,}"


def make_judgement(measurement: Measurement, statistic: str, finding: Finding, name: str | None = None) -> Judgement:
    """Make the judgement of a finding."""
    bounds = None
    if finding.low is not None and finding.high is not None:
        bounds = Interval(finding.low, finding.high, finding.level, finding.over, "")
    return Judgement(
        measurement.suite, measurement.model, statistic, measurement.values[statistic], bounds, measurement.n, measurement.n_total,
        finding.bound, finding.verdict, explain(measurement, statistic, finding),
        finding.over, finding.settled_by, finding.p, finding.tests, finding.difference, list(finding.accepted),
        measurement.null.get(statistic), name or "", finding.facts,
    )  # fmt: skip


def explain(measurement: Measurement, statistic: str, finding: Finding) -> str:
    """Return the whole text: finding, value, intervals, direction, n, what to do, notes, and the worst records."""
    value, about = measurement.values[statistic], measurement.statistics[statistic]
    reason = measurement.reasons.get(statistic, "")
    around = measurement.intervals[statistic]
    interval = format_interval(around) or f"none: {reason or 'not available'}"
    level = LEVEL if around is None else around.level
    scored = f"{measurement.n:,} of {measurement.n_total:,} cases scored"
    if measurement.stopped:
        scored += ": that decided every gate on this suite"
    lines = [
        f"{finding.verdict}: {measurement.suite} on {measurement.model}: {finding.text}",
        f"  {statistic} = {format_number(value)}" + (f" ({reason})" if value is None else ""),
        *([f"  judged for {_question(finding.over)}"] if finding.over else ()),
        *([f"  to settle it: {finding.settled_by}"] if finding.settled_by else ()),
        *finding.lines,
        *([f"  {100 * level:.3g} % interval for other items: {interval}"] if value is not None else ()),
        *([format_null(measurement.null[statistic])] if statistic in measurement.null else ()),
        f"  {about.meaning}; {direction_in_words(about.direction)} is worse, neutral is {about.neutral:g}",
        f"  {scored}",
        *(f"  note: {note}" for note in measurement.notes),
    ]
    if measurement.records:
        few = 2 if "slice" in measurement.records[0] else 5
        lines += ["  worst records:", *(f"    {format_record(record)}" for record in measurement.worst(few))]
    return "\n".join(lines)


def _question(over: str) -> str:
    return over if over.startswith((WHOLE_SUITE, "other ")) else f"other {over}"


def direction_in_words(direction: str) -> str:
    """Return a direction as it is said."""
    return "farther from neutral" if direction == "away" else direction


def format_number(value: float | None) -> str:
    """Return a number with four significant figures; ``None`` is a dash."""
    return "-" if value is None else f"{value:.4g}"


def format_interval(interval: Interval | None) -> str:
    """Return ``[low, high] over what``, or nothing."""
    return "" if interval is None else f"[{interval.low:.4g}, {interval.high:.4g}] over {interval.over}"


def format_null(null: Null) -> str:
    """Return a line on what shuffles give."""
    return (
        f"  null control ({null.what}; {null.repeats:,} shuffles): mean {null.mean:.4g}, 95 % of them {null.low:.4g} to {null.high:.4g}, "
        f"{100 * null.p_value:.3g} % at least as bad"
    )


def format_record(record: dict[str, Any]) -> str:
    """Return a record on one line."""

    def show(value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, float):
            return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)
        return f"{value:.3g}"

    return "; ".join(f"{key}: {show(value)}" for key, value in record.items())
