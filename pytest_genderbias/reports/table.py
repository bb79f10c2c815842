"""The table that ends a run, in the form that pull requests render."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.judgement import WHOLE_SUITE, Judgement, SettledJudgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.reduction import is_reduction
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.multiple_tests import holm
from pytest_genderbias.statistics.inference.null import Null
from pytest_genderbias.text.printable import escape

HEADERS = ("suite", "model", "statistic", "value", "95 % interval", "over", "cases", "limit or baseline", "verdict")
_P = "p (Holm)"  #: shown if a statistic was compared with a baseline or another model
_NULL = "null (p)"  #: shown if there was a null control: 95 % of the shuffles, and the p value


def make_table(measurements: Iterable[Measurement], judgements: Iterable[SettledJudgement]) -> str:
    """Return a markdown table with every judgement, and every statistic that was measured and not judged.

    Texts are escaped for markdown. ``over`` is what varies between the bounds. Where a statistic was compared with another value,
    the bounds are those of the difference, called worse or better. The name of a gate or baseline entry is in brackets behind its
    suite, and what a test made of a judgement that did not fail it behind the verdict. Each judgement of a test has a row. All
    p values of the run are corrected for their number (Holm), where several tests that judge the same count once. Judgements of
    mitigations are left out: they are in the table of :mod:`~pytest_genderbias.reports.reduction`.
    """
    from tabulate import tabulate

    settled = [one for one in judgements if not is_reduction(one.judgement)]
    seen = {(one.judgement.suite, one.judgement.model, one.judgement.statistic) for one in settled}
    p_values = _corrected([one.judgement for one in settled])
    rows = [_judged(one, p) for one, p in zip(settled, p_values, strict=True)]
    for measurement in sorted(measurements, key=lambda measurement: -measurement.n):  # the one with most cases is shown
        for statistic in measurement.values:
            if (measurement.suite, measurement.model, statistic) not in seen:
                seen.add((measurement.suite, measurement.model, statistic))
                rows.append(_measured(measurement, statistic))
    rows.sort(key=lambda row: (row[1], row[0]))
    if not rows:
        return ""
    headers = (*HEADERS, _P, _NULL)
    shown = [i for i in range(len(headers)) if i < len(HEADERS) or any(row[i] for row in rows)]
    table = [[escape(row[i]) for i in shown] for row in rows]
    return tabulate(table, [headers[i] for i in shown], tablefmt="github", disable_numparse=True)


def _corrected(judgements: Sequence[Judgement]) -> list[str]:
    """Return p values, corrected as Holm does, as they are shown; an empty text for a judgement without one."""
    different: list[Judgement] = []
    for judgement in judgements:
        if judgement.p is not None and judgement not in different:
            different.append(judgement)
    corrected = holm([judgement.p for judgement in different if judgement.p is not None]) if different else ()
    return ["" if one.p is None else f"{corrected[different.index(one)]:.2g}" for one in judgements]


def _judged(settled: SettledJudgement, p: str) -> list[str]:
    judgement = settled.judgement
    interval, suite = judgement.interval, judgement.suite
    between = _between(interval)
    if judgement.difference is not None and interval is not None:
        between = _change(judgement.difference, interval)
    return [
        f"{suite} ({judgement.name})" if judgement.name else suite, judgement.model, judgement.statistic, _number(judgement.value),
        between, "" if interval is None else interval.over, _cases(judgement), judgement.bound, settled.verdict, p,
        _chance(judgement.null),
    ]  # fmt: skip


def _measured(measurement: Measurement, statistic: str) -> list[str]:
    interval = measurement.intervals[statistic]
    return [
        measurement.suite, measurement.model, statistic, _number(measurement.values[statistic]), _between(interval),
        "" if interval is None else interval.over, _cases(measurement), "", "measured", "", _chance(measurement.null.get(statistic)),
    ]  # fmt: skip


def _change(worse: float, interval: Interval) -> str:
    """Return how much worse or better a statistic is, with bounds of that."""
    low, high, over = interval.low, interval.high, interval.over
    change = "no change" if abs(worse) <= FLOAT_NOISE else f"{'better' if worse < 0 else 'worse'} by {abs(worse):.4f}"
    if high - low <= FLOAT_NOISE:
        if over.startswith(WHOLE_SUITE):
            return f"{change}, exact"
        return f"{change}, the same in every {'restart' if over.startswith('restarts') else 'item'}"
    low, high = (-high, -low) if change.startswith("better") else (low, high)
    return f"{change}, {low:.4f} to {high:.4f}"


def _between(interval: Interval | None) -> str:
    if interval is None:
        return ""
    return "exact" if interval.low == interval.high else f"{interval.low:.4f} to {interval.high:.4f}"


def _cases(counted: Measurement | Judgement) -> str:
    n, n_total = counted.n, counted.n_total
    return f"{n:,}" if n == n_total else f"{n:,} of {n_total:,}"


def _chance(null: Null | None) -> str:
    return "" if null is None else f"{null.low:.4f} to {null.high:.4f} ({100 * null.p_value:.3g} %)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
