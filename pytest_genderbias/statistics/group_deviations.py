"""Deviations of any number of groups from their mean, where each unit (a prompt) has a value for every group.

Chance makes groups differ, the more of them the more. The mean square of the deviations is too large by their sampling
variances, which the units show; what is left is unbiased (:mod:`~pytest_genderbias.statistics.gap_rms`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.correlation import product_sums, slope
from pytest_genderbias.statistics.gap_rms import UnitGaps, gap_interval, rms_of_gaps, signed_root
from pytest_genderbias.statistics.inference.intervals import (
    Columns,
    FloatArray,
    Interval,
    Parameters,
    clustered_mean_interval,
    in_blocks,
    t_above,
    t_quantile,
)

_LEVEL = 0.95
_DRAWS = 20_000
_BLOCK = 2_000_000  #: exchanged values held at a time


def contrasts(values: ArrayLike) -> FloatArray:
    r"""Return K - 1 independent contrasts of K groups, whose mean square is that of the deviations from the mean.

    Helmert's: the mean of the first j groups minus the next one, times :math:`\sqrt{j / (j + 1)}
    \sqrt{(K - 1) / K}`. Deviations themselves sum to zero, so that their errors hang together; of two groups they are
    one number twice.

    Args:
        values: by unit and group, shape (..., K).

    Returns:
        Shape (..., K - 1).

    Example:
        The mean of 1, 3 and 8 is 4; the deviations are -3, -1 and 4, and their mean square is 26 / 3.

        >>> z = contrasts([1.0, 3.0, 8.0])
        >>> round(float(np.square(z).mean()), 4), round(26 / 3, 4)
        (8.6667, 8.6667)
    """
    y = np.asarray(values, dtype=np.float64)
    groups = y.shape[-1]
    before = np.arange(1, groups)
    means = np.cumsum(y, axis=-1)[..., :-1] / before
    return np.asarray((means - y[..., 1:]) * np.sqrt(before / (before + 1) * (groups - 1) / groups))


def contrast_columns(values: ArrayLike) -> FloatArray:
    """Return the sums of each unit for :func:`rms_of_contrast_sums`: 1, the contrasts, and their squares.

    >>> contrast_columns([[0.75, 0.25]]).tolist()
    [[1.0, 0.25, 0.0625]]
    """
    z = contrasts(values)
    return np.concatenate([np.ones((*z.shape[:-1], 1)), z, np.square(z)], axis=-1)


def _means_and_variances(totals: FloatArray) -> tuple[FloatArray, FloatArray]:
    n, (sums, squares) = totals[..., :1], np.split(totals[..., 1:], 2, axis=-1)
    means = sums / np.maximum(n, 1.0)
    variances = np.maximum(squares - n * np.square(means), 0.0) / np.maximum(n * (n - 1), 1.0)
    return np.where(n > 1, means, np.nan), variances


def rms_of_contrast_sums(totals: FloatArray) -> FloatArray:
    """Return the root mean square of the groups' deviations from their mean, without noise.

    Args:
        totals: of :func:`contrast_columns`, shape (..., 2 K - 1).

    Returns:
        Shape (...), in units of the values; 0 is neutral, higher is worse, below 0 the groups differ less than chance
        makes them. NaN for fewer than two units.

    Example:
        Two groups differ by .4 and .2: half of the mean is .15, with the variance .05 squared.

        >>> values = np.array([[0.9, 0.5], [0.7, 0.5]])
        >>> round(float(rms_of_contrast_sums(contrast_columns(values).sum(axis=0))), 6)
        0.141421
        >>> round((0.15**2 - 0.05**2) ** 0.5, 6)
        0.141421
    """
    return rms_of_gaps(*_means_and_variances(totals))


def unit_gaps_of_contrasts(sums: FloatArray, parameters: Parameters | None = None, columns: Columns = ()) -> UnitGaps:
    """Return the means of the contrasts and what each unit adds to their errors, from :func:`contrast_columns`, shape
    (G, 2 K - 1).

    Errors are larger by the ratio of Student's t to the normal quantile: their size is known from the units alone.

    >>> found = unit_gaps_of_contrasts(contrast_columns(np.array([[0.9, 0.5], [0.7, 0.5]] * 500)))
    >>> found.gaps.round(3).tolist(), found.variances.round(9).tolist(), found.unit
    ([0.15], [2.509e-06], 0.5)
    """
    n, z = len(sums), np.split(sums[:, 1:], 2, axis=-1)[0]
    means, _ = _means_and_variances(sums.sum(axis=0))
    wider = t_quantile((1 + _LEVEL) / 2, n - 1) / t_quantile((1 + _LEVEL) / 2, np.inf) if n > 1 else 1.0
    largest = float(np.abs(z).max(initial=0.0))
    unit = 2.0 ** (np.ceil(np.log2(largest)) + 1) if largest > 0 else 1.0
    return UnitGaps(means, (z - means) * wider / np.sqrt(max(n * (n - 1), 1)), float(unit))


def group_rms(values: ArrayLike) -> float:
    """Return :func:`rms_of_contrast_sums` of the values of each unit and group, shape (n, K).

    Raises:
        UndefinedError: there are fewer than two units.
    """
    value = float(rms_of_contrast_sums(contrast_columns(values).sum(axis=0)))
    if np.isnan(value):
        raise UndefinedError("one item does not show what chance does; at least two are needed")
    return value


def group_rms_interval(values: ArrayLike, over: str) -> Interval | None:
    """Return the interval of :func:`group_rms` for other units of the same kind, ``over`` what these are; ``None``
    where no two units differ.
    """
    columns = contrast_columns(values)
    gaps = unit_gaps_of_contrasts(columns)
    found = gap_interval(gaps.gaps, gaps.variances, over, unit=gaps.unit)
    return None if found is None else replace(found, items=len(columns))


def squared_deviations(values: ArrayLike) -> FloatArray:
    """Return the mean squared deviation of the groups from their mean in each unit, without what its cases add.

    Args:
        values: by unit, case (such as a template) and group, shape (..., n, T, K).

    Returns:
        Shape (..., n), unbiased for other cases of the unit, and so perhaps below 0; NaN for fewer than two cases.

    Example:
        Two groups differ by 2 and 1: half of the mean is .75, and the variance of that .25 squared.

        >>> squared_deviations([[[2.0, 0.0], [1.0, 0.0]]]).tolist(), 0.75**2 - 0.25**2
        ([0.5], 0.5)
    """
    z = contrasts(values)
    cases = z.shape[-2]
    if cases < 2:
        return np.full(z.shape[:-2], np.nan)
    return np.asarray((np.square(z.mean(axis=-2)) - z.var(axis=-2, ddof=1) / cases).mean(axis=-1))


def root_of_mean(totals: FloatArray) -> FloatArray:
    """Return the signed root of the first total divided by the second, shape (..., 2) to (...).

    >>> root_of_mean(np.array([[8.0, 2.0], [-0.5, 2.0]])).tolist()
    [2.0, -0.5]
    """
    return signed_root(totals[..., 0] / np.maximum(totals[..., 1], 1e-300))


def root_of_mean_interval(squares: ArrayLike, over: str) -> Interval | None:
    """Return the interval of the signed root of a mean, for other units of the same kind.

    Args:
        squares: of each unit, shape (n,).
        over: what a unit is, in the plural.

    >>> found = root_of_mean_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "occupations")
    >>> found.low < 3.5 ** 0.5 < found.high
    True
    """
    values = np.asarray(squares, dtype=np.float64)
    found = clustered_mean_interval(values, np.ones(len(values)), over)
    if found is None:
        return None
    low, high = signed_root([found.low, found.high]).tolist()
    return replace(found, low=low, high=high)


def exchanged_deviations(values: ArrayLike, repeats: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the root of the mean of :func:`squared_deviations`, and the root mean square of the units' means, after
    random exchanges of the groups within every case; each of shape (repeats,).

    Args:
        values: by unit, case and group, shape (n, T, K).

    >>> found, of_means = exchanged_deviations(np.zeros((4, 3, 2)), 5, seed=0)
    >>> found.tolist() == of_means.tolist() == [0.0] * 5
    True
    """

    def figures(drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
        of_means = rms_of_contrast_sums(contrast_columns(drawn.mean(axis=-2)).sum(axis=-2))
        return signed_root(squared_deviations(drawn).mean(axis=-1)), of_means

    return _exchanged(values, repeats, seed, figures)


def _exchanged(
    values: ArrayLike, repeats: int, seed: int, figures: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """Return two figures of values whose last axis, the groups, is in random orders; each of shape (repeats,)."""
    y, rng = np.asarray(values, dtype=np.float64), np.random.default_rng(seed)
    drawn = (rng.permuted(np.broadcast_to(y, (n, *y.shape)), axis=-1) for n in in_blocks(repeats, y.size, _BLOCK))
    first, second = zip(*map(figures, drawn), strict=True)
    return np.concatenate(first), np.concatenate(second)


def largest_difference(values: ArrayLike) -> float:
    """Return the mean of the highest group minus that of the lowest. Chance raises it, the more groups the more.

    >>> largest_difference([[1.0, 2.0, 6.0], [1.0, 4.0, 6.0]])
    5.0
    """
    return float(np.ptp(np.asarray(values, dtype=np.float64).mean(axis=0)))


def simultaneous_level(differences: ArrayLike) -> float:
    """Return the level of each of J intervals with which all of them hold together in 95 % of measurements.

    Dunnett's and Tukey and Kramer's reach is a quantile of the largest of several Student's t; here their correlations
    are those of the differences by unit, since a unit compares all groups. 20,000 draws with a fixed seed.

    Args:
        differences: by unit, shape (n, J).

    Returns:
        From .95, for differences that go together, to 1 - .05 / J (Bonferroni).

    >>> d = np.random.default_rng(0).normal(size=(30, 3))
    >>> 0.98 < simultaneous_level(d) <= 1 - 0.05 / 3, round(simultaneous_level(d[:, [0, 0]]), 2)
    (True, 0.95)
    """
    d = np.asarray(differences, dtype=np.float64)
    left = d - d.mean(axis=0)
    spread = np.sqrt(np.square(left).sum(axis=0))
    varies = spread > 1e-12 * np.maximum(np.abs(d).max(axis=0), 1e-300)
    if len(d) < 2 or varies.sum() < 2:
        return _LEVEL
    root = np.linalg.qr(left[:, varies] / spread[varies], mode="r")
    rng, freedom = np.random.default_rng(0), len(d) - 1
    t = rng.standard_normal((_DRAWS, len(root))) @ root / np.sqrt(rng.chisquare(freedom, (_DRAWS, 1)) / freedom)
    reach = float(np.quantile(np.abs(t).max(axis=1), _LEVEL))
    return float(np.clip(1 - 2 * t_above(reach, freedom), _LEVEL, 1 - (1 - _LEVEL) / varies.sum()))


def compared(
    values: ArrayLike, pairs: Sequence[tuple[int, int]], over: str, bounds: tuple[float, float] | None = None
) -> list[tuple[float, Interval | None]]:
    """Return the mean difference of pairs of groups, with bounds that hold for all of them together.

    Each interval is the bootstrap-t of the differences by unit, at the level of :func:`simultaneous_level`.

    Args:
        values: by unit and group, shape (n, K).
        pairs: numbers of a group and of the one that is subtracted from it.
        over: what a unit is, in the plural.
        bounds: limits that a difference cannot pass.

    Returns:
        A difference with its interval a pair, ``None`` where too few units differ.

    >>> compared([[3.0, 2.0, 1.0]], [(0, 2), (1, 2)], "prompts")
    [(2.0, None), (1.0, None)]
    """
    y = np.asarray(values, dtype=np.float64)
    differences = np.stack([y[:, one] - y[:, other] for one, other in pairs], axis=1)
    level = simultaneous_level(differences)
    return [(float(d.mean()), clustered_mean_interval(d, np.ones(len(d)), over, level, bounds)) for d in differences.T]


def against_reference(groups: int) -> list[tuple[int, int]]:
    """Return the pairs of each group and the last one, the reference.

    >>> against_reference(3)
    [(0, 2), (1, 2)]
    """
    return [(group, groups - 1) for group in range(groups - 1)]


def exchanged_groups(values: ArrayLike, repeats: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the root mean square, and the mean of the first group minus the last one, after each of ``repeats`` random
    exchanges of the groups within every unit; each of shape (repeats,).

    Args:
        values: by unit and group, shape (n, K).

    >>> rms, difference = exchanged_groups([[1.0, 0.0], [1.0, 0.0]], 40, seed=0)
    >>> sorted(set(difference.tolist()))
    [-1.0, 0.0, 1.0]
    """

    def figures(drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
        rms = rms_of_contrast_sums(contrast_columns(drawn).sum(axis=-2))
        return rms, (drawn[..., 0] - drawn[..., -1]).mean(axis=-1)

    return _exchanged(values, repeats, seed, figures)


def group_contrast(values: ArrayLike, in_first: ArrayLike) -> float:
    """Return the mean of the first group minus the mean of the second.

    :math:`\\frac1{n_1} \\sum_{i \\in 1} v_i - \\frac1{n_2} \\sum_{i \\in 2} v_i`, unbounded, in units of the values; 0
    is neutral, away from it is worse. A constant that is added to all values cancels. It is the least-squares slope of
    the values on 1 (first group) and 0 (second), so that the interval of a slope, whose HC3 error allows unequal
    variances, is its interval.

    Args:
        values: of each unit, such as the logarithm of P(she) / P(he), shape (n,).
        in_first: whether a unit belongs to the first group, shape (n,).

    Raises:
        UndefinedError: fewer than three units, or all of them are in one group.

    Example:
        Of the first group 3 and 1, of the second 0 and -2: 2 - (-1).

        >>> round(group_contrast([3.0, 1.0, 0.0, -2.0], [True, True, False, False]), 9)
        3.0
    """
    return slope(np.asarray(in_first, dtype=np.float64), values)


def contrast_values(scores: ArrayLike, in_first: ArrayLike) -> FloatArray:
    """Return a value of each unit for every group of persons, whose mean is that group's :func:`group_contrast`, and
    whose variance over the units is that of the contrast.

    A unit has the contrast and its own distance from the mean of its side, which is scaled so that the variance of the
    mean is :math:`s_1^2 / n_1 + s_2^2 / n_2`.

    Args:
        scores: of each unit by group of persons, shape (..., n, K).
        in_first: whether a unit belongs to the first side, shape (n,).

    Raises:
        UndefinedError: a side has fewer than two units.

    Example:
        3 and 1 on the first side, 0 and -2 on the second: the contrast is 3, with the variance 2 / 2 + 2 / 2.

        >>> values = contrast_values([[3.0], [1.0], [0.0], [-2.0]], [True, True, False, False])
        >>> float(values.mean()), round(float(values.var(ddof=1) / 4), 9)
        (3.0, 2.0)
    """
    y, first = np.asarray(scores, dtype=np.float64), np.asarray(in_first, dtype=np.bool_)
    n, sides = len(first), (first, ~first)
    if min(side.sum() for side in sides) < 2:
        raise UndefinedError("two units on either side are needed to compare the sides")
    means = [y[..., side, :].mean(axis=-2, keepdims=True) for side in sides]
    values = np.broadcast_to(means[0] - means[1], y.shape).copy()
    for side, mean in zip(sides, means, strict=True):
        m = float(side.sum())
        values[..., side, :] += (y[..., side, :] - mean) * np.sqrt(n * (n - 1) / (m * (m - 1)))
    return values


def shuffled_contrast_rms(scores: ArrayLike, in_first: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return the root mean square of :func:`contrast_values` after random shuffles of the units' scores, shape
    (repeats,). Arguments as there, ``scores`` of shape (n, K).

    >>> scores, first = np.eye(4)[:, :2], [True, True, False, False]
    >>> len(shuffled_contrast_rms(scores, first, 5, seed=0))
    5
    """
    y = np.asarray(scores, dtype=np.float64)
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(len(y)), (repeats, 1)), axis=1)
    return rms_of_contrast_sums(contrast_columns(contrast_values(y[order], in_first)).sum(axis=-2))


def shuffled_lines(x: ArrayLike, y: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return totals of sums of products after random shuffles of y over the units.

    The sums are those of :func:`~pytest_genderbias.statistics.correlation.product_sums`.

    Args:
        x: share, or group as 1 and 0, of each unit, shape (n,).
        y: value of each unit, shape (n,).
        repeats: number of shuffles R. The same seed shuffles alike, whatever x is.
        seed: seed of the shuffles.

    Returns:
        Shape (R, 6).

    Example:
        The sum of the products is 1 * 1 or 1 * 2, by which value is beside the 1.

        >>> sorted(set(shuffled_lines([1.0, 0.0], [1.0, 2.0], 50, seed=0)[:, 5].tolist()))
        [1.0, 2.0]
    """
    values = np.asarray(y, dtype=np.float64)
    shuffled = np.random.default_rng(seed).permuted(np.tile(values, (repeats, 1)), axis=1)
    return np.asarray(product_sums(np.asarray(x, dtype=np.float64), shuffled).sum(axis=1))
