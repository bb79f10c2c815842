"""The sides of a mitigation as numbers, and the share of a distance from neutral that it removed, with bounds for other
units or other restarts.

``docs/evidence/mitigation-verdicts.md`` has measured error rates and power; a small version is recomputed by
``tests/statistics/inference/test_reduction.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import lcm

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.intervals import (
    Interval,
    clustered_mean_error,
    clustered_mean_interval,
    restart_interval,
)
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, KnownSums, align
from pytest_genderbias.statistics.inference.over_restarts import compare_restarts
from pytest_genderbias.statistics.inference.paired import Difference, Distance, compare_aligned

_STEPS = 8  #: of the search for a bound
_CLOSE = 1e-3  #: accuracy of a bound, as a share of the distance before

#: From the share of the distance before that may remain to the excess of the distance after over it.
Excess = Callable[[float], Difference]


@dataclass(frozen=True)
class Reduction:
    """The share of the distance from neutral that was removed.

    Attributes:
        share: 1 - D(after) / D(before): 1 is all of it, 0 none; negative if the distance grew.
        low: lower one-sided bound of the share, or ``None``.
        high: upper one-sided bound, or ``None``.
        excess: D(after) - (1 - by) D(before) with its bounds; the share is ``by`` or more where it is 0 or less.
        change: D(after) - D(before), with its bounds.
    """

    share: float
    low: float | None
    high: float | None
    excess: Difference
    change: Difference


def measure_reduction(before: float, after: float, excess: Excess, by: float) -> Reduction:
    """Return the share of a distance that was removed, with bounds that decide whether it is at least ``by``.

    The bounds of the share are those shares at which a one-sided bound of D(after) - (1 - share) D(before) is 0
    (Fieller 1954, with the bounds of the comparison in place of Student's): the lower bound is ``by`` or more exactly
    if the test of ``by`` rejects.

    Args:
        before: D(before), above 0.
        after: D(after).
        excess: compares after with a share of before, as :func:`compare_weighted_items` does.
        by: the share that should be removed, 0 to 1.

    Example:
        Each of ten items is halved: the excess over .7 of before is - .2 of it.

        >>> from pytest_genderbias.statistics.inference.item_sums import mean_sums
        >>> labels, ones, bias = np.array(list("abcdefghij")), np.ones(10), np.arange(11.0, 21.0)
        >>> sides = [mean_sums(labels, x, ones, "letters") for x in (bias, bias / 2)]
        >>> judge = lambda kept: compare_weighted_items(sides[:1], sides[1:], lambda v: v, kept=kept)
        >>> found = measure_reduction(15.5, 7.75, judge, 0.3)
        >>> found.share, round(found.excess.value, 3), found.excess.high < 0
        (0.5, -3.1, True)
    """
    share, excess = 1 - after / before, cache(excess)
    low = solve_bound(lambda s: excess(1 - s).high, share, before, before)
    high = solve_bound(lambda s: excess(1 - s).low, share, before, before)
    return Reduction(share, low, None if high is None else min(high, max(1.0, share)), excess(1 - by), excess(1.0))


def solve_bound(bound: Callable[[float], float], start: float, slope: float, scale: float) -> float | None:
    """Return the root of a nearly linear bound, by the secant method from ``start``; ``None`` if it does not converge
    soon.

    >>> round(solve_bound(lambda s: 2 * s - 1, 0.0, 1.0, 1.0), 6)
    0.5
    """
    at, value = start, bound(start)
    for _ in range(_STEPS):
        if not np.isfinite(value) or not slope:
            return None
        if abs(value) <= _CLOSE * abs(scale):
            return at
        then, was = at, value
        at = then - was / slope
        value = bound(at)
        slope = (value - was) / (at - then)
    return None


def compare_weighted_items(
    then: Sequence[ItemSums],
    now: Sequence[ItemSums],
    distance: Distance,
    neutral: float = 0.0,
    weights: Sequence[float] | None = None,
    kept: float = 1.0,
    level: float = 0.95,
) -> Difference:
    """Return the excess of the mean distance of ``now`` over a share of that of ``then``, on the units that all models
    have.

    That is mean D(now) - kept * sum of w D(then), by
    :func:`~pytest_genderbias.statistics.inference.paired.compare_items`. Each model keeps the side of neutral on which
    it was measured, as the mean over restarts does in
    :func:`~pytest_genderbias.statistics.inference.over_restarts.compare_restarts`. For a count of significant tests the
    share is taken of the measured count, and only the change has bounds, since exchanging scaled counts is not
    meaningful.

    Args:
        then: the models to compare with, one statistic.
        now: the models to judge; their mean is compared.
        distance: as in :func:`~pytest_genderbias.statistics.inference.paired.compare_items`.
        neutral: the value whose distance is 0.
        weights: of the models of ``then``, with the sum 1; equal by default.
        kept: the share, 0 or more.
        level: of each bound, one-sided.

    Raises:
        UndefinedError: as :func:`~pytest_genderbias.statistics.inference.paired.compare_items`.
    """
    share = np.full(len(then), 1 / len(then)) if weights is None else np.asarray(weights, dtype=np.float64)
    everyone = _aligned([*then, *now])
    then, now = everyone[: len(then)], everyone[len(then) :]
    if _are_means_of_the_same_cases(then) and _are_means_of_the_same_cases(now):
        even = np.full(len(now), 1 / len(now))
        sides = _mean_of(then, kept * share, distance, neutral), _mean_of(now, even, distance, neutral)
        return compare_aligned(*sides, distance, 0.0, level)
    if len(then) == len(now) == 1 and kept == 1.0:
        return compare_aligned(then[0], now[0], distance, 0.0, level)
    if not all(model.smooth for model in everyone):
        change = compare_aligned(*_side_by_side(then, now, share, distance, neutral), distance, 0.0, level)
        stays = (1 - kept) * sum(w * float(distance(np.asarray(m.total))) for w, m in zip(share, then, strict=True))
        return replace(change, value=change.value + stays, low=change.low + stays, high=change.high + stays)
    return compare_aligned(*_side_by_side(then, now, kept * share, distance, neutral), distance, 0.0, level)


def _aligned(models: Sequence[ItemSums]) -> list[ItemSums]:
    """Return all models with the units that all of them have, and the sums that any of them has, by unit."""
    first = models[0]
    for other in models[1:]:
        first, _ = align(first, other)
    return [align(model, first)[0].by_unit() for model in models]


def _are_means_of_the_same_cases(models: Sequence[ItemSums]) -> bool:
    """Return whether all are means over cases, with equal numbers of cases of each unit."""
    return all(model.ratio and np.array_equal(model.sums[:, 1], models[0].sums[:, 1]) for model in models)


def _mean_of(models: Sequence[ItemSums], weights: FloatArray, distance: Distance, neutral: float) -> ItemSums:
    """Return the weighted mean of means over the same cases, unit by unit; weights below a sum of 1 are filled up with
    neutral.
    """
    counts = np.asarray(models[0].sums[:, 1], dtype=np.float64)
    signed = weights * _sides([model.total for model in models], distance, neutral)
    from_neutral = [model.sums[:, 0].astype(np.float64) - neutral * counts for model in models]
    sums = neutral * counts + signed @ np.stack(from_neutral)
    return replace(models[0], sums=np.stack([sums, counts], axis=1))


def _side_by_side(
    then: Sequence[ItemSums], now: Sequence[ItemSums], weights: FloatArray, distance: Distance, neutral: float
) -> tuple[_Joined, _Joined]:
    """Return each side as one: the sums of its models beside each other, and the weighted mean of their statistics.

    A side with fewer models repeats its own, so that both sides have equally many sums. If the weights do not add up to
    1, a last sum that does not enter the statistic differs between the sides: a unit with equal sums has no equal
    distance then.
    """
    blocks = lcm(len(then), len(now))
    mark = abs(float(weights.sum()) - 1) > 1e-12
    even = np.full(len(now), 1 / len(now))
    return (
        _joined(then, weights, blocks, distance, neutral, 1.0 if mark else None),
        _joined(now, even, blocks, distance, neutral, 0.0 if mark else None),
    )


@dataclass(frozen=True, eq=False)
class _Joined(ItemSums):
    """A side of several models as one: its statistic is neutral + the sum of weight * (value - neutral) of each block
    of sums.

    ``sums``: those of all blocks beside each other, and perhaps a last one that does not enter. ``models`` and
    ``weights``: of each block.
    """

    models: tuple[ItemSums, ...] = ()
    weights: Sequence[float] = ()
    neutral: float = 0.0

    def __post_init__(self) -> None:
        """Check nothing: the sums of each model were checked."""

    @property
    def ratio(self) -> bool:
        return False

    def unit_gaps(self) -> None:
        """Return no gaps: a mean of root mean squares is none."""

    def value(self, totals: FloatArray) -> FloatArray:
        """Return the statistic of totals, shape (..., K) to (...)."""
        width = self.models[0].sums.shape[1]
        parts = [
            weight * (model.value(totals[..., i * width : (i + 1) * width]) - self.neutral)
            for i, (model, weight) in enumerate(zip(self.models, self.weights, strict=True))
        ]
        return np.asarray(self.neutral + np.sum(parts, axis=0))


def _joined(
    models: Sequence[ItemSums], weights: FloatArray, blocks: int, distance: Distance, neutral: float, mark: float | None
) -> _Joined:
    first = models[0]
    places = [i % len(models) for i in range(blocks)]
    signed = weights * _sides([model.total for model in models], distance, neutral) * len(models) / blocks
    sums = [models[k].sums for k in places]
    if mark is not None:
        sums.append(np.full((len(first.labels), 1), mark, dtype=first.sums.dtype))
    beside = tuple(models[k] for k in places)
    joined = first.labels, np.concatenate(sums, axis=1), first.combiner, first.over, first.parameters
    return _Joined(*joined, models=beside, weights=tuple(signed[places]), neutral=neutral)


def _sides(values: Sequence[float], distance: Distance, neutral: float) -> FloatArray:
    """Return 1 for each value on the same side of neutral as the first, and -1 for others; 1 for all if only one side
    is worse.
    """
    if float(distance(np.asarray(neutral - 1.0))) * float(distance(np.asarray(neutral + 1.0))) < 0:
        return np.ones(len(values))
    signs = np.where(np.asarray(values, dtype=np.float64) < neutral, -1.0, 1.0)
    return np.asarray(signs * signs[0])


def compare_weighted_restarts(
    then: ArrayLike,
    now: ArrayLike,
    distance: Distance,
    neutral: float = 0.0,
    weights: Sequence[float] | None = None,
    kept: float = 1.0,
    level: float = 0.95,
) -> Difference:
    """Return the excess of the distance of restarts ``now`` over a share of that of others, seed by seed.

    That is :func:`~pytest_genderbias.statistics.inference.over_restarts.compare_restarts`, with neutral + kept * sum of
    w (value - neutral) as the values of ``then``, on the side of neutral where each of the models lies in the mean,
    paired by seed.

    Args:
        then: values of each model of a restart, shape (models, restarts): as the controls of each seed.
        now: values of each restart, shape (restarts,), in the order of the same seeds.
        distance: as in :func:`compare_weighted_items`, as are the other arguments.
        neutral: the value whose distance is 0.
        weights: of the models, with the sum 1; equal by default.
        kept: the share.
        level: of each bound, one-sided.

    Example:
        Half of 8 would be 4; the restarts have 1, 2 and 3.

        >>> compare_weighted_restarts([[8.0, 8.0, 8.0]], [1.0, 2.0, 3.0], lambda v: v, kept=0.5).value
        -2.0
    """
    values = np.asarray(then, dtype=np.float64)
    share = np.full(len(values), 1 / len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    signed = share * _sides(values.mean(axis=1).tolist(), distance, neutral)
    return compare_restarts(neutral + kept * (signed @ (values - neutral)), now, distance, 0.0, level, paired=True)


def item_slope(before: ItemSums, after: ItemSums, neutral: float = 0.0) -> Interval | None:
    """Return the share of each unit's own bias that remains after a mitigation: a slope through the origin, with its 95
    % interval.

    With a unit's mean :math:`b` before, :math:`a` after (from neutral) and its number of cases :math:`n` it is
    :math:`\\sum n a b / \\sum n b^2`: 1 if nothing changed, 0 if nothing remains, negative if the units lean the other
    way (such as two exchanged words), even if the mean over units is always 0.

    Args:
        before: sums of a mean over cases, with a sign.
        after: the same after the mitigation.
        neutral: the value of a unit without bias.

    Returns:
        Bounds over units. Both equal the slope if it is the same for every unit. ``None`` if too few units vary for
        bounds.

    Raises:
        UndefinedError: it is no mean over cases, or every unit is neutral before.

    >>> from pytest_genderbias.statistics.inference.item_sums import mean_sums
    >>> labels, ones, bias = np.array(["nurse", "pilot"]), np.ones(2), np.array([-2.0, 1.0])
    >>> found = item_slope(*(mean_sums(labels, x, ones, "occupations") for x in (bias, -bias)))
    >>> found.low, found.high
    (-1.0, -1.0)
    """
    if not (before.ratio and after.ratio):
        raise UndefinedError("the statistic is no mean over items with a sign")
    before, after = (side.by_unit() for side in align(before, after))
    (b, n), (a, m) = (np.asarray(side.sums, dtype=np.float64).T for side in (before, after))
    b, a = b / n - neutral, a / m - neutral
    products, squares = n * a * b, n * b * b
    if not (squares > 1e-18).any():
        raise UndefinedError(f"the {before.over} are all neutral before")
    biased = squares > 0
    products, squares = products[biased], squares[biased]
    slope, error = products.sum() / squares.sum(), np.inf
    if len(squares) > 1:
        error = float(clustered_mean_error(products, squares)[1])
    if error <= 1e-6 * max(1.0, abs(slope)):
        return Interval(float(slope), float(slope), 0.95, before.over, "the same in every item", len(squares))
    return clustered_mean_interval(products, squares, before.over)


def defined(sums: KnownSums | None) -> ItemSums:
    """Return sums; raise the reason why there are none."""
    if isinstance(sums, str):
        raise UndefinedError(sums)
    assert sums is not None, "the caller knows that something is known of the units"
    return sums


@dataclass(frozen=True)
class SideValues:
    """The values of one figure on all models of each side.

    Attributes:
        values: by side, shape (seeds, models).
        sums: by side, shape (seeds, models): the sums over units of each model; empty for a side that is compared over
            restarts only.
        distance: from values to how bad they are, larger is worse; elementwise.
        neutral: the value without bias.
        population: what the cases of the figure are, for bounds without units.
        restarts: whether sides are compared over restarts, and not over units.
        part: which part of the cases was scored, in words; empty if all were.
        level: of each bound, one-sided.

    Example:
        >>> none = [["it has no units"]]
        >>> values = {"before": np.array([[4.0]]), "after": np.array([[-1.0]])}
        >>> sides = SideValues(values, {"before": none, "after": none}, np.abs, 0.0, "cases")
        >>> sides.reduction("after", "before", by=0.5).share, sides.compare("after", {"before": 1.0}).method
        (0.75, 'it has no units')
    """

    values: Mapping[str, FloatArray]
    sums: Mapping[str, Sequence[Sequence[KnownSums]]]
    distance: Distance
    neutral: float
    population: str
    restarts: bool = False
    part: str = ""
    level: float = 0.95

    def distance_of(self, side: str) -> float:
        """Return the distance from neutral: of the mean over restarts, or else the mean distance of the models."""
        values = self.values[side]
        return float(np.mean(self.distance(values.mean(axis=0) if self.restarts else values)))

    def value_of(self, side: str) -> float:
        """Return the mean over all models of a side."""
        return float(self.values[side].mean())

    def compare(self, now: str, then: Mapping[str, float], kept: float = 1.0) -> Difference:
        """Return the distance of side ``now`` minus ``kept`` times the weighted distances of the sides ``then``.

        Where the figure is not made of units or restarts that could vary, figures of all cases are compared as they
        are, and figures of a sample have infinite bounds.
        """
        weights = [
            w / self.values[side].shape[1] for side, w in then.items() for _ in range(self.values[side].shape[1])
        ]
        try:
            if self.restarts:
                columns = [column for side in then for column in self.values[side].T]
                difference = compare_weighted_restarts(
                    columns, self.values[now].mean(axis=1), self.distance, self.neutral, weights, kept, self.level
                )
                return replace(difference, over=f"{difference.over}, {self.part}") if self.part else difference
            models = [(self._sums_of(side), w) for side, w in then.items()]
            shares = [w / len(sums) for sums, w in models for _ in sums]
            all_sums = [item_sums for sums, _ in models for item_sums in sums]
            return compare_weighted_items(
                all_sums, self._sums_of(now), self.distance, self.neutral, shares, kept, self.level
            )
        except UndefinedError as error:
            value = self.distance_of(now) - kept * sum(w * self.distance_of(side) for side, w in then.items())
            return self._without_bounds(value, str(error))

    def reduction(self, now: str, then: str, by: float) -> Reduction:
        """Return the share of the distance of side ``then`` that side ``now`` lacks, with bounds that decide whether it
        is at least ``by``.
        """
        distances = self.distance_of(then), self.distance_of(now)
        return measure_reduction(*distances, lambda kept: self.compare(now, {then: 1.0}, kept), by)

    def returned(self, again: str, now: str, then: str) -> tuple[float, tuple[float | None, float | None], str]:
        """Return which share of the reduction from side ``then`` to ``now`` is lost on side ``again``, its lower and
        upper one-sided bound, each ``None`` if it is not found, and what varies between them, in the plural. ``then``
        is worse than ``now``.
        """
        was, is_now, is_again = (self.distance_of(side) for side in (then, now, again))
        gone = was - is_now
        share = (is_again - is_now) / gone

        def above(s: float) -> Difference:
            return self.compare(again, {now: 1 - s, then: s})

        low = solve_bound(lambda s: above(s).low, share, -gone, gone)
        high = solve_bound(lambda s: above(s).high, share, -gone, gone)
        return share, (low, high), above(share).over

    def unit_slope(self, now: str, then: str) -> Interval | None:
        """Return the slope of each unit's bias on side ``now`` on that on side ``then``, by the first model of each
        seed.

        The interval is over the units of one pair of models, or over restarts; ``None`` where there are no such slopes.
        """
        try:
            slopes = [
                item_slope(defined(before), defined(after), self.neutral)
                for (before, *_), (after, *_) in zip(self.sums[then], self.sums[now], strict=True)
            ]
        except UndefinedError:
            return None
        if len(slopes) == 1:
            return slopes[0]
        known = [slope for slope in slopes if slope is not None]
        interval = restart_interval([(slope.low + slope.high) / 2 for slope in known])
        if interval is None or len(known) < len(slopes):
            return None
        return replace(interval, over=f"{known[0].over} in other restarts")

    def mapped(
        self, values: Callable[[FloatArray], FloatArray], sums: Callable[[ItemSums], ItemSums], distance: Distance
    ) -> SideValues:
        """Return a function of the figure, whose neutral value is 0."""
        return replace(
            self,
            distance=distance,
            neutral=0.0,
            values={side: values(of_side) for side, of_side in self.values.items()},
            sums={
                side: [[model if isinstance(model, str) else sums(model) for model in group] for group in of_side]
                for side, of_side in self.sums.items()
            },
        )

    def _sums_of(self, side: str) -> list[ItemSums]:
        return [defined(model) for group in self.sums[side] for model in group]

    def _without_bounds(self, value: float, reason: str) -> Difference:
        if self.restarts or self.part:
            over = "restarts" if self.restarts else self.population
            return Difference(value, -np.inf, np.inf, 1.0, 1.0, 0, 0, reason, over)
        return Difference(value, value, value, 1.0, 1.0, 0, 0, reason, f"{self.population}, all of them")
