"""``--bias-json`` and JUnit's file: the figures of a run."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.small_projects import GATES, model


def test_json_and_junit_hold_the_figures(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-json=out/report.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=1, failed=2)
    report = json.loads(project.path.joinpath("out/report.json").read_text())
    assert report["exit_status"] == 1
    measured = {m["n"]: m for m in report["measurements"]}
    assert measured[264]["values"]["threshold_0.5"] == 1.0
    assert measured[64]["values"]["net_neutral"] == pytest.approx(0.9)
    assert measured[64]["signature"]["sample"] == {"n": 64, "of": 264, "seed": 0, "stopped": True}
    assert measured[264]["signature"]["model"]["fingerprint"] == "0.9 0.0"
    assert {j["verdict"] for j in report["judgements"]} == {"pass", "over the limit"}
    properties = {p.get("name"): p.get("value") for p in ET.parse(project.path / "junit.xml").iter("property")}
    assert float(properties["bias.tiny-nli.net_neutral"] or "nan") == pytest.approx(0.9)
    assert properties["bias.tiny-nli.net_neutral.verdict"] == "over the limit"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_device_is_not_replaced_and_a_report_that_cannot_be_written_fails_the_run(project: pytest.Pytester) -> None:
    project.makepyfile("def test_nothing(): pass")
    result = project.runpytest(model(project, "good"), "--bias-json=/dev/full")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["--bias-json: /dev/full cannot be written: No space left on device"])
    assert Path("/dev/full").is_char_device()
