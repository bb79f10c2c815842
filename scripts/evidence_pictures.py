"""The pictures of the evidence on mitigations, from the results that are stored in ``docs/evidence/mitigations``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_genderbias.gates.judgement import Judgement, read_facts
from pytest_genderbias.mitigation.harness.curves import Resilience
from pytest_genderbias.reports.figures import runs, studies
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.suites.suite import load_suite

STORED = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "mitigations"


def trainings() -> Picture:
    """Return bias and perplexity along three trainings of a language model (lu2018, figure 3)."""
    histories = _read("watched-lstm")["histories"]
    return studies.along_training(
        {f"seed {seed}": one for seed, one in enumerate(histories)}, "lm-occupation/aggregate_bias"
    )


def lasting() -> Picture:
    """Return the bias of a projected model during fine-tuning, as means over seeds (webster2020, figures 1 and 2)."""
    suite, name = "sts-occupation", "mean_absolute_difference"
    curves = _read("resilience-sts")["curves"]
    mean: dict[str, dict[str, dict[str, Any]]] = {
        part: {
            side: {
                key: _mean([curve[part][side][key] for curve in curves], f"{suite}/{name}")
                for key in curves[0][part][side]
            }
            for side in ("before", "after")
        }
        for part in ("by_step", "by_frozen")
    }
    steps: Any = {side: {int(step): entry for step, entry in curve.items()} for side, curve in mean["by_step"].items()}
    frozen: Any = mean["by_frozen"]
    statistics = load_suite(suite).statistics
    picture = studies.resilience(Resilience(suite, statistics, steps, frozen, {}), name)
    return replace(picture, alt=f"Means over {len(curves)} seeds. {picture.alt}")


def new_heads() -> Picture:
    """Return gaps against the compression of gender, before and after new heads (orgad2022, figures 3 to 6)."""
    judgements = []
    for path in sorted(STORED.glob("bios-*.json")):
        gate = json.loads(path.read_text(encoding="utf-8"))["gates"][0]
        heads = gate["new_heads"]
        after, before = (
            sum(v[0] for v in heads["values"][side]) / len(heads["values"][side]) for side in ("after", "before")
        )
        found = {"retrained": after, "before_retrained": before, "compression": heads["compression"]}
        judgements.append(
            _judgement("bios", path.stem.removeprefix("bios-"), "tpr_gap_sum", {**gate["facts"], "superficial": found})
        )
    return _drawn(runs.retrained(judgements))


def neutrality() -> Picture:
    """Return the probability of neutral before and after projections, and with random directions (dev2019)."""
    paths = sorted([*STORED.glob("static-*.json"), *STORED.glob("nli-*.json")])
    gates = [(path.stem, json.loads(path.read_text(encoding="utf-8"))["gates"][0]) for path in paths]
    judgements = [_judgement("nli suites", stem, "net_neutral", gate["facts"]) for stem, gate in gates]
    return _drawn(runs.mitigations(judgements, load_suite("nli-occupation").statistics["net_neutral"]))


def _judgement(suite: str, model: str, statistic: str, facts: dict[str, Any]) -> Judgement:
    return Judgement(suite, model, statistic, facts["after"], None, 1, 1, "", "", (), facts=read_facts(facts))


def _mean(entries: list[dict[str, Any]], statistic: str) -> dict[str, Any]:
    values = [entry["values"][statistic] for entry in entries]
    return {**entries[0], "values": {statistic: sum(values) / len(values)}}


def _read(name: str) -> Any:
    return json.loads((STORED / f"{name}.json").read_text(encoding="utf-8"))


def _drawn(picture: Picture | None) -> Picture:
    assert picture is not None
    return picture
