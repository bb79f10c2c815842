"""A test that gates on a baseline, and where the baseline is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

TEST = """
from pytest_genderbias import assert_no_regression

def test_neutral(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, margin=0.01)
"""


def book(project: pytest.Pytester, module: str = "test_gate.py", name: str = "m") -> Path:
    return project.path / "bias_baselines" / name / f"{module}.json"
