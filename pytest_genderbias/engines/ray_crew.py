"""The workers of a Ray cluster, and the crews that they form: one for each task that is open.

A crew has an even share of the workers, and takes those of crews that are done. A worker keeps its model until it goes
to a crew with another one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import RLock
from types import ModuleType
from typing import Any

from pytest_genderbias.engines.ray_worker import Failure, Loaded, RayWorker, WantedModel
from pytest_genderbias.errors import BiasError, ExecutorError
from pytest_genderbias.scoring.executor import Scored, Window
from pytest_genderbias.suites.cases import IntArray
from pytest_genderbias.text.numbers import counted

EACH = 2  #: windows that a worker has: one that it scores, and one that waits, so that it never waits itself
_CONTROL = "control"  #: calls of this group do not wait for the others
_MOST_FAILED_STARTS = 3  #: workers that may end in a row before one of them scores a window
_LOOK_EVERY = 0.5  #: seconds between two looks at whether any worker is alive, and whether another crew has left some


@dataclass(eq=False)
class Worker:
    """An actor, and the windows that it has, in the order in which it scores them.

    ``wanted``: the model that it has, or loads. ``getting``: its answers to the model and the question, which are
    awaited. ``ready``: it has both. ``about``: its process and node. ``is_new``: it has not been in another crew.
    """

    actor: Any
    wanted: WantedModel | None = None
    getting: list[Any] = field(default_factory=list)
    ready: bool = False
    is_new: bool = True
    about: Loaded | None = None
    windows: dict[Any, tuple[Window, IntArray]] = field(default_factory=dict)


class Workforce:
    """All workers of an executor for one kind of device. Threads with a crew each may use it at once.

    ``number``: of the workers. ``threads``: of each. ``on_gpu``: each has a GPU. ``wait``: seconds to wait for the
    first worker. ``beside``: the workers of the executor for all kinds of devices, which share the CPUs. ``expected``:
    number of tasks that will be open at once; their crews' shares are left for them.
    """

    def __init__(
        self, ray: ModuleType, number: int, threads: int, on_gpu: bool, wait: float, beside: Sequence[Workforce] = ()
    ) -> None:
        self.ray, self.number, self.threads, self.on_gpu, self.wait = ray, number, threads, on_gpu, wait
        self._beside = beside
        self.expected = 1
        self.crews: list[Crew] = []
        self._tasks = 0
        self._actor = ray.remote(concurrency_groups={_CONTROL: 1})(RayWorker).options(
            num_cpus=threads, num_gpus=1 if on_gpu else 0, max_restarts=0, max_task_retries=0
        )
        self._lock = RLock()
        self._idle: list[Worker] = []
        self._started = 0
        self._ended = False

    @property
    def workers(self) -> list[Worker]:
        """All workers that have been started, and are not known to be lost."""
        with self._lock:
            return [*self._idle, *(worker for crew in self.crews for worker in crew.workers)]

    @property
    def is_any_ready(self) -> bool:
        """Whether a worker can score: one of these, or one for the other kind of device, whose CPUs become free."""
        return any(worker.ready for force in (self, *self._beside) for worker in force.workers)

    def crew(self, wanted: WantedModel, question: bytes) -> Crew:
        """Return a crew for a model and a question, to which workers come when it begins."""
        with self._lock:
            self._tasks += 1
            crew = Crew(self, self._tasks, wanted, question)
            self.crews.append(crew)
        return crew

    def share(self, crew: Crew) -> int:
        """Return how many workers a crew may have. Those of all crews differ by one at most; the first crews have the
        larger ones.
        """
        with self._lock:
            if crew not in self.crews:
                return 0
            tasks = min(self.number, max(len(self.crews), self.expected))
            return max(1, self.number // tasks + (self.crews.index(crew) < self.number % tasks))

    def hire(self, crew: Crew) -> Worker | None:
        """Return a worker for a crew: one with its model, a new one, or any that is free; ``None`` if there is none, or
        it has its share.

        Raises:
            ExecutorError: the executor was closed.
        """
        with self._lock:
            self.check_open()
            if len(crew.workers) >= self.share(crew):
                return None
            worker = next((idle for idle in self._idle if idle.wanted == crew.wanted), None)
            if worker is None and self._started < self.number:
                self._started += 1
                return Worker(self._actor.remote(self.threads))
            if worker is None and self._idle:
                worker = self._idle[0]
            if worker is not None:
                self._idle.remove(worker)
            return worker

    def check_open(self) -> None:
        """Raise if the executor was closed."""
        if self._ended:
            raise ExecutorError("the executor was closed while it scored; what is complete is in the cache")

    def leave(self, worker: Worker) -> None:
        """Take back a worker that a crew does not need any more."""
        worker.windows.clear()
        worker.getting.clear()
        worker.is_new = False
        with self._lock:
            self._idle.append(worker)

    def lose(self, worker: Worker) -> None:
        """End a worker that may be gone, or out of reach, so that another one may be started."""
        with self._lock:
            self._started -= 1
        with suppress(self.ray.exceptions.RayError, ValueError):
            self.ray.kill(worker.actor)

    def dissolve(self, crew: Crew) -> None:
        """Take back all workers of a crew."""
        with self._lock:
            for worker in crew.workers:
                self.leave(worker)
            crew.workers = []
            if crew in self.crews:
                self.crews.remove(crew)

    def end(self) -> None:
        """End all workers, and wait a little until nothing waits for one."""
        with self._lock:
            self._ended = True
            for worker in self.workers:
                self.lose(worker)
        deadline = time.monotonic() + 10 * _LOOK_EVERY
        while self.crews and time.monotonic() < deadline:
            time.sleep(0.02)


class Crew:
    """The workers of one task, with its model and question: a pool that takes another worker for each that is lost."""

    def __init__(self, force: Workforce, task: int, wanted: WantedModel, question: bytes) -> None:
        self._force, self._ray, self._task = force, force.ray, task
        self.wanted, self._question = wanted, question
        self.workers: list[Worker] = []
        self._queue: list[tuple[Window, IntArray]] = []
        self._done: deque[Scored] = deque()
        self._restarts = self._repeated = self._failed_starts = 0
        self._processors: set[str] = set()

    # Pool

    @property
    def slots(self) -> int:
        """Number of windows that are under way at once."""
        return EACH * max(1, self._force.share(self))

    @property
    def state(self) -> str:
        """The number of workers, and of those that took the place of lost ones."""
        restarted = f", {self._restarts} restarted" if self._restarts else ""
        return f"{counted(self._force.number, 'workers')}{restarted}"

    @property
    def notes(self) -> list[str]:
        """Who scored, on processors of which kinds, and what was repeated."""
        notes = [
            f"scored by Ray: {counted(self._force.number, 'workers')} of {counted(self._force.threads, 'threads')}"
        ]
        if len(self._processors) > 1:
            notes.append(
                f"the workers' processors differ ({', '.join(sorted(self._processors))}), and scores with them by"
                " rounding"
            )
        if self._restarts:
            notes.append(
                f"{counted(self._restarts, 'workers')} lost, {counted(self._repeated, 'windows')} scored again"
            )
        return notes

    def submit(self, window: Window, units: IntArray) -> None:
        """Let a window be scored; earlier windows go first."""
        self._queue.append((window, units))
        self._queue.sort(key=lambda waiting: waiting[0])
        self._hand_out()

    def collect(self) -> Scored:
        """Wait until a window is scored or lost."""
        waits_since = time.monotonic()
        while not self._done:
            if any(worker.ready for worker in self.workers):
                waits_since = time.monotonic()
            waits_since = self._look_for_workers(waits_since)
            for worker, ref in self._answers():
                scored = self._answered(worker, ref)
                if scored is not None:
                    return scored
        return self._done.popleft()

    # The crew

    def begin(self) -> None:
        """Let workers load the model and take the question, and wait until one of them has."""
        waits_since = time.monotonic()
        while not any(worker.ready for worker in self.workers):
            waits_since = self._look_for_workers(waits_since)
            for worker, ref in self._answers():
                self._answered(worker, ref)

    def give_up(self) -> None:
        """Leave all windows, and all workers. A worker finishes the window that it scores, whose result is dropped; it
        leaves out the next one.

        Ray's own ``cancel`` does not keep a call that waits at an actor from being run (2.60), so the worker is told by
        a thread of its own.
        """
        for worker in self.workers:
            if worker.windows:
                with suppress(self._ray.exceptions.RayError, ValueError):
                    worker.actor.give_up.options(concurrency_group=_CONTROL).remote(self._task)
        self._queue.clear()
        self._done.clear()
        self._force.dissolve(self)

    def _look_for_workers(self, waits_since: float) -> float:
        """Take workers up to the share of this crew, and return since when it waits for the first one.

        Raises:
            ExecutorError: it has waited for too long while no other crew had a worker either, or the executor was
                closed.
        """
        self._force.check_open()
        while (worker := self._force.hire(self)) is not None:
            self._take(worker)
        if self._force.is_any_ready:
            return time.monotonic()
        if time.monotonic() - waits_since > self._force.wait:
            error = self._no_room()
            for worker in self.workers:
                self._force.lose(worker)
            self.workers = []
            raise error
        return waits_since

    def _take(self, worker: Worker) -> None:
        worker.ready, worker.wanted = False, self.wanted
        worker.getting = [worker.actor.load.remote(self.wanted), worker.actor.ask.remote(self._question)]
        self.workers.append(worker)

    def _answers(self) -> list[tuple[Worker, Any]]:
        """Wait a little for the answer of a worker, and return it with the worker; none may have come."""
        awaited = {ref: worker for worker in self.workers for ref in (*worker.getting, *worker.windows)}
        if not awaited:
            time.sleep(0.02)
            return []
        done, _ = self._ray.wait(list(awaited), num_returns=1, timeout=_LOOK_EVERY)
        return [(awaited[ref], ref) for ref in done]

    def _hand_out(self) -> None:
        """Give waiting windows to the workers that have the fewest. Workers above the share of this crew get no more,
        and leave.
        """
        share = self._force.share(self)
        for worker in self.workers[share:]:
            if not worker.windows:
                self.workers.remove(worker)
                self._force.leave(worker)
        while self._queue:
            free = [worker for worker in self.workers[:share] if worker.ready and len(worker.windows) < EACH]
            if not free:
                return
            worker = min(free, key=lambda one: len(one.windows))
            window, units = self._queue.pop(0)
            worker.windows[worker.actor.score.remote(units, self._task)] = window, units

    def _answered(self, worker: Worker, ref: Any) -> Scored | None:
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

    def _prepared(self, worker: Worker, ref: Any, answer: object) -> None:
        """Take the answer to the model or to the question; with the second one the worker can score."""
        worker.getting.remove(ref)
        if isinstance(answer, Failure):
            worker.wanted = None
            raise raised(answer)
        if isinstance(answer, Loaded):
            worker.about = answer
            self._processors.add(answer.processor)
        if not worker.getting:
            worker.ready = True
            self._hand_out()

    def _replace(self, worker: Worker, error: Exception) -> None:
        """Take another worker in the place of a lost one. Of its windows the first was begun and is lost; the others
        wait again.
        """
        self._force.check_open()
        self.workers.remove(worker)
        self._force.lose(worker)
        reason = _reason(error)
        if worker.ready:
            self._failed_starts = 0
        elif worker.is_new:  # others were lost while they waited, as with their machine
            self._failed_starts += 1
        if self._failed_starts >= _MOST_FAILED_STARTS:
            raise ExecutorError(
                f"{self._failed_starts} workers ended one after another before they could score, the last one so:"
                f" {reason}; this package has to be installed on every node, and a model that does not fit into memory"
                " needs fewer workers (bias_workers)"
            )
        self._take_back(worker, reason)
        self._restarts += 1
        if (another := self._force.hire(self)) is not None:
            self._take(another)
        self._hand_out()

    def _take_back(self, worker: Worker, reason: str) -> None:
        """Take the windows of a lost worker: those that it had scored, the one that it had begun, and those that it had
        not.
        """
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

    def _no_room(self) -> ExecutorError:
        """Return the error that no worker could start in time."""
        force = self._force
        free: dict[str, float] = self._ray.available_resources()
        cpus, gpus = int(free.get("CPU", 0)), int(free.get("GPU", 0))
        return ExecutorError(
            f"no worker could begin within {force.wait:,.0f} seconds: each asks for {counted(force.threads, 'CPUs')}"
            + (" and a GPU" if force.on_gpu else "")
            + f", and {cpus} CPUs and {gpus} GPUs of the cluster are free; loading the model may take longer, or"
            " another run may hold the rest, as one that pytest-xdist started beside this one: wait for it, ask for"
            " fewer (bias_workers), or let one process measure (without -n)"
        )


def _scored(worker: Worker, window: Window, answer: Any) -> Scored:
    """Return what a worker answered about a window."""
    assert worker.about is not None
    if isinstance(answer, Failure):
        return Scored(window, error=raised(answer))
    values, notes = answer
    return Scored(window, values, notes, f"{worker.about.node} {worker.about.pid}")


def raised(failure: Failure) -> Exception:
    """Return the error of a worker as it was; one that this package did not raise has the worker's traceback as its
    cause.
    """
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
