"""The executors of a run: cases are scored in its process, or by the workers of a Ray cluster that ends with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_genderbias.plugin.doors import reach

if TYPE_CHECKING:
    from pytest_genderbias.scoring.executor import Executor

    class _Closed(Executor, Protocol):
        def close(self) -> None:
            """End the workers."""


#: By the value of ``bias_executor``, which names the package and the extra, too: the class of the executor, called with
#: ``(address, workers, threads, share=...)`` and closed by ``close()``, and the function that checks an address.
EXECUTORS: Mapping[str, tuple[str, str]] = {
    "ray": ("engines.ray_executor:RayExecutor", "engines.ray_cluster:check_address")
}


def make_executor(name: str, address: str, workers: tuple[int, int] | None, config: pytest.Config) -> Executor | None:
    """Return the executor of a name; ``None`` for the process itself. Nothing is started yet.

    Args:
        name: of :data:`EXECUTORS`, or another one for the process itself.
        address: of the cluster.
        workers: how many there are, and the threads of each; ``None`` for as many as there are CPUs.
        config: of the run, at whose end the workers end.
    """
    if name not in EXECUTORS:
        return None
    count, threads = workers or (None, 1)
    executor: _Closed = reach(EXECUTORS[name][0])(address, count, threads, share=xdist_workers())
    config.add_cleanup(executor.close)
    return executor


def check_address(name: str, address: str) -> str:
    """Return an address of a cluster, if an executor takes it.

    Raises:
        SettingError: it does not.
    """
    return str(reach(EXECUTORS[name][1])(address))


def xdist_workers() -> int:
    """Return the number of processes of pytest-xdist that share this machine; 1 without pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
