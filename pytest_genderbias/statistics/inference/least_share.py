"""Bounds on a share whose cases come in clusters, for few clusters, and where all or none of the cases of most clusters
count.

``docs/evidence/coverage-shares.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/inference/test_least_share.py``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.inference.intervals import Interval

_LEVEL = 0.95
_METHOD = "Gaffke's bounds over clusters"


def least_share(sums: ArrayLike, counts: ArrayLike, outside: float = (1 - _LEVEL) / 2) -> float:
    """Return a lower bound on a share, for other clusters of the same kind.

    Gaffke's bound (Phan, Thomas and Learned-Miller 2021, Towards Practical Mean Bounds for Small Samples) of the ratio
    of sums and counts: clusters get random weights, those of the Bayesian bootstrap (Rubin 1981), beside one more
    cluster of the largest size in which nothing counts; the bound is the quantile ``outside`` of the weighted share.
    Where all or none of the cases of each cluster count, and clusters are of one size, it is the exact bound of a share
    (Clopper and Pearson 1934). Clusters that are right in part vary less, and raise it.

    The quantile is computed, not drawn: the weights are exponential variables E over their sum, so that the weighted
    share is below r with the probability of :math:`\\sum_g (y_g - r n_g) E_g < 0`, an integral of its characteristic
    function (Imhof 1961).

    Args:
        sums: cases that count by cluster, shape (G,), from 0 to the counts.
        counts: cases by cluster, shape (G,); clusters without any are left out.
        outside: probability that the bound lies above the share.

    Returns:
        The bound, from 0 to the share. 0 without a case that counts.

    Example:
        One cluster, right: the bound r solves r = .025. Three of three: r ** 3 = .025.

        >>> [round(least_share(np.ones(n), np.ones(n)), 4) for n in (1, 3)]
        [0.025, 0.2924]
        >>> [round(least_share(np.arange(n) >= wrong, np.ones(n)), 2) for n, wrong in ((2, 0), (6, 0), (24, 1))]
        [0.16, 0.54, 0.79]
    """
    y, n = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    y, n = np.append(y[n > 0], 0.0), n[n > 0]
    return _least_share(y.tobytes(), n.tobytes(), outside) if y.any() else 0.0


@lru_cache(maxsize=1024)  # models answer the same controls right, and a bound takes a tenth of a second
def _least_share(sums: bytes, counts: bytes, outside: float) -> float:
    from scipy.optimize import brentq

    y, n = np.frombuffer(sums), np.frombuffer(counts)
    n = np.append(n, n.max())
    share = float(y.sum() / n[:-1].sum())
    return float(brentq(lambda r: _below_zero(y - r * n) - outside, 0.0, share, xtol=1e-12))


def share_interval(sums: ArrayLike, counts: ArrayLike, over: str) -> Interval | None:
    """Return the interval of a share, each of whose ends is a bound (:func:`least_share`); ``None`` without a case.

    Args:
        sums: cases that count by cluster, shape (G,).
        counts: cases by cluster, shape (G,).
        over: what a cluster is, in the plural.

    Example:
        Nine of ten, as by Clopper and Pearson.

        >>> found = share_interval(np.arange(10) > 0, np.ones(10), "controls")
        >>> round(found.low, 3), round(found.high, 3), found.items
        (0.555, 0.997, 10)
    """
    y, n = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    if not n.any():
        return None
    return Interval(least_share(y, n), 1.0 - least_share(n - y, n), _LEVEL, over, _METHOD, int(np.count_nonzero(n)))


def _below_zero(weights: NDArray[np.float64]) -> float:
    """Return the probability that a weighted sum of independent exponential variables is below 0.

    >>> round(_below_zero(np.array([1.0, -1.0])), 9)
    0.5
    """
    from scipy.integrate import quad

    if not (weights > 0).any() or not (weights < 0).any():
        return float((weights < 0).any())
    scaled = weights / np.sqrt(np.square(weights).sum())

    def density(u: float) -> float:
        moved = scaled * u
        angle, decay = np.add.reduce(np.arctan(moved)), np.add.reduce(np.log1p(np.square(moved)))
        return float(np.sin(angle) / u * np.exp(-0.5 * decay))

    return 0.5 - float(quad(density, 0.0, np.inf, limit=400, epsabs=1e-11, epsrel=1e-11)[0]) / np.pi
