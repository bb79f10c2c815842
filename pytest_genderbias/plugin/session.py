"""The run's ``Runner``, built from flags and ini keys, and the folder of the models that its mitigations train."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_genderbias.plugin.doors import EXECUTORS, door, reach, xdist_workers
from pytest_genderbias.plugin.options import SETTINGS, Settings
from pytest_genderbias.plugin.progress import TerminalProgress
from pytest_genderbias.plugin.workers import worker_input

if TYPE_CHECKING:
    from pytest_genderbias.measurement.runner import Runner
    from pytest_genderbias.scoring.executor import Executor

_RUNNER: pytest.StashKey[Runner] = pytest.StashKey()
_STEPS = pytest.StashKey[TerminalProgress]()  #: shows the trainings of mitigations


def runner_of(config: pytest.Config) -> Runner:
    """Return the runner of a run, made on first use. Executors start nothing until they score; their workers end with
    the run.
    """
    if _RUNNER not in config.stash:
        settings = config.stash[SETTINGS]
        executor = None
        if settings.executor in EXECUTORS:
            count, threads = settings.workers or (None, 1)
            executor = reach(EXECUTORS[settings.executor][0])(settings.ray, count, threads, share=xdist_workers())
            config.add_cleanup(executor.close)
        config.stash[_STEPS] = TerminalProgress(config, "steps")
        config.stash[_RUNNER] = make_runner(settings, TerminalProgress(config), executor)
    return config.stash[_RUNNER]


def mitigations_of(config: pytest.Config) -> Any:
    """Return the :class:`~pytest_genderbias.mitigation.harness.file.MitigationRunner` of a run.

    A temporary folder for its models is made on first use, readable by its owner only.
    """
    folder = config.stash[SETTINGS].runs
    if folder is None:
        folder = config.stash[TEMPORARY]
        folder.mkdir(mode=0o700, exist_ok=True)
    runner = runner_of(config)  # which makes what shows the steps, too
    return door("mitigations of a run")(runner, folder, config.stash[_STEPS])


def make_runner(run: Settings, progress: TerminalProgress | None, executor: Executor | None = None) -> Runner:
    """Return a runner with the settings of a run; nothing is loaded yet. Without an executor it scores in this
    process.
    """
    from pytest_genderbias.measurement.runner import Runner, RunSettings
    from pytest_genderbias.models.source import LoadSettings, ServedSettings

    shared = None
    if run.shared_cache is not None:
        from pytest_genderbias.scoring.store import SharedScores

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
            run.limit,
            run.seed,
            run.batch_tokens,
            run.cache,
            progress,
            shared=shared,
            null=run.null,
            ability=run.ability,
        ),
        data=run.data,
        seeds=run.seeds,
        options=run.options,
        threads=max(1, (os.cpu_count() or 1) // workers) if workers > 1 else None,  # a share of the cores
        executor=executor,
    )


RUNS = "genderbias_runs"  #: key of the temporary folder in the input of a worker of xdist
TEMPORARY = pytest.StashKey[Path]()  #: the folder of the models that this run trains, where none is named


def choose_temporary(config: pytest.Config) -> None:
    """Choose the temporary folder, which the end of the run removes. A worker of xdist has that of its controller, so
    that all workers share trained models.
    """
    sent = worker_input(config).get(RUNS)
    folder = Path(str(sent)) if sent else Path(tempfile.gettempdir(), f"genderbias-{uuid.uuid4().hex}")
    config.stash[TEMPORARY] = folder
    if not sent:
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
