"""The Common Test Report Format, from objects alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.run_reports import hostile_report, run_report

from pytest_genderbias.reports.ctrf import STATUSES, write_ctrf
from pytest_genderbias.reports.run_report import FinishedTest

#: What the format requires, and all that it knows, of the parts that are written (https://ctrf.io, schema of 2026).
REQUIRED = {"name", "status", "duration"}
KNOWN = REQUIRED | {"suite", "message", "trace", "line", "rawStatus", "filePath", "parameters", "extra"}
SUMMARY = {"tests", *STATUSES, "start", "stop"}


def written(report: Any, path: Path) -> dict[str, Any]:
    """Return what was written, after a check of it against the format."""
    write_ctrf(report, path)
    text = path.read_text(encoding="utf-8")
    assert {c for c in set(text) if not c.isprintable()} <= {"\n"}
    content: dict[str, Any] = json.loads(text)
    assert set(content) == {"reportFormat", "specVersion", "generatedBy", "timestamp", "results"}
    assert (content["reportFormat"], content["specVersion"]) == ("CTRF", "0.1.0")
    results = content["results"]
    assert set(results) == {"tool", "summary", "tests", "environment"}
    assert set(results["summary"]) == SUMMARY
    assert all(type(value) is int for value in results["summary"].values())
    for test in results["tests"]:
        assert REQUIRED <= set(test) <= KNOWN
        assert test["name"]
        assert test["status"] in STATUSES
        assert type(test["duration"]) is int
        assert all(isinstance(part, str) for part in test.get("suite", ["none"]))
    assert results["summary"]["tests"] == len(results["tests"]) == sum(results["summary"][s] for s in STATUSES)
    return content


def test_tests_verdicts_and_times_are_written(tmp_path: Path) -> None:
    results = written(run_report(failures=("unused baseline entries: a",)), tmp_path / "c.json")["results"]
    counts = {name: results["summary"][name] for name in STATUSES}
    assert counts == {"passed": 1, "failed": 2, "skipped": 1, "pending": 0, "other": 0}
    assert results["summary"]["stop"] - results["summary"]["start"] == 2500
    assert results["summary"]["stop"] == 1795341600000
    failed, passed, skipped, beside = results["tests"]
    assert (failed["status"], failed["rawStatus"], failed["duration"]) == ("failed", "worse", 1250)
    assert (failed["filePath"], failed["line"], failed["suite"]) == ("g.bias.yaml", 3, ["g.bias.yaml", "tiny"])
    assert failed["message"] == "worse: tiny on m: share 0.25 -> 0.4, 0.15 worse, margin 0.02"
    [figures] = failed["extra"]["judgements"]
    assert (figures["value"], figures["worse_by"], figures["outcome"]) == (0.4, 0.15, "failed")
    assert (passed["status"], "message" in passed) == ("passed", False)
    assert (skipped["status"], skipped["message"], skipped["suite"]) == (
        "skipped",
        "weat needs vectors",
        ["bias", "weat"],
    )
    assert (beside["status"], beside["message"]) == ("failed", "unused baseline entries: a")


def test_a_run_that_failed_has_a_failed_test(tmp_path: Path) -> None:
    passed = run_report(judgements=(), tests=(FinishedTest("t", outcome="passed"),))
    [_, beside] = written(passed, tmp_path / "c.json")["results"]["tests"]
    assert (beside["status"], beside["message"]) == (
        "failed",
        "no gate was judged, and another test of the run failed",
    )
    passed = replace(passed, run=replace(passed.run, exit_status=0))
    assert len(written(passed, tmp_path / "c.json")["results"]["tests"]) == 1


def test_hostile_texts_are_escaped_and_cut(tmp_path: Path) -> None:
    content = written(hostile_report(), tmp_path / "c.json")
    assert len(json.dumps(content)) < 1_000_000
