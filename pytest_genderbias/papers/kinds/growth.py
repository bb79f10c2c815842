"""The kind ``growth``: bias and performance along trainings with and without methods (lu2018, figure 3).

Settings:
    model: spec of the model to start from; missing where the recipe makes its own.
    recipe: the training.
    sides: the method of each side, by its name; ``none`` for the recipe alone.
    suite, every, seeds: as of ``growth``; ``options`` are those of the suite.

Figures: ``SIDE/SUITE/STATISTIC`` and ``SIDE/RECIPE/FIGURE`` at the end, ``SIDE at N/...`` at a place along the
training, and ``SIDE/growth/loss_spearman``, the rank correlation of bias and loss along each training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.mitigation.harness.callback import loss_association
from pytest_genderbias.mitigation.harness.curves import Growth, growth
from pytest_genderbias.mitigation.methods.registry import make_recipe, resolve_method
from pytest_genderbias.papers.kinds import Outcome
from pytest_genderbias.papers.places import Places, StoredFigure, without_paths

NO_METHOD = "none"  #: in place of a method: the recipe alone


def carry_out(settings: Mapping[str, Any], places: Places) -> Outcome:
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
    return Outcome(
        _figures(curves, recipe.name), tuple(curves.seeds), {"growth": without_paths(curves.to_dict(), places)}
    )


def _figures(curves: Growth, task: str) -> dict[str, StoredFigure]:
    figures: dict[str, StoredFigure] = {}
    for side in curves.histories:
        homes = [(curves.suite, name) for name in curves.statistics] + [(task, name) for name in curves.tasks]
        for home, name in homes:
            curve = curves.curve(side, name, task=home == task)
            figures.update(
                {f"{side} at {place:g}/{home}/{name}": StoredFigure(values) for place, values in curve.items()}
            )
            figures[f"{side}/{home}/{name}"] = StoredFigure(curve[max(curve)])
        figures[f"{side}/growth/loss_spearman"] = StoredFigure(
            [_association(history) for history in curves.histories[side]]
        )
    return figures


def _association(history: Any) -> float | None:
    """Return the rank correlation of bias and loss along a training; ``None`` where one of them never moves."""
    try:
        return float(loss_association(history)["spearman"])
    except UndefinedError:
        return None
