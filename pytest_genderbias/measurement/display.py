"""The display of a measurement: three lines in a terminal, a small table in a notebook, and an error where it is
compared like a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from numbers import Number
from typing import NoReturn

from pytest_genderbias.escaping import printable
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.columns import one_line
from pytest_genderbias.text.numbers import format_bounds, format_decimals

_WORSE = {"higher": "higher is worse", "lower": "lower is worse", "away": "away from it is worse"}
_HEADERS = ("statistic", "value", "interval", "neutral", "meaning")
_LONGEST = 300  #: characters of notes and reasons in a line


class Displayed:
    """Base of :class:`~pytest_genderbias.measurement.measurement.Measurement`: its ``repr``, its HTML table and its
    comparisons.
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
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        """Return three lines: the main statistic, the cases, and the notes."""
        name = next(iter(self.values))
        statistic = self.statistics[name]
        return printable(
            f"{self.suite} on {self.model}: {name} {self._value_text(name)}; neutral {statistic.neutral:g},"
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

    def __lt__(self, other: object) -> bool:
        """Refuse to compare a measurement, which has several figures and their uncertainty, like a number."""
        self._refuse_comparison("<", other)

    def __le__(self, other: object) -> bool:
        """Refuse the comparison, as ``<`` does."""
        self._refuse_comparison("<=", other)

    def __gt__(self, other: object) -> bool:
        """Refuse the comparison, as ``<`` does."""
        self._refuse_comparison(">", other)

    def __ge__(self, other: object) -> bool:
        """Refuse the comparison, as ``<`` does."""
        self._refuse_comparison(">=", other)

    def _refuse_comparison(self, sign: str, other: object) -> NoReturn:
        __tracebackhide__ = True
        if isinstance(other, Displayed):
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

    def _value_text(self, name: str) -> str:
        value = self.values[name]
        if value is None:
            return f"has no value ({one_line(self.reasons.get(name, 'no reason given'), _LONGEST)})"
        interval = self._interval_text(name)
        return format_decimals(value) + (f" ({interval})" if interval else " (no interval)")

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
