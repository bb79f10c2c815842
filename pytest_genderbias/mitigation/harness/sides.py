"""The figures of a run: a statistic, or how well a task is done, on all models of each side, and how two sides compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.gates.judgement import LEVEL, WHOLE_SUITE
from pytest_genderbias.gates.regression import MUST_AGREE, different
from pytest_genderbias.gates.verdicts import NO_VALUE, NOT_COMPARABLE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.mitigation.harness.run import AFTER, BEFORE, CONTROL, MitigationRun
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, log_sums
from pytest_genderbias.statistics.inference.paired import Difference
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
class Figures:
    """One figure of all models of each side, shape (seeds, models), how bad a value is, and how two sides are compared.

    ``item_sums``: of one model, by side, seed and place. ``whole``: whether all cases were scored; ``part`` says how many else.
    """

    values: Mapping[str, FloatArray]
    item_sums: Callable[[str, int, int], ItemSums]
    distance: Callable[[Any], Any]
    neutral: float = 0.0
    restarts: bool = False
    part: str = ""

    def distance_of(self, side: str) -> float:
        """Return how bad a side is: of its mean over restarts, or in the mean over its models."""
        values = self.values[side]
        return float(np.mean(self.distance(values.mean(axis=0) if self.restarts else values)))

    def value_of(self, side: str) -> float:
        """Return the mean over all models of a side."""
        return float(self.values[side].mean())

    def compare(self, now: str, then: Mapping[str, float], kept: float = 1.0) -> Difference:
        """Return how far a side lies above a share of others, of which each has a weight.

        Where nothing tells what other items or restarts would give, figures of all cases are compared as they are, and others decide
        nothing: their bounds are infinite.
        """
        weights = [
            w / self.values[side].shape[1] for side, w in then.items() for _ in range(self.values[side].shape[1])
        ]
        try:
            if self.restarts:
                columns = [column for side in then for column in self.values[side].T]
                found = compare_weighted_restarts(
                    columns, self.values[now].mean(axis=1), self.distance, self.neutral, weights, kept, LEVEL
                )
                return replace(found, over=f"{found.over}, {self.part}") if self.part else found
            models = [(self._of(side), w) for side, w in then.items()]
            share = [w / len(found) for found, w in models for _ in found]
            everyone = [one for found, _ in models for one in found]
            return compare_weighted_items(everyone, self._of(now), self.distance, self.neutral, share, kept, LEVEL)
        except UndefinedError as error:
            value = self.distance_of(now) - kept * sum(w * self.distance_of(side) for side, w in then.items())
            return self._without_bounds(value, str(error))

    def _of(self, side: str) -> list[ItemSums]:
        seeds, models = self.values[side].shape
        return [self.item_sums(side, i, k) for i in range(seeds) for k in range(models)]

    def _without_bounds(self, value: float, why: str) -> Difference:
        nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
        if self.restarts or self.part:
            over = "restarts" if self.restarts else WHOLE_SUITE
            return Difference(value, -np.inf, np.inf, 1.0, 1.0, 0, 0, why, over, *nothing)
        return Difference(value, value, value, 1.0, 1.0, 0, 0, why, f"{WHOLE_SUITE}, all of them", *nothing)


@dataclass(frozen=True)
class Case:
    """A run measured on a suite, for one statistic; ``after``: the mean over its seeds."""

    run: MitigationRun
    suite: Suite
    measured: Measured
    statistic: str
    after: Measurement

    @property
    def about(self) -> Statistic:
        """Which way is worse, and the neutral value."""
        return self.after.statistics[self.statistic]

    @property
    def restarts(self) -> bool:
        """Whether other restarts are asked about, and not other items."""
        return self.run.trained and len(self.run.seeds) > 1

    def trouble(self) -> tuple[str, str] | None:
        """Return a verdict and why, where the models cannot be compared."""
        first = self.measured[AFTER][0][0]  # not the mean over seeds, which is of another sort
        for side, models in self.measured.items():
            for seed, group in zip(self.run.seeds, models, strict=True):
                for one in group:
                    if one.values[self.statistic] is None:
                        why = one.reasons.get(self.statistic, "no reason is known")
                        return NO_VALUE, f"{self.statistic} has no value {side}, seed {seed}: {why}"
                    if unlike := different(one, self.statistic, first.signature, MUST_AGREE):
                        return NOT_COMPARABLE, f"{side} was measured on something else ({'; '.join(unlike)})"
        return None

    def figures(self, statistic: str | None = None) -> Figures:
        """Return a statistic of the suite; a side of which a model has no value is not in it."""
        name = statistic or self.statistic
        values = {}
        for side, models in self.measured.items():
            found = [[one.values[name] for one in group] for group in models]
            if all(v is not None for group in found for v in group):
                values[side] = np.asarray(found, dtype=np.float64)
        about, first = self.after.statistics[name], self.measured[AFTER][0][0]
        part = f"on these {first.n:,} of {first.n_total:,} cases" if first.sampled(name) else ""
        return Figures(
            values, lambda side, i, k: self.measured[side][i][k].item_sums(name), about.distance, about.neutral, self.restarts, part
        )  # fmt: skip

    def interval(self, side: str, statistic: str) -> Interval | None:
        """Return the interval of a side's mean: over restarts where they differ, else over items of one model."""
        models = self.measured[side]
        values = np.asarray([[one.values[statistic] for one in group] for group in models], dtype=np.float64)
        if self.restarts and float(np.ptp(values)) > 0:
            return restart_interval(values.mean(axis=1))
        return models[0][0].intervals[statistic] if float(np.ptp(values)) == 0 else None


def bias_left_by_item(case: Case, figures: Figures) -> Interval | None:
    """Return how much of each item's own bias is left: over items of one pair of models, or over restarts."""
    try:
        found = [
            item_slope(figures.item_sums(BEFORE, i, 0), figures.item_sums(AFTER, i, 0), figures.neutral)
            for i in range(len(case.run.seeds))
        ]
    except UndefinedError:
        return None
    if len(found) == 1:
        return found[0]
    middles = [(one.low + one.high) / 2 for one in found if one is not None]
    over = restart_interval(middles) if len(middles) == len(found) else None
    return (
        None
        if over is None
        else replace(over, over=f"{case.figures(case.statistic).item_sums(AFTER, 0, 0).over} in other restarts")
    )


def task_figures(case: Case, name: str) -> tuple[Figures, bool, str]:
    """Return a figure of the task, whether higher is worse, and where it is from: what the recipe evaluates, or the suite measures."""
    run, known = case.run, [one for one in case.after.values if one != case.statistic]
    told: list[str] = []
    if run.recipe is not None:
        found = _performances(run)
        told = list(found[AFTER][0][0])
        if name in told:
            values = {
                side: np.asarray([[one[name].value for one in group] for group in models])
                for side, models in found.items()
            }
            figures = Figures(
                values, lambda side, i, k: found[side][i][k][name].item_sums, _upwards, restarts=case.restarts
            )
            return figures, found[AFTER][0][0][name].direction == "higher", ""
    if name not in known or case.after.statistics[name].direction == "away":
        of_recipe = f"the recipe evaluates {', '.join(told)}" if told else "the run has no recipe that evaluates"
        raise SettingError(
            f"nobody can tell the {name!r} of the budget: {of_recipe}, and {case.after.suite} measures {', '.join(known) or 'nothing'} beside"
        )
    figures = case.figures(name)
    if not run.trained:
        figures = replace(figures, values={side: v for side, v in figures.values.items() if side != CONTROL})
    return figures, case.after.statistics[name].direction == "higher", f" of {case.after.suite}"


def _performances(run: MitigationRun) -> dict[str, list[list[dict[str, Performance]]]]:
    """Return how well each side does its task; a control that has no figure, or of which nobody asks, is left out.

    Raises:
        UndefinedError: before or after has none.
    """
    found = {}
    for side in (BEFORE, AFTER, *((CONTROL,) if run.control and run.trained else ())):
        try:
            found[side] = run.performance(side)
        except UndefinedError as error:
            if side != CONTROL:
                raise UndefinedError(f"{side}: {error}") from error
    return found


def as_ratios(figures: Figures, higher: bool) -> Figures:
    """Return the logarithms, whose differences are ratios; larger is worse."""
    values = {side: np.log(found) for side, found in figures.values.items()}
    item_sums = figures.item_sums
    return replace(
        figures, values=values, item_sums=lambda side, i, k: log_sums(item_sums(side, i, k)),
        distance=_upwards if higher else _downwards, neutral=0.0,
    )  # fmt: skip


def share_of_log(log: float, higher: bool) -> float:
    """Return how much worse, as a share of what was before, from the logarithm of the ratio."""
    return float(np.expm1(log) if higher else -np.expm1(-log))


def _upwards(value: Any) -> Any:
    return value


def _downwards(value: Any) -> Any:
    return -value
