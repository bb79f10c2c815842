"""Loading the plugin: light, and only where it is wanted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_genderbias.plugin import AT_WORK

HEAVY = {"torch", "transformers", "numpy", "scipy", "matplotlib", "jinja2", "yaml", "tabulate", "asyncio"}
#: What every run of pytest imports of the package where it is installed; each module more costs all of them.
AT_LOAD = ["pytest_genderbias", "pytest_genderbias.plugin", "pytest_genderbias.plugin.flags"]
#: A test of each kind that takes a model; pytest learns of the first two before they run, and of the others after.
TAKES_A_MODEL = """
import unittest
import pytest

def test_argument(bias_measure): pass

class TestCase(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def measured(self, bias_model): pass
    def test_case(self): pass

def test_late(request): request.getfixturevalue("bias_measure")

def test_shared(request): request.getfixturevalue("bias_session_measure")("lm-occupation")

def documented():
    '''
    >>> getfixture("bias_mitigation")
    '''
"""


@pytest.fixture(autouse=True)
def as_installed(inner_runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the plugin as pytest finds it in an environment in which it is installed."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def test_can_be_switched_off(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(): pass")
    project.runpytest("-p", "no:genderbias").assert_outcomes(passed=1)
    assert project.runpytest("-p", "no:genderbias", "--bias-model=gpt2").ret == pytest.ExitCode.USAGE_ERROR


def test_an_unrelated_suite_imports_three_modules_of_the_package(project: pytest.Pytester) -> None:
    project.makepyfile(f"""
        import sys

        def test_it():
            assert sorted(name for name in sys.modules if name.startswith("pytest_genderbias")) == {AT_LOAD}
            assert not {HEAVY - {"asyncio"}} & set(sys.modules)
        """)
    project.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:xdist").assert_outcomes(passed=1)


def test_arguments_of_pytest_may_be_paths(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(): pass")
    result = project.runpython_c("import pathlib, pytest; raise SystemExit(pytest.main([pathlib.Path('.')]))")
    result.assert_outcomes(passed=1)


def test_the_plugin_is_light_when_it_is_imported() -> None:
    code = (
        "import sys, pytest_genderbias.plugin;"
        f" assert [name for name in sorted(sys.modules) if name.startswith('pytest_genderbias')] == {AT_LOAD};"
        f" assert not {HEAVY} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("arguments", "ini", "works"),
    [
        ((), "", False),
        (("--bias-limit=3",), "", True),
        (("-obias_limit=3",), "", True),
        ((), "bias_limit = 3", True),
        ((), "bias_of_the_night = 3", True),  # it might be misspelt
    ],
)
def test_the_plugin_is_put_to_work_where_it_is_set_up(
    pytester: pytest.Pytester, arguments: tuple[str, ...], ini: str, works: bool
) -> None:
    pytester.makeini(f"[pytest]\n{ini}")
    assert pytester.parseconfigure(*arguments).pluginmanager.has_plugin(AT_WORK) == works


@pytest.fixture
def takes_a_model(project: pytest.Pytester) -> pytest.Pytester:
    """A project whose tests take a model, in each of the ways."""
    project.makepyfile(test_it=TAKES_A_MODEL)
    project.makefile(".bias.yaml", release="gates: [{suite: lm-occupation, at_most: 0.5}]")
    return project


@pytest.mark.parametrize(
    "name",
    [
        "test_it.py::test_argument[no-model]",
        "test_it.py::TestCase::test_case",
        "test_it.py::test_late",
        "test_it.py::test_shared",
        "test_it.py::test_it.documented",
        "release.bias.yaml",
    ],
)
def test_the_plugin_is_put_to_work_by_what_is_collected(takes_a_model: pytest.Pytester, name: str) -> None:
    result = takes_a_model.runpytest("--doctest-modules", name)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["1 bias test was not judged, since no model is named:*", "bias  1 not judged"])


@pytest.mark.slow
def test_a_controller_hears_of_tests_that_take_a_model(takes_a_model: pytest.Pytester) -> None:
    result = takes_a_model.runpytest_subprocess("--doctest-modules", "-n1")
    result.assert_outcomes(skipped=6)
    result.stdout.fnmatch_lines(["6 bias tests were not judged, since no model is named:*", "bias  6 not judged"])
