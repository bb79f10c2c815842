"""The JSON Schema of reports, held against real runs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from support.run_reports import hostile_report, run_report
from support.small_projects import JOB_PERSONS, model

from pytest_genderbias.reports.history import with_history, write_history
from pytest_genderbias.reports.json_schema import report_schema
from pytest_genderbias.reports.run_report import RunReport, read_report

jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked with jsonschema")


def validator() -> Any:
    schema = report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_a_real_run_with_all_its_parts_is_valid(project: pytest.Pytester) -> None:
    project.path.joinpath("persons.yaml").write_text(JOB_PERSONS)
    suites = "--bias-suite=tiny-nli.yaml,weat,./tiny-lm.yaml"
    writer = model(project, "writer", "w")
    project.runpytest(suites, model(project, "good"), writer, "--bias-update", "--bias-margin=0.01")
    project.runpytest(
        suites,
        model(project, "worse"),
        model(project, "nearly", "n"),
        writer,
        "--bias-compare",
        "-obias_variance=true",
        "--bias-null",
        "--bias-margin=0.01",
        "--bias-json=r.json",
    )
    report = json.loads(project.path.joinpath("r.json").read_text())
    validator().validate(report)
    for part in ("measurements", "judgements", "comparisons", "not_judged", "variance", "tests"):
        assert report[part], part
    stored = read_report(project.path / "r.json")
    write_history(stored, project.path / "h.db")
    validator().validate(with_history(stored, project.path / "h.db").to_dict())
    assert report["judgements"][0]["code"] == "regressed"


def test_reports_by_hand_are_valid_and_read_back() -> None:
    check = validator()
    for report in (run_report(), hostile_report(), run_report(measurements=(), judgements=(), tests=())):
        content = json.loads(json.dumps(report.to_dict()))
        check.validate(content)
        assert RunReport.from_dict(content).to_dict() == content


def remove_schema(report: dict[str, Any]) -> None:
    del report["schema"]


def add_key(report: dict[str, Any]) -> None:
    report["tests"][0]["unknown"] = 1


def spoil_number(report: dict[str, Any]) -> None:
    report["judgements"][0]["value"] = "0.4"


def spoil_verdict(report: dict[str, Any]) -> None:
    report["judgements"][0]["verdict"] = "regressed"


def spoil_value(report: dict[str, Any]) -> None:
    report["measurements"][0]["values"]["share"] = "high"


def old_schema(report: dict[str, Any]) -> None:
    report["schema"] = 1


@pytest.mark.parametrize("change", [remove_schema, add_key, spoil_number, spoil_verdict, spoil_value, old_schema])
def test_what_is_no_report_is_not_valid(change: Callable[[dict[str, Any]], None]) -> None:
    report = copy.deepcopy(json.loads(json.dumps(run_report().to_dict())))
    change(report)
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(report)


def test_every_part_of_a_report_is_described() -> None:
    schema: Any = report_schema()
    assert [name for name, part in schema["properties"].items() if "description" not in part] == ["schema"]
    assert {"Measurement", "Judgement", "FinishedTest", "Interval", "Statistic"} <= set(schema["$defs"])
    assert set(schema["$defs"]["Judgement"]["required"]) >= {"verdict", "test", "outcome", "failed"}
