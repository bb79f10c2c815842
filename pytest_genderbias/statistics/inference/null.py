"""The permutation test: a measured value against the values that shuffles give; and p values of several tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError

FloatArray = NDArray[np.float64]

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


def holm(p: ArrayLike) -> NDArray[np.float64]:
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
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    left = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(left * values[order]), 1.0)
    return adjusted


def _p_values(p: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p values lie between 0 and 1")
    return values
