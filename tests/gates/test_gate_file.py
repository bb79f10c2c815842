"""Gates of a file: read and planned without pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.gate_file import Gate, plan_gates, read_gates
from pytest_genderbias.gates.limits import Limit
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.text.located_yaml import read_yaml

FILE = """
gates:
  - {suite: nli-occupation, at_least: 0.5}
  - {suite: nli-occupation, at_least: 0.5}
  - {suite: nli-occupation, statistic: threshold_0.7, at_least: 0.4, models: [a]}
  - {suite: disco-names, baseline: true, margin: 0.2, name: wide}
  - {suite: disco-names, baseline: true, margin: 0.1, name: wide}
  - {suite: disco-names, no_worse_than: a, margin: 0}
  - {suite: lm-occupation, at_most: 0.3, models: [c]}
"""


def read(folder: Path, text: str = FILE) -> list[Gate]:
    path = folder / "release.bias.yaml"
    path.write_text(text)
    return read_gates(read_yaml(path))


def test_gates_are_plain_objects(tmp_path: Path) -> None:
    gates = read(tmp_path)
    assert [gate.name for gate in gates] == [
        "nli-occupation.net_neutral.at_least",
        "nli-occupation.net_neutral.at_least-2",
        "nli-occupation.threshold_0.7.at_least",
        "wide.significant_fills.baseline",
        "wide.significant_fills.baseline-2",
        "disco-names.significant_fills.no_worse_than_a",
        "lm-occupation.aggregate_bias.at_most",
    ]
    assert [gate.written.at.line for gate in gates] == list(range(3, 10))
    assert gates[0].limit == Limit(at_least=0.5) and gates[3].limit is None and gates[3].entry == "wide"


def test_gates_are_planned_for_the_models_of_a_run(tmp_path: Path) -> None:
    plans = list(plan_gates(read(tmp_path), ["a", "b"]))
    names = [plan.name for plan in plans]
    assert names[:6] == [f"{gate.name}:a" for gate in read(tmp_path)[:5]] + ["nli-occupation.net_neutral.at_least:b"]
    assert names[-2:] == [
        "disco-names.significant_fills.no_worse_than_a:b",
        "lm-occupation.aggregate_bias.at_most:no-model",
    ]
    assert len(plans) == 5 + 5 + 1
    assert [statistic for statistic, _ in plans[0].until] == ["net_neutral", "net_neutral", "threshold_0.7"]
    assert [statistic for statistic, _ in plans[5].until] == ["net_neutral"] * 2
    assert (
        plans[3].until == ()
        and plans[3].margins == {"significant_fills": [Margin(0.2), Margin(0.1)]}
        and plans[3].entries == ["wide"] * 2
    )
    assert {plan.comparisons for plan in plans[:-1]} == {1}
    assert (
        plans[-1].gate.why_idle(["a", "b"])
        == "gate lm-occupation.aggregate_bias.at_most is for c, and the run has a, b"
    )
    assert [plan.model for plan in plan_gates(read(tmp_path), [])] == [None] * 7


def test_a_wrong_gate_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"release\.bias\.yaml:2: no suite 'nope'"):
        read(tmp_path, "gates:\n  - {suite: nope, at_most: 1}\n")


def test_a_limit_that_demands_bias_names_file_and_line(tmp_path: Path) -> None:
    gate = "gates:\n  - {suite: lm-occupation, at_least: 0.3%s}\n"
    with pytest.raises(
        DataFileError, match=r"release\.bias\.yaml:2: higher is worse for aggregate_bias .*'range: true'"
    ):
        read(tmp_path, gate % "")
    assert read(tmp_path, gate % ", range: true")[0].limit == Limit(at_least=0.3, range=True)
    with pytest.raises(DataFileError, match=r"release\.bias\.yaml:2: 'range' goes with at_least or at_most"):
        read(tmp_path, "gates:\n  - {suite: lm-occupation, baseline: true, range: true}\n")


def test_a_gate_file_is_read_without_pytest_and_heavy_modules(tmp_path: Path) -> None:
    tmp_path.joinpath("release.bias.yaml").write_text(FILE)
    code = """
import sys
from pathlib import Path
from pytest_genderbias.gates.gate_file import plan_gates, read_gates
from pytest_genderbias.text.located_yaml import read_yaml

gates = read_gates(read_yaml(Path(sys.argv[1])))
heavy = {"pytest", "torch", "scipy.stats", "scipy.optimize"}
print(len(gates), len(list(plan_gates(gates, ["a", "b"]))), sorted(heavy & {*sys.modules}))
"""
    arguments = [sys.executable, "-c", code, str(tmp_path / "release.bias.yaml")]
    result = subprocess.run(arguments, check=True, capture_output=True, text=True)
    assert result.stdout.split() == ["7", "11", "[]"], "nothing that takes long to load"
