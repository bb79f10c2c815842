"""``RayExecutor``: score windows in the workers of a Ray cluster, on this machine or on many.

Each worker is an actor of Ray Core with one copy of the model, and scores one window at a time. Actors, and not tasks,
since the driver then knows how many copies of the model there are, which window ended with a worker, and when a copy is
gone: at most one window is repeated for each lost worker. Ray's own retries are off.

A worker loads the model of the run, checks that it is the same, and scores windows. Only this module and
``ray_cluster`` know Ray, and ``ray`` is imported when the first window is scored.
"""

from __future__ import annotations

import gc
import hashlib
import os
import pickle
import platform
import re
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.engines.ray_cluster import LOCAL, check_address, joined_cluster
from pytest_genderbias.errors import BiasError, ExecutorError, SettingError
from pytest_genderbias.models.chat_template import DETAIL as CHAT_TEMPLATE
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.loading import inspect, load
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, REPLIES, WORD_VECTORS
from pytest_genderbias.scoring.executor import InProcess, Pool, Scored, Task, Window
from pytest_genderbias.scoring.scorer import Scorer
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import IntArray
from pytest_genderbias.suites.query import CoreferenceScores, Query
from pytest_genderbias.text.printable import counted

if TYPE_CHECKING:
    from pytest_genderbias.suites.cases import Cases

EACH = 2  #: windows under way for each worker: one that it scores, and one that waits here until it has
_MOST_FAILED_STARTS = 3  #: workers that may end in a row before one of them scores a window
_LOOK_EVERY = 0.5  #: seconds between two looks at whether the executor was closed
_PACKAGE = Path(__file__).resolve().parents[1]
_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy")  #: whose versions every worker must share


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
        self._ray: Any = None  # the module, in a cluster
        self._cluster = ExitStack()  # leaves it
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
        self._cluster.close()

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
        if self._ray is None:
            workers = self.workers or max(1, (os.cpu_count() or 1) // (self.threads * self._share))
            self._ray = self._cluster.enter_context(joined_cluster(self.address, workers * self.threads))
        if self._crew is not None and self._crew.on_gpu != model.on_gpu:
            self._crew.end()
            self._crew = None
        if self._crew is None:
            self._crew = Crew(self._ray, self._number(model.on_gpu), self.threads, model.on_gpu, self.wait)
        return self._crew

    def _number(self, on_gpu: bool) -> int:
        """Return the number of workers, and refuse one that the cluster can never have."""
        resources: dict[str, float] = self._ray.cluster_resources()
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        room = min(gpus, cpus // self.threads) if on_gpu else cpus // self.threads
        wanted = self.workers or max(1, room if self.address == LOCAL else room // self._share)
        if wanted <= room:
            return wanted
        each = counted(self.threads, "threads") + (" and a GPU each" if on_gpu else "")
        raise ExecutorError(
            f"{counted(wanted, 'workers')} of {each} do not fit into the Ray cluster {self.address}, which has"
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
    trains = isinstance(query, CoreferenceScores) and query.training is not None
    return trains or model.role.only_prompts or model.can(REPLIES) or model.can(WORD_VECTORS)


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


@dataclass(eq=False)
class Worker:
    """An actor.

    ``ref``: the answer that is awaited of it: that it has model and question, or the scores of its ``window``.
    ``ready``: it has model and question. ``about``: its process and node. ``is_new``: it was started for this task.
    """

    actor: Any
    ref: Any = None
    window: Window | None = None
    ready: bool = False
    is_new: bool = True
    about: Loaded | None = None


class Crew:
    """The workers of an executor, all on one kind of device: a pool that takes another worker for each that is lost.

    ``number``: of the workers. ``threads``: of each. ``on_gpu``: each has a GPU. ``wait``: seconds to wait for the
    first worker.
    """

    def __init__(self, ray: ModuleType, number: int, threads: int, on_gpu: bool, wait: float) -> None:
        self._ray, self._number, self._threads, self.on_gpu, self.wait = ray, number, threads, on_gpu, wait
        self._actor = ray.remote(RayWorker).options(
            num_cpus=threads, num_gpus=1 if on_gpu else 0, max_restarts=0, max_task_retries=0
        )
        self.workers: list[Worker] = []
        self._ended = False

    # Pool

    @property
    def slots(self) -> int:
        """Number of windows that are under way at once."""
        return EACH * self._number

    @property
    def state(self) -> str:
        """The number of workers, and of those that took the place of lost ones."""
        restarted = f", {self._restarts} restarted" if self._restarts else ""
        return f"{counted(self._number, 'workers')}{restarted}"

    @property
    def notes(self) -> list[str]:
        """Who scored, on processors of which kinds, and what was repeated."""
        notes = [f"scored by Ray: {counted(self._number, 'workers')} of {counted(self._threads, 'threads')}"]
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
        while True:
            if any(worker.ready for worker in self.workers):
                waits_since = time.monotonic()
            if (scored := self._next(waits_since)) is not None:
                return scored

    # The crew

    def begin(self, wanted: WantedModel, question: bytes) -> None:
        """Let workers load the model of a task and take its question, and wait until one of them has.

        Raises:
            ExecutorError: no worker could start in time, or the executor was closed.
        """
        self._wanted, self._question = wanted, question
        self._queue: list[tuple[Window, IntArray]] = []
        self._restarts = self._repeated = self._failed_starts = 0
        self._processors: set[str] = set()
        for worker in self.workers:
            worker.is_new = False
            self._prepare(worker)
        while len(self.workers) < self._number:
            self._start_worker()
        waits_since = time.monotonic()
        while not any(worker.ready for worker in self.workers):
            self._next(waits_since)

    def give_up(self) -> None:
        """Leave all windows. A worker finishes the window that it scores, whose result is dropped."""
        for worker in self.workers:
            worker.ref = worker.window = None

    def end(self) -> None:
        """End all workers."""
        self._ended = True
        self._lose_all()

    def _start_worker(self) -> None:
        self.workers.append(Worker(self._actor.remote(self._threads)))
        self._prepare(self.workers[-1])

    def _prepare(self, worker: Worker) -> None:
        worker.ready, worker.ref = False, worker.actor.begin.remote(self._wanted, self._question)

    def _next(self, waits_since: float) -> Scored | None:
        """Wait a little for the answer of a worker; return a window that is scored or lost.

        Raises:
            ExecutorError: the executor was closed, or has waited for its first worker for too long.
        """
        if time.monotonic() - waits_since > self.wait:
            free: dict[str, float] = self._ray.available_resources()
            cpus, gpus = int(free.get("CPU", 0)), int(free.get("GPU", 0))
            self._lose_all()
            raise ExecutorError(
                f"no worker could begin within {self.wait:,.0f} seconds: each asks for {counted(self._threads, 'CPUs')}"
                + (" and a GPU" if self.on_gpu else "")
                + f", and {cpus} CPUs and {gpus} GPUs of the cluster are free; loading the model may take longer, or"
                " another run may hold the rest, as one that pytest-xdist started beside this one: wait for it, ask for"
                " fewer (bias_workers), or let one process measure (without -n)"
            )
        awaited = {worker.ref: worker for worker in self.workers if worker.ref is not None}
        done, _ = self._ray.wait(list(awaited), num_returns=1, timeout=_LOOK_EVERY) if awaited else ([], [])
        if self._ended:
            raise ExecutorError("the executor was closed while it scored; what is complete is in the cache")
        return self._answered(awaited[done[0]]) if done else None

    def _lose_all(self) -> None:
        while self.workers:
            self._lose(self.workers.pop())

    def _lose(self, worker: Worker) -> None:
        """End a worker that may be gone, or out of reach."""
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(worker.actor)

    def _hand_out(self) -> None:
        """Give waiting windows to workers that have none."""
        for worker in self.workers:
            if self._queue and worker.ready and worker.window is None:
                worker.window, units = self._queue.pop(0)
                worker.ref = worker.actor.score.remote(units)

    def _answered(self, worker: Worker) -> Scored | None:
        """Take an answer of a worker: a window that is scored, or lost with it, or nothing if it now has the model."""
        window, ref = worker.window, worker.ref
        worker.window = worker.ref = None
        try:
            answer = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            return self._replace(worker, window, _reason(error))
        if window is not None:
            self._failed_starts = 0
            self._hand_out()
            return _scored(worker, window, answer)
        if isinstance(answer, Failure):
            raise raised(answer)
        worker.about, worker.ready = answer, True
        self._processors.add(answer.processor)
        self._hand_out()
        return None

    def _replace(self, worker: Worker, window: Window | None, reason: str) -> Scored | None:
        """Take another worker in the place of a lost one, and return its window, which is lost."""
        self.workers.remove(worker)
        self._lose(worker)
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
        self._restarts += 1
        self._start_worker()
        if window is None:
            return None
        self._repeated += 1
        return Scored(window, lost=reason)


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


@dataclass(frozen=True)
class WantedModel:
    """The model of the run, and what must be the same in every worker.

    Attributes:
        model: the model without its backend. It has an origin, whose path is absolute, and a fingerprint.
        reading: how texts are cut, fed and put into a chat template, which is no part of the fingerprint.
        versions: versions of the libraries, and the code of this package.
    """

    model: Model
    reading: tuple[str, ...]
    versions: dict[str, str]

    @classmethod
    def of(cls, model: Model) -> WantedModel:
        """Return what workers need to load a model."""
        return cls(replace(model, backend=None), _reading(model), versions_here())


@dataclass(frozen=True)
class Loaded:
    """A worker that has the model: its process, its node, and the model of its processor with its instructions
    (``AVX512``).
    """

    pid: int
    node: str
    processor: str


@dataclass(frozen=True)
class Failure:
    """An error in a worker: as it was, if it can travel, and its traceback."""

    error: Exception
    traceback: str


class RayWorker:
    """The actor: one process with one model."""

    def __init__(self, threads: int) -> None:
        """Let torch use ``threads`` threads."""
        self._threads = threads
        self._wanted: WantedModel | None = None
        self._model: Model | None = None
        self._cases: Cases | None = None
        self._scorer: Scorer | None = None

    def begin(self, wanted: WantedModel, question: bytes) -> Loaded | Failure:
        """Load a model, unless it is the one in memory, compare it with that of the run, and take a question: pickled
        cases, query and tokens in a batch.
        """
        import torch

        torch.set_num_threads(self._threads)  # in the thread that scores
        self._scorer = self._cases = None
        try:
            if wanted != self._wanted or self._model is None:
                self._wanted = self._model = None
                gc.collect()
                self._model = _load(wanted)
                self._wanted = wanted
            # The process of the run made it; Ray sends code to its workers in the same way.
            self._cases, query, batch_tokens = pickle.loads(question)  # noqa: S301
            self._scorer = make_scorer(self._cases, query, self._model, batch_tokens)
            return Loaded(os.getpid(), socket.gethostname(), _processor())
        except Exception as error:
            return _failure(error)

    def score(self, units: IntArray) -> tuple[NDArray[np.generic], list[str]] | Failure:
        """Return the scores of units of the question, and the remarks of the scorer."""
        try:
            assert self._scorer is not None
            assert self._cases is not None
            return self._scorer.score(self._cases.cases_of(units)), self._scorer.notes
        except Exception as error:
            return _failure(error)


def _load(wanted: WantedModel) -> Model:
    """Load the model of the run.

    Raises:
        ExecutorError: this node has other versions, no such files, other weights, or another device.
        ModelError: the model cannot be loaded.
    """
    theirs, origin, where = wanted.model, wanted.model.origin, f"on the node {socket.gethostname()}"
    assert origin is not None
    spec, here = origin.spec, versions_here()
    if here != wanted.versions:
        wrong = dict(wanted.versions.items() - here.items())
        other = [f"{name} {here.get(name)} and not {wrong[name]}" for name in sorted(wrong)]
        raise ExecutorError(
            f"a worker {where} has {', '.join(other)}; install the same versions on every node, and start the run again"
        )
    if spec.kind not in ("hub", "object") and not Path(spec.target).exists():
        raise ExecutorError(
            f"{theirs.name}: there is no {spec.target} {where}; workers load a model by its path or hub id, so put it"
            " into a folder that every node sees under the same path"
        )
    try:
        model = load(inspect(spec, origin.settings), origin.settings)
    except BiasError as error:
        takes_text = len(error.args) == 1 and isinstance(error.args[0], str)
        raise type(error)(f"{error} ({where})") if takes_text else error from None
    on = [f"on {one.details.get('device')} in {one.details.get('dtype')}" for one in (model, theirs)]
    if on[0] != on[1]:
        raise ExecutorError(
            f"{theirs.name} is {on[0]} {where}, and {on[1]} where the run was started; their scores differ, so name a"
            " device that every node has: --bias-device=cpu"
        )
    if model.fingerprint != theirs.fingerprint or model.role != theirs.role:
        raise ExecutorError(
            f"{theirs.name} is another model {where}: the fingerprint of {spec.target} is {str(model.fingerprint)[:12]}"
            f" there and {str(theirs.fingerprint)[:12]} where the run was started; copy the same checkpoint to every"
            " node (and leave it as it is while a run goes on)"
        )
    if _reading(model) != wanted.reading:
        raise ExecutorError(
            f"{theirs.name} reads texts in another way {where} than where the run was started: the tokenizer's length,"
            f" sides or chat template, the pooling, or code beside the checkpoint; copy all files of {spec.target} to"
            " every node"
        )
    return replace(model, name=theirs.name)


def _reading(model: Model) -> tuple[str, ...]:
    """Return what decides scores beside the fingerprint, as the keys of the score cache have it."""
    reading = fingerprint_reading(model.backend) if model.can(HIDDEN_STATES) else ""
    return reading, model.details.get(CHAT_TEMPLATE, "")


def _failure(error: Exception) -> Failure:
    """Return an error so that it can travel; one that cannot becomes a RuntimeError with its text."""
    text, told = traceback.format_exc(), RuntimeError(f"{type(error).__name__}: {error}")
    try:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in this line
        error = again if type(again) is type(error) and str(again) == str(error) else told
    except Exception:
        error = told
    return Failure(error, text)


def _processor() -> str:
    """Return the model of the processor, and the instructions that torch uses of it, which decide how scores are
    rounded.
    """
    import torch

    facts = Path("/proc/cpuinfo")
    told = facts.read_text(errors="replace") if facts.is_file() else ""
    names = re.search(r"^model name\s*:\s*(.+)$", told, re.MULTILINE)
    model = names[1].strip() if names else platform.processor() or platform.machine()
    return f"{model}, {torch.backends.cpu.get_cpu_capability()}"


def versions_here() -> dict[str, str]:
    """Return what scores depend on beside the model: versions of libraries, and a hash of the code of this package."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode())
        digest.update(path.read_bytes())
    code = {"pytest-genderbias with code": digest.hexdigest()[:12]}
    return {library: version(library) for library in _LIBRARIES} | code
