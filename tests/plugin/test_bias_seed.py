"""``--bias-seed``: the seed of the random order."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model


def test_a_seed_draws_its_own_sample_and_is_part_of_the_signature(project: pytest.Pytester) -> None:
    found = []
    for seed in (0, 7, 7):
        result = project.runpytest(
            model(project, "worse"),
            "--bias-suite=tiny-nli.yaml",
            "--bias-limit=60",
            f"--bias-seed={seed}",
            "--bias-json=r.json",
        )
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([f"bias: m; seed {seed}, *"])
        (measurement,) = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
        found.append(
            (
                measurement["values"],
                measurement["signature"]["settings"]["seed"],
                measurement["signature"]["sample"]["seed"],
            )
        )
    first, other, again = found
    assert other == again and (other[1], other[2]) == (7, 7) and (first[1], first[2]) == (0, 0)
    assert first[0] != other[0], "other cases"
