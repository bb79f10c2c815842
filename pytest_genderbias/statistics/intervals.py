"""Confidence intervals for means over the items of a suite.

Measured coverage stands in ``docs/coverage.md`` and is recomputed in a small version by ``tests/test_intervals.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval: its bounds, its level, what varies, and how it was made."""

    low: float
    high: float
    level: float
    over: str
    method: str


def clustered_mean_interval(
    sums: ArrayLike, counts: ArrayLike, over: str, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Interval | None:
    """Return the interval of a mean whose cases come in clusters, for other clusters of the same kind.

    With cluster sums :math:`y_g` and sizes :math:`n_g` the mean is :math:`R = \\sum y_g / \\sum n_g` and its variance is
    estimated by :math:`\\frac{G}{G-1} \\sum (y_g - R n_g)^2 / (\\sum n_g)^2`, with Student's t on G - 1 degrees of freedom
    (Cochran 1977, Sampling Techniques, section 6.4; with equal sizes this is the t interval of the cluster means).

    Args:
        sums: cluster sums, shape (G,); clusters with no case are left out.
        counts: number of cases in each cluster, shape (G,).
        over: what a cluster is, for tables.
        level: confidence level.
        bounds: limits that the mean cannot pass; the interval is cut there.

    Returns:
        The interval, or ``None`` with fewer than two clusters, or where they do not vary at all: a width of 0 would
        claim a certainty that no sample gives.

    Example:
        Means 1, 2 and 3 of three clusters: 2 +- 4.303 * 1 / sqrt(3).

        >>> i = clustered_mean_interval([1, 2, 3], [1, 1, 1], "occupations")
        >>> round(i.low, 3), round(i.high, 3)
        (-0.484, 4.484)
    """
    y, n = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    y, n = y[n > 0], n[n > 0]
    groups = len(n)
    if groups < 2:
        return None
    mean = y.sum() / n.sum()
    error = float(np.sqrt(groups / (groups - 1) * np.square(y - mean * n).sum()) / n.sum())
    if error <= 1e-12 * max(1.0, abs(float(mean))):
        return None
    half = float(special.stdtrit(groups - 1, 0.5 + level / 2)) * error
    low, high = float(mean) - half, float(mean) + half
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(low, high, level, over, "cluster-robust t")
