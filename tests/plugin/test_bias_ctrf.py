"""``--bias-ctrf``: the run in the Common Test Report Format."""

from __future__ import annotations

import json

import pytest
from support.small_projects import GATES, model


def test_each_test_has_its_outcome_place_and_time(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"), "--bias-suite=weat", "--bias-ctrf=c.json")
    result.assert_outcomes(passed=1, failed=2, skipped=1)
    results = json.loads(project.path.joinpath("c.json").read_text())["results"]
    summary = results["summary"]
    assert (summary["tests"], summary["passed"], summary["failed"], summary["skipped"]) == (4, 1, 2, 1)
    assert summary["start"] < summary["stop"]
    tests = {test["name"]: test for test in results["tests"]}
    over = tests["release.bias.yaml::tiny-nli.net_neutral.at_least:m"]
    assert (over["status"], over["rawStatus"], over["line"]) == ("failed", "limit broken", 3)
    assert over["message"].startswith("limit broken: tiny-nli on m: ")
    assert over["parameters"] == {"model": "m"}
    error = tests["release.bias.yaml::tiny-lm.signed_bias.within:m"]
    assert (error["status"], error["rawStatus"]) == ("failed", "failed")
    assert "tiny-lm needs a causal LM" in error["message"]
    assert tests["genderbias::weat:m"]["status"] == "skipped"
    assert sum(test["duration"] for test in results["tests"]) > 0
