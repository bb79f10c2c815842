"""The fixtures for tests in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_genderbias.plugin import outcomes
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.session import NO_MODEL, bias_session, measure_or_skip, mitigate_or_skip, refuse_or_skip

if TYPE_CHECKING:
    from pytest_genderbias.gates.baseline import Baseline
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.mitigation.harness.run import MitigationRun
    from pytest_genderbias.mitigation.methods.base import Method
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.recipes.recipe import Recipe
    from pytest_genderbias.suites.suite import Suite


class Measure(Protocol):
    """The fixture ``bias_measure``."""

    def __call__(
        self, suite: str | Suite, until: Limit | Mapping[str, Limit] | None = None, **settings: object
    ) -> Measurement:
        """Measure a suite on the model under test."""


class Mitigate(Protocol):
    """The fixture ``bias_mitigation``."""

    def __call__(
        self,
        method: Method | str | Mapping[str, object] | Sequence[Method | str | Mapping[str, object]],
        recipe: Recipe | str | Mapping[str, object] | None = None,
        *,
        seeds: int | Sequence[int] | None = None,
        controls: int | None = None,
    ) -> MitigationRun:
        """Mitigate the model under test."""


@pytest.fixture
def bias_model(request: pytest.FixtureRequest) -> Model:
    """The model under test, loaded. The test runs once for every --bias-model."""
    spec = request.param
    if spec is None:
        refuse_or_skip(request.config, NO_MODEL)
    return bias_session(request.config).model(spec)


@pytest.fixture
def bias_suite(request: pytest.FixtureRequest) -> Callable[[str], Suite]:
    """Load a suite: ``bias_suite("disco-names")``, or the path of a suite file."""
    return bias_session(request.config).suite


@pytest.fixture
def bias_measure(request: pytest.FixtureRequest, bias_model: Model) -> Measure:
    """Measure a suite on the model under test: ``bias_measure("nli-occupation", limit=3000)``.

    A second call with the same suite, settings and model returns the first measurement. With ``until=Limit(at_least=0.6)``, or
    ``until={"fraction_neutral": Limit(...)}``, scoring stops as soon as the limit is decided.
    """

    def measure(
        suite: str | Suite, until: Limit | Mapping[str, Limit] | None = None, **settings: object
    ) -> Measurement:
        loaded = bias_session(request.config).suite(suite) if isinstance(suite, str) else suite
        limits = until if isinstance(until, Mapping) else {} if until is None else {loaded.main_statistic: until}
        spec = outcomes.spec_of(request.node)
        measurement = measure_or_skip(request.config, loaded, spec, settings, tuple(limits.items()))
        outcomes.record_measurement(request.node, measurement)
        return measurement

    return measure


@pytest.fixture
def bias_mitigation(request: pytest.FixtureRequest, bias_model: Model) -> Mitigate:
    """Mitigate the model under test: ``bias_mitigation("projection")``. Judge the run with ``assert_reduced``.

    The method is an object, a name, a mapping of ``name`` and settings, or a list of these, which are applied together. The recipe, which
    a method that takes part in a training needs, is given in the same ways:
    ``bias_mitigation({"name": "cda", "sides": "one"}, {"name": "masked-lm", "steps": 300}, seeds=3)``.

    A second call with the same arguments and model returns the first run. --bias-runs keeps trained models. The settings of the run
    (--bias-limit, ...) apply to its measurements.
    """

    def mitigate(
        method: Method | str | Mapping[str, object] | Sequence[Method | str | Mapping[str, object]],
        recipe: Recipe | str | Mapping[str, object] | None = None,
        *,
        seeds: int | Sequence[int] | None = None,
        controls: int | None = None,
    ) -> MitigationRun:
        from pytest_genderbias.mitigation.methods.registry import resolve_method, resolve_recipe

        resolved = resolve_recipe(recipe, request.config.stash[SETTINGS].data)
        spec = outcomes.spec_of(request.node)
        return mitigate_or_skip(request.config, spec, resolve_method(method), resolved, seeds, controls)

    return mitigate


@pytest.fixture
def bias_baseline(request: pytest.FixtureRequest, bias_model: Model) -> Baseline:
    """The stored baselines of this model and this test module, for ``assert_no_regression``."""
    return outcomes.baseline_of(request.node, bias_model.name)
