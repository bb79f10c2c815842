"""Agreement of an intrinsic with an extrinsic figure of bias over models: debiasing methods, each with several seeds
(orgad2022, table 2); and of the two ways to ask a model, by the probabilities of options and by its replies in text.

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
from pytest_genderbias.statistics.inference.intervals import FloatArray, Interval, in_blocks, share_interval, t_quantile
from pytest_genderbias.statistics.multiple_choice import choices

IntArray = NDArray[np.int64]

RESAMPLES = 1999
_FEWEST_POINTS = 3
_NO_DIFFERENCE = 1e-12  #: relative to the largest value
_FEWEST_METHODS = 3  #: two methods are drawn in four ways only
_MOST_UNDEFINED = 0.025  #: share of resamples without a value, above which no bounds are given
_LARGEST_R = 1 - 1e-12  #: Fisher's z of a resample of two distinct points is finite
_BLOCK = 1_000_000  #: points of resamples in memory at a time
_OVER_METHODS, _OVER_SEEDS = "methods, and seeds within them", "seeds of the same methods"
_OVER = "items"
_DRAWS = 200  #: of all replies from the probabilities
_SEED = 1999
_ROUNDING = 1e-12


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
    rows: dict[object, list[int]] = {}
    for place, method in enumerate(methods):
        rows.setdefault(method, []).append(place)
    groups = [np.asarray(places, dtype=np.int64) for places in rows.values()]  # in the order of first occurrence
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
    totals = []
    for size in in_blocks(resamples, len(groups) * max(sizes), _BLOCK):
        drawn, points = hierarchical_draws(sizes, size, rng, draw_methods)
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


@dataclass(frozen=True)
class TextAgreement:
    """How far replies in text are what the probabilities say.

    Attributes:
        share: questions in which the most probable option is the most frequent reply, 0 to 1; its bounds are for other
            items.
        drawn_share: the same, if each reply that picks an option were drawn from the probabilities: what few replies
            leave of 1.
        r: Pearson's r of the probability and the rate of each option, its mean over the questions taken out; ``None``
            where one of the two is the same in all questions. Its bounds are for other items.
        drawn_r: the same, if each reply were drawn from the probabilities.
        refused: replies that decline, 0 to 1.
        unreadable: replies that cannot be read, 0 to 1.
    """

    share: float
    share_bounds: Interval | None
    drawn_share: float
    r: float | None
    r_bounds: Interval | None
    drawn_r: float | None
    refused: float
    unreadable: float


def picks_in_common(probabilities: ArrayLike, counts: ArrayLike) -> FloatArray:
    """Return whether the most probable option is the most frequent reply, from 0 to 1 where several are.

    Args:
        probabilities: of the options of each question, shape (n, K).
        counts: replies that pick each option, and then those that decline and that cannot be read, shape (n, K + 2).
            These two are replies, too: where they are the most frequent, no option is.

    Returns:
        Shape (n,).

    Example:
        The second question has two replies of each kind, and in the third most replies cannot be read.

        >>> picks_in_common([[0.9, 0.1]] * 3, [[3, 1, 0, 0], [2, 2, 0, 0], [2, 0, 0, 3]]).tolist()
        [1.0, 0.5, 0.0]
    """
    p, replies = np.asarray(probabilities, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    frequent = choices(replies / replies.sum(axis=1, keepdims=True))
    return np.asarray((choices(p) * frequent[:, : p.shape[1]]).sum(axis=1))


def option_rates(counts: ArrayLike) -> FloatArray:
    """Return the rate of each option among the replies that pick one, shape (n, K); NaN where none does.

    >>> option_rates([[3, 1, 0, 4], [0, 0, 2, 0]]).tolist()
    [[0.75, 0.25], [nan, nan]]
    """
    picked = np.asarray(counts, dtype=np.float64)[:, :-2]
    total = picked.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(picked, total, out=np.full_like(picked, np.nan), where=total > 0))


def text_agreement(probabilities: ArrayLike, counts: ArrayLike, items: ArrayLike) -> TextAgreement:
    """Return how far the replies to n questions are what the probabilities of their options say.

    A label that is always preferred makes no r, since the mean of each is taken out. The bounds of the share are those
    of :func:`~pytest_genderbias.statistics.inference.intervals.share_interval`, those of r a bootstrap of items and of
    what they have (:func:`~pytest_genderbias.statistics.agreement.agreement`).

    Args:
        probabilities: of the K options, each row with the sum 1, shape (n, K).
        counts: as of :func:`picks_in_common`, shape (n, K + 2).
        items: what each question belongs to, shape (n,).

    Raises:
        ValueError: there is no question, or one without a reply.

    Example:
        >>> found = text_agreement([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9]], [[5, 0, 0, 0], [3, 2, 0, 0], [0, 5, 0, 0]],
        ...     [0, 1, 2])
        >>> found.share, round(found.r, 4)
        (1.0, 0.9996)
    """
    p, replies = np.asarray(probabilities, dtype=np.float64), np.asarray(counts, dtype=np.int64)
    if not len(p) or not replies.any(axis=1).all():
        raise ValueError("expected at least one question, and replies to each")
    labels, index = np.unique(np.asarray(items), return_inverse=True)
    common = picks_in_common(p, replies)
    share = share_interval(np.bincount(index, common, len(labels)), np.bincount(index), _OVER)
    r, bounds = _correlation(p, replies, index)
    draws = _drawn(p, replies)
    correlations = [one for one in (_pearson(p, drawn) for drawn in draws) if one is not None]
    return TextAgreement(
        float(common.mean()),
        share,
        float(np.mean([picks_in_common(p, drawn).mean() for drawn in draws])),
        r,
        bounds,
        float(np.mean(correlations)) if correlations else None,
        float(replies[:, -2].sum() / replies.sum()),
        float(replies[:, -1].sum() / replies.sum()),
    )


def _drawn(p: FloatArray, replies: IntArray) -> list[IntArray]:
    """Return the counts again, with the replies that pick an option drawn from the probabilities."""
    rng, options = np.random.default_rng(_SEED), replies[:, :-2].sum(axis=1)
    return [np.concatenate([rng.multinomial(options, p), replies[:, -2:]], axis=1) for _ in range(_DRAWS)]


def _points(p: FloatArray, replies: IntArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return probability and rate of each option without the mean of its label, for the options that are known, and
    which are, shape (n, K): those of questions in which a reply picks an option.
    """
    rates = option_rates(replies)
    known = np.isfinite(rates)
    return _without_means(p, known)[known], _without_means(rates, known)[known], known


def _without_means(values: FloatArray, known: NDArray[np.bool_]) -> FloatArray:
    """Return values without the mean of their column; 0 where that leaves rounding only."""
    if not known.any():
        return np.full_like(values, np.nan)
    rest = np.where(known, values - values.mean(axis=0, where=known), np.nan)
    return np.where(np.abs(rest) < _ROUNDING, 0.0, rest)


def _pearson(p: FloatArray, replies: IntArray) -> float | None:
    x, y, _ = _points(p, replies)
    try:
        return pearson(x, y)
    except UndefinedError:
        return None


def _correlation(p: FloatArray, replies: IntArray, items: IntArray) -> tuple[float | None, Interval | None]:
    x, y, known = _points(p, replies)
    of_items = np.broadcast_to(items[:, None], p.shape)[known]
    try:
        found = agreement(of_items.tolist(), x, y)
    except UndefinedError:
        return None, None
    return found.r, found.r_bounds
