"""Methods and recipes by the names that YAML files and tables use.

Each class is imported when its name is first used, so that reading a YAML file loads no other method or recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation.methods.base import Method, together
from pytest_genderbias.recipes.recipe import Recipe
from pytest_genderbias.text.printable import refuse_unknown_name
from pytest_genderbias.text.schema import check_setting, field_hints

#: A method or a recipe, or what stands for one: its name, a mapping of name and settings, or several methods.
SomeMethod: TypeAlias = Method | str | Mapping[str, object] | Sequence[Method | str | Mapping[str, object]]
SomeRecipe: TypeAlias = Recipe | str | Mapping[str, object]


def _imported(place: str) -> type[Any]:
    """Import a class, ``MODULE:NAME``."""
    module, _, name = place.partition(":")
    kind: type[Any] = vars(import_module(f"pytest_genderbias.{module}"))[name]
    return kind


_METHODS = {
    "cda": "mitigation.methods.counterfactual:CounterfactualAugmentation",
    "projection": "mitigation.methods.projection:Projection",
    "inlp": "mitigation.methods.nullspace:NullspaceProjection",
    "wed": "mitigation.methods.hard_debiasing:HardDebiasing",
    "regularisation": "mitigation.methods.regularisation:Regularisation",
    "dropout": "mitigation.methods.dropout:Dropout",
    "scrubbing": "mitigation.methods.scrubbing:Scrubbing",
    "iterative-scrubbing": "mitigation.methods.iterative_scrubbing:IterativeScrubbing",
    "balancing": "mitigation.methods.balancing:Balancing",
    "anonymising": "mitigation.methods.anonymising:Anonymising",
}
_RECIPES = {
    "nli": "recipes.fine_tuning:InferenceTuning",
    "similarity": "recipes.fine_tuning:SimilarityTuning",
    "classification": "recipes.classification:ClassifierTuning",
    "masked-lm": "recipes.language_modelling:MaskedPretraining",
    "causal-lm": "recipes.language_modelling:CausalPretraining",
    "lstm": "recipes.lstm:LstmTraining",
    "static-nli": "recipes.fine_tuning:StaticInferenceTraining",
    "edge-probe": "recipes.coreference:EdgeProbing",
    "coreference": "recipes.coreference:CoreferenceTuning",
}
#: What imports the class of each method and each recipe, by name.
METHODS: Mapping[str, Callable[[], type[Method]]] = {name: partial(_imported, at) for name, at in _METHODS.items()}
RECIPES: Mapping[str, Callable[[], type[Recipe]]] = {name: partial(_imported, at) for name, at in _RECIPES.items()}


def make_method(name: str, **settings: object) -> Method:
    """Return a method by name: ``make_method("cda", sides="one")``.

    Names joined by `` & `` are methods that are applied in this order, each with its defaults.

    Raises:
        UnknownNameError: no method has this name.
        SettingError: the method has no such setting, or does not accept the value.

    >>> make_method("cda", sides="one").settings()["sides"]
    'one'
    """
    if " & " in name and not settings:
        return together([make_method(part) for part in name.split(" & ")])
    method: Method = _make("method", name, settings)
    return method


def make_recipe(name: str, **settings: object) -> Recipe:
    """Return a recipe by name: ``make_recipe("nli", data="shared/data", max_rows=5000)``.

    Raises:
        UnknownNameError: no recipe has this name.
        SettingError: the recipe has no such setting, or does not accept the value.
    """
    recipe: Recipe = _make("recipe", name, settings)
    return recipe


def resolve_method(method: SomeMethod) -> Method:
    """Return the method that a name, a mapping of ``name`` and settings, a list of these, or a method itself stands
    for.

    Raises:
        UnknownNameError: no method has this name.
        SettingError: the list is empty, the name is missing, or a setting is wrong.

    >>> resolve_method({"name": "cda", "sides": "one"}).settings()["sides"]
    'one'
    >>> resolve_method(["cda"]) == resolve_method("cda")
    True
    """
    if isinstance(method, Method):
        return method
    if isinstance(method, (list, tuple)):
        if not method:
            raise SettingError("a list of methods is empty; name at least one method")
        return together([resolve_method(one) for one in method])
    name, settings = _name_and_settings(method, "method")
    return make_method(name, **settings)


def resolve_recipe(recipe: SomeRecipe | None, data: Path | None) -> Recipe | None:
    """Return the recipe that a name, a mapping of ``name`` and settings, or a recipe itself stands for; ``None`` for
    ``None``.

    Args:
        recipe: what stands for the recipe.
        data: folder of the data sets, for a recipe that reads data and whose settings name no folder.

    Raises:
        UnknownNameError: no recipe has this name.
        SettingError: the name is missing, or a setting is wrong.
    """
    if recipe is None or not isinstance(recipe, (str, Mapping)):
        return recipe
    name, settings = _name_and_settings(recipe, "recipe")
    if data is not None and "data" in settings_of("recipe", name):
        settings = {"data": str(data), **settings}
    return make_recipe(name, **settings)


def _name_and_settings(value: object, role: str) -> tuple[str, dict[str, object]]:
    settings = {"name": value} if isinstance(value, str) else dict(value) if isinstance(value, Mapping) else {}
    name = settings.pop("name", None)
    if not isinstance(name, str):
        raise SettingError(f"a {role} is given by its name, or as a mapping with a name and settings, got {value!r}")
    return name, settings


def settings_of(role: str, name: str) -> tuple[str, ...]:
    """Return the names of the settings of a method or a recipe.

    Raises:
        UnknownNameError: none has this name.

    >>> settings_of("method", "inlp")
    ('pairs', 'rounds', 'random')
    """
    return tuple(field_hints(_look_up(role, name)))


def _look_up(role: str, name: str) -> type[Any]:
    table: Mapping[str, Callable[[], type[Any]]] = METHODS if role == "method" else RECIPES
    refuse_unknown_name(name, table, f"no {role} is called {name!r}", "there are")
    return table[name]()


def _make(role: str, name: str, settings: Mapping[str, object]) -> Any:
    kind = _look_up(role, name)
    return kind(**check_settings(kind, role, name, settings))


def check_settings(kind: type[object], role: str, name: str, settings: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of a method or a recipe as its class takes them: lists as tuples.

    Args:
        kind: the class, a dataclass.
        role: ``method`` or ``recipe``, for messages.
        name: its name, for messages.
        settings: values by field.

    Raises:
        SettingError: the class has no such field, or a value has another type.
    """
    known = field_hints(kind)
    if unknown := sorted(set(settings) - set(known)):
        raise SettingError(f"the {role} {name} has no setting {unknown[0]!r}; it takes {', '.join(known)}")
    for key, value in settings.items():
        check_setting(key, known[key], value)
    return {key: _frozen(value) for key, value in settings.items()}


def _frozen(value: object) -> object:
    """Return lists as tuples, so that settings can be compared and hashed."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def part_schema(maker: Any, kinds: Mapping[str, Callable[[], type[object]]]) -> dict[str, Any]:
    """Return the JSON Schema of a method or a recipe: its name, or a mapping with its name and settings."""
    named: list[dict[str, Any]] = [
        {
            "properties": {
                "name": {"const": name},
                **{key: maker.of(hint) for key, hint in field_hints(kind()).items()},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
        for name, kind in kinds.items()
    ]
    cases = [
        {"if": {"properties": {"name": one["properties"]["name"]}, "required": ["name"]}, "then": one} for one in named
    ]
    known = {"enum": list(kinds)}
    return {
        "if": {"type": "object"},
        "then": {"properties": {"name": known}, "required": ["name"], "allOf": cases},
        "else": known,
    }
