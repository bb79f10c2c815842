"""docs/guides/mitigation.md: every setting of every method and recipe stands there, with the default that the code
has.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
import yaml

from pytest_genderbias.mitigation.methods.registry import METHODS, RECIPES, resolve_method, resolve_recipe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "mitigation.md"


def defaults(kind: type) -> dict[str, object]:
    return {
        field.name: field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
        for field in fields(kind)
    }


def told_settings() -> dict[str, dict[str, str]]:
    """Return what the page says of each name: the default of each setting, as it is written."""
    found: dict[str, dict[str, str]] = {name: {} for name in (*METHODS, *RECIPES)}
    names: list[str] = []
    for line in PAGE.read_text(encoding="utf-8").partition("## Methods")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 2:
            continue
        if cells[0]:
            called = re.findall(r"`([\w-]+)`", cells[0])
            names = [name for name in RECIPES if name not in called] if cells[0].startswith("all") else called
        for name in (name for name in names if name in found):
            for setting, default in re.findall(r"`(\w+)`(?:: ([^;`]+))?", " ; ".join(cells[1:])):
                if setting not in found[name] or default:
                    found[name][setting] = default.strip()
    return found


@pytest.mark.skipif(not PAGE.is_file(), reason="the page is not part of what is tested here")
@pytest.mark.parametrize("name", [*METHODS, *RECIPES])
def test_every_setting_stands_on_the_page_with_its_default(name):
    told = told_settings()[name]
    for setting, default in defaults({**METHODS, **RECIPES}[name]()).items():
        assert setting in told, f"the page does not name the setting {setting!r} of {name}"
        number = re.match(r"[\d,]+(\.\d+)?(e-?\d+)?(?![\w.])", told[setting])
        if number and isinstance(default, (int, float)) and "(" not in told[setting]:
            assert float(number.group().replace(",", "")) == default, f"{setting} of {name}"
        if told[setting] in ("true", "false"):
            assert default is (told[setting] == "true"), f"{setting} of {name}"
        if told[setting] in ("null", "[]", "{}"):
            assert (default or None) is None, f"{setting} of {name}"
            written = yaml.safe_load(f"{{name: {name}, {setting}: {told[setting]}}}")
            made = resolve_method(written) if name in METHODS else resolve_recipe(written, None)
            assert getattr(made, setting) == default
        assert told[setting] != "none", "YAML reads none as a text"
