"""The tail of a paired comparison: how far a mean over items may lie off where rare items are far on the other side,
and what makes it doubtful.

``docs/evidence/coverage-tails.md`` has the measured shares; ``tests/statistics/inference/test_tails.py`` recomputes a
small part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.student import t_above, t_quantile

FloatArray = NDArray[np.float64]

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
