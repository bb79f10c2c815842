"""The mitigations of a ``*.bias.yaml`` file: read, checked, and planned for the models of a run.

Each entry of ``mitigate`` describes a mitigation and, under ``reduces``, the reductions of bias that it should achieve. This module
needs neither pytest nor the settings of a run. An error names file and line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_genderbias.errors import BiasError, DataFileError
from pytest_genderbias.gates.gate_file import NO_MODEL, LoadSuite, Subject, error_at, read_subject
from pytest_genderbias.mitigation.methods.base import Method, Together
from pytest_genderbias.mitigation.methods.registry import (
    make_method,
    method_settings,
    recipe_settings,
    resolve_recipe,
)
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.suites.options import resolve_options
from pytest_genderbias.suites.suite import Suite, load_suite
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, YamlValue, refuse_unknown, take

_KEYS = ("method", "recipe", "seeds", "controls", "models", "from_nothing", "budget", "reduces")
_REDUCTION_KEYS = ("suite", "statistic", "by", "budget", "superficial", "back", "overshoot", "settings", "name")
_RECIPE_PATHS = {"data", "training", "evaluation"}  #: settings of recipes that are paths, or names of data sets
_RUN_SETTINGS = ("limit", "seed", "batch_tokens")


@dataclass(frozen=True)
class DeclaredMitigation:
    """A mitigation as a file declares it.

    Attributes:
        arguments: of transformers' ``TrainingArguments``. They are checked when the mitigation runs, since that imports transformers.
        seeds: number of trainings, or their seeds; ``None`` for the default.
        controls: number of controls; ``None`` for the default.
        models: names of the models to mitigate; ``None`` for all.
        from_nothing: whether the recipe makes its own network, and mitigates no model of the run.
        budget: how much worse other figures may become, as shares.
    """

    method: Method
    recipe: Recipe | None
    arguments: Mapping[str, YamlValue]
    seeds: int | tuple[int, ...] | None
    controls: int | None
    models: Sequence[str] | None
    from_nothing: bool
    budget: Mapping[str, float]

    def applies_to(self, model: str | None) -> bool:
        """Return whether it mitigates a model of this name; ``None`` stands for a run without models."""
        return not self.from_nothing and (model is None or self.models is None or model in self.models)

    def recipe_with_arguments(self) -> Recipe | None:
        """Return the recipe with the arguments of the Trainer.

        Raises:
            SettingError: the Trainer has no such argument.
        """
        if self.recipe is None or not self.arguments:
            return self.recipe
        complete: Recipe = replace(self.recipe, arguments=dict(self.arguments))  # type: ignore[type-var]  # named recipes are dataclasses
        return complete


@dataclass(frozen=True)
class DeclaredReduction:
    """A reduction of bias that a mitigation should achieve.

    Attributes:
        name: of the test, without the model.
        arguments: of :func:`~pytest_genderbias.mitigation.harness.verdict.judge_reduction`, including settings of the measurement.
        line: where the file declares it.
    """

    name: str
    mitigation: DeclaredMitigation
    suite: Suite
    arguments: Mapping[str, YamlValue]
    line: int

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
    entries = take(data, "mitigate", LocatedList, "the gate file")
    names: Counter[str] = Counter()
    reductions: list[DeclaredReduction] = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, LocatedMap):
            raise DataFileError(
                f"{entries.file}:{entries.lines[number]}: expected a mitigation (method, recipe, reduces), got {entry!r}"
            )
        for reduction in _read_entry(entry, data_folder, load):
            names[reduction.name] += 1
            number_of_name = names[reduction.name]
            name = reduction.name if number_of_name == 1 else f"{reduction.name}-{number_of_name}"
            reductions.append(replace(reduction, name=name))
    return reductions


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


def _read_entry(entry: LocatedMap, data_folder: Path | None, load: LoadSuite) -> Iterator[DeclaredReduction]:
    """Read a mitigation and its reductions."""
    refuse_unknown(entry, _KEYS, "a mitigation")
    mitigation = _read_mitigation(entry, data_folder)
    reduces = take(entry, "reduces", LocatedList, "the mitigation")
    for number, item in enumerate(reduces):
        if not isinstance(item, LocatedMap):
            raise DataFileError(
                f"{reduces.file}:{reduces.lines[number]}: expected a reduction (suite, by), got {item!r}"
            )
        yield _read_reduction(item, entry, mitigation, load)


def _read_reduction(
    item: LocatedMap, entry: LocatedMap, mitigation: DeclaredMitigation, load: LoadSuite
) -> DeclaredReduction:
    refuse_unknown(item, _REDUCTION_KEYS, "a reduction")
    subject = read_subject(item, "the reduction", _RUN_SETTINGS, load)
    if "settings" in item:
        _check_settings(item, subject)
    by = take(item, "by", (int, float), "the reduction")
    if not 0 <= by <= 1:
        raise error_at(item, "by", f"'by' is the share of the distance from neutral to remove, 0 to 1, got {by:g}")
    superficial = take(item, "superficial", bool, "the reduction", default=False)
    if superficial and mitigation.recipe is None:
        raise error_at(item, "superficial", "'superficial' trains a new head, which needs a recipe: add a 'recipe'")
    if "back" in item and not superficial:
        raise error_at(
            item, "back", "'back' is the share that may return with a new head: add 'superficial: true'"
        )  # fmt: skip
    budget = _read_budget(item, "the reduction") if "budget" in item else mitigation.budget
    if mitigation.recipe is None:
        _check_budget(item if "budget" in item else entry, budget, subject)
    label = take(item, "name", str, "the reduction", default=None)
    arguments: dict[str, YamlValue] = {
        "by": float(by), "statistic": subject.statistic, "budget": budget, "superficial": superficial, "name": label
    }  # fmt: skip
    arguments |= {key: _read_share(item, key) for key in ("back", "overshoot") if key in item}
    name = f"{label or f'{_label(mitigation.method)}.{subject.suite.name}'}.{subject.statistic}.by_{by:g}"
    return DeclaredReduction(name, mitigation, subject.suite, arguments | subject.settings, item.line)


def _label(method: Method) -> str:
    methods = method.methods if isinstance(method, Together) else (method,)
    return "+".join(part.name for part in methods)


def _check_settings(item: LocatedMap, subject: Subject) -> None:
    """Reject settings that the measurement would reject, which comes after the training."""
    with _located(item["settings"], item.lines["settings"], item.file):
        ScoreSettings(**{name: value for name, value in subject.settings.items() if name in _RUN_SETTINGS})
        options = {name: value for name, value in subject.settings.items() if name not in _RUN_SETTINGS}
        resolve_options(subject.suite.family.options, options, subject.suite.name)


def _check_budget(entry: LocatedMap, budget: Mapping[str, float], subject: Subject) -> None:
    """Reject a budget for a figure that neither a recipe evaluates nor the suite measures with a worse direction."""
    statistics = subject.suite.family.statistics
    measured = [name for name, about in statistics.items() if name != subject.statistic and about.direction != "away"]
    for figure in budget:
        if figure not in measured:
            raise error_at(
                entry, "budget",
                f"budget figure {figure!r} cannot be measured: there is no recipe, and besides {subject.statistic} {subject.suite.name} "
                f"measures {', '.join(measured) or 'nothing that can be worse'}",
            )  # fmt: skip


def _read_share(item: LocatedMap, key: str) -> float:
    share = take(item, key, (int, float), "the reduction")
    if not 0 <= share < float("inf"):
        raise error_at(item, key, f"{key!r} is a share of 0 or more, got {share:g}")
    return float(share)


def _read_budget(entry: LocatedMap, what: str) -> dict[str, float]:
    budget = take(entry, "budget", LocatedMap, what, default={})
    for figure, share in budget.items():
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share < float("inf"):
            raise error_at(
                budget, figure, f"a budget is a share of 0 or more, as 0.05, got {share!r} for {figure}"
            )  # fmt: skip
    return dict(budget)


def _read_mitigation(entry: LocatedMap, data_folder: Path | None) -> DeclaredMitigation:
    method = _read_method(entry)
    recipe, arguments = _read_recipe(entry, data_folder) if "recipe" in entry else (None, {})
    if recipe is None and method.trains:
        raise error_at(entry, "method", f"{method.name} takes part in a training: add a 'recipe'")
    from_nothing = take(entry, "from_nothing", bool, "the mitigation", default=False)
    if from_nothing and (recipe is None or not recipe.makes_task or "models" in entry):
        raise error_at(
            entry, "from_nothing", "'from_nothing' needs a recipe that makes its own network, as lstm, and excludes 'models'"
        )  # fmt: skip
    controls = take(entry, "controls", int, "the mitigation", default=None)
    if controls is not None and controls < 1:
        raise error_at(entry, "controls", f"'controls' is a whole number of at least 1, got {controls}")
    models = take(entry, "models", LocatedList, "the mitigation", default=None)
    return DeclaredMitigation(
        method=method,
        recipe=recipe,
        arguments=arguments,
        seeds=_read_seeds(entry),
        controls=controls,
        models=None if models is None else tuple(map(str, models)),
        from_nothing=from_nothing,
        budget=_read_budget(entry, "the mitigation"),
    )


def _read_seeds(entry: LocatedMap) -> int | tuple[int, ...] | None:
    value = take(entry, "seeds", (int, LocatedList), "the mitigation", default=None)
    if value is None:
        return None
    if isinstance(value, int):
        if value < 1:
            raise error_at(entry, "seeds", _WRONG_SEEDS.format(value))
        return value
    seeds = tuple(value)
    if any(type(seed) is not int or seed < 0 for seed in seeds):
        raise error_at(entry, "seeds", _WRONG_SEEDS.format(value))
    if len(set(seeds)) < len(seeds):
        raise error_at(entry, "seeds", f"'seeds' should be different, got {value}")
    return seeds


_WRONG_SEEDS = "'seeds' is their number, 1 or more, or a list of whole numbers, got {}"


def _read_method(entry: LocatedMap) -> Method:
    value = take(entry, "method", (str, LocatedMap, LocatedList), "the mitigation")
    if isinstance(value, LocatedList):
        parts = zip(value, value.lines, strict=True)
        return Together(tuple(_make_method(part, line, entry.file) for part, line in parts))
    return _make_method(value, entry.lines["method"], entry.file)


def _make_method(value: YamlValue, line: int, file: str) -> Method:
    name, settings = _name_and_settings(value, line, file, "method", method_settings)
    with _located(value, line, file):
        return make_method(name, **settings)


def _read_recipe(entry: LocatedMap, data_folder: Path | None) -> tuple[Recipe, Mapping[str, YamlValue]]:
    """Return the recipe without arguments of the Trainer, and these arguments."""
    value, line = take(entry, "recipe", (str, LocatedMap), "the mitigation"), entry.lines["recipe"]
    name, settings = _name_and_settings(value, line, entry.file, "recipe", recipe_settings)
    arguments: Mapping[str, YamlValue] = {}
    if isinstance(value, LocatedMap) and "arguments" in settings:
        arguments = settings.pop("arguments")
        take(value, "arguments", LocatedMap, "the recipe")
    for key in _RECIPE_PATHS & set(settings):
        path = take(value, key, str, "the recipe")
        if key == "data" or set(path) & set("./\\"):  # otherwise the name of a data set
            settings[key] = str(Path(entry.file).parent / Path(path).expanduser())
    with _located(value, line, entry.file):
        recipe = resolve_recipe({"name": name, **settings}, data_folder)
    assert recipe is not None
    return recipe, arguments


def _name_and_settings(
    value: YamlValue, line: int, file: str, role: str, known_settings: Callable[[str], tuple[str, ...]]
) -> tuple[str, dict[str, YamlValue]]:
    """Return the name and the settings of a method or recipe; reject settings that it does not have."""
    if isinstance(value, str):
        with _located(value, line, file):
            known_settings(value)
        return value, {}
    if not isinstance(value, LocatedMap):
        raise DataFileError(
            f"{file}:{line}: expected the name of a {role}, or a mapping with 'name', got {_without_lines(value)!r}"
        )
    name = take(value, "name", str, f"the {role}")
    with _located(value, value.lines["name"], file):
        known = known_settings(name)
    refuse_unknown(value, ("name", *known), f"the {role} {name}")
    settings = {key: _resolve_path(_without_lines(setting), file) for key, setting in value.items() if key != "name"}
    return name, settings


@contextmanager
def _located(value: YamlValue, line: int, file: str) -> Iterator[None]:
    """Add file and line to an error: the line of the setting that the message begins with, otherwise ``line``."""
    try:
        yield
    except BiasError as error:
        lines = value.lines if isinstance(value, LocatedMap) else {}
        at = lines.get(str(error).partition(" ")[0], line)
        raise DataFileError(f"{file}:{at}: {error}") from None


def _resolve_path(value: YamlValue, file: str) -> YamlValue:
    """Make a path that starts with ``./`` or ``../`` relative to the folder of the file, as paths of suites are."""
    is_path = isinstance(value, str) and value.startswith(("./", "../"))
    return str(Path(file).parent / value) if is_path else value


def _without_lines(value: YamlValue) -> YamlValue:
    """Return plain dictionaries and lists."""
    if isinstance(value, Mapping):
        return {key: _without_lines(part) for key, part in value.items()}
    return [_without_lines(part) for part in value] if isinstance(value, list) else value
