"""The fixtures for tests in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_genderbias.errors import BiasError, NotApplicableError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import bias_session
from pytest_genderbias.plugin.unjudged import not_applicable, require_model

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.suites.suite import Suite


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
    spec = getattr(request, "param", None)  # only a test that pytest runs once for every model has a parameter
    return spec if isinstance(spec, ModelSpec) else None


@pytest.fixture
def bias_model(request: pytest.FixtureRequest, bias_model_spec: ModelSpec | None) -> Model:
    """The model under test, loaded. The test runs once for every --bias-model."""
    item = outcomes.measuring_item(request.config)
    try:
        return bias_session(request.config).model(require_model(item))
    except BiasError as error:
        raise error.with_traceback(None) from error.__cause__  # the way to it says nothing to who wrote the test


@pytest.fixture
def bias_suite(request: pytest.FixtureRequest) -> Callable[[str], Suite]:
    """Load a suite: ``bias_suite("disco-names")``, or the path of a suite file."""
    return bias_session(request.config).suite


@pytest.fixture
def bias_measure(request: pytest.FixtureRequest, bias_model: Model) -> Measure:
    """Measure a suite on the model under test: ``bias_measure("nli-occupation", limit=3000)``.

    A second call with the same suite, settings and model returns the first measurement. With
    ``until=Limit(at_least=0.6)``, or ``until={"fraction_neutral": Limit(...)}``, scoring stops as soon as the limit is
    decided. A suite that does not apply to the model fails the test, unless it is marked with
    ``@pytest.mark.bias(optional=True)``.
    """
    return _measure(request.config, shared=False)


@pytest.fixture(scope="session")
def bias_session_measure(request: pytest.FixtureRequest, bias_model_spec: ModelSpec | None) -> Measure:
    """Measure a suite as ``bias_measure`` does, in a fixture that several tests share: one of the scope class, module
    or session.

    What such a fixture measures and judges is recorded for the test that runs then: the one that sets it up, or tears
    it down.
    """
    return _measure(request.config, shared=True)


def _measure(config: pytest.Config, shared: bool) -> Measure:
    def measure(
        suite: str | Suite, until: Limit | Mapping[str, Limit] | None = None, **settings: object
    ) -> Measurement:
        __tracebackhide__ = True
        item, session = outcomes.measuring_item(config, shared), bias_session(config)
        spec = require_model(item)
        try:
            loaded = session.suite(suite) if isinstance(suite, str) else suite
            limits = until if isinstance(until, Mapping) else {} if until is None else {loaded.main_statistic: until}
            measurement = session.measure(loaded, spec, settings, tuple(limits.items()))
        except NotApplicableError as error:
            not_applicable(item, error)
        except BiasError as error:
            raise error.with_traceback(None) from error.__cause__
        outcomes.record_measurement(item, measurement)
        return measurement

    return measure


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
    config = request.config

    def mitigate(method: object, recipe: object = None, **settings: object) -> object:
        __tracebackhide__ = True
        item, data = outcomes.measuring_item(config), config.stash[SETTINGS].data
        try:
            return bias_session(config).mitigations.mitigate(require_model(item), method, recipe, data=data, **settings)
        except NotApplicableError as error:
            not_applicable(item, error)
        except BiasError as error:
            raise error.with_traceback(None) from error.__cause__

    return mitigate


@pytest.fixture
def bias_baseline(request: pytest.FixtureRequest, bias_model: Model) -> Baseline:
    """The stored baselines of this model and this test module, for ``assert_no_regression``."""
    return outcomes.baseline_of(outcomes.measuring_item(request.config), bias_model.name)
