"""``bias_correct_for``: the comparisons that a verdict is corrected for."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model

SUITES = "--bias-suite=tiny-nli.yaml,tiny-lm.yaml"


GATES = """
gates:
  - {suite: tiny-nli.yaml, no_worse_than: a, margin: 0.01}
  - {suite: tiny-nli.yaml, statistic: threshold_0.7, no_worse_than: a, margin: 0}
"""


@pytest.mark.parametrize(
    ("flag", "tests"), [([], [2, 2, 2]), (["-obias_correct_for=none"], [1] * 3), (["-obias_correct_for=9"], [9] * 3)]
)
def test_the_flag_holds_for_gate_files_flags_and_python(
    jobs: pytest.Pytester, flag: list[str], tests: list[int]
) -> None:
    jobs.path.joinpath("g.bias.yaml").write_text(GATES)
    jobs.makepyfile(
        "from pytest_genderbias import assert_no_worse\n"
        "def test_it(bias_measure):\n"
        "    found = bias_measure('tiny-nli.yaml')\n"
        "    assert_no_worse(found, found, 0, comparisons=2)\n"
    )
    models = [model(jobs, which, name) for which, name in (("good", "a"), ("good", "b"))]
    for i, arguments in enumerate(
        (["g.bias.yaml"], [SUITES, "--bias-no-worse-than=a", "--bias-margin=0", "-k", "nli:b"], ["-k", "test_it"])
    ):
        jobs.runpytest(*models, *flag, *arguments, "--bias-json=r.json")
        judged = json.loads((jobs.path / "r.json").read_text())["judgements"]
        assert {one["tests"] for one in judged} == {tests[i]}, arguments
