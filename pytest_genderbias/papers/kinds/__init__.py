"""The kinds of runs: the function of each takes settings and places, and returns its :class:`Outcome`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_genderbias.errors import SettingError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.mitigation.harness.run import MitigationRun, ModelOrSpec, mitigate
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import SomeMethod
from pytest_genderbias.papers.places import Places, StoredFigure, StoredRun
from pytest_genderbias.recipes.recipe import Performance, Recipe
from pytest_genderbias.statistics.inference.item_sums import ItemSums


@dataclass(frozen=True)
class Outcome:
    """Figures by ``SIDE/SUITE/STATISTIC``, the seeds they are of, and what else the kind tells (plain JSON values)."""

    figures: Mapping[str, StoredFigure]
    seeds: Sequence[int] = (0,)
    details: Mapping[str, Any] = field(default_factory=dict)


def with_further_seeds(made: StoredRun, new: StoredRun, places: Places) -> Outcome:
    """Return the outcome of two results of different seeds, for kinds whose figures of a seed no other seed changes.

    The details have ``parts``: those of each result, with its seeds and the versions of its packages.
    """
    parts = made.details.get("parts") or [{"seeds": made.seeds, "versions": made.versions, **made.details}]
    parts = [*parts, {"seeds": new.seeds, "versions": new.versions, **new.details}]
    figures = {name: figure.joined(new.figures[name]) for name, figure in made.figures.items()}
    return Outcome(figures, [*made.seeds, *new.seeds], {"parts": parts})


def mitigated(
    model: ModelOrSpec | None, method: SomeMethod | None, recipe: Recipe | None, places: Places, **how: Any
) -> MitigationRun:
    """Return the models before and after a method, trained where the runs of a paper are kept; without a method, those
    of the recipe alone.
    """
    applied = Method() if method is None else method
    return mitigate(model, applied, recipe, folder=places.trainings, progress=places.progress, **how)


_OF_AN_ENTRY = ("suite", "as", "sides", "retrained", "units")


def label_of(entry: Mapping[str, Any]) -> str:
    """Return the name that locators have for the suite of an entry of ``measure``."""
    return str(entry.get("as", entry["suite"]))


def options_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which an entry of ``measure`` measures its suite."""
    return {key: value for key, value in entry.items() if key not in _OF_AN_ENTRY}


def figures_of(side: str, suite: str, measurements: Sequence[Sequence[Measurement]]) -> dict[str, StoredFigure]:
    """Return the figures of a suite measured on the models of a side, by seed and model: the mean over the models of a
    seed.
    """
    names = measurements[0][0].values if measurements and measurements[0] else ()
    return {
        f"{side}/{suite}/{name}": StoredFigure(
            [_mean([m.values[name] for m in models]) for models in measurements],
            [_interval(models, name) for models in measurements],
        )
        for name in names
    }


def figures_of_units(
    side: str, suite: str, measurements: Sequence[Sequence[Measurement]], statistic: str, units: Sequence[str]
) -> dict[str, StoredFigure]:
    """Return a statistic of single units (occupations, words) of the models of a side, as
    ``SIDE/SUITE/STATISTIC of UNIT``.

    Raises:
        SettingError: the suite has no such unit.
    """
    sums = [[model.item_sums(statistic) for model in models] for models in measurements]

    def value(model: ItemSums, unit: str) -> float:
        places = np.flatnonzero(model.by_unit().labels == unit)
        if not len(places):
            raise SettingError(f"{suite} has no {unit!r} among its {model.over}")
        return float(model.by_itself()[places[0]])

    return {
        f"{side}/{suite}/{statistic} of {unit}": StoredFigure(
            [_mean([value(model, unit) for model in models]) for models in sums]
        )
        for unit in units
    }


def figures_of_task(
    side: str, task: str, performances: Sequence[Sequence[Mapping[str, Performance]]]
) -> dict[str, StoredFigure]:
    """Return the performance of the models of a side, by seed and model, as figures of the task."""
    names = performances[0][0] if performances and performances[0] else ()
    return {
        f"{side}/{task}/{name}": StoredFigure([_mean([one[name].value for one in models]) for models in performances])
        for name in names
    }


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) and numbers else None


def _interval(models: Sequence[Measurement], name: str) -> list[float] | None:
    """Return the interval of a statistic over items, where the side has one model."""
    interval = models[0].intervals.get(name) if len(models) == 1 else None
    return None if interval is None else [interval.low, interval.high]
