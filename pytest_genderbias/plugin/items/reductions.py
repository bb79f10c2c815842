"""Mitigations of ``*.bias.yaml`` files: for each suite that a mitigation is said to help, a test that it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.errors import BiasError, DataFileError
from pytest_genderbias.mitigation.methods.base import Method, Together
from pytest_genderbias.mitigation.methods.registry import make_method, method_settings, recipe_settings, resolve_recipe
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.items.base import BiasItem
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import NO_MODEL, mitigate_or_skip, refuse_or_skip
from pytest_genderbias.suites.options import resolve_options
from pytest_genderbias.text.located_yaml import LocatedList, LocatedMap, refuse_unknown, take

if TYPE_CHECKING:
    from pytest_genderbias.plugin.items.gates import GateFile
    from pytest_genderbias.recipes.recipe import Recipe
    from pytest_genderbias.suites.suite import Suite

_KEYS = ("method", "recipe", "seeds", "controls", "models", "from_nothing", "budget", "reduces")
_PATHS = {"data", "training", "evaluation"}  #: settings of recipes that are paths, or names of data sets
_RUN_SETTINGS = ("limit", "seed", "batch_tokens")
_REDUCES = ("suite", "statistic", "by", "budget", "superficial", "back", "overshoot", "settings", "name")


@dataclass(frozen=True)
class Mitigation:
    """One mitigation as its file has it. ``arguments`` of the Trainer are checked when it is run, for that takes transformers."""

    method: Method
    recipe: Recipe | None
    arguments: Mapping[str, Any]
    seeds: int | tuple[int, ...] | None
    controls: int | None
    models: Sequence[str] | None
    from_nothing: bool
    budget: Mapping[str, float]

    def is_for(self, spec: ModelSpec | None) -> bool:
        """Tell whether it is for this model; what starts from nothing is for none."""
        return not self.from_nothing and (spec is None or self.models is None or spec.name in self.models)

    def whole_recipe(self) -> Recipe | None:
        """Return the recipe with its arguments."""
        if self.recipe is None or not self.arguments:
            return self.recipe
        with_arguments: Any = replace(self.recipe, arguments=dict(self.arguments))  # type: ignore[type-var]
        return with_arguments  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Reduction:
    """What a mitigation is said to do to one suite; ``arguments`` are those of ``judge_reduction``, suite settings among them."""

    name: str
    mitigation: Mitigation
    suite: Suite
    arguments: Mapping[str, Any]
    line: int


def reduction_items(file: GateFile, data: LocatedMap) -> Iterator[pytest.Item]:
    """Return one item a reduction and model; errors name file and line."""
    entries = take(data, "mitigate", LocatedList, "the gate file")
    names: Counter[str] = Counter()
    parsed = []
    for number, entry in enumerate(entries):
        if not isinstance(entry, LocatedMap):
            raise DataFileError(
                f"{file.path}:{entries.lines[number]}: expected a mitigation (method, recipe, reduces), got {entry!r}"
            )
        for one in _read(file, entry):
            names[one.name] += 1
            parsed.append(one if names[one.name] == 1 else replace(one, name=f"{one.name}-{names[one.name]}"))
    models: tuple[ModelSpec | None, ...] = file.config.stash[SETTINGS].models or (None,)
    for one in parsed:
        if one.mitigation.from_nothing and one.mitigation.recipe is not None:
            name = f"{one.name}:{one.mitigation.recipe.name}"
            yield ReductionItem.from_parent(file, name=name, reduction=one, spec=None)
    for spec in models:
        for one in parsed:
            if one.mitigation.is_for(spec):
                name = f"{one.name}:{spec.name if spec else 'no-model'}"
                yield ReductionItem.from_parent(file, name=name, reduction=one, spec=spec)
    for one in parsed:
        idle = not one.mitigation.from_nothing and not any(one.mitigation.is_for(spec) for spec in models)
        if idle:  # told, or it would silently never run
            yield ReductionItem.from_parent(file, name=f"{one.name}:no-model", reduction=one, spec=None)


def _read(file: GateFile, entry: LocatedMap) -> Iterator[Reduction]:
    """Read a mitigation and all that it is said to do."""
    refuse_unknown(entry, _KEYS, "a mitigation")
    mitigation = _mitigation(file, entry)
    reduces = take(entry, "reduces", LocatedList, "the mitigation")
    label = "+".join(one.name for one in getattr(mitigation.method, "methods", [mitigation.method]))
    for number, one in enumerate(reduces):
        if not isinstance(one, LocatedMap):
            raise DataFileError(f"{file.path}:{reduces.lines[number]}: expected a reduction (suite, by), got {one!r}")
        refuse_unknown(one, _REDUCES, "a reduction")
        suite, statistic, settings = file.read_measured(one, "the reduction", _RUN_SETTINGS)
        if "settings" in one:
            _check_settings(file, one, suite, settings)
        by = take(one, "by", (int, float), "the reduction")
        if not 0 <= by <= 1:
            raise file.wrong(one, "by", f"'by' is the part of the distance from neutral that goes, 0 to 1, got {by:g}")
        superficial = take(one, "superficial", bool, "the reduction", default=False)
        if superficial and mitigation.recipe is None:
            raise file.wrong(one, "superficial", "'superficial' trains a new head, and that takes a recipe: add one")
        if "back" in one and not superficial:
            raise file.wrong(one, "back", "'back' is what may come back with a new head: add 'superficial: true'")
        shares = {key: _share(file, one, key) for key in ("back", "overshoot") if key in one}
        budget = _budget(file, one, "the reduction") if "budget" in one else mitigation.budget
        if mitigation.recipe is None:
            _check_figures(file, one if "budget" in one else entry, budget, suite, statistic)
        called = take(one, "name", str, "the reduction", default=None)
        arguments = {
            "by": float(by), "statistic": statistic, "budget": budget, "superficial": superficial, "name": called, **shares, **settings
        }  # fmt: skip
        name = f"{called or f'{label}.{suite.name}'}.{statistic}.by_{by:g}"
        yield Reduction(name, mitigation, suite, arguments, one.line)


def _check_settings(file: GateFile, one: LocatedMap, suite: Suite, settings: Mapping[str, Any]) -> None:
    """Refuse settings that measuring would refuse, which would be after the training."""
    from pytest_genderbias.scoring.engine import ScoreSettings

    with _located(file, one["settings"], one.lines["settings"]):
        ScoreSettings(**{name: value for name, value in settings.items() if name in _RUN_SETTINGS})
        options = {name: value for name, value in settings.items() if name not in _RUN_SETTINGS}
        resolve_options(suite.family.options, options, suite.name)


def _check_figures(
    file: GateFile, given: LocatedMap, budget: Mapping[str, float], suite: Suite, statistic: str
) -> None:
    """Refuse a budget of what no recipe evaluates and the suite does not measure, or not as better and worse."""
    told = [n for n, about in suite.family.statistics.items() if n != statistic and about.direction != "away"]
    for figure in budget:
        if figure not in told:
            also = f"{suite.name} measures {', '.join(told) or 'nothing'} beside"
            raise file.wrong(
                given, "budget", f"nobody can tell {figure!r} of the budget: there is no recipe, and {also}"
            )


def _share(file: GateFile, one: LocatedMap, key: str) -> float:
    value = take(one, key, (int, float), "the reduction")
    if not 0 <= value < float("inf"):
        raise file.wrong(one, key, f"{key!r} is a share of 0 or more, got {value:g}")
    return float(value)


def _budget(file: GateFile, entry: LocatedMap, what: str) -> dict[str, float]:
    budget = take(entry, "budget", LocatedMap, what, default={})
    for key, value in budget.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
            raise file.wrong(budget, key, f"a budget is a share of 0 or more, as 0.05, got {value!r} for {key}")
    return dict(budget)


def _mitigation(file: GateFile, entry: LocatedMap) -> Mitigation:
    method = _method(file, entry)
    recipe, arguments = _recipe(file, entry) if "recipe" in entry else (None, {})
    if recipe is None and method.trains:
        raise file.wrong(entry, "method", f"{method.name} takes part in a training: add a 'recipe'")
    from_nothing = take(entry, "from_nothing", bool, "the mitigation", default=False)
    if from_nothing and (recipe is None or not recipe.makes_task or "models" in entry):
        raise file.wrong(
            entry, "from_nothing", "'from_nothing' is for a recipe that makes its own network, as lstm, and for no 'models'"
        )  # fmt: skip
    seeds = take(entry, "seeds", (int, LocatedList), "the mitigation", default=None)
    numbers = [seeds] if isinstance(seeds, int) else [] if seeds is None else seeds
    if any(type(one) is not int or one < isinstance(seeds, int) for one in numbers):
        raise file.wrong(entry, "seeds", f"'seeds' is their number, 1 or more, or a list of whole numbers, got {seeds}")
    if len(set(numbers)) < len(numbers):
        raise file.wrong(entry, "seeds", f"'seeds' should be different, got {seeds}")
    controls = take(entry, "controls", int, "the mitigation", default=None)
    if controls is not None and controls < 1:
        raise file.wrong(entry, "controls", f"'controls' is a whole number of at least 1, got {controls}")
    chosen = tuple(seeds) if isinstance(seeds, list) else seeds
    models = take(entry, "models", LocatedList, "the mitigation", default=None)
    budget = _budget(file, entry, "the mitigation")
    return Mitigation(method, recipe, arguments, chosen, controls, models, from_nothing, budget)


def _method(file: GateFile, entry: LocatedMap) -> Method:
    given = take(entry, "method", (str, LocatedMap, LocatedList), "the mitigation")
    several = isinstance(given, LocatedList)
    lines = given.lines if several else [entry.lines["method"]]
    methods: list[Method] = []
    for one, line in zip(given if several else [given], lines, strict=True):
        name, settings = _parts(file, one, line, "method", method_settings)
        with _located(file, one, line):
            methods.append(make_method(name, **settings))
    return Together(tuple(methods)) if several else methods[0]


def _recipe(file: GateFile, entry: LocatedMap) -> tuple[Recipe, Mapping[str, Any]]:
    """Return the recipe without arguments of the Trainer, and these."""
    given, line = take(entry, "recipe", (str, LocatedMap), "the mitigation"), entry.lines["recipe"]
    name, settings = _parts(file, given, line, "recipe", recipe_settings)
    arguments: Any = {}
    if isinstance(given, LocatedMap) and "arguments" in settings:
        arguments = settings.pop("arguments")
        take(given, "arguments", LocatedMap, "the recipe")
    for key in _PATHS & set(settings):
        told = take(given, key, str, "the recipe")
        if key == "data" or set(told) & set("./\\"):  # else the name of a data set
            settings[key] = str(file.path.parent / Path(told).expanduser())
    with _located(file, given, line):
        made = resolve_recipe({"name": name, **settings}, file.config.stash[SETTINGS].data)
    assert made is not None
    return made, arguments


def _parts(
    file: GateFile, given: Any, line: int, what: str, known: Callable[[str], tuple[str, ...]]
) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of a method or recipe, which must be among its own."""
    if isinstance(given, str):
        with _located(file, given, line):
            known(given)
        return given, {}
    if not isinstance(given, LocatedMap):
        raise DataFileError(
            f"{file.path}:{line}: expected the name of a {what}, or a mapping with it, got {_plain(given)!r}"
        )
    name = take(given, "name", str, f"the {what}")
    with _located(file, given, given.lines["name"]):
        settings = known(name)
    refuse_unknown(given, ("name", *settings), f"the {what} {name}")
    return name, {key: _from_here(file, _plain(value)) for key, value in given.items() if key != "name"}


@contextmanager
def _located(file: GateFile, given: Any, line: int) -> Iterator[None]:
    """Give an error file and line: of the setting that it begins with, or else of the whole."""
    try:
        yield
    except BiasError as error:
        lines = given.lines if isinstance(given, LocatedMap) else {}
        at = lines.get(str(error).partition(" ")[0], line)
        raise DataFileError(f"{file.path}:{at}: {error}") from None


def _from_here(file: GateFile, value: Any) -> Any:
    """Return a path that starts with ``./`` or ``../`` as one from the folder of the file, as those of suites are; all else as it is."""
    is_path = isinstance(value, str) and value.startswith(("./", "../"))
    return str(file.path.parent / value) if is_path else value


def _plain(value: Any) -> Any:
    """Return what YAML gave without its lines."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


class ReductionItem(BiasItem):
    """One reduction on one model. All of a mitigation share its run."""

    def __init__(self, *, name: str, parent: pytest.Collector, reduction: Reduction, spec: ModelSpec | None) -> None:
        super().__init__(name=name, parent=parent, suite_name=reduction.suite.name, spec=spec, line=reduction.line)
        self.reduction = reduction

    def runtest(self) -> None:
        """Mitigate, or take the run that is there, and judge."""
        from pytest_genderbias.gates.assertions import settle
        from pytest_genderbias.mitigation.harness.verdict import judge_reduction

        one, of = self.reduction, self.reduction.mitigation
        if self.spec is None and not of.from_nothing and (specs := self.config.stash[SETTINGS].models):
            names = ", ".join(spec.name for spec in specs)
            wanted = ", ".join(map(str, of.models or ()))
            refuse_or_skip(self.config, f"{one.name} is for {wanted}, and the run has {names}")
        if self.spec is None and not of.from_nothing:
            refuse_or_skip(self.config, NO_MODEL)
        run = mitigate_or_skip(self.config, self.spec, of.method, of.whole_recipe(), of.seeds, of.controls)
        settle(judge_reduction(run, one.suite, **one.arguments))
