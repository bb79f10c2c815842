"""Runs that leave out tests, stop early or reorder them: no entry is unused because its test did not get that far."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.small_projects import model

MODULE = """
from pytest_genderbias import assert_at_least, assert_no_regression

def test_first(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0, name="first")

def test_second(bias_measure, bias_baseline):
    assert_at_least(bias_measure("tiny-nli.yaml"), {least})
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0, name="second")

def test_third(bias_measure, bias_baseline):
    assert_no_regression(bias_measure("tiny-nli.yaml"), bias_baseline, 0, name="third")
"""
GATES = "gates:\n" + "".join(
    f"  - {{suite: ./tiny-nli.yaml, statistic: {name}, name: {name}, baseline: true, margin: 0}}\n"
    for name in ("net_neutral", "threshold_0.5", "threshold_0.7")
)
REMOVES = """
def pytest_collection_modifyitems(items):
    items[:] = [item for item in reversed(items) if "third" not in item.name]
"""


def names(project: pytest.Pytester) -> dict[str, set[str]]:
    """Return the names of the stored entries of each module."""
    books = [json.loads(Path(path).read_text()) for path in project.path.glob("bias_baselines/m/*.json")]
    return {book["module"]: set(book["entries"]) for book in books}


@pytest.fixture
def stored(project: pytest.Pytester) -> pytest.Pytester:
    """A project with a test in Python and a gate file, and their baselines."""
    project.makepyfile(test_it=MODULE.format(least=0.1))
    project.path.joinpath("g.bias.yaml").write_text(GATES)
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=6)
    assert names(project) == {
        "test_it.py": {"first", "second", "third"},
        "g.bias.yaml": {"net_neutral", "threshold_0.5", "threshold_0.7"},
    }
    return project


@pytest.mark.parametrize(
    "flags",
    [
        ("--maxfail=1",),
        ("--deselect=test_it.py::test_third", "--deselect=g.bias.yaml::threshold_0.7.threshold_0.7.baseline:m"),
        pytest.param(("-k", "not third and not 0.7"), marks=pytest.mark.slow),  # told as --deselect tells it
        ("--ignore=g.bias.yaml",),
        pytest.param(("--ff", "-x"), marks=pytest.mark.slow),  # stops as --maxfail=1 does
        ("--sw",),
        ("-p", "no:cacheprovider", "test_it.py"),
    ],
)
def test_what_did_not_run_is_not_removed(stored: pytest.Pytester, flags: tuple[str, ...]) -> None:
    """One gate fails first: what is behind it in its test, and in later tests, stays."""
    before = names(stored)
    stored.makepyfile(test_it=MODULE.format(least=0.99))
    for which, update in (("good", "--bias-update"), ("worse", "--bias-update"), ("good", "--bias-limit=200")):
        result = stored.runpytest(model(stored, which), update, *flags)
        assert names(stored) == before, which
        result.stdout.no_fnmatch_line("*unused baseline entries*")


def test_a_conftest_that_removes_and_reorders_tests_removes_no_entry(stored: pytest.Pytester) -> None:
    before = names(stored)
    stored.makeconftest(REMOVES)
    result = stored.runpytest(model(stored, "good"), "--bias-update")
    result.assert_outcomes(passed=5)
    assert names(stored) == before


def test_an_optional_gate_that_is_skipped_keeps_its_entry(project: pytest.Pytester) -> None:
    project.path.joinpath("g.bias.yaml").write_text(
        "gates:\n  - {suite: ./tiny-nli.yaml, baseline: true, margin: 0, optional: true}\n"
    )
    project.runpytest(model(project, "good"), "--bias-update").assert_outcomes(passed=1)
    for flags in ((), ("--bias-update",)):
        project.runpytest(model(project, "filler"), *flags).assert_outcomes(skipped=1)
        assert names(project) == {"g.bias.yaml": {"tiny-nli"}}


def test_a_gate_that_is_gone_is_still_found(stored: pytest.Pytester) -> None:
    stored.path.joinpath("g.bias.yaml").write_text(GATES.rpartition("  - ")[0])
    stored.makepyfile(test_it=MODULE.format(least=0.1).rpartition("def test")[0])
    result = stored.runpytest(model(stored, "good"), "--ff")
    result.assert_outcomes(passed=4, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["unused baseline entries: *g.bias.yaml.json: threshold_0.7; *test_it.py.json: third"])
    result.stdout.fnmatch_lines(["ERROR bias - unused baseline entries: *", "*4 passed, 1 error in *"])
    stored.runpytest(model(stored, "good"), "--bias-update").assert_outcomes(passed=4)
    assert names(stored) == {"test_it.py": {"first", "second"}, "g.bias.yaml": {"net_neutral", "threshold_0.5"}}
