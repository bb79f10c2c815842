"""Mitigations of a file: read and planned without pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.mitigation.harness.file import DeclaredReduction, plan_reductions, read_mitigations
from pytest_genderbias.recipes.lstm import LstmTraining
from pytest_genderbias.suites.suite import load_suite
from pytest_genderbias.text.located_yaml import read_yaml

FILE = """
mitigate:
  - method: [wed, {name: projection, components: 2}]
    models: [a]
    budget: {accuracy: 5%}
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
    assert tuple(one.written.at.line for one in (first, second, from_nothing, idle)) == (7, 8, 14, 18)
    assert second.arguments == {
        "by": 0.3,
        "statistic": "net_neutral",
        "budget": {"accuracy": 0.05},
        "superficial": False,
        "name": None,
        "overshoot": 0.1,
        "limit": 100,
    }
    mitigation = from_nothing.mitigation
    written = mitigation.written
    assert written.seeds == (3, 4) and written.from_nothing
    assert mitigation.recipe is not None and mitigation.recipe.name == "lstm"
    assert isinstance(mitigation.recipe, LstmTraining) and mitigation.recipe.arguments == {"warmup_steps": 3}
    assert mitigation.recipe.data == str(tmp_path / "texts")


def test_control_items_are_those_beside_the_file(tmp_path: Path) -> None:
    settings = {
        written: read(tmp_path, FILE.replace("{limit: 100}", f"{{ability: {written}}}"))[1].arguments["ability"]
        for written in ("own.yaml", "'none: random'", "null")
    }
    assert settings == {"own.yaml": [str(tmp_path / "own.yaml")], "'none: random'": "none: random", "null": None}
    with pytest.raises(DataFileError, match=":8: ability should be"):
        read(tmp_path, FILE.replace("{limit: 100}", "{ability: own.txt}"))


def test_reductions_are_planned_for_the_models_of_a_run(tmp_path: Path) -> None:
    reductions = read(tmp_path)
    first = "wed+projection.nli-occupation.net_neutral.by_0.3"
    plans = list(plan_reductions(reductions, ["a", "b"]))
    assert [name for name, _, _ in plans] == [
        "short.aggregate_bias.by_0:lstm",
        f"{first}:a",
        f"{first}-2:a",
        "projection.lm-occupation.aggregate_bias.by_1:no-model",
    ]
    assert [model for _, _, model in plans] == [None, "a", "a", None]
    assert reductions[3].why_idle(["a", "b"]).endswith("is for c, and the run has a, b")
    assert [model for _, _, model in plan_reductions(reductions, [])] == [None] * 4


def test_a_wrong_mitigation_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"release\.bias\.yaml:3: no method is called 'wedd'"):
        read(tmp_path, FILE.replace("[wed,", "[wedd,"))


def test_a_mitigate_block_is_read_without_pytest(tmp_path: Path) -> None:
    """And without torch, unless it has arguments of the Trainer, which transformers has to check."""
    tmp_path.joinpath("release.bias.yaml").write_text(FILE.replace(", arguments: {warmup_steps: 3}", ""))
    code = """
import sys
from pathlib import Path
from pytest_genderbias.mitigation.harness.file import plan_reductions, read_mitigations
from pytest_genderbias.recipes.lstm import LstmTraining
from pytest_genderbias.text.located_yaml import read_yaml

reductions = read_mitigations(read_yaml(Path(sys.argv[1])))
planned = list(plan_reductions(reductions, ["a", "b"]))
print(len(reductions), len(planned), "pytest" in sys.modules, "torch" in sys.modules)
"""
    arguments = [sys.executable, "-c", code, str(tmp_path / "release.bias.yaml")]
    result = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert result.stdout.split() == ["4", "4", "False", "False"]


GRID = """
mitigate:
  - method: [cda, dropout]
    recipe: {name: masked-lm, data: ./texts, arguments: {weight_decay: 0.1}}
    grid:
      dropout.hidden: [.10, .15, .20]
      masked-lm.steps: [10, 20]
    best:
      lowest: lm-occupation/aggregate_bias
      within: {perplexity: 5%}
      settings: {limit: 100}
    seeds: 6
    choose_on: 2
    reduces:
      - {suite: lm-occupation, by: 0}
"""


def test_a_grid_is_read_as_points_and_a_rule(tmp_path: Path) -> None:
    (reduction,) = read(tmp_path, GRID)
    assert reduction.name == "cda+dropout.best-of-6.lm-occupation.aggregate_bias.by_0"
    grid = reduction.mitigation.grid
    assert grid is not None and reduction.mitigation.written.choose_on == 2 and reduction.mitigation.written.seeds == 6
    assert [dict(point.settings) for point in grid.points[:3]] == [
        {"dropout.hidden": 0.1, "masked-lm.steps": 10},
        {"dropout.hidden": 0.1, "masked-lm.steps": 20},
        {"dropout.hidden": 0.15, "masked-lm.steps": 10},
    ]
    recipes = [point.recipe for point in grid.points]
    assert [getattr(recipe, "steps", None) for recipe in recipes] == [10, 20] * 3
    assert {getattr(recipe, "data", None) for recipe in recipes} == {str(tmp_path / "texts")}
    assert str(grid.rule) == "lowest lm-occupation/aggregate_bias, perplexity at most 5 % worse"
    assert grid.settings == {"limit": 100} and list(grid.suites) == ["lm-occupation"]


def test_a_suite_of_the_rule_lies_beside_the_file(tmp_path: Path) -> None:
    packaged = load_suite("lm-occupation").path.read_text()
    (tmp_path / "own.yaml").write_text(packaged.replace("suite: lm-occupation", "suite: own"))
    (reduction,) = read(tmp_path, GRID.replace("lowest: lm-occupation/", "lowest: ./own.yaml/"))
    assert reduction.mitigation.grid is not None
    assert [suite.name for suite in reduction.mitigation.grid.suites.values()] == ["own"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    best:\n", "    worst:\n", r":8: unknown key 'worst'"),
        (
            "    grid:\n      dropout.hidden: [.10, .15, .20]\n      masked-lm.steps: [10, 20]\n",
            "",
            r":5: 'best' chooses a point of a grid: add 'grid'",
        ),
        ("hidden: [.10, .15, .20]", "hidden: .2", r":6: dropout\.hidden should have a list of values to try, got 0\.2"),
        (
            "hidden: [.10, .15, .20]",
            "hidden: [.10, 3]",
            r":6: dropout\.hidden cannot be tried: hidden should be a number of at least 0 and below 1",
        ),
        (
            "masked-lm.steps: [10",
            "lstm.steps: [10",
            r":7: lstm\.steps should begin with the name of a method or the recipe",
        ),
        (
            "masked-lm.steps: [10",
            "cda.steps: [10",
            r":7: cda\.steps cannot be tried: the method cda has no setting 'steps'",
        ),
        (
            "lowest: lm-occupation/aggregate_bias",
            "highest: lm-occupation/aggregate_bias",
            r":9: highest .* would be the worst point",
        ),
        ("lowest: lm-occupation", "lowest: lm-job", r":\d+: .*lm-job"),
        ("aggregate_bias\n", "bias\n", r":9: lowest names lm-occupation/bias"),
        ("perplexity: 5%", "perplexity: much", r":10: within should have shares of 0 or more"),
        ("{limit: 100}", "{limit: -1}", r":11: limit should be a whole number of at least 1"),
        ("{limit: 100}", "{speed: 1}", r":11: unknown setting 'speed'"),
        ("choose_on: 2", "choose_on: 6", r":13: choose_on should leave some of the 6 seeds"),
        (
            "choose_on: 2",
            "choose_on: 0",
            r":13: 'choose_on' of the mitigation should be all or a whole number of at least 1 or",
        ),
        ("choose_on: 2", "choose_on: most", r":13: 'choose_on' of the mitigation should be .*, got a text \('most'\)"),
    ],
)
def test_a_wrong_grid_names_file_and_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GRID
    with pytest.raises(DataFileError, match=r"release\.bias\.yaml" + message):
        read(tmp_path, GRID.replace(old, new))
