"""Confidence intervals for means over the units of a suite.

``docs/evidence/coverage.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/inference/test_intervals.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.student import t_quantile

_RESAMPLES = 1999  #: so that the 50th and the 1950th of the sorted resamples bound 95 %
_SEED = 1999  #: the interval of a measurement is always the same
_BLOCK = 2_000_000  #: resampled clusters held at a time


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval.

    Attributes:
        low: lower bound.
        high: upper bound.
        level: confidence level.
        over: what varies, in the plural: occupations, restarts.
        method: how the bounds were computed.
        items: number of units that the interval is over; 0 where it is not recorded.
        templates: number of templates that the interval is also over; 0 where it takes them as fixed, or there are
            none.
    """

    low: float
    high: float
    level: float
    over: str
    method: str
    items: int = 0
    templates: int = 0


def clustered_mean_error(
    sums: NDArray[np.float64], counts: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a mean over clusters of cases, and its standard error.

    With cluster sums :math:`y_g` and sizes :math:`n_g` the mean is :math:`R = \\sum y_g / \\sum n_g`, its squared error
    :math:`\\frac{G}{G-1} \\sum (y_g - R n_g)^2 / (\\sum n_g)^2` (Cochran 1977, Sampling Techniques, section 6.4; the
    cluster-robust error of a regression on a constant; with equal sizes that of the mean of the cluster means).

    Args:
        sums: cluster sums, shape (..., G).
        counts: number of cases in each cluster, shape (..., G), all above 0.

    Returns:
        Mean and standard error, each of shape (...), in units of the statistic.

    Example:
        Three clusters of one case, 1, 2 and 3: variance 1, so the error of the mean is 1 / sqrt(3).

        >>> mean, error = clustered_mean_error(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 1.0]))
        >>> round(float(mean), 3), round(float(error), 3)
        (2.0, 0.577)
    """
    groups, total = sums.shape[-1], counts.sum(axis=-1)
    mean = sums.sum(axis=-1) / total
    spread = np.square(sums - mean[..., None] * counts).sum(axis=-1)
    return mean, np.sqrt(groups / (groups - 1) * spread) / total


def clustered_mean_interval(
    sums: ArrayLike, counts: ArrayLike, over: str, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval | None:
    """Return the interval of a mean whose cases come in clusters, for other clusters of the same kind.

    Bootstrap-t (Davison and Hinkley 1997, Bootstrap Methods and their Application, section 5.2.2): whole clusters are
    drawn with replacement 1,999 times, each time with the mean's own standard error, and the interval is
    R - t* error, with the quantiles t* of (R' - R) / error'. Unlike Student's t it follows a skewed statistic. The
    random numbers are fixed, and the order of the clusters does not matter.

    Args:
        sums: cluster sums, shape (G,); clusters with no case are left out.
        counts: number of cases in each cluster, shape (G,).
        over: what a cluster is, for tables.
        level: confidence level.
        bounds: limits that the mean cannot pass; the interval is clipped there.

    Returns:
        The interval. ``None`` if there are fewer than two clusters, or if so few of them vary that a bound of the
        resamples is infinite.
    """
    y, n = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    y, n = y[n > 0], n[n > 0]
    if len(n) < 2:
        return None
    order = np.lexsort((n, y / n))
    y, n = y[order], n[order]
    mean, error = clustered_mean_error(y, n)
    if error <= 1e-12 * max(1.0, abs(float(mean))):
        return None
    means, errors = _resampled(y, n)
    flat = errors <= 1e-9 * error  # the same cluster drawn every time: no error to divide by
    t = (means - mean) / np.where(flat, 1e-9 * error, errors)
    t[flat & (t > 1.0)], t[flat & (t < -1.0)] = np.inf, -np.inf
    t.sort()
    cut = round((_RESAMPLES + 1) * (1 - level) / 2)
    low, high = float(mean - t[_RESAMPLES - cut] * error), float(mean - t[cut - 1] * error)
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(low, high, level, over, "bootstrap-t over clusters", len(n))


def _resampled(y: NDArray[np.float64], n: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and error of each resample of the clusters, drawn in blocks to bound the memory."""
    rng, rows = np.random.default_rng(_SEED), max(1, _BLOCK // len(n))
    resamples = []
    for start in range(0, _RESAMPLES, rows):
        drawn = rng.integers(len(n), size=(min(rows, _RESAMPLES - start), len(n)))
        resamples.append(clustered_mean_error(y[drawn], n[drawn]))
    means, errors = zip(*resamples, strict=True)
    return np.concatenate(means), np.concatenate(errors)


def restart_interval(values: ArrayLike, over: str = "restarts", level: float = 0.95) -> Interval | None:
    """Return Student's t interval of the mean over restarts of the same training: what other seeds would give.

    The interval does not cover other examples or units. ``None`` for fewer than three restarts, or if all values are
    equal.

    Args:
        values: one value per restart, shape (n,).
        over: what varies, in words.
        level: confidence level.

    Example:
        Three restarts, 1, 2 and 3: mean 2, error 1 / sqrt(3) = .577, t = 4.303 with two degrees of freedom.

        >>> found = restart_interval([1.0, 2.0, 3.0])
        >>> round(found.low, 3), round(found.high, 3)
        (-0.484, 4.484)
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 3 or float(np.ptp(x)) == 0.0:
        return None
    half = t_quantile((1 + level) / 2, len(x) - 1) * float(x.std(ddof=1)) / float(np.sqrt(len(x)))
    return Interval(float(x.mean()) - half, float(x.mean()) + half, level, over, "t over restarts", len(x))
