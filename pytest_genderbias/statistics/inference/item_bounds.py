"""Bounds of a mean over items for other items of the same kind: few of them, with long tails, or with answers that tie.

``docs/evidence/coverage-paired.md`` and ``coverage-tails.md`` have the measured coverage; small versions are recomputed
by ``tests/statistics/inference/test_item_bounds.py`` and ``test_tails.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.statistics.inference.intervals import Bounds, Interval, t_above, t_quantile
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, Sums
from pytest_genderbias.statistics.inference.two_way import STEP, derivatives

_UNSEEN = 3.0  #: standard errors by which the skew of other items may exceed that of those at hand
_SHRUNK = 3.0  #: a sample shows about a third of the skew of a long tail


def kish_number(changes: ArrayLike) -> float:
    """Return how many items carry a change: (sum of sizes)^2 / sum of squares (Kish 1965, Survey Sampling, section
    11.7).

    Args:
        changes: contribution of each item, shape (n,).

    Returns:
        From 1 (one item moved) to n (all moved alike); 0 if none moved.

    >>> kish_number([1.0, -1.0, 1.0, 1.0]), kish_number([3.0, 0.0, 0.0, 0.0]), kish_number([0.0, 0.0])
    (4.0, 1.0, 0.0)
    """
    sizes = np.abs(np.asarray(changes, dtype=np.float64))
    largest = sizes.max(initial=0.0)
    if not largest > 0:
        return 0.0
    sizes = sizes / largest  # so that squares of small changes do not vanish
    return float(sizes.sum() ** 2 / np.square(sizes).sum())


def skewness(values: ArrayLike) -> float:
    """Return the third central moment over the cube of the standard deviation; 0 if all values are equal.

    >>> skewness([-1.0, 0.0, 1.0]), round(skewness([0.0, 0.0, 0.0, 4.0]), 4)  # 6 / 3^1.5
    (0.0, 1.1547)
    """
    own = np.asarray(values, dtype=np.float64)
    centred = own - own.mean()
    largest = np.abs(centred).max(initial=0.0)
    if not largest > 1e-12 * np.abs(own).max(initial=0.0):  # equal but for rounding
        return 0.0
    centred = centred / largest
    return float((centred**3).mean() / np.square(centred).mean() ** 1.5)


def tail_p(t: float, influences: ArrayLike) -> float:
    """Return the p value of a mean that is t standard errors too high, if the tail towards lower values is long and
    hardly seen.

    Where few items would be far lower, most samples lack them: the mean is too high then, and its error too small, so
    that every method which looks at these items alone errs. By the first term of the Edgeworth expansion, a mean of n
    values of skewness g has

    .. math:: P(T \\le z - g (2 z^2 + 1) / (6 \\sqrt n)) \\approx \\Phi(z)

    (Johnson 1978, Modified t tests and confidence intervals for asymmetrical populations, JASA 73; Hall 1992, On the
    removal of skewness by transformation, JRSS B 54). z solves this for three times the skewness at hand, less three
    standard errors sqrt(6 / n), where that is below 0; p is Student's.

    Args:
        t: the mean less its value under the hypothesis, over its standard error.
        influences: the values, or the influence of each item on the statistic, up to location and scale, shape (n,), n
            > 1.

    Example:
        Symmetric: g = -3 sqrt(6 / 6) = -3, so that t = 2 + 3 (2 * 4 + 1) / (6 sqrt 6) = 3.8371 is as good as z = 2 with
            five degrees.

        >>> from scipy import stats
        >>> round(tail_p(3.8371, [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0]), 4), round(float(stats.t.sf(2.0, 5)), 4)
        (0.051, 0.051)
    """
    n, skew = len(np.asarray(influences)), _long_tail(influences)
    if t <= 0:
        return 1.0
    shift = skew / (6 * n**0.5)
    z = t if shift <= 0 else (np.sqrt(max(0.0, 1 + 8 * shift * (t - shift))) - 1) / (4 * shift)
    return t_above(z, n - 1)


def tail_reach(level: float, influences: ArrayLike) -> float:
    """Return how many standard errors below a mean its lower bound of this level lies: ``tail_p`` of the result is 1 -
    level.

    >>> influences = [0.0, 1.0, 2.0, 4.0, 9.0, 1.0]
    >>> round(tail_p(tail_reach(0.998, influences), influences), 6)
    0.002
    """
    n, skew = len(np.asarray(influences)), _long_tail(influences)
    z = t_quantile(level, n - 1)
    return float(z + max(0.0, skew) / (6 * n**0.5) * (2 * z * z + 1))


def _long_tail(influences: ArrayLike) -> float:
    """Return the skewness towards lower values that other items may have; not above 0 where the tail is on the other
    side.
    """
    values = np.asarray(influences, dtype=np.float64)
    return float(_UNSEEN * np.sqrt(6 / len(values)) - _SHRUNK * skewness(values))


SKEWED = "Student's t over {}, with a tail that others may have"
TIED = "random weights of {}, beside one more that is far off"
_TIED = 0.25  #: share of the items with equal changes from which on their number counts, and not their spread
_FARTHER = 2.0  #: others may lie farther by this, divided by the number of different sizes, than the farthest item
_ALIKE = 1e-6  #: of the largest change


@dataclass(frozen=True)
class ItemEffects:
    """Contributions of items to a figure.

    Attributes:
        value: the figure.
        own: what each item gives by itself, in units of the figure, shape (n,); the weighted mean is about ``value``.
        weights: of the items, with the mean 1, shape (n,).
        error: standard error of the figure over other items.
        neutral: what an item gives that has no effect; others may lie about as far from it, on either side, as the
            farthest of these.
    """

    value: float
    own: FloatArray
    weights: FloatArray
    error: float
    neutral: float = 0.0

    @property
    def tied(self) -> bool:
        """Whether so many items give the same (yes or no, or no change at all) that a spread says little of others."""
        apart = np.abs(self.own - self.neutral).max()
        if not apart > 0:
            return True
        counts = np.unique(np.round((self.own - self.neutral) / (_ALIKE * apart)), return_counts=True)[1]
        n = len(self.own)
        return bool(counts.max() >= _TIED * n and len(counts) <= (1 - _TIED) * n)

    @property
    def farthest(self) -> float:
        """How far others may lie from neutral: as the farthest of these if those that do all lie equally far, and else
        farther the fewer they are.
        """
        distances = np.abs(self.own - self.neutral)
        largest = float(distances.max())
        sizes = np.round(distances[distances > _ALIKE * largest] / max(_ALIKE * largest, np.finfo(float).tiny))
        different = len(np.unique(sizes))
        return largest if different <= 1 < len(sizes) else largest * (1 + _FARTHER / max(1, different))

    @property
    def influences(self) -> FloatArray:
        """The influence of each item, up to its scale, shape (n,)."""
        return self.weights * (self.own - self.value)

    def bounds(self, tolerance: float, level: float) -> Bounds:
        """Return one-sided bounds of a level each, and p values of "at most the tolerance" and of "at least minus the
        tolerance".

        Items that differ have Student's t, with the reach of
        :func:`~pytest_genderbias.statistics.inference.item_bounds.tail_reach`. Items that tie have the bounds of
        :func:`least_mean`. On fewer than :func:`fewest_items` both bounds are infinite. No p value is below that of the
        sign test with all items on one side.
        """
        if len(self.own) < fewest_items(level) or not np.isfinite(self.error):
            return -np.inf, np.inf, 1.0, 1.0
        low, p = self._below(tolerance, level)
        high, p_better = self._mirrored()._below(tolerance, level)
        return low, -high, p, p_better

    def _mirrored(self) -> ItemEffects:
        return replace(self, value=-self.value, own=-self.own, neutral=-self.neutral)

    def _below(self, tolerance: float, level: float) -> tuple[float, float]:
        """Return the lower bound, and the p value of "at most the tolerance"."""
        least_p = 0.5 ** len(self.own)
        if self.tied:
            least = self.neutral - self.farthest
            low = least_mean(self.own, self.weights, least, 1 - level)
            p = 1.0 if self.value <= tolerance else share_below(self.own, self.weights, least, tolerance)
        else:
            low = self.value - tail_reach(level, self.influences) * self.error
            p = tail_p((self.value - tolerance) / self.error, self.influences)
        return min(low, self.value), max(p, least_p)


def fewest_items(level: float) -> int:
    """Return how many items are too many to move the same way by chance more often than one-sided bounds of this level
    allow.

    >>> fewest_items(0.95), fewest_items(0.975), fewest_items(0.99875)  # one case of 32, of 64, and of 1,024
    (5, 6, 10)
    """
    return int(np.ceil(np.log2(1 / (1 - level)) - 1e-9))


def least_mean(own: ArrayLike, weights: ArrayLike, least: float, outside: float) -> float:
    """Return a lower bound of a weighted mean over items, none of which lies below ``least``.

    Items get random weights, those of the Bayesian bootstrap (Rubin 1981), beside one more item of the largest weight
    that lies at ``least``; the bound is the quantile ``outside`` of the mean (Gaffke's bound: Phan, Thomas and
    Learned-Miller 2021, Towards Practical Mean Bounds for Small Samples). For items that are ``least`` or another value
    it is the exact bound of a share (Clopper and Pearson 1934).

    Args:
        own: the items, shape (n,).
        weights: of the items, shape (n,), above 0.
        least: the least value of an item.
        outside: probability that the bound lies above the mean of all items of the kind.

    Example:
        All of six items are worse by 1, and others may be better by 1: the share r of worse ones is at least .025 ** (1
            / 6) = .54, and the mean
        2 r - 1.

        >>> round(least_mean(np.ones(6), np.ones(6), -1.0, 0.025), 2)
        0.08
    """
    from scipy.optimize import brentq

    values, sizes = np.asarray(own, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    mean = float(sizes @ values / sizes.sum())
    if not mean > least:
        return least
    most = float(values.max())  # the mean of equal items may be above all of them by rounding
    return float(brentq(lambda at: share_below(values, sizes, least, at) - outside, least, most, rtol=1e-9))


def share_below(own: FloatArray, weights: FloatArray, least: float, value: float) -> float:
    """Return the probability that the randomly weighted mean of :func:`least_mean` lies at or below a value.

    It is that of a weighted sum of exponential variables below 0, by the saddlepoint approximation (Lugannani and Rice
    1980).

    Example:
        All of three items are 1, and others may be 0: the mean is below 1/2 with the probability 1/8.

        >>> round(share_below(np.ones(3), np.ones(3), 0.0, 0.5), 2)
        0.13
    """
    from scipy.special import ndtr

    rates = np.append(weights * (own - value), weights.max() * (least - value))
    if not ((rates > 0).any() and (rates < 0).any()):
        return float(rates.max() <= 0)
    rates = rates / np.sqrt(np.square(rates).sum())
    at = _saddlepoint(rates)
    left = 1 - rates * at
    root = float(np.sign(at) * np.sqrt(max(0.0, 2 * np.log(left).sum())))
    if abs(root) < 1e-3:
        return float(0.5 + (rates**3).sum() / (3 * np.sqrt(2 * np.pi)))
    slope = at * float(np.sqrt(np.square(rates / left).sum()))
    density = np.exp(-root * root / 2) / np.sqrt(2 * np.pi)
    return float(np.clip(ndtr(root) + density * (1 / root - 1 / slope), 0.0, 1.0))


def _saddlepoint(rates: FloatArray) -> float:
    """Return where the derivative of the cumulant function, - sum of log(1 - rate t), is 0."""
    from scipy.optimize import brentq

    ends = (1 - 1e-12) / rates.min(), (1 - 1e-12) / rates.max()
    return float(brentq(lambda t: (rates / (1 - rates * t)).sum(), *ends, xtol=1e-14, rtol=1e-12))


def total_influences(of: Callable[[FloatArray], FloatArray], sums: Sums) -> FloatArray:
    """Return the derivative of a function of the totals along the sums of each item, shape (G,) (Efron 1982, section
    6.3).
    """
    slopes = derivatives(of, np.asarray(sums.sum(axis=0, dtype=np.float64)), STEP * sums.std(axis=0))
    return np.asarray((sums - sums.mean(axis=0)) @ slopes, dtype=np.float64)


def jackknife_error(without: FloatArray) -> float:
    """Return the standard error of a figure from its values without one item at a time, shape (G,) (Efron 1982, section
    3.1).
    """
    items = len(without)
    return float(np.sqrt((items - 1) / items * np.square(without - without.mean()).sum()))


def cluster_interval(
    sums: ItemSums, limits: tuple[float, float] = (-np.inf, np.inf), level: float = 0.95
) -> Interval | None:
    """Return the interval of a statistic for other clusters of units; on Fisher's z for correlations.

    Args:
        sums: of the statistic, with clusters.
        limits: the least and the largest value that the statistic can have.
        level: confidence level.

    Returns:
        The interval. ``None`` where there are too few clusters, all of them give the same or lie on a line, or the
        statistic is a count of tests.

    Example:
        Six clusters of two items that are the same: as six items.

        >>> from pytest_genderbias.statistics.inference.item_sums import mean_sums
        >>> labels, values = np.arange(12).astype(str), np.repeat([1.0, 2.0, 3.0, 4.0, 5.0, 7.0], 2)
        >>> pairs = {str(i): f"pair {i // 2}" for i in range(12)}
        >>> sums = mean_sums(labels, values, np.ones(12), "words").in_clusters(pairs)
        >>> interval = cluster_interval(sums)
        >>> interval.over, interval.items, interval.low < 2 and interval.high > 5
        ('clusters of words', 6, True)
    """
    flat = sums.by_cluster()
    one_sided, n = (1 + level) / 2, len(flat.labels)
    if not flat.smooth or n < fewest_items(one_sided):
        return None
    correlation = flat.combiner == "pearson"

    def of(totals: FloatArray) -> FloatArray:
        return np.arctanh(flat.value(totals)) if correlation else flat.value(totals)

    rows = np.asarray(flat.sums, dtype=np.float64)
    total = rows.sum(axis=0)
    weights = rows[:, 1] * (n / total[1]) if flat.ratio else np.ones(n)
    with np.errstate(divide="ignore", invalid="ignore"):  # Fisher's z of a line is infinite
        value, error = float(of(total)), jackknife_error(of(total - rows))
        own = value + n * total_influences(of, rows) / weights
    if not (np.isfinite(own).all() and error > 0):
        return None
    effects = ItemEffects(value, own, weights, error, neutral=value)
    low, high = effects.bounds(0.0, one_sided)[:2]
    if correlation:
        low, high = float(np.tanh(low)), float(np.tanh(high))
    method = (TIED if effects.tied else SKEWED).format(flat.over)
    return Interval(max(low, limits[0]), min(high, limits[1]), level, flat.over, method, n)
