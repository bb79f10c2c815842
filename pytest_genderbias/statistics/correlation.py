"""Correlation and slope of a bias with the share of women, over units such as professions (webster2020, orgad2022).

The intervals are for other units of the same kind. ``docs/evidence/coverage-correlations.md`` lists their measured
coverage.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import RESAMPLES, FloatArray, Interval, resampled

Estimator = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's r,
    :math:`\\sum (x - \\bar x)(y - \\bar y) / \\sqrt{\\sum (x - \\bar x)^2 \\sum (y - \\bar y)^2}`.

    Args:
        x: the share of women of each unit (or any other variable), shape (n,).
        y: the bias of each unit, shape (n,).

    Returns:
        -1 to 1; away from 0 is worse, 0 is neutral (webster2020, section 3.1; orgad2022, section 3).

    Raises:
        UndefinedError: fewer than three units, or x or y is the same for all of them.

    Example:
        Deviations -1, 0, 1 and -1, 1, 0: 1 / sqrt(2 * 2).

        >>> round(pearson([1, 2, 3], [1, 3, 2]), 6)
        0.5
    """
    return float(_pearson(_centred(x, "x"), _centred(y, "y"))[0])


def slope(x: ArrayLike, y: ArrayLike) -> float:
    """Return the least-squares slope of y on x, :math:`\\sum (x - \\bar x)(y - \\bar y) / \\sum (x - \\bar x)^2`.

    Args:
        x: the share of women of each unit (or any other variable), shape (n,).
        y: the bias of each unit, shape (n,).

    Returns:
        y per x; away from 0 is worse, 0 is neutral (webster2020, section 3.1).

    Raises:
        UndefinedError: fewer than three units, or x is the same for all of them.

    Example:
        Deviations -1, 0, 1 and -2, 2, 0: 2 / 2.

        >>> slope([1, 2, 3], [1, 5, 3])
        1.0
    """
    return float(_slope(_centred(x, "x"), _centred(y, None))[0])


def product_sums(x: ArrayLike, y: ArrayLike, counted: ArrayLike = True) -> FloatArray:
    """Return 1, x, y, x^2, y^2, xy of each unit, whose totals give Pearson's r and the slope; 0 for units not
    ``counted``.

    >>> product_sums([1, 2], [3, 4]).tolist()
    [[1.0, 1.0, 3.0, 1.0, 9.0, 3.0], [1.0, 2.0, 4.0, 4.0, 16.0, 8.0]]
    """
    a, b = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    products = np.stack([np.ones_like(a), a, b, a * a, b * b, a * b], axis=-1)
    return np.where(np.asarray(counted)[..., None], products, 0.0)


def pearson_of_sums(totals: FloatArray) -> FloatArray:
    """Return Pearson's r of totals of :func:`product_sums`: shape (..., 6) to (...); NaN if :func:`pearson` is
    undefined.

    >>> float(pearson_of_sums(product_sums([1, 2, 3], [1, 3, 2]).sum(axis=0)))
    0.5
    """
    xx, yy, xy = _centred_products(totals)
    return np.asarray(np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0))


def slope_of_sums(totals: FloatArray) -> FloatArray:
    """Return the slope of y on x of totals of :func:`product_sums`: shape (..., 6) to (...); NaN if :func:`slope` is
    undefined.

    >>> float(slope_of_sums(product_sums([1, 2, 3], [1, 5, 3]).sum(axis=0)))
    1.0
    """
    xx, _, xy = _centred_products(totals)
    return np.asarray(xy / xx)


def _centred_products(totals: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return n times the sums of squares about the means, and of products; NaN if there are too few units or they are
    equal.
    """
    n, x, y, xx, yy, xy = np.moveaxis(np.asarray(totals, dtype=np.float64), -1, 0)
    enough = n > 2.5
    squares = (n * xx - x * x, n * yy - y * y)
    varying = [
        np.where(enough & (about > 1e-12 * n * raw), about, np.nan)
        for about, raw in zip(squares, (xx, yy), strict=True)
    ]
    return varying[0], varying[1], np.where(enough, n * xy - x * y, np.nan)


def pearson_interval(x: ArrayLike, y: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of Pearson's r for other units of the same kind.

    This is a symmetric bootstrap-t on Fisher's z = artanh r. Units are resampled 1,999 times, each resample with its
    own error, and the interval is tanh(z ± t error), with t the quantile of \\|z' - z\\| / error'. The error does not
    assume a distribution: it is based on the influences uv - r (u² + v²) / 2 of the units (u, v: standardised x, y;
    Devlin et al. 1975), each divided by one minus the larger of its leverages in x and y, as HC3 does in a regression.
    Fisher's error, 1 / sqrt(n - 3), assumes normal data.

    Args:
        x: as in :func:`pearson`, shape (n,).
        y: as in :func:`pearson`, shape (n,).
        over: the name of the units, for tables.
        level: confidence level.

    Returns:
        The interval, within -1 to 1. None if no valid interval is known: too few distinct units (always with five or
        fewer) for a finite bound, or units on a line.

    Raises:
        UndefinedError: as :func:`pearson`.
    """
    bounds = _symmetric_bootstrap_t(_centred(x, "x"), _centred(y, "y"), _fisher_z, level)
    if bounds is None:
        return None
    low, high = (float(np.tanh(bound)) for bound in bounds)
    return Interval(low, high, level, over, "symmetric bootstrap-t on Fisher's z", np.size(x))


def slope_interval(x: ArrayLike, y: ArrayLike, over: str, level: float = 0.95) -> Interval | None:
    """Return the interval of the least-squares slope for other units of the same kind.

    This is a symmetric bootstrap-t. Units are resampled 1,999 times, each resample with its own error, and the interval
    is b ± t error, with t the quantile of \\|b' - b\\| / error'. The error is HC3 (MacKinnon and White 1985), which is
    valid for units with unequal variances.

    Args:
        x: as in :func:`slope`, shape (n,).
        y: as in :func:`slope`, shape (n,).
        over: the name of the units, for tables.
        level: confidence level.

    Returns:
        The interval, or None as in :func:`pearson_interval`.

    Raises:
        UndefinedError: as :func:`slope`.
    """
    bounds = _symmetric_bootstrap_t(_centred(x, "x"), _centred(y, None), _slope, level)
    return None if bounds is None else Interval(*bounds, level, over, "symmetric bootstrap-t, HC3", np.size(x))


def _centred(values: ArrayLike, must_vary: str | None) -> FloatArray:
    """Return deviations from the mean. ``must_vary`` is the name of a variable that must not be constant."""
    variable = np.asarray(values, dtype=np.float64)
    if len(variable) < 3:
        raise UndefinedError(f"{len(variable)} items are too few, three are needed")
    if not np.isfinite(variable).all():
        raise UndefinedError("a value is not a finite number")
    if must_vary and np.ptp(variable) <= 1e-12 * np.abs(variable).max():
        raise UndefinedError(f"{must_vary} is the same for all items")
    return np.asarray(variable - variable.mean(), dtype=np.float64)


def _scaled(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return deviations from the mean divided by the largest one along the last axis, and the largest; NaN for
    constants.
    """
    deviation = values - values.mean(axis=-1, keepdims=True)
    largest = np.abs(deviation).max(axis=-1, keepdims=True)
    largest = np.where(largest > 0, largest, np.nan)
    return deviation / largest, largest


def _standardised(values: FloatArray) -> FloatArray:
    """Return values with mean 0 and mean square 1 along the last axis; NaN for constants."""
    scaled, _ = _scaled(values)
    return np.asarray(scaled / np.sqrt(np.square(scaled).mean(axis=-1, keepdims=True)), dtype=np.float64)


def _pearson(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return r, shape (...), and the influence of each unit on it, shape (..., n)."""
    u, v = _standardised(x), _standardised(y)
    r = np.clip((u * v).mean(axis=-1), -1.0, 1.0)
    influence = u * v - r[..., None] / 2 * (u * u + v * v)
    residual_share = 1 - (1 + np.maximum(u * u, v * v)) / x.shape[-1]  # 1 - leverage
    return r, influence / np.where(residual_share > 1e-9, residual_share, np.nan)


def _fisher_z(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return artanh r and its error; NaN if the units are on a line."""
    r, influence = _pearson(x, y)
    rest = np.where(1 - r * r > 1e-12, 1 - r * r, np.nan)
    error = np.sqrt(np.square(influence).sum(axis=-1)) / x.shape[-1] / rest
    return np.arctanh(np.where(np.isnan(rest), np.nan, r)), error


def _slope(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the slope of y on x and its HC3 error; NaN if x is constant."""
    dx, unit = _scaled(x)
    dy = y - y.mean(axis=-1, keepdims=True)
    square = np.square(dx).sum(axis=-1)
    b = (dx * dy).sum(axis=-1) / square
    residual_share = 1 - 1 / x.shape[-1] - dx * dx / square[..., None]  # 1 - leverage
    residuals = (dy - b[..., None] * dx) / np.where(residual_share > 1e-9, residual_share, np.nan)
    return b / unit[..., 0], np.sqrt(np.square(dx * residuals).sum(axis=-1)) / square / unit[..., 0]


def _symmetric_bootstrap_t(x: FloatArray, y: FloatArray, of: Estimator, level: float) -> tuple[float, float] | None:
    """Return estimate ± t error; a resample without an estimate or an error counts as infinitely far away."""
    order = np.lexsort((y, x))  # the result does not depend on the order of the units
    x, y = x[order], y[order]
    estimate, error = of(x, y)
    if not error > 1e-9 * abs(estimate):  # units on a line
        return None
    estimates, errors = resampled(of, x, y)
    t = np.abs(estimates - estimate) / np.where(errors > 1e-9 * error, errors, np.nan)
    t = np.sort(np.where(np.isnan(t), np.inf, t))[round((RESAMPLES + 1) * level) - 1]
    low, high = float(estimate - t * error), float(estimate + t * error)
    return (low, high) if np.isfinite(t) else None
