"""Score with Ray and without it, and compare: ``python scripts/ray_test.py equal|kills|node|ratio --model=DIR``. Needs the extra [ray].

``equal``: the bits of both. ``kills``: the bits, and what is scored twice, while a worker is killed every 20 seconds. ``node``: the bits
while a machine leaves a cluster of three. ``ratio``: the rate with one and two workers beside that of this process, in turns. ``tasks``:
as ``kills``, with Ray's tasks and their retries in the place of actors.
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.scoring.executor import Executor
from pytest_genderbias.scoring.ray_executor import RayExecutor

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
        f"{cases:,} cases: equal bits {same_bits(here, there)}; {seconds:.1f} s here, {scoring:.1f} s with {workers} workers, {total - scoring:.1f} s to start"
    )
    print(*there.notes, sep="\n")


@contextmanager
def killing(ready: Callable[[], list[tuple[str, int]]], every: float) -> Iterator[list[int]]:
    """Kill one of the workers that are ready every so many seconds."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(every):
            while not over.wait(0.05):
                if alive := [pid for _, pid in ready() if pid not in killed]:
                    os.kill(alive[0], signal.SIGKILL)
                    killed.append(alive[0])
                    break

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


class Counting:
    """An executor that counts the cases that workers were asked for, and those that were lost."""

    def __init__(self, executor: RayExecutor) -> None:
        self.executor, self.lost = executor, 0

    @contextmanager
    def open(self, task: Any) -> Iterator[Any]:
        """Count what the pool loses."""
        with self.executor.open(task) as pool:
            collect = pool.collect

            def counted() -> Any:
                scored = collect()
                self.lost += (scored.window.stop - scored.window.start) if scored.lost else 0
                return scored

            pool.collect = counted
            try:
                yield pool
            finally:
                del pool.collect


def kills(model: str, cases: int, workers: int, every: float) -> None:
    """Compare the figures while workers are killed."""
    here, seconds = measure(model, cases)
    with RayExecutor(workers=workers) as executor:
        counting = Counting(executor)
        measure(model, 64, counting)
        with killing(lambda: executor.ready, every) as killed:
            there, scoring = measure(model, cases, counting)
    print(
        f"{cases:,} cases: equal bits {same_bits(here, there)}; {seconds:.1f} s here, {scoring:.1f} s with {workers} workers, of which {len(killed)} were killed"
    )
    print(f"{counting.lost:,} cases scored again: {counting.lost / cases:.1%}")
    print(*there.notes, sep="\n")


def node(model: str, cases: int) -> None:
    """Compare the figures while a machine leaves the cluster: Ray's own cluster of several nodes on one machine."""
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
        removed = threading.Timer(4.0, lambda: cluster.remove_node(nodes[0], allow_graceful=False))
        removed.start()
        there, _ = measure(model, cases, executor)
        removed.join()
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
            f"{name:>12}: {cases / statistics.median(times):7.0f} cases/s, {statistics.median(ratios):.2f} of this process"
        )
    print(f"start-up: {statistics.median(starts):.1f} s")


def tasks(model: str, cases: int, workers: int, every: float) -> None:
    """Score windows as tasks of Ray, with a model in each process and Ray's own retries, while workers are killed; print what was repeated."""
    import tempfile

    import ray

    from pytest_genderbias import load_model, load_suite
    from pytest_genderbias.scoring.executor import windows
    from pytest_genderbias.scoring.ray_cluster import Cluster
    from pytest_genderbias.scoring.ray_worker import RayWorker, WantedModel
    from pytest_genderbias.suites.options import resolve_options

    suite, log = load_suite(SUITE), tempfile.mkdtemp()
    options = resolve_options(suite.family.options, dict(suite.defaults), suite.name)
    question = pickle.dumps((suite.family.space(suite.body, options), suite.family.query(suite.body, options), None))
    wanted = WantedModel.of(load_model(model, device="cpu"))

    def score(start: int, stop: int) -> tuple[int, int]:
        worker = globals().get("_WORKER")
        if worker is None:
            worker = globals()["_WORKER"] = RayWorker(1)
            worker.load(wanted)
            worker.ask(question)
            with open(f"{log}/loads", "a") as file:
                file.write(f"{os.getpid()}\n")
        with open(f"{log}/begun", "a") as file:
            file.write(f"{start} {stop}\n")
        worker.score(np.arange(start, stop))
        return start, stop

    cluster = Cluster("local", workers)
    cluster.connect()
    remote = ray.remote(num_cpus=1, max_calls=0, max_retries=10)(score)

    def ready() -> list[tuple[str, int]]:
        try:
            with open(f"{log}/loads") as file:
                pids = [int(line) for line in file]
        except OSError:
            return []
        return [("", pid) for pid in pids if os.path.exists(f"/proc/{pid}")]

    begun = time.perf_counter()
    with killing(ready, every) as killed:
        ray.get([remote.remote(*window) for window in windows(0, [cases], 512)])
    spent = time.perf_counter() - begun
    with open(f"{log}/begun") as file:
        total = sum(int(stop) - int(start) for start, stop in map(str.split, file))
    with open(f"{log}/loads") as file:
        loads = len(file.readlines())
    cluster.close()
    print(
        f"tasks: {cases:,} cases in {spent:.1f} s, {len(killed)} workers killed, {total - cases:,} cases scored again ({(total - cases) / cases:.1%}), model loaded {loads} times"
    )


def main() -> None:
    """Run what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("equal", "kills", "node", "ratio", "tasks"))
    parser.add_argument("--model", default="demo-nli")
    parser.add_argument("--cases", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two kills")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.what == "equal":
        equal(given.model, given.cases, given.workers)
    elif given.what == "kills":
        kills(given.model, given.cases, given.workers, given.every)
    elif given.what == "node":
        node(given.model, given.cases)
    elif given.what == "ratio":
        ratio(given.model, given.cases, given.rounds)
    else:
        tasks(given.model, given.cases, given.workers, given.every)


if __name__ == "__main__":
    sys.exit(main())
