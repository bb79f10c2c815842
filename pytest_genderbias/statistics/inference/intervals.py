"""Confidence intervals for means and shares over the units of a suite; the permutation test; and p values of several
tests. Student's t is that of ``scipy.special``, which is imported in a tenth of the time of ``scipy.stats``.

``docs/evidence/coverage.md`` and ``coverage-shares.md`` have the measured coverage; small versions are recomputed by
``tests/statistics/inference/test_intervals.py`` and ``test_least_share.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Labels: TypeAlias = NDArray[np.str_]
#: Of the sums of a statistic: its parameters, and the names of the sums; () where they have none.
Parameters: TypeAlias = Mapping[str, Any]
Columns: TypeAlias = tuple[str, ...]

RESAMPLES = 1999  #: so that the 50th and the 1950th of the sorted resamples bound 95 %, or the 1900th on either side
_SEED = 1999  #: the interval of a measurement is always the same
_BLOCK = 1_000_000  #: resampled units held at a time
_BISECTIONS = 40


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


def clustered_mean_error(sums: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
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
    means, errors = resampled(clustered_mean_error, y, n)
    flat = errors <= 1e-9 * error  # the same cluster drawn every time: no error to divide by
    t = (means - mean) / np.where(flat, 1e-9 * error, errors)
    t[flat & (t > 1.0)], t[flat & (t < -1.0)] = np.inf, -np.inf
    t.sort()
    cut = round((RESAMPLES + 1) * (1 - level) / 2)
    if cut < 1:  # a level that so few resamples do not show
        return None
    low, high = float(mean - t[RESAMPLES - cut] * error), float(mean - t[cut - 1] * error)
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Interval(low, high, level, over, "bootstrap-t over clusters", len(n))


def resampled(
    of: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]], x: FloatArray, y: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return an estimate and its error in each of 1,999 resamples of units, each of shape (1999,).

    Args:
        of: from two figures of each unit, shape (..., n), to estimate and error, shape (...).
        x: the first figure, shape (n,).
        y: the second one.
    """
    rng, resamples = np.random.default_rng(_SEED), []
    for size in in_blocks(RESAMPLES, len(x), _BLOCK):
        drawn = rng.integers(len(x), size=(size, len(x)))
        resamples.append(of(x[drawn], y[drawn]))
    estimates, errors = zip(*resamples, strict=True)
    return np.concatenate(estimates), np.concatenate(errors)


def in_blocks(repeats: int, width: int, most: int) -> Iterator[int]:
    """Yield numbers of draws that add up to ``repeats``, each as large as ``most`` figures in memory allow.

    Args:
        repeats: number of all draws.
        width: figures of one draw.
        most: figures of one block.

    >>> list(in_blocks(10, 3, 13)), list(in_blocks(2, 9, 4))
    ([4, 4, 2], [1, 1])
    """
    rows = max(1, most // max(1, width))
    return (min(rows, repeats - start) for start in range(0, repeats, rows))


def bisected(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number between two from which on something holds, to a millionth of a millionth of their
    distance.

    >>> round(bisected(lambda x: x * x > 2, 0.0, 2.0), 6)
    1.414214
    """
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


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


@lru_cache(maxsize=1024)  # of one measurement the same are asked for several times
def _least_share(sums: bytes, counts: bytes, outside: float) -> float:
    from scipy.optimize import brentq

    y, n = np.frombuffer(sums), np.frombuffer(counts)
    n = np.append(n, n.max())
    share = float(y.sum() / n[:-1].sum())
    return float(brentq(lambda r: _below_zero(y - r * n) - outside, 0.0, share, xtol=1e-12))


def exact_bounds(hits: ArrayLike, trials: ArrayLike, tail: float | FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the exact bounds of rates (Clopper and Pearson 1934), each of which is wrong with the probability ``tail``
    at most; shapes broadcast.

    >>> low, high = exact_bounds([3], [3], 0.025)
    >>> round(float(low[0]) ** 3, 6), high.tolist()
    (0.025, [1.0])
    """
    from scipy.special import betaincinv

    x, n = np.asarray(hits), np.asarray(trials)
    low = betaincinv(np.maximum(x, 1), n - x + 1, tail)
    high = betaincinv(x + 1, np.maximum(n - x, 1), 1 - tail)
    return np.where(x == 0, 0.0, low), np.where(x == n, 1.0, high)


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


def _below_zero(weights: FloatArray) -> float:
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


_NOISE = 1e-9  #: of the largest distance: the same sum in another order differs in its last bits


@dataclass(frozen=True)
class Null:
    """The values of a statistic after shuffles, and the p value of the measured one.

    Attributes:
        what: what was shuffled.
        repeats: shuffles that gave a value.
        mean: mean of their values, in units of the statistic.
        low: their 2.5 % quantile.
        high: their 97.5 % quantile.
        p_value: one-sided p value of the permutation test: the share of shuffles at least as bad as the measured value,
            which counts as one of them; above 0, at most 1. If it is small, chance alone rarely makes a value as bad.
        undefined: shuffles that left the statistic undefined, and are not counted.
    """

    what: str
    repeats: int
    mean: float
    low: float
    high: float
    p_value: float
    undefined: int = 0


def summarise_null(value: float, shuffled: ArrayLike, distance: Callable[[FloatArray], FloatArray], what: str) -> Null:
    """Return mean and quantiles of the values of shuffles, and the p value of a measured value.

    .. math:: p = \\frac{1 + \\#\\{i : d(x_i) \\ge d(x)\\}}{1 + r}

    with the distance :math:`d` (larger is worse). If the labels can be exchanged, so that the measured value is one
    more draw, a p value of at most :math:`\\alpha` has a probability of at most :math:`\\alpha` (Phipson and Smyth
    2010, Permutation p-values should never be zero, section 2).

    Args:
        value: the measured value.
        shuffled: its values after shuffles, shape (repeats,); NaN where a shuffle left it undefined.
        distance: how bad values are, larger is worse; from shape (n,) to (n,). It may hold them against neutral on both
            sides.
        what: what was shuffled, in words.

    Raises:
        UndefinedError: every shuffle left the statistic undefined.

    Example:
        Of the values 0, 1, 2 and 3 two are at least 2, which itself makes three of five. Held against 1 on both sides,
        0 is
        as far from it as 2: four of five.

        >>> summarise_null(2.0, [0.0, 1.0, 2.0, 3.0], lambda x: x, "labels").p_value
        0.6
        >>> summarise_null(2.0, [0.0, 1.0, 2.0, 3.0], lambda x: abs(x - 1.0), "labels").p_value
        0.8
    """
    drawn = np.asarray(shuffled, dtype=np.float64)
    defined = drawn[~np.isnan(drawn)]
    if not len(defined):
        raise UndefinedError("every shuffle leaves it undefined")
    distances = np.asarray(distance(np.append(defined, value)))
    least = distances[-1] - _NOISE * np.abs(distances).max()
    hits = int((distances[:-1] >= least).sum())
    low, high = np.quantile(defined, [0.025, 0.975])
    p_value = (1 + hits) / (1 + len(defined))
    return Null(what, len(defined), float(defined.mean()), float(low), float(high), p_value, len(drawn) - len(defined))


def holm(p: ArrayLike) -> FloatArray:
    """Return p values adjusted so that the chance of any false rejection stays within the level (Holm 1979, step-down).

    The smallest of m p values is multiplied by m, the next by m - 1, and so on; none falls below one before it. It
    needs no independence, and rejects whatever Bonferroni's correction rejects, which multiplies each of them by m
    (Dunn 1961).

    Args:
        p: p values of the whole family, shape (m,), in any order.

    Returns:
        Adjusted p values, shape (m,), in the order of ``p``, at most 1.

    Example:
        .01 x 3, .03 x 2, and .04 x 1, which is raised to the one before it.

        >>> holm([0.04, 0.01, 0.03]).round(6).tolist()
        [0.06, 0.03, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p values lie between 0 and 1")
    order = np.argsort(values, kind="stable")
    left = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(left * values[order]), 1.0)
    return adjusted


Bounds = tuple[float, float, float, float]  #: low, high, p, p_better of a worsening


@lru_cache(maxsize=1024)
def t_quantile(level: float, freedom: float) -> float:
    """Return the value below which Student's t lies with probability ``level``, above 0 and at most 1; ``freedom``:
    degrees of freedom, also infinite.

    >>> round(t_quantile(0.975, 2), 3), round(t_quantile(0.975, float("inf")), 3)
    (4.303, 1.96)
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, level))


def t_above(value: float, freedom: float) -> float:
    """Return the probability that Student's t lies above ``value``, in [0, 1].

    >>> round(t_above(4.303, 2), 3), t_above(0.0, 7)
    (0.025, 0.5)
    """
    from scipy.special import stdtr

    return float(stdtr(freedom, -value))


def t_bounds(value: float, error: float, freedom: float, tolerance: float, level: float) -> Bounds:
    """Return bounds and p values of a worsening with a standard error.

    Args:
        value: the worsening.
        error: its standard error, 0 or more.
        freedom: degrees of freedom of the error.
        tolerance: the worsening that is allowed.
        level: of each bound, one-sided.

    Returns:
        Lower and upper bound; one-sided p values of "at most the tolerance" and of "at least minus the tolerance".

    Example:
        Error 1 with three degrees of freedom: t = 2.353.

        >>> low, high, p, _ = t_bounds(5.0, 1.0, 3, 2.647, 0.95)
        >>> round(low, 3), round(high, 3), round(p, 3)
        (2.647, 7.353, 0.05)
    """
    reach = t_quantile(level, freedom) * error
    p, p_better = (
        t_above((worse - tolerance) / error, freedom) if error > 0 else float(worse <= tolerance)
        for worse in (value, -value)
    )
    return value - reach, value + reach, p, p_better
