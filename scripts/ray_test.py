"""Score with Ray and without it, and compare: ``python scripts/ray_test.py equal|kills|node|ratio --model=DIR``. Needs
the extra [ray].

``equal``: the bits of both. ``kills``: the bits, the time, what is scored twice and how often the model is loaded while
workers are killed, with actors as the product has them, and with Ray's tasks and their own retries in their place.
``node``: the bits while a machine leaves a cluster of three. ``ratio``: the rate with one and two workers beside that
of this process, in turns.

Of ``kills``: every so many seconds after all workers have the model, one of them is killed. What is scored twice is
measured: each worker writes to a file when it begins a window and each batch of it, which a kill does not take back. Of
a window that was begun, the cases count by the share of its tokens whose batches were begun.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pickle
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from tabulate import tabulate

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.engines import ray_executor
from pytest_genderbias.engines.ray_cluster import joined_cluster
from pytest_genderbias.engines.ray_executor import Failure, Loaded, RayExecutor, RayWorker, WantedModel
from pytest_genderbias.errors import ExecutorError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring import engine
from pytest_genderbias.scoring.engine import ScoreSettings, answer, random_order
from pytest_genderbias.scoring.executor import Executor, Scored, windows
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.suites.cases import IntArray, Question
from pytest_genderbias.suites.family import Context, resolve_options
from pytest_genderbias.suites.query import Query
from pytest_genderbias.suites.space import CaseSpace

SUITE = "nli-occupation"


def measure(model: str, cases: int, executor: Executor | None = None, seed: int = 0) -> tuple[Measurement, float]:
    """Measure without a cache, and return the seconds, too; model and workers are loaded before."""
    runner = Runner(score=RunSettings(cache=None, seed=seed), executor=executor, threads=1)
    runner.measure(SUITE, model, {"limit": 64})
    start = time.perf_counter()
    return runner.measure(SUITE, model, {"limit": cases}), time.perf_counter() - start


def same_bits(one: Measurement, other: Measurement) -> bool:
    """Return whether all figures of all items are the same, to the last bit."""
    return one.values == other.values and all(
        np.asarray(values).tobytes() == np.asarray(other.items[name]).tobytes() for name, values in one.items.items()
    )


def equal(model: str, cases: int, workers: int) -> None:
    """Compare the figures."""
    here, seconds = measure(model, cases)
    start = time.perf_counter()
    with RayExecutor(workers=workers) as executor:
        there, scoring = measure(model, cases, executor)
        total = time.perf_counter() - start
    print(
        f"{cases:,} cases: equal bits {same_bits(here, there)}; {seconds:.1f} s here, {scoring:.1f} s with {workers}"
        f" workers, {total - scoring:.1f} s to start"
    )
    print(*there.notes, sep="\n")


@dataclass(frozen=True)
class Log:
    """What workers write while they score: a file for each process, with a line for each step."""

    folder: Path

    def write(self, *words: object) -> None:
        """Add a line to the file of this process."""
        with (self.folder / str(os.getpid())).open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def steps(self) -> dict[int, list[list[str]]]:
        """Return the lines of each process."""
        return {
            int(path.name): [line.split() for line in path.read_text().splitlines()] for path in self.folder.iterdir()
        }

    def loads(self) -> int:
        """Return how often a process loaded the model."""
        return sum(step == ["load"] for steps in self.steps().values() for step in steps)

    def loaded(self) -> list[int]:
        """Return the processes that are alive and have the model."""
        return [pid for pid, steps in self.steps().items() if ["load"] in steps and _is_alive(pid)]

    def scored(self) -> float:
        """Return how many cases were scored, those of an unfinished window by the share of its tokens in batches that
        were begun.
        """
        return sum(_scored_by(steps) for steps in self.steps().values())


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _scored_by(steps: list[list[str]]) -> float:
    """Return how many cases a process scored.

    >>> _scored_by([["load"], ["begin", "512"], ["rows", "90"], ["batch", "90"], ["rows", "1000"], ["batch", "600"],
    ...             ["batch", "400"], ["end"], ["begin", "512"], ["rows", "1000"], ["batch", "250"]])
    640.0
    """
    cases, total, begun, done = 0, 0, 0, 0.0
    for step, *number in steps:
        if step == "begin":
            cases, total, begun = int(number[0]), 0, 0
        elif step == "rows" and int(number[0]) > total:  # the first ones are those of the trial of hooks
            total, begun = int(number[0]), 0
        elif step == "batch":
            begun += int(number[0])
        elif step == "end":
            done, cases = done + cases, 0
    return done + (cases * min(1.0, begun / total) if total else 0.0)


def logging_worker(log: Log) -> type[RayWorker]:
    """Return the class of workers that write a log. Ray sends it to them as it is."""

    class LoggingWorker(RayWorker):
        def begin(self, wanted: WantedModel, question: bytes) -> Loaded | Failure:
            before = self._model
            answer = super().begin(wanted, question)
            if self._model is not before:
                log.write("load")
            return answer

        def score(self, units: IntArray) -> Any:
            log.write("begin", len(units))
            with patch.object(Batches, "run", logging_run):
                answer = super().score(units)
            log.write("end")
            return answer

    pass_all = Batches.run

    def logging_run(batches: Batches, lengths: Any, step: Callable[[Any], None], *rest: Any, **named: Any) -> None:
        def logged(rows: Any) -> None:
            log.write("batch", int(lengths[rows].sum()))
            step(rows)

        log.write("rows", int(lengths.sum()))
        pass_all(batches, lengths, logged, *rest, **named)

    return LoggingWorker


@contextmanager
def killing(log: Log, workers: int, every: float) -> Iterator[list[int]]:
    """Kill one of the workers every so many seconds, which begin when all of them have the model."""
    killed: list[int] = []
    over, random = threading.Event(), np.random.default_rng(0)

    def kill() -> None:
        while not over.wait(0.1):
            if len(log.loaded()) < workers:
                continue
            if over.wait(every):
                return
            if alive := sorted(log.loaded()):
                killed.append(int(random.choice(alive)))
                os.kill(killed[-1], signal.SIGKILL)
                while _is_alive(killed[-1]):
                    time.sleep(0.01)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@dataclass
class Trial:
    """One way of scoring while workers are killed. ``scored``: cases in all; ``killed``: processes."""

    log: Log
    workers: int
    every: float
    seconds: float = 0.0
    scored: float = 0.0
    killed: list[int] = field(default_factory=list)

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Kill workers, and take the time and what is scored."""
        before, start = self.log.scored(), time.perf_counter()
        with killing(self.log, self.workers, self.every) as self.killed:
            try:
                yield
            finally:
                self.seconds = time.perf_counter() - start
        self.scored = self.log.scored() - before


@dataclass(frozen=True)
class Job:
    """The first cases of the suite in their random order. ``most``: seconds after which whatever scores them is
    stopped.
    """

    model: Model
    cases: int
    workers: int
    most: float

    @property
    def asked(self) -> tuple[CaseSpace, Query, str]:
        """The cases, the question, and the digest of the suite."""
        suite = load_suite(SUITE)
        options = resolve_options(suite.family.options, dict(suite.defaults), suite.name)
        asked = suite.family.questions(suite.body, options, Context("any"))["cases"]
        assert isinstance(asked.cases, CaseSpace)
        return asked.cases, asked.query, suite.digest

    def score(self, executor: Executor | None = None, limit: int | None = None) -> NDArray[np.generic]:
        """Score them as the product does, without the cache, and print its remarks."""
        space, query, digest = self.asked
        settings = ScoreSettings(limit or self.cases, executor=executor)
        scored, notes = answer(Question(space, query), self.model, digest, settings, SUITE)
        if limit is None and notes:
            print(*notes, sep="\n")
        return scored.values


def with_actors(job: Job, trial: Trial) -> NDArray[np.generic] | None:
    """Score as the product does, once all workers have the model; ``None`` if time ran out."""
    with (
        patch.object(ray_executor, "RayWorker", logging_worker(trial.log)),
        RayExecutor(workers=job.workers) as executor,
    ):
        while len(trial.log.loaded()) < job.workers:
            job.score(executor, 64)
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            executor.close()

        limit = threading.Timer(job.most, stop)
        with trial.under_way():
            limit.start()
            try:
                return job.score(executor)
            except ExecutorError:
                if not stopped.is_set():
                    raise
                return None
            finally:
                limit.cancel()


def with_tasks(job: Job, trial: Trial) -> NDArray[np.generic] | None:
    """Score windows as tasks of Ray, with a model in each process and Ray's own retries; ``None`` if time ran out."""
    import ray

    space, query, digest = job.asked
    question, wanted = pickle.dumps((space, query, None)), WantedModel.of(job.model)
    make_worker = logging_worker(trial.log)

    def score(units: IntArray) -> Any:
        worker = globals().get("_WORKER")
        if worker is None:
            worker = globals()["_WORKER"] = make_worker(1)
            worker.load(wanted)
            worker.ask(question)
        return worker.score(units)

    with joined_cluster("local", job.workers):
        remote = ray.remote(num_cpus=1, max_calls=0, max_retries=-1)(score)
        units = random_order(space.n_units, digest, 0)[: job.cases]
        while len(trial.log.loaded()) < job.workers:
            ray.get([remote.remote(units[:64]) for _ in range(2 * job.workers)])
        with trial.under_way():
            asked = [remote.remote(units[slice(*window)]) for window in windows(0, [job.cases], engine.WINDOW)]
            _, missing = ray.wait(asked, num_returns=len(asked), timeout=job.most)
            return None if missing else np.concatenate([values for values, _ in ray.get(asked)])


WAYS = {"actors": with_actors, "tasks": with_tasks}


def kills(job: Job, every: float, ways: list[str]) -> None:
    """Compare the bits, the time and what is repeated while workers are killed, and print a row for each way."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    here = job.score()
    rows: list[list[object]] = [["this process", time.perf_counter() - start]]
    for way in ways:
        with TemporaryDirectory() as folder:
            trial = Trial(Log(Path(folder)), job.workers, every)
            values = WAYS[way](job, trial)
            counts = [trial.seconds, len(trial.killed), trial.log.loads()]
        if values is None:
            rows.append([f"{way}, stopped", *counts, None, None, f"not done: {trial.scored:,.0f} scored"])
        else:
            twice = trial.scored - job.cases
            rows.append([way, *counts, twice, f"{twice / job.cases:.1%}", same_values(here, values)])
    names = [
        f"{job.cases:,} cases, {job.workers} workers",
        "seconds",
        "killed",
        "model loads",
        "scored twice",
        "share",
        "equal bits",
    ]
    print(tabulate(rows, names, "github", floatfmt=("", ".1f", "", "", ".0f")))


def same_values(one: NDArray[np.generic], other: NDArray[np.generic]) -> bool:
    """Return whether all scores are the same, to the last bit."""
    return one.tobytes() == other.reshape(one.shape).tobytes()


def node(model: str, cases: int) -> None:
    """Compare the figures while a machine leaves the cluster after a quarter of the windows: Ray's own cluster of
    several nodes on one machine.
    """
    os.environ |= {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "disabled",
    }  # on the loopback interface only
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray spells it so; it would give way to everything else
    from ray.cluster_utils import Cluster

    here, _ = measure(model, cases)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    with RayExecutor(cluster.address, workers=2) as executor:
        measure(model, 64, executor)
        collect, answers, quarter = ray_executor.Crew.collect, itertools.count(1), max(1, cases // engine.WINDOW // 4)

        def counted(crew: ray_executor.Crew) -> Scored:
            if next(answers) == quarter:
                cluster.remove_node(nodes[0], allow_graceful=False)
            return collect(crew)

        with patch.object(ray_executor.Crew, "collect", counted):
            there, _ = measure(model, cases, executor)
        print(f"{cases:,} cases: equal bits {same_bits(here, there)}; workers left: {len(executor.ready)}")
    cluster.shutdown()
    print(*there.notes, sep="\n")


def ratio(model: str, cases: int, rounds: int) -> None:
    """Time this process, one worker and two workers in turns, and print the rates and their ratios."""
    seconds: dict[str, list[float]] = {"this process": [], "1 worker": [], "2 workers": []}
    starts = []
    for turn in range(rounds):
        seconds["this process"].append(measure(model, cases, seed=turn)[1])
        for workers in (1, 2):
            start = time.perf_counter()
            with RayExecutor(workers=workers) as executor:
                _, scoring = measure(model, cases, executor, seed=turn)
                starts.append(time.perf_counter() - start - scoring)
            seconds[f"{workers} worker{'s'[: workers - 1]}"].append(scoring)
    for name, times in seconds.items():
        ratios = [one / other for one, other in zip(seconds["this process"], times, strict=True)]
        print(
            f"{name:>12}: {cases / statistics.median(times):7.0f} cases/s, {statistics.median(ratios):.2f} of this"
            " process"
        )
    print(f"start-up: {statistics.median(starts):.1f} s")


def main() -> None:
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("equal", "kills", "node", "ratio"))
    parser.add_argument("--model", default="demo-nli")
    parser.add_argument("--cases", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=float, default=20.0, help="seconds from all workers being ready to a kill")
    parser.add_argument("--most", type=float, default=300.0, help="seconds after which a way of kills is stopped")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of kills")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "equal":
        equal(given.model, given.cases, given.workers)
    elif given.what == "kills":
        job = Job(load_model(given.model, device="cpu"), given.cases, given.workers, given.most)
        kills(job, given.every, given.ways)
    elif given.what == "node":
        node(given.model, given.cases)
    else:
        ratio(given.model, given.cases, given.rounds)


if __name__ == "__main__":
    sys.exit(main())
