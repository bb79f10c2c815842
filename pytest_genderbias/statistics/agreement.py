"""Agreement of an intrinsic with an extrinsic figure of bias over models: debiasing methods, each with several seeds
(orgad2022, table 2).

``docs/evidence/coverage-agreement.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/test_agreement_statistics.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.correlation import pearson, pearson_of_sums, product_sums, slope, slope_of_sums
from pytest_genderbias.statistics.inference.intervals import FloatArray, Interval
from pytest_genderbias.statistics.student import t_quantile

IntArray = NDArray[np.int64]

RESAMPLES = 1999
_FEWEST_POINTS = 3
_NO_DIFFERENCE = 1e-12  #: relative to the largest value
_FEWEST_METHODS = 3  #: two methods are drawn in four ways only
_MOST_UNDEFINED = 0.025  #: share of resamples without a value, above which no bounds are given
_LARGEST_R = 1 - 1e-12  #: Fisher's z of a resample of two distinct points is finite
_BLOCK = 1_000_000  #: points of resamples in memory at a time
_OVER_METHODS, _OVER_SEEDS = "methods, and seeds within them", "seeds of the same methods"


@dataclass(frozen=True)
class Agreement:
    """How an extrinsic figure of bias goes with an intrinsic one, over points, one per method and seed.

    Attributes:
        r: Pearson's r, -1 to 1. 1: the intrinsic figure ranks models as the extrinsic one does; 0: it says nothing of
            it.
        r_squared: of the least-squares line, the square of r: the share of the extrinsic variance that the line
            explains.
        slope: of that line, extrinsic per intrinsic.
        intercept: of that line, extrinsic.
        r_bounds: bounds of r for other methods and other seeds; None for fewer than three methods, or if more than 2.5
            % of the resamples have no value.
        r_squared_bounds: bounds of R squared, from those of r.
        slope_bounds: bounds of the slope, as those of r.
        r_bounds_of_seeds: bounds of r for other seeds of the same methods; None where a method has one seed only.
        points: number of points.
        methods: number of methods.
    """

    r: float
    r_squared: float
    slope: float
    intercept: float
    r_bounds: Interval | None
    r_squared_bounds: Interval | None
    slope_bounds: Interval | None
    r_bounds_of_seeds: Interval | None
    points: int
    methods: int


def agreement(
    methods: Sequence[object],
    intrinsic: ArrayLike,
    extrinsic: ArrayLike,
    *,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Return Pearson's r, R squared and slope of an extrinsic figure on an intrinsic one, with hierarchical bootstrap
    bounds.

    Points of one method are alike, so they do not count as independent: methods are resampled, and then seeds within
    each drawn method. The bounds are symmetric on Fisher's z: z ± t / 1.96 times half the range between the 2.5th and
    the 97.5th percentile of the resampled z, with Student's t of as many degrees as there are methods, less one, since
    percentiles alone are too narrow for few methods (**choice**). The bounds of the slope are the same without z.
    ``r_bounds_of_seeds`` resamples seeds only, with the t of the fewest seeds of a method, less one.

    Args:
        methods: the debiasing method of each point, shape (n,).
        intrinsic: the intrinsic figure of each point, such as compression, shape (n,).
        extrinsic: the extrinsic figure of each point, such as a gap, shape (n,).
        resamples: number of resamples.
        level: confidence level of the bounds.
        seed: seed of the resamples.

    Raises:
        UndefinedError: fewer than three points, a value is not finite, or one of the figures is the same for all
            points.
        ValueError: the sequences have different lengths.

    Example:
        Deviations -1, 0, 1 and -1, 1, 0: r = 1 / 2, slope = 1 / 2, and the line passes through the means 2 and 2.

        >>> result = agreement(["none", "cda", "scrubbing"], [1, 2, 3], [1, 3, 2])
        >>> round(result.r, 6), round(result.r_squared, 6), round(result.slope, 6), round(result.intercept, 6)
        (0.5, 0.25, 0.5, 1.0)
    """
    x, y = _checked(intrinsic, "intrinsic"), _checked(extrinsic, "extrinsic")
    if not len(methods) == len(x) == len(y):
        raise ValueError(f"expected a method and two figures a point, got {len(methods)}, {len(x)} and {len(y)}")
    r, b = pearson(x, y), slope(x, y)
    groups = _rows_by_method(methods)
    products = product_sums(_standardised(x), _standardised(y))  # r is the same, and rounding is small
    rng = np.random.default_rng(seed)
    r_over_methods, slope_over_methods = _resampled(products, groups, resamples, rng, draw_methods=True)
    r_over_seeds, _ = _resampled(products, groups, resamples, rng, draw_methods=False)
    several, seeds = len(groups) >= _FEWEST_METHODS, min(map(len, groups))
    scale = float(y.std() / x.std())
    r_bounds = _stretched(r, r_over_methods, level, len(groups), _OVER_METHODS, fisher=True) if several else None
    return Agreement(
        r,
        r * r,
        b,
        float(y.mean() - b * x.mean()),
        r_bounds,
        None if r_bounds is None else _squared(r_bounds),
        _stretched(b, scale * slope_over_methods, level, len(groups), _OVER_METHODS) if several else None,
        _stretched(r, r_over_seeds, level, seeds, _OVER_SEEDS, fisher=True) if seeds > 1 else None,
        len(x),
        len(groups),
    )


def hierarchical_draws(
    sizes: Sequence[int], resamples: int, rng: np.random.Generator, draw_methods: bool = True
) -> tuple[IntArray, IntArray]:
    """Return the draws of a hierarchical bootstrap: methods with replacement, then as many points of each drawn method
    as it has.

    Args:
        sizes: number of points of each method, shape (M,).
        resamples: number of resamples R.
        rng: generates the draws.
        draw_methods: whether methods are drawn; otherwise each is taken once.

    Returns:
        The drawn methods, shape (R, M), and the drawn points of each, numbered from 0 within the method, shape (R, M,
        largest size); -1 beyond the size of the method.

    Example:
        >>> methods, points = hierarchical_draws([2, 1], 3, np.random.default_rng(0))
        >>> methods.shape, points.shape, bool((points[methods == 1] == [0, -1]).all())
        ((3, 2), (3, 2, 2), True)
    """
    counts = np.asarray(sizes, dtype=np.int64)
    shape = (resamples, len(counts))
    drawn = rng.integers(len(counts), size=shape) if draw_methods else np.broadcast_to(np.arange(len(counts)), shape)
    largest = int(counts.max())
    size = counts[drawn][..., None]
    points = np.floor(rng.random((*shape, largest)) * size).astype(np.int64)
    return drawn, np.where(np.arange(largest) < size, points, -1)


def _checked(values: ArrayLike, name: str) -> FloatArray:
    """Return the values of a figure.

    Raises:
        UndefinedError: r and slope are undefined.
    """
    figure = np.asarray(values, dtype=np.float64)
    if len(figure) < _FEWEST_POINTS:
        raise UndefinedError(f"{len(figure)} points are too few, {_FEWEST_POINTS} are needed")
    if not np.isfinite(figure).all():
        raise UndefinedError(f"the {name} figure of a point is not a finite number")
    if np.ptp(figure) <= _NO_DIFFERENCE * np.abs(figure).max():
        raise UndefinedError(f"the {name} figure is the same for all points")
    return figure


def _rows_by_method(methods: Sequence[object]) -> list[IntArray]:
    """Return the numbers of the points of each method, in the order of first occurrence."""
    rows: dict[object, list[int]] = {}
    for place, method in enumerate(methods):
        rows.setdefault(method, []).append(place)
    return [np.asarray(places, dtype=np.int64) for places in rows.values()]


def _standardised(values: FloatArray) -> FloatArray:
    return np.asarray((values - values.mean()) / values.std(), dtype=np.float64)


def _resampled(
    products: FloatArray, groups: Sequence[IntArray], resamples: int, rng: np.random.Generator, draw_methods: bool
) -> tuple[FloatArray, FloatArray]:
    """Return r and slope of each resample, shape (resamples,), NaN where they are undefined.

    ``products`` are those of each point, shape (n, 6).
    """
    sizes = [len(rows) for rows in groups]
    padded = np.zeros((len(groups), max(sizes) + 1, products.shape[1]))  # the last column stays 0, for -1
    for number, rows in enumerate(groups):
        padded[number, : len(rows)] = products[rows]
    at_once = max(1, _BLOCK // (len(groups) * max(sizes)))
    totals = []
    for done in range(0, resamples, at_once):
        drawn, points = hierarchical_draws(sizes, min(at_once, resamples - done), rng, draw_methods)
        totals.append(padded[drawn[..., None], points].sum(axis=(1, 2)))
    sums = np.concatenate(totals)
    with np.errstate(invalid="ignore", divide="ignore"):
        return pearson_of_sums(sums), slope_of_sums(sums)


def _stretched(
    estimate: float, resampled: FloatArray, level: float, units: int, over: str, fisher: bool = False
) -> Interval | None:
    """Return estimate ± t / z times half the range between percentiles of the resamples, on Fisher's z if
    ``fisher``.
    """
    known = resampled[np.isfinite(resampled)]
    if len(known) < (1 - _MOST_UNDEFINED) * len(resampled):
        return None
    if fisher:
        known = np.arctanh(np.clip(known, -_LARGEST_R, _LARGEST_R))
        estimate = float(np.arctanh(np.clip(estimate, -_LARGEST_R, _LARGEST_R)))
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    factor = t_quantile((1 + level) / 2, units - 1) / NormalDist().inv_cdf((1 + level) / 2)
    half = factor * float(high - low) / 2
    bounds = [estimate - half, estimate + half]
    if fisher:
        bounds = [float(np.tanh(bound)) for bound in bounds]
    scale = "Fisher's z of " if fisher else ""
    method = f"half the range of {scale}{len(known):,} resamples, times t({units - 1}) / z"
    return Interval(bounds[0], bounds[1], level, over, method, units)


def _squared(bounds: Interval) -> Interval:
    """Return the bounds of R squared: 0 is inside where the bounds of r have two signs."""
    low, high = sorted((bounds.low**2, bounds.high**2))
    return replace(bounds, low=0.0 if bounds.low < 0 < bounds.high else low, high=high)
