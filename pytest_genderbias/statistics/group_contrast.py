"""The difference between two groups of units, such as occupations of women and occupations of men."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.correlation import product_sums, slope, slope_interval
from pytest_genderbias.statistics.group_deviations import contrast_columns, rms_of_contrast_sums
from pytest_genderbias.statistics.inference.intervals import Interval

FloatArray = NDArray[np.float64]


def group_contrast(values: ArrayLike, in_first: ArrayLike) -> float:
    """Return the mean of the first group minus the mean of the second.

    :math:`\\frac1{n_1} \\sum_{i \\in 1} v_i - \\frac1{n_2} \\sum_{i \\in 2} v_i`, unbounded, in units of the values; 0
    is neutral, away from it is worse. A constant that is added to all values cancels. It is the least-squares slope of
    the values on 1 (first group) and 0 (second), so that the interval of a slope is its interval.

    Args:
        values: of each unit, such as the logarithm of P(she) / P(he), shape (n,).
        in_first: whether a unit belongs to the first group, shape (n,).

    Raises:
        UndefinedError: fewer than three units, or all of them are in one group.

    Example:
        Of the first group 3 and 1, of the second 0 and -2: 2 - (-1).

        >>> round(group_contrast([3.0, 1.0, 0.0, -2.0], [True, True, False, False]), 9)
        3.0
    """
    return slope(np.asarray(in_first, dtype=np.float64), values)


def group_contrast_interval(values: ArrayLike, in_first: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of :func:`group_contrast` for other units of the same kind.

    It is :func:`~pytest_genderbias.statistics.correlation.slope_interval`, whose HC3 error allows unequal variances.

    Args:
        values: as in :func:`group_contrast`.
        in_first: as in :func:`group_contrast`.
        over: the name of the units, for tables.
        level: confidence level.

    Raises:
        UndefinedError: as :func:`group_contrast`.
    """
    return slope_interval(np.asarray(in_first, dtype=np.float64), values, over, level)


def contrast_values(scores: ArrayLike, in_first: ArrayLike) -> FloatArray:
    """Return a value of each unit for every group of persons, whose mean is that group's :func:`group_contrast`, and
    whose variance over the units is that of the contrast.

    A unit has the contrast and its own distance from the mean of its side, which is scaled so that the variance of the
    mean is :math:`s_1^2 / n_1 + s_2^2 / n_2`.

    Args:
        scores: of each unit by group of persons, shape (..., n, K).
        in_first: whether a unit belongs to the first side, shape (n,).

    Raises:
        UndefinedError: a side has fewer than two units.

    Example:
        3 and 1 on the first side, 0 and -2 on the second: the contrast is 3, with the variance 2 / 2 + 2 / 2.

        >>> values = contrast_values([[3.0], [1.0], [0.0], [-2.0]], [True, True, False, False])
        >>> float(values.mean()), round(float(values.var(ddof=1) / 4), 9)
        (3.0, 2.0)
    """
    y, first = np.asarray(scores, dtype=np.float64), np.asarray(in_first, dtype=np.bool_)
    n, sides = len(first), (first, ~first)
    if min(side.sum() for side in sides) < 2:
        raise UndefinedError("two units on either side are needed to compare the sides")
    means = [y[..., side, :].mean(axis=-2, keepdims=True) for side in sides]
    values = np.broadcast_to(means[0] - means[1], y.shape).copy()
    for side, mean in zip(sides, means, strict=True):
        m = float(side.sum())
        values[..., side, :] += (y[..., side, :] - mean) * np.sqrt(n * (n - 1) / (m * (m - 1)))
    return values


def shuffled_contrast_rms(scores: ArrayLike, in_first: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return the root mean square of :func:`contrast_values` after random shuffles of the units' scores, shape
    (repeats,). Arguments as there, ``scores`` of shape (n, K).

    >>> scores, first = np.eye(4)[:, :2], [True, True, False, False]
    >>> len(shuffled_contrast_rms(scores, first, 5, seed=0))
    5
    """
    y = np.asarray(scores, dtype=np.float64)
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(len(y)), (repeats, 1)), axis=1)
    return rms_of_contrast_sums(contrast_columns(contrast_values(y[order], in_first)).sum(axis=-2))


def shuffled_lines(x: ArrayLike, y: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return totals of sums of products after random shuffles of y over the units.

    The sums are those of :func:`~pytest_genderbias.statistics.correlation.product_sums`.

    Args:
        x: share, or group as 1 and 0, of each unit, shape (n,).
        y: value of each unit, shape (n,).
        repeats: number of shuffles R. The same seed shuffles alike, whatever x is.
        seed: seed of the shuffles.

    Returns:
        Shape (R, 6).

    Example:
        The sum of the products is 1 * 1 or 1 * 2, by which value is beside the 1.

        >>> sorted(set(shuffled_lines([1.0, 0.0], [1.0, 2.0], 50, seed=0)[:, 5].tolist()))
        [1.0, 2.0]
    """
    values = np.asarray(y, dtype=np.float64)
    shuffled = np.random.default_rng(seed).permuted(np.tile(values, (repeats, 1)), axis=1)
    return np.asarray(product_sums(np.asarray(x, dtype=np.float64), shuffled).sum(axis=1))
