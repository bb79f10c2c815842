"""The pytest plugin ``genderbias``.

Input: flags, ini keys, gate files, and tests in Python that use the fixtures. Output: tests, their outcomes, baselines
and the report. The plugin collects, skips, fails and prints; measuring and judging is done by the other rooms, which do
not know pytest. No other room imports the plugin. Loading it imports no torch, transformers, scipy or numpy.

This module is loaded in every project where the package is installed. It declares flags, the marker and the fixtures,
and puts the plugin to work (``work``) at the first sign that a run uses it (``flags``).

Flags are declared in ``flags``, and read by ``options``. ``items`` holds the tests that flags and gate files declare.
What a test measures and judges is recorded in its outcome (``outcomes``), which travels on its report (``reported``) to
the ``ledger`` of the run. The ledger writes baselines (``acceptance``) and prints the summary, which another room makes
(``doors``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

from pytest_genderbias.plugin.flags import ENDINGS, FLAGS, PREFIX, TEST, is_set_up, takes_model

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.models.spec import ModelSpec
    from pytest_genderbias.plugin.work import Work
    from pytest_genderbias.suites.suite import Suite

AT_WORK = "genderbias-work"  #: under which pytest knows the plugin at work
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
    if not file_path.name.endswith(ENDINGS):
        return None
    at_work(parent.config)
    from pytest_genderbias.plugin.items import BiasFile

    return BiasFile.at(parent, file_path)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put the plugin to work for a test that takes a model; pytest generates none of a ``unittest.TestCase``."""
    if takes_model(item):
        at_work(item.config)


@pytest.hookimpl(wrapper=True)  # which is called where another plugin runs the test, too
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note which test runs, for a fixture that it asks for by name (``request.getfixturevalue``)."""
    item.config.stash[TEST] = item
    return (yield)


def at_work(config: pytest.Config) -> Work:
    """Return the plugin at work in a run. It is imported, and registered with pytest, when it is first asked for."""
    work = config.pluginmanager.get_plugin(AT_WORK)
    if work is None:
        from pytest_genderbias.plugin.work import Work

        work = Work(config)
        config.pluginmanager.register(work, AT_WORK)
    return cast("Work", work)


# Fixtures for tests in Python.


class Measure(Protocol):
    """The fixtures ``bias_measure`` and ``bias_session_measure``."""

    def __call__(
        self, suite: str | Suite, until: Limit | Mapping[str, Limit] | None = None, **settings: object
    ) -> Measurement:
        """Measure a suite on the model under test."""


@pytest.fixture(scope="session")
def bias_model_spec(request: pytest.FixtureRequest) -> ModelSpec | None:
    """The model under test as --bias-model names it, not loaded; ``None`` if the run has none. The test runs once for
    every model.
    """
    spec: ModelSpec | None = getattr(request, "param", None)  # set where pytest runs a test once for each model
    return spec


@pytest.fixture
def bias_model(request: pytest.FixtureRequest, bias_model_spec: ModelSpec | None) -> Model:
    """The model under test, loaded. The test runs once for every --bias-model."""
    return at_work(request.config).bias_model()


@pytest.fixture
def bias_suite(request: pytest.FixtureRequest) -> Callable[[str], Suite]:
    """Load a suite: ``bias_suite("disco-names")``, or the path of a suite file."""
    return at_work(request.config).bias_suite()


@pytest.fixture
def bias_measure(request: pytest.FixtureRequest, bias_model: Model) -> Measure:
    """Measure a suite on the model under test: ``bias_measure("nli-occupation", limit=3000)``.

    A second call with the same suite, settings and model returns the first measurement. With
    ``until=Limit(at_least=0.6)``, or ``until={"fraction_neutral": Limit(...)}``, scoring stops as soon as the limit is
    decided. A suite that does not apply to the model fails the test, unless it is marked with
    ``@pytest.mark.bias(optional=True)``.
    """
    return at_work(request.config).bias_measure(shared=False)


@pytest.fixture(scope="session")
def bias_session_measure(request: pytest.FixtureRequest, bias_model_spec: ModelSpec | None) -> Measure:
    """Measure a suite as ``bias_measure`` does, in a fixture that several tests share: one of the scope class, module
    or session.

    What such a fixture measures and judges is recorded for the test that runs then: the one that sets it up, or tears
    it down.
    """
    return at_work(request.config).bias_measure(shared=True)


@pytest.fixture
def bias_mitigation(request: pytest.FixtureRequest, bias_model: Model) -> Callable[..., Any]:
    """Mitigate the model under test: ``bias_mitigation("projection")``. Judge the run with ``assert_reduced``.

    The method is an object, a name, a mapping of ``name`` and settings, or a list of these, which are applied together.
    The recipe, which a method that takes part in a training needs, is given in the same ways:
    ``bias_mitigation({"name": "cda", "sides": "one"}, {"name": "masked-lm", "steps": 300}, seeds=3)``.

    ``seeds`` and ``controls`` are their numbers, or the seeds themselves. A second call with the same arguments and
    model returns the first run. bias_runs keeps trained models. The settings of the run (--bias-limit, ...) apply to
    its measurements. A method or recipe that does not apply to the model fails the test, as for ``bias_measure``.
    """
    return at_work(request.config).bias_mitigation()


@pytest.fixture
def bias_baseline(request: pytest.FixtureRequest, bias_model: Model) -> Baseline:
    """The stored baselines of this model and this test module, for ``assert_no_regression``."""
    return at_work(request.config).bias_baseline(bias_model.name)
