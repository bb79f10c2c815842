"""The interfaces of recipes, which the harness tells apart by isinstance."""

import pytest

from pytest_genderbias.mitigation import make_recipe
from pytest_genderbias.mitigation.methods.registry import RECIPES
from pytest_genderbias.recipes.recipe import Evaluator, Performance, Recipe


class OwnEvaluator:
    """An evaluation of the user's own, with no base class."""

    def evaluate(self, model):
        return []


class OwnRecipe(OwnEvaluator):
    """A recipe of the user's own, with no base class."""

    name, columns, label, group, makes_task = "own", ("text",), None, None, False

    def settings(self):
        return {}

    def rows(self):
        return []

    def start(self, model, seed):
        return model

    def train(self, model, rows, seed, folder, training=None):
        return folder / "model"


@pytest.mark.parametrize("name", RECIPES)
def test_packaged_recipes(name):
    recipe = make_recipe(name)
    assert isinstance(recipe, Recipe) and Recipe in type(recipe).__mro__
    assert hasattr(recipe, "suite_settings") == (name == "classification")


def test_recipes_of_the_user_need_no_base_class():
    assert isinstance(OwnRecipe(), Recipe) and isinstance(OwnRecipe(), Evaluator)
    assert isinstance(OwnEvaluator(), Evaluator) and not isinstance(OwnEvaluator(), Recipe)


def test_a_subclass_without_a_method_cannot_be_made():
    class Unfinished(Recipe):
        def evaluate(self, model) -> list[Performance]:
            return []

    with pytest.raises(TypeError, match="rows"):
        Unfinished()
