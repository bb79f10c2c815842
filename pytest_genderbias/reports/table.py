"""The table that ends a run, in the form that pull requests render."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.judgement import WHOLE_SUITE, Judgement, SettledJudgement
from pytest_genderbias.gates.verdicts import PLANNED
from pytest_genderbias.gates.wording import format_chance
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.reports.reduction import is_reduction
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.multiple_tests import holm
from pytest_genderbias.statistics.inference.null import Null
from pytest_genderbias.text.printable import escape

HEADERS = ("suite", "model", "statistic", "value", "95 % interval", "over", "cases", "limit or baseline", "verdict")
_CHANGE = (
    "change (95 % bounds)"  #: shown, as is ``p (Holm)``, if a statistic was compared with a baseline or another model
)
_P = "p (Holm)"
_NULL = "null (p)"  #: shown if there was a null control: 95 % of the shuffles, and the p value
_NUMBERS = (_P, _NULL)  #: columns without words of others; an escaped `<=` could not be read in a terminal
_ALL = (*HEADERS[:-1], _CHANGE, HEADERS[-1], _P, _NULL)


def make_table(measurements: Iterable[Measurement], judgements: Iterable[SettledJudgement]) -> str:
    """Return a markdown table with every judgement, and every statistic that was measured and not judged.

    Texts are escaped for markdown. ``over`` is what varies between the bounds. Where a statistic was compared with another value,
    the difference, called worse or better, stands with its bounds in a column of its own, and ``over`` is that of these bounds. The name of a gate or baseline entry is in brackets behind its
    suite, and what a test made of a judgement that did not fail it behind the verdict. Each judgement of a test has a row. All
    p values of the run are corrected for their number (Holm), where several tests that judge the same count once. Judgements of
    mitigations are left out: they are in the table of :mod:`~pytest_genderbias.reports.reduction`.
    """
    from tabulate import tabulate

    settled = [one for one in judgements if not is_reduction(one.judgement) and one.judgement.verdict != PLANNED]
    seen = {(one.judgement.suite, one.judgement.model, one.judgement.statistic) for one in settled}
    p_values = corrected_p_values([one.judgement for one in settled])
    rows = [_judged(one, p) for one, p in zip(settled, p_values, strict=True)]
    for measurement in sorted(measurements, key=lambda measurement: -measurement.n):  # the one with most cases is shown
        for statistic in measurement.values:
            if (measurement.suite, measurement.model, statistic) not in seen:
                seen.add((measurement.suite, measurement.model, statistic))
                rows.append(_measured(measurement, statistic))
    rows.sort(key=lambda row: (row[1], row[0]))
    if not rows:
        return ""
    shown = [i for i, header in enumerate(_ALL) if header in HEADERS or any(row[i] for row in rows)]
    table = [[row[i] if _ALL[i] in _NUMBERS else escape(row[i]) for i in shown] for row in rows]
    return tabulate(table, [_ALL[i] for i in shown], tablefmt="github", disable_numparse=True)


def corrected_p_values(judgements: Sequence[Judgement]) -> list[str]:
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
    compared = judgement.difference is not None and interval is not None
    return [
        f"{suite} ({judgement.name})" if judgement.name else suite, judgement.model, judgement.statistic, _number(judgement.value),
        "" if compared else _between(interval), "" if interval is None else interval.over, _cases(judgement), judgement.bound,
        _change(judgement.difference, interval), settled.verdict, p, _chance(judgement.null),
    ]  # fmt: skip


def _measured(measurement: Measurement, statistic: str) -> list[str]:
    interval = measurement.intervals[statistic]
    return [
        measurement.suite, measurement.model, statistic, _number(measurement.values[statistic]), _between(interval),
        "" if interval is None else interval.over, _cases(measurement), "", "", "measured", "", _chance(measurement.null.get(statistic)),
    ]  # fmt: skip


def _change(worse: float | None, interval: Interval | None) -> str:
    """Return how much worse or better a statistic is, with bounds of that; an empty text if it was not compared."""
    if worse is None or interval is None:
        return ""
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
    return "" if null is None else f"{null.low:.4f} to {null.high:.4f} ({format_chance(null)})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
