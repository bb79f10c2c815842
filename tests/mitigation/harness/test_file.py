"""Mitigations of a file: read and planned without pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.mitigation.harness.file import DeclaredReduction, plan_reductions, read_mitigations
from pytest_genderbias.recipes.lstm import LstmTraining
from pytest_genderbias.text.located_yaml import read_yaml

FILE = """
mitigate:
  - method: [wed, {name: projection, components: 2}]
    models: [a]
    budget: {accuracy: 0.05}
    reduces:
      - {suite: nli-occupation, by: 0.3}
      - {suite: nli-occupation, by: 0.3, overshoot: 0.1, settings: {limit: 100}}
  - method: {name: cda, sides: one}
    recipe: {name: lstm, data: ./texts, arguments: {warmup_steps: 3}}
    from_nothing: true
    seeds: [3, 4]
    reduces:
      - {suite: lm-occupation, by: 0, name: short}
  - method: projection
    models: [c]
    reduces:
      - {suite: lm-occupation, by: 1, superficial: false}
"""


def read(folder: Path, text: str = FILE) -> list[DeclaredReduction]:
    path = folder / "release.bias.yaml"
    path.write_text(text)
    return read_mitigations(read_yaml(path))


def test_mitigations_are_plain_objects(tmp_path: Path) -> None:
    first, second, from_nothing, idle = read(tmp_path)
    assert first.name == "wed+projection.nli-occupation.net_neutral.by_0.3" and second.name == f"{first.name}-2"
    assert first.mitigation is second.mitigation and first.mitigation.models == ("a",)
    assert first.mitigation.method.settings()["method"] == "wed & projection"
    assert (first.line, second.line, from_nothing.line, idle.line) == (7, 8, 14, 18)
    assert second.arguments == {
        "by": 0.3, "statistic": "net_neutral", "budget": {"accuracy": 0.05}, "superficial": False, "name": None, "overshoot": 0.1,
        "limit": 100,
    }  # fmt: skip
    mitigation = from_nothing.mitigation
    assert mitigation.seeds == (3, 4) and mitigation.from_nothing and mitigation.arguments == {"warmup_steps": 3}
    assert mitigation.recipe is not None and mitigation.recipe.name == "lstm"
    assert isinstance(mitigation.recipe, LstmTraining) and mitigation.recipe.data == str(tmp_path / "texts")


def test_reductions_are_planned_for_the_models_of_a_run(tmp_path: Path) -> None:
    reductions = read(tmp_path)
    first = "wed+projection.nli-occupation.net_neutral.by_0.3"
    plans = list(plan_reductions(reductions, ["a", "b"]))
    assert [plan.name for plan in plans] == [
        "short.aggregate_bias.by_0:lstm", f"{first}:a", f"{first}-2:a", "projection.lm-occupation.aggregate_bias.by_1:no-model"
    ]  # fmt: skip
    assert [plan.model for plan in plans] == [None, "a", "a", None]
    assert reductions[3].why_idle(["a", "b"]).endswith("is for c, and the run has a, b")
    assert [plan.model for plan in plan_reductions(reductions, [])] == [None] * 4


def test_a_wrong_mitigation_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"release\.bias\.yaml:3: no method is called 'wedd'"):
        read(tmp_path, FILE.replace("[wed,", "[wedd,"))


def test_a_mitigate_block_is_read_without_pytest(tmp_path: Path) -> None:
    tmp_path.joinpath("release.bias.yaml").write_text(FILE)
    code = """
import sys
from pathlib import Path
from pytest_genderbias.mitigation.harness.file import plan_reductions, read_mitigations
from pytest_genderbias.recipes.lstm import LstmTraining
from pytest_genderbias.text.located_yaml import read_yaml

reductions = read_mitigations(read_yaml(Path(sys.argv[1])))
print(len(reductions), len(list(plan_reductions(reductions, ["a", "b"]))), "pytest" in sys.modules, "torch" in sys.modules)
"""
    arguments = [sys.executable, "-c", code, str(tmp_path / "release.bias.yaml")]
    result = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert result.stdout.split() == ["4", "4", "False", "False"]
