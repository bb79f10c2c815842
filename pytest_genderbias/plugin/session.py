"""What one run shares: the one model in memory, and what has been measured."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_genderbias.errors import BiasError, ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.progress import TerminalProgress
from pytest_genderbias.plugin.runs import runs_folder

if TYPE_CHECKING:
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.carry_out import Until
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.measurement.plan import Plan
    from pytest_genderbias.mitigation.harness.run import MitigationRun
    from pytest_genderbias.mitigation.methods.base import Method
    from pytest_genderbias.models.model import Model
    from pytest_genderbias.models.source import LoadSettings, ModelSource
    from pytest_genderbias.recipes.recipe import Recipe
    from pytest_genderbias.scoring.engine import ScoreSettings
    from pytest_genderbias.suites.suite import Suite

    Limits = tuple[tuple[str, Limit], ...]

_SCORING = ("limit", "seed", "batch_tokens")  #: settings of the scoring
_RUN = (*_SCORING, "null")  #: those that are not the suite's
_NO_NULL = "no null control: the value is a mean over restarts; measure one of them (without seeds) to see its own"
_REPEATS_ITSELF = "probe"  #: the family whose own option ``seeds`` is of restarts; in others it is of texts


class BiasSession:
    """Loads models, one at a time, and measures each suite once a model and settings."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.settings = config, config.stash[SETTINGS]
        self._sources: dict[str, ModelSource] = {}
        self._refused: dict[str, str | None] = {}  # models that cannot be measured: why, until somebody was told
        self._loaded: tuple[ModelSpec, Model] | None = None
        self._suites: dict[str, Suite] = {}
        self._measured: dict[str, Measurement] = {}
        self._runs: dict[str, MitigationRun | BiasError] = {}  # of the model in memory: they hold copies of it

    def suite(self, name: str | Path) -> Suite:
        """Load a suite once."""
        from pytest_genderbias.suites.suite import load_suite

        if str(name) not in self._suites:
            self._suites[str(name)] = load_suite(name)
        return self._suites[str(name)]

    def source(self, spec: ModelSpec) -> ModelSource:
        """Find a model and its role, without its weights."""
        from pytest_genderbias.models.loading import inspect

        if spec.target not in self._sources:
            self._sources[spec.target] = self._once(spec, lambda: inspect(spec, self._load_settings()))
        return self._sources[spec.target]

    def model(self, spec: ModelSpec) -> Model:
        """Load a model; the one before it leaves the memory first."""
        from pytest_genderbias.models.loading import load

        if self._loaded is None or self._loaded[0] != spec:
            self.release()
            _share_cores()
            self._loaded = spec, self._once(spec, lambda: load(self.source(spec), self._load_settings()))
        return self._loaded[1]

    def release(self) -> None:
        """Let go of the model in memory."""
        if self._loaded is not None:
            self._loaded = None
            self._runs.clear()
            gc.collect()

    def measure(self, suite: Suite, spec: ModelSpec, settings: Mapping[str, Any], until: Limits = ()) -> Measurement:
        """Measure a suite, or return what was measured with these settings before; ``until`` these limits are decided."""
        from pytest_genderbias.gates.limits import decided_by

        chosen = self._settings_for(suite, settings)
        stop = decided_by(until, suite.family.statistics) if until else None
        key = repr((suite.digest, suite.name, spec.name, sorted(chosen.items()), until))
        if key not in self._measured:
            seeds = self._seeds(suite, spec, chosen)
            self._measured[key] = (
                self._once_measured(suite, spec, chosen, stop)
                if seeds is None
                else self._over_restarts(suite, spec, chosen, seeds)
            )
        return self._measured[key]

    def mitigate(
        self,
        spec: ModelSpec | None,
        method: Method,
        recipe: Recipe | None,
        seeds: int | Sequence[int] | None,
        controls: int | None,
    ) -> MitigationRun:
        """Mitigate a model, or return the run that did it with these settings before; an error is raised again, and nothing repeated.

        Without a spec the recipe makes its own network.
        """
        if spec is not None and spec.seeded:
            raise SettingError(
                f"{spec.name}={spec.spec} is one checkpoint a seed, and a mitigation starts from one; name one of them"
            )
        model = None if spec is None else self.model(spec)
        of_recipe = None if recipe is None else (recipe.name, recipe.settings())
        name = spec.name if spec is not None else recipe.name if recipe is not None else ""
        key = repr((model and name, method.settings(), of_recipe, seeds, controls))
        if key not in self._runs:
            try:
                self._runs[key] = self._mitigated(name, model, method, recipe, seeds, controls)
            except BiasError as error:
                self._runs[key] = error
        found = self._runs[key]
        if isinstance(found, BiasError):
            raise found
        return found

    def _mitigated(
        self, name: str, model: Model | None, method: Method, recipe: Recipe | None, seeds: int | Sequence[int] | None, controls: int | None,
    ) -> MitigationRun:  # fmt: skip
        """Mitigate, and have the models of the run loaded, called and measured as the one that they come from."""
        from pytest_genderbias.mitigation.harness.run import mitigate
        from pytest_genderbias.models.loading import inspect, load
        from pytest_genderbias.models.spec import parse_spec

        def opened(one: str | Model) -> Model:
            how = self._load_settings()
            found = load(inspect(parse_spec(one), how), how) if isinstance(one, str) else one
            return replace(found, name=name)

        progress = TerminalProgress(self.config, "steps")
        run = mitigate(
            model, method, recipe, seeds=seeds, controls=controls, folder=runs_folder(self.config), progress=progress, opener=opened
        )  # fmt: skip
        return replace(run, measurer=self._measure_other, refuser=lambda error: refuse_or_skip(self.config, str(error)))

    def _measure_other(self, suite: Suite, model: Model, **settings: Any) -> Measurement:
        """Measure a model of a mitigation by the settings of the run; a null control nobody asked for."""
        from pytest_genderbias.measurement.carry_out import carry_out
        from pytest_genderbias.measurement.plan import plan_measurement

        chosen = self._settings_for(suite, settings)
        options = {name: value for name, value in chosen.items() if name not in _RUN}
        plan = plan_measurement(suite, model.name, model.role, options, self.settings.data, chosen["seed"])
        return carry_out(plan, model, self._score_settings(chosen))

    def _seeds(self, suite: Suite, spec: ModelSpec, chosen: dict[str, Any]) -> int | None:
        """Take the number of restarts out of the settings; ``None`` where nothing is repeated, or the suite repeats by itself."""
        own = (
            "seeds" in suite.family.options
        )  # the setting is the suite's then, and restarts of the model have the flag alone
        if own and not spec.seeded:
            return None
        asked = None if own else chosen.pop("seeds", None)
        seeds = self.settings.seeds if asked is None else asked
        if seeds is None and spec.seeded:
            raise SettingError(
                f"{spec.name}={spec.spec} is one checkpoint a seed; say how many: --bias-seeds=5, or seeds: 5 in the gate's settings"
            )
        if seeds is None:
            return None
        if type(seeds) is not int or seeds < 2:
            raise SettingError(f"seeds should be a whole number of at least 2, got {seeds!r}")
        if spec.seeded or self._plan(suite, spec, chosen).trains:
            return seeds
        if asked is not None:
            raise SettingError(
                f"{suite.name} trains nothing on {spec.name}, so that every seed gives the same; leave seeds out, or name one checkpoint "
                "a restart: --bias-model=NAME=runs/seed-{seed}"
            )
        return None

    def _once_measured(
        self, suite: Suite, spec: ModelSpec, chosen: Mapping[str, Any], until: Until | None
    ) -> Measurement:
        from pytest_genderbias.measurement.carry_out import carry_out

        plan, settings = self._plan(suite, spec, chosen), self._score_settings(chosen)
        return carry_out(plan, self.model(spec), settings, until, chosen["null"])

    def _over_restarts(self, suite: Suite, spec: ModelSpec, chosen: Mapping[str, Any], seeds: int) -> Measurement:
        """Measure each restart: of the model where its spec names one a seed, and of what the suite itself trains."""
        from pytest_genderbias.measurement.carry_out import carry_out
        from pytest_genderbias.measurement.restarts import combine_restarts

        specs = [spec] * seeds
        if spec.seeded:
            specs = self._once(spec, lambda: [spec.for_seed(k) for k in range(seeds)])
        trains = self._plan(suite, specs[0], chosen).trains
        found = []
        for k, one in enumerate(specs):
            of_seed = {**chosen, "seed": chosen["seed"] + k} if trains else dict(chosen)
            found.append(carry_out(self._plan(suite, one, of_seed), self.model(one), self._score_settings(of_seed)))
        of = range(seeds) if spec.seeded else range(chosen["seed"], chosen["seed"] + seeds)
        combined = combine_restarts(found, of, spec.spec)
        return replace(combined, notes=(*combined.notes, _NO_NULL)) if chosen["null"] else combined

    def _plan(self, suite: Suite, spec: ModelSpec, chosen: Mapping[str, Any]) -> Plan:
        from pytest_genderbias.measurement.plan import plan_measurement

        options = {name: value for name, value in chosen.items() if name not in _RUN}
        return plan_measurement(suite, spec.name, self.source(spec).role, options, self.settings.data, chosen["seed"])

    def _score_settings(self, chosen: Mapping[str, Any]) -> ScoreSettings:
        from pytest_genderbias.scoring.engine import ScoreSettings

        run = {name: chosen[name] for name in _SCORING}
        return ScoreSettings(**run, cache=self.settings.cache, progress=TerminalProgress(self.config))

    def _settings_for(self, suite: Suite, settings: Mapping[str, Any]) -> dict[str, Any]:
        run = self.settings
        asked = {name: value for wanted, name, value in run.options if self._is_for(wanted, name, suite)}
        known: dict[str, Any] = {
            "limit": run.limit,
            "seed": run.seed,
            "batch_tokens": run.batch_tokens,
            "null": run.null,
        }
        known |= {**asked, **settings}
        repeats = run.seeds is not None and suite.family.name == _REPEATS_ITSELF
        return {"seeds": run.seeds, **known} if repeats else known

    @staticmethod
    def _is_for(wanted: str, option: str, suite: Suite) -> bool:
        """An option that names no suite goes to every suite that has it."""
        return wanted == suite.name or (not wanted and option in suite.family.options)

    def _load_settings(self) -> LoadSettings:
        from pytest_genderbias.models.source import LoadSettings

        run = self.settings
        return LoadSettings(run.device, run.dtype, run.labels, run.trust_remote_code)

    def _once(self, spec: ModelSpec, load: Any) -> Any:
        """Say an error whole the first time, and in short afterwards."""
        if spec.name in self._refused:
            why, self._refused[spec.name] = self._refused[spec.name], None
            raise ModelError(why or f"{spec.name} cannot be measured; the first test that asked for it says why")
        try:
            return load()
        except BiasError:
            self._refused[spec.name] = None
            raise

    @contextmanager
    def untold(self) -> Iterator[None]:
        """Suppress an error that nobody is shown; a model's is said whole to the next one that asks for it."""
        told = {name for name, why in self._refused.items() if why is None}
        try:
            yield
        except BiasError as error:
            for name in self._refused.keys() - told:
                self._refused[name] = str(error)


SESSION = pytest.StashKey[BiasSession]()


def bias_session(config: pytest.Config) -> BiasSession:
    """Return the run's session, made when it is first needed."""
    if SESSION not in config.stash:
        config.stash[SESSION] = BiasSession(config)
    return config.stash[SESSION]


def refuse_or_skip(config: pytest.Config, reason: str) -> NoReturn:
    """Skip with the reason; with ``--bias-strict`` fail."""
    if config.stash[SETTINGS].strict:
        pytest.fail(f"{reason} (--bias-strict)", pytrace=False)
    pytest.skip(reason)


NO_MODEL = "no model named: give one with --bias-model=[NAME=]SPEC, as --bias-model=bert-base or --bias-model=demo"


def measure_or_skip(
    config: pytest.Config, suite: Suite, spec: ModelSpec | None, settings: Mapping[str, Any], until: Limits = ()
) -> Measurement:
    """Measure; where the suite does not apply, skip or fail."""
    if spec is None:
        refuse_or_skip(config, NO_MODEL)
    try:
        return bias_session(config).measure(suite, spec, settings, until)
    except NotApplicableError as error:
        reason = str(error)
    refuse_or_skip(config, reason)  # behind the handler, so that a failure is shown without what it was made of


def mitigate_or_skip(
    config: pytest.Config,
    spec: ModelSpec | None,
    method: Method,
    recipe: Recipe | None,
    seeds: int | Sequence[int] | None = None,
    controls: int | None = None,
) -> MitigationRun:
    """Mitigate; where method or recipe does not apply, or its data or accelerate are missing, skip or fail. Spec as the session has it."""
    try:
        return bias_session(config).mitigate(spec, method, recipe, seeds, controls)
    except NotApplicableError as error:
        reason = str(error)
    refuse_or_skip(config, reason)


def _share_cores() -> None:
    """Under xdist, give each worker its share of the cores."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        import torch

        torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
