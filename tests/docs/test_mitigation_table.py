"""The table of mitigations: what stands in the docs is what the results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script():
    return load_script("mitigation_tables")


def test_the_table_is_that_of_the_results(script):
    path = ROOT / "docs" / "evidence" / "mitigation-figures.md"
    shown = path.read_text().partition(script.BEGIN)[2].partition(script.END)[0].strip()
    assert shown == script.table(script.results()), "python scripts/mitigation_tables.py makes them anew"


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


def test_every_result_is_shown_and_names_no_machine(script):
    contents = {path.stem: path.read_text() for path in script.RESULTS.glob("*.json")}
    assert {name: json.loads(text)["row"] for name, text in contents.items()} == {name: name for name in contents}
    assert contents.keys() - {row["row"] for row in script.results()} == {"watched-lstm", "resilience-sts"}
    assert not [name for name, text in contents.items() if '"/' in text], "a path of the machine that made it"


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
        "suite": "lm-occupation",
        "statistic": "aggregate_bias",
        "verdict": "reduced",
        "difference": -0.25,
        "bounds": [-0.3, -0.2],
        "values": {
            "before": {"aggregate_bias": [[0.5], [0.5]]},
            "after": {"aggregate_bias": [[0.2], [0.3]]},
            "control": {"aggregate_bias": [[0.5, 0.4], [0.6, None]]},
        },
    }
    one = {
        "title": "CDA",
        "gates": [gate],
        "seeds": [0, 1],
        "training_seconds": 12.5,
        "figure": "perplexity",
        "performance": {"perplexity": {"before": [[100.0], [100.0]], "after": [[102.0], [104.0]], "control": []}},
    }
    row = script.table([json.loads(json.dumps(one))]).splitlines()[-1]
    assert (
        row == "| CDA | `lm-occupation` aggregate_bias | 0.500 | 0.250 (0.071) | 0.500 (0.100) | -0.250 (-0.300 to"
        " -0.200) | "
        "perplexity 100.000, 103.000 (1.414) | 2 | 12.5 | reduced |"
    )
