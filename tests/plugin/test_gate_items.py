"""Gate files as tests: each gate on each model."""

from __future__ import annotations

import pytest
from support.abilities import UNASKED
from support.small_projects import GATES, NLI, model


def test_yaml_gates_are_tests(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.8))
    result = project.runpytest(model(project, "good"), "-v", "-m", "bias")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*release.bias.yaml::tiny-nli.net_neutral.at_least:m PASSED*", "* 64 of 264*"])
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.99))
    result = project.runpytest(model(project, "good"))
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*release.bias.yaml:3: limit broken: tiny-nli on m: net_neutral is 0.9 (95 %: * to *), expected at least"
            " 0.99: missed by 0.09 (at least *)"
        ]
    )


#: Wrong gate files, and what is said of them.
WRONG = [
    ("gates: [1, }", ":1: not valid YAML*"),
    ("gate: []", ":1: unknown key 'gate'*"),
    ("gates:\n  - suite: nope\n    at_most: 1", ":2: no suite 'nope'*"),
    (
        "gates:\n  - suite: ./tiny-nli.yaml\n    statistic: nope\n    at_most: 1",
        ":3: tiny-nli has no statistic 'nope'; it has net_neutral, *",
    ),
    (
        "gates:\n  - suite: ./tiny-nli.yaml\n    statistic: net-neutrl\n    at_most: 1",
        ":3: tiny-nli has no statistic 'net-neutrl'; did you mean net_neutral[?]",
    ),
    (
        "gates:\n  - suite: ./tiny-nli.yaml\n    at_least: 0.5\n    settings: {limt: 9}",
        ":4: unknown setting 'limt'; did you mean limit[?]",
    ),
    ("gates:\n  - suite: ./tiny-nli.yaml", ":2: a gate without a limit*"),
    ("gates:\n  - suite: ./tiny-nli.yaml\n    at_most: much", ":3: 'at_most' of the gate should be*"),
    (
        "gates:\n  - suite: ./tiny-lm.yaml\n    statistic: signed_bias\n    at_most: 1",
        ":2: signed_bias is worse on either side*",
    ),
    ("gates:\n  - suite: ./tiny-nli.yaml\n    at_most: 1\n    settings: {speed: 9}", ":4: unknown setting 'speed'*"),
    ("gates:\n  - suite: ./tiny-nli.yaml\n    at_least: 1\n    margin: 1", ":4: 'margin'*"),
    (
        "gates:\n  - suite: ./tiny-nli.yaml\n    at_least: -5",
        ":2: no model can break at_least -5: net_neutral lies from 0 to 1 (neutral is 1)*",
    ),
    ("gates:\n  - suite: ./tiny-nli.yaml\n    within: 1", ":2: no model can break within 1: *"),
    (
        "gates:\n  - suite: ./tiny-nli.yaml\n    baseline: true\n    margin: 1000",
        (":4: no model can break the margin 1000: net_neutral lies from 0 to 1, and it can worsen by at most 1*"),
    ),
    (
        "gates:\n  - suite: ./tiny-nli.yaml\n    same_as: m\n    margin: 1",
        ":4: no model can break the margin 1: * it can change by at most 1*",
    ),
]


def test_a_wrong_gate_file_is_one_error_with_file_and_line(project: pytest.Pytester) -> None:
    for number, (text, _) in enumerate(WRONG):
        project.path.joinpath(f"wrong-{number}.bias.yaml").write_text(text)
    result = project.runpytest(model(project, "good"))
    result.assert_outcomes(errors=len(WRONG))
    for number, (_, message) in enumerate(WRONG):
        result.stdout.fnmatch_lines([f"*wrong-{number}.bias.yaml{message}"])


def test_nothing_is_written_without_a_flag(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit=0.8))
    before = {path for path in project.path.rglob("*") if "__pycache__" not in str(path)}
    project.runpytest(*NLI, model(project, "good"))
    after = {path for path in project.path.rglob("*") if "__pycache__" not in str(path)}
    assert after == before


PYTHON = """
import pytest
from pytest_genderbias import Limit, assert_at_least, assert_no_regression, assert_no_worse, assert_same, assert_within

def test_limit(bias_measure):
    assert_at_least(bias_measure("tiny-nli.yaml"), 0)

def test_distance(bias_measure):
    assert_within(bias_measure("tiny-nli.yaml"), 1.5)

def test_until(bias_measure):
    bias_measure("tiny-nli.yaml", until=Limit(at_least=-1))

@pytest.mark.parametrize("margin", [3, "1000%"])
@pytest.mark.parametrize("judge", [assert_no_worse, assert_same])
def test_other(bias_measure, judge, margin):
    m = bias_measure("tiny-nli.yaml")
    judge(m, m, margin)

def test_baseline(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 1)
"""


@pytest.mark.parametrize("flags", [(), ("--bias-update",)])
def test_a_limit_that_no_model_can_break_is_refused_in_python(project: pytest.Pytester, flags: tuple[str, ...]) -> None:
    project.makepyfile(test_it=PYTHON)
    result = project.runpytest(model(project, "good"), *flags)
    result.assert_outcomes(failed=8)
    result.stdout.fnmatch_lines(["E *GateError: no model can break *"] * 8)


def test_an_empty_key_ability_asks_as_the_run_does(project: pytest.Pytester) -> None:
    project.path.joinpath("release.bias.yaml").write_text(GATES.format(limit="0.8\n    ability: null"))
    result = project.runpytest(model(project, "good"), *UNASKED, "-m", "bias")
    result.stdout.no_fnmatch_line("*SettingError*")
    result.assert_outcomes(passed=2, failed=1)
