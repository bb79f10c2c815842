"""``--bias-limit``: the number of cases that are scored."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model


def test_the_limit_of_the_run_and_that_of_a_gate(project: pytest.Pytester) -> None:
    project.path.joinpath("g.bias.yaml").write_text(
        "gates:\n  - {suite: ./tiny-nli.yaml, at_least: 0.1, settings: {limit: 60}}\n"
    )
    scored = []
    for arguments in ((), ("--bias-limit=100",)):
        result = project.runpytest(
            model(project, "good"), "g.bias.yaml", "--bias-suite=tiny-nli.yaml", "--bias-json=r.json", *arguments
        )
        scored.append(sorted(m["n"] for m in json.loads(project.path.joinpath("r.json").read_text())["measurements"]))
    (of_gate, whole), limited = scored
    assert of_gate == 60 < 100 < whole and limited == [60, 100], "a gate's own setting comes first"
    result.stdout.fnmatch_lines(["bias: m; seed 0, *, at most 100 cases a suite; a gate may set its own *"])
