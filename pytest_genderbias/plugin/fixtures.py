"""The fixtures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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


@pytest.fixture
def bias_model(request: pytest.FixtureRequest) -> Model:
    """The model under test, loaded; the test runs once for every --bias-model."""
    spec = request.param
    if spec is None:
        refuse_or_skip(request.config, NO_MODEL)
    return bias_session(request.config).model(spec)


@pytest.fixture
def bias_suite(request: pytest.FixtureRequest) -> Callable[[str], Suite]:
    """Load a suite: ``bias_suite("disco-names")``, or the path of a suite file."""
    return bias_session(request.config).suite


@pytest.fixture
def bias_measure(request: pytest.FixtureRequest, bias_model: Model) -> Callable[..., Measurement]:
    """Measure a suite on the model under test: ``bias_measure("nli-occupation", limit=3000)``. Computed once a run and model.

    With ``until=Limit(at_least=0.6)``, or ``until={"fraction_neutral": Limit(...)}``, scoring stops as soon as that is decided.
    """

    def measure(suite: str | Suite, until: Limit | Mapping[str, Limit] | None = None, **settings: Any) -> Measurement:
        config = request.config
        loaded = bias_session(config).suite(suite) if isinstance(suite, str) else suite
        limits = until if isinstance(until, Mapping) else {} if until is None else {loaded.main_statistic: until}
        spec = request.node.callspec.params["bias_model"]
        measurement = measure_or_skip(config, loaded, spec, settings, tuple(limits.items()))
        outcomes.record_measurement(request.node, measurement)
        return measurement

    return measure


@pytest.fixture
def bias_mitigation(request: pytest.FixtureRequest, bias_model: Model) -> Callable[..., MitigationRun]:
    """Mitigate the model under test: ``bias_mitigation("projection")``, judged with ``assert_reduced``. Computed once a run and model.

    The method, and the recipe where something is trained, is an object, a name, or a mapping of ``name`` and settings:
    ``bias_mitigation({"name": "cda", "sides": "one"}, {"name": "masked-lm", "steps": 300}, seeds=3)``; a list of methods is done
    together. What is trained is kept with --bias-runs; suites are measured with the settings of the run (--bias-limit, ...).
    """

    def mitigate(
        method: Method | str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]],
        recipe: Recipe | str | Mapping[str, Any] | None = None,
        *,
        seeds: int | Sequence[int] | None = None,
        controls: int | None = None,
    ) -> MitigationRun:
        from pytest_genderbias.mitigation.methods.registry import resolve_method, resolve_recipe

        config, spec = request.config, request.node.callspec.params["bias_model"]
        data = config.stash[SETTINGS].data
        return mitigate_or_skip(config, spec, resolve_method(method), resolve_recipe(recipe, data), seeds, controls)

    return mitigate


@pytest.fixture
def bias_baseline(request: pytest.FixtureRequest, bias_model: Model) -> Baseline:
    """The stored baselines of this model's name and this test module, for ``assert_no_regression``."""
    return outcomes.baseline_of(request.node, bias_model.name)
