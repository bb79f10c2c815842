"""Comparison over restarts of a training: one checkpoint with several restarts, and several with several on crossed items.

``docs/evidence/coverage-restarts.md`` has the measured coverage; a small version is recomputed by ``tests/statistics/inference/test_restarts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.statistics.inference.item_bounds import Bounds
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.paired import (
    SAME_RESTARTS,
    Difference,
    Distance,
    folded,
    of_restarts,
    unit_changes,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError

_FEWEST_ITEMS = 5  #: as of other comparisons
_NOTHING = 1e-12  #: relative to the size of the values
_PREDICTION = "prediction bound of one more restart, t({freedom}) s sqrt(1 + 1/{restarts})"
_ONE_OF_ALL = "none of the {restarts} restarts differs from the others: p by permutation"
_CROSSED = "two-way error of restarts and {over}, Student's t with {freedom:.3g} degrees; {share:.0%} of the variance from restarts"

_BoundsOf = Callable[[float, float], Bounds]  #: makes bounds and p values of a difference, given the tolerance


def compare_with_restarts(
    then: ArrayLike, now: ArrayLike, distance: Distance, tolerance: float = 0.0, level: float = 0.95
) -> Difference:
    """Return how much worse one checkpoint is than restarts of a training, or restarts than one checkpoint, by a prediction bound.

    The question is whether the one lies outside what the training gives when it is repeated. One more restart lies within
    t(k - 1) s sqrt(1 + 1 / k) of the mean of k others, with the given probability on each side (Hahn and Meeker 1991, Statistical Intervals,
    section 4.7; Student's t for the difference of a group of one and one of k, with the spread of the k). If the side of neutral on
    which either lies is in doubt, the bounds hold for either side, as in
    :func:`~pytest_genderbias.statistics.inference.paired.compare_restarts`. They do not cover other examples or units.

    Where the restarts do not differ, there is no error to divide by: p is that of a permutation, 1 / (k + 1), and the bounds are the
    difference itself.

    Args:
        then: the statistic of each restart of the baseline, shape (k,), or of one checkpoint, shape (1,).
        now: the same of what is held against it. One of the two has one value.
        distance: how bad a value of the statistic is, larger is worse; from shape (...) to (...). Convex, and piecewise linear with a
            slope of 1.
        tolerance: the worsening that is allowed, 0 or more, in units of the statistic.
        level: of each bound, one-sided.

    Returns:
        The worsening, distance(now) - distance(then), of means. ``items`` is k.

    Raises:
        UndefinedError: neither side has two values, or a value is no finite number.
        ValueError: both sides have several values.

    Example:
        Restarts 1, 2 and 3 have the mean 2 and s = 1. The fourth may lie 2.92 sqrt(4 / 3) = 3.372 above the mean.

        >>> difference = compare_with_restarts([1.0, 2.0, 3.0], [6.0], lambda v: v)
        >>> difference.value, round(difference.low, 3), round(difference.p, 4)
        (4.0, 0.628, 0.0371)
    """
    sides = [np.asarray(values, dtype=np.float64) for values in (then, now)]
    if min(map(len, sides)) != 1:
        raise ValueError("expected one value on one side, and restarts on the other")
    several = max(sides, key=len)
    k = len(several)
    if k < 2:
        raise UndefinedError("one restart says nothing of others; two on one side are needed, five are better")
    if not all(np.isfinite(values).all() for values in sides):
        raise UndefinedError("the statistic has no value in one of the restarts")
    before, after = (float(values.mean()) for values in sides)
    nothing = _NOTHING * max(1.0, *(float(np.abs(values).max()) for values in sides))
    spread = float(several.std(ddof=1))
    if spread <= nothing:
        return _without_spread(before, after, distance, tolerance, k, nothing)
    reach = _quantile((1 + level) / 2, k - 1) * spread
    lines = [
        _Line.at(middle, reach / len(values) ** 0.5, distance)
        for middle, values in zip((before, after), sides, strict=True)
    ]

    bounds_of = partial(_student, spread * (1 + 1 / k) ** 0.5, k - 1, level)
    bounds = _of_lines(lines, (before, after), {1.0: bounds_of, -1.0: bounds_of}, tolerance)
    method = _PREDICTION.format(freedom=k - 1, restarts=k)
    return of_restarts(lines[1].height - lines[0].height, bounds, k, 1, method)


def _without_spread(
    before: float, after: float, distance: Distance, tolerance: float, k: int, nothing: float
) -> Difference:
    if abs(after - before) <= nothing:
        return of_restarts(0.0, (0.0, 0.0, 1.0, 1.0), k, 0, SAME_RESTARTS)
    value, chance = float(distance(np.array(after)) - distance(np.array(before))), 1 / (k + 1)
    bounds = value, value, chance if value > tolerance else 1.0, chance if value < -tolerance else 1.0
    return of_restarts(value, bounds, k, 1, _ONE_OF_ALL.format(restarts=k), chance)


def prediction_bounds(restarts: ArrayLike, level: float = 0.95) -> tuple[float, float]:
    """Return the bounds of one more restart: mean -+ t(k - 1) s sqrt(1 + 1 / k), each one-sided (Hahn and Meeker 1991, section 4.7).

    Args:
        restarts: the statistic of each restart, shape (k,), two or more.
        level: of each bound.

    >>> low, high = prediction_bounds([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-1.372, 5.372)
    """
    values = np.asarray(restarts, dtype=np.float64)
    k, middle = len(values), float(values.mean())
    reach = _quantile(level, k - 1) * float(values.std(ddof=1)) * float((1 + 1 / k) ** 0.5)
    return middle - reach, middle + reach


def restarts_to_decide(restarts: ArrayLike, worsening: float, tolerance: float, level: float = 0.95) -> int | None:
    """Return how many restarts would decide about one checkpoint, if it, their mean and their spread stay as they are.

    ``None`` if a thousand would not: a single checkpoint varies by ``s`` however many others there are.

    Args:
        restarts: the statistic of each restart that there is, shape (k,).
        worsening: how much worse the one checkpoint is.
        tolerance: the worsening that is allowed, in units of the statistic.
        level: of each bound, one-sided.

    Example:
        With s = 1 and 3 to go, t(k - 1) sqrt(1 + 1 / k) has to be 3 at most: 3.37 of three restarts is not, 2.63 of four is.

        >>> restarts_to_decide([1.0, 2.0, 3.0], 0.0, 3.0)
        4
        >>> restarts_to_decide([1.0, 2.0, 3.0], 0.0, 1.5) is None
        True
    """
    from scipy.special import stdtrit

    k = np.arange(2, 1001)
    reach = stdtrit(k - 1, level) * np.std(np.asarray(restarts, dtype=np.float64), ddof=1) * np.sqrt(1 + 1 / k)
    enough = k[reach <= abs(tolerance - worsening)]
    return int(enough[0]) if len(enough) else None


@dataclass(frozen=True)
class _Line:
    """A distance near a value, continued in a line beyond neutral.

    Attributes:
        height: the distance of the value.
        slope: 1 or -1.
        bends: whether the side of neutral on which the value lies is in doubt.
    """

    height: float
    slope: float
    bends: bool

    @classmethod
    def at(cls, middle: float, reach: float, distance: Distance) -> _Line:
        """Look at the distance of a value, and at what its error may make of it."""
        reach = max(reach, 1e-9 * max(1.0, abs(middle)))
        low, height, high = distance(middle + reach * np.array([-1.0, 0.0, 1.0]))
        return cls(float(height), 1.0 if high >= low else -1.0, bool((low + high) / 2 - height > 1e-6 * reach))


def _of_lines(
    lines: Sequence[_Line], values: tuple[float, float], bounds_of: Mapping[float, _BoundsOf], tolerance: float
) -> Bounds:
    """Return bounds of the worsening.

    Args:
        lines: of then and of now.
        values: the statistic then and now.
        bounds_of: makes bounds of now - then under the key 1, and of now + then under -1, which may have other errors.
        tolerance: the worsening that is allowed.
    """
    (then, now), (before, after) = lines, values
    sign = then.slope * now.slope
    bounds = bounds_of[sign](now.height - then.height, tolerance)
    if not (then.bends or now.bends):
        return bounds
    change = bounds_of[1.0](after - before, 0.0)
    apart = bounds_of[-sign](now.height + then.height, tolerance)
    return folded(bounds, change, apart, then.bends, now.bends)


def _student(error: float, freedom: float, level: float, value: float, tolerance: float) -> Bounds:
    from scipy.special import stdtr

    reach = _quantile(level, freedom) * error
    p, p_better = (float(stdtr(freedom, (tolerance - worse) / error)) for worse in (value, -value))
    return value - reach, value + reach, p, p_better


@lru_cache(maxsize=1024)
def _quantile(level: float, freedom: float) -> float:
    """Return a quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, level))


def compare_crossed(
    then: Sequence[ItemSums],
    now: Sequence[ItemSums],
    distance: Distance,
    tolerance: float = 0.0,
    level: float = 0.95,
) -> Difference:
    """Return how much worse restarts are than those of another training, with bounds for other seeds and other units of the same kind.

    Every restart is scored on the same units: restarts are crossed with units. The variance of the difference of the two means is

        V = V(restarts then) + V(restarts now) + V(units, paired) - V(rest)

    where V(restarts) is the variance of a side's values over their number, V(units) that of the mean difference of each unit, and
    V(rest), which both contain, comes from what is left of single cells (Cameron, Gelbach and Miller 2011, section 2.2, with the cells as
    Searle, Casella and McCulloch 1992, Variance Components, have them in section 4.7: unbiased for independent effects). V is never
    below the larger of the first two parts. The degrees of freedom are Satterthwaite's (1946).

    Args:
        then: sums of each restart of the baseline, two or more, with the same units.
        now: the same of what is held against it.
        distance: as :func:`compare_with_restarts`.
        tolerance: as there.
        level: of each bound, one-sided.

    Returns:
        The worsening, distance(mean of now) - distance(mean of then). ``items`` is the number of units.

    Raises:
        UndefinedError: fewer than two restarts on a side, other units in a restart, fewer than five units, a statistic that is not smooth
            or has no value, or no restart and no unit that differs.

    Example:
        Two restarts then, all 0, and two now: each unit has its own worsening 1, 2, 3, 4, 5, and the second restart has .2 more. The mean is
        3.1. V(units) = 2.5 / 5, V(restarts) = .02 / 2, and nothing is left.

        >>> from pytest_genderbias.statistics.inference.item_sums import mean_sums
        >>> def side(*rows):
        ...     return [mean_sums(np.array(list("abcde")), np.array(row), np.ones(5), "letters") for row in rows]
        >>> nothing, worse = np.zeros(5), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
        >>> difference = compare_crossed(side(nothing, nothing), side(worse, worse + 0.2), lambda v: v)
        >>> round(difference.value, 3), round(difference.high - difference.value, 3)
        (3.1, 1.506)

        That is t with 4.16 degrees, 2.109, times the square root of .51.
    """
    before, after = _Side.of(then), _Side.of(now)
    lines = [_Line.at(side.value, side.reach(level), distance) for side in (before, after)]
    parts = _parts_by_sign(before, after)
    bounds_of = {sign: partial(_student, part.variance**0.5, part.freedom, level) for sign, part in parts.items()}
    bounds = _of_lines(lines, (before.value, after.value), bounds_of, tolerance)
    changes, moved = unit_changes(before.mean_sums, after.mean_sums, distance)
    used = parts[lines[0].slope * lines[1].slope]
    method = _CROSSED.format(over=after.over, freedom=used.freedom, share=used.share_of_restarts)
    over = f"restarts and {after.over}"
    value = lines[1].height - lines[0].height
    return Difference(value, *bounds, len(changes), int(moved.sum()), method, over, changes, before.labels)


def _parts_by_sign(before: _Side, after: _Side) -> dict[float, _Parts]:
    """Return the parts of the variance of a difference and of a sum; errors as :func:`compare_crossed`."""
    if not np.array_equal(before.labels, after.labels) or before.over != after.over:
        raise UndefinedError(f"the two do not have the same {after.over}")
    parts = {sign: _Parts.of(before, after, sign) for sign in (1.0, -1.0)}
    largest = max(1.0, *(float(np.abs(side.values).max()) for side in (before, after)))
    if min(part.variance for part in parts.values()) <= (_NOTHING * largest) ** 2:
        raise UndefinedError("no restart and no unit differs from the others")
    return parts


@dataclass(frozen=True, eq=False)
class _Side:
    """The restarts of one training on the same units.

    Attributes:
        mean_sums: the sums of each unit, mean over restarts.
        values: the statistic of each restart, shape (k,).
        influences: how much each unit moves the statistic of each restart, in units of the statistic, mean 0 over units, shape (k, G).
    """

    mean_sums: ItemSums
    values: FloatArray
    influences: FloatArray

    @classmethod
    def of(cls, restarts: Sequence[ItemSums]) -> _Side:
        """Leave out one unit of each restart at a time (Efron 1982, section 3.1)."""
        rows = [sums.by_unit() for sums in restarts]
        if len(rows) < 2:
            raise UndefinedError("one restart says nothing of others; two on each side are needed, five are better")
        first = rows[0]
        if not all(np.array_equal(first.labels, other.labels) and first.columns == other.columns for other in rows):
            raise UndefinedError(f"the restarts do not have the same {first.over}")
        if len(first.labels) < _FEWEST_ITEMS:
            raise UndefinedError(f"{len(first.labels)} {first.over} say nothing of others, {_FEWEST_ITEMS} are needed")
        if not first.smooth:
            raise UndefinedError("a count of tests has no influences of units")
        sums = np.stack([one.sums for one in rows]).astype(np.float64)
        totals = sums.sum(axis=1, keepdims=True)
        values = np.asarray(first.value(totals[:, 0]), dtype=np.float64)
        without = np.asarray(first.value(totals - sums), dtype=np.float64)
        if not (np.isfinite(values).all() and np.isfinite(without).all()):
            raise UndefinedError("the statistic has no value in one of the restarts, or without one of its units")
        influences = (sums.shape[1] - 1) * (without.mean(axis=1, keepdims=True) - without)
        return cls(replace(first, sums=sums.mean(axis=0)), values, influences)

    @property
    def labels(self) -> np.ndarray[tuple[int, ...], np.dtype[np.str_]]:
        """Names of the units, shape (G,)."""
        return self.mean_sums.labels

    @property
    def over(self) -> str:
        """What a unit is, in the plural."""
        return self.mean_sums.over

    @property
    def value(self) -> float:
        """The mean over restarts."""
        return float(self.values.mean())

    @property
    def of_units(self) -> FloatArray:
        """How much each unit moves the mean over restarts, shape (G,)."""
        return np.asarray(self.influences.mean(axis=0), dtype=np.float64)

    @property
    def over_restarts(self) -> float:
        """The variance of the mean over other restarts, on these units."""
        return float(self.values.var(ddof=1)) / len(self.values)

    @property
    def rest(self) -> float:
        """The part of the variance that comes from single cells."""
        k, units = self.influences.shape
        return float(np.square(self.influences - self.of_units).sum() / ((k - 1) * (units - 1) * k * units))

    def reach(self, level: float) -> float:
        """Return how far from the mean over restarts that of others, with other units, may lie on either side."""
        parts = _Parts(
            _variance_of_mean(self.of_units), (self.over_restarts,), self.rest, (len(self.values),), len(self.labels)
        )
        return _quantile((1 + level) / 2, parts.freedom) * parts.variance**0.5 if parts.variance > 0 else 0.0


@dataclass(frozen=True)
class _Parts:
    """A variance over restarts and units, in its parts: units, restarts of each side, and what both of them contain."""

    units: float
    restarts: tuple[float, ...]
    rest: float
    counts: tuple[int, ...]
    n_units: int

    @classmethod
    def of(cls, before: _Side, after: _Side, sign: float) -> _Parts:
        """Return the parts of now - then for the sign 1, of now + then for -1."""
        units = _variance_of_mean(after.of_units - sign * before.of_units)
        counts = tuple(len(side.values) for side in (before, after))
        restarts = before.over_restarts, after.over_restarts
        return cls(units, restarts, before.rest + after.rest, counts, len(after.labels))

    @property
    def variance(self) -> float:
        """The variance over both, never below that over one of them."""
        restarts = sum(self.restarts)
        return max(self.units + restarts - self.rest, self.units, restarts)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the variance (Satterthwaite 1946)."""
        spread = self.units**2 / (self.n_units - 1)
        spread += sum(part**2 / (n - 1) for part, n in zip(self.restarts, self.counts, strict=True))
        return float(self.variance**2 / spread)

    @property
    def share_of_restarts(self) -> float:
        """The share of the variance over restarts in the sum of both."""
        return sum(self.restarts) / (sum(self.restarts) + self.units)


def _variance_of_mean(influences: FloatArray) -> float:
    """Return the variance of a mean from the influences of its units, shape (G,)."""
    return float(influences.var(ddof=1)) / len(influences)
