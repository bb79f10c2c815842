"""Runs that are killed, in copies of one process that has loaded the demo model."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.scoring import engine

LIMIT, CHUNK, KILLS = 1280, 64, 3
UNASKED = "none: the scores of one suite are counted"


@cache
def suite_and_model() -> tuple:
    return load_suite("nli-occupation"), load_model("demo-nli", device="cpu")


class Told:
    """A progress that tells another process, at once: the cases found in the cache, then those that are scored."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    @contextmanager
    def __call__(self, label: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
        self.tell("found", done)
        yield lambda count: self.tell("scored", count)

    def tell(self, what: str, value: object) -> None:
        os.write(self.pipe, (json.dumps([what, value]) + "\n").encode())


class Run:
    """A process that measures, with the cache in a folder."""

    def __init__(self, folder: Path | None, before: Callable[[], object] = lambda: None) -> None:
        incoming, pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                before()
                found = measure(*suite_and_model(), limit=LIMIT, cache=folder, progress=Told(pipe), ability=UNASKED)
                summary = {"values": dict(found.values), "items": digest(found.items), "notes": list(found.notes)}
                Told(pipe).tell("summary", summary)
            finally:
                os._exit(0)
        os.close(pipe)
        self.lines, self.told = os.fdopen(incoming), []

    def wait(self, chunks: int) -> None:
        """Wait until so many chunks are scored; for none, until the scoring begins."""
        while len(self.told) <= chunks and (line := self.lines.readline()):
            self.told.append(json.loads(line))

    def kill(self) -> dict:
        os.kill(self.pid, signal.SIGKILL)
        return self.end()

    def end(self) -> dict:
        """Wait until the process is gone, and return what it told, and whether it was killed."""
        with self.lines:
            told = self.told + [json.loads(line) for line in self.lines if line.endswith("\n")]
        _, status = os.waitpid(self.pid, 0)
        found = [value for what, value in told if what == "found"]
        summary = [value for what, value in told if what == "summary"]
        return {
            "killed": os.WIFSIGNALED(status),
            "found": found[0] if found else None,
            "scored": sum(value for what, value in told if what == "scored"),
            "summary": summary[0] if summary else None,
        }


def digest(items: dict) -> dict:
    """Every figure of every item, exactly."""
    return {name: np.asarray(values).astype(str).tolist() for name, values in items.items()}


def kill_in_a_write() -> None:
    """Be killed when the second file of the suite's scores lies there as a temporary one.

    Before it are two files of the check of the labels, the description of the suite's entry, and its first scores.
    """
    fsync, calls = os.fsync, []

    def fifth_time_unlucky(handle: int) -> None:
        fsync(handle)
        calls.append(handle)
        if len(calls) == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = fifth_time_unlucky


def kill_again_and_again(folder: Path) -> dict:
    """Kill runs at random moments, before they are through."""
    whole = Run(None).end()
    random = np.random.default_rng(4)
    killed = []
    for chunks in random.integers(0, 4, KILLS):
        run = Run(folder)
        run.wait(chunks)
        time.sleep(random.uniform(0, 0.02))
        killed.append(run.kill())
    return {"whole": whole, "killed": killed, "last": Run(folder).end(), "again": Run(folder).end()}


def two_at_once(folder: Path) -> list[dict]:
    return [run.end() for run in [Run(folder), Run(folder)]]


def killed_beside_another(folder: Path) -> list[dict]:
    """One process works, another waits for it, the first is killed."""
    first = Run(folder)
    while not any(folder.glob(f"*/*-{CHUNK:010d}.npy")):  # of the suite, not of the check of the labels
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGSTOP)  # however fast the machine is, it is not through when it is killed
    second = Run(folder)
    time.sleep(0.2)
    return [first.kill(), second.end()]


def in_a_write(folder: Path) -> dict:
    killed = Run(folder, kill_in_a_write).end()
    left = sorted(path.name for path in folder.glob("*/.*-*"))
    return {
        "killed": killed,
        "left": left,
        "next": Run(folder).end(),
        "then": sorted(p.name for p in folder.glob("*/.*-*")),
    }


def without_room(folder: Path) -> dict:
    """No file may have more than 100 bytes."""
    return Run(folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))).end()


def all_of_them(root: Path) -> dict:
    """Return what became of all runs. For a process of its own: it changes the engine."""
    measure(
        *suite_and_model(), limit=CHUNK, cache=None
    )  # what is loaded for the first forward pass, each fork would load
    engine.WINDOW, engine._KEEP_EVERY = CHUNK, 0.0
    calls = (kill_again_and_again, two_at_once, killed_beside_another, in_a_write, without_room)
    return {call.__name__: call(root / call.__name__) for call in calls}
