"""Independence, separation, sufficiency: distances of each group's distribution from the overall one (orgad2022, 3 and
A.4.1).

r is the predicted class, y the gold class, z the group. All functions take tables from
:func:`~.group_gaps.confusion_tables`: cases by group, gold class and prediction, shape (..., G, K, R), for any number
of groups. Tables from :func:`probability_tables` make r the probabilities of the outputs. A cell without cases has no
distance: it is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import FloatArray


def kl_divergence(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """Return the Kullback-Leibler divergence :math:`\\sum p \\ln(p / q)` along the last axis, in nats.

    Args:
        p, q: distributions, shape (..., R); q is above 0 wherever p is.

    Returns:
        0 or more, 0 where they are equal, shape (...).

    Example:
        All mass on one of two equally likely values: ln 2.

        >>> round(float(kl_divergence([1, 0], [0.5, 0.5])), 6)
        0.693147
    """
    terms = special.rel_entr(np.asarray(p, dtype=np.float64), np.asarray(q, dtype=np.float64))
    return np.asarray(np.maximum(terms.sum(axis=-1), 0.0), dtype=np.float64)


def index_wasserstein(p: ArrayLike, q: ArrayLike) -> FloatArray:
    """Return the Wasserstein distance of distributions on the class indices 0 to K - 1; it depends on the order of the
    classes.

    In one dimension it is the area between the cumulative distributions.

    Args:
        p, q: distributions, shape (..., K).

    Returns:
        0 to K - 1, 0 where they are equal, shape (...).

    Example:
        Half the mass moves by two steps.

        >>> float(index_wasserstein([1, 0, 0], [0.5, 0, 0.5]))
        1.0
    """
    apart = np.cumsum(np.asarray(p, dtype=np.float64) - np.asarray(q, dtype=np.float64), axis=-1)
    return np.asarray(np.abs(apart).sum(axis=-1), dtype=np.float64)


def independence(tables: ArrayLike) -> FloatArray:
    """Return KL( P(r | z) || P(r) ) for each group, in nats.

    Returns:
        Shape (..., G, 1). 0 or more, away from 0 is worse; NaN for a group without cases.

    Raises:
        UndefinedError: there are no cases.

    Example:
        Women get class 0, as many men class 1: each is ln 2 from one half each.

        >>> independence([[[2, 0]], [[0, 2]]]).round(6).tolist()
        [[0.693147], [0.693147]]
    """
    predicted = _counts(tables).sum(axis=-2, keepdims=True)
    return _compare(predicted, kl_divergence)


def separation(tables: ArrayLike) -> FloatArray:
    """Return KL( P(r | y, z) || P(r | y) ) for each group and gold class, in nats.

    Returns:
        Shape (..., G, K). 0 or more, away from 0 is worse; NaN where a group has no cases of a gold class.

    Raises:
        UndefinedError: there are no cases.

    Example:
        In class 0 women are recognised and as many men are not; class 1 has only one woman, so she is the overall
        distribution.

        >>> separation([[[2, 0], [0, 1]], [[0, 2], [0, 0]]]).round(6).tolist()
        [[0.693147, 0.0], [0.693147, nan]]
    """
    return _compare(_counts(tables), kl_divergence)


def sufficiency(tables: ArrayLike) -> FloatArray:
    """Return the Wasserstein distance of P(y | r, z) and P(y | r) for each group and predicted class.

    The unit is a step of the class index; as in orgad2022, the codes of the gold classes should follow the alphabetical
    order of their labels.

    Returns:
        Shape (..., G, R). 0 to K - 1, away from 0 is worse; NaN where no case of a group is predicted as a class.

    Raises:
        UndefinedError: there are no cases.

    Example:
        Of the cases predicted as class 0, the woman is of class 0, the man of class 1: each is half a step from the
            overall one.

        >>> sufficiency([[[1, 0], [0, 0]], [[0, 0], [1, 0]]]).tolist()
        [[0.5, nan], [0.5, nan]]
    """
    return _compare(np.swapaxes(_counts(tables), -1, -2), index_wasserstein)


#: The distances, by name.
MEASURES: Mapping[str, Callable[[ArrayLike], FloatArray]] = {
    "independence": independence,
    "separation": separation,
    "sufficiency": sufficiency,
}
DistanceFigure = Literal["sum", "gap"]


def distance_figure(distances: ArrayLike, figure: DistanceFigure) -> FloatArray:
    """Return the sum of all distances, or that of the differences between two groups, for many tables at once.

    ``sum`` (orgad2022, section 3): 0 or more, higher is worse, 0 is neutral. Cells without cases add nothing. With two
    groups of which one has no cases, the sum would always be neutral.

    ``gap``: the sum over classes of \\|distance of the first group - distance of the second\\|, for separation and
    sufficiency the value of orgad2022's reference code, called a gap in its tables: 0 or more, higher is worse, 0 is
    neutral. A class without cases of one group adds the distance of the other, which is 0: this group is the overall
    distribution.

    Args:
        distances: shape (..., G, C), NaN for a cell without cases; two groups for ``gap``.
        figure: which of them.

    Returns:
        Shape (...); NaN where a group has no cases (``sum``), or no class has cases of both groups (``gap``).

    Raises:
        ValueError: ``gap`` is asked for, and there are not two groups.

    Example:
        Women get class 0, as many men class 1: each is ln 2 from the overall distribution. Class 0 has three women and
        one man, and only he is not recognised: overall (3/4, 1/4), so ln 4/3 against ln 4.

        >>> round(float(distance_figure(independence([[[2, 0]], [[0, 2]]]), "sum")), 6)
        1.386294
        >>> round(float(distance_figure(separation([[[3, 0]], [[0, 1]]]), "gap")), 6)
        1.098612
    """
    values = np.asarray(distances, dtype=np.float64)
    filled = ~np.isnan(values)
    values = np.where(filled, values, 0.0)
    if figure == "sum":
        return np.where(filled.any(axis=-1).all(axis=-1), values.sum(axis=(-2, -1)), np.nan)
    if values.shape[-2] != 2:
        raise ValueError(f"expected distances of two groups, shape (..., 2, C), got shape {values.shape}")
    apart = np.abs(values[..., 0, :] - values[..., 1, :]).sum(axis=-1)
    return np.where(filled.all(axis=-2).any(axis=-1), apart, np.nan)


def _counts(tables: ArrayLike) -> FloatArray:
    counts = np.asarray(tables, dtype=np.float64)
    if not counts.any():
        raise UndefinedError("there are no cases")
    return counts


def _compare(counts: FloatArray, distance: Callable[[FloatArray, FloatArray], FloatArray]) -> FloatArray:
    """Compare each group's distribution along the last axis with the overall one: shape (..., G, C, R) to (..., G, C),
    NaN for a cell without cases.
    """
    overall = counts.sum(axis=-3, keepdims=True)
    values = distance(_shares(counts), _shares(overall))
    return np.where(counts.any(axis=-1), values, np.nan)


def _shares(counts: FloatArray) -> FloatArray:
    """Return distributions along the last axis, all 0 without cases."""
    totals = counts.sum(axis=-1, keepdims=True)
    return np.asarray(counts / np.where(totals > 0, totals, 1.0), dtype=np.float64)


def probability_tables(probabilities: ArrayLike, gold: ArrayLike, groups: ArrayLike, n_classes: int) -> FloatArray:
    """Sum the probabilities of the outputs by group and gold class.

    Args:
        probabilities: of each output R for each case, shape (n, R).
        gold: gold class of each case, 0 to n_classes - 1, shape (n,).
        groups: group of each case, 0 or 1, shape (n,); cases of other groups are left out.
        n_classes: number of classes K.

    Returns:
        Shape (2, K, R). With probabilities of 0 and 1 it is that of
        :func:`~pytest_genderbias.statistics.group_gaps.confusion_tables`.

    Example:
        Two women of class 0 and a man of class 1.

        >>> probability_tables([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]], [0, 0, 1], [0, 0, 1], 2).tolist()
        [[[1.25, 0.75], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    y, z = (np.asarray(codes, dtype=np.int64) for codes in (gold, groups))
    kept = (z == 0) | (z == 1)
    table = np.zeros((2, n_classes, p.shape[1]))
    np.add.at(table, (z[kept], y[kept]), p[kept])
    return table


def shuffled_probability_tables(
    probabilities: ArrayLike,
    gold: ArrayLike,
    groups: ArrayLike,
    strata: ArrayLike,
    n_classes: int,
    repeats: int,
    seed: int,
) -> FloatArray:
    """Return :func:`probability_tables` after shuffles of the groups over the cases of each stratum, shape (repeats, 2,
    K, R).

    Args:
        probabilities: as there.
        gold: as there.
        groups: 0 or 1, shape (n,).
        strata: code of the stratum of each case, shape (n,).
        n_classes: as there.
        repeats: number of shuffles.
        seed: seed of the shuffles.

    Example:
        A woman and a man, each alone in a stratum, keep their places.

        >>> shuffled_probability_tables([[1.0], [0.5]], [0, 0], [0, 1], [0, 1], 1, 2, seed=0).tolist()
        [[[[1.0]], [[0.5]]], [[[1.0]], [[0.5]]]]
    """
    stratum, y = (np.asarray(codes, dtype=np.int64) for codes in (strata, gold))
    p, z = np.asarray(probabilities, dtype=np.float64), np.asarray(groups, dtype=np.int64)
    rng, by_stratum = np.random.default_rng(seed), np.argsort(stratum, kind="stable")
    tables = np.empty((repeats, 2, n_classes, p.shape[1]))
    for table in tables:
        order = np.lexsort((rng.random(len(z)), stratum))  # the cases of a stratum in random order
        shuffled = np.empty_like(z)
        shuffled[order] = z[by_stratum]
        table[:] = probability_tables(p, y, shuffled, n_classes)
    return tables
