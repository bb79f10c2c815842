"""The pytest plugin ``genderbias``.

Input: flags, ini keys, gate files, and tests in Python that use the fixtures. Output: tests, their outcomes, baselines
and the report. The plugin collects, skips, fails and prints; measuring and judging is done by the other rooms, which do
not know pytest. No other room imports the plugin. Loading it imports no torch, transformers, scipy or numpy.

This module is loaded in every project where the package is installed. It declares flags, the marker and the fixtures,
and puts the plugin to work (``work``) at the first sign that a run uses it (``signs``).

Flags are declared in ``flags``, and read by ``options``. ``items`` holds the tests that flags and gate files declare.
What a test measures and judges is recorded in its outcome (``outcomes``), which travels on its report (``reported``) to
the ``ledger`` of the run. The ledger writes baselines (``acceptance``) and prints the summary, which another room makes
(``doors``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_genderbias.plugin.fixtures import (
    at_work,
    bias_baseline,
    bias_measure,
    bias_mitigation,
    bias_model,
    bias_model_spec,
    bias_session_measure,
    bias_suite,
)
from pytest_genderbias.plugin.flags import FLAGS, PREFIX
from pytest_genderbias.plugin.signs import ENDINGS, TEST, is_set_up, takes_model

__all__ = [
    "bias_baseline",
    "bias_measure",
    "bias_mitigation",
    "bias_model",
    "bias_model_spec",
    "bias_session_measure",
    "bias_suite",
]

_MARKER = (
    "bias(models=None, optional=False, because=..., owner=..., harm=..., decided=...): measures a model with"
    " pytest-genderbias (see --bias-model); models: names of the models to judge; optional: skip the test, instead of"
    " failing it, if a suite, method, recipe or data set does not apply; the others: why the gate is there"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the flags and ini keys."""
    group = parser.getgroup("bias", "bias regression tests (pytest-genderbias)")
    for flag in FLAGS.values():
        flag.register(parser, group)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Iterator[None]:
    """Say which flag may have been meant by an unknown one, once those of the project's conftest files are known."""
    yield
    if not any(str(argument).startswith(PREFIX) for argument in args):
        return
    from pytest_genderbias.plugin.options import refuse_misspelt_flags

    known, unknown = parser.parse_known_and_unknown_args(args)
    # argparse takes an unknown flag with a space in its value for a path.
    refuse_misspelt_flags([*unknown, *known.file_or_dir])


def pytest_configure(config: pytest.Config) -> None:
    """Put the plugin to work where it is set up, so that a wrong setting is a usage error of one line."""
    config.addinivalue_line("markers", _MARKER)
    if is_set_up(config):
        at_work(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``bias_model`` once for each model."""
    if "bias_model_spec" in metafunc.fixturenames:
        at_work(metafunc.config).parametrize(metafunc)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect ``*.bias.yaml`` and ``*.bias.yml`` files."""
    return at_work(parent.config).gate_file(file_path, parent) if file_path.name.endswith(ENDINGS) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put the plugin to work for a test that takes a model; pytest generates none of a ``unittest.TestCase``."""
    if takes_model(item):
        at_work(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Note which test runs, for a fixture that it asks for by name (``request.getfixturevalue``)."""
    item.config.stash[TEST] = item
