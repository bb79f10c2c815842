"""Kill a long run ten times, then let it end: ``python benchmarks/kill_and_resume.py MODEL SUITE LIMIT``.

Every run is a process of its own, killed with SIGKILL at a random moment of its scoring. What was lost at each kill, in cases and in
seconds, is what the next run did not find in the cache. The exit status is 1 if the last run gives anything but what a run gives that
nobody disturbs, or if a kill lost more than a chunk.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any


class Child:
    """A process that measures, and what it told so far: (moment, cases there are)."""

    def __init__(self, arguments: argparse.Namespace, cache: Path) -> None:
        command = [
            sys.executable,
            __file__,
            arguments.model,
            arguments.suite,
            str(arguments.limit),
            "--cache",
            str(cache),
        ]
        command += [] if arguments.window is None else ["--window", str(arguments.window)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.events: list[tuple[float, int]] = []
        self.result: dict[str, Any] | None = None
        self._scoring = threading.Event()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                break
            told = json.loads(line)
            if "cases" in told:
                self.events.append((told["at"], told["cases"]))
                self._scoring.set()
            else:
                self.result = told
        self._scoring.set()

    def wait_for_scoring(self) -> None:
        """Wait until the scoring begins, or there was none."""
        self._scoring.wait()

    def kill(self) -> float:
        """Kill the process; return when."""
        self._process.kill()
        moment = time.monotonic()
        self.end()
        return moment

    def end(self) -> dict[str, Any] | None:
        """Wait for the process, and return its result."""
        self._listener.join()
        self._process.wait()
        return self.result


def main() -> int:
    """Kill, resume, compare; print a table."""
    parser = argparse.ArgumentParser(description="Kill a run ten times and see what is lost.")
    parser.add_argument("model")
    parser.add_argument("suite")
    parser.add_argument("limit", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the moments (default: 0)")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--window", type=int, help="cases that are scored together, if not as many as the engine takes")
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)  # given to a process that measures
    arguments = parser.parse_args()
    if arguments.cache is not None:
        measure_and_tell(arguments)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return kill_and_resume(arguments, Path(folder))


def kill_and_resume(arguments: argparse.Namespace, folder: Path) -> int:
    whole = Child(arguments, folder / "whole")
    expected = whole.end()
    if expected is None or not whole.events:
        print("the run that nobody disturbs has failed")
        return 1
    (start, _), (stop, total) = whole.events[0], whole.events[-1]
    span = stop - start
    chunk = expected["keep_every"] + longest_step(whole.events)
    print(
        f"undisturbed: {total:,} cases in {span:.1f} s; a chunk is what takes at most {chunk:.1f} s (a write is due every"
    )
    print(
        f"{expected['keep_every']:g} s, at the end of a window of scores, which took {longest_step(whole.events):.1f} s at most)\n"
    )
    moments = random.Random(arguments.seed)
    killed: list[tuple[Child, float]] = []
    for _ in range(arguments.kills):
        child = Child(arguments, folder / "killed")
        child.wait_for_scoring()
        time.sleep(moments.uniform(0, 1.6 * span / arguments.kills))
        killed.append((child, child.kill()))
    last = Child(arguments, folder / "killed")
    found = last.end()
    print("| kill | after s | found | there were | kept | lost cases | lost s |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for number, (child, moment) in enumerate(killed, 1):
        following = killed[number][0] if number < len(killed) else last
        if not child.events:
            print(f"| {number} | nothing was left to score |")
            continue
        kept = following.events[0][1] if following.events else total
        lost = moment - max(at for at, cases in child.events if cases <= kept)
        worst = max(worst, lost if kept < total else 0.0)
        began, there = child.events[0], child.events[-1][1]
        print(
            f"| {number} | {moment - began[0]:.1f} | {began[1]:,} | {there:,} | {kept:,} | {there - kept:,} | {lost:.1f} |"
        )
    equal = found is not None and found["result"] == expected["result"]
    left = last.events[0][1] if last.events else total
    print(
        f"\nthe last run found {left:,} of {total:,} cases; its result {'equals' if equal else 'DIFFERS FROM'} the undisturbed one;"
    )
    print(f"most work lost at a kill: {worst:.1f} s")
    return 0 if equal and worst <= chunk + 1.0 else 1


def longest_step(events: list[tuple[float, int]]) -> float:
    return max((late[0] - early[0] for early, late in pairwise(events)), default=0.0)


def measure_and_tell(arguments: argparse.Namespace) -> None:
    """Measure, telling on standard output how many cases there are, and at the end every figure."""
    from pytest_genderbias import measure
    from pytest_genderbias.scoring import engine

    if arguments.window is not None:
        engine.WINDOW = arguments.window

    @contextmanager
    def progress(label: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
        there = done

        def advance(count: int) -> None:
            nonlocal there
            there += count
            tell({"at": time.monotonic(), "cases": there})

        advance(0)
        yield advance

    found = measure(arguments.suite, arguments.model, limit=arguments.limit, cache=arguments.cache, progress=progress)
    items = {name: list(map(str, values)) for name, values in found.items.items()}
    result = {"values": dict(found.values), "items": items, "records": found.records}
    tell({"result": json.loads(json.dumps(result, default=str)), "keep_every": engine._KEEP_EVERY})


def tell(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    sys.exit(main())
