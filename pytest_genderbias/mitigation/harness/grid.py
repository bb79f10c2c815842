"""``search``: a grid of settings, tried point by point, and the best of them judged on trainings that did not choose
it.

A grid maps settings to lists of values, as ``ParameterGrid`` of scikit-learn does, and names each setting by its part,
as sweeps of Hydra do: ``{"dropout.attention": [.1, .15], "masked-lm.steps": [100, 300]}``. ``choice.py`` has the choice
itself, which trains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from pytest_genderbias.errors import ModelError, ScoreError, SettingError, UndefinedError
from pytest_genderbias.gates.choice import (
    HIGHEST,
    LOWEST,
    NEAREST,
    WITHIN,
    Rule,
    TriedGrid,
    TriedPoint,
    choose_point,
    read_rule,
    why_out,
)
from pytest_genderbias.gates.judgement import AFTER, BEFORE
from pytest_genderbias.measurement.runner import Runner
from pytest_genderbias.mitigation.harness.run import (
    SEEDS,
    MitigationRun,
    folder_of_runs,
    mitigate,
    mitigation_errors,
    seeds_of,
)
from pytest_genderbias.mitigation.methods.base import Method, parts_of, together
from pytest_genderbias.mitigation.methods.registry import (
    SomeMethod,
    SomeRecipe,
    check_settings,
    resolve_method,
    resolve_recipe,
)
from pytest_genderbias.models.model import Model
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.suites.suite import Suite

ALL = "all"  #: the value of ``choose_on`` with which the seeds that choose judge, too
_ARGUMENTS = "arguments"

#: Values to try by ``PART.SETTING``; or several such mappings, whose points are tried one after the other.
Grid = Mapping[str, Sequence[object]] | Sequence[Mapping[str, Sequence[object]]]
Part = TypeVar("Part", Method, Recipe)


@dataclass(frozen=True)
class GridPoint:
    """A method and a recipe with one combination of the grid's values; ``settings`` has these by ``PART.SETTING``."""

    settings: Mapping[str, object]
    method: Method
    recipe: Recipe | None


@dataclass(frozen=True)
class GridPlan:
    """A grid that is ready to be tried.

    Attributes:
        points: what is tried.
        rule: by which the best is chosen.
        suites: by the name in the rule, those that it needs.
        settings: with which they are measured.
    """

    points: tuple[GridPoint, ...]
    rule: Rule
    suites: Mapping[str, Suite]
    settings: Mapping[str, object]


def combinations(grid: Grid) -> list[dict[str, object]]:
    """Return the points of a grid, the last setting varying fastest; each once.

    Raises:
        SettingError: there is no setting, or what should be a list of values is none, is empty, or repeats a value. The
            message begins with the setting.

    >>> combinations({"dropout.attention": [0.1, 0.15], "dropout.hidden": [0.2]})
    [{'dropout.attention': 0.1, 'dropout.hidden': 0.2}, {'dropout.attention': 0.15, 'dropout.hidden': 0.2}]
    >>> combinations([{"cda.sides": ["one", "two"]}, {"cda.names": ["same"]}])
    [{'cda.sides': 'one'}, {'cda.sides': 'two'}, {'cda.names': 'same'}]
    """
    grids = [grid] if isinstance(grid, Mapping) else list(grid)
    points: list[dict[str, object]] = []
    for one in grids:
        if not isinstance(one, Mapping) or not one:
            raise SettingError(
                f"grid should name settings with lists of values, as dropout.hidden: [.1, .2], got {one!r}"
            )
        for name, values in one.items():
            if not isinstance(values, (list, tuple)) or not values:
                raise SettingError(f"{name} should have a list of values to try, got {values!r}")
            if any(value in values[:n] for n, value in enumerate(values)):
                raise SettingError(f"{name} should have different values to try, got {values!r}")
        points += [dict(zip(one, values, strict=True)) for values in product(*one.values())]
    return [point for n, point in enumerate(points) if point not in points[:n]]


def grid_points(method: Method, recipe: Recipe | None, grid: Grid) -> tuple[GridPoint, ...]:
    """Return the method and the recipe of each point of a grid.

    Args:
        method: one, or several together.
        recipe: the recipe, if there is one.
        grid: values by ``PART.SETTING``; PART is the name of a method or of the recipe.

    Raises:
        SettingError: as :func:`combinations`; a part has another name, occurs twice, or has no such setting; or a value
            does not fit. The message begins with the setting.
    """
    made = []
    for point in combinations(grid):
        _check_parts([part.name for part in parts_of(method)], recipe, point)
        changed = together([_with_settings(part, "method", point) for part in parts_of(method)])
        made.append(GridPoint(point, changed, None if recipe is None else _with_settings(recipe, "recipe", point)))
    return tuple(made)


def _check_parts(methods: Sequence[str], recipe: Recipe | None, point: Mapping[str, object]) -> None:
    """Reject settings of parts that are not there, or that cannot be told apart."""
    parts = [*methods, *([] if recipe is None else [recipe.name])]
    for name in point:
        part, _, setting = name.rpartition(".")
        if part not in parts:
            example = f"{parts[0]}.{setting}"
            raise SettingError(
                f"{name} should begin with the name of a method or the recipe ({', '.join(parts)}), as {example}"
            )
        if parts.count(part) > 1:
            raise SettingError(f"{name} could be of either {part}; a grid takes methods of different names")
        if setting == _ARGUMENTS:
            raise SettingError(f"{name} is no single setting; write the arguments of the Trainer into the recipe")


def _with_settings(part: Part, role: str, point: Mapping[str, object]) -> Part:
    """Return a method or a recipe with the settings of a point: what stands behind its name and a dot."""
    settings = {
        name.removeprefix(f"{part.name}."): value
        for name, value in point.items()
        if name.rpartition(".")[0] == part.name
    }
    if not settings:
        return part
    first = f"{part.name}.{next(iter(settings))}"
    if not is_dataclass(part):
        raise SettingError(f"{first} cannot be set: the {role} {part.name} is no dataclass")
    try:
        changed: Part = replace(part, **check_settings(type(part), role, part.name, settings))
    except SettingError as error:
        raise SettingError(f"{first} cannot be tried: {error}") from error
    return changed


def plan_grid(
    method: Method,
    recipe: Recipe | None,
    grid: Grid,
    best: Rule | Mapping[str, object],
    settings: Mapping[str, object],
    load: Callable[[str], Suite],
) -> GridPlan:
    """Return a grid that is ready to be tried; reject a rule that would choose the most biased point.

    Args:
        method: one, or several together.
        recipe: the recipe, if there is one.
        grid: values by ``PART.SETTING``.
        best: the rule.
        settings: of the measurements that the rule needs.
        load: loads a suite by its name.

    Raises:
        SettingError, UnknownNameError: the grid or the rule is wrong. The message begins with the key that is.
    """
    rule = best if isinstance(best, Rule) else read_rule(best)
    points = grid_points(method, recipe, grid)
    if len(points) < 2:
        raise SettingError(
            "grid should have two points or more; write a single value as a setting of its method or recipe"
        )
    figures = {rule.figure: rule.wanted, **dict.fromkeys(rule.within, WITHIN)}
    suites = {suite: load(suite) for suite in (split_figure(figure)[0] for figure in figures) if suite}
    statistics = {figure: _statistic(figure, key, suites) for figure, key in figures.items()}
    about = statistics[rule.figure]
    if about is not None:
        _check_direction(rule, about.direction)
        rule = replace(rule, neutral=about.neutral)
    elif rule.wanted == NEAREST:
        raise SettingError(
            f"nearest is to neutral, which a figure of the task does not have, got {rule.figure!r}; say lowest or"
            " highest"
        )
    elif recipe is None:
        raise SettingError(
            f"{rule.wanted} should name a figure as SUITE/STATISTIC, as no recipe evaluates others, got {rule.figure!r}"
        )
    for name in rule.within:
        limited = statistics[name]
        if limited is not None and limited.direction == "away":
            raise SettingError(
                f"within names {name}, which may be too high or too low, so that no share says how much worse it is"
            )
    return GridPlan(points, rule, suites, settings)


def _statistic(figure: str, key: str, suites: Mapping[str, Suite]) -> Statistic | None:
    """Return what is known of a figure of a suite; ``None`` for one of the task."""
    suite, name = split_figure(figure)
    if not suite:
        return None
    statistics = suites[suite].statistics
    if name not in statistics:
        raise SettingError(
            f"{key} names {figure}, and {suite} has no statistic {name!r}; it has {', '.join(statistics)}"
        )
    return statistics[name]


def split_figure(figure: str) -> tuple[str, str]:
    """Return the suite and the statistic of a figure; an empty suite for one of the task.

    >>> split_figure("./suites/own.yaml/net_neutral"), split_figure("perplexity")
    (('./suites/own.yaml', 'net_neutral'), ('', 'perplexity'))
    """
    suite, _, name = figure.rpartition("/")
    return suite, name


def _check_direction(rule: Rule, direction: str) -> None:
    """Reject a rule that wants the worse end of a figure."""
    if direction not in {LOWEST: ("lower", "away"), HIGHEST: ("higher", "away"), NEAREST: ()}[rule.wanted]:
        return
    if direction == "away":
        raise SettingError(
            f"{rule.wanted} {rule.figure} may be far from neutral on one side; say nearest, which is to neutral"
        )
    other = HIGHEST if rule.wanted == LOWEST else LOWEST
    raise SettingError(f"{rule.wanted} {rule.figure} would be the worst point: {direction} is worse; say {other}")


def split_seeds(
    seeds: int | Sequence[int] | None, choose_on: int | str | Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seeds that choose and those that judge.

    Args:
        seeds: all seeds, or their number; six if left out.
        choose_on: how many of them choose, the first ones; which ones; or ``all``: each chooses and judges. Half of
            them if left out.

    Raises:
        SettingError: none is left to choose or to judge. The message begins with ``choose_on``.

    >>> split_seeds(6, 3), split_seeds(3, "all"), split_seeds(None, None)
    (((0, 1, 2), (3, 4, 5)), ((0, 1, 2), (0, 1, 2)), ((0, 1, 2), (3, 4, 5)))
    """
    numbers = seeds_of(2 * SEEDS if seeds is None else seeds)
    if choose_on == ALL:
        return numbers, numbers
    if isinstance(choose_on, (str, bool)):
        raise SettingError(f"choose_on should be a number of seeds, a list of them, or all, got {choose_on!r}")
    if choose_on is None or isinstance(choose_on, int):
        count = len(numbers) // 2 if choose_on is None else choose_on
        choosing, judging = numbers[: max(0, count)], numbers[max(0, count) :]
    else:
        choosing = seeds_of(choose_on)
        judging = tuple(seed for seed in numbers if seed not in choosing)
    if not choosing or not judging:
        raise SettingError(
            f"choose_on should leave some of the {len(numbers)} seeds to choose and others to judge: the best of many"
            " points looks better on the seeds that chose it than it is; raise seeds, or say all, and the verdict"
            " names it"
        )
    return choosing, judging


def seeds_to_try(
    plan: GridPlan, seeds: int | Sequence[int] | None, choose_on: int | str | Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the seeds that choose and those that judge; reject a split where other seeds would give the same models.

    Raises:
        SettingError: as :func:`split_seeds`, or a point trains nothing and ``choose_on`` is not ``all``.
    """
    trains = all(p.recipe is not None and (p.recipe.makes_task or p.method.trains) for p in plan.points)
    if trains:
        return split_seeds(seeds, choose_on)
    if choose_on != ALL:
        raise SettingError(
            "choose_on should be all: a point of the grid trains nothing, so that other seeds give the same model and"
            " the best point is judged on what chose it; every verdict will say so"
        )
    return split_seeds(1 if seeds is None else seeds, ALL)


@mitigation_errors()
def search(
    model: str | Model | None,
    method: SomeMethod,
    recipe: SomeRecipe | None = None,
    *,
    grid: Grid,
    best: Rule | Mapping[str, object],
    seeds: int | Sequence[int] | None = None,
    choose_on: int | str | Sequence[int] | None = None,
    controls: int | None = None,
    folder: str | Path | None = None,
    progress: bool | Progress = False,
    runner: Runner | None = None,
    name: str = "",
    **settings: object,
) -> MitigationRun:
    """Try a grid of settings, choose the best point by a rule, and return its run on other seeds.

    Each point is a mitigation on the seeds that choose, and trainings that points share are done once. The chosen point
    is trained again on the seeds that judge: the best of many points looks better on the trainings that chose it than
    it is.

    Args:
        model: as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`.
        method: a method, its name, a mapping of name and settings, or several.
        recipe: a recipe, its name, or a mapping of name and settings.
        grid: values by setting, ``{"dropout.attention": [0.1, 0.15], "masked-lm.steps": [100, 300]}``: all combinations
            are tried. Of a list of such mappings, the points of each.
        best: the rule, ``{"lowest": "lm-occupation/aggregate_bias", "within": {"perplexity": "5%"}}``: ``lowest``,
            ``highest`` or ``nearest`` to neutral, by the mean over seeds, among the points whose figures in ``within``
            are at most so much worse than before. Figures are ``SUITE/STATISTIC``, or what the recipe evaluates.
        seeds: number of restarts, or their seeds: those that choose and those that judge. Six by default.
        choose_on: how many of the seeds choose, or which ones; half of them by default. With ``all`` each seed chooses
            and judges, and every verdict says so.
        controls: controls of each seed that judges; the seeds that choose need none.
        folder: keeps every training; a temporary folder by default.
        progress: show a bar for each training.
        runner: loads and measures the models.
        name: name of the models in tables.
        settings: of the measurements that the rule needs, as ``limit`` and options.

    Returns:
        The run of the best point, whose ``tried`` holds all points: ``run.tried.table()``. Judge it with
        :func:`~pytest_genderbias.mitigation.harness.verdict.judge_reduction`.

    Raises:
        SettingError: the grid, the rule or the seeds are wrong; no point is within the limits; or a point trains
            nothing, so that other seeds give the same model: then say ``choose_on="all"``.
        Other errors as :func:`~pytest_genderbias.mitigation.harness.run.mitigate`. A point whose training or scores
        fail is left out.
    """
    runner = runner or Runner()
    resolved = resolve_recipe(recipe, runner.data)
    plan = plan_grid(resolve_method(method), resolved, grid, best, settings, runner.suites)
    base = runner.open(model) if isinstance(model, str) else model
    on = seeds_to_try(plan, seeds, choose_on)
    return search_plan(base, plan, on, controls, folder, progress=progress, runner=runner, name=name)


def search_plan(
    base: Model | None,
    plan: GridPlan,
    seeds: tuple[tuple[int, ...], tuple[int, ...]],
    controls: int | None,
    folder: str | Path | None,
    **how: Any,
) -> MitigationRun:
    """Try the points of a plan on the seeds that choose, and return the run of the best on those that judge; see
    :func:`search`.
    """
    choosing, judging = seeds
    home, temporary = folder_of_runs(folder)

    def run_of(point: GridPoint, on: Sequence[int], count: int | None) -> MitigationRun:
        return mitigate(base, point.method, point.recipe, seeds=on, controls=count, folder=home, **how)

    tried, runs = [], list[MitigationRun]()
    for point in plan.points:
        try:
            run = run_of(point, choosing, 0)
            for other in runs:
                run.take_figures_of(other)
            runs.append(run)
            worse = {figure: _worse(run, plan, figure) for figure in plan.rule.within}
            values, direction = _values(run, plan, AFTER, plan.rule.figure)
            if not split_figure(plan.rule.figure)[0]:
                _check_direction(plan.rule, direction)
            tried.append(TriedPoint(point.settings, tuple(values), worse))
        except (ModelError, ScoreError) as error:
            tried.append(TriedPoint(point.settings, failure=str(error)))
    number = choose_point(tried, plan.rule)
    if number is None:
        reasons = "; ".join(f"{point}: {why_out(point, plan.rule)}" for point in tried)
        raise SettingError(f"no point of the grid can be chosen by {plan.rule}: {reasons}; widen within, or the grid")
    run = run_of(plan.points[number], judging, controls)
    searched = replace(run, tried=TriedGrid(tuple(tried), plan.rule, number, choosing, judging), _temporary=temporary)
    for other in runs:
        searched.take_figures_of(other)
    return searched


def _worse(run: MitigationRun, plan: GridPlan, name: str) -> float | None:
    """Return how much worse a figure is than before, as a share of its mean before; ``None`` if a value is missing, or
    not above 0.
    """
    after, direction = _values(run, plan, AFTER, name)
    if direction == "away":
        raise SettingError(
            f"within: {name} may be too high or too low, so that no share says how much worse it is; name another"
            " figure"
        )
    before, _ = _values(run, plan, BEFORE, name)
    was, now = ([value for value in values if value is not None] for values in (before, after))
    if len(was) < len(before) or len(now) < len(after) or min(was) <= 0:
        return None
    ratio = (sum(now) / len(now)) / (sum(was) / len(was))
    return ratio - 1 if direction == "higher" else 1 - ratio


def _values(run: MitigationRun, plan: GridPlan, side: str, figure: str) -> tuple[list[float | None], str]:
    """Return a figure of each seed's model, and its worse direction."""
    suite, name = split_figure(figure)
    if suite:
        measured = run.measure(side, plan.suites[suite], **plan.settings)
        return [models[0].values[name] for models in measured], measured[0][0].statistics[name].direction
    try:
        performances = [{}] if run.recipe is None else [models[0] for models in run.performance(side)]
    except UndefinedError as error:
        raise ScoreError(f"the figures of the task are undefined: {error}") from error
    if name not in performances[0]:
        raise SettingError(
            f"the rule needs {name!r}, and the recipe evaluates {', '.join(performances[0]) or 'nothing'}; a figure of"
            " a suite is SUITE/STATISTIC"
        )
    return [figures[name].value for figures in performances], performances[0][name].direction
