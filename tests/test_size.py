"""The house does not grow unnoticed: what ``scripts/size.py`` counts is within its budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import load_script


@pytest.fixture(scope="module")
def size() -> ModuleType:
    """The script ``scripts/size.py``."""
    return load_script("size")


@pytest.fixture(scope="module")
def found(size: ModuleType) -> dict[str, float]:
    return dict(size.measure())


def test_the_checkout_is_within_its_budgets(size: ModuleType, found: dict[str, float]) -> None:
    assert found.keys() <= size.BUDGETS.keys(), "every figure has a budget"
    over = {name: (value, size.BUDGETS[name][0]) for name, value in found.items() if value > size.BUDGETS[name][0]}
    assert not over, f"figure: (now, budget): {over}; delete something, or raise the budget with its reason"


def test_budgets_are_not_loose(size: ModuleType, found: dict[str, float]) -> None:
    loose = {name: value for name, value in found.items() if value < 0.97 * size.BUDGETS[name][0]}
    assert not loose, f"lower the budgets of {loose}"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ('"""Text."""\n', 0),
        ("# a\nx = 1  # b\n\n", 1),
        ('def f():\n    """One.\n\n    Two.\n    """\n    return """a\nb"""\n', 3),
        ("x = (\n    1,\n)\n", 3),
    ],
)
def test_lines_of_code(size: ModuleType, source: str, lines: int) -> None:
    assert size.code_lines(source) == lines


def test_a_row_is_traced(size: ModuleType) -> None:
    row = size.Row()
    sys.setprofile(row.profile)
    try:
        from pytest_genderbias.escaping import printable

        printable("a")
    finally:
        sys.setprofile(None)
    assert [Path(module).name for module in row.modules] == ["escaping.py"] and row.deepest >= 1
