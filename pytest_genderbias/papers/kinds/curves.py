"""The kinds of runs along trainings: ``growth``, bias and performance with and without methods (lu2018, figure 3), and
``resilience``, models of several sides that are tuned for a task, by steps and by frozen layers (webster2020, figures 1
and 2).

Settings of ``growth``:
    model: spec of the model to start from; missing where the recipe makes its own.
    recipe: the training.
    sides: the method of each side, by its name; ``none`` for the recipe alone.
    suite, every, seeds: as of ``growth``; ``options`` are those of the suite.

Figures: ``SIDE/SUITE/STATISTIC`` and ``SIDE/RECIPE/FIGURE`` at the end, ``SIDE at N/...`` at a place along the
training, and ``SIDE/growth/loss_spearman``, the rank correlation of bias and loss along each training.

Settings of ``resilience``:
    model: spec of the model that every side starts from.
    sides: for each side ``given`` (the model itself), or ``method`` and ``recipe`` of its pre-training, and ``of``:
    ``after`` (default) or
        ``control``, the same pre-training without the method.
    recipe: the task that every side is tuned for.
    suite: what is measured; ``options`` are those of the suite.
    steps, frozen: as of ``resilience``.
    seeds: of pre-training and tuning: their number, or a list.

Figures: ``SIDE step N/SUITE/STATISTIC``, ``SIDE frozen PART/SUITE/STATISTIC``, and the same with the recipe's name and
figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.judgement import AFTER, CONTROL
from pytest_genderbias.mitigation.harness.callback import HistoryEntry, loss_association
from pytest_genderbias.mitigation.harness.curves import Growth, Resilience, growth, resilience
from pytest_genderbias.mitigation.harness.run import seeds_of
from pytest_genderbias.mitigation.methods.registry import make_recipe, resolve_method
from pytest_genderbias.models.model import Model
from pytest_genderbias.papers.kinds import Outcome, mitigated
from pytest_genderbias.papers.places import Places, StoredFigure, without_paths

NO_METHOD = "none"  #: in place of a method: the recipe alone
GIVEN = "given"  #: in place of a pre-training: the model as it is


def carry_out_growth(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train every side once a seed, and return the figures along the trainings."""
    methods = {
        side: None if method == NO_METHOD else resolve_method(method) for side, method in settings["sides"].items()
    }
    recipe = make_recipe(**settings["recipe"])
    curves = growth(
        recipe,
        methods,
        settings["suite"],
        model=settings.get("model"),
        every=settings["every"],
        seeds=settings["seeds"],
        folder=places.trainings,
        progress=places.progress,
        **settings.get("options", {}),
    )
    details = {"growth": without_paths(curves.to_dict(), places)}
    return Outcome(_along_trainings(curves, recipe.name), tuple(curves.seeds), details)


def _along_trainings(curves: Growth, task: str) -> dict[str, StoredFigure]:
    figures: dict[str, StoredFigure] = {}
    for side in curves.histories:
        homes = [(curves.suite, name) for name in curves.statistics] + [(task, name) for name in curves.tasks]
        for home, name in homes:
            curve = curves.curve(side, name, task=home == task)
            for place, values in curve.items():
                figures[f"{side} at {place:g}/{home}/{name}"] = StoredFigure(values)
            figures[f"{side}/{home}/{name}"] = StoredFigure(curve[max(curve)])
        associations = [_association(history) for history in curves.histories[side]]
        figures[f"{side}/growth/loss_spearman"] = StoredFigure(associations)
    return figures


def _association(history: Sequence[HistoryEntry]) -> float | None:
    """Return the rank correlation of bias and loss along a training; ``None`` where one of them never moves."""
    try:
        return float(loss_association(history)["spearman"])
    except UndefinedError:
        return None


def carry_out_resilience(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Pre-train every side, tune it for the task, and return the figures by step and by frozen part."""
    recipe = make_recipe(**settings["recipe"])
    seeds = seeds_of(settings["seeds"])
    curves = [
        resilience(
            {side: _pretrained(settings["model"], how, seed, places) for side, how in settings["sides"].items()},
            settings["suite"],
            recipe,
            steps=settings["steps"],
            frozen=settings["frozen"],
            seed=seed,
            folder=places.trainings,
            progress=places.progress,
            **settings.get("options", {}),
        )
        for seed in seeds
    ]
    details = {"curves": without_paths([curve.to_dict() for curve in curves], places)}
    return Outcome(_of_tuned_models(curves, recipe.name), seeds, details)


def _pretrained(model: str, pretraining: Any, seed: int, places: Places) -> str | Model:
    """Return the model of a side before it is tuned."""
    if pretraining == GIVEN:
        return model
    recipe = make_recipe(**pretraining["recipe"])
    run = mitigated(model, pretraining["method"], recipe, places, seeds=[seed], controls=1)
    side = pretraining.get("of", AFTER)
    return run.models(CONTROL if side == CONTROL else AFTER)[0][0]


def _of_tuned_models(curves: Sequence[Resilience], task: str) -> dict[str, StoredFigure]:
    figures: dict[str, StoredFigure] = {}
    for side in curves[0].by_step:
        places = {f"step {step}": [c.by_step[side].get(step) for c in curves] for step in curves[0].by_step[side]}
        for part in curves[0].by_frozen[side]:
            places[f"frozen {part}"] = [curve.by_frozen[side].get(part) for curve in curves]
        for place, entries in places.items():
            figures.update(_figures_at(f"{side} {place}", entries, task))
    return figures


def _figures_at(place: str, entries: Sequence[HistoryEntry | None], task: str) -> dict[str, StoredFigure]:
    """Return what was measured at one place, by seed; ``None`` for a seed whose training has no such place."""
    figures: dict[str, StoredFigure] = {}
    parts: list[tuple[Literal["values", "performance"], str]] = [("values", place), ("performance", f"{place}/{task}")]
    for part, prefix in parts:
        for name in dict.fromkeys(name for entry in entries if entry is not None for name in entry[part]):
            values = [None if entry is None else entry[part].get(name) for entry in entries]
            figures[f"{prefix}/{name}"] = StoredFigure(values)
    return figures
