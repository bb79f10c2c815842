"""Gaps in rates as functions of sums over cases: what a comparison item by item, or an exchange of groups, adds up.

A rate by class needs three counts of each group and class, not the whole table of confusions: cases of the class, cases that
are predicted as it, and cases that are both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.block_tables import gap_figure
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


def absolute_gaps_of_counts(
    totals: FloatArray, parameters: Mapping[str, object], columns: tuple[str, ...] | None = None
) -> FloatArray:
    """Return the sum of absolute gaps from totals of :func:`rate_counts`: shape (..., 3 * 2 * K) to (...).

    ``parameters`` has the ``rate``.

    >>> counts = np.array([[[3, 1], [2, 0]], [[4, 2], [4, 2]], [[4, 2], [2, 2]]], dtype=float)
    >>> float(absolute_gaps_of_counts(counts.ravel(), {"rate": "true_positive"}))
    0.75
    """
    counts = totals.reshape(*totals.shape[:-1], 3, 2, -1)
    hits, trials = hits_and_trials_of(counts, cast(Rate, parameters["rate"]))
    return gap_figure(hits, trials, np.zeros(counts.shape[-1]), "sum")
