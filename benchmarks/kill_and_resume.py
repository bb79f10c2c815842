"""Kill a long run ten times, then let it finish: ``python benchmarks/kill_and_resume.py MODEL SUITE LIMIT``.

Every run is a process of its own, killed with SIGKILL at a random moment of its scoring. The loss at each kill, in
cases and in seconds, is the work that the next run does not find in the cache. The exit status is 1 if the result of
the last run differs from that of an undisturbed run, or if a kill lost more than a chunk.
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
    """A process that measures, and its reports so far: (moment, number of scored cases)."""

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
            report = json.loads(line)
            if "cases" in report:
                self.events.append((report["at"], report["cases"]))
                self._scoring.set()
            else:
                self.result = report
        self._scoring.set()

    def wait_for_scoring(self) -> None:
        """Wait until the scoring begins, or the process ends without any."""
        self._scoring.wait()

    def kill(self) -> float:
        """Kill the process, and return the moment."""
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
    parser = argparse.ArgumentParser(description="Kill a run ten times, and measure the lost work.")
    parser.add_argument("model")
    parser.add_argument("suite")
    parser.add_argument("limit", type=int)
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments (default: 0)")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument(
        "--window", type=int, help="number of cases that are scored together (default: that of the engine)"
    )
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)  # passed to the processes that measure
    arguments = parser.parse_args()
    if arguments.cache is not None:
        measure_and_report(arguments)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return kill_and_resume(arguments, Path(folder))


def kill_and_resume(arguments: argparse.Namespace, folder: Path) -> int:
    whole = Child(arguments, folder / "whole")
    expected = whole.end()
    if expected is None or not whole.events:
        print("the undisturbed run failed")
        return 1
    (start, _), (stop, total) = whole.events[0], whole.events[-1]
    span = stop - start
    chunk = expected["keep_every"] + longest_step(whole.events)
    print(
        f"undisturbed: {total:,} cases in {span:.1f} s; a chunk takes at most {chunk:.1f} s (scores are written every"
    )
    print(
        f"{expected['keep_every']:g} s, at the end of a window, which took at most {longest_step(whole.events):.1f}"
        " s)\n"
    )
    moments = random.Random(arguments.seed)
    killed: list[tuple[Child, float]] = []
    for _ in range(arguments.kills):
        child = Child(arguments, folder / "killed")
        child.wait_for_scoring()
        time.sleep(moments.uniform(0, 1.6 * span / arguments.kills))
        killed.append((child, child.kill()))
    last = Child(arguments, folder / "killed")
    result = last.end()
    print("| kill | after s | cases found | cases scored | cases kept | cases lost | lost s |")
    print("|---|---|---|---|---|---|---|")
    worst = 0.0
    for number, (child, moment) in enumerate(killed, 1):
        following = killed[number][0] if number < len(killed) else last
        if not child.events:
            print(f"| {number} | nothing was left to score |")
            continue
        cached = following.events[0][1] if following.events else total
        lost = moment - max(at for at, cases in child.events if cases <= cached)
        worst = max(worst, lost if cached < total else 0.0)
        began, scored = child.events[0], child.events[-1][1]
        print(
            f"| {number} | {moment - began[0]:.1f} | {began[1]:,} | {scored:,} | {cached:,} | {scored - cached:,} |"
            f" {lost:.1f} |"
        )
    equal = result is not None and result["result"] == expected["result"]
    left = last.events[0][1] if last.events else total
    print(
        f"\nthe last run found {left:,} of {total:,} cases in the cache; its result"
        f" {'equals' if equal else 'DIFFERS FROM'} the undisturbed one;"
    )
    print(f"most work lost at a kill: {worst:.1f} s")
    return 0 if equal and worst <= chunk + 1.0 else 1


def longest_step(events: list[tuple[float, int]]) -> float:
    return max((late[0] - early[0] for early, late in pairwise(events)), default=0.0)


def measure_and_report(arguments: argparse.Namespace) -> None:
    """Measure; print the number of scored cases after each step, and all figures at the end."""
    from pytest_genderbias import measure
    from pytest_genderbias.scoring import engine

    if arguments.window is not None:
        engine.WINDOW = arguments.window

    @contextmanager
    def progress(label: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
        scored = done

        def advance(count: int) -> None:
            nonlocal scored
            scored += count
            report({"at": time.monotonic(), "cases": scored})

        advance(0)
        yield advance

    measurement = measure(
        arguments.suite, arguments.model, limit=arguments.limit, cache=arguments.cache, progress=progress
    )
    items = {name: list(map(str, values)) for name, values in measurement.items.items()}
    result = {"values": dict(measurement.values), "items": items, "records": measurement.records}
    report({"result": json.loads(json.dumps(result, default=str)), "keep_every": engine._KEEP_EVERY})


def report(content: dict[str, Any]) -> None:
    print(json.dumps(content), flush=True)


if __name__ == "__main__":
    sys.exit(main())
