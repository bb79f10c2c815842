"""Gaps in rates as functions of sums over cases: what a comparison item by item, or an exchange of groups, adds up.

A rate by class needs three counts of each group and class, not the whole table of confusions: cases of the class, cases that
are predicted as it, and cases that are both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.correlation import pearson_of_sums, product_sums
from pytest_genderbias.statistics.group_gaps import Rate

FloatArray = NDArray[np.float64]


def rate_counts(predictions: ArrayLike, gold: ArrayLike, groups: ArrayLike, n_classes: int) -> FloatArray:
    """Return of each case what it adds to the counts of its group.

    Args:
        predictions: predicted class of each case; ``n_classes`` or more is an answer that is no class, shape (n,).
        gold: gold class of each case, shape (n,).
        groups: group of each case, 0 or 1; a case of any other is not counted, shape (n,).
        n_classes: number of classes K.

    Returns:
        Right answers, cases of the class, and cases that are predicted as it, by group and class: shape (n, 3, 2, K).

    Example:
        A man of class 0 is taken for class 1.

        >>> rate_counts([1], [0], [1], 2)[0].tolist()
        [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    said, true, group = (np.asarray(codes, dtype=np.int64) for codes in (predictions, gold, groups))
    classes = np.arange(n_classes)
    in_group = (group[:, None] == np.arange(2))[:, :, None]
    is_gold, is_said = (codes[:, None, None] == classes for codes in (true, said))
    return np.stack([is_gold & is_said & in_group, is_gold & in_group, is_said & in_group], axis=1).astype(np.float64)


def gaps_of_counts(counts: ArrayLike, rate: Rate) -> FloatArray:
    """Return the gaps, first group minus second, from totals of :func:`rate_counts`.

    Args:
        counts: shape (..., 3, 2, K).
        rate: as in :func:`~pytest_genderbias.statistics.group_gaps.hits_and_trials`.

    Returns:
        Shape (..., K), -1 to 1 each; NaN for a class in which a group has no trials.

    Example:
        The example of :func:`~pytest_genderbias.statistics.group_gaps.class_gaps`: women 3 of 4 and 1 of 2, men 2 of 4.

        >>> gaps_of_counts([[[3, 1], [2, 0]], [[4, 2], [4, 0]], [[4, 2], [2, 2]]], "true_positive").tolist()
        [0.25, nan]
    """
    right, gold, predicted = np.moveaxis(np.asarray(counts, dtype=np.float64), -3, 0)
    hits, trials = {
        "true_positive": (right, gold),
        "false_positive": (predicted - right, gold.sum(axis=-1, keepdims=True) - gold),
        "precision": (right, predicted),
    }[rate]
    rates = np.where(trials > 0, hits, np.nan) / np.where(trials > 0, trials, 1.0)
    return np.asarray(rates[..., 0, :] - rates[..., 1, :])


def gap_sum_of_counts(counts: ArrayLike, rate: Rate) -> FloatArray:
    """Return the sum of absolute gaps from totals of :func:`rate_counts`: shape (..., 3, 2, K) to (...); NaN without any gap.

    >>> float(gap_sum_of_counts([[[3, 1], [2, 0]], [[4, 2], [4, 0]], [[4, 2], [2, 2]]], "true_positive"))
    0.25
    """
    gaps = gaps_of_counts(counts, rate)
    known = ~np.isnan(gaps)
    return np.where(known.any(axis=-1), np.abs(np.where(known, gaps, 0.0)).sum(axis=-1), np.nan)


def gap_products(gaps: ArrayLike, classes: ArrayLike, shares: ArrayLike) -> FloatArray:
    """Return the sums that give r of gaps with shares, of each class that has a share; 0 for one without a gap.

    Args:
        gaps: of all classes, NaN for none, shape (..., K).
        classes: codes of the classes that have a share, shape (d,).
        shares: their shares of women, shape (d,).

    Returns:
        Shape (..., d, 6), as :func:`~pytest_genderbias.statistics.correlation.product_sums` has them.
    """
    chosen = np.asarray(gaps, dtype=np.float64)[..., np.asarray(classes, dtype=np.int64)]
    known = ~np.isnan(chosen)
    return product_sums(shares, np.where(known, chosen, 0.0), known)


def gap_pearson_of_counts(counts: ArrayLike, rate: Rate, classes: ArrayLike, shares: ArrayLike) -> FloatArray:
    """Return r of the gaps with the shares, from totals of :func:`rate_counts`: shape (..., 3, 2, K) to (...); NaN where undefined."""
    return pearson_of_sums(gap_products(gaps_of_counts(counts, rate), classes, shares).sum(axis=-2))
