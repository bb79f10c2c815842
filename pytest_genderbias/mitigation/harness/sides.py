"""The sides of a run: a statistic, or performance on the task, of all models of each side, and comparisons of sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.gates.agreement import different
from pytest_genderbias.gates.judgement import LEVEL, WHOLE_SUITE
from pytest_genderbias.gates.verdicts import NO_VALUE, NOT_COMPARABLE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.mitigation.harness.run import AFTER, BEFORE, CONTROL, MitigationRun
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, log_sums
from pytest_genderbias.statistics.inference.paired import Difference, Distance
from pytest_genderbias.statistics.inference.reduction import (
    compare_weighted_items,
    compare_weighted_restarts,
    item_slope,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite

Measured = dict[str, list[list[Measurement]]]  #: by side, seed and model


@dataclass(frozen=True)
class SideValues:
    """The values of one figure on all models of each side.

    Attributes:
        values: by side, shape (seeds, models).
        item_sums: given side, seed and model, the sums over items of that model.
        distance: from values to how bad they are, larger is worse; elementwise.
        neutral: the value without bias.
        restarts: whether sides are compared over restarts, and not over items.
        part: which part of the cases was scored, in words; empty if all were.
    """

    values: Mapping[str, FloatArray]
    item_sums: Callable[[str, int, int], ItemSums]
    distance: Distance
    neutral: float = 0.0
    restarts: bool = False
    part: str = ""

    def distance_of(self, side: str) -> float:
        """Return the distance from neutral: of the mean over restarts, or else the mean distance of the models."""
        values = self.values[side]
        return float(np.mean(self.distance(values.mean(axis=0) if self.restarts else values)))

    def value_of(self, side: str) -> float:
        """Return the mean over all models of a side."""
        return float(self.values[side].mean())

    def compare(self, now: str, then: Mapping[str, float], kept: float = 1.0) -> Difference:
        """Return the distance of side ``now`` minus ``kept`` times the weighted distances of the sides ``then``.

        Where the figure is not made of items or restarts that could vary, figures of all cases are compared as they are, and figures of
        a sample have infinite bounds.
        """
        weights = [
            w / self.values[side].shape[1] for side, w in then.items() for _ in range(self.values[side].shape[1])
        ]
        try:
            if self.restarts:
                columns = [column for side in then for column in self.values[side].T]
                difference = compare_weighted_restarts(
                    columns, self.values[now].mean(axis=1), self.distance, self.neutral, weights, kept, LEVEL
                )
                return replace(difference, over=f"{difference.over}, {self.part}") if self.part else difference
            models = [(self._sums_of(side), w) for side, w in then.items()]
            shares = [w / len(sums) for sums, w in models for _ in sums]
            all_sums = [item_sums for sums, _ in models for item_sums in sums]
            return compare_weighted_items(
                all_sums, self._sums_of(now), self.distance, self.neutral, shares, kept, LEVEL
            )
        except UndefinedError as error:
            value = self.distance_of(now) - kept * sum(w * self.distance_of(side) for side, w in then.items())
            return self._without_bounds(value, str(error))

    def _sums_of(self, side: str) -> list[ItemSums]:
        seeds, models = self.values[side].shape
        return [self.item_sums(side, i, k) for i in range(seeds) for k in range(models)]

    def _without_bounds(self, value: float, reason: str) -> Difference:
        no_items = np.zeros(0), np.zeros(0, dtype=np.str_)
        if self.restarts or self.part:
            over = "restarts" if self.restarts else WHOLE_SUITE
            return Difference(value, -np.inf, np.inf, 1.0, 1.0, 0, 0, reason, over, *no_items)
        return Difference(value, value, value, 1.0, 1.0, 0, 0, reason, f"{WHOLE_SUITE}, all of them", *no_items)


@dataclass(frozen=True)
class MeasuredRun:
    """A run measured on a suite, for one statistic; ``after`` is the mean over its seeds."""

    run: MitigationRun
    suite: Suite
    measured: Measured
    statistic: str
    after: Measurement

    @property
    def about(self) -> Statistic:
        """Worse direction and neutral value of the statistic."""
        return self.after.statistics[self.statistic]

    @property
    def restarts(self) -> bool:
        """Whether the verdict is about other restarts, and not about other items."""
        return self.run.trained and len(self.run.seeds) > 1

    def trouble(self) -> tuple[str, str] | None:
        """Return a verdict and its reason if the models cannot be compared."""
        reference = self.measured[AFTER][0][0]  # not the mean over seeds, whose signature differs
        for side, models in self.measured.items():
            for seed, group in zip(self.run.seeds, models, strict=True):
                for measurement in group:
                    if measurement.values[self.statistic] is None:
                        why = measurement.reasons.get(self.statistic, "no reason is known")
                        return NO_VALUE, f"{self.statistic} has no value {side}, seed {seed}: {why}"
                    if unlike := different(measurement, self.statistic, reference.signature):
                        return NOT_COMPARABLE, f"{side} was measured on something else ({'; '.join(unlike)})"
        return None

    def values_of(self, statistic: str | None = None) -> SideValues:
        """Return a statistic of the suite; a side on which a model has no value is left out."""
        name = statistic or self.statistic
        values = {}
        for side, models in self.measured.items():
            rows = [[measurement.values[name] for measurement in group] for group in models]
            if all(v is not None for group in rows for v in group):
                values[side] = np.asarray(rows, dtype=np.float64)
        about, first = self.after.statistics[name], self.measured[AFTER][0][0]
        part = f"on these {first.n:,} of {first.n_total:,} cases" if first.sampled(name) else ""
        return SideValues(
            values, lambda side, i, k: self.measured[side][i][k].item_sums(name), cast(Distance, about.distance), about.neutral, self.restarts, part
        )  # fmt: skip

    def interval(self, side: str, statistic: str) -> Interval | None:
        """Return the interval of a side's mean: over restarts if they differ, else over the items of one model."""
        models = self.measured[side]
        values = np.asarray([[m.values[statistic] for m in group] for group in models], dtype=np.float64)
        if self.restarts and float(np.ptp(values)) > 0:
            return restart_interval(values.mean(axis=1))
        return models[0][0].intervals[statistic] if float(np.ptp(values)) == 0 else None


def bias_left_by_item(case: MeasuredRun, figures: SideValues) -> Interval | None:
    """Return the slope of each item's bias after on its bias before: over the items of one pair of models, or over restarts."""
    try:
        slopes = [
            item_slope(figures.item_sums(BEFORE, i, 0), figures.item_sums(AFTER, i, 0), figures.neutral)
            for i in range(len(case.run.seeds))
        ]
    except UndefinedError:
        return None
    if len(slopes) == 1:
        return slopes[0]
    middles = [(slope.low + slope.high) / 2 for slope in slopes if slope is not None]
    interval = restart_interval(middles) if len(middles) == len(slopes) else None
    if interval is None:
        return None
    items = case.values_of(case.statistic).item_sums(AFTER, 0, 0).over
    return replace(interval, over=f"{items} in other restarts")


def task_values(case: MeasuredRun, name: str) -> tuple[SideValues, bool, str]:
    """Return a budget figure, whether higher is worse, and its source: what the recipe evaluates, or another statistic of the suite.

    Raises:
        SettingError: neither has a figure of that name.
        UndefinedError: the figure is undefined before or after.
    """
    run, others = case.run, [statistic for statistic in case.after.values if statistic != case.statistic]
    evaluated: list[str] = []
    if run.recipe is not None:
        performances = _performances(run)
        first = performances[AFTER][0][0]
        evaluated = list(first)
        if name in evaluated:
            values = {
                side: np.asarray([[figures[name].value for figures in group] for group in models])
                for side, models in performances.items()
            }
            figures = SideValues(
                values, lambda side, i, k: performances[side][i][k][name].item_sums, _upwards, restarts=case.restarts
            )
            return figures, first[name].direction == "higher", ""
    if name not in others or case.after.statistics[name].direction == "away":
        of_recipe = (
            f"the recipe evaluates {', '.join(evaluated)}" if evaluated else "the run has no recipe that evaluates"
        )
        raise SettingError(
            f"budget figure {name!r} is not measured: {of_recipe}, and {case.after.suite} measures {', '.join(others) or 'nothing'} beside"
        )
    figures = case.values_of(name)
    if not run.trained:
        figures = replace(figures, values={side: v for side, v in figures.values.items() if side != CONTROL})
    return figures, case.after.statistics[name].direction == "higher", f" of {case.after.suite}"


def _performances(run: MitigationRun) -> dict[str, list[list[dict[str, Performance]]]]:
    """Return the performance of each side on its task; a control is left out if it is not trained or its figures are undefined.

    Raises:
        UndefinedError: the performance before or after is undefined.
    """
    performances = {}
    for side in (BEFORE, AFTER, *((CONTROL,) if run.control and run.trained else ())):
        try:
            performances[side] = run.performance(side)
        except UndefinedError as error:
            if side != CONTROL:
                raise UndefinedError(f"{side}: {error}") from error
    return performances


def as_ratios(figures: SideValues, higher: bool) -> SideValues:
    """Return the logarithms, whose differences are ratios; larger is worse."""
    values = {side: np.log(of_side) for side, of_side in figures.values.items()}
    item_sums = figures.item_sums
    return replace(
        figures, values=values, item_sums=lambda side, i, k: log_sums(item_sums(side, i, k)),
        distance=_upwards if higher else _downwards, neutral=0.0,
    )  # fmt: skip


def share_of_log(log: float, higher: bool) -> float:
    """Return how much worse a figure is, as a share of its value before, from the logarithm of the ratio."""
    return float(np.expm1(log) if higher else -np.expm1(-log))


def _upwards(value: FloatArray) -> FloatArray:
    return value


def _downwards(value: FloatArray) -> FloatArray:
    return -value
