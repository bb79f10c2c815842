"""The mitigations of a ``*.bias.yaml`` file: read, checked, and planned for the models of a run.

Each entry of ``mitigate`` describes a mitigation and, under ``reduces``, the reductions of bias that it should achieve.
This module needs neither pytest nor the settings of a run. An error names file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_genderbias.errors import BiasError
from pytest_genderbias.gates.gate_file import NO_MODEL, LoadSuite, Subject, resolve_subject
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.measurement.ability_setting import ability_from
from pytest_genderbias.mitigation.harness.grid import GridPlan, plan_grid, seeds_to_try
from pytest_genderbias.mitigation.harness.mitigation_runner import MitigationRunner
from pytest_genderbias.mitigation.harness.retraining import keeps_encoder
from pytest_genderbias.mitigation.harness.written import (
    RECIPE_PATHS,
    Place,
    WrittenGrid,
    WrittenMitigation,
    WrittenPart,
    WrittenReduction,
    read_written,
)
from pytest_genderbias.mitigation.methods.base import Method, Together
from pytest_genderbias.mitigation.methods.registry import (
    make_method,
    method_settings,
    recipe_settings,
    resolve_recipe,
)
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.suites.options import resolve_options
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.located_yaml import LocatedMap, YamlValue
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.suggestions import expected_instead

_RUN_SETTINGS = ("limit", "seed", "batch_tokens", "ability")


@dataclass(frozen=True)
class DeclaredGrid:
    """A grid that is ready to be tried, and the seeds that choose: their number, a list, or ``all``; ``None`` for half
    of them.
    """

    plan: GridPlan
    choose_on: int | str | tuple[int, ...] | None


@dataclass(frozen=True)
class DeclaredMitigation:
    """A mitigation as a file declares it.

    Attributes:
        grid: settings of method and recipe that are tried; ``None`` for these alone.
        arguments: of transformers' ``TrainingArguments``. They are checked when the mitigation runs, since that imports
            transformers.
        seeds: number of trainings, or their seeds; ``None`` for the default.
        controls: number of controls; ``None`` for the default.
        models: names of the models to mitigate; ``None`` for all.
        from_nothing: whether the recipe makes its own network, and mitigates no model of the run.
        budget: how much worse other figures may become, as shares.
        optional: whether a run may go without a verdict where the mitigation does not apply.
    """

    method: Method
    recipe: Recipe | None
    grid: DeclaredGrid | None
    arguments: Mapping[str, YamlValue]
    seeds: int | tuple[int, ...] | None
    controls: int | None
    models: Sequence[str] | None
    from_nothing: bool
    budget: Mapping[str, float]
    optional: bool

    def applies_to(self, model: str | None) -> bool:
        """Return whether it mitigates a model of this name; ``None`` stands for a run without models."""
        return not self.from_nothing and (model is None or self.models is None or model in self.models)

    def recipe_with_arguments(self) -> Recipe | None:
        """Return the recipe with the arguments of the Trainer.

        Raises:
            SettingError: the Trainer has no such argument.
        """
        return self._with_arguments(self.recipe)

    def plan_with_arguments(self) -> GridPlan | None:
        """Return the plan of the grid, in which each recipe has the arguments of the Trainer; ``None`` without a grid.

        Raises:
            SettingError: the Trainer has no such argument.
        """
        if self.grid is None:
            return None
        points = (replace(point, recipe=self._with_arguments(point.recipe)) for point in self.grid.plan.points)
        return replace(self.grid.plan, points=tuple(points))

    def _with_arguments(self, recipe: Recipe | None) -> Recipe | None:
        if recipe is None or not self.arguments:
            return recipe
        complete: Recipe = replace(recipe, arguments=dict(self.arguments))  # type: ignore[type-var]  # named recipes are dataclasses
        return complete


@dataclass(frozen=True)
class DeclaredReduction:
    """A reduction of bias that a mitigation should achieve.

    Attributes:
        name: of the test, without the model.
        arguments: of :func:`~pytest_genderbias.mitigation.harness.verdict.judge_reduction`, including settings of the
            measurement.
        optional: whether a run may go without a verdict where it cannot be judged.
        line: where the file declares it.
    """

    name: str
    mitigation: DeclaredMitigation
    suite: Suite
    arguments: Mapping[str, YamlValue]
    optional: bool
    line: int

    @property
    def needs_model(self) -> bool:
        """Whether it mitigates a model of the run."""
        return not self.mitigation.from_nothing

    def judge(self, spec: ModelSpec | None, mitigations: MitigationRunner) -> Judgement:
        """Mitigate, or take the run of an earlier reduction of the same mitigation, and judge.

        Args:
            spec: the model; ``None`` for a recipe that makes its own network.
            mitigations: of the run.
        """
        from pytest_genderbias.mitigation.harness.verdict import judge_reduction

        declared = self.mitigation
        recipe, plan = declared.recipe_with_arguments(), declared.plan_with_arguments()
        seeds, controls = declared.seeds, declared.controls
        if declared.grid is None or plan is None:
            run = mitigations.mitigate(spec, declared.method, recipe, seeds=seeds, controls=controls)
        else:
            run = mitigations.search(spec, plan, seeds=seeds, choose_on=declared.grid.choose_on, controls=controls)
        return judge_reduction(run, self.suite, **self.arguments)

    def why_idle(self, models: Sequence[str]) -> str:
        """Return why it is for none of these models."""
        return f"{self.name} is for {', '.join(self.mitigation.models or ())}, and the run has {', '.join(models)}"


@dataclass(frozen=True)
class PlannedReduction:
    """One reduction on one model of a run; ``model`` is ``None`` if it needs no model, or is for none of the run."""

    name: str
    reduction: DeclaredReduction
    model: str | None


def read_mitigations(
    data: LocatedMap, data_folder: Path | None = None, load: LoadSuite = load_suite
) -> list[DeclaredReduction]:
    """Read the list ``mitigate`` of a file, and return every reduction under it.

    Args:
        data: the file, as :func:`~pytest_genderbias.text.located_yaml.read_yaml` returns it.
        data_folder: folder of the data sets, for recipes whose settings name none.
        load: loads a suite.

    Raises:
        DataFileError: an entry is wrong; the message names file and line.
    """
    names: Counter[str] = Counter()
    reductions: list[DeclaredReduction] = []
    for entry in read_written(data):
        mitigation = _declared(entry, data_folder, load)
        for item in entry.reduces:
            reduction = _declared_reduction(item, entry, mitigation, load)
            names[reduction.name] += 1
            number = names[reduction.name]
            reductions.append(reduction if number == 1 else replace(reduction, name=f"{reduction.name}-{number}"))
    return reductions


def planned_reductions(
    data: LocatedMap, data_folder: Path | None, load: LoadSuite, models: Sequence[str]
) -> list[PlannedReduction]:
    """Return the reductions of a file, planned for the models of a run; arguments as of the two functions that this
    calls.
    """
    return list(plan_reductions(read_mitigations(data, data_folder, load), models))


def plan_reductions(reductions: Sequence[DeclaredReduction], models: Sequence[str]) -> Iterator[PlannedReduction]:
    """Yield a planned reduction for each reduction and model: first those that start from nothing, then model by model.

    A reduction that is for none of the models is planned without a model: a run that left it out would pass in silence.

    Args:
        reductions: of one file.
        models: names of the models of a run, which may have none.
    """
    for reduction in reductions:
        if reduction.mitigation.from_nothing and reduction.mitigation.recipe is not None:
            yield PlannedReduction(f"{reduction.name}:{reduction.mitigation.recipe.name}", reduction, None)
    slots: Sequence[str | None] = models or (None,)
    for model in slots:
        for reduction in reductions:
            if reduction.mitigation.applies_to(model):
                yield PlannedReduction(f"{reduction.name}:{model or NO_MODEL}", reduction, model)
    for reduction in reductions:
        mitigation = reduction.mitigation
        if not mitigation.from_nothing and not any(mitigation.applies_to(model) for model in slots):
            yield PlannedReduction(f"{reduction.name}:{NO_MODEL}", reduction, None)


def _declared(entry: WrittenMitigation, data_folder: Path | None, load: LoadSuite) -> DeclaredMitigation:
    """Make the method and the recipe of an entry."""
    parts = tuple(_make_method(part) for part in entry.methods)
    method = parts[0] if len(parts) == 1 else Together(parts)
    recipe, arguments = (None, {}) if entry.recipe is None else _make_recipe(entry.recipe, data_folder)
    if recipe is None and method.trains:
        raise entry.place.error_at("method", f"{method.name} takes part in a training: add a 'recipe'")
    if entry.from_nothing and (recipe is None or not recipe.makes_task or entry.models is not None):
        raise entry.place.error_at(
            "from_nothing", "'from_nothing' needs a recipe that makes its own network, as lstm, and excludes 'models'"
        )
    grid = None if entry.grid is None else _declared_grid(entry.grid, entry.seeds, method, recipe, load)
    return DeclaredMitigation(
        method, recipe, grid, arguments, entry.seeds, entry.controls, entry.models, entry.from_nothing, entry.budget,
        entry.optional,
    )  # fmt: skip


def _declared_grid(
    grid: WrittenGrid, seeds: int | tuple[int, ...] | None, method: Method, recipe: Recipe | None, load: LoadSuite
) -> DeclaredGrid:
    """Make the points of a grid, and check its rule, its seeds, and the settings of its measurements."""

    def load_beside(name: str) -> Suite:
        return resolve_subject(grid.place, name, None, {}, (), load).suite

    settings = _from_file(grid.settings_place, grid.settings)
    with _located(grid.place):
        plan = plan_grid(method, recipe, grid.values, grid.rule, settings, load_beside)
        seeds_to_try(plan, seeds, grid.choose_on)
    suites = {suite.name: suite for suite in plan.suites.values()}
    for name in suites:
        subject = resolve_subject(grid.settings_place, name, None, settings, _RUN_SETTINGS, suites.__getitem__)
        _check_settings(grid.settings_place, subject)
    return DeclaredGrid(plan, grid.choose_on)


def _declared_reduction(
    item: WrittenReduction, entry: WrittenMitigation, mitigation: DeclaredMitigation, load: LoadSuite
) -> DeclaredReduction:
    """Load the suite of a reduction, and check its statistic, settings and budget against it."""
    settings = _from_file(item.settings_place, item.settings)
    subject = resolve_subject(item.place, item.suite, item.statistic, settings, _RUN_SETTINGS, load)
    _check_settings(item.settings_place, subject)
    if item.superficial and mitigation.recipe is None:
        raise item.place.error_at(
            "superficial", "'superficial' trains a new head, which needs a recipe: add a 'recipe'"
        )
    if item.superficial and mitigation.recipe is not None:
        reason = keeps_encoder(mitigation.recipe, mitigation.method)
        if reason is not None:
            raise item.place.error_at("superficial", reason)
    if "back" in item.shares and not item.superficial:
        raise item.place.error_at(
            "back", "'back' is the share that may return with a new head: add 'superficial: true'"
        )
    budget = mitigation.budget if item.budget is None else item.budget
    if mitigation.recipe is None:
        _check_budget(entry.place if item.budget is None else item.place, budget, subject)
    arguments: dict[str, YamlValue] = {
        "by": item.by, "statistic": subject.statistic, "budget": budget, "superficial": item.superficial, "name": item.label
    }  # fmt: skip
    of_grid = "" if mitigation.grid is None else f".best-of-{len(mitigation.grid.plan.points)}"
    name = f"{item.label or f'{_label(mitigation.method)}{of_grid}.{subject.suite.name}'}.{subject.statistic}.by_{item.by:g}"
    arguments |= {**item.shares, **subject.settings}
    optional = mitigation.optional if item.optional is None else item.optional
    return DeclaredReduction(name, mitigation, subject.suite, arguments, optional, item.place.line)


def _label(method: Method) -> str:
    methods = method.methods if isinstance(method, Together) else (method,)
    return "+".join(part.name for part in methods)


def _from_file(place: Place, settings: Mapping[str, YamlValue]) -> Mapping[str, YamlValue]:
    """Return settings of a measurement, with the paths of control items from the folder of their file."""
    if "ability" not in settings:
        return settings
    with _located(place):
        return {**settings, "ability": ability_from(settings["ability"], Path(place.file).parent)}


def _check_settings(place: Place, subject: Subject) -> None:
    """Reject settings that the measurement would reject, which comes after the training."""
    with _located(place):
        scoring = {name for name in _RUN_SETTINGS if name != "ability"}
        ScoreSettings(**{name: value for name, value in subject.settings.items() if name in scoring})
        options = {name: value for name, value in subject.settings.items() if name not in _RUN_SETTINGS}
        resolve_options(subject.suite.family.options, options, subject.suite.name)


def _check_budget(place: Place, budget: Mapping[str, float], subject: Subject) -> None:
    """Reject a budget for a figure that neither a recipe evaluates nor the suite measures with a worse direction."""
    statistics = subject.suite.family.statistics
    measured = [name for name, about in statistics.items() if name != subject.statistic and about.direction != "away"]
    for figure in budget:
        if figure not in measured:
            raise place.error_at(
                "budget",
                f"budget figure {figure!r} cannot be measured: there is no recipe, and besides {subject.statistic}"
                f" {subject.suite.name} measures {', '.join(measured) or 'nothing that can be worse'}",
            )


def _make_method(part: WrittenPart) -> Method:
    settings = _known_settings(part, "method", method_settings)
    with _located(part.place):
        return make_method(part.name, **settings)


def _make_recipe(part: WrittenPart, data_folder: Path | None) -> tuple[Recipe, Mapping[str, YamlValue]]:
    """Return the recipe without arguments of the Trainer, and these arguments."""
    settings = _known_settings(part, "recipe", recipe_settings)
    arguments: Mapping[str, YamlValue] = settings.pop("arguments", {})
    with _located(part.place):
        for key in set(RECIPE_PATHS) & set(settings):
            path = str(part.settings[key])
            if key == "data" or set(path) & set("./\\"):  # otherwise the name of a data set
                settings[key] = str(Path(part.place.file).parent / expand(path))
        recipe = resolve_recipe({"name": part.name, **settings}, data_folder)
    assert recipe is not None
    return recipe, arguments


def _known_settings(
    part: WrittenPart, role: str, settings_of: Callable[[str], tuple[str, ...]]
) -> dict[str, YamlValue]:
    """Return the settings of a method or recipe, with paths relative to the file resolved; reject settings that it does
    not have.
    """
    with _located(part.place, "name"):
        known = settings_of(part.name)
    for key in part.settings:
        if key not in known:
            expected = expected_instead(key, sorted(("name", *known)))
            message = f"unknown key {brief(key)} in the {role} {part.name}; {expected}"
            raise part.place.error_at(key, message)
    return {key: _resolve_path(setting, part.place.file) for key, setting in part.settings.items()}


@contextmanager
def _located(place: Place, key: str = "") -> Iterator[None]:
    """Add file and line to an error: the line of ``key``, or of the setting that the message begins with, or of the
    part.
    """
    try:
        yield
    except BiasError as error:
        raise place.error_at(key or str(error).partition(" ")[0], str(error)) from None


def _resolve_path(value: YamlValue, file: str) -> YamlValue:
    """Make a path that starts with ``./`` or ``../`` relative to the folder of the file, as paths of suites are."""
    is_path = isinstance(value, str) and value.startswith(("./", "../"))
    return str(Path(file).parent / value) if is_path else value
