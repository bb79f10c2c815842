"""Gaps in rates as functions of sums over cases: what a comparison item by item, or an exchange of groups, adds up.

A rate by class needs three counts of each group and class, not the whole table of confusions: cases of the class, cases that
are predicted as it, and cases that are both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.correlation import pearson_of_sums, product_sums
from pytest_genderbias.statistics.group_gaps import Rate
from pytest_genderbias.statistics.inference.item_sums import FloatArray, Moments
from pytest_genderbias.statistics.table_moments import gap_figure


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


def hits_and_trials_of(counts: ArrayLike, rate: Rate) -> tuple[FloatArray, FloatArray]:
    """Return what a rate divides by what, from totals of :func:`rate_counts`.

    Args:
        counts: shape (..., 3, 2, K).
        rate: as in :func:`~pytest_genderbias.statistics.group_gaps.hits_and_trials`.

    Returns:
        Hits and trials, each of shape (..., 2, K).

    Example:
        Of the women 3 of 4 and 1 of 2 are recognised, 4 and 2 are predicted.

        >>> hits, trials = hits_and_trials_of([[[3, 1], [2, 0]], [[4, 2], [4, 0]], [[4, 2], [2, 2]]], "false_positive")
        >>> hits[0].tolist(), trials[0].tolist()
        ([1.0, 1.0], [2.0, 4.0])
    """
    right, gold, predicted = np.moveaxis(np.asarray(counts, dtype=np.float64), -3, 0)
    if rate == "true_positive":
        return right, gold
    if rate == "precision":
        return right, predicted
    return predicted - right, gold.sum(axis=-1, keepdims=True) - gold


def gap_sum_moments(labels: NDArray[np.str_], counts: FloatArray, rate: Rate, over: str) -> Moments:
    """Return the moments of a sum of absolute gaps.

    Not smooth: drawing items again with replacement makes such a sum larger, exchanging those of two models does not.

    Args:
        labels: names of the items, shape (n,).
        counts: sums of :func:`rate_counts` over the cases of each item, shape (n, 3, 2, K).
        rate: which rate.
        over: what an item is, in the plural.
    """
    shape = counts.shape[1:]

    def value(totals: FloatArray) -> FloatArray:
        return gap_figure(
            *hits_and_trials_of(totals.reshape(*totals.shape[:-1], *shape), rate), np.zeros(shape[-1]), "sum"
        )

    return Moments(labels, counts.reshape(len(counts), -1), value, over, smooth=False)


def gap_pearson_moments(labels: ArrayLike, counts: ArrayLike, rate: Rate, shares: ArrayLike, over: str) -> Moments:
    """Return the moments, over classes, of r of the gaps with the shares; a class without a gap is an item of zeros.

    Args:
        labels: names of the classes, shape (K,).
        counts: totals of :func:`rate_counts`, shape (3, 2, K).
        rate: which rate.
        shares: of each class, NaN where it is not known, shape (K,).
        over: what a class is, in the plural.
    """
    hits, trials = hits_and_trials_of(counts, rate)
    share, there = np.asarray(shares, dtype=np.float64), np.asarray(trials.min(axis=0) > 0)
    rates = hits / np.where(trials > 0, trials, 1.0)
    kept = np.isfinite(share)
    sums = product_sums(share[kept], (rates[0] - rates[1])[kept], there[kept])
    return Moments(np.asarray(labels, dtype=np.str_)[kept], sums, pearson_of_sums, over)
