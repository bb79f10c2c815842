"""Loading the plugin: light, and only where it is wanted."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(autouse=True)
def as_installed(inner_runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the plugin as pytest finds it in an environment in which it is installed."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)


def test_can_be_switched_off(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(): pass")
    project.runpytest("-p", "no:genderbias").assert_outcomes(passed=1)
    assert project.runpytest("-p", "no:genderbias", "--bias-model=gpt2").ret == pytest.ExitCode.USAGE_ERROR


def test_an_unrelated_suite_imports_nothing_heavy(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import sys

        def test_it():
            assert not {"torch", "transformers", "numpy", "scipy", "matplotlib", "jinja2"} & set(sys.modules)
        """)
    project.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:xdist").assert_outcomes(passed=1)


def test_plugin_loads_in_isolated_mode() -> None:
    code = (
        "import sys, pytest_genderbias.plugin as p; assert not {'torch', 'numpy', 'scipy', 'transformers', 'yaml',"
        " 'tabulate', 'matplotlib', 'jinja2', 'asyncio'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
