"""The sides of a run as numbers: a statistic, or the performance on the task, of all models of each side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.gates.agreement import different
from pytest_genderbias.gates.judgement import AFTER, BEFORE, CONTROL
from pytest_genderbias.gates.regression import without_number
from pytest_genderbias.gates.verdicts import DESTROYED, LEVEL, NO_VALUE, NOT_COMPARABLE, TASK_LOST
from pytest_genderbias.measurement.ability import why_less_able
from pytest_genderbias.measurement.measurement import SUITE_CASES, Measurement
from pytest_genderbias.mitigation.harness.run import Measured, MitigationRun
from pytest_genderbias.recipes.recipe import Performance
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.item_sums import log_sums
from pytest_genderbias.statistics.inference.paired import Distance
from pytest_genderbias.statistics.inference.reduction import SideValues
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite


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

    def trouble(self, budget: Mapping[str, float]) -> tuple[str, str] | None:
        """Return a verdict and its reason if the models cannot be compared, or lost their ability.

        Args:
            budget: what the mitigation may cost; where it says nothing, no ability may be lost.
        """
        reference = self.measured[AFTER][0][0]  # not the mean over seeds, whose signature differs
        sides = list(zip(self.run.seeds, self.measured[BEFORE], self.measured[AFTER], strict=True))
        if not any(measurement.unable for _, before, _ in sides for measurement in before):
            for seed, _, after in sides:
                if unable := next((measurement.unable for measurement in after if measurement.unable), ""):
                    could = "the model could do its task before, and after the mitigation"
                    return DESTROYED, f"{could}, seed {seed}, it {unable}"
        for side, models in self.measured.items():
            for seed, group in zip(self.run.seeds, models, strict=True):
                for measurement in group:
                    if why := self._no_value(measurement):
                        return NO_VALUE, f"{self.statistic} has no value {side}, seed {seed}: {why}"
                    if unlike := different(measurement, self.statistic, reference.signature):
                        return NOT_COMPARABLE, f"{side} was measured on something else ({'; '.join(unlike)})"
        for seed, before, after in sides:
            if not budget and (why := why_less_able(after[0].abilities, before[0].abilities)):
                less = f"worse at its task, seed {seed}: {why}"
                return TASK_LOST, f"{less}; what it may cost is a budget: budget={{...}}, in YAML 'budget:'"
        return None

    def figures(self) -> tuple[SideValues, SideValues | None]:
        """Return the statistic, and what shows on which side of neutral it lies: itself, its partner with a sign, or
        nothing.
        """
        signed = self.statistic if self.about.direction == "away" else self.about.partner
        figures = self.values_of(self.statistic)
        if signed is None or signed == self.statistic:
            return figures, figures if signed else None
        return figures, self.values_of(signed, by_unit=True)

    def _no_value(self, measurement: Measurement) -> str:
        """Return why a measurement has no finite value of the statistic; an empty text if it has one."""
        value = measurement.values[self.statistic]
        if value is None:
            return measurement.reasons.get(self.statistic, "no reason is known")
        return without_number(measurement.sums.known(self.statistic)) if np.isfinite(value) else f"it is {value}"

    def values_of(self, statistic: str, by_unit: bool = False) -> SideValues:
        """Return a statistic of the suite; a side on which a model has no value is left out.

        Sums are left out where restarts are compared, unless ``by_unit`` asks for them.
        """
        values, sums = {}, {}
        for side, models in self.measured.items():
            rows = [[measurement.values[statistic] for measurement in group] for group in models]
            if all(v is not None for group in rows for v in group):
                values[side] = np.asarray(rows, dtype=np.float64)
                if by_unit or not self.restarts:
                    sums[side] = [[one.sums.known(statistic) for one in group] for group in models]
        about, first = self.after.statistics[statistic], self.measured[AFTER][0][0]
        part = f"on these {first.n:,} of {first.n_total:,} cases" if first.sampled(statistic) else ""
        return SideValues(
            values, sums, cast(Distance, about.distance), about.neutral, SUITE_CASES, self.restarts, part, LEVEL
        )

    def interval(self, side: str, statistic: str) -> Interval | None:
        """Return the interval of a side's mean: over restarts if they differ, else over the items of one model."""
        models = self.measured[side]
        values = np.asarray([[m.values[statistic] for m in group] for group in models], dtype=np.float64)
        if self.restarts and float(np.ptp(values)) > 0:
            return restart_interval(values.mean(axis=1))
        return models[0][0].intervals[statistic] if float(np.ptp(values)) == 0 else None


def task_values(case: MeasuredRun, name: str) -> tuple[SideValues, bool, str]:
    """Return a budget figure, whether higher is worse, and its source: what the recipe evaluates, or another statistic
    of the suite.

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
            sums = {
                side: [[figures[name].item_sums for figures in group] for group in models]
                for side, models in performances.items()
            }
            figures = SideValues(values, sums, np.positive, 0.0, SUITE_CASES, case.restarts, level=LEVEL)
            return figures, first[name].direction == "higher", ""
    if name not in others or case.after.statistics[name].direction == "away":
        of_recipe = (
            f"the recipe evaluates {', '.join(evaluated)}" if evaluated else "the run has no recipe that evaluates"
        )
        raise SettingError(
            f"budget figure {name!r} is not measured: {of_recipe}, and {case.after.suite} measures"
            f" {', '.join(others) or 'nothing'} beside"
        )
    figures = case.values_of(name)
    if not run.trained:
        figures = replace(figures, values={side: v for side, v in figures.values.items() if side != CONTROL})
    return figures, case.after.statistics[name].direction == "higher", f" of {case.after.suite}"


def _performances(run: MitigationRun) -> dict[str, list[list[dict[str, Performance]]]]:
    """Return the performance of each side on its task; a control is left out if it is not trained or its figures are
    undefined.

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
    return figures.mapped(np.log, log_sums, np.positive if higher else np.negative)


def share_of_log(log: float, higher: bool) -> float:
    """Return how much worse a figure is, as a share of its value before, from the logarithm of the ratio."""
    return float(np.expm1(log) if higher else -np.expm1(-log))
