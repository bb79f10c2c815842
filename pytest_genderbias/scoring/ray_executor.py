"""``RayExecutor``: score windows in the workers of a Ray cluster, on this machine or on many.

Each worker is an actor of Ray Core with one copy of the model. Actors, and not tasks, since the driver then knows how many copies of the
model there are, which window ended with a worker, and when a copy is gone: of the two windows that a worker has, one was begun and one was not, so
that at most one window is repeated for each lost worker. Ray's own retries are off.

Only this module, ``ray_cluster`` and ``ray_worker`` know Ray, and ``ray`` is imported when the first window is scored.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from pytest_genderbias.errors import BiasError, ExecutorError, SettingError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.vectors import WordVectors
from pytest_genderbias.scoring.executor import InProcess, Pool, Scored, Task, Window
from pytest_genderbias.scoring.ray_cluster import LOCAL, Cluster, check_address
from pytest_genderbias.scoring.ray_worker import Failure, Loaded, RayWorker, WantedModel
from pytest_genderbias.suites.cases import IntArray
from pytest_genderbias.suites.query import CoreferenceScores, Query

EACH = 2  #: windows that a worker has: one that it scores, and one that waits, so that it never waits itself
_MOST_FAILED_STARTS = 3  #: workers that may end in a row before one of them scores a window
_LOOK_EVERY = 5.0  #: seconds between two looks at whether any worker is alive


class RayExecutor:
    """Scores in the workers of a Ray cluster.

    The workers are started for the first window, and kept until :meth:`close`, which the end of a ``with`` block calls.

    Args:
        address: ``local`` for a cluster of this machine, which listens on the loopback interface only and ends with this process; or
            ``HOST:PORT`` of a cluster that runs. This process has to be on one of its machines.
        workers: number of workers; by default one for each CPU of the cluster that ``threads`` leaves, or for each GPU if the model is on one.
        threads: threads of each worker, and the CPUs that it asks for.
        wait: seconds to wait for the first worker.
        share: number of processes that score with the same CPUs, such as those of pytest-xdist. By default each takes its part of them.

    Raises:
        SettingError: a setting is wrong.

    Example:
        >>> with RayExecutor("10.0.0.1:6379", workers=8) as executor:  # give it to a Runner; nothing is started before the first window
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
        self.address, self.workers, self.threads, self.wait, self._share = (
            check_address(address),
            workers,
            threads,
            wait,
            share,
        )
        self._cluster: Cluster | None = None
        self._crew: _Crew | None = None

    def __enter__(self) -> RayExecutor:
        """Return this executor."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the workers and leave the cluster; a local one ends. The next window would start them anew."""
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.end()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close()

    @property
    def ready(self) -> list[tuple[str, int]]:
        """The workers that can score now: node and number of the process."""
        workers = [] if self._crew is None else self._crew.workers
        return [
            (worker.about.node, worker.about.pid) for worker in workers if worker.ready and worker.about is not None
        ]

    @contextmanager
    def open(self, task: Task) -> Iterator[Pool]:
        """Load the model in the workers, and ask them the question. Windows that are under way at the end are given up.

        Heads that a scorer trains, and word vectors, which need no computation, stay in this process.

        Raises:
            ExecutorError: there is no such cluster, or it has no room, other versions, or another model.
            SettingError: the model is an object in memory, which no other process can load.
        """
        if _stays_here(task.query, task.model):
            with InProcess().open(task) as pool:
                yield pool
            return
        wanted = WantedModel.of(_of_files(task.model))
        crew = self._connected(task.model)
        crew.begin(wanted, pickle.dumps((task.cases, task.query, task.batch_tokens), pickle.HIGHEST_PROTOCOL))
        try:
            yield crew
        finally:
            crew.give_up()

    def _connected(self, model: Model) -> _Crew:
        """Return the workers, for models on this kind of device; they start when they get their first model."""
        on_gpu = str(model.details.get("device") or "cpu").partition(":")[0] != "cpu"
        if self._crew is not None and self._crew.on_gpu != on_gpu:
            self._crew.end()
            self._crew = None
        if self._cluster is None:
            usual = max(1, (os.cpu_count() or 1) // (self.threads * self._share))
            cluster = Cluster(self.address, (self.workers or usual) * self.threads)
            self._ray = cluster.connect()
            self._cluster = cluster
        if self._crew is None:
            self._crew = _Crew(self._ray, self._number(on_gpu), self.threads, on_gpu, self.wait)
        return self._crew

    def _number(self, on_gpu: bool) -> int:
        """Return the number of workers, and refuse one that the cluster can never have."""
        resources: dict[str, float] = self._ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        room = min(gpus, cpus // self.threads) if on_gpu else cpus // self.threads
        wanted = self.workers or max(1, room if self.address == LOCAL else room // self._share)
        if wanted > room:
            needs = f"{wanted} {_times('worker', wanted)} of {_times_each('thread', self.threads)}" + (
                " and a GPU each" if on_gpu else ""
            )
            raise ExecutorError(
                f"{needs} do not fit into the Ray cluster {self.address}, which has {cpus} CPUs and {gpus} GPUs in all; ask for at most {room} "
                "(--bias-workers), or add machines to the cluster"
            )
        return wanted


@dataclass(eq=False)
class _Worker:
    """An actor, and the windows that it has, in the order in which it scores them.

    ``getting``: its answers to the model and the question, which are awaited. ``ready``: it has both. ``about``: its process and node.
    """

    actor: Any
    getting: list[Any] = field(default_factory=list)
    ready: bool = False
    about: Loaded | None = None
    windows: dict[Any, tuple[Window, IntArray]] = field(default_factory=dict)


class _Crew:
    """The workers of a cluster with their model and question: a pool that starts another worker for each that is lost."""

    def __init__(self, ray: ModuleType, number: int, threads: int, on_gpu: bool, wait: float) -> None:
        self._ray, self._number, self._threads, self.on_gpu, self._wait = ray, number, threads, on_gpu, wait
        self._actor = ray.remote(RayWorker).options(
            num_cpus=threads, num_gpus=1 if on_gpu else 0, max_restarts=0, max_task_retries=0
        )
        self.workers: list[_Worker] = []
        self._queue: list[tuple[Window, IntArray]] = []
        self._done: deque[Scored] = deque()
        self._restarts = self._repeated = self._failed_starts = 0
        self._processors: set[str] = set()
        self._wanted: WantedModel | None = None
        self._question = b""

    # Pool

    @property
    def slots(self) -> int:
        """Number of windows that are under way at once."""
        return EACH * self._number

    @property
    def state(self) -> str:
        """The number of workers, and of those that took the place of lost ones."""
        restarted = f", {self._restarts} restarted" if self._restarts else ""
        return f"{self._number} {_times('worker', self._number)}{restarted}"

    @property
    def notes(self) -> list[str]:
        """Who scored, on processors of which kinds, and what was repeated."""
        notes = [
            f"scored by Ray: {self._number} {_times('worker', self._number)} of {_times_each('thread', self._threads)}"
        ]
        if len(self._processors) > 1:
            notes.append(
                f"the workers' processors differ ({', '.join(sorted(self._processors))}), and scores with them by rounding"
            )
        if self._restarts:
            notes.append(
                f"{self._restarts} {_times('worker', self._restarts)} lost, {self._repeated} {_times('window', self._repeated)} scored again"
            )
        return notes

    def submit(self, window: Window, units: IntArray) -> None:
        """Let a window be scored; earlier windows go first."""
        self._queue.append((window, units))
        self._queue.sort(key=lambda waiting: waiting[0])
        self._hand_out()

    def collect(self) -> Scored:
        """Wait until a window is scored or lost."""
        idle_since = time.monotonic()
        while not self._done:
            if any(worker.ready for worker in self.workers):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > self._wait:
                raise self._no_room()
            awaited = {ref: worker for worker in self.workers for ref in (*worker.getting, *worker.windows)}
            done, _ = self._ray.wait(list(awaited), num_returns=1, timeout=_LOOK_EVERY)
            for ref in done:
                scored = self._answered(awaited[ref], ref)
                if scored is not None:
                    return scored
        return self._done.popleft()

    # The crew

    def begin(self, wanted: WantedModel, question: bytes) -> None:
        """Let all workers load a model and take a question, and wait until one of them has."""
        self._wanted, self._question = wanted, question
        self._restarts = self._repeated = self._failed_starts = 0
        self._processors.clear()
        for worker in self.workers:
            worker.ready = False
            self._prepare(worker)
        while len(self.workers) < self._number:
            self._start_one()
        deadline = time.monotonic() + self._wait
        while not any(worker.ready for worker in self.workers):
            if time.monotonic() > deadline:
                error = self._no_room()
                self.end()
                raise error
            awaited = {ref: worker for worker in self.workers for ref in worker.getting}
            done, _ = self._ray.wait(list(awaited), num_returns=1, timeout=_LOOK_EVERY)
            for ref in done:
                self._answered(awaited[ref], ref)

    def give_up(self) -> None:
        """Forget all windows. A worker finishes the two that it has, and nobody looks at them."""
        self._queue.clear()
        self._done.clear()
        for worker in self.workers:
            worker.windows.clear()

    def end(self) -> None:
        """End all workers."""
        workers, self.workers = self.workers, []
        for worker in workers:
            self._kill(worker)

    def _start_one(self) -> None:
        worker = _Worker(self._actor.remote(self._threads))
        self.workers.append(worker)
        self._prepare(worker)

    def _prepare(self, worker: _Worker) -> None:
        worker.getting = [worker.actor.load.remote(self._wanted), worker.actor.ask.remote(self._question)]

    def _hand_out(self) -> None:
        """Give waiting windows to the workers that have the fewest."""
        while self._queue:
            free = [worker for worker in self.workers if worker.ready and len(worker.windows) < EACH]
            if not free:
                return
            worker = min(free, key=lambda one: len(one.windows))
            window, units = self._queue.pop(0)
            worker.windows[worker.actor.score.remote(units)] = window, units

    def _answered(self, worker: _Worker, ref: Any) -> Scored | None:
        """Take an answer of a worker: a scored window, or nothing if it now has the model, or is lost."""
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            self._replace(worker, error)
            return None
        if ref in worker.getting:
            self._prepared(worker, ref, answer)
            return None
        window, _ = worker.windows.pop(ref)
        self._failed_starts = 0
        self._hand_out()
        return _scored(worker, window, answer)

    def _prepared(self, worker: _Worker, ref: Any, answer: object) -> None:
        """Take the answer to the model or to the question; with the second one the worker can score."""
        worker.getting.remove(ref)
        if isinstance(answer, Failure):
            self.end()
            raise _raised(answer)
        if isinstance(answer, Loaded):
            worker.about = answer
            self._processors.add(answer.processor)
        if not worker.getting:
            worker.ready = True
            self._hand_out()

    def _replace(self, worker: _Worker, error: Exception) -> None:
        """Start another worker in the place of a lost one. Of its windows the first was begun and is lost; the others wait again."""
        self.workers.remove(worker)
        self._kill(worker)
        reason = _reason(error)
        self._failed_starts = 0 if worker.ready else self._failed_starts + 1
        if self._failed_starts >= _MOST_FAILED_STARTS:
            self.end()
            raise ExecutorError(
                f"{self._failed_starts} workers ended one after another before they could score, the last one so: {reason}; this package has to be installed "
                "on every node, and a model that does not fit into memory needs fewer workers (--bias-workers)"
            )
        self._take_back(worker, reason)
        self._restarts += 1
        self._start_one()
        self._hand_out()

    def _take_back(self, worker: _Worker, reason: str) -> None:
        """Take the windows of a lost worker: those that it had scored, the one that it had begun, and those that it had not."""
        windows = dict(worker.windows)
        for ref in worker.windows:
            try:
                answer = self._ray.get(ref, timeout=0)
            except self._ray.exceptions.RayError:
                break
            self._done.append(_scored(worker, windows.pop(ref)[0], answer))
        rest = list(windows.values())
        if rest:
            self._repeated += 1
            self._done.append(Scored(rest[0][0], lost=reason))
        self._queue = sorted([*rest[1:], *self._queue], key=lambda waiting: waiting[0])

    def _kill(self, worker: _Worker) -> None:
        """End a worker that may be gone, or out of reach."""
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(worker.actor)

    def _no_room(self) -> ExecutorError:
        """Return the error that no worker could start in time."""
        free: dict[str, float] = self._ray.available_resources()
        cpus, gpus = int(free.get("CPU", 0)), int(free.get("GPU", 0))
        return ExecutorError(
            f"no worker could begin within {self._wait:,.0f} seconds: each asks for {_times_each('CPU', self._threads)}"
            + (" and a GPU" if self.on_gpu else "")
            + f", and {cpus} CPUs and {gpus} GPUs of the cluster are free; loading the model may take longer, or another run may hold the rest, as one that pytest-xdist started beside this one: wait "
            "for it, ask for fewer (--bias-workers), or let one process measure (without -n)"
        )


def _stays_here(query: Query, model: Model) -> bool:
    """Return whether a question is answered in this process: a head is trained for it, or nothing is computed."""
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
            f"{model.name} is an object in memory, and workers load a model by its path or hub id; save it (save_pretrained(), or save_model() for one "
            "that this package trained) and name the folder, or score it in this process, without an executor"
        )
    return model


def _scored(worker: _Worker, window: Window, answer: Any) -> Scored:
    """Return what a worker answered about a window."""
    assert worker.about is not None
    if isinstance(answer, Failure):
        return Scored(window, error=_raised(answer))
    values, notes = answer
    return Scored(window, values, notes, f"{worker.about.node} {worker.about.pid}")


def _raised(failure: Failure) -> Exception:
    """Return the error of a worker as it was; one that this package did not raise has the worker's traceback as its cause."""
    if not isinstance(failure.error, BiasError):
        failure.error.__cause__ = RuntimeError(f"in a worker of Ray:\n{failure.traceback}")
    return failure.error


def _reason(error: Exception) -> str:
    """Return why a worker ended, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next(
        (line for line in lines if "exit" in line.lower() or "died" in line.lower() or "kill" in line.lower()), ""
    )
    return f"{type(error).__name__}: {told or ' '.join(lines):.300}"


def _times(word: str, number: int) -> str:
    return word if number == 1 else f"{word}s"


def _times_each(word: str, number: int) -> str:
    return f"{number} {_times(word, number)}"
