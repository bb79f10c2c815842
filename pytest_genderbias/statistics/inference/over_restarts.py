"""Comparison over restarts of a training: one checkpoint with several restarts, and several with several on crossed
items.

``docs/evidence/coverage-restarts.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/inference/test_restarts.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.gap_rms import signed_root
from pytest_genderbias.statistics.inference.intervals import Bounds, t_bounds, t_quantile
from pytest_genderbias.statistics.inference.item_bounds import fewest_items
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.paired import Difference, Distance, folded, is_higher, unit_changes
from pytest_genderbias.statistics.inference.two_way import as_it_is

MOST_PRIOR_FREEDOM = 8.0  #: more are never believed: other trainings are not this one
#: Degrees of freedom of a spread that may be too small, or too large, by a factor of 2
#: (docs/evidence/coverage-restarts.md).
PRIOR_FREEDOM = 1.5


@dataclass(frozen=True)
class Prior:
    """Prior knowledge of the spread of a statistic over restarts, before any restart is seen.

    Attributes:
        spread: standard deviation of a restart, in units of the statistic, above 0.
        freedom: how many degrees of freedom it is worth, 0 to 8; more count as 8.
    """

    spread: float
    freedom: float = PRIOR_FREEDOM


def moderated_variance(
    variance: float, freedom: float, prior_variance: float, prior_freedom: float
) -> tuple[float, float]:
    """Return a variance that borrows from a prior one, with its degrees of freedom (Smyth 2004, section 4, equation 4).

    It is the mean of the two variances, weighted by their degrees of freedom. If the true variances of trainings are
    distributed as the prior says, the difference of two means divided by its moderated error follows Student's t with
    the sum of the degrees of freedom.

    Args:
        variance: the estimate, in squared units of the statistic, 0 or more.
        freedom: its degrees of freedom, 0 or more; with 0 the estimate is ignored.
        prior_variance: the variance of other trainings, in the same units.
        prior_freedom: its degrees of freedom; more than 8 count as 8.

    Returns:
        Variance and degrees of freedom.

    Raises:
        ValueError: neither has a degree of freedom, or one is negative.

    Example:
        A variance of 9 from three restarts, and a prior of 1 that is worth two more degrees: (2 x 9 + 2 x 1) / 4.

        >>> moderated_variance(9.0, 2, 1.0, 2)
        (5.0, 4.0)
    """
    borrowed = min(prior_freedom, MOST_PRIOR_FREEDOM)
    total = freedom + borrowed
    if min(freedom, borrowed) < 0 or total <= 0:
        raise ValueError("expected degrees of freedom of 0 or more, and one above 0")
    return (freedom * variance + borrowed * prior_variance) / total, float(total)


_FEWEST_ITEMS = 5  #: as of other comparisons
_NOTHING = 1e-12  #: relative to the size of the values
_AT_NEUTRAL = float(np.pi / 2) ** 0.5  #: see :func:`_squared_prior`
_SAME = "the same in every restart"
_RESTARTS = "restarts"  #: what varies between the bounds
_PREDICTION = "prediction bound of one more restart"
_WELCH = "Welch's t over restarts"
_STUDENT = "Student's t over the differences of restarts, seed by seed"
_MODERATED = ", their spread moderated by that of other trainings"
_ON_SQUARES = ", on the squares"
_CROSSED = (
    "two-way error of restarts and {over}, Student's t with {freedom:.3g} degrees; {share:.0%} of the variance from"
    " restarts"
)
_NO_SPREAD = (
    "the restarts of a side do not differ, so that it is not known how far others lie; more restarts are needed, or a"
    " suite with more items"
)

_BoundsOf = Callable[..., Bounds]  #: makes bounds and p values of a difference, given the ``tolerance``
Restarts: TypeAlias = Sequence[ItemSums]  #: the sums of each restart of a training, with the same units
_Sides: TypeAlias = tuple[FloatArray, FloatArray]  #: the values of then and of now


def compare_restarts(
    then: ArrayLike,
    now: ArrayLike,
    distance: Distance,
    tolerance: float = 0.0,
    level: float = 0.95,
    prior: Prior | None = None,
    root: bool = False,
    *,
    paired: bool = False,
) -> Difference:
    """Return how much worse restarts of a training, or one checkpoint, are than others, with bounds for other seeds.

    The worsening is that of the mean over restarts: distance(mean of now) - distance(mean of then).

    Several restarts on both sides have Welch's t (1947). If one side is one checkpoint, the question is whether it lies
    outside what the training gives when it is repeated. One more restart lies within t(k - 1) s sqrt(1 + 1 / k) of the
    mean of k others, with the given probability on each side: a prediction bound (Hahn and Meeker 1991, Statistical
    Intervals, section 4.7; Student's t for the difference of a group of one and one of k, with the spread of the k).
    With a prior, s and its degrees of freedom are those of :func:`moderated_variance`.

    If the side of neutral on which a mean lies is in doubt, the bounds hold for either side, as in
    :func:`~pytest_genderbias.statistics.inference.paired.compare_items`. They do not cover other examples or units.

    Args:
        then: the statistic of each restart of the baseline, shape (n,), or of one checkpoint, shape (1,).
        now: the same of what is held against it, shape (m,).
        distance: how bad a value of the statistic is, larger is worse; from shape (...) to (...). Convex, and piecewise
            linear with a slope of 1.
        tolerance: the worsening that is allowed, 0 or more, in units of the statistic.
        level: of each bound, one-sided.
        prior: the spread of a restart as other trainings have it. One value on each side is enough then.
        root: whether the statistic is the signed root of a mean square, higher is worse. The squares are compared then,
            on which errors are about normal and means are unbiased; value and bounds are differences of roots.
        paired: restarts with the same seed, data order and first weights stand at the same place on both sides, and
            their differences are compared (Student 1908): what a seed does to both of them cancels. ``prior`` and
            ``root`` do not apply then.

    Where all pairs differ alike, p is that of the sign test, and the bounds are the difference itself.

    Returns:
        The worsening. ``items`` is the number of restarts now, or on the side that has several.

    Raises:
        UndefinedError: neither side has two values (one of them, if they are paired), a side has none, no restart
            differs from the others of its side (five or six pairs, where all differ alike), or a value is no finite
            number.
        ValueError: the sides are paired and not equally long.

    Example:
        Restarts 1, 2 and 3 have the mean 2 and s = 1. The fourth may lie 2.92 sqrt(4 / 3) = 3.372 above the mean.

        >>> difference = compare_restarts([1.0, 2.0, 3.0], [6.0], lambda v: v)
        >>> difference.value, round(difference.low, 3), round(difference.p, 4)
        (4.0, 0.628, 0.0371)

        Other trainings also have s = 1, which is worth two more degrees: 2.132 sqrt(4 / 3) = 2.462.

        >>> difference = compare_restarts([1.0, 2.0, 3.0], [6.0], lambda v: v, prior=Prior(1.0, 2.0))
        >>> round(difference.low, 3)
        1.538

        Means 2 and 5, errors 1 / sqrt(3) each: t = 3 / .8165 = 3.674 with four degrees of freedom.

        >>> difference = compare_restarts([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], lambda v: v)
        >>> difference.value, round(difference.low, 3), round(difference.p, 4)
        (3.0, 1.259, 0.0107)

        Seed by seed the differences are 3, 4 and 2: t = 3 / (1 / sqrt(3)) = 5.196 with two degrees of freedom.

        >>> difference = compare_restarts([1.0, 2.0, 3.0], [4.0, 6.0, 5.0], lambda v: v, paired=True)
        >>> difference.value, round(difference.low, 3), round(difference.p, 4)
        (3.0, 1.314, 0.0175)
    """
    sides = np.asarray(then, dtype=np.float64), np.asarray(now, dtype=np.float64)
    if not all(np.isfinite(values).all() for values in sides):
        raise UndefinedError("the statistic has no value in one of the restarts")
    if min(map(len, sides)) < (2 if paired else 1):
        raise UndefinedError("one restart says nothing of others; two on each side are needed, five are better")
    if not paired:
        return _compare(sides, distance, tolerance, level, prior, root)
    if len(sides[0]) != len(sides[1]):
        raise ValueError("expected as many restarts on either side, in the order of the same seeds")
    return _compare_seed_by_seed(sides, distance, tolerance, level)


def _compare(
    sides: _Sides, distance: Distance, tolerance: float, level: float, prior: Prior | None, root: bool
) -> Difference:
    """Compare the means of independent restarts; arguments as :func:`compare_restarts`."""
    before, after = (float(values.mean()) for values in sides)
    nothing, is_alone = _nothing(sides), min(map(len, sides)) == 1
    items = max(map(len, sides)) if is_alone else len(sides[1])
    if abs(after - before) <= nothing and all(np.ptp(values) <= nothing for values in sides):
        return Difference(0.0, 0.0, 0.0, 1.0, 1.0, items, 0, _SAME, _RESTARTS)
    if root and is_higher(distance):
        return _on_squares(sides, tolerance, level, prior)
    of_means, error, freedom = _errors(sides, prior)
    if error <= nothing:
        raise UndefinedError(_NO_SPREAD)
    reaches = [t_quantile((1 + level) / 2, freedom_of_mean) * reach for reach, freedom_of_mean in of_means]
    bounds_of = dict.fromkeys((1.0, -1.0), partial(t_bounds, error=error, freedom=freedom, level=level))
    value, bounds, _ = _of_lines((before, after), reaches, distance, bounds_of, tolerance)
    method = (_PREDICTION if is_alone else _WELCH) + ("" if prior is None else _MODERATED)
    moved = 0 if len(sides[1]) == 1 and abs(after - before) <= nothing else 1 if is_alone else items
    return Difference(value, *bounds, items, moved, method, _RESTARTS)


def _nothing(sides: _Sides) -> float:
    """Return a difference that is rounding."""
    return _NOTHING * max(1.0, *(float(np.abs(values).max()) for values in sides))


def _errors(sides: _Sides, prior: Prior | None) -> tuple[list[tuple[float, float]], float, float]:
    """Return the standard error of the mean of each side with its degrees of freedom, and the error of the difference
    (or the sum) of the means with its degrees of freedom.

    A side of one value has the spread of the other: it is one more restart of the same training.
    """
    several = [values for values in sides if len(values) > 1] or [sides[0]]
    spreads = [_spread(values, prior) for values in several]
    squares = [variance / len(values) for values, (variance, _) in zip(sides, 2 * spreads, strict=False)]
    freedoms = [freedom for _, freedom in 2 * spreads][:2]
    of_means = [(square**0.5, freedom) for square, freedom in zip(squares, freedoms, strict=True)]
    together = spreads[0][1] if len(several) == 1 else _satterthwaite(squares, freedoms, several, prior)
    return of_means, sum(squares) ** 0.5, together


def _spread(values: FloatArray, prior: Prior | None) -> tuple[float, float]:
    """Return the variance of restarts with its degrees of freedom; errors as :func:`compare_restarts`."""
    if prior is None and len(values) < 2:
        raise UndefinedError("one restart says nothing of others; two on one side are needed, five are better")
    known = prior or Prior(0.0, 0.0)
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    return moderated_variance(variance, len(values) - 1, known.spread**2, known.freedom)


def _satterthwaite(
    squares: Sequence[float], freedoms: Sequence[float], several: Sequence[FloatArray], prior: Prior | None
) -> float:
    """Return the degrees of freedom of the sum of two squared errors, in which the prior counts once (Satterthwaite
    1946).
    """
    spread = sum(square**2 / freedom for square, freedom in zip(squares, freedoms, strict=True))
    borrowed = 0.0 if prior is None else freedoms[0] - len(several[0]) + 1
    most = sum(len(values) - 1 for values in several) + borrowed
    return float(min(most, sum(squares) ** 2 / spread)) if spread else float(most)


def _on_squares(sides: _Sides, tolerance: float, level: float, prior: Prior | None) -> Difference:
    """Compare signed roots by their signed squares, and return value and bounds as differences of roots.

    A bound of the change of squares is added to the mean square of then, or taken from that of now where then is one
    checkpoint.
    """
    squares = sides[0] * np.abs(sides[0]), sides[1] * np.abs(sides[1])
    before, after = (float(values.mean()) for values in squares)
    change = after - before
    from_now = len(sides[0]) < len(sides[1])

    def rooted(change: float) -> float:
        ends = (after - change, after) if from_now else (before, before + change)
        return float(signed_root(ends[1]) - signed_root(ends[0]))

    def squared(worsening: float) -> float:
        at = signed_root(after) - worsening if from_now else signed_root(before) + worsening
        return float(after - at * abs(at) if from_now else at * abs(at) - before)

    known = prior and _squared_prior(prior, float(signed_root(max(squares, key=len).mean())))
    found, better = (
        _compare(squares, as_it_is, allowed, level, known, False)
        for allowed in (squared(tolerance), -squared(-tolerance))
    )
    value, low, high = map(rooted, (change, found.low, found.high))
    method = found.method + _ON_SQUARES
    return replace(found, value=value, low=low, high=high, p_better=better.p_better, method=method)


def _squared_prior(prior: Prior, value: float) -> Prior:
    """Return the prior spread of the signed square of a root near ``value``.

    Far from 0 it is 2 |value| times that of the root. At 0 a root with the standard deviation s has a square with
    sqrt(pi / 2) s^2: the variance of the root is the mean size of the square.
    """
    ends = value + _AT_NEUTRAL * prior.spread * np.array([-1.0, 1.0])
    return replace(prior, spread=float(np.diff(ends * np.abs(ends))[0]) / (2 * _AT_NEUTRAL))


def _compare_seed_by_seed(sides: _Sides, distance: Distance, tolerance: float, level: float) -> Difference:
    """Compare restarts with the same seeds by their differences."""
    before, after = (float(values.mean()) for values in sides)
    nothing = _nothing(sides)
    if float(np.abs(sides[1] - sides[0]).max()) <= nothing:
        return Difference(0.0, 0.0, 0.0, 1.0, 1.0, len(sides[1]), 0, _SAME, _RESTARTS)
    n = len(sides[0])
    reaches = [t_quantile((1 + level) / 2, n - 1) * float(values.std(ddof=1)) / n**0.5 for values in sides]
    bounds_of = {sign: partial(_paired, sides[1] - sign * sides[0], nothing, level) for sign in (1.0, -1.0)}
    value, bounds, _ = _of_lines((before, after), reaches, distance, bounds_of, tolerance)
    moved = int((np.abs(sides[1] - sides[0]) > nothing).sum())
    return Difference(value, *bounds, n, moved, _STUDENT, _RESTARTS)


def _paired(own: FloatArray, nothing: float, level: float, value: float, tolerance: float) -> Bounds:
    """Return bounds and p values of a worsening, from the differences of pairs, or their sums, shape (n,).

    Where all of them are the same (counts of few steps) there is no error to divide by: p is that of the sign test, and
    the bounds are the difference itself, if there are so many that chance would hardly move all of them the same way.
    """
    n = len(own)
    error = float(own.std(ddof=1)) / n**0.5
    if error > nothing:
        return t_bounds(value, error, n - 1, tolerance, level)
    chance = 0.5**n
    if chance > 1 - level and abs(value) > nothing:
        needed = fewest_items(level)
        raise UndefinedError(f"{n} restarts that all moved alike say too little of others; {needed} or more are needed")
    return value, value, chance if value > tolerance else 1.0, chance if value < -tolerance else 1.0


def next_restart(restarts: ArrayLike, prior: Prior | None = None, root: bool = False) -> tuple[float, float, float]:
    """Return what one more restart is expected to give: mean, error and degrees of freedom of the Student's t that it
    follows.

    Args:
        restarts: the statistic of each restart, shape (k,), two or more; with a prior one or more.
        prior: as in :func:`compare_restarts`.
        root: whether the statistic is a signed root. What is returned holds for the signed square then.

    Raises:
        UndefinedError: there is one restart, and no prior.

    >>> next_restart([1.0, 2.0, 3.0])[1] ** 2
    1.3333333333333333
    """
    values = np.asarray(restarts, dtype=np.float64)
    if root:
        values = values * np.abs(values)
        prior = prior and _squared_prior(prior, float(signed_root(values.mean())))
    variance, freedom = _spread(values, prior)
    return float(values.mean()), (variance * (1 + 1 / len(values))) ** 0.5, freedom


def prediction_bounds(
    restarts: ArrayLike, level: float = 0.95, prior: Prior | None = None, root: bool = False
) -> tuple[float, float]:
    """Return the bounds of one more restart: mean -+ t(k - 1) s sqrt(1 + 1 / k), each one-sided (Hahn and Meeker 1991,
    section 4.7).

    Args:
        restarts: the statistic of each restart, shape (k,), two or more; with a prior one or more.
        level: of each bound.
        prior: as in :func:`compare_restarts`.
        root: as there.

    >>> low, high = prediction_bounds([1.0, 2.0, 3.0])
    >>> round(low, 3), round(high, 3)
    (-1.372, 5.372)
    """
    middle, error, freedom = next_restart(restarts, prior, root)
    reach = t_quantile(level, freedom) * error
    bounds = middle + reach * np.array([-1.0, 1.0])
    low, high = (signed_root(bounds) if root else bounds).tolist()
    return low, high


def restarts_to_decide(
    restarts: ArrayLike, worsening: float, tolerance: float, level: float = 0.95, prior: Prior | None = None
) -> int | None:
    """Return how many restarts would decide about one checkpoint, if it, their mean and their spread stay as they are.

    ``None`` if a thousand would not: a single checkpoint varies by ``s`` however many others there are.

    Args:
        restarts: the statistic of each restart that there is, shape (k,).
        worsening: how much worse the one checkpoint is.
        tolerance: the worsening that is allowed, in units of the statistic.
        level: of each bound, one-sided.
        prior: as in :func:`compare_restarts`.

    Example:
        With s = 1 and 3 to go, t(k - 1) sqrt(1 + 1 / k) has to be 3 at most: 3.37 of three restarts is not, 2.63 of
        four is.

        >>> restarts_to_decide([1.0, 2.0, 3.0], 0.0, 3.0)
        4
        >>> restarts_to_decide([1.0, 2.0, 3.0], 0.0, 1.5) is None
        True
    """
    from scipy.special import stdtrit

    k, seen = np.arange(2, 1001), float(np.var(np.asarray(restarts, dtype=np.float64), ddof=1))
    known = prior or Prior(0.0, 0.0)
    spreads = [moderated_variance(seen, n - 1, known.spread**2, known.freedom) for n in k.tolist()]
    variances, freedoms = np.array(spreads).T
    reach = stdtrit(freedoms, level) * np.sqrt(variances * (1 + 1 / k))
    enough = k[reach <= abs(tolerance - worsening)]
    return int(enough[0]) if len(enough) else None


def _of_lines(
    values: tuple[float, float],
    reaches: Sequence[float],
    distance: Distance,
    bounds_of: Mapping[float, _BoundsOf],
    tolerance: float,
) -> tuple[float, Bounds, float]:
    """Return the worsening, its bounds, and whether it is of now - then (1) or of now + then (-1).

    Args:
        values: the statistic then and now.
        reaches: what the error of each may make of it.
        distance: how bad a value is; near each value, a line that is continued beyond neutral.
        bounds_of: makes bounds of now - then under the key 1, and of now + then under -1, which may have other errors.
        tolerance: the worsening that is allowed.
    """
    (then, then_slope, then_bends), (now, now_slope, now_bends) = (
        _line(middle, reach, distance) for middle, reach in zip(values, reaches, strict=True)
    )
    sign = then_slope * now_slope
    bounds = bounds_of[sign](now - then, tolerance=tolerance)
    if then_bends or now_bends:
        change = bounds_of[1.0](values[1] - values[0], tolerance=0.0)
        apart = bounds_of[-sign](now + then, tolerance=tolerance)
        bounds = folded(bounds, change, apart, then_bends, now_bends)
    return now - then, bounds, sign


def _line(middle: float, reach: float, distance: Distance) -> tuple[float, float, bool]:
    """Return the distance of a value, its slope there, 1 or -1, and whether the side of neutral on which the value lies
    is in doubt.
    """
    reach = max(reach, 1e-9 * max(1.0, abs(middle)))
    low, height, high = distance(middle + reach * np.array([-1.0, 0.0, 1.0]))
    return float(height), 1.0 if high >= low else -1.0, bool((low + high) / 2 - height > 1e-6 * reach)


def compare_crossed(
    then: Restarts,
    now: Restarts,
    distance: Distance,
    tolerance: float = 0.0,
    level: float = 0.95,
    prior: Prior | None = None,
) -> Difference:
    """Return how much worse restarts are than those of another training, with bounds for other seeds and other units of
    the same kind.

    Every restart is scored on the same units: restarts are crossed with units. The variance of the difference of the
    two means is

        V = V(restarts then) + V(restarts now) + V(units, paired) - V(rest)

    where V(restarts) is the variance of a side's values over their number, V(units) that of the mean difference of each
    unit, or of each cluster of units unless the clusters are all that there are, and V(rest), which both contain, comes
    from what is left of single cells (Cameron, Gelbach and Miller 2011, section 2.2, with the cells as Searle, Casella
    and McCulloch 1992, Variance Components, have them in section 4.7: unbiased for independent effects). V is never
    below the larger of the first two parts. The degrees of freedom are Satterthwaite's (1946).

    Args:
        then: sums of each restart of the baseline, two or more, with the same units.
        now: the same of what is held against it; its clusters count.
        distance: as :func:`compare_restarts`.
        tolerance: as there.
        level: of each bound, one-sided.
        prior: as there: the spread of a restart on these units, with which V(restarts) is moderated.

    Returns:
        The worsening, distance(mean of now) - distance(mean of then). ``items`` is the number of units.

    Raises:
        UndefinedError: fewer than two restarts on a side, other units in a restart, fewer than five units or clusters,
            a statistic that is not smooth or has no value, or no restart and no unit that differs.

    Example:
        Two restarts then, all 0, and two now: each unit has its own worsening 1, 2, 3, 4, 5, and the second restart has
            .2 more. The mean is
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
    before, after = (_Side.of(_in_clusters_of(now[0], side), prior) for side in (then, now))
    errors = _errors_by_sign(before, after, prior)
    bounds_of = {
        sign: partial(t_bounds, error=error, freedom=freedom, level=level)
        for sign, (error, freedom, _) in errors.items()
    }
    reaches = [side.reach(level) for side in (before, after)]
    value, bounds, sign = _of_lines((before.value, after.value), reaches, distance, bounds_of, tolerance)
    changes, moved = unit_changes(before.mean_sums, after.mean_sums, distance)
    _, freedom, share = errors[sign]
    method = _CROSSED.format(over=after.over, freedom=freedom, share=share) + ("" if prior is None else _MODERATED)
    over, labels = f"restarts and {after.over}", before.mean_sums.labels
    found = Difference(value, *bounds, len(changes), int(moved.sum()), method, over, changes, labels)
    return replace(found, of_then=before.mean_sums.by_itself(), of_now=after.mean_sums.by_itself())


def _in_clusters_of(now: ItemSums, restarts: Restarts) -> list[ItemSums]:
    """Return restarts with the clusters of ``now``; with none where these are all that there are."""
    clusters = () if now.clusters is None or now.complete else now.clusters.tolist()
    of_units = dict(zip(now.labels.tolist(), clusters, strict=False))
    return [replace(one, clusters=None).in_clusters(of_units) for one in restarts]


def _errors_by_sign(before: _Side, after: _Side, prior: Prior | None) -> dict[float, tuple[float, float, float]]:
    """Return the standard error of now - then under the key 1, and of now + then under -1: with its degrees of freedom,
    and the share of the variance over restarts; errors as :func:`compare_crossed`.
    """
    if not np.array_equal(before.mean_sums.labels, after.mean_sums.labels) or before.over != after.over:
        raise UndefinedError(f"the two do not have the same {after.over}")
    restarts, freedoms = (before.over_restarts, after.over_restarts), (before.freedom, after.freedom)
    freedom, found = _satterthwaite(restarts, freedoms, (before.values, after.values), prior), {}
    largest = max(1.0, *(float(np.abs(side.values).max()) for side in (before, after)))
    for sign in (1.0, -1.0):
        units = _variance_of_mean(after.of_units - sign * before.of_units)
        parts = units, sum(restarts), before.rest + after.rest
        variance, together = _crossed_variance(*parts, after.influences.shape[1], freedom)
        if variance <= (_NOTHING * largest) ** 2:
            raise UndefinedError("no restart and no unit differs from the others")
        found[sign] = variance**0.5, together, sum(restarts) / (sum(restarts) + units)
    return found


def _crossed_variance(
    units: float, restarts: float, rest: float, n_units: int, freedom_of_restarts: float
) -> tuple[float, float]:
    """Return a variance over restarts and units, never below that over one of them, with its degrees of freedom
    (Satterthwaite 1946). ``rest`` is what both of these contain.
    """
    variance = max(units + restarts - rest, units, restarts)
    spread = units**2 / (n_units - 1) + restarts**2 / freedom_of_restarts
    return variance, float(variance**2 / spread) if spread > 0 else np.inf


@dataclass(frozen=True, eq=False)
class _Side:
    """The restarts of one training on the same units.

    Attributes:
        mean_sums: the sums of each unit, mean over restarts.
        over: what was sampled: units, or clusters of units, in the plural.
        values: the statistic of each restart, shape (k,).
        influences: how much each unit or cluster moves the statistic of each restart, in units of the statistic, mean 0
            over units, shape (k, G).
        over_restarts: the variance of the mean over other restarts, on these units.
        freedom: its degrees of freedom.
    """

    mean_sums: ItemSums
    over: str
    values: FloatArray
    influences: FloatArray
    over_restarts: float
    freedom: float

    @classmethod
    def of(cls, restarts: Restarts, prior: Prior | None) -> _Side:
        """Leave out one unit, or cluster of units, of each restart at a time (Efron 1982, section 3.1)."""
        rows = [sums.by_unit() for sums in restarts]
        if len(rows) < 2:
            raise UndefinedError("one restart says nothing of others; two on each side are needed, five are better")
        first = rows[0]
        if not all(np.array_equal(first.labels, other.labels) and first.columns == other.columns for other in rows):
            raise UndefinedError(f"the restarts do not have the same {first.over}")
        sampled = [one.by_cluster() for one in rows]
        over, n = sampled[0].over, len(sampled[0].labels)
        if n < _FEWEST_ITEMS:
            raise UndefinedError(f"{n} {over} say nothing of others, {_FEWEST_ITEMS} are needed")
        if not first.smooth:
            raise UndefinedError("a count of tests has no influences of units")
        sums = np.stack([one.sums for one in sampled]).astype(np.float64)
        totals = sums.sum(axis=1, keepdims=True)
        values = np.asarray(first.value(totals[:, 0]), dtype=np.float64)
        without = np.asarray(first.value(totals - sums), dtype=np.float64)
        if not (np.isfinite(values).all() and np.isfinite(without).all()):
            raise UndefinedError("the statistic has no value in one of the restarts, or without one of its units")
        influences = (n - 1) * (without.mean(axis=1, keepdims=True) - without)
        variance, freedom = _spread(values, prior)
        mean_sums = replace(first, sums=np.mean([one.sums for one in rows], axis=0, dtype=np.float64))
        return cls(mean_sums, over, values, influences, variance / len(values), freedom)

    @property
    def value(self) -> float:
        """The mean over restarts."""
        return float(self.values.mean())

    @property
    def of_units(self) -> FloatArray:
        """How much each unit moves the mean over restarts, shape (G,)."""
        return np.asarray(self.influences.mean(axis=0), dtype=np.float64)

    @property
    def rest(self) -> float:
        """The part of the variance that comes from single cells."""
        k, units = self.influences.shape
        return float(np.square(self.influences - self.of_units).sum() / ((k - 1) * (units - 1) * k * units))

    def reach(self, level: float) -> float:
        """Return how far from the mean over restarts that of others, with other units, may lie on either side."""
        parts = _variance_of_mean(self.of_units), self.over_restarts, self.rest
        variance, freedom = _crossed_variance(*parts, self.influences.shape[1], self.freedom)
        return t_quantile((1 + level) / 2, freedom) * float(variance**0.5)


def _variance_of_mean(influences: FloatArray) -> float:
    """Return the variance of a mean from the influences of its units, shape (G,)."""
    return float(influences.var(ddof=1)) / len(influences)
