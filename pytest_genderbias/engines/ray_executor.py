"""``RayExecutor``: score windows in the workers of a Ray cluster, on this machine or on many.

Each worker is an actor of Ray Core with one copy of the model. Actors, and not tasks, since the driver then knows how
many copies of the model there are, which window ended with a worker, and when a copy is gone: of the two windows that a
worker has, one was begun and one was not, so that at most one window is repeated for each lost worker. Ray's own
retries are off.

Only this module, ``ray_crew``, ``ray_cluster`` and ``ray_worker`` know Ray, and ``ray`` is imported when the first
window is scored.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_genderbias.engines.ray_cluster import LOCAL, Cluster, check_address
from pytest_genderbias.engines.ray_crew import Crew
from pytest_genderbias.engines.ray_worker import WantedModel
from pytest_genderbias.errors import ExecutorError, SettingError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import REPLIES
from pytest_genderbias.models.vectors import WordVectors
from pytest_genderbias.scoring.executor import InProcess, Pool, Task
from pytest_genderbias.suites.query import CoreferenceScores, Query


class RayExecutor:
    """Scores in the workers of a Ray cluster.

    The workers are started for the first window, and kept until :meth:`close`, which the end of a ``with`` block calls.
    Those of models on the CPU end when a model on a GPU comes, and the other way round.

    Args:
        address: ``local`` for a cluster of this machine, which listens on the loopback interface only and ends with
            this process; or ``HOST:PORT`` of a cluster that runs. This process has to be on one of its machines.
        workers: number of workers; by default one for each CPU of the cluster that ``threads`` leaves, or for each GPU
            if the model is on one.
        threads: threads of each worker, and the CPUs that it asks for.
        wait: seconds to wait for the first worker.
        share: number of processes that score with the same CPUs, such as those of pytest-xdist. By default each takes
            its part of them.

    Raises:
        SettingError: a setting is wrong.

    Example:
        >>> with RayExecutor("10.0.0.1:6379", workers=8) as executor:  # for a Runner; starts with the first window
        ...     executor.ready
        []
    """

    def __init__(
        self, address: str = LOCAL, workers: int | None = None, threads: int = 1, wait: float = 300.0, share: int = 1
    ) -> None:
        """Keep the settings; nothing is started yet."""
        for name, value in (("workers", workers), ("threads", threads), ("share", share)):
            if value is not None and (type(value) is not int or value < 1):
                raise SettingError(f"{name} should be a whole number of at least 1, got {value!r}")
        self.address, self.workers, self.threads = check_address(address), workers, threads
        self.wait, self._share = wait, share
        self._cluster: Cluster | None = None
        self._crew: Crew | None = None
        self._closed = False

    def __enter__(self) -> RayExecutor:
        """Return this executor."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the workers and leave the cluster; a local one ends. What is opened later is refused."""
        self._closed = True
        if self._crew is not None:
            self._crew.end()
            self._crew = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    @property
    def ready(self) -> list[tuple[str, int]]:
        """The workers that can score now: node and number of the process."""
        workers = [] if self._crew is None else self._crew.workers
        return [
            (worker.about.node, worker.about.pid) for worker in workers if worker.ready and worker.about is not None
        ]

    @contextmanager
    def open(self, task: Task) -> Iterator[Pool]:
        """Load the model in workers, and ask them the question. Windows that are under way at the end are given up.

        One task may be open at a time. Heads that a scorer trains, and word vectors, which need no computation, stay in
        this process.

        Raises:
            ExecutorError: there is no such cluster, or it has no room, other versions, or another model; or the
                executor was closed.
            SettingError: the model is an object in memory, which no other process can load.
        """
        if _stays_here(task.query, task.model):
            with InProcess().open(task) as pool:
                yield pool
            return
        wanted = WantedModel.of(_of_files(task.model))
        question = pickle.dumps((task.cases, task.query, task.batch_tokens), pickle.HIGHEST_PROTOCOL)
        crew = self._crew_for(task.model)
        try:
            crew.begin(wanted, question)
            yield crew
        finally:
            crew.give_up()

    def _crew_for(self, model: Model) -> Crew:
        """Return the workers for models on this kind of device; they start when they get their first model."""
        if self._closed:
            raise ExecutorError("the executor was closed, and starts no workers any more; make another RayExecutor")
        on_gpu = str(model.details.get("device") or "cpu").partition(":")[0] != "cpu"
        if self._cluster is None:
            workers = self.workers or max(1, (os.cpu_count() or 1) // (self.threads * self._share))
            cluster = Cluster(self.address, workers * self.threads)
            self._ray = cluster.connect()
            self._cluster = cluster
        if self._crew is not None and self._crew.on_gpu != on_gpu:
            self._crew.end()
            self._crew = None
        if self._crew is None:
            self._crew = Crew(self._ray, self._number(on_gpu), self.threads, on_gpu, self.wait)
        return self._crew

    def _number(self, on_gpu: bool) -> int:
        """Return the number of workers, and refuse one that the cluster can never have."""
        resources: dict[str, float] = self._ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        room = min(gpus, cpus // self.threads) if on_gpu else cpus // self.threads
        wanted = self.workers or max(1, room if self.address == LOCAL else room // self._share)
        if wanted <= room:
            return wanted
        each = f"{self.threads} thread{'s'[: self.threads - 1]}" + (" and a GPU each" if on_gpu else "")
        raise ExecutorError(
            f"{wanted} worker{'s'[: wanted - 1]} of {each} do not fit into the Ray cluster {self.address}, which has"
            f" {cpus} CPUs and {gpus} GPUs in all; "
            + _what_fits(room, cpus, gpus, on_gpu)
            + ", or add machines to the cluster"
        )


def _what_fits(room: int, cpus: int, gpus: int, on_gpu: bool) -> str:
    """Return what to ask a cluster for that has room for so many workers."""
    if room:
        return f"ask for at most {room} (bias_workers)"
    if on_gpu and not gpus:
        return "score on the CPU (--bias-device=cpu)"
    return (
        f"ask for workers of fewer threads (-o bias_workers=1x{cpus})"
        if cpus
        else "wait until its machines have joined"
    )


def _stays_here(query: Query, model: Model) -> bool:
    """Return whether a question is answered in this process: a head is trained for it, nothing is computed, or a server
    or vLLM computes.
    """
    if model.role.only_prompts or model.can(REPLIES):
        return True
    return (isinstance(query, CoreferenceScores) and query.training is not None) or isinstance(
        model.backend, WordVectors
    )


def _of_files(model: Model) -> Model:
    """Return a model that another process can load.

    Raises:
        SettingError: it is an object in memory.
    """
    if model.origin is None or model.fingerprint is None:
        raise SettingError(
            f"{model.name} is an object in memory, and workers load a model by its path or hub id; save it"
            " (save_pretrained(), or save_model() for one that this package trained) and name the folder, or score it"
            " in this process, without an executor"
        )
    return model
