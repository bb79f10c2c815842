"""The root mean square of gaps between two groups in the rates of a classifier, without what chance adds to it.

A sum of absolute gaps grows with the errors of the rates, and these grow with the mistakes of the classifier: of two
classifiers without any bias the less accurate one has the larger sum. The square of a gap is too large by the variance
of the gap, which is known; what is left is unbiased.

Its bounds, and those of its change between two models, are for other cases of the same classes.
``docs/evidence/coverage-gaps.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/inference/test_gap_bounds.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import Bounds, Columns, FloatArray, Interval, Parameters

_ROUNDING = 1e-14  #: a smaller mean square is rounding, and its root would be a thousand million times larger
FEWEST = 2  #: cases of each group in a class, without which the variance of its gap is not known


def signed_root(squares: ArrayLike) -> FloatArray:
    """Return the root of the absolute value, with the sign of the value.

    >>> signed_root([4.0, -0.25]).tolist()
    [2.0, -0.5]
    """
    values = np.asarray(squares, dtype=np.float64)
    return np.asarray(np.copysign(np.sqrt(np.abs(values)), values), dtype=np.float64)


def rms_of_gaps(gaps: ArrayLike, variances: ArrayLike) -> FloatArray:
    """Return the signed root of the mean over classes of the squared gap minus its variance.

    The mean is unbiased for that of the squared true gaps. It is below 0 where the gaps are smaller than chance makes
    them, and so is the root.

    Args:
        gaps: the gap of each class, NaN for a class without one, shape (..., K).
        variances: the sampling variance of each, same shape.

    Returns:
        Shape (...), -1 to 1; higher is worse, 0 is neutral. NaN if no class has a gap.

    Example:
        Gaps .5 and .1 with variance .03 each: the mean of .25 - .03 and .01 - .03 is .1.

        >>> round(float(rms_of_gaps([0.5, 0.1, np.nan], [0.03, 0.03, np.nan])), 4), round(0.1**0.5, 4)
        (0.3162, 0.3162)
    """
    size, variance = np.asarray(gaps, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    there = np.isfinite(size) & np.isfinite(variance)
    squares = np.where(there, np.square(size) - variance, 0.0).sum(axis=-1)
    classes = there.sum(axis=-1)
    mean = squares / np.maximum(classes, 1)
    return np.where(classes > 0, signed_root(np.where(np.abs(mean) > _ROUNDING, mean, 0.0)), np.nan)


def gaps_and_variances(hits: ArrayLike, trials: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the gap of each class and its sampling variance, for independent cases.

    The variance of the rate r of a group with n cases is r (1 - r) / (n - 1), which is unbiased.

    Args:
        hits: numerators of the rate by group and class, shape (..., 2, K).
        trials: denominators, same shape.

    Returns:
        Each of shape (..., K); the gap is NaN for a class with fewer than two cases of a group.

    Example:
        Women: 3 of 4; men: 2 of 4. The variance is .75 x .25 / 3 + .5 x .5 / 3 = .1458.

        >>> gaps, variances = gaps_and_variances([[3], [2]], [[4], [4]])
        >>> gaps.tolist(), variances.round(4).tolist()
        ([0.25], [0.1458])
    """
    of, by = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    rates = of / np.maximum(by, 1.0)
    variances = (rates * (1 - rates) / np.maximum(by - 1, 1.0)).sum(axis=-2)
    return np.where((by >= FEWEST).all(axis=-2), rates[..., 0, :] - rates[..., 1, :], np.nan), variances


def gap_rms(gaps: ArrayLike, variances: ArrayLike) -> float:
    """Return :func:`rms_of_gaps` of one model.

    Args:
        gaps: shape (K,).
        variances: shape (K,).

    Raises:
        UndefinedError: no class has two cases of each group.

    >>> by_hand = (0.5**2 - 2 * 0.75 * 0.25 / 39) ** 0.5
    >>> round(gap_rms(*gaps_and_variances([[30], [10]], [[40], [40]])), 4), round(by_hand, 4)
    (0.4903, 0.4903)
    """
    value = float(rms_of_gaps(gaps, variances))
    if np.isnan(value):
        raise UndefinedError(f"no class has {FEWEST} cases of each group to compare")
    return value


@dataclass(frozen=True)
class UnitGaps:
    """The gaps of a model by class, and what each unit adds to their errors.

    Attributes:
        gaps: rate of the first group minus that of the second, -1 to 1; NaN for a class with fewer than two cases of a
            group. Shape (..., K).
        influences: the error of each gap that each unit adds, shape (..., U, K); 0 for a class without a gap. Units
            that err independently of each other have rows of their own. The squares of a column sum to the variance of
            the gap. The products of the columns of two models sum to the covariance of their gaps.
        unit: a size that no gap passes: 1 for rates.
    """

    gaps: FloatArray
    influences: FloatArray
    unit: float = 1.0

    @property
    def variances(self) -> FloatArray:
        """The sampling variance of each gap, shape (..., K)."""
        return np.asarray(np.square(self.influences).sum(axis=-2), dtype=np.float64)


def unit_gaps(hits: ArrayLike, trials: ArrayLike, paired: bool = False) -> UnitGaps:
    """Return the gaps of a rate, and what each unit adds to their errors.

    The errors of the rates are those of :func:`gaps_and_variances`. The units only say how the errors of two models go
    together and, with ``paired``, those of the two groups.

    Args:
        hits: numerators of the rate by unit, group and class, shape (..., U, 2, K).
        trials: denominators, same shape.
        paired: whether a unit compares the groups, as a sentence with one pronoun and with the other does. The errors
            of the groups then have a covariance. Otherwise the groups are independent, whatever units their cases are
            in.

    Returns:
        The gaps, with as many rows of influences as there are units; without ``paired`` twice as many, the first
        group's rows first.

    Example:
        Women: 3 of 4; men: 2 of 4. The variance is .75 x .25 / 3 + .5 x .5 / 3 = .1458.

        >>> hits = [[[1], [1]], [[1], [1]], [[1], [0]], [[0], [0]]]
        >>> gaps = unit_gaps(hits, np.ones((4, 2, 1)))
        >>> gaps.gaps.tolist(), gaps.variances.round(4).tolist()
        ([0.25], [0.1458])

        The same cases in pairs: the differences are 0, 0, 1 and 0, their mean has the variance .25 / 4.

        >>> unit_gaps(hits, np.ones((4, 2, 1)), paired=True).variances.round(4).tolist()
        [0.0625]
    """
    of, by = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    total = by.sum(axis=-3)
    there = (total >= FEWEST).all(axis=-2)
    rates = of.sum(axis=-3) / np.maximum(total, 1.0)
    left = of - rates[..., None, :, :] * by
    spread = np.square(left).sum(axis=-3)
    error = np.sqrt(rates * (1 - rates) / np.maximum(total - 1, 1.0))
    scale = np.where(spread > 0, error / np.sqrt(np.where(spread > 0, spread, 1.0)), 0.0)
    influences = np.where(there[..., None, None, :], left * scale[..., None, :, :], 0.0)
    gaps = np.where(there, rates[..., 0, :] - rates[..., 1, :], np.nan)
    first, second = influences[..., 0, :], influences[..., 1, :]
    return UnitGaps(gaps, first - second if paired else np.concatenate([first, -second], axis=-2))


def paired_columns(hits: ArrayLike, trials: ArrayLike) -> FloatArray:
    """Return the sums of each pair from which :func:`rms_of_paired_sums` is computed.

    Args:
        hits: numerators of the rate by pair, group and class, 0 or 1, shape (..., 2, K).
        trials: denominators, 0 or 1, same shape.

    Returns:
        By class: hits and trials of both groups, and the four products of one of the first group and one of the second.
            Shape (..., 8 K).

    >>> paired_columns([[1], [0]], [[1], [1]]).tolist()
    [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    """
    of, by = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    products = [x[..., 0, :] * y[..., 1, :] for x in (of, by) for y in (of, by)]
    parts = [of[..., 0, :], of[..., 1, :], by[..., 0, :], by[..., 1, :], *products]
    return np.concatenate(parts, axis=-1)


def rms_of_paired_sums(totals: FloatArray) -> FloatArray:
    """Return the root mean square of gaps from totals of :func:`paired_columns`, shape (..., 8 K) to (...).

    The value is that of the gaps and variances of :func:`unit_gaps` with ``paired``.

    Example:
        Differences 0, 0, 1 and 0 in four pairs: the gap is .25, and the variance of their mean .25 / 4.

        >>> hits = np.array([[[1], [1]], [[1], [1]], [[1], [0]], [[0], [0]]])
        >>> float(rms_of_paired_sums(paired_columns(hits, np.ones_like(hits)).sum(axis=0))), 0.25**2 - 0.25 / 4
        (0.0, 0.0)
    """
    parts = list(np.moveaxis(totals.reshape(*totals.shape[:-1], 8, -1), -2, 0))
    gaps, variances = gaps_and_variances(np.stack(parts[:2], axis=-2), np.stack(parts[2:4], axis=-2))
    first, second = (parts[i] / np.maximum(parts[i + 2], 1.0) for i in (0, 1))
    together = parts[4] - second * parts[5] - first * parts[6] + first * second * parts[7]
    scales = [np.maximum(n * (n - 1), 1.0) for n in parts[2:4]]
    return rms_of_gaps(gaps, variances - 2 * together / np.sqrt(scales[0] * scales[1]))


def unit_gaps_of_pairs(sums: FloatArray, parameters: Parameters, columns: Columns) -> UnitGaps:
    """Return the gaps and what each pair adds to their errors, from :func:`paired_columns` of each pair, shape (G, 8
    K).
    """
    parts = sums.reshape(len(sums), 4, 2, -1)
    return unit_gaps(parts[:, 0], parts[:, 1], paired=True)


METHOD = "profile of the squared gaps, chance taken off"
_GRID = np.linspace(-1.0, 1.0, 101)
_ROUNDS = 4  #: refinements of the grid, each to a tenth of its width or less
_PARTS = np.linspace(0.0, 1.0, 33)
_DIVISIONS = 5  #: of an interval of 2 or less into 32 parts each, to less than 1e-7
_NOTHING = 1e-13  #: a variance of squared gaps below this is rounding


@dataclass(frozen=True)
class SquaredGaps:
    """The mean squared gaps of M models without chance, and what chance moves them by.

    Attributes:
        means: shape (..., M): unbiased for the mean over classes of the squared true gaps; may be below 0.
        errors: covariances of the gaps of each class, divided by the number of classes, shape (..., K, M, M).
        products: estimated products of the true gaps of each class, divided likewise, same shape.
    """

    means: FloatArray
    errors: FloatArray
    products: FloatArray

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the means, shape (..., M, M).

        Without true gaps the variance of a squared error of variance s is 2 s^2: here 2 x .01^2 twice, divided by 2^2.

        >>> errors = np.full((2, 1, 1), 0.01 / 2)
        >>> SquaredGaps(np.zeros(1), errors, np.zeros((2, 1, 1))).covariance.round(8).tolist()
        [[0.0001]]
        """
        return np.asarray((4 * self.products * self.errors + 2 * np.square(self.errors)).sum(axis=-3))

    def with_means(self, means: FloatArray) -> SquaredGaps:
        """Return the same with true gaps of another size: their mean squares are these, or 0 for any below 0."""
        own = np.diagonal(self.products.sum(axis=-3), axis1=-2, axis2=-1)
        scale = np.sqrt(np.maximum(means, 0.0) / np.maximum(own, 1e-300))
        return replace(self, products=self.products * scale[..., None, :, None] * scale[..., None, None, :])

    def tail(self, off: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the probability that chance moves the means along a direction at least as far as ``off`` does, shape
        (...).

        The error of a class is a quadratic form of normal errors e with covariance S: e'Ae + 2 d'Ae, with A =
        diag(direction). Its cumulants are :math:`2 tr (AS)^2 + 4 d'ASAd` and :math:`8 tr (AS)^3 + 24 d'ASASAd` (Mathai
        and Provost 1992, section 3.2). The sum over classes is taken as a shifted gamma variable with the same three
        moments (Buckley and Eagleson 1988).
        """
        along = direction[..., None, :, None]
        once = along * self.errors
        twice = once @ once
        third = 8 * np.trace(twice @ once, axis1=-2, axis2=-1)
        third = (third + 24 * np.trace(twice @ (along * self.products), axis1=-2, axis2=-1)).sum(axis=-1)
        variance = np.einsum("...i,...ij,...j->...", direction, self.covariance, direction)
        spread = np.sqrt(np.where(variance > 0, variance, 1.0))
        moved = np.einsum("...i,...i->...", direction, off)
        return np.where(variance > 0, _upper_tail(moved / spread, third / spread**3), 0.5)


def squared_gaps(gaps: ArrayLike, errors: ArrayLike) -> SquaredGaps:
    """Return the mean squared gaps of M models without chance, with the covariance of these means.

    The errors of the gaps are taken as normal. The variance of the mean of :math:`d^2 - s^2` needs the true gaps: their
    second moments are estimated by empirical Bayes, as if the true gaps of the classes were normal with the covariance
    that is left of the measured gaps when their errors are taken off (Efron and Morris 1973).

    Args:
        gaps: shape (..., K, M).
        errors: covariance of the gaps of each class, shape (..., K, M, M).

    Example:
        One model, gaps .3 and .1 with a variance of .01 each: the mean of .09 - .01 and .01 - .01.

        >>> found = squared_gaps([[0.3], [0.1]], [[[0.01]], [[0.01]]])
        >>> found.means.round(6).tolist()
        [0.04]
    """
    d, s = np.asarray(gaps, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    classes, models = d.shape[-2:]
    moments = (d[..., :, None] * d[..., None, :] - s).mean(axis=-3)
    sizes, axes = np.linalg.eigh(moments)
    prior = ((axes * np.maximum(sizes, 1e-12)[..., None, :]) @ np.swapaxes(axes, -1, -2))[..., None, :, :]
    both = prior + s + 1e-12 * np.eye(models)
    towards = np.swapaxes(np.linalg.solve(both, np.broadcast_to(prior, both.shape)), -1, -2)
    centre = (towards @ d[..., None])[..., 0]
    products = centre[..., :, None] * centre[..., None, :] + prior - towards @ prior
    products = (products + np.swapaxes(products, -1, -2)) / 2
    return SquaredGaps(np.diagonal(moments, axis1=-2, axis2=-1), s / classes, products / classes)


def gap_interval(
    gaps: ArrayLike, variances: ArrayLike, over: str, level: float = 0.95, unit: float = 1.0
) -> Interval | None:
    """Return the interval of a root mean square of gaps, for other cases of the same classes.

    Args:
        gaps: the gaps of one model, NaN for a class without one, shape (K,).
        variances: their sampling variances, shape (K,).
        over: what varies, in the plural, for tables.
        level: confidence level.
        unit: a size that no gap passes, as of :class:`~pytest_genderbias.statistics.gap_rms.UnitGaps`.

    Returns:
        The interval, which contains the measured root, and may reach below 0 as that does. ``None`` if the rates have
            no errors: all
        are 0 or 1.

    Example:
        One class with a gap of .5 and an error of .05: about .5 - 1.96 x .05 to .5 + 1.96 x .05.

        >>> interval = gap_interval([0.5], [0.0025], "persons")
        >>> round(interval.low, 2), round(interval.high, 2)
        (0.4, 0.6)
    """
    sizes, errors = np.asarray(gaps, dtype=np.float64) / unit, np.asarray(variances, dtype=np.float64) / unit**2
    there = np.isfinite(sizes)
    found = squared_gaps(sizes[there][:, None], errors[there][:, None, None])
    if not found.covariance[0, 0] > _NOTHING:
        return None
    value, tail = float(rms_of_gaps(sizes, errors)), (1 - level) / 2
    low = _bound(lambda root: root_p(found, root)[0], value, -1.0, tail)
    high = _bound(lambda root: root_p(found, root)[1], value, 1.0, tail)
    return Interval(low * unit, high * unit, level, over, METHOD, int(there.sum()))


def root_p(found: SquaredGaps, root: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the one-sided p values of "the root mean square is at most this" and of "it is at least this".

    Args:
        found: of one model; any leading shape.
        root: signed root, of the leading shape, or any other if there is none.

    Example:
        The gap .5 lies 1.645 errors of about .05 above .42: rarely so, if that were true.

        >>> above, below = root_p(squared_gaps([[0.5]], [[[0.0025]]]), 0.42)
        >>> round(float(above), 2), round(float(below), 2)
        (0.05, 0.95)
    """
    wanted = np.asarray(root, dtype=np.float64)[..., None]
    squares = wanted * np.abs(wanted)
    tail = found.with_means(squares).tail(found.means - squares, np.ones_like(found.means))
    return tail, 1 - tail


def gap_change_bounds(then: UnitGaps, now: UnitGaps, tolerance: float = 0.0, level: float = 0.95) -> Bounds | None:
    """Return bounds of the change of a root mean square of gaps, and p values, for other cases of the same classes.

    The bounds are those of the squared distance (Mahalanobis) of the two mean squares from the curve of all pairs whose
    signed roots differ by a change. The root of then is a nuisance, and the nearest point of the curve decides. For a
    change of 0 that is the test of equal mean squares.

    Args:
        then: gaps of a model on some units.
        now: those of another on the same units, with the same classes in the same order.
        tolerance: the worsening that is allowed, 0 or more.
        level: of each bound, one-sided.

    Returns:
        Lower and upper bound of now minus then; one-sided p values of "the change is at most the tolerance" and of "the
        change is at least minus the tolerance". ``None`` if the rates of a model have no errors: all of them are 0 or
        1.

    Example:
        Women 90 of 100 then and now, men 80 of 100 then and 60 now: the gap rises from .1 to .3.

        >>> from pytest_genderbias.statistics.gap_rms import unit_gaps
        >>> women, then, now = (np.arange(100) < right for right in (90, 80, 60))
        >>> sides = [unit_gaps(np.stack([women, men], axis=1)[..., None], np.ones((100, 2, 1))) for men in (then, now)]
        >>> low, high, p, p_better = gap_change_bounds(*sides)
        >>> 0 < low < 0.2 < high < 0.5, p < 0.05
        (True, True)
    """
    unit = max(then.unit, now.unit)
    found, tolerance = _side_by_side(then, now, unit), tolerance / unit
    if not min(np.diagonal(found.covariance)) > _NOTHING:
        return None
    change = float(np.diff(signed_root(found.means))[0])
    low = _bound(lambda at: change_p(found, at)[0], change, -2.0, 1 - level)
    high = _bound(lambda at: change_p(found, at)[1], change, 2.0, 1 - level)
    return low * unit, high * unit, float(change_p(found, tolerance)[0]), float(change_p(found, -tolerance)[1])


def _bound(p: Callable[[FloatArray], FloatArray], inside: float, outside: float, least: float) -> float:
    """Return the value between two where a p value falls to ``least``, by repeated division into equal parts."""
    for _ in range(_DIVISIONS):
        ends = inside + (outside - inside) * _PARTS
        within = p(ends) > least
        if within.all():
            return outside
        first = int(np.argmin(within))
        inside, outside = float(ends[max(first - 1, 0)]), float(ends[first])
    return (inside + outside) / 2


def _side_by_side(then: UnitGaps, now: UnitGaps, unit: float) -> SquaredGaps:
    """Return the mean squares of two models in a unit; a class that only one of them has counts for that one alone."""
    gaps = np.stack([then.gaps, now.gaps], axis=-1) / unit
    there = np.isfinite(gaps)
    weight = np.sqrt(len(gaps) / np.maximum(there.sum(axis=0), 1))  # the mean of each is over its own classes
    influences = np.stack([then.influences, now.influences], axis=-1) / unit * weight
    errors = np.einsum("ukm,ukn->kmn", influences, influences)
    return squared_gaps(np.where(there, gaps, 0.0) * weight, errors)


def change_p(found: SquaredGaps, change: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the one-sided p values of "the change is at most this" and of "the change is at least this".

    How far chance moves mean squares depends on the true gaps. Two sizes of them are tried, the estimated one and that
    of the nearest point of the curve, and the larger p counts.

    Args:
        found: of two models, then and now; any leading shape.
        change: signed root of the mean square now minus that of then, of the leading shape, or any other if there is
            none.

    Example:
        One class with the gaps .3 then and .5 now, with independent errors of .05: the change of .2 has the error .05 x
            1.414 = .0707,
        and .2 / .0707 = 2.83. A normal tail has .002 beyond it, the tail of squares a little more.

        >>> above, below = change_p(squared_gaps([[0.3, 0.5]], [np.diag([0.0025, 0.0025])]), 0.0)
        >>> round(float(above), 3), round(float(below), 3)
        (0.004, 0.996)
    """
    at, wanted = np.broadcast_arrays(signed_root(found.means[..., 0]), np.asarray(change, dtype=np.float64))
    measured = signed_root(found.means[..., 1]) - at
    covariance = found.covariance
    ridge = 1e-12 * np.trace(covariance, axis1=-2, axis2=-1)[..., None, None] * np.eye(2)
    weights = np.linalg.inv(covariance + ridge)
    reach = np.maximum(2 * np.abs(measured - wanted), 0.01)
    for _ in range(_ROUNDS):
        roots = at[..., None] + _GRID * reach[..., None]
        off = found.means[..., None, :] - _on_curve(roots, wanted[..., None])
        nearest = np.einsum("...gi,...ij,...gj->...g", off, weights, off).argmin(axis=-1)
        at = np.take_along_axis(roots, nearest[..., None], axis=-1)[..., 0]
        reach = reach * 0.05
    point = _on_curve(at, wanted)
    off = found.means - point
    direction = np.einsum("...ij,...j->...i", weights, off)
    away = np.maximum(found.tail(off, direction), found.with_means(point).tail(off, direction))
    worse = measured >= wanted
    return np.where(worse, away, 1 - away), np.where(worse, 1 - away, away)


def _on_curve(roots: FloatArray, change: FloatArray) -> FloatArray:
    """Return the mean squares of then and now that have these signed roots of then, and a change, shape (..., 2)."""
    both = np.stack([roots, roots + change], axis=-1)
    return np.asarray(both * np.abs(both), dtype=np.float64)


def _upper_tail(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """Return P(Z >= z) of a shifted gamma variable with mean 0, variance 1 and this skewness."""
    from scipy.special import gammainc, gammaincc

    shape = 4 / np.square(np.maximum(np.abs(skewness), 1e-3))
    at = np.maximum(np.where(skewness < 0, -z, z) * np.sqrt(shape) + shape, 0.0)
    return np.where(skewness < 0, gammainc(shape, at), gammaincc(shape, at))
