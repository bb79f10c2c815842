"""The fixtures for tests in Python, and the plugin at work, which makes what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import pytest

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.models.spec import ModelSpec
    from pytest_genderbias.plugin.work import Work
    from pytest_genderbias.suites.suite import Suite

AT_WORK = "genderbias-work"  #: under which pytest knows the plugin at work


def at_work(config: pytest.Config) -> Work:
    """Return the plugin at work in a run. It is imported, and registered with pytest, when it is first asked for."""
    work = config.pluginmanager.get_plugin(AT_WORK)
    if work is None:
        from pytest_genderbias.plugin.work import Work

        work = Work(config)
        config.pluginmanager.register(work, AT_WORK)
    return cast("Work", work)


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
    spec: ModelSpec | None = getattr(
        request, "param", None
    )  # there is one where pytest runs a test once for each model
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
