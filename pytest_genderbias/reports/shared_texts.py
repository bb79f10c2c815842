"""What the tables of a run say in the same words, in a terminal, in markdown and on the page. How a number is written
is each table's own.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.intervals import Interval

Write = Callable[[float], str]


def cases_in_words(counted: Measurement | Judgement) -> str:
    """Return how many cases were scored, and of how many, if not all were."""
    return f"{counted.n:,}" if counted.n == counted.n_total else f"{counted.n:,} of {counted.n_total:,}"


def between(interval: Interval | None, write: Write) -> str:
    """Return the bounds of an interval in words; a dash without one.

    >>> between(Interval(0.25, 0.5, 0.95, "words", "by hand"), "{:g}".format), between(None, str)
    ('0.25 to 0.5', '-')
    """
    if interval is None:
        return "-"
    return "exact" if interval.low == interval.high else f"{write(interval.low)} to {write(interval.high)}"


def size_of_change(worse: float, write: Write) -> str:
    """Return how much worse or better a statistic is; an empty text if it is as it was.

    >>> size_of_change(-0.5, "{:g}".format), size_of_change(1e-17, str)
    ('0.5 better', '')
    """
    return "" if abs(worse) <= FLOAT_NOISE else f"{write(abs(worse))} {'better' if worse < 0 else 'worse'}"


def bounds_of_change(worse: float, interval: Interval, write: Write) -> str:
    """Return the bounds of a change, in the direction in which :func:`size_of_change` says it.

    >>> bounds_of_change(-0.5, Interval(-0.75, 0.25, 0.95, "words", "by hand"), "{:g}".format)
    '-0.25 to 0.75'
    """
    low, high = (-interval.high, -interval.low) if worse < -FLOAT_NOISE else (interval.low, interval.high)
    return f"{write(low)} to {write(high)}"
