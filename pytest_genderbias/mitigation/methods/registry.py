"""Methods and recipes by the names that YAML and the table use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pytest_genderbias.errors import SettingError, UnknownNameError
from pytest_genderbias.mitigation.methods.base import Method, Together
from pytest_genderbias.recipes.recipe import Recipe

METHODS: Mapping[str, str] = {
    "cda": "mitigation.methods.several:CounterfactualAugmentation",
    "projection": "mitigation.methods.several:Projection",
    "inlp": "mitigation.methods.several:NullspaceProjection",
    "wed": "mitigation.methods.several:HardDebiasing",
    "regularisation": "mitigation.methods.several:Regularisation",
    "dropout": "mitigation.methods.dropout:Dropout",
    "scrubbing": "mitigation.methods.scrubbing:Scrubbing",
    "iterative-scrubbing": "mitigation.methods.scrubbing:IterativeScrubbing",
    "balancing": "mitigation.methods.balancing:Balancing",
    "anonymising": "mitigation.methods.anonymising:Anonymising",
}
RECIPES: Mapping[str, str] = {
    "nli": "recipes.fine_tuning:InferenceTuning",
    "similarity": "recipes.fine_tuning:SimilarityTuning",
    "classification": "recipes.fine_tuning:ClassifierTuning",
    "masked-lm": "recipes.language_modelling:MaskedPretraining",
    "causal-lm": "recipes.language_modelling:CausalPretraining",
    "lstm": "recipes.lstm:LstmTraining",
    "static-nli": "recipes.static_inference:StaticInferenceTraining",
    "edge-probe": "recipes.edge_probing:EdgeProbing",
}


def make_method(name: str, **settings: Any) -> Method:
    """Return a method by name: ``make_method("cda", sides="one")``. Names joined by `` & `` are done one after the other, without settings.

    Raises:
        UnknownNameError: there is no such method.
        SettingError: it has no such setting, or not with this value.

    >>> make_method("cda", sides="one").settings()["sides"]
    'one'
    """
    if " & " in name and not settings:
        return Together(tuple(make_method(one) for one in name.split(" & ")))
    made = _made(METHODS, "method", name, settings)
    assert isinstance(made, Method)
    return made


def make_recipe(name: str, **settings: Any) -> Recipe:
    """Return a recipe by name: ``make_recipe("nli", data="shared/data", max_rows=5000)``.

    Raises:
        UnknownNameError: there is no such recipe.
        SettingError: it has no such setting, or not with this value.
    """
    made: Recipe = _made(RECIPES, "recipe", name, settings)
    return made


def method_settings(name: str) -> tuple[str, ...]:
    """Return the settings that a method takes.

    Raises:
        UnknownNameError: there is no such method.

    >>> method_settings("inlp")
    ('pairs', 'rounds', 'random')
    """
    return tuple(field.name for field in fields(_class(METHODS, "method", name)))


def recipe_settings(name: str) -> tuple[str, ...]:
    """Return the settings that a recipe takes.

    Raises:
        UnknownNameError: there is no such recipe.
    """
    return tuple(field.name for field in fields(_class(RECIPES, "recipe", name)))


def _class(homes: Mapping[str, str], what: str, name: str) -> Any:
    if name not in homes:
        raise UnknownNameError(f"no {what} is called {name!r}; there are {', '.join(homes)}")
    module, _, kind = homes[name].partition(":")
    return getattr(import_module(f"pytest_genderbias.{module}"), kind)


def _made(homes: Mapping[str, str], what: str, name: str, settings: Mapping[str, Any]) -> Any:
    made = _class(homes, what, name)
    known = {field.name: field.type for field in fields(made)}
    if unknown := sorted(set(settings) - set(known)):
        raise SettingError(f"the {what} {name} has no setting {unknown[0]!r}; it takes {', '.join(known)}")
    chosen = {key: _frozen(value) for key, value in settings.items()}
    hints = get_type_hints(made)
    for key, value in chosen.items():
        if not _fits(value, hints[key]):
            wanted = getattr(known[key], "__name__", known[key])
            raise SettingError(f"{key} of the {what} {name} should be {wanted}, got {settings[key]!r}")
    return made(**chosen)


def _fits(value: Any, hint: Any) -> bool:
    """Tell whether a value is of the type that a setting is declared with.

    >>> _fits(3, float), _fits(True, int), _fits((1, "a"), tuple[int, ...]), _fits(None, int | None)
    (True, False, False, True)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is Literal:
        return value in inside
    if origin is tuple and isinstance(value, tuple):
        kinds = inside[:1] * len(value) if inside[1:] == (...,) else inside
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if isinstance(value, bool):
        return hint is bool
    if hint is float:
        return isinstance(value, (int, float))
    return isinstance(value, origin or hint)


def _frozen(value: Any) -> Any:
    """Return lists as tuples, so that settings can be compared."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
