"""The tables and the JSON file of a run, from objects alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pytest_genderbias.gates.judgement import AcceptedValue, Comparison, Judgement, LeftOut, LimitFacts, read_facts
from pytest_genderbias.gates.verdicts import Paragraph
from pytest_genderbias.reports.run_report import RunInfo, RunReport, write_json
from pytest_genderbias.reports.run_summary import overview
from pytest_genderbias.reports.run_tables import comparison_cells, comparison_notes, reduction_rows

JUDGEMENT = Judgement("s|", "m", "t", 0.5, None, 1, 1, "b", "too_few", (Paragraph("", "text"),), name="n")


def settled(*judgements: Judgement) -> list[Judgement]:
    return [judgement.settled("failed", "t.py::test") for judgement in judgements]


def test_a_pair_without_a_value_has_no_note() -> None:
    row = Comparison("a|b", "<x>", True, "m", "n", 1.0, None, None, better="no value")
    assert comparison_cells(row)[:2] == ("a|b", "<x>")
    assert comparison_notes([row], []) == []


def test_reasons_are_said_once_with_all_their_suites() -> None:
    rows = [
        Comparison(suite, "r", True, "m", "n", 1.0, 2.0, 1.0, method=f"none: {why}")
        for suite, why in (("one", "too few"), ("two", "too few"), ("three", "no items"))
    ]
    left_out = [LeftOut("four", ("m", "n"), "stopped")]
    assert comparison_notes(rows, left_out) == [
        "no bounds: one, two: too few",
        "no bounds: three: no items",
        "not compared: four on m, n: stopped",
    ]


def test_a_judgement_without_figures_stays_in_the_table_of_gates() -> None:
    facts: dict[str, object] = {
        "by": 0.3,
        "before": 1.0,
        "after": 0.5,
        "reduction": None,
        "seeds": [0, 1, 2],
        "over": "",
    }
    facts |= {"superficial": {"comes_back": 0.25}, "budget": {"f1": {"before": 0.5, "after": 0.25}}}
    judgement = Judgement(
        "s|", "m", "t", 0.5, None, 1, 1, "b", "too_few", (Paragraph("", "text"),), name="n", facts=read_facts(facts)
    )
    without = replace(judgement, facts=None)
    headers, [row] = reduction_rows(settled(judgement, without))
    assert dict(zip(headers, row, strict=True)) == {
        "suite": "s| (n)", "model": "m", "statistic": "t", "before": "1.0000", "after": "0.5000", "control": "-",
        "gone": "-", "task": "f1 0.5 to 0.25", "comes back": "25 %", "seeds": "3", "asked": "b",
        "verdict": "cannot judge (too few cases)",
    }  # fmt: skip
    assert reduction_rows(settled(without))[1] == []
    overflowed = {**facts, "budget": {"perplexity": {"before": 8.0, "after": None}}}  # JSON has no infinity
    assert "perplexity 8 to -" in reduction_rows(settled(replace(judgement, facts=read_facts(overflowed))))[1][0]


def test_a_failure_that_a_test_forgave_is_never_a_bare_one() -> None:
    for outcome, shown in (("xfail", "worse (xfail)"), ("caught", "worse (caught by the test)")):
        forgiven = replace(JUDGEMENT, code="regressed").settled(outcome, "t.py::test")
        assert any(shown in text for text, _ in overview([], [forgiven], 100))
        written = forgiven.to_dict()
        assert (written["test"], written["outcome"], written["failed"]) == ("t.py::test", outcome, False)
        assert Judgement.from_dict(json.loads(json.dumps(written))) == forgiven


def test_the_json_file_holds_what_was_recorded(tmp_path: Path) -> None:
    accepted = AcceptedValue("t", "2026-01-01", float("inf"), 0.5, "why")
    judgement = replace(JUDGEMENT, accepted=(accepted,), facts=LimitFacts(float("-inf"), 0.5))
    rows = [Comparison("s", "t", True, "a", "b", 1.0, None, None, better="no value")]
    settled_one, left_out = judgement.settled("failed"), LeftOut("s", ("a",), "why")
    info = RunInfo("2026-11-22T10:00:00+00:00", "0", exit_status=1)
    write_json(
        RunReport(info, (), (settled_one,), comparisons=tuple(rows), not_compared=(left_out,)), tmp_path / "r.json"
    )
    report = json.loads((tmp_path / "r.json").read_text())
    [written] = report["judgements"]
    verdict = [written[key] for key in ("failed", "outcome", "verdict", "code")]
    assert verdict == [True, "failed", "cannot judge", "too_few"]
    assert written["accepted"] == [{"statistic": "t", "date": "2026-01-01", "old": None, "new": 0.5, "reason": "why"}]
    assert written["facts"] == {"least": None, "most": 0.5}
    assert (report["run"]["exit_status"], report["comparisons"][0]["better"]) == (1, "no value")
    assert report["not_compared"][0]["models"] == ["a"]
