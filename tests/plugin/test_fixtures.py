"""The fixtures where pytest cannot run a test once for every model, and where several tests share a fixture."""

from __future__ import annotations

import json

import pytest
from support.small_projects import model

WITHOUT_PARAMETER = '''
import unittest

import pytest
from pytest_genderbias import assert_at_least, assert_no_regression


class TestOld(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def measured(self, bias_measure, bias_baseline):
        self.measure, self.baseline = bias_measure, bias_baseline

    def test_case(self):
        assert_at_least(self.measure("tiny-nli.yaml"), 0.5)
        assert_no_regression(self.measure("tiny-nli.yaml"), self.baseline, 0, name="of-a-case")


def test_late(request):
    assert_at_least(request.getfixturevalue("bias_measure")("tiny-nli.yaml"), 0.5)


def documented():
    """
    >>> m = getfixture("bias_measure")("tiny-nli.yaml")
    >>> assert m.value > 0.5
    """
'''


def test_tests_without_a_parameter_take_the_only_model(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=WITHOUT_PARAMETER)
    arguments = ("--doctest-modules", "test_it.py", model(project, "good"), "--bias-json=r.json")
    project.runpytest(*arguments, "--bias-update").assert_outcomes(passed=3)
    project.runpytest(*arguments).assert_outcomes(passed=3)
    report = json.loads(project.path.joinpath("r.json").read_text())
    assert [one["test"] for one in report["judgements"]] == ["test_it.py::TestOld::test_case"] * 2 + [
        "test_it.py::test_late"
    ]
    result = project.runpytest(*arguments, model(project, "better", "n"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["the run has the models m, n, and a unittest.TestCase, a doctest or request.getfixturevalue cannot *"]
    )
    result.stdout.no_fnmatch_line("*AttributeError*")


def test_a_test_that_asks_late_and_fails_first_keeps_its_entry(project: pytest.Pytester) -> None:
    late = """
from pytest_genderbias import assert_no_regression

def test_taken(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0)

def test_late(request):
    {first}
    measure, baseline = map(request.getfixturevalue, ("bias_measure", "bias_baseline"))
    assert_no_regression(measure("tiny-nli.yaml"), baseline, 0, name="late")
"""
    project.makepyfile(test_it=late.format(first=""))
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=2)
    book = next(project.path.glob("bias_baselines/m/*.json"))
    project.makepyfile(test_it=late.format(first="raise RuntimeError"))
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=1, failed=1)
    assert set(json.loads(book.read_text())["entries"]) == {"tiny-nli", "late"}


SHARED = """
import pytest
from pytest_genderbias import assert_at_least, assert_no_regression

@pytest.fixture(scope="module")
def occupation(bias_session_measure):
    m = bias_session_measure("tiny-nli.yaml")
    assert_at_least(m, 0.85)
    yield m
    assert_at_least(m, 0.86)

def test_other(): pass

def test_one(occupation, bias_model):
    assert occupation.model == bias_model.name

def test_two(occupation):
    assert occupation.n == 264

def test_last(): pass
"""


def test_a_shared_fixture_measures_once_and_judges_for_the_test_that_runs(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=SHARED)
    models = model(project, "good", "a"), model(project, "better", "b")
    result = project.runpytest(*models, "--bias-json=r.json", "-v")
    result.assert_outcomes(passed=6)
    report = json.loads(project.path.joinpath("r.json").read_text())
    judged = {(one["model"], one["bound"]): one["test"] for one in report["judgements"]}
    assert judged["a", "at least 0.85"] == "test_it.py::test_one[a]"
    assert judged["b", "at least 0.85"] == "test_it.py::test_one[b]"
    assert len(judged) == 4, "those of the teardown, too"
    assert len(report["measurements"]) == 2
    result = project.runpytest(model(project, "worse", "w"), "--bias-json=r.json")
    result.assert_outcomes(passed=2, errors=2)
    report = json.loads(project.path.joinpath("r.json").read_text())
    assert [(one["test"], one["failed"]) for one in report["judgements"]] == [("test_it.py::test_one[w]", True)]


REFUSED = """
def no_model(): raise ValueError("no weights here")
def test_model(bias_model): pass
def test_measure(bias_measure): bias_measure("no-such-suite")
def test_skip(bias_measure): bias_measure("disco-names")
"""


def test_an_error_of_the_model_shows_no_inner_line(project: pytest.Pytester) -> None:
    project.makepyfile(test_it=REFUSED)
    for flag, outcomes in (
        ("--bias-model=broken=test_it:no_model", {"errors": 3}),
        (model(project, "worse"), {"failed": 2}),
    ):
        result = project.runpytest(flag)
        shown = result.stdout.str()
        assert "refused_once" not in shown and "runner.py" not in shown
        assert result.parseoutcomes().items() >= outcomes.items()
        if "broken" in flag:
            assert "def no_model(): raise ValueError" in shown  # the user's own code
            assert "ModelError: test_it:no_model failed: ValueError: no weights here" in shown
