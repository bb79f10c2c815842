"""Where the cases of a run are scored: in its process, or by the workers of a Ray cluster, which end with the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_genderbias.plugin.options import Settings

if TYPE_CHECKING:
    from pytest_genderbias.scoring.executor import Executor
    from pytest_genderbias.scoring.ray_executor import RayExecutor


class _AtTheEnd:
    """Closes an executor when pytest ends, be it with a result, an error or Ctrl-C."""

    def __init__(self, executor: RayExecutor) -> None:
        self._executor = executor

    def pytest_unconfigure(self) -> None:
        """End the workers."""
        self._executor.close()


def make_executor(run: Settings, config: pytest.Config) -> Executor | None:
    """Return the executor of ``--bias-executor``; ``None`` for the process itself. Nothing is started yet."""
    if run.executor != "ray":
        return None
    from pytest_genderbias.scoring.ray_executor import RayExecutor

    workers, threads = run.workers or (None, 1)
    executor = RayExecutor(run.ray, workers, threads, share=xdist_workers())
    config.pluginmanager.register(_AtTheEnd(executor), "genderbias-executor")
    return executor


def xdist_workers() -> int:
    """Return the number of processes of pytest-xdist that share this machine; 1 without pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
