"""docs/reference/mitigation.md: the classes of methods and recipes, from which it is made, describe every setting."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from support.scripts import load_script

from pytest_genderbias.mitigation.methods.registry import METHODS, RECIPES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "mitigation.md"


@pytest.mark.parametrize("name", [*METHODS, *RECIPES])
def test_every_setting_is_described(name):
    kind = {**METHODS, **RECIPES}[name]()
    told = "\n".join(base.__doc__ or "" for base in kind.__mro__ if base.__module__.startswith("pytest_genderbias"))
    for setting in fields(kind):
        assert re.search(rf"``{setting.name}``|^ *{setting.name}:", told, re.MULTILINE), setting.name


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not part of what is tested here")
def test_the_page_has_every_method_and_recipe_with_its_defaults():
    pages, text = load_script("reference_pages"), PAGE.read_text(encoding="utf-8")
    assert not [name for name in (*METHODS, *RECIPES) if f"| `{name}` |" not in text]
    for name, make in RECIPES.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*\|(.*)\|.*\|$", text, re.MULTILINE)
        assert set(re.findall("`(.*?)`", row)) >= set(make().evaluates), name
    assert "`attention`: 0.15; `hidden`: 0.2." in pages.methods()
    assert "### coreference\n\n`data`: null;" in pages.recipes()
