"""Small pictures of the history of each gate, as SVG without any text, and their finding in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html import escape
from itertools import groupby

from pytest_genderbias.gates.judgement import Judgement, SettledJudgement
from pytest_genderbias.gates.verdicts import FAILED
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.reports.traces import Trace, TracePoint

_WIDTH, _HEIGHT, _MARGIN = 120.0, 32.0, 4.0
_MOST = 30  #: points of a picture
_LARGEST = 1e300  #: value, so that differences are finite
_LINE, _FAILED, _MUTED = "var(--figure-first, #0064a6)", "var(--figure-second, #c2560c)", "var(--figure-muted, #6a7179)"


def trace_of(report: RunReport, settled: SettledJudgement) -> Trace | None:
    """Return the trace of the statistic that a judgement is about; ``None`` without a history.

    Of a run that scored several samples of the suite it has the point of the sample that was judged.
    """
    judgement = settled.judgement
    about = (judgement.model, judgement.suite, judgement.statistic)
    traces = [trace for trace in report.history if (trace.model, trace.suite, trace.statistic) == about]
    return max(
        (_of_sample(trace, judgement) for trace in traces),
        key=lambda trace: trace.last.value == judgement.value,
        default=None,
    )


def _of_sample(trace: Trace, judgement: Judgement) -> Trace:
    """Return a trace with the points, of each run, that can be compared with the one that was judged; or else with its last point."""
    runs = [list(points) for _, points in groupby(trace.points, key=lambda point: point.date)]
    judged = [point for point in runs[-1] if (point.value, point.n) == (judgement.value, judgement.n)]
    if not judged:
        return trace
    alike = judged[-1].comparable
    points = (point for run in runs for point in [one for one in run if one.comparable == alike] or run[-1:])
    return replace(trace, points=tuple(points))


def sparklines(report: RunReport) -> dict[int, str]:
    """Return a small picture of the history of each gate that has been judged before, as SVG.

    Returns:
        By the number of the judgement, counted from 1. The markup holds numbers and escaped texts only.
    """
    drawn = {}
    for number, settled in enumerate(report.judgements, start=1):
        trace = trace_of(report, settled)
        if trace is not None and len(trace.points) > 1:
            drawn[number] = sparkline(trace)
    return drawn


def sparkline(trace: Trace) -> str:
    """Return the last 30 values of a trace as SVG: a line that breaks where values cannot be compared, the values that a gate allows as a
    band, the anchor as a dashed line, and a ring for each run in which a gate failed.

    Colours are the variables of :mod:`~pytest_genderbias.reports.figures.palette`, so that they follow the mode of the page.
    """  # fmt: skip
    points = trace.points[-_MOST:]
    scale = _Scale(trace, points)
    marks = [*_allowed(trace, points, scale), *_anchor(points, scale), *_lines(trace, len(points), scale)]
    for place, point in enumerate(points):
        if point.value is not None and (point.outcome == FAILED or place == len(points) - 1):
            colour = _FAILED if point.outcome == FAILED else _LINE
            fill = "none" if point.outcome == FAILED else colour
            marks.append(
                f'<circle cx="{scale.x(place):.1f}" cy="{scale.y(point.value):.1f}" r="2.6" fill="{fill}" stroke="{colour}" stroke-width="1.4"/>'
            )
    words = escape(in_words(trace), quote=True)
    return (
        f'<svg class="sparkline" role="img" aria-label="{words}" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" width="{_WIDTH:g}" height="{_HEIGHT:g}">'
        f"{''.join(marks)}</svg>"
    )


def in_words(trace: Trace) -> str:
    """Return the history of a statistic in one sentence.

    >>> point = TracePoint("2026-10-01T00:00:00+00:00", "", "", "a", 0.25)
    >>> later = TracePoint("2026-11-01T00:00:00+00:00", "", "", "a", 0.3, verdict="worse", outcome="failed")
    >>> in_words(Trace("m", "s", "{}", "share", True, "higher", 0.0, "", (point, later)))
    '2 runs since 2026-10-01: share 0.25, now 0.3, 0.05 worse; failed in 1 run'
    """
    first, last = trace.points[0], trace.last
    change = trace.worsening()
    moved = (
        ""
        if change is None
        else ", as it was"
        if change == 0
        else f", {abs(change):.3g} {'worse' if change > 0 else 'better'}"
    )
    failed = sum(point.outcome == FAILED for point in trace.points)
    runs = f"{len(trace.points)} run{'s' * (len(trace.points) > 1)} since {first.date[:10]}"
    values = (
        f"{_number(first.value)}, now {_number(last.value)}{moved}" if len(trace.points) > 1 else _number(last.value)
    )
    return f"{runs}: {trace.statistic} {values}" + (f"; failed in {failed} run{'s' * (failed > 1)}" if failed else "")


def _number(value: float | None) -> str:
    return "no value" if value is None else f"{value:.3g}"


class _Scale:
    """Where a place in the order of runs and a value lie in the picture."""

    def __init__(self, trace: Trace, points: tuple[TracePoint, ...]) -> None:
        shown = [
            value
            for point in points
            for value in (point.value, point.started, *_edges(trace, point))
            if value is not None
        ]
        shown = [_clipped(value) for value in shown]
        self._low, self._high = min(shown, default=0.0), max(shown, default=0.0)
        self._step = (_WIDTH - 2 * _MARGIN) / max(1, len(points) - 1)

    def x(self, place: float) -> float:
        return _MARGIN + place * self._step

    def y(self, value: float) -> float:
        if self._high <= self._low:
            return _HEIGHT / 2
        return _HEIGHT - _MARGIN - (_clipped(value) - self._low) / (self._high - self._low) * (_HEIGHT - 2 * _MARGIN)


def _clipped(value: float) -> float:
    return max(-_LARGEST, min(value, _LARGEST))


def _edges(trace: Trace, point: TracePoint) -> tuple[float | None, float | None]:
    """Return the smallest and the largest value that a gate allows in a run; ``None`` for an open side."""
    least, most = point.least, point.most
    if point.baseline is not None and point.margin is not None:
        if trace.direction == "higher":
            most = point.baseline + point.margin
        elif trace.direction == "lower":
            least = point.baseline - point.margin
        else:
            reach = abs(point.baseline - trace.neutral) + point.margin
            least, most = trace.neutral - reach, trace.neutral + reach
    return least, most


def _allowed(trace: Trace, points: tuple[TracePoint, ...], scale: _Scale) -> Iterator[str]:
    """Yield a band of what is allowed, a rectangle a run."""
    half = (scale.x(1) - scale.x(0)) / 2
    for place, point in enumerate(points):
        least, most = _edges(trace, point)
        if least is None and most is None:
            continue
        top = 0.0 if most is None else scale.y(most)
        bottom = _HEIGHT if least is None else scale.y(least)
        left, right = max(0.0, scale.x(place) - half), min(_WIDTH, scale.x(place) + half)
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{max(bottom - top, 0.5):.1f}" fill="{_MUTED}" '
            'fill-opacity="0.16"/>'
        )


def _anchor(points: tuple[TracePoint, ...], scale: _Scale) -> Iterator[str]:
    started = points[-1].started
    if started is not None:
        y = scale.y(started)
        yield f'<path d="M0 {y:.1f}H{_WIDTH:g}" stroke="{_MUTED}" stroke-dasharray="3 2" fill="none"/>'


def _lines(trace: Trace, shown: int, scale: _Scale) -> Iterator[str]:
    """Yield the line through values that can be compared with each other; it skips runs without a value."""
    place = shown - len(trace.points)
    for segment in trace.segments():
        ends = [(at, one.value) for at, one in enumerate(segment, start=place) if at >= 0 and one.value is not None]
        if len(ends) > 1:
            path = "L".join(f"{scale.x(at):.1f} {scale.y(value):.1f}" for at, value in ends)
            yield f'<path d="M{path}" stroke="{_LINE}" stroke-width="1.4" fill="none"/>'
        place += len(segment)
