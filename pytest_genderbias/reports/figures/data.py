"""Helpers of the builders of pictures: rounded numbers, cut texts, and figures in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.escaping import printable
from pytest_genderbias.reports.picture import Numbers, Panel, Picture, Series
from pytest_genderbias.suites.summary import Record

FloatArray = NDArray[np.float64]
Values: TypeAlias = ArrayLike | Iterable[float | None]
_DIGITS = 5  #: significant digits of a number in a picture
_LONGEST = 34  #: characters of a label
WORSE = {"higher": "higher is worse", "lower": "lower is worse", "away": "away from neutral is worse"}


def cut(text: object, most: int = _LONGEST) -> str:
    """Return a text of others in one line of at most ``most`` characters, with control characters escaped.

    >>> cut("a\\nb"), cut("x" * 50, 8)
    ('a b', 'xxxxxxx…')
    """
    line = printable(" ".join(str(text)[: 4 * most].split()))
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def numbers(values: Values) -> Numbers:
    """Return rounded numbers, ``None`` for those that are missing or not finite.

    >>> numbers([1 / 3, None, float("nan"), 2])
    (0.33333, None, None, 2.0)
    """
    listed: Any = values.tolist() if isinstance(values, np.ndarray) else values
    return tuple(map(number, listed))


def plot(
    name: str, marks: str, x: Values = (), y: Values = (), low: Values = (), high: Values = (), **how: Any
) -> Series:
    """Return a series with its numbers rounded; ``how`` are further fields of :class:`Series`."""
    return Series(name, marks, numbers(x), numbers(y), numbers(low), numbers(high), **how)


def picture_of(kind: str, suite: str, statistic: str, what: str, alt: str, caption: str, *panels: Panel) -> Picture:
    """Return a picture of several models on a suite; its title begins with the suite."""
    return Picture(kind, suite, "", statistic, f"{cut(suite, 60)}: {what}", alt, caption, panels)


def number(value: float | None) -> float | None:
    """Return a rounded number; ``None`` if it is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def shown(value: float | None, sign: bool = False) -> str:
    """Return a number as sentences have it, with three significant digits.

    >>> shown(0.12345), shown(-2.0, sign=True), shown(None), shown(1234.5)
    ('0.123', '-2', 'no value', '1234')
    """
    if value is None or not math.isfinite(value):
        return "no value"
    text = f"{value:+.3g}" if sign else f"{value:.3g}"
    return f"{value:{'+' if sign else ''}.0f}" if "e" in text and 1e3 <= abs(value) < 1e7 else text


def listed(names: Sequence[str], values: Sequence[float | None], most: int = 3) -> str:
    """Return the first names with their values in words.

    >>> listed(["nurse", "maid"], [-2.0, -1.5])
    'nurse (-2) and maid (-1.5)'
    """
    pairs = [f"{cut(n)} ({shown(v, sign=True)})" for n, v in list(zip(names, values, strict=True))[:most]]
    return " and ".join([", ".join(pairs[:-1]), pairs[-1]] if len(pairs) > 1 else pairs)


def texts(array: NDArray[np.generic]) -> list[str]:
    """Return an array of texts as a list."""
    return [str(text) for text in array.tolist()]


def floats(array: NDArray[np.generic]) -> FloatArray:
    """Return an array of numbers as floats."""
    return np.asarray(array, dtype=np.float64)


def float_of(record: Record, key: str) -> float:
    """Return a number of a record, NaN if it has none."""
    value = record.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def of_slice(records: Iterable[Record], name: str) -> list[Record]:
    """Return the records of a slice."""
    return [record for record in records if record.get("slice") == name]


def two_groups(records: Sequence[Record], value: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the names of both groups: of that which a positive value leans to, and of that which a negative one does.

    Args:
        records: each has its lean as ``preferred``, and a number for each group under the name of the group.
        value: key of the signed value.
        known: other keys.
    """
    names = [key for key in records[0] if key not in {value, "preferred", *known}][:2] if records else []
    first, second = names if len(names) == 2 else ("first", "second")
    for record in records:
        if float_of(record, value) != 0 and record.get("preferred") in names:
            positive = (record["preferred"] == first) == (float_of(record, value) > 0)
            return (first, second) if positive else (second, first)
    return first, second
