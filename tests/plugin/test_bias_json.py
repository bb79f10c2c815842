"""``--bias-json`` and JUnit's file: the figures of a run."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.small_projects import GATES, model

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.plugin.flag_values import as_is
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.plugin.options import Settings
from pytest_genderbias.plugin.outputs import Output, write_file, write_outputs
from pytest_genderbias.reports.run_report import RunInfo, RunReport, read_report


def test_a_run_that_only_collects_writes_nothing(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    flags = ("--bias-json=r.json", "--bias-summary=s.md", "--bias-report=page.html")
    result = project.runpytest(model(project, "good"), "--collect-only", *flags)
    assert result.ret == 0
    assert not {"r.json", "s.md", "page.html"} & {path.name for path in project.path.iterdir()}


def test_json_and_junit_hold_the_figures(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-json=out/report.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=2)
    report = json.loads(project.path.joinpath("out/report.json").read_text())
    assert report["run"]["exit_status"] == 1
    measured = {m["n"]: m for m in report["measurements"]}
    assert measured[264]["values"]["threshold_0.5"] == 1.0
    assert measured[64]["values"]["net_neutral"] == pytest.approx(0.9)
    assert measured[64]["signature"]["sample"] == {"n": 64, "of": 264, "seed": 0, "stopped": True}
    assert measured[264]["signature"]["model"]["fingerprint"] == "0.9 0.0"
    assert {j["verdict"] for j in report["judgements"]} == {"pass", "limit broken"}
    properties = {p.get("name"): p.get("value") for p in ET.parse(project.path / "junit.xml").iter("property")}
    assert float(properties["bias.tiny-nli.net_neutral"] or "nan") == pytest.approx(0.9)
    assert (properties["bias.tiny-nli.net_neutral.worse"], properties["bias.tiny-nli.net_neutral.neutral"]) == (
        "lower",
        "1.0",
    )
    assert float(properties["bias.tiny-nli.net_neutral.judged_low"] or "nan") < 0.9
    assert properties["bias.tiny-nli.net_neutral.outcome"] == "failed"
    assert properties["bias.tiny-nli.net_neutral.bound"] == "at least 0.99"
    assert properties["bias.tiny-nli.cases"] == "264 of 264"
    assert (properties["bias.tiny-nli.model"], properties["bias.tiny-nli.fingerprint"]) == ("m", "0.9 0.0")
    key = "bias.tiny-nli.net_neutral"
    assert (properties[f"{key}.verdict"], properties[f"{key}.code"]) == ("limit broken", "over_limit")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_files_know_of_one_that_could_not_be_written_before_or_after_them(project: pytest.Pytester) -> None:
    flags = ("--bias-json=r.json", "--bias-summary=s.md", "--bias-report=/dev/full")
    result = project.runpytest(model(project, "good"), "--bias-suite=./tiny-nli.yaml", *flags)
    assert result.ret == pytest.ExitCode.TESTS_FAILED and result.parseoutcomes()["passed"] == 1
    report = read_report(project.path / "r.json")
    (failure,) = report.failures
    assert report.run.exit_status == 1 and failure.startswith("--bias-report: /dev/full cannot be written")
    assert "1 failure beside the tests" in project.path.joinpath("s.md").read_text()
    result.stdout.fnmatch_lines([failure])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_device_is_not_replaced_and_a_report_that_cannot_be_written_fails_the_run(project: pytest.Pytester) -> None:
    project.makepyfile("def test_nothing(): pass")
    result = project.runpytest(model(project, "good"), "--bias-json=/dev/full")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["--bias-json: /dev/full cannot be written: No space left on device"])
    assert Path("/dev/full").is_char_device()


def test_the_file_is_read_back_as_it_was_written(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    project.runpytest(model(project, "good"), "--bias-json=report.json").assert_outcomes(passed=1, failed=2)
    path = project.path / "report.json"
    report = read_report(path)
    assert report.to_dict() == json.loads(path.read_text())
    assert [m.name for m in report.run.models] == ["m"]
    assert "--bias-json=report.json" in report.run.arguments
    assert {m.suite for m in report.measurements} == {"tiny-nli"}
    assert [j.verdict for j in report.judgements if j.failed] == ["limit broken"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"schema": 1}', "expected schema 2, got 1; read it with the version of pytest-genderbias that wrote it"),
        ('{"schema": 2, "run": {}}', "expected the keys comparisons, failures"),
        ('{"name": "mine"}', "expected the key 'schema'; name a file that pytest-genderbias wrote"),
        ("[]", "expected a mapping, got []"),
        ("{", "not valid JSON"),
        ("\x89PNG\x00\x00", "expected text in UTF-8, got a binary file; name another file"),
    ],
)
def test_a_file_that_is_no_report_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(DataFileError, match=r"report\.json") as caught:
        read_report(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(("place", "writer"), [("", "run_report:write_json"), ("there", "written_gates:write_gates")])
def test_other_files_are_written_though_one_cannot_be(tmp_path: Path, place: str, writer: str) -> None:
    report = RunReport(RunInfo("2026-11-22T10:00:00+00:00", "0"))
    (tmp_path / "there").write_text("a file that is there is written again, and its trouble told once")
    broken, whole = (
        Output("json", writer, as_is, flagged=True),
        Output("runs", "run_report:write_json", as_is, flagged=True),
    )
    settings = Settings(**dict.fromkeys(FLAGS) | {"json": tmp_path / place, "runs": tmp_path / "whole.json"})  # type: ignore[arg-type]
    ended, [trouble] = write_outputs(report, settings, (broken, whole))
    assert trouble.startswith(f"--bias-json: {tmp_path / place} cannot be written")
    assert read_report(tmp_path / "whole.json") == ended
    assert (ended.run.exit_status, ended.failures) == (1, (trouble,))


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="Linux and macOS have it")
def test_a_pipe_behind_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    outputs = [Output(kind, "run_report:write_json", as_is, flagged=True) for kind in ("json", "runs")]
    settings = Settings(**dict.fromkeys(FLAGS) | {"json": tmp_path, "runs": Path(f"/dev/fd/{writer}")})  # type: ignore[arg-type]
    _, [trouble] = write_outputs(RunReport(RunInfo("2026-11-22T10:00:00+00:00", "0")), settings, outputs)
    os.close(writer)
    with os.fdopen(reader) as stream:
        assert json.load(stream)["failures"] == [trouble]


def test_an_error_of_a_library_that_writes_costs_its_own_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(report: RunReport, path: Path) -> None:
        raise TypeError("Invalid arguments to set_clip_path\x1b[2J")

    monkeypatch.setattr("pytest_genderbias.reports.json_schema.write_schema", write, raising=False)
    broken, whole = Output("json", "json_schema:write_schema", as_is), Output("runs", "run_report:write_json", as_is)
    report = RunReport(RunInfo("2026-11-22T10:00:00+00:00", "0"))
    trouble = write_file(report, broken, tmp_path / "a")
    assert write_file(report, whole, tmp_path / "whole.json") == ""
    assert trouble.startswith(f"--to: {tmp_path / 'a'} was not written, through an error in {__file__}:")
    assert "TypeError: Invalid arguments to set_clip_path\\x1b[2J; everything else was" in trouble
    assert read_report(tmp_path / "whole.json") == report


def test_a_missing_package_is_named_before_the_run() -> None:
    assert Output("json", "run_report:write_json", as_is, package="no_such_package").lacks_package
    assert not Output("json", "run_report:write_json", as_is, package="json").lacks_package


def test_each_test_has_its_outcome_place_and_time(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    project.runpytest(model(project, "good"), "--bias-suite=weat", "--bias-json=r.json")
    report = read_report(project.path / "r.json")
    tests = {test.test: test for test in report.tests}
    over = tests["release.bias.yaml::tiny-nli.net_neutral.at_least:m"]
    assert (over.outcome, over.file, over.line, over.model) == ("failed", "release.bias.yaml", 3, "m")
    error = tests["release.bias.yaml::tiny-lm.signed_bias.within:m"]
    assert error.outcome == "failed" and "tiny-lm needs a causal LM" in error.text
    assert tests["genderbias::weat:m"].outcome == "skipped"
    assert len(tests) == 4 and sum(test.seconds for test in tests.values()) > 0
    assert [one.code for one in report.judgements if one.test == over.test] == ["over_limit"]
