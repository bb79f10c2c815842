"""The root mean square of gaps between two groups in the rates of a classifier, without what chance adds to it.

A sum of absolute gaps grows with the errors of the rates, and these grow with the mistakes of the classifier: of two
classifiers without any bias the less accurate one has the larger sum. The square of a gap is too large by the variance
of the gap, which is known; what is left is unbiased.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError

FloatArray = NDArray[np.float64]

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


def unit_gaps_of_pairs(sums: FloatArray, parameters: Mapping[str, object], columns: tuple[str, ...] | None) -> UnitGaps:
    """Return the gaps and what each pair adds to their errors, from :func:`paired_columns` of each pair, shape (G, 8
    K).
    """
    parts = sums.reshape(len(sums), 4, 2, -1)
    return unit_gaps(parts[:, 0], parts[:, 1], paired=True)
