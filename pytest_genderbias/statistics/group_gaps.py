"""Gaps between two groups of people in the rates of a classifier, by class (orgad2022, section 3; webster2020, section
3.1).

A gap is the rate of the first group minus that of the second; by default the groups are (female, male).
``docs/evidence/coverage-correlations.md`` lists the measured coverage of the intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.block_tables import gap_figure
from pytest_genderbias.statistics.inference.intervals import Columns, FloatArray, IntArray, Interval, Parameters

Rate = Literal["true_positive", "false_positive", "precision"]
_Counts = TypeVar("_Counts", IntArray, FloatArray)

_DRAWS = 1999  #: Draws of the errors, for the interval of a sum.
_SEED = 1999  #: Fixed, so that the interval of a measurement is reproducible.


def confusion_tables(
    predictions: ArrayLike,
    gold: ArrayLike,
    groups: ArrayLike,
    n_classes: int,
    *,
    n_groups: int = 2,
    n_answers: int | None = None,
) -> IntArray:
    """Count cases by group, gold class and predicted class.

    Args:
        predictions: predicted class of each case, 0 to n_answers - 1, shape (n,).
        gold: gold class of each case, 0 to n_classes - 1, shape (n,).
        groups: group of each case, 0 to n_groups - 1, shape (n,).
        n_classes: number of classes K.
        n_groups: number of groups G.
        n_answers: number of possible predictions R, K or more (default K). Predictions from K on are not classes, such
            as "neither profession" in coreference.

    Returns:
        Shape (G, K, R).

    Raises:
        ValueError: a code out of range, or arrays of different lengths.

    Example:
        A woman of class 0 is recognised, a man of class 0 is taken for class 1.

        >>> confusion_tables([0, 1], [0, 0], [0, 1], 2).tolist()
        [[[1, 0], [0, 0]], [[0, 1], [0, 0]]]
    """
    answers = n_classes if n_answers is None else n_answers
    if answers < n_classes:
        raise ValueError(f"expected at least as many possible predictions as the {n_classes} classes, got {answers}")
    shape = (n_groups, n_classes, answers)
    codes = [np.asarray(c, dtype=np.int64) for c in (groups, gold, predictions)]
    for name, code, size in zip(("groups", "gold", "predictions"), codes, shape, strict=True):
        if code.shape != codes[0].shape:
            raise ValueError(f"{name} should have the shape of groups, {codes[0].shape}, got {code.shape}")
        if code.size and not 0 <= code.min() <= code.max() < size:
            raise ValueError(f"{name} should be codes from 0 to {size - 1}, got {code.min()} to {code.max()}")
    flat = np.ravel_multi_index(tuple(codes), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def hits_and_trials(tables: ArrayLike, rate: Rate) -> tuple[IntArray, IntArray]:
    """Return numerator and denominator of a rate, by group and class. With 0 trials, the rate is undefined.

    - ``true_positive``: correctly predicted cases of the class / all cases of the class.
    - ``false_positive``: cases of other classes that are predicted as the class / all cases of other classes in that
      group (reference code of orgad2022).
    - ``precision``: correctly predicted cases of the class / all cases of that group that are predicted as the class.

    Args:
        tables: cases by group, gold class and prediction, shape (..., G, K, R).
        rate: which rate.

    Returns:
        Hits and trials, each of shape (..., G, K).

    Example:
        One group, two classes: 3 + 1 of class 0, 2 + 4 of class 1.

        >>> [part.tolist() for part in hits_and_trials([[[3, 1], [2, 4]]], "false_positive")]
        [[[2, 1]], [[6, 4]]]
    """
    table = np.asarray(tables, dtype=np.int64)
    gold = table.sum(axis=-1)
    predicted = table.sum(axis=-2)[..., : table.shape[-2]]
    right = np.diagonal(table, axis1=-2, axis2=-1)
    return rate_parts(right, gold, predicted, rate)


def rate_parts(right: _Counts, gold: _Counts, predicted: _Counts, rate: Rate) -> tuple[_Counts, _Counts]:
    """Return numerator and denominator of a rate from right answers, cases of a class, and predictions of it, each of
    shape (..., K).

    >>> [part.tolist() for part in rate_parts(np.array([3, 4]), np.array([4, 6]), np.array([5, 5]), "precision")]
    [[3, 4], [5, 5]]
    """
    if rate == "true_positive":
        return right, gold
    if rate == "precision":
        return right, predicted
    if rate == "false_positive":
        return predicted - right, gold.sum(axis=-1, keepdims=True) - gold
    raise ValueError(f"unknown rate {rate!r}; expected true_positive, false_positive or precision")


@dataclass(frozen=True)
class ClassGaps:
    """The gaps of the classes that have one.

    ``classes``: their codes, shape (D,). ``hits``, ``trials``: shape (2, D). ``left_out``: the reason for each other
    class.
    """

    classes: IntArray
    hits: IntArray
    trials: IntArray
    left_out: Mapping[int, str]

    @property
    def rates(self) -> FloatArray:
        """The rate of each group, 0 to 1, shape (2, D)."""
        return self.hits / self.trials

    @property
    def gaps(self) -> FloatArray:
        """Rate of the first group minus that of the second, -1 to 1, shape (D,)."""
        return np.asarray(self.rates[0] - self.rates[1], dtype=np.float64)


_EMPTY = {
    "true_positive": "no {who} case has this gold class",
    "false_positive": "no {who} case has another gold class",
    "precision": "no {who} case is predicted as this class",
}


def class_gaps(tables: ArrayLike, rate: Rate, names: tuple[str, str] = ("female", "male")) -> ClassGaps:
    """Return, for each class, the rate of the first group minus that of the second (orgad2022, section 3).

    Args:
        tables: cases by group, gold class and prediction, shape (2, K, R), from :func:`confusion_tables`.
        rate: ``true_positive``, ``false_positive`` or ``precision``, as in :func:`hits_and_trials`.
        names: the names of the groups, for the reasons.

    Returns:
        The gaps, -1 to 1; away from 0 is worse, 0 is neutral. A class in which a group has no trials is left out.

    Raises:
        UndefinedError: no class has a gap.

    Example:
        Women: 3 of 4 and 1 of 2 recognised; men: 2 of 4, and none of class 1.

        >>> gaps = class_gaps([[[3, 1], [1, 1]], [[2, 2], [0, 0]]], "true_positive")
        >>> gaps.gaps.tolist(), gaps.left_out
        ([0.25], {1: 'no male case has this gold class'})
    """
    hits, trials = hits_and_trials(tables, rate)
    if trials.ndim != 2 or len(trials) != 2:
        raise ValueError(f"expected tables of two groups, shape (2, K, R), got shape {np.shape(tables)}")
    empty = trials == 0
    left_out = {
        int(c): _EMPTY[rate].format(
            who=" or ".join(name for name, gone in zip(names, empty[:, c], strict=True) if gone)
        )
        for c in np.flatnonzero(empty.any(axis=0))
    }
    classes = np.flatnonzero(~empty.any(axis=0))
    if not len(classes):
        raise UndefinedError("no class has cases of both groups to compare")
    return ClassGaps(classes, hits[:, classes], trials[:, classes], left_out)


def absolute_gap_sum(gaps: ClassGaps) -> float:
    """Return the sum of the absolute gaps over classes: 0 to D, higher is worse, 0 is neutral (orgad2022, section 3).

    It is above 0 by chance alone; compare it with the sums of :func:`permuted_tables`.

    >>> absolute_gap_sum(class_gaps([[[3, 1], [1, 1]], [[2, 2], [2, 0]]], "true_positive"))
    0.75
    """
    return float(np.abs(gaps.gaps).sum())


def shares_of_first(gold: ArrayLike, groups: ArrayLike, n_classes: int) -> FloatArray:
    """Return the share of the first group (women) in the cases of each class, 0 to 1, NaN without cases, shape (K,).

    Args:
        gold: gold class of each case, shape (n,). Use the training data for :func:`beside_shares` (orgad2022, D.2).
        groups: group of each case, 0 is the first, shape (n,).
        n_classes: number of classes.

    >>> shares_of_first([0, 0, 0, 0, 2], [0, 1, 1, 1, 0], 3).tolist()
    [0.25, nan, 1.0]
    """
    y, first = np.asarray(gold, dtype=np.int64), np.asarray(groups) == 0
    cases, women = np.bincount(y, minlength=n_classes), np.bincount(y[first], minlength=n_classes)
    return np.asarray(np.divide(women, cases, out=np.full(len(cases), np.nan), where=cases > 0))


def beside_shares(gaps: ClassGaps, shares: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the share of women x and the gap y of the classes that have both, each of shape (d,).

    Their :func:`~pytest_genderbias.statistics.correlation.pearson` and ``slope`` are the statistics of the paper. The
    intervals ``pearson_interval`` and ``slope_interval`` are for *other classes of the same kind*, each with as many
    persons as here.

    Args:
        gaps: the gaps in any rate.
        shares: share of women by class, NaN where it is unknown, shape (K,).

    >>> gaps = class_gaps([[[3, 1], [1, 1]], [[2, 2], [2, 0]]], "true_positive")
    >>> [axis.tolist() for axis in beside_shares(gaps, [np.nan, 0.9])]
    [[0.9], [0.5]]
    """
    x = np.asarray(shares, dtype=np.float64)[gaps.classes]
    known = np.isfinite(x)
    return x[known], gaps.gaps[known]


def accuracy(tables: ArrayLike) -> float:
    """Return the share of correct predictions over all groups: 0 to 1, lower is worse.

    Raises:
        UndefinedError: there are no cases.

    >>> accuracy([[[3, 1], [1, 1]], [[2, 2], [2, 0]]])
    0.5
    """
    table = np.asarray(tables, dtype=np.int64)
    if not table.any():
        raise UndefinedError("there are no cases")
    return float(np.trace(table.sum(axis=0)) / table.sum())


def balanced_subsample(gold: ArrayLike, groups: ArrayLike, seed: int, n_groups: int = 2) -> IntArray:
    """Draw a subsample in which the groups have the same size in each class (orgad2022, section 4: the test set).

    In each class, all cases of the smallest group stay and as many of each other group are drawn without replacement. A
    class without cases of one group loses all its cases.

    Args:
        gold: gold class of each case, shape (n,).
        groups: group of each case, 0 to n_groups - 1, shape (n,).
        seed: seed of the draw.
        n_groups: number of groups.

    Returns:
        Indices of the drawn cases, ascending.

    Raises:
        UndefinedError: no class has cases of every group.

    >>> balanced_subsample([0, 0, 0, 1, 1], [0, 1, 0, 1, 1], seed=0).tolist() in ([0, 1], [1, 2])
    True
    """
    y, z = np.asarray(gold, dtype=np.int64), np.asarray(groups, dtype=np.int64)
    cell = y * n_groups + z
    order = np.random.default_rng(seed).permutation(len(cell))
    order = order[np.argsort(cell[order], kind="stable")]
    sizes = np.bincount(cell, minlength=n_groups * (int(y.max(initial=0)) + 1))
    rank = np.arange(len(cell)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    wanted = sizes.reshape(-1, n_groups).min(axis=1)
    subsample = np.sort(order[rank < wanted[y[order]]])
    if not len(subsample):
        raise UndefinedError("no class has cases of every group")
    return subsample


def permuted_tables(tables: ArrayLike, repeats: int, seed: int) -> IntArray:
    """Return tables after shuffles of the group labels within each gold class.

    The counts after a shuffle are multivariate hypergeometric and are drawn from that distribution, so the time does
    not depend on the number of cases. Exchange gold and prediction to shuffle within each predicted class; reshape the
    tables to (G, 1, K R) to shuffle over all cases.

    Args:
        tables: cases by group, gold class and prediction, shape (G, K, R).
        repeats: number of shuffles.
        seed: seed of the shuffles.

    Returns:
        Shape (repeats, G, K, R).

    Example:
        With two women, one recognised, and no men, the shuffle changes nothing.

        >>> permuted_tables([[[1, 1]], [[0, 0]]], 1, seed=0).tolist()
        [[[[1, 1]], [[0, 0]]]]
    """
    table, rng = np.asarray(tables, dtype=np.int64), np.random.default_rng(seed)
    shuffled = np.empty((repeats, *table.shape), dtype=np.int64)
    left = np.tile(table.sum(axis=0), (repeats, 1, 1))
    for group in range(len(table) - 1):
        wanted = np.tile(table[group].sum(axis=-1), (repeats, 1))
        beyond = left.sum(axis=-1)
        for answer in range(table.shape[-1]):
            here = left[..., answer]
            beyond -= here
            shuffled[:, group, :, answer] = rng.hypergeometric(here, beyond, wanted)
            wanted -= shuffled[:, group, :, answer]
        left = left - shuffled[:, group]
    shuffled[:, -1] = left
    return shuffled


def gap_sum_interval(gaps: ClassGaps, level: float = 0.95) -> Interval:
    """Return an interval for the sum of the true absolute gaps, those of infinitely many persons of the same classes.

    The sum of the measured gaps is biased upwards, and a bootstrap repeats the bias, so its interval may never cover.
    The coverage of this interval is at least ``level``. With true gaps :math:`d_c` and errors :math:`e_c`, the excess
    is :math:`\\sum |d_c + e_c| - |d_c|`, and each term is decreasing in :math:`|d_c|`. Simultaneous normal bounds
    :math:`L_c \\le |d_c| \\le U_c`, at a fifth of the allowed error, therefore bound the distribution of the excess on
    both sides. The errors are normal and drawn 1,999 times; their variances are those of binomial rates to which a
    success and a failure are added, as in Agresti and Caffo (2000).

    Args:
        gaps: the gaps in any rate.
        level: the lowest confidence level.

    Returns:
        The interval, cut at 0. It contains the measured sum, mostly in its upper half, and is about twice as wide as a
        bootstrap interval.
    """
    tail = (1 - level) / 2
    size, error = np.abs(gaps.gaps), _gap_errors(gaps)
    reach = special.ndtri(1 - tail / 5 / len(size) / 2) * error
    nearest, farthest = np.maximum(size - reach, 0), size + reach
    errors = error * np.random.default_rng(_SEED).standard_normal((_DRAWS, len(size)))
    most = np.quantile((np.abs(nearest + errors) - nearest).sum(axis=1), 1 - tail * 4 / 5)
    least = np.quantile((np.abs(farthest + errors) - farthest).sum(axis=1), tail * 4 / 5)
    total = size.sum()
    low, high = max(0.0, float(total - most)), float(total - least)
    return Interval(low, high, level, "persons", "bounds of the excess over the true gaps; at least this level")


def _gap_errors(gaps: ClassGaps) -> FloatArray:
    """Return the standard error of each gap, shape (D,), from rates with one success and one failure added."""
    rates = (gaps.hits + 1) / (gaps.trials + 2)
    return np.asarray(np.sqrt((rates * (1 - rates) / gaps.trials).sum(axis=0)), dtype=np.float64)


# The rates of a class need only three counts for each group: cases of the class, cases that are predicted as it, and
# cases that are both.


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
