"""``--bias-dtype``: the number format of the weights."""

from __future__ import annotations

import json

import pytest


def test_the_weights_have_the_format_and_the_signature_says_so(project: pytest.Pytester) -> None:
    found = {}
    for dtype in ("float32", "float64"):
        project.runpytest(
            "--bias-model=m=demo-lm",
            "--bias-suite=lm-occupation",
            "--bias-limit=64",
            f"--bias-dtype={dtype}",
            "--bias-json=r.json",
        ).assert_outcomes(passed=1)
        (measurement,) = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
        assert measurement["signature"]["model"]["dtype"] == dtype
        found[dtype] = measurement["values"]["aggregate_bias"]
    assert 0 < abs(found["float64"] - found["float32"]) < 1e-4


def test_each_checkpoint_may_keep_its_own_format(project: pytest.Pytester) -> None:
    result = project.runpytest(
        "--bias-model=m=demo-lm",
        "--bias-suite=lm-occupation",
        "--bias-limit=32",
        "--bias-dtype=auto",
        "--bias-json=r.json",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["bias: m; seed 0, each checkpoint in its own number format, device *"])
    (measurement,) = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
    assert measurement["signature"]["model"]["dtype"] == "float32"
