"""Plans as plain data, what they store, and what they say of whole files and of gates without power."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.hand_made import hand_made

from pytest_genderbias.gates.judgement import Finding, Judgement, make_judgement
from pytest_genderbias.gates.plan import (
    GatePlan,
    margins_of,
    plan_gate,
    plan_of,
    planned_finding,
    power_note,
    what_would_help,
    whole_files,
)
from pytest_genderbias.statistics.inference import resolution

PLAN = GatePlan(
    "g.bias.yaml", "tiny", "two checkpoints", "60 words", 3, 100, 1.5, None, 0.03, 0.02, 0.03, 0.97, 0.0, 0.05, 0.06, 0.9, 0.01, 100,
    (3, 7, 50),
)  # fmt: skip


def judged(plan: GatePlan, statistic: str = "share", suite: str = "tiny") -> Judgement:
    measurement = replace(hand_made(), suite=suite)
    finding = planned_finding(Finding("pass", "baseline", ""), plan, measurement, statistic)
    return make_judgement(measurement, statistic, finding)


def test_a_plan_travels_with_its_judgement() -> None:
    judgement = judged(PLAN)
    assert judgement.verdict == "planned"
    assert plan_of(Judgement.from_dict(json.loads(json.dumps(judgement.to_dict())))) == PLAN
    assert plan_of(replace(judgement, facts={})) is None


def test_what_is_stored() -> None:
    without = replace(PLAN, planned=None, tolerance=None, why="it has no items")
    margins = margins_of([judged(PLAN), judged(replace(without, entry="other"))])
    ((key, entries),) = margins.items()
    margin, none = entries["tiny"]["share"], entries["other"]["share"]
    assert (none.tolerance, none.why) == (None, "it has no items") and "why" not in margin.to_dict()
    assert key == (hand_made().model, "g.bias.yaml") and margin.tolerance == 0.03
    assert margin.measured["worsening_together"] == 0.06 and margin.measured["over"] == "60 words"


def test_whole_files_count_models_that_are_red_anywhere() -> None:
    """On the items of one suite 3 and 7 are red together, 8 at one gate only; another suite is independent."""
    other = replace(PLAN, red=(3, 7, 8))
    (whole,) = whole_files([judged(PLAN), judged(other), judged(PLAN, suite="other")])
    assert (whole.gates, whole.module) == (3, "g.bias.yaml")
    assert whole.green == pytest.approx((1 - 4 / 100) * (1 - 3 / 100))


def test_a_gate_without_items_needs_a_written_tolerance() -> None:
    without = GatePlan("m", "tiny", why="it is no mean of items")
    assert judged(without).verdict == "missing"
    assert (
        "nothing can be planned for share: it is no mean of items; write a tolerance, as 0.02 or 20%"
        in judged(without).text
    )
    assert judged(replace(without, written=0.1)).verdict == "planned"


def test_power_notes() -> None:
    measured = {"powered": 0.02, "source": "one checkpoint", "over": "60 words"}
    assert power_note(0.02, measured) == power_note(0.001, {}) == ""
    note = power_note(0.01, measured)
    assert "underpowered" in note and "from a tolerance of 0.02 on" in note
    assert "a list of about 240 words (now 60)" in note, "half the error takes four times the items"
    assert "more restarts" in what_would_help({"powered": 0.02, "source": "3 restarts", "over": ""}, 0.01)


def test_a_plan_of_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolution, "_DRAWS", 40)
    monkeypatch.setattr(resolution, "_REPEATS", 99)
    measurement = hand_made()
    plan = plan_gate(measurement, "share", measurement, None, tests=2)
    again = plan_gate(measurement, "share", measurement, None, tests=2, tolerance=1e-9)
    assert plan.source == "one checkpoint" and plan.planned == plan.tolerance
    assert plan.planned is not None and plan.alone is not None and plan.planned >= plan.alone > 0
    assert again.planned == plan.planned and again.tolerance == 1e-9
    assert again.underpowered and not plan.underpowered
    assert len(again.red) > 20


def test_another_measurement_is_no_second_checkpoint() -> None:
    measurement = hand_made()
    other = replace(hand_made(0.1), signature={**measurement.signature, "digest": "other"}, model="again")
    assert plan_gate(measurement, "share", measurement, other).why.startswith("again was measured on something else")
