"""The table of mitigations: what stands in the docs is what the results say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("mitigations", ROOT / "scripts" / "mitigations.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mitigations"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "scripts"))


def test_the_table_is_that_of_the_results(script):
    path = ROOT / "docs" / "evidence" / "mitigation-figures.md"
    shown = path.read_text().partition(script.BEGIN)[2].partition(script.END)[0].strip()
    assert shown == script.table(script.results()), "python scripts/mitigations.py --write makes them anew"


def test_the_curves_are_those_of_the_result(script):
    path = ROOT / "docs" / "evidence" / "mitigation-figures.md"
    shown = path.read_text().partition(script.CURVES_BEGIN)[2].partition(script.CURVES_END)[0].strip()
    assert shown.count("\n") > 5 and shown == script.resilience_table()


def test_a_curve_by_hand(script):
    def entry(step, value, r):
        return {"step": step, "values": {"s/x": value}, "performance": {"r": r}}

    steps = {
        "before": {"10": entry(10, 0.25, 0.5), "2": entry(2, 0.5, 0.5)},
        "after": {"10": entry(10, 0.125, 0.5), "2": entry(2, 0.5, 0.25)},
    }
    frozen = {
        "before": {"nothing": entry(10, 0.25, 0.5), "embeddings": entry(10, 1.0, 0.5)},
        "after": {"nothing": entry(10, 0.125, 0.5), "embeddings": entry(10, 2.0, 0.5)},
    }
    made = script.curve_table(
        {"curves": [{"suite": "s", "by_step": steps, "by_frozen": frozen}]}, "x", "r"
    ).splitlines()
    columns = made[0].strip("|").split("|")
    assert len(set(columns)) == len(columns), "two columns of one name"
    assert made[2:] == [
        "| 2 | nothing | 0.500 | 0.500 | 0.500 | 0.250 |",
        "| 10 | nothing | 0.250 | 0.125 | 0.500 | 0.500 |",
        "| 10 | embeddings | 1.000 | 2.000 | 0.500 | 0.500 |",
    ]


def test_every_result_is_of_a_row_and_names_no_machine(script):
    from mitigation_rows import make_rows

    rows = {row.name for row in make_rows(None, None, "vectors.npy", "small")}
    found = {path.stem: path.read_text() for path in script.RESULTS.glob("*.json")}
    assert found and found.keys() <= rows | {"watched-lstm", "resilience-sts"}
    assert not [name for name, text in found.items() if '"/' in text], "a path of the machine that made it"


def test_every_figure_follows_from_its_seeds(script):
    for one in script.results():
        for gate in one["gates"]:
            for side in ("before", "after"):
                values = gate["values"][side][gate["statistic"]]
                assert len(values) == len(one["seeds"])
            assert gate["verdict"] in (
                "reduced",
                "not reduced",
                "inconclusive",
                "over-corrected",
                "accuracy lost",
                "superficial",
            )
            assert gate["text"].startswith(gate["verdict"])


def test_a_row_by_hand(script):
    gate = {
        "suite": "lm-occupation", "statistic": "aggregate_bias", "verdict": "reduced", "difference": -0.25, "bounds": [-0.3, -0.2],
        "values": {
            "before": {"aggregate_bias": [[0.5], [0.5]]}, "after": {"aggregate_bias": [[0.2], [0.3]]},
            "control": {"aggregate_bias": [[0.5, 0.4], [0.6, None]]},
        },
    }  # fmt: skip
    one = {
        "title": "CDA", "gates": [gate], "seeds": [0, 1], "training_seconds": 12.5, "figure": "perplexity",
        "performance": {"perplexity": {"before": [[100.0], [100.0]], "after": [[102.0], [104.0]], "control": []}},
    }  # fmt: skip
    row = script.table([json.loads(json.dumps(one))]).splitlines()[-1]
    assert row == (
        "| CDA | `lm-occupation` aggregate_bias | 0.500 | 0.250 (0.071) | 0.500 (0.100) | -0.250 (-0.300 to -0.200) | "
        "perplexity 100.000, 103.000 (1.414) | 2 | 12.5 | reduced |"
    )


def test_the_papers_scale_has_the_same_rows(script):
    from mitigation_rows import make_rows

    small, paper = (make_rows(None, None, "vectors.npy", scale) for scale in ("small", "paper"))
    assert [f"paper-{row.name}" for row in small] == [row.name for row in paper]
    assert len({row.name for row in small}) == len(small)
    assert not [row.title for row in paper if "BERT-tiny" in row.title or "BOLD" in row.title]


def test_every_row_has_a_method_and_a_recipe_that_there_are(script):
    from mitigation_rows import make_rows

    from pytest_genderbias.mitigation import make_method, make_recipe
    from pytest_genderbias.suites.suite import load_suite

    for scale in ("small", "paper"):
        for row in make_rows(None, None, "vectors.npy", scale):
            assert [make_method(**dict(one)) for one in row.method] and (
                row.recipe is None or make_recipe(**dict(row.recipe))
            )
            for gate in row.gates:
                assert (gate.statistic or load_suite(gate.suite).main_statistic) in load_suite(
                    gate.suite
                ).family.statistics
