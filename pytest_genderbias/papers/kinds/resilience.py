"""The kind ``resilience``: models of several sides, tuned for a task, by steps and by frozen layers (webster2020,
figures 1 and 2).

Settings:
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

from pytest_genderbias.gates.judgement import AFTER, CONTROL
from pytest_genderbias.mitigation.harness.callback import HistoryEntry
from pytest_genderbias.mitigation.harness.curves import Resilience, resilience
from pytest_genderbias.mitigation.harness.run import seeds_of
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.models.model import Model
from pytest_genderbias.papers.kinds import Outcome, mitigated
from pytest_genderbias.papers.places import Places, StoredFigure, without_paths

GIVEN = "given"  #: in place of a pre-training: the model as it is


def carry_out(settings: Mapping[str, Any], places: Places) -> Outcome:
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
    return Outcome(
        _figures(curves, recipe.name), seeds, {"curves": without_paths([curve.to_dict() for curve in curves], places)}
    )


def _pretrained(model: str, pretraining: Any, seed: int, places: Places) -> str | Model:
    """Return the model of a side before it is tuned."""
    if pretraining == GIVEN:
        return model
    recipe = make_recipe(**pretraining["recipe"])
    run = mitigated(model, pretraining["method"], recipe, places, seeds=[seed], controls=1)
    side = pretraining.get("of", AFTER)
    return run.models(CONTROL if side == CONTROL else AFTER)[0][0]


def _figures(curves: Sequence[Resilience], task: str) -> dict[str, StoredFigure]:
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
