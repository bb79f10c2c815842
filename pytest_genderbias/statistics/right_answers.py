"""The ability of a model: shares of right answers with their bounds, and how far they fell."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.inference.intervals import exact_bounds, t_quantile

LEVEL = 0.95  #: of the two-sided bounds; each of them alone is wrong in at most 2.5 %


def share_bounds(right: int, n: int) -> tuple[float, float]:
    """Return the exact two-sided 95 % bounds of a share (Clopper and Pearson 1934).

    Args:
        right: number of right answers, from 0 to ``n``.
        n: number of answers; 0 gives 0 and 1.

    Returns:
        Lower and upper bound, from 0 to 1.

    Example:
        All of three: the lower bound r solves r ** 3 = .025.

        >>> low, high = share_bounds(3, 3)
        >>> round(low ** 3, 6), high
        (0.025, 1.0)
    """
    low, high = exact_bounds(right, n, (1 - LEVEL) / 2)
    return float(low), float(high)


def mean_recall(right: ArrayLike, n: ArrayLike) -> tuple[float, float, float]:
    """Return the mean recall over classes (balanced accuracy), with two-sided 95 % bounds.

    Its squared error is the mean of the classes' variances over their number; the variance of a recall is that of
    (right + 2) / (n + 4) (Agresti and Coull 1998), so that a class without a mistake also has an error.

    Args:
        right: right answers by class, shape (K,).
        n: answers by class, shape (K,); classes without any are left out.

    Returns:
        The mean recall and its bounds, from 0 to 1. A model that knows nothing has 1 / K; higher is better.

    Raises:
        ValueError: no class has an answer.

    Example:
        Recalls 1 and 1/2 of ten answers each: the mean is 3/4.

        >>> value, low, high = mean_recall([10, 5], [10, 10])
        >>> value, round(low, 3), round(high, 3)
        (0.75, 0.59, 0.91)
    """
    hits, trials = np.asarray(right, dtype=np.float64), np.asarray(n, dtype=np.float64)
    hits, trials = hits[trials > 0], trials[trials > 0]
    if not len(trials):
        raise ValueError("no class has an answer")
    value = float((hits / trials).mean())
    smoothed = (hits + 2) / (trials + 4)
    error = float(np.sqrt((smoothed * (1 - smoothed) / (trials + 4)).sum())) / len(trials)
    reach = t_quantile((1 + LEVEL) / 2, np.inf) * error
    return value, max(0.0, value - reach), min(1.0, value + reach)


def fall_bound(then: ArrayLike, now: ArrayLike, level: float = LEVEL) -> tuple[float, float]:
    """Return how far a share of right answers fell, and a lower bound of that for other items and restarts.

    Items are paired. Where a side has two restarts or more, the bound for other restarts (their pooled spread, by
    Student's t) also counts, and the lower of both is returned.

    Args:
        then: right answers by restart and item, 1, 0, or NaN where an item was not asked, shape (R, n).
        now: the same, shape (S, n).
        level: of the two-sided bounds, of which the lower one is returned; by default it is wrong in 2.5 %.

    Returns:
        The fall (above 0: fewer right answers now) and its lower bound; both NaN where fewer than two items were asked
        on both sides.

    Example:
        Of four items three were lost:

        >>> fall, low = fall_bound([[1, 1, 1, 1]], [[0, 0, 0, 1]])
        >>> fall, round(low, 3)
        (0.75, -0.046)
    """
    before, after = np.atleast_2d(np.asarray(then, float)), np.atleast_2d(np.asarray(now, float))
    asked = np.isfinite(before).all(axis=0) & np.isfinite(after).all(axis=0)
    before, after = before[:, asked], after[:, asked]
    n = before.shape[1]
    if n < 2:
        return float("nan"), float("nan")
    falls = before.mean(axis=0) - after.mean(axis=0)
    fall = float(falls.mean())
    low = fall - t_quantile((1 + level) / 2, n - 1) * float(falls.std(ddof=1)) / float(np.sqrt(n))
    return fall, min(low, fall - _reach_of_restarts(before.mean(axis=1), after.mean(axis=1), level))


def _reach_of_restarts(before: NDArray[np.float64], after: NDArray[np.float64], level: float) -> float:
    """Return how far the difference of two means over restarts may lie from that of others; 0 where neither side has
    restarts.
    """
    sides = [side for side in (before, after) if len(side) > 1]
    freedom = sum(len(side) - 1 for side in sides)
    if not freedom:
        return 0.0
    pooled = sum(float(side.var(ddof=1)) * (len(side) - 1) for side in sides) / freedom
    error = np.sqrt(pooled * (1 / len(before) + 1 / len(after)))
    return t_quantile((1 + level) / 2, freedom) * float(error)
