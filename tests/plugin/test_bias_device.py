"""``--bias-device``: where the network runs."""

from __future__ import annotations

import json

import pytest

RUN = ("--bias-model=m=demo-lm", "--bias-suite=lm-occupation", "--bias-limit=32")


def test_the_device_is_part_of_the_signature(project: pytest.Pytester) -> None:
    project.runpytest(*RUN, "--bias-device=cpu", "--bias-json=r.json").assert_outcomes(passed=1)
    (measurement,) = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
    assert measurement["signature"]["model"]["device"] == "cpu"


def test_a_device_that_there_is_not_is_one_line(project: pytest.Pytester) -> None:
    result = project.runpytest(*RUN, "--bias-device=quantum")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["ModelError: device 'quantum' cannot be used: *"])
    result.stdout.no_fnmatch_line("*Traceback*")
