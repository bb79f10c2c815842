"""The smallest worsening that a gate detects: one that turns it red in most releases.

``docs/evidence/coverage-restarts.md`` compares it with simulated releases; a small version is recomputed by
``tests/statistics/inference/test_detectable.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.statistics.gap_rms import signed_root
from pytest_genderbias.statistics.inference.intervals import FloatArray, bisected, t_quantile
from pytest_genderbias.statistics.inference.over_restarts import Prior, compare_restarts, next_restart
from pytest_genderbias.statistics.inference.paired import Distance

POWER = 0.8  #: the share of releases with a worsening that turn a gate red which sees it
_DOUBLINGS = 200  #: of a reach, until something is red
_NODES = (np.arange(64) + 0.5) / 64  #: probabilities at which a distribution is taken


def restarts_like(middle: float, spread: float, count: int) -> FloatArray:
    """Return restarts with a mean and a standard deviation, for the question what so many would see; one is the mean.

    >>> restarts_like(2.0, 1.0, 3).tolist(), restarts_like(2.0, 1.0, 1).tolist()
    ([1.0, 2.0, 3.0], [2.0])
    """
    places = np.arange(count) - (count - 1) / 2
    return np.asarray(middle + spread * places / (places.std(ddof=1) if count > 1 else 1.0), dtype=np.float64)


def red_from(
    restarts: ArrayLike,
    distance: Distance,
    prior: Prior | None = None,
    level: float = 0.975,
    tolerance: float = 0.0,
    root: bool = False,
) -> float:
    """Return the value of one more checkpoint from which on it is worse than the restarts, on the side on which their
    mean is bad.

    Args:
        restarts: the statistic of each restart of the baseline, shape (k,).
        distance: as in :func:`~pytest_genderbias.statistics.inference.over_restarts.compare_restarts`, as are the
            other arguments.
        prior: the spread of a restart in other trainings.
        level: of the lower bound that has to be above the tolerance.
        tolerance: the worsening that is allowed.
        root: whether the statistic is the signed root of a mean square.

    Raises:
        UndefinedError: so few restarts say nothing of others.

    Example:
        The upper prediction bound of 1, 2 and 3: 2 + 4.303 sqrt(4 / 3).

        >>> round(red_from([1.0, 2.0, 3.0], lambda v: v), 3)
        6.968
    """
    values = np.asarray(restarts, dtype=np.float64)
    middle = float(values.mean())
    side = _bad_side(middle, distance)

    def red(beyond: float) -> bool:
        now = [middle + side * beyond]
        return compare_restarts(values, now, distance, tolerance, level, prior, root).low > tolerance

    return middle + side * _smallest(red, max(abs(middle), float(np.ptp(values)), 1e-6))


def seen_over_restarts(
    restarts: ArrayLike,
    distance: Distance,
    prior: Prior | None = None,
    level: float = 0.975,
    tolerance: float = 0.0,
    root: bool = False,
) -> float:
    """Return the size of a true worsening at which one checkpoint is worse than stored restarts, in
    :data:`POWER` of releases.

    The value from which on it is worse is known (:func:`red_from`). A checkpoint of a training that is worse by d has
    the mean of the restarts plus d, plus Student's t times s sqrt(1 + 1 / k): s is the same, perhaps moderated, spread
    as in the bound, so that the probability holds over trainings, restarts and checkpoints. It is a distance that grows
    by d on the side of neutral on which the mean of the restarts lies; on the other side the same distance is red
    equally often. Where the true mean is exactly neutral, the true size is up to a tenth larger, and more with a prior
    that is too small.

    Args:
        restarts: the statistic of each restart of the baseline, shape (k,); :func:`restarts_like` makes those that are
            not there yet.
        distance: as in :func:`~pytest_genderbias.statistics.inference.over_restarts.compare_restarts`.
        prior: as there.
        level: of the lower bound that has to be above the tolerance, one-sided.
        tolerance: the worsening that is allowed.
        root: whether the statistic is the signed root of a mean square.

    Returns:
        The worsening in units of the statistic, above 0.

    Raises:
        UndefinedError: so few restarts say nothing of others.

    Example:
        Three restarts with s = 1: (4.303 + 1.061) sqrt(4 / 3).

        >>> round(seen_over_restarts([1.0, 2.0, 3.0], lambda v: v), 3)
        6.193
    """
    from scipy.special import stdtrit

    middle, error, freedom = next_restart(restarts, prior, root)
    at = red_from(restarts, distance, prior, level, tolerance, root)
    further = t_quantile(POWER, freedom) * error
    if root:  # less the expected root of the true mean square, which varies as that of so many restarts does
        drawn = error / (len(np.atleast_1d(restarts)) + 1) ** 0.5 * stdtrit(freedom, _NODES)
        return float(signed_root(at * abs(at) + further) - float(signed_root(middle + drawn).mean()))
    mean = np.array([at + _bad_side(middle, distance) * further, middle])
    return float(-np.diff(distance(mean))[0])


def seen_over_items(
    paired_se: float,
    beyond: float,
    items_freedom: float,
    level: float = 0.975,
    tolerance: float = 0.0,
    trainings: float | None = None,
) -> float:
    """Return the size of a true worsening at which one checkpoint is worse than another, in :data:`POWER` of releases.

    The difference of the two varies over items and over trainings. It is worse where it is larger than the reach of
    :func:`~pytest_genderbias.statistics.inference.paired.with_retraining`, in which the error over items is estimated
    anew from each release.

    Args:
        paired_se: standard error over items of the difference, the same items paired, in units of the statistic.
        beyond: standard deviation of the difference of two equal trainings beyond that, as ``spread`` of
            ``with_retraining``.
        items_freedom: degrees of freedom of ``paired_se``: one less than the number of items.
        level: of the lower bound that has to be above the tolerance, one-sided.
        tolerance: the worsening that is allowed.
        trainings: standard deviation of the difference of two equal trainings on the same items. By default that of
            releases that are measured on other items each.

    Example:
        Without retraining, over many items: (1.96 + .842) standard errors.

        >>> round(seen_over_items(1.0, 0.0, float("inf")), 3)
        2.802
    """
    from scipy.special import chdtri, ndtr

    # An estimated variance divided by the true one.
    squares = np.ones(1) if np.isinf(items_freedom) else chdtri(items_freedom, _NODES) / items_freedom
    drawn = paired_se * np.sqrt(squares)
    needed = np.hypot(t_quantile(level, items_freedom) * drawn, t_quantile(level, np.inf) * beyond) + tolerance
    error = float(np.sqrt(paired_se**2 + beyond**2)) if trainings is None else trainings
    if not error:  # every release has the true worsening
        return float(np.quantile(needed, POWER))
    return _smallest(lambda size: float(ndtr((size - needed) / error).mean()) >= POWER, error)


def _bad_side(middle: float, distance: Distance) -> float:
    """Return 1 if larger values than the middle are worse, else -1."""
    step = 1e-9 * max(1.0, abs(middle))
    below, above = distance(np.array([middle - step, middle + step]))
    return 1.0 if above >= below else -1.0


def _smallest(holds: Callable[[float], bool], scale: float) -> float:
    """Return the smallest number above 0 from which on something holds, by bisection; infinite if it never does."""
    low, high = 0.0, scale
    for _ in range(_DOUBLINGS):
        if holds(high):
            break
        low, high = high, 2 * high
    else:
        return np.inf
    return bisected(holds, low, high)
