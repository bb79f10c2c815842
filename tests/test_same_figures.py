"""The figures of the demo models are those that were recorded before the package was rearranged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.scripts import load_script

from pytest_genderbias import suite_names

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests" / "support" / "demo_figures.json"
TOLERANCE = 1e-5  # other processors and thread counts sum in another order


@pytest.fixture(scope="module")
def same_figures() -> Any:
    return load_script("same_figures")


@pytest.fixture(scope="module")
def figures(same_figures: Any) -> dict[str, Any]:
    """Return every figure of every packaged suite on the demo models, with a null control of 20 shuffles.

    Nothing but the vectors differs between the models in ``weat-names``, whose 100,000 drawn partitions of names take a
    second.
    """
    others = [name for name in suite_names() if name != "weat-names"]
    of_one = same_figures.record(None, limit=200, null=20, specs=["demo-mlm"])
    return of_one | same_figures.record(None, limit=200, null=20, suites=others, specs=["demo-lm", "demo-nli"])


def test_each_packaged_suite_has_a_null_control_or_one_line_that_says_why_not(figures: dict[str, Any]) -> None:
    measured = {name: entry for name, entry in figures.items() if "not_applicable" not in entry}
    for name, entry in measured.items():
        reasons = [note for note in entry["notes"] if note.startswith("no null control: ")]
        assert bool(entry["null"]) != bool(reasons), (name, entry["null"], entry["notes"])
        assert len(reasons) <= 1, name
        for statistic, null in entry["null"].items():
            assert entry["values"][statistic] is not None, (name, statistic)
            assert 0.0 < null["p_value"] <= 1.0, (name, statistic)
    for model in ("demo-mlm", "demo-lm", "demo-nli"):
        assert sum(name.endswith(f" on {model}") for name in measured) >= 3


def test_the_demo_models_give_the_recorded_figures(same_figures: Any, figures: dict[str, Any]) -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert len(recorded) == 3 * 35
    del recorded["weat-names on demo-lm"], recorded["weat-names on demo-nli"]
    measured = same_figures.main_figures(figures)
    leaves = list(same_figures.differences(recorded, measured, tolerance=TOLERANCE))
    assert sum(kind == "same" for kind, *_ in leaves) > 1000
    assert [leaf for leaf in leaves if leaf[0] == "figure"] == []


def test_a_difference_is_found(same_figures: Any) -> None:
    old = {"values": {"a": 0.5, "b": 1.0}, "whole_suite": {"a": {"low": 0.1, "method": "old words"}}, "records": [1, 2]}
    new = {
        "values": {"a": 0.5, "b": 1.0 + 1e-15 * 3},
        "bounds": {"a": {"low": 0.1, "method": "new"}},
        "records": [1, 2],
    }
    kinds = {path: kind for kind, path, _, _ in same_figures.differences(old, new)}
    assert kinds[" / values / b"] == "figure"
    assert kinds[" / bounds / a / method"] == "text"
    assert sorted(kinds.values()) == ["figure", "same", "same", "same", "same", "text"]
    assert all(kind != "figure" for kind, *_ in same_figures.differences(old, new, tolerance=1e-9))
    for other in ({**new, "records": [1]}, {**new, "records": [1, 2.0]}, {"values": new["values"]}):
        assert any(kind == "figure" for kind, *_ in same_figures.differences(old, other, tolerance=1e-9))


def test_the_script_compares_two_files(same_figures: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = json.loads(RECORDED.read_text(encoding="utf-8"))
    changed["lm-occupation on demo-lm"]["values"]["signed_bias"] *= 1.001
    (tmp_path / "new.json").write_text(json.dumps(changed))
    assert same_figures.compare(RECORDED, RECORDED, texts=False) == 0
    assert same_figures.compare(RECORDED, tmp_path / "new.json", texts=False) == 1
    assert "lm-occupation on demo-lm / values / signed_bias" in capsys.readouterr().out
