"""The kinds of runs: the function of each takes settings and places, and returns its :class:`Outcome`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from pytest_genderbias.datasets.gold_pairs import LABELS
from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.gates.judgement import AFTER, BEFORE, CONTROL, ReductionFacts
from pytest_genderbias.gates.verdicts import with_note
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.agreement import (
    NO_METHOD,
    AgreementPoint,
    AgreementStudy,
    BiasFigure,
    agreement,
)
from pytest_genderbias.mitigation.harness.callback import HistoryEntry, loss_association
from pytest_genderbias.mitigation.harness.curves import Growth, Resilience, growth, resilience
from pytest_genderbias.mitigation.harness.grid import search
from pytest_genderbias.mitigation.harness.retraining import mean_of, new_heads, recipe_of_heads
from pytest_genderbias.mitigation.harness.run import MitigationRun, ModelOrSpec, mitigate, seeds_of
from pytest_genderbias.mitigation.harness.verdict import judge_reduction
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.iterative_scrubbing import Rounds, removed_words, rounds_table
from pytest_genderbias.mitigation.methods.registry import SomeMethod, make_recipe, resolve_method
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis, vectors_of
from pytest_genderbias.models.model import Model
from pytest_genderbias.papers.places import Places, StoredFigure, StoredRun, runner_of_paper, without_paths
from pytest_genderbias.recipes.fine_tuning import answers_of
from pytest_genderbias.recipes.recipe import Performance, Recipe
from pytest_genderbias.statistics.bias_subspace import FloatArray, cosine_with, principal_ratios
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.suites.query import PairProbabilities


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


_OF_AN_ENTRY = ("suite", "as", "sides", "retrained", "units")  #: keys of an entry of ``measure`` that are no options


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
            [mean_of([m.values[name] for m in models]) for models in measurements],
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
            [mean_of([value(model, unit) for model in models]) for models in sums]
        )
        for unit in units
    }


def figures_of_task(
    side: str, task: str, performances: Sequence[Sequence[Mapping[str, Performance]]]
) -> dict[str, StoredFigure]:
    """Return the performance of the models of a side, by seed and model, as figures of the task."""
    names = performances[0][0] if performances and performances[0] else ()
    return {
        f"{side}/{task}/{name}": StoredFigure([mean_of([one[name].value for one in models]) for models in performances])
        for name in names
    }


def _interval(models: Sequence[Measurement], name: str) -> list[float] | None:
    """Return the interval of a statistic over items, where the side has one model."""
    interval = models[0].intervals.get(name) if len(models) == 1 else None
    return None if interval is None else [interval.low, interval.high]


def carry_out_mitigation(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train what is not trained yet, measure every side, and judge.

    Settings:
        model: spec of the model to start from; missing where the recipe makes its own.
        method: a list of methods; without one, only the side ``before`` is measured: the model, or the models that the
            recipe trains.
        recipe: the training, or what evaluates the task.
        seeds, controls: as of ``mitigate``.
        grid, best, choose_on: as of ``search``; the sides are those of the best point, and each point is a side with
            the rule's figure on the seeds that choose, as
            ``dropout.attention=0.1, dropout.hidden=0.2/lm-occupation/aggregate_bias``.
        measure: a list of suites with options, each a mapping with ``suite``; ``as`` names the suite in locators,
            ``sides`` limits the sides, ``units`` lists single units of a statistic, and ``retrained: true`` measures
            again with a new head on the frozen encoder, as the sides ``before-retrained`` and ``after-retrained``.
        then: a list of further recipes with ``measure``: each tunes the models of every side, or of its ``sides``, and
            measures the tuned ones.
        judge: ``by``, ``budget`` and ``statistics`` (``SUITE/STATISTIC``) for verdicts of the harness.

    Where one model a side is judged, two more sides hold paired differences over items of the distance from neutral,
    positive where ``after`` is nearer: ``before-after``, and ``control-after`` if there is a control.
    """
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


GIVEN = "given"  #: in place of a pre-training: the model as it is


def carry_out_growth(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train every side once a seed, and return the figures along the trainings.

    Settings:
        model: spec of the model to start from; missing where the recipe makes its own.
        recipe: the training.
        sides: the method of each side, by its name; ``none`` for the recipe alone.
        suite, every, seeds: as of ``growth``; ``options`` are those of the suite.

    Figures: ``SIDE/SUITE/STATISTIC`` and ``SIDE/RECIPE/FIGURE`` at the end, ``SIDE at N/...`` at a place along the
    training, and ``SIDE/growth/loss_spearman``, the rank correlation of bias and loss along each training.
    """
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
    """Pre-train every side, tune it for the task, and return the figures by step and by frozen part.

    Settings:
        model: spec of the model that every side starts from.
        sides: for each side ``given`` (the model itself), or ``method`` and ``recipe`` of its pre-training, and ``of``:
            ``after`` (default) or ``control``, the same pre-training without the method.
        recipe: the task that every side is tuned for.
        suite: what is measured; ``options`` are those of the suite.
        steps, frozen: as of ``resilience``.
        seeds: of pre-training and tuning: their number, or a list.

    Figures: ``SIDE step N/SUITE/STATISTIC``, ``SIDE frozen PART/SUITE/STATISTIC``, and the same with the recipe's name
    and figures.
    """
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


_OF_FIGURES = ("suite", "statistics", "as", "p_value")  #: the same of ``intrinsic`` and ``extrinsic``


def carry_out_agreement(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train every method with every seed, measure each model once, and compare the figures.

    Settings:
        model: spec of the model to start from; missing where the recipe makes its own.
        recipe: the training.
        methods: the methods by the names of their sides; the models without a method are the side ``none``.
        seeds: as of ``mitigate``.
        intrinsic, extrinsic: lists of suites with options, each a mapping with ``suite`` and ``statistics``; ``as``
            names the suite in locators, and ``p_value`` a statistic that must be below .05 for a point to count.
        retrained: whether to measure the extrinsic figures again with a new head on each frozen encoder.

    Figures: ``METHOD/SUITE/STATISTIC`` by seed (``METHOD-retrained/...`` with new heads), and ``before
    retraining/INTRINSIC/EXTRINSIC r`` and ``... r_squared`` with their bounds over methods and seeds, where INTRINSIC
    is the name of a suite and EXTRINSIC that of a statistic. With ``without METHOD`` before it, the same without the
    points of one method. The detail ``agreement`` has all points.
    """
    runner = runner_of_paper(places)
    recipe = make_recipe(**settings["recipe"])
    runs = {
        name: mitigated(
            settings.get("model"), method, recipe, places, seeds=settings["seeds"], controls=0, runner=runner
        )
        for name, method in settings["methods"].items()
    }
    intrinsic, extrinsic = (_figures_named(settings[side]) for side in ("intrinsic", "extrinsic"))
    study = agreement(runs, intrinsic, extrinsic, new_heads=bool(settings.get("retrained")))
    return _outcome(study, next(iter(runs.values())).seeds, places)


def with_further_points(made: StoredRun, new: StoredRun, places: Places) -> Outcome:
    """Return the outcome of the points of two results of different seeds, which is that of one run with all of them."""
    parts = [AgreementStudy.from_dict(part.details["agreement"]).points for part in (made, new)]
    one_before = sum(point.method == NO_METHOD for point in parts[0]) < len(made.seeds)
    if one_before:
        parts[1] = tuple(point for point in parts[1] if point.method != NO_METHOD)
    methods = dict.fromkeys(point.method for point in parts[0])
    points = [point for method in methods for part in parts for point in part if point.method == method]
    study = agreement(points, *(_figures_named(made.settings[side]) for side in ("intrinsic", "extrinsic")))
    return _outcome(study, [*made.seeds, *new.seeds], places)


def _outcome(study: AgreementStudy, seeds: Sequence[int], places: Places) -> Outcome:
    figures = {**dict(_by_method(study.points)), **dict(compared(study)), **dict(compared_without_one(study))}
    return Outcome(figures, tuple(seeds), {"agreement": without_paths(study.to_dict(), places)})


def _figures_named(entries: Sequence[Mapping[str, Any]]) -> list[BiasFigure]:
    """Return the figures of the settings; each is named by its suite, or by ``as``, and its statistic."""
    return [
        BiasFigure(
            entry["suite"],
            statistic,
            entry.get("p_value", ""),
            {key: value for key, value in entry.items() if key not in _OF_FIGURES},
            f"{entry.get('as', entry['suite'])}/{statistic}",
        )
        for entry in entries
        for statistic in entry["statistics"]
    ]


def _by_method(points: Sequence[AgreementPoint]) -> Iterator[tuple[str, StoredFigure]]:
    """Yield the figures of each method, by seed."""
    for method in dict.fromkeys(point.method for point in points):
        of_method = [point for point in points if point.method == method]
        for side, figures in (
            (method, [{**point.intrinsic, **point.own_head} for point in of_method]),
            (f"{method}-retrained", [point.new_head for point in of_method]),
        ):
            for name in figures[0]:
                yield f"{side}/{name}", StoredFigure([values[name] for values in figures])


def compared(study: AgreementStudy) -> Iterator[tuple[str, StoredFigure]]:
    """Yield r and R squared of each pair of figures with their bounds."""
    for row in study.rows:
        suite, statistic = row.intrinsic.rpartition("/")[0], row.extrinsic.rpartition("/")[2]
        for name in ("r", "r_squared"):
            value, bounds = (getattr(row.agreement, key, None) for key in (name, f"{name}_bounds"))
            interval = None if bounds is None else [bounds.low, bounds.high]
            yield f"{row.head}/{suite}/{statistic} {name}", StoredFigure([value], [interval])


def compared_without_one(study: AgreementStudy) -> Iterator[tuple[str, StoredFigure]]:
    """Yield r and R squared of each pair of figures without the points of one method, for each method in turn."""
    for method in dict.fromkeys(point.method for point in study.points if point.method != NO_METHOD):
        for name, figure in compared(study.without(method)):
            yield f"without {method} {name}", figure


_HELD_OUT = 0.25  #: share of the texts on which each seed measures accuracies


def carry_out_scrubbed_words(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Scrub the training texts round by round, all of them and those of one class.

    Settings:
        recipe: a recipe whose rows are texts with a class and a gender; its training part is used.
        seeds: of the held-out texts: their number, or a list.
        rounds: rounds of scrubbing.
        profession: the class of the side ``profession``; by default the one with the most texts.

    Figures: ``SIDE/words/accuracy``, the held-out accuracy of telling gender by words, ``SIDE/words/majority``, that of
    the larger group alone, and ``SIDE/words/above_majority``, their difference. Sides are ``original`` (nothing is
    scrubbed), ``scrubbed`` (names and gender words are), ``last`` (after the last round), and ``profession`` (scrubbed
    texts of one class). The details list the words.
    """
    recipe = make_recipe(**settings["recipe"])
    if recipe.label is None or recipe.group is None:
        raise SettingError(
            f"scrubbed-words needs texts with a class and a gender, and the rows of {recipe.name} have none"
        )
    rows = recipe.rows()
    texts = [str(row[recipe.columns[0]]) for row in rows]
    groups, classes = [row[recipe.group] for row in rows], [row[recipe.label] for row in rows]
    seeds = seeds_of(settings["seeds"])
    rounds = settings["rounds"]
    profession = settings.get("profession", Counter(classes).most_common(1)[0][0])
    find = partial(removed_words, texts, groups, seeds=seeds, held_out=_HELD_OUT)
    original, scrubbed = find(rounds=1, scrub_first=False), find(rounds=rounds)
    of_one = find(classes, profession=profession, rounds=rounds)
    figures = {
        **_figures_of_words("original", original, 0),
        **_figures_of_words("scrubbed", scrubbed, 0),
        **_figures_of_words("last", scrubbed, -1),
        **_figures_of_words("profession", of_one, 0),
    }
    tables = {"all": rounds_table(scrubbed), "profession": str(profession), "of the profession": rounds_table(of_one)}
    return Outcome(figures, seeds, {"words": tables})


def _figures_of_words(side: str, by_seed: Mapping[int, Rounds], number: int) -> dict[str, StoredFigure]:
    """Return the figures of a side: the classifiers before a round, or after the last one (``number`` -1)."""
    accuracies = [found.accuracies[number] for found in by_seed.values()]
    majority = [found.majority for found in by_seed.values()]
    values = {
        "accuracy": accuracies,
        "majority": majority,
        "above_majority": [a - m for a, m in zip(accuracies, majority, strict=True)],
    }
    return {f"{side}/words/{name}": StoredFigure(listed, held_out=_HELD_OUT) for name, listed in values.items()}


_SHOWN = 3  #: pairs of each label that the lines name
_SLICES = {"entailment": "largest entailment", "contradiction": "largest contradiction"}  #: records of the family


def carry_out_extremes(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Train the models where there is a recipe, measure the suite, and ask for the given pairs.

    Settings:
        model: spec of the model, or of what the recipe starts from.
        recipe, seeds: the training; without a recipe the model is measured as it is.
        suite: a suite of the family ``nli``; ``options`` are those of its measurement.
        pairs: a list of given pairs: ``name``, ``premise``, ``hypothesis``, and ``label``, entailment or contradiction.

    Figures: ``before/SUITE/largest_entailment`` and ``largest_contradiction``, the largest probability of each, with an
    interval up to 1 where not all pairs were scored; ``before/PAIR/entailment``, ``neutral`` and ``contradiction``;
    ``before/SUITE/same_label``, the share of the given pairs whose likeliest label is the given one. The lines name the
    pairs with the largest probabilities of the first seed.
    """
    runner = runner_of_paper(places)
    models, seeds, performances = _models(settings, places, runner)
    suite = runner.suites(settings["suite"])
    options = {**settings.get("options", {}), "top": _SHOWN}
    measurements = [runner.measure_once(suite, model, options) for model in models]
    texts = [(pair["premise"], pair["hypothesis"]) for pair in settings["pairs"]]
    given = [answers_of(model, texts, PairProbabilities(), "pairs") for model in models]
    figures = {**_largest(suite.name, measurements), **_of_pairs(suite.name, settings["pairs"], given), **performances}
    return Outcome(figures, seeds, {"lines": list(_lines(measurements[0]))})


def _models(
    settings: Mapping[str, Any], places: Places, runner: Runner
) -> tuple[list[Model], Sequence[int], dict[str, StoredFigure]]:
    """Return the models by seed, the seeds, and how well the models do the task of the recipe."""
    if "recipe" not in settings:
        return [runner.open(settings["model"])], (0,), {}
    recipe = make_recipe(**settings["recipe"])
    run = mitigated(settings["model"], None, recipe, places, seeds=settings.get("seeds"), runner=runner)
    models = [run.open(model) for group in run.models(BEFORE) for model in group]
    return models, run.seeds, figures_of_task(BEFORE, recipe.name, run.performance(BEFORE))


def _largest(suite: str, measurements: Sequence[Measurement]) -> dict[str, StoredFigure]:
    """Return the largest probabilities. Of a sample, they are at most those of all pairs."""
    figures = {}
    for label in _SLICES:
        values = [max(float(record[label]) for record in _records(m, label)) for m in measurements]
        highest = [value if m.n == m.n_total else 1.0 for value, m in zip(values, measurements, strict=True)]
        figures[f"{BEFORE}/{suite}/largest_{label}"] = StoredFigure(
            values, list(map(list, zip(values, highest, strict=True)))
        )
    return figures


def _of_pairs(
    suite: str, pairs: Sequence[Mapping[str, str]], given: Sequence[NDArray[np.floating]]
) -> dict[str, StoredFigure]:
    """Return the probabilities of each given pair, and the share of pairs with the given label as the likeliest one."""
    figures = {
        f"{BEFORE}/{pair['name']}/{label}": StoredFigure([float(p[row, column]) for p in given])
        for row, pair in enumerate(pairs)
        for column, label in enumerate(LABELS)
    }
    expected = np.asarray([LABELS.index(pair["label"]) for pair in pairs])
    same = [float(np.mean(p.argmax(axis=1) == expected)) for p in given]
    return {**figures, f"{BEFORE}/{suite}/same_label": StoredFigure(same)}


def _lines(measurement: Measurement) -> Iterator[str]:
    """Yield the pairs with the largest probabilities in words."""
    for label in _SLICES:
        pairs = [f"{record['value']} ({record[label]:.2f})" for record in _records(measurement, label)]
        yield f"largest {label} of {measurement.n:,} pairs: {'; '.join(pairs)}"


def _records(measurement: Measurement, label: str) -> list[Mapping[str, Any]]:
    return [record for record in measurement.records if record["slice"] == _SLICES[label]]


def carry_out_paired_subspace(settings: Mapping[str, Any], places: Places) -> Outcome:
    """Return the ratios of singular values of the pairs, and the cosine of their first component with he - she.

    The paper does not say what was subtracted for tables 7 and 12. The suites ``subspace`` subtract the mean of all
    words, or nothing.

    Settings:
        model: spec of word vectors or of a network, whose input embeddings are taken.
        pairs: pairs of words; the learned direction is he - she.

    Figures: ``before/paired/ratio_2``, ``ratio_3``, ``ratio_4`` and ``cosine``, as of the suite ``subspace``.
    """
    model = Runner().open(settings["model"])
    words = [word for pair in settings["pairs"] for word in pair]
    component, ratios = principal_ratios(centred_in_pairs(vectors_of(model, words)))
    values = dict(zip(("ratio_2", "ratio_3", "ratio_4"), ratios, strict=True))
    values["cosine"] = cosine_with(learn_basis(model, pairs=HE_SHE)[:, 0], component)
    return Outcome({f"{BEFORE}/paired/{name}": StoredFigure([value]) for name, value in values.items()})


def centred_in_pairs(vectors: ArrayLike) -> FloatArray:
    """Return vectors without the mean of their pair: rows 0 and 1 are a pair, rows 2 and 3, and so on.

    >>> centred_in_pairs([[3.0, 0.0], [1.0, 0.0], [0.0, 5.0], [0.0, 5.0]]).tolist()
    [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    """
    v = np.asarray(vectors, dtype=np.float64)
    pairs = v.reshape(-1, 2, v.shape[1])
    return np.asarray((pairs - pairs.mean(axis=1, keepdims=True)).reshape(v.shape))


CarryOut = Callable[[Mapping[str, Any], Places], Outcome]
#: Who carries out the runs of a kind, by its name.
KINDS: Mapping[str, CarryOut] = {
    "agreement": carry_out_agreement,
    "extremes": carry_out_extremes,
    "growth": carry_out_growth,
    "mitigation": carry_out_mitigation,
    "paired-subspace": carry_out_paired_subspace,
    "resilience": carry_out_resilience,
    "scrubbed-words": carry_out_scrubbed_words,
}
#: What joins results of different seeds, for kinds that take further seeds.
FURTHER_SEEDS: Mapping[str, Callable[[StoredRun, StoredRun, Places], Outcome]] = {
    "agreement": with_further_points,
    "growth": with_further_seeds,
    "mitigation": with_further_seeds,
    "resilience": with_further_seeds,
}
