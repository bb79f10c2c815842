"""Gaps in rates as functions of sums over cases, for comparisons by unit and exchanges of groups.

The rates of a class need only three counts for each group, not the whole confusion table: cases of the class, cases
that are predicted as it, and cases that are both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.block_tables import gap_figure
from pytest_genderbias.statistics.combiners import Columns, Parameters
from pytest_genderbias.statistics.group_gaps import Rate, rate_parts

FloatArray = NDArray[np.float64]


def rate_counts(predictions: ArrayLike, gold: ArrayLike, groups: ArrayLike, n_classes: int) -> FloatArray:
    """Return the contribution of each case to the counts of its group.

    Args:
        predictions: predicted class of each case, shape (n,); ``n_classes`` or more is not a class.
        gold: gold class of each case, shape (n,).
        groups: group of each case, 0 or 1, shape (n,); other groups are not counted.
        n_classes: number of classes K.

    Returns:
        Correct predictions, cases of the class, and cases predicted as the class, by group and class: shape (n, 3, 2,
            K).

    Example:
        A man of class 0 is predicted as class 1.

        >>> rate_counts([1], [0], [1], 2)[0].tolist()
        [[[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    predicted, true, group = (np.asarray(codes, dtype=np.int64) for codes in (predictions, gold, groups))
    classes = np.arange(n_classes)
    in_group = (group[:, None] == np.arange(2))[:, :, None]
    is_gold, is_predicted = (codes[:, None, None] == classes for codes in (true, predicted))
    return np.stack([is_gold & is_predicted & in_group, is_gold & in_group, is_predicted & in_group], axis=1).astype(
        np.float64
    )


def hits_and_trials_of(counts: ArrayLike, rate: Rate) -> tuple[FloatArray, FloatArray]:
    """Return numerator and denominator of a rate, from totals of :func:`rate_counts`.

    Args:
        counts: shape (..., 3, 2, K).
        rate: as in :func:`~pytest_genderbias.statistics.group_gaps.hits_and_trials`.

    Returns:
        Hits and trials, each of shape (..., 2, K).

    Example:
        Of the women, 3 of 4 in class 0 and 1 of 2 in class 1 are recognised; 4 and 2 are predicted.

        >>> hits, trials = hits_and_trials_of([[[3, 1], [2, 0]], [[4, 2], [4, 0]], [[4, 2], [2, 2]]], "false_positive")
        >>> hits[0].tolist(), trials[0].tolist()
        ([1.0, 1.0], [2.0, 4.0])
    """
    right, gold, predicted = np.moveaxis(np.asarray(counts, dtype=np.float64), -3, 0)
    return rate_parts(right, gold, predicted, rate)


def absolute_gaps_of_counts(totals: FloatArray, parameters: Parameters, columns: Columns = ()) -> FloatArray:
    """Return the sum of absolute gaps from totals of :func:`rate_counts`: shape (..., 3 * 2 * K) to (...).

    ``parameters`` has the ``rate``.

    >>> counts = np.array([[[3, 1], [2, 0]], [[4, 2], [4, 2]], [[4, 2], [2, 2]]], dtype=float)
    >>> float(absolute_gaps_of_counts(counts.ravel(), {"rate": "true_positive"}))
    0.75
    """
    counts = totals.reshape(*totals.shape[:-1], 3, 2, -1)
    hits, trials = hits_and_trials_of(counts, parameters["rate"])
    return gap_figure(hits, trials, np.zeros(counts.shape[-1]), "sum")


def trials_of_counts(totals: FloatArray, parameters: Parameters, columns: Columns = ()) -> FloatArray:
    """Return the denominators of the rates, by group and class: shape (..., 3 * 2 * K) to (..., 2 K); arguments as
    above.

    >>> counts = np.array([[[3, 1], [2, 0]], [[4, 2], [4, 2]], [[4, 2], [2, 2]]], dtype=float)
    >>> trials_of_counts(counts.ravel(), {"rate": "precision"}).tolist()
    [4.0, 2.0, 2.0, 2.0]
    """
    counts = totals.reshape(*totals.shape[:-1], 3, 2, -1)
    _, trials = hits_and_trials_of(counts, parameters["rate"])
    return trials.reshape(*totals.shape[:-1], -1)
