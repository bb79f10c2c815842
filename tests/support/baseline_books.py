"""A test that gates on a baseline, where the baseline is stored, and how entries are written there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_genderbias.gates.book import NewEntry
from pytest_genderbias.gates.book_places import book_path
from pytest_genderbias.gates.book_update import update_books

TEST = """
from pytest_genderbias import assert_no_regression

def test_neutral(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, margin=0.01)
"""


def book(project: pytest.Pytester, module: str = "test_gate.py", name: str = "m") -> Path:
    return project.path / "bias_baselines" / name / f"{module}.json"


def write_entries(directory: Path, model: str, module: str, entries: Mapping[str, NewEntry | None]) -> Path:
    """Write entries into a baseline file, and remove those that are ``None``, whatever is stored."""
    update_books(directory, {(model, module): lambda stored: entries})
    return book_path(directory, model, module)
