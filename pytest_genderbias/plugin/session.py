"""The run's ``Runner``, built from flags and ini keys, and the folder of the models that its mitigations train."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_genderbias.plugin.doors import door, make_executor, xdist_workers
from pytest_genderbias.plugin.options import SETTINGS, Settings
from pytest_genderbias.plugin.progress import TerminalProgress
from pytest_genderbias.plugin.workers import WorkerNode, is_worker, worker_input

if TYPE_CHECKING:
    from pytest_genderbias.gates.limits import Limit
    from pytest_genderbias.measurement.measurement import Measurement
    from pytest_genderbias.measurement.runner import Runner
    from pytest_genderbias.models.spec import ModelSpec
    from pytest_genderbias.scoring.executor import Executor
    from pytest_genderbias.suites.suite import Suite

    Limits = tuple[tuple[str, Limit], ...]


class Measured(NamedTuple):
    """How a measurement was made: its suite, its settings, and how many seconds it took."""

    suite: Suite
    settings: Mapping[str, object]
    seconds: float


class BiasSession:
    """Measurements and mitigations of one pytest run, with its settings."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.of_steps = TerminalProgress(config, "steps")
        settings = config.stash[SETTINGS]
        executor = make_executor(settings.executor, settings.ray, settings.workers, config)
        self.runner = make_runner(settings, TerminalProgress(config), executor)
        self._made: dict[int, tuple[Measurement, Measured]] = {}  # by the identity of a measurement, which is kept

    def measure(
        self, spec: ModelSpec, suite: Suite, settings: Mapping[str, object], limits: Limits = ()
    ) -> Measurement:
        """Measure a suite, or return the earlier measurement; scoring stops once all limits are decided."""
        until = None
        if limits:
            from pytest_genderbias.gates.limits import decided_by

            until = decided_by(limits, suite.statistics)
        start = time.perf_counter()
        measurement = self.runner.measure(suite, spec, settings, until)
        made = Measured(suite, dict(settings), time.perf_counter() - start)
        self._made.setdefault(id(measurement), (measurement, made))
        return measurement

    def made(self, measurement: Measurement) -> Measured | None:
        """Return how a measurement of this session was made; ``None`` for any other."""
        return self._made[id(measurement)][1] if id(measurement) in self._made else None

    @property
    def mitigations(self) -> Any:
        """The :class:`~pytest_genderbias.mitigation.harness.file.MitigationRunner` of the run."""
        return door("mitigations of a run")(self.runner, runs_folder(self._config), self.of_steps)


SESSION = pytest.StashKey[BiasSession]()


def bias_session(config: pytest.Config) -> BiasSession:
    """Return the session of the run, created on first use."""
    if SESSION not in config.stash:
        config.stash[SESSION] = BiasSession(config)
    return config.stash[SESSION]


def make_runner(run: Settings, progress: TerminalProgress | None, executor: Executor | None = None) -> Runner:
    """Return a runner with the settings of a run; nothing is loaded yet. Without an executor it scores in this
    process.
    """
    from pytest_genderbias.measurement.runner import Runner, RunSettings
    from pytest_genderbias.models.source import LoadSettings, ServedSettings

    shared = None
    if run.shared_cache is not None:
        from pytest_genderbias.scoring.shared_scores import SharedScores

        shared = SharedScores(run.shared_cache)
    served = ServedSettings(
        run.tokenizers,
        run.allow_remote,
        run.endpoint_version,
        run.endpoint_timeout,
        run.system_prompt,
        run.temperature,
        run.max_requests,
        run.max_tokens,
    )
    workers = xdist_workers()
    return Runner(
        LoadSettings(run.device, run.dtype, run.labels, run.trust_remote_code, served, run.samples),
        RunSettings(
            run.limit, run.seed, run.batch_tokens, run.cache, progress, None, shared, null=run.null, ability=run.ability
        ),
        data=run.data,
        seeds=run.seeds,
        options=run.options,
        threads=max(1, (os.cpu_count() or 1) // workers) if workers > 1 else None,  # a share of the cores
        executor=executor,
    )


_INPUT = "genderbias_runs"  #: key of the temporary folder in the input of a worker of xdist
_TEMPORARY = pytest.StashKey[Path]()


class RunKeeper:
    """Removes the temporary folder at the end of the run. Workers of xdist have none."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(tempfile.gettempdir(), f"genderbias-{uuid.uuid4().hex}")
        config.stash[_TEMPORARY] = self._folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        """Send a worker the path, so that all workers share trained models."""
        node.workerinput[_INPUT] = str(self._folder)

    def pytest_unconfigure(self) -> None:
        """Remove the trained models, if there are any."""
        shutil.rmtree(self._folder, ignore_errors=True)


def keep_runs(config: pytest.Config) -> None:
    """Register a :class:`RunKeeper`, except in a worker of xdist, which gets the path from its controller."""
    if is_worker(config):
        config.stash[_TEMPORARY] = Path(str(worker_input(config)[_INPUT]))
    else:
        config.pluginmanager.register(RunKeeper(config), "genderbias-runs")


def runs_folder(config: pytest.Config) -> Path:
    """Return the folder of trained models. A temporary one is created on first use, readable by its owner only."""
    runs = config.stash[SETTINGS].runs
    if runs is not None:
        return runs
    folder = config.stash[_TEMPORARY]
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
