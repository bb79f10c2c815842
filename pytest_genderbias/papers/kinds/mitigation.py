"""The kind ``mitigation``: models before and after a method, and of its control, measured by suites and by their task.

Settings:
    model: spec of the model to start from; missing where the recipe makes its own.
    method: a list of methods; without one, only the side ``before`` is measured: the model, or the models that the
    recipe trains. recipe: the training, or what evaluates the task.
    seeds, controls: as of ``mitigate``.
    grid, best, choose_on: as of ``search``; the sides are those of the best point, and each point is a side with the
    rule's figure on the
        seeds that choose, as ``dropout.attention=0.1, dropout.hidden=0.2/lm-occupation/aggregate_bias``.
    measure: a list of suites with options, each a mapping with ``suite``; ``as`` names the suite in locators, ``sides``
    limits the sides, and
        ``units`` lists single units of a statistic, and ``retrained: true`` measures again with a new head on the
        frozen encoder, as the sides ``before-retrained`` and ``after-retrained``.
    then: a list of further recipes with ``measure``: each tunes the models of every side, or of its ``sides``, and
    measures the tuned ones. judge: ``by``, ``budget`` and ``statistics`` (``SUITE/STATISTIC``) for verdicts of the
    harness.

Where one model a side is judged, two more sides hold paired differences over items of the distance from neutral,
positive where ``after`` is nearer: ``before-after``, and ``control-after`` if there is a control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scipy.special import ndtri

from pytest_genderbias.errors import SettingError
from pytest_genderbias.gates.judgement import AFTER, BEFORE, CONTROL, ReductionFacts
from pytest_genderbias.gates.verdicts import with_note
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.grid import search
from pytest_genderbias.mitigation.harness.retraining import new_heads, recipe_of_heads
from pytest_genderbias.mitigation.harness.run import MitigationRun, seeds_of
from pytest_genderbias.mitigation.harness.verdict import judge_reduction
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.papers.kinds import (
    Outcome,
    figures_of,
    figures_of_task,
    figures_of_units,
    label_of,
    mitigated,
    options_of,
)
from pytest_genderbias.papers.places import Places, StoredFigure, runner_of_paper, without_paths
from pytest_genderbias.recipes.recipe import Recipe


def carry_out(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train what is not trained yet, measure every side, and judge."""
    runner = runner_of_paper(places)
    run = _made(settings, places, runner)
    sides = (BEFORE, AFTER, CONTROL) if "method" in settings else (BEFORE,)
    figures = dict(_measured(run, settings.get("measure", ()), sides))
    if isinstance(run.recipe, Recipe):
        for side in sides:
            figures.update(figures_of_task(side, run.recipe.name, run.performance(side)))
    for stage in settings.get("then", ()):
        figures.update(_of_a_stage(run, stage, sides, places, runner))
    details: dict[str, Any] = {"what": without_paths(run.what, places), "seconds_of_after": run.seconds}
    if run.tried is not None:
        details["tried"] = without_paths(run.tried.to_dict(), places)
        figures.update({f"{point}/{run.tried.rule.figure}": StoredFigure(point.values) for point in run.tried.points})
    if "judge" in settings:
        judged = list(_judged(run, settings))
        details["verdicts"] = without_paths([verdict for verdict, _ in judged], places)
        for _, gains in judged:
            figures.update(gains)
    return Outcome(figures, tuple(run.seeds), details)


def _made(settings: Mapping[str, Any], places: Places, runner: Runner) -> MitigationRun:
    """Return the models of all sides: of a method, of the best point of a grid, or without method and recipe the model
    as it is.
    """
    recipe = make_recipe(**settings["recipe"]) if "recipe" in settings else None
    if "method" not in settings and recipe is None:
        spec, numbers = settings["model"], seeds_of(settings.get("seeds", 1))
        return MitigationRun([spec] * len(numbers), [spec] * len(numbers), seeds=numbers, trained=False, runner=runner)
    model, method, seeds, controls = (settings.get(name) for name in ("model", "method", "seeds", "controls"))
    if "grid" not in settings:
        return mitigated(model, method, recipe, places, seeds=seeds, controls=controls, runner=runner)
    best = dict(settings["best"])
    options = best.pop("settings", {})
    return search(
        model,
        method or Method(),
        recipe,
        grid=settings["grid"],
        best=best,
        seeds=seeds,
        choose_on=settings.get("choose_on"),
        controls=controls,
        folder=places.trainings,
        runner=runner,
        progress=places.progress,
        **options,
    )


def _measured(
    run: MitigationRun, entries: Sequence[Mapping[str, Any]], sides: Sequence[str]
) -> Iterator[tuple[str, StoredFigure]]:
    """Yield the figures of every suite on every side, with new heads where an entry says so."""
    for entry in entries:
        for side in entry.get("sides", sides):
            measurements = run.measure(side, entry["suite"], **options_of(entry))
            yield from figures_of(side, label_of(entry), measurements).items()
            for statistic, units in entry.get("units", {}).items():
                yield from figures_of_units(side, label_of(entry), measurements, statistic, units).items()
    again = [entry for entry in entries if entry.get("retrained")]
    if not again:
        return
    recipe_of_heads(run)
    with new_heads(run) as heads:
        for entry in again:
            for side in (side for side in sides if side != CONTROL):
                measurements = heads.measure(side, entry["suite"], **options_of(entry))
                yield from figures_of(f"{side}-retrained", label_of(entry), measurements).items()


def _of_a_stage(
    run: MitigationRun, stage: Mapping[str, Any], sides: Sequence[str], places: Places, runner: Runner
) -> dict[str, StoredFigure]:
    """Tune the models of the sides by a further recipe, each with its seed, and return the figures of the tuned
    ones.
    """
    recipe = make_recipe(**stage["recipe"])
    if not recipe.makes_task:
        raise SettingError(
            f"then tunes models for a task, and {recipe.name} continues a training; name it as the run's recipe"
        )
    figures: dict[str, StoredFigure] = {}
    for side in stage.get("sides", sides):
        if not run.models(side):  # no control
            continue
        tuned = [
            [mitigated(run.open(model), None, recipe, places, seeds=[seed], runner=runner) for model in models]
            for models, seed in zip(run.models(side), run.seeds, strict=True)
        ]
        for entry in stage.get("measure", ()):
            measurements: list[list[Measurement]] = [
                [one.measure(BEFORE, entry["suite"], **options_of(entry))[0][0] for one in models] for models in tuned
            ]
            figures.update(figures_of(side, label_of(entry), measurements))
        performances = [[one.performance(BEFORE)[0][0] for one in models] for models in tuned]
        figures.update(figures_of_task(side, recipe.name, performances))
    return figures


def _judged(
    run: MitigationRun, settings: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, StoredFigure]]]:
    """Yield the verdict of the harness on each statistic that ``judge`` names, and what was gained, where the bounds
    are over items.
    """
    judge = settings["judge"]
    entries = {label_of(entry): entry for entry in settings["measure"]}
    for name in judge["statistics"]:
        suite, _, statistic = name.partition("/")
        if suite not in entries:
            raise SettingError(f"judge names {name}, but the run measures {', '.join(entries)}")
        entry = entries[suite]
        options = {"statistic": statistic, **options_of(entry)}
        wanted = {"by": judge["by"], "budget": judge.get("budget"), "superficial": bool(entry.get("retrained"))}
        judgement = judge_reduction(run, entry["suite"], **wanted, **options)
        change = judge_reduction(run, entry["suite"], by=0.0, **options)
        verdict = {
            "suite": suite,
            "statistic": statistic,
            "verdict": with_note(judgement.code),
            "text": judgement.text.partition("\n  records ")[0],
            "difference": change.difference,
            "bounds": None if change.interval is None else [change.interval.low, change.interval.high],
            "over": change.over,
        }
        yield verdict, dict(_gains(name, change.of_reduction)) if len(run.seeds) == 1 else {}


def _gains(name: str, facts: ReductionFacts | None) -> Iterator[tuple[str, StoredFigure]]:
    """Yield how much nearer to neutral ``after`` is than ``before`` and than the control, where that is known."""
    if facts is None or facts.difference is None:
        return
    high, low = (None if bound is None else -bound for bound in facts.difference_bounds or (None, None))
    yield f"{BEFORE}-{AFTER}/{name}", _with_bounds(-facts.difference, low, high)
    if facts.against_control is not None:
        value, low, high = facts.against_control
        if value is not None:
            yield f"{CONTROL}-{AFTER}/{name}", _with_bounds(value, low, high)


def _with_bounds(value: float, low: float | None, high: float | None) -> StoredFigure:
    """Return a figure of two one-sided 95 % bounds, with the two-sided 95 % interval that stored figures have (normal
    errors).
    """
    if low is None or high is None:
        return StoredFigure([value], [None])
    wider = float(ndtri(0.975) / ndtri(0.95))
    return StoredFigure([value], [[value - wider * (value - low), value + wider * (high - value)]])
