"""The sides of a mitigation as numbers: one figure of all models of each side, its item sums, and comparisons of
sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.paired import Difference, Distance
from pytest_genderbias.statistics.inference.reduction import (
    Reduction,
    compare_weighted_items,
    compare_weighted_restarts,
    item_slope,
    measure_reduction,
    solve_bound,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError

#: The sums of one model, or why there are none.
KnownSums = ItemSums | UndefinedError


def sums_or_reason(item_sums: Callable[[str], ItemSums], statistic: str) -> KnownSums:
    """Return the sums of a statistic, or the reason why there are none."""
    try:
        return item_sums(statistic)
    except UndefinedError as error:
        return error


def defined(sums: KnownSums | None) -> ItemSums:
    """Return sums; raise the reason why there are none."""
    if isinstance(sums, UndefinedError):
        raise UndefinedError(str(sums))
    assert sums is not None, "the caller knows that something is known of the units"
    return sums


@dataclass(frozen=True)
class Return:
    """The share of a reduction that is lost again, with one-sided bounds or ``None``, and the excess that the bounds
    are of.
    """

    share: float
    low: float | None
    high: float | None
    difference: Difference


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
        >>> none = [[UndefinedError("it has no units")]]
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

    def returned(self, again: str, now: str, then: str) -> Return:
        """Return which share of the reduction from side ``then`` to ``now`` is lost on side ``again``; ``then`` is
        worse than ``now``.
        """
        was, is_now, is_again = (self.distance_of(side) for side in (then, now, again))
        gone = was - is_now
        share = (is_again - is_now) / gone

        def above(s: float) -> Difference:
            return self.compare(again, {now: 1 - s, then: s})

        low = solve_bound(lambda s: above(s).low, share, -gone, gone)
        high = solve_bound(lambda s: above(s).high, share, -gone, gone)
        return Return(share, low, high, above(share))

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
                side: [
                    [model if isinstance(model, UndefinedError) else sums(model) for model in group]
                    for group in of_side
                ]
                for side, of_side in self.sums.items()
            },
        )

    def _sums_of(self, side: str) -> list[ItemSums]:
        return [defined(model) for group in self.sums[side] for model in group]

    def _without_bounds(self, value: float, reason: str) -> Difference:
        no_items = np.zeros(0), np.zeros(0, dtype=np.str_)
        if self.restarts or self.part:
            over = "restarts" if self.restarts else self.population
            return Difference(value, -np.inf, np.inf, 1.0, 1.0, 0, 0, reason, over, *no_items)
        return Difference(value, value, value, 1.0, 1.0, 0, 0, reason, f"{self.population}, all of them", *no_items)
