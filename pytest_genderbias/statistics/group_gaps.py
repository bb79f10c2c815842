"""Gaps between two groups of people in a classifier's rates, class by class (orgad2022, section 3; webster2020, section 3.1).

A gap is the first group's rate minus the second's; the groups are (female, male) unless the caller says otherwise.
Measured coverage of the intervals stands in ``docs/coverage-correlations.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pytest_genderbias.statistics.correlation import slope
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.undefined import UndefinedError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rate = Literal["true_positive", "false_positive", "precision"]

_DRAWS = 1999  #: of the errors, for an interval of the sum
_SEED = 1999  #: the interval of a measurement is always the same


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
        n_answers: number of possible predictions R, K or more (default K). Those from K on are answers that are no class,
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
        raise ValueError(f"{answers} possible predictions for {n_classes} classes")
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
    """Return what a rate divides by what, for each group and class; 0 trials is a rate without value.

    - ``true_positive``: cases of the class that are predicted as it, of all cases of the class.
    - ``false_positive``: cases of other classes that are predicted as the class, of all cases of other classes in that group
      (orgad2022, reference code).
    - ``precision``: cases of the class that are predicted as it, of all that are predicted as it in that group, TP / (TP + FP).

    Args:
        tables: cases by group, gold class and prediction, shape (..., G, K, R).
        rate: which rate.

    Returns:
        Hits and trials, each of shape (..., G, K).

    Example:
        One group, two classes: 3 + 1 of class 0, 2 + 4 of class 1.

        >>> [found.tolist() for found in hits_and_trials([[[3, 1], [2, 4]]], "false_positive")]
        [[[2, 1]], [[6, 4]]]
    """
    table = np.asarray(tables, dtype=np.int64)
    gold = table.sum(axis=-1)
    predicted = table.sum(axis=-2)[..., : table.shape[-2]]
    right = np.diagonal(table, axis1=-2, axis2=-1)
    if rate == "true_positive":
        return right, gold
    if rate == "precision":
        return right, predicted
    if rate == "false_positive":
        return predicted - right, gold.sum(axis=-1, keepdims=True) - gold
    raise ValueError(f"no rate {rate!r}; there are true_positive, false_positive and precision")


@dataclass(frozen=True)
class ClassGaps:
    """Gaps by class, for the classes that have one.

    ``classes``: their codes, shape (D,). ``hits``, ``trials``: shape (2, D). ``left_out``: why each other class has no gap.
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
        names: the groups in words, for the reasons.

    Returns:
        The gaps, -1 to 1 each; away from 0 is worse, 0 is neutral. A class in which a group has no trials is left out.

    Raises:
        UndefinedError: no class has a gap.

    Example:
        Women: 3 of 4 and 1 of 2 recognised; men: 2 of 4, and none of class 1.

        >>> found = class_gaps([[[3, 1], [1, 1]], [[2, 2], [0, 0]]], "true_positive")
        >>> found.gaps.tolist(), found.left_out
        ([0.25], {1: 'no male case has this gold class'})
    """
    hits, trials = hits_and_trials(tables, rate)
    if trials.ndim != 2 or len(trials) != 2:
        raise ValueError(f"a gap is between two groups, got tables of shape {np.shape(tables)}")
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

    Chance alone makes it larger than 0: compare it with :func:`absolute_gap_sums` of :func:`permuted_tables`.

    >>> absolute_gap_sum(class_gaps([[[3, 1], [1, 1]], [[2, 2], [2, 0]]], "true_positive"))
    0.75
    """
    return float(np.abs(gaps.gaps).sum())


def shares_of_first(gold: ArrayLike, groups: ArrayLike, n_classes: int) -> dict[int, float]:
    """Return the share of the first group (women) among the cases of each class, 0 to 1; a class without cases has none.

    Args:
        gold: gold class of each case, shape (n,); of the training data for :func:`beside_shares` (orgad2022, D.2).
        groups: group of each case, 0 is the first, shape (n,).
        n_classes: number of classes.

    >>> shares_of_first([0, 0, 0, 0, 2], [0, 1, 1, 1, 0], 3)
    {0: 0.25, 2: 1.0}
    """
    y, first = np.asarray(gold, dtype=np.int64), np.asarray(groups) == 0
    cases, women = np.bincount(y, minlength=n_classes), np.bincount(y[first], minlength=n_classes)
    return {int(c): float(women[c] / cases[c]) for c in np.flatnonzero(cases)}


def beside_shares(gaps: ClassGaps, shares: Mapping[int, float]) -> tuple[FloatArray, FloatArray]:
    """Return x, the share of women, and y, the gap, of the classes that have both, each of shape (d,).

    :func:`~pytest_genderbias.statistics.correlation.pearson` and ``slope`` of them are the paper's figures; ``pearson_interval``
    and ``slope_interval`` say where those would lie for *other classes of the same kind*, each with as many persons as here.
    :func:`slope_interval_over_persons` says where the slope would lie for *the same classes and other persons*.

    >>> gaps = class_gaps([[[3, 1], [1, 1]], [[2, 2], [2, 0]]], "true_positive")
    >>> [found.tolist() for found in beside_shares(gaps, {1: 0.9})]
    [[0.9], [0.5]]
    """
    kept = [i for i, c in enumerate(gaps.classes.tolist()) if c in shares]
    x = np.asarray([shares[c] for c in gaps.classes[kept].tolist()], dtype=np.float64)
    return x, gaps.gaps[kept]


def accuracy(tables: ArrayLike) -> float:
    """Return the share of cases that are predicted right, over all groups: 0 to 1, lower is worse.

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
    """Choose cases so that each class has as many of each group (orgad2022, section 4: the test set).

    In each class the smallest group stays whole and as many of the others are drawn without replacement. A class that a group
    is missing from loses all its cases.

    Args:
        gold: gold class of each case, shape (n,).
        groups: group of each case, 0 to n_groups - 1, shape (n,).
        seed: of the draw.
        n_groups: number of groups.

    Returns:
        Indices of the chosen cases, increasing.

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
    chosen = np.sort(order[rank < wanted[y[order]]])
    if not len(chosen):
        raise UndefinedError("no class has cases of every group")
    return chosen


def permuted_tables(tables: ArrayLike, repeats: int, seed: int) -> IntArray:
    """Shuffle groups over the cases of each gold class, groups keeping their sizes, and count the tables again.

    Shuffling labels makes the counts multivariate hypergeometric, and they are drawn as such: the time does not depend on the
    number of cases. (With gold and prediction exchanged it shuffles within each predicted class; with tables of shape
    (G, 1, K R), over all cases.)

    Args:
        tables: cases by group, gold class and prediction, shape (G, K, R).
        repeats: number of shuffles.
        seed: of the shuffles.

    Returns:
        Shape (repeats, G, K, R).

    Example:
        Two women, one recognised, no men: nothing can change.

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


def absolute_gap_sums(tables: ArrayLike, rate: Rate) -> FloatArray:
    """Return :func:`absolute_gap_sum` of many tables at once; a class without a gap adds nothing.

    Args:
        tables: cases by group, gold class and prediction, shape (..., 2, K, R), as from :func:`permuted_tables`.
        rate: as in :func:`class_gaps`.

    Returns:
        Shape (...); 0 to K each, higher is worse, 0 is neutral.

    >>> absolute_gap_sums([[[[3, 1], [1, 1]], [[2, 2], [2, 0]]], [[[1, 0], [0, 0]], [[0, 1], [0, 0]]]], "true_positive").tolist()
    [0.75, 1.0]
    """
    hits, trials = hits_and_trials(tables, rate)
    rates = hits / np.maximum(trials, 1)
    gaps = np.where((trials > 0).all(axis=-2), rates[..., 0, :] - rates[..., 1, :], 0.0)
    return np.asarray(np.abs(gaps).sum(axis=-1), dtype=np.float64)


def permutation_p(value: float, null: ArrayLike) -> float:
    """Return (1 + number of null values that are at least ``value``) / (1 + number of null values).

    The p value of a permutation test that draws its permutations (Phipson and Smyth 2010); above 0, at most 1.

    >>> permutation_p(2.0, [1.0, 2.0, 0.5])
    0.5
    """
    drawn = np.asarray(null, dtype=np.float64)
    hits = int((drawn >= value - 1e-12 * abs(value)).sum())  # the same sum in another order may differ in its last bits
    return (1 + hits) / (1 + len(drawn))


def gap_sum_interval(gaps: ClassGaps, over: str = "persons", level: float = 0.95) -> Interval:
    """Return an interval of the sum of the true absolute gaps, those of very many persons of the same classes.

    The sum of the measured gaps is biased upwards, and a bootstrap repeats the bias: it may never hold. This interval holds at
    least as often as ``level`` says. With true gaps :math:`d_c` and errors :math:`e_c` the excess is :math:`\\sum |d_c + e_c| - |d_c|`, and each term
    can only fall as :math:`|d_c|` grows. So simultaneous normal bounds :math:`L_c \\le |d_c| \\le U_c`, at a fifth of the
    error that is allowed, bound its distribution on both sides, whatever the gaps are. Errors are normal and drawn 1,999
    times, their variances those of binomial rates to which a success and a failure are added, as Agresti and Caffo (2000) do.

    Args:
        gaps: of any rate.
        over: what varies, for tables.
        level: the least confidence level.

    Returns:
        The interval, cut at 0. It holds the measured sum, mostly above its middle, and is about twice as wide as a bootstrap's.
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
    return Interval(low, high, level, over, "bounds of the excess over the true gaps; at least this level")


def slope_interval_over_persons(
    gaps: ClassGaps, shares: Mapping[int, float], over: str = "persons", level: float = 0.95
) -> Interval:
    """Return the interval of the slope of the gaps on the share of women for the same classes and other persons.

    The slope is a weighted sum of the gaps, :math:`\\sum w_c d_c`, :math:`w_c = (x_c - \\bar x) / \\sum (x_c - \\bar x)^2`, so
    its error is :math:`\\sqrt{\\sum w_c^2 s_c^2}` with the errors s of the gaps as in :func:`gap_sum_interval`, and it is
    unbiased. (Pearson's r divides by the spread of the gaps, which chance inflates: it has no such interval.)

    Args:
        gaps: of any rate.
        shares: share of women by class, as in :func:`beside_shares`.
        over: what varies, for tables.
        level: confidence level.

    Raises:
        UndefinedError: fewer than three classes have a gap and a share, or the shares are all the same.
    """
    x, y = beside_shares(gaps, shares)
    value = slope(x, y)
    kept = np.isin(gaps.classes, list(shares))
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()
    error = float(np.sqrt(np.square(weights * _gap_errors(gaps)[kept]).sum()))
    reach = float(special.ndtri((1 + level) / 2)) * error
    return Interval(value - reach, value + reach, level, over, "normal, binomial errors of the gaps")


def _gap_errors(gaps: ClassGaps) -> FloatArray:
    """Return the standard error of each gap, shape (D,), from rates to which a success and a failure are added."""
    rates = (gaps.hits + 1) / (gaps.trials + 2)
    return np.asarray(np.sqrt((rates * (1 - rates) / gaps.trials).sum(axis=0)), dtype=np.float64)
