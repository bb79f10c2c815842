"""Impact ratios of a selection: the selection rate of each group, divided by that of the most selected group.

They are counted as the rules to New York City's Local Law 144 of 2021 count them (6 RCNY sections 5-300 and 5-301).
Bounds, which the rules do not ask for, are added. The rules name no ratio that is too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import FloatArray, IntArray, exact_bounds

LEAST_SHARE = 0.02  #: a smaller group may be left out of the ratios (6 RCNY section 5-301 (d))
_STEPS = 60  #: halvings of the range in which a bound is searched: 80 / 2**60 in its logarithm
_FEW = 10  #: persons that are selected, or that are not, below which bounds are exact
_REACH = 40.0  #: bounds are searched between exp(-40) and exp(40)


@dataclass(frozen=True, eq=False)
class ImpactRatios:
    """Selection rates and impact ratios of G groups, in alphabetical order.

    Attributes:
        groups: the name of each group: one name a category.
        selected: selected persons of each group, shape (G,).
        persons: persons of each group, shape (G,).
        ratios: impact ratio of each group, 0 to 1, lower is worse, 1 is neutral, shape (G,); NaN for a group that is
            left out, since it is too small a share of all persons.
        low: lower bounds of the ratios, shape (G,).
        high: upper bounds of the ratios, shape (G,).
        level: the lowest confidence level of each pair of bounds.
        unknown: persons who are not counted, since a name of their group is unknown.
    """

    groups: tuple[tuple[str, ...], ...]
    selected: IntArray
    persons: IntArray
    ratios: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    unknown: int

    @property
    def rates(self) -> FloatArray:
        """The selection rate of each group, 0 to 1, shape (G,)."""
        return np.asarray(self.selected / self.persons, dtype=np.float64)

    @property
    def shares(self) -> FloatArray:
        """The share of each group in the persons whose group is known, 0 to 1, shape (G,)."""
        return np.asarray(self.persons / self.persons.sum(), dtype=np.float64)


def impact_ratios(
    selected: ArrayLike, *categories: Sequence[str], least_share: float = LEAST_SHARE, level: float = 0.95
) -> ImpactRatios:
    """Return the impact ratio of each group: its selection rate divided by that of the most selected group.

    With several categories, the groups are their intersections. A group below ``least_share`` has a selection rate but
    no ratio, and is not the most selected group.

    The bounds hold for other persons of the same groups, and allow for the choice of the most selected group, which
    chance also decides. A ratio is the smallest of the group's ratios to all groups, so its lower bound is the smallest
    lower bound of those, each at the full level. Its upper bound is their smallest upper bound, at the level of
    Bonferroni. The bounds of the ratio of two rates are those of :func:`ratio_bounds`, which are exact where few
    persons are selected, or few are not.

    Args:
        selected: whether each person is selected, shape (n,).
        categories: the name of each person's group in a category (sex, race), each of length n; an empty name is
            unknown.
        least_share: smallest share of the persons for which a ratio is computed, 0 to 1.
        level: confidence level of each pair of bounds.

    Raises:
        ValueError: the lengths differ, or no category is given.
        UndefinedError: no person of a known group is selected, or all groups are below ``least_share``.

    Example:
        60 of 100 men and 30 of 100 women are selected; two persons gave no sex.

        >>> sex = ["male"] * 100 + ["female"] * 100 + [""] * 2
        >>> ratios = impact_ratios([1] * 60 + [0] * 40 + [1] * 30 + [0] * 70 + [1, 0], sex)
        >>> ratios.groups, ratios.rates.tolist(), ratios.ratios.tolist(), ratios.unknown
        ((('female',), ('male',)), [0.3, 0.6], [0.5, 1.0], 2)
        >>> ratios.low.round(3).tolist(), ratios.high.round(3).tolist()
        ([0.353, 1.0], [0.695, 1.0])
    """
    chosen = np.asarray(selected, dtype=bool)
    lengths = {len(column) for column in categories}
    if lengths != {len(chosen)}:
        raise ValueError(f"expected one name of each category for {len(chosen)} persons, got {sorted(lengths)} names")
    names = list(zip(*categories, strict=True))
    known = np.asarray([all(name) for name in names], dtype=bool)
    groups = tuple(sorted({name for name in names if all(name)}))
    position = {group: code for code, group in enumerate(groups)}
    codes = np.asarray([position[name] for name in names if all(name)], dtype=np.int64)
    persons = np.bincount(codes, minlength=len(groups))
    hits = np.bincount(codes[chosen[known]], minlength=len(groups))
    counted = persons >= least_share * persons.sum()
    if not hits[counted].any():
        raise UndefinedError(
            f"nobody is selected of the {int(counted.sum())} groups that are at least {100 * least_share:g} % of all"
            " persons"
        )
    ratios, low, high = (np.full(len(groups), np.nan) for _ in range(3))
    rates = hits[counted] / persons[counted]
    ratios[counted] = rates / rates.max()
    low[counted], high[counted] = group_bounds(hits[counted], persons[counted], level)
    return ImpactRatios(groups, hits, persons, ratios, low, high, level, int((~known).sum()))


def lowest_mean_of_sums(totals: FloatArray) -> FloatArray:
    """Return the mean of the group that has the lowest one.

    Args:
        totals: sum of the values of each group, then their number, shape (..., 2 G).

    Returns:
        Shape (...), in units of the values; NaN where a group has none.

    >>> float(lowest_mean_of_sums(np.array([6.0, 3.0, 10.0, 10.0])))
    0.3
    """
    return np.asarray(_means(totals).min(axis=-1))


def impact_ratio_of_sums(totals: FloatArray) -> FloatArray:
    """Return the lowest impact ratio: the lowest selection rate divided by the highest. ``totals`` as of
    :func:`lowest_mean_of_sums`.

    >>> float(impact_ratio_of_sums(np.array([6.0, 3.0, 10.0, 10.0])))
    0.5
    """
    rates = _means(totals)
    most = rates.max(axis=-1)
    return np.where(most > 0, rates.min(axis=-1) / np.where(most > 0, most, 1.0), np.nan)


def _means(totals: FloatArray) -> FloatArray:
    sums, counts = np.split(totals, 2, axis=-1)
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0), np.nan)


def above_median(scores: ArrayLike) -> NDArray[np.bool_]:
    """Return whether each score lies above the median of all scores, shape (n,): what the rules count where a tool
    gives scores.

    >>> above_median([1.0, 2.0, 2.0, 5.0]).tolist()
    [False, False, False, True]
    """
    values = np.asarray(scores, dtype=np.float64)
    return np.asarray(values > np.median(values), dtype=np.bool_)


def ratio_bounds(
    hits: ArrayLike, persons: ArrayLike, other_hits: ArrayLike, other_persons: ArrayLike, tail: float = 0.025
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of the ratio of two rates.

    They are those of the score test (Miettinen and Nurminen 1985, Statistics in Medicine 4, 213-226). Where fewer than
    ten persons of a group are selected, or fewer than ten are not, they are no narrower than the ratio of the exact
    bounds of both rates (Clopper and Pearson 1934), which share the probability ``tail``, most of it for the smaller
    group.

    Args:
        hits: selected persons of the group, an array of any shape, as all of these.
        persons: persons of the group, above 0.
        other_hits: selected persons of the group by whose rate is divided.
        other_persons: persons of that group, above 0.
        tail: probability with which each bound alone is wrong.

    Returns:
        Lower and upper bounds, 0 to infinity.

    Example:
        Of the second ratio the score test alone says .161 to 1.378.

        >>> [float(bound.round(3)) for bound in ratio_bounds(30, 100, 60, 100)]
        [0.353, 0.695]
        >>> [float(bound.round(3)) for bound in ratio_bounds(3, 10, 6, 10)]
        [0.057, 3.031]
    """
    from scipy.special import ndtri

    x, n, y, m = np.broadcast_arrays(
        *(np.asarray(counts, dtype=np.float64) for counts in (hits, persons, other_hits, other_persons))
    )
    reach = float(-ndtri(tail))
    low = np.where(x == 0, 0.0, np.exp(_crossing(x, n, y, m, reach)))
    high = np.where(y == 0, np.inf, np.exp(_crossing(x, n, y, m, -reach)))
    few = np.minimum.reduce([x, n - x, y, m - y]) < _FEW
    part = tail * np.sqrt(m) / (np.sqrt(n) + np.sqrt(m))  # a rate of fewer persons is less certain
    rates, others = exact_bounds(x, n, part), exact_bounds(y, m, tail - part)
    with np.errstate(divide="ignore"):
        exact = rates[0] / others[1], rates[1] / others[0]
    return np.where(few, np.minimum(low, exact[0]), low), np.where(few, np.maximum(high, exact[1]), high)


def group_bounds(hits: IntArray, persons: IntArray, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of each group's ratio to the most selected group, as :func:`impact_ratios` describes them.

    Args:
        hits: selected persons of each group, shape (..., G).
        persons: persons of each group, shape (..., G), above 0.
        level: the lowest confidence level of each pair of bounds.

    Returns:
        Lower and upper bounds, 0 to 1, shape (..., G); both are 1 for a group alone.

    >>> low, high = group_bounds(np.array([30, 60]), np.array([100, 100]))
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.353, 1.0], [0.695, 1.0])
    """
    groups, tail = hits.shape[-1], (1 - level) / 2
    pairs = (hits[..., None], persons[..., None], hits[..., None, :], persons[..., None, :])
    others = ~np.eye(groups, dtype=bool)
    low = ratio_bounds(*pairs, tail=tail)[0]
    high = ratio_bounds(*pairs, tail=tail / max(1, groups - 1))[1]
    return low.min(axis=-1, where=others, initial=1.0), high.min(axis=-1, where=others, initial=1.0)


def _crossing(x: FloatArray, n: FloatArray, y: FloatArray, m: FloatArray, reach: float) -> FloatArray:
    """Return the logarithm of the ratio at which the score statistic, which falls with the ratio, is ``reach``."""
    least, most = np.full(x.shape, -_REACH), np.full(x.shape, _REACH)
    for _ in range(_STEPS):
        middle = (least + most) / 2
        above = _score(np.exp(middle), x, n, y, m) > reach
        least, most = np.where(above, middle, least), np.where(above, most, middle)
    return np.asarray((least + most) / 2)


def _score(ratio: FloatArray, x: FloatArray, n: FloatArray, y: FloatArray, m: FloatArray) -> FloatArray:
    """Return the score statistic of a ratio: the difference of the rates at it, by its error under the rates that are
    most likely then.
    """
    total = n + m
    linear = ratio * (n + y) + x + m
    other = (linear - np.sqrt(np.maximum(linear**2 - 4 * total * ratio * (x + y), 0))) / (2 * total * ratio)
    rate = ratio * other
    variance = (rate * (1 - rate) / n + ratio**2 * other * (1 - other) / m) * total / (total - 1)
    difference = x / n - ratio * y / m
    flat = variance <= 0
    score = difference / np.sqrt(np.where(flat, 1.0, variance))
    return np.asarray(np.where(flat, np.where(difference == 0, 0.0, np.copysign(np.inf, difference)), score))
