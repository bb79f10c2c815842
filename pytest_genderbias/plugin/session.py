"""The run's ``Runner``, built from flags and ini keys; a suite that does not apply becomes a skip or a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pytest

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.progress import TerminalProgress
from pytest_genderbias.plugin.runs import runs_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.measurement.runner import Runner
    from pytest_genderbias.mitigation.harness.run import MitigationRun
    from pytest_genderbias.mitigation.methods.base import Method
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.models.spec import ModelSpec
    from pytest_genderbias.recipes.recipe import Recipe
    from pytest_genderbias.suites.suite import Suite

    Limits = tuple[tuple[str, Limit], ...]

NO_MODEL = "no model named: give one with --bias-model=[NAME=]SPEC, as --bias-model=bert-base or --bias-model=demo"


class BiasSession:
    """Measurements and mitigations of one pytest run, with its settings."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        of_cases, self.of_steps = (TerminalProgress(config, unit) for unit in ("cases", "steps"))
        self.runner = _make_runner(config, of_cases)

    def suite(self, name: str | Path) -> Suite:
        """Load a suite once."""
        return self.runner.suite(name)

    def model(self, spec: ModelSpec) -> Model:
        """Load a model, and release the previous one."""
        return self.runner.model(spec)

    def measure(
        self, suite: Suite, spec: ModelSpec, settings: Mapping[str, object], limits: Limits = ()
    ) -> Measurement:
        """Measure a suite, or return the earlier measurement; scoring stops once all limits are decided."""
        from pytest_genderbias.gates.limits import decided_by

        until = decided_by(limits, suite.family.plain_statistics()) if limits else None
        return self.runner.measure(suite, spec, settings, until)

    def mitigate(
        self,
        spec: ModelSpec | None,
        method: Method,
        recipe: Recipe | None,
        seeds: int | Sequence[int] | None,
        controls: int | None,
    ) -> MitigationRun:
        """Mitigate a model, or return the earlier run with these arguments."""
        from pytest_genderbias.mitigation.harness.mitigation_runner import MitigationRunner

        mitigations = MitigationRunner(self.runner, runs_folder(self._config), self.of_steps)
        return mitigations.mitigate(spec, method, recipe, seeds=seeds, controls=controls)


SESSION = pytest.StashKey[BiasSession]()


def bias_session(config: pytest.Config) -> BiasSession:
    """Return the session of the run, created on first use."""
    if SESSION not in config.stash:
        config.stash[SESSION] = BiasSession(config)
    return config.stash[SESSION]


def refuse_or_skip(config: pytest.Config, reason: str) -> NoReturn:
    """Skip the test with a reason; with ``--bias-strict`` fail it."""
    reason = printable(reason)
    if config.stash[SETTINGS].strict:
        pytest.fail(f"{reason} (--bias-strict)", pytrace=False)
    pytest.skip(reason)


@contextmanager
def skip_if_not_applicable(config: pytest.Config) -> Iterator[None]:
    """Skip or fail the test if the ``with`` block raises NotApplicableError."""
    try:
        yield
    except NotApplicableError as error:
        try:
            refuse_or_skip(config, str(error))
        except (pytest.skip.Exception, pytest.fail.Exception) as outcome:
            raise outcome from None  # the report shows the reason only, without the error that it comes from


def measure_or_skip(
    config: pytest.Config, suite: Suite, spec: ModelSpec | None, settings: Mapping[str, object], until: Limits = ()
) -> Measurement:
    """Measure a suite on a model; skip or fail the test if there is no model, or the suite does not apply to it."""
    if spec is None:
        refuse_or_skip(config, NO_MODEL)
    with skip_if_not_applicable(config):
        return bias_session(config).measure(suite, spec, settings, until)


def mitigate_or_skip(
    config: pytest.Config,
    spec: ModelSpec | None,
    method: Method,
    recipe: Recipe | None,
    seeds: int | Sequence[int] | None = None,
    controls: int | None = None,
) -> MitigationRun:
    """Mitigate a model; skip or fail the test if method or recipe do not apply, or data or accelerate are missing.

    Without a spec the recipe makes its own network.
    """
    with skip_if_not_applicable(config):
        return bias_session(config).mitigate(spec, method, recipe, seeds, controls)


def _make_runner(config: pytest.Config, progress: TerminalProgress) -> Runner:
    from pytest_genderbias.measurement.runner import Runner, RunSettings
    from pytest_genderbias.models.source import LoadSettings

    run = config.stash[SETTINGS]
    return Runner(
        LoadSettings(run.device, run.dtype, run.labels, run.trust_remote_code),
        RunSettings(run.limit, run.seed, run.batch_tokens, run.cache, run.null, progress),
        data=run.data,
        seeds=run.seeds,
        options=run.options,
        threads=_threads(),
    )


def _threads() -> int | None:
    """Return the share of the cores of a worker of xdist; ``None`` without workers."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return max(1, (os.cpu_count() or 1) // workers) if workers > 1 else None
