"""Kill runs, start each again, and compare its result with that of an uninterrupted run.

``python scripts/kill_test.py kills --workers 16 --kills 1000`` sends SIGKILL, SIGINT or SIGTERM, at a random moment or
at the k-th file operation, to runs that score with a cache, update baselines, mitigate with ``bias_runs``, or write a
JSON report; all but the first are whole runs of pytest. After each kill it reads what the run left, runs it again, and
compares the result bit for bit, apart from times. It prints a table:

- hit: the run was killed, and had not ended before;
- lost: what was stored before is gone or cannot be read, or the second run lacks something;
- wrong: the second run ends otherwise, or gives another result;
- foreign: a traceback that is not an error of this package, in either run, or a run that hangs;
- left: unfinished or superfluous files, or held locks, after the second run.

The exit status is 0 if every kill was done, and there is none of the last four. Runs are forked from processes that
have imported torch and transformers, so that a kill takes about a second. Only the demo models are used, without
network. ``--seed`` repeats the same kills, as far as moments can be repeated.

``python scripts/kill_test.py conditions`` runs the same places side by side, and short of memory, files, room or a home
(``hard_conditions.py``).

There is no HTML output yet, so none is killed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import forked_runs as runs
from forked_runs import PLACES, Place

SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
MOMENT, OPERATION = "moment", "operation"
PROBLEMS = ("lost", "wrong", "foreign", "left")
_OF_TWO_PATHS = ("os.rename", "os.link", "os.symlink")
_EVENTS = (
    *_OF_TWO_PATHS,
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.utime",
    "os.chmod",
    "os.truncate",
    "os.scandir",
    "os.listdir",
    "open",
)
_COUNTED_AFTERWARDS = ("replace", "rename", "unlink", "fsync")
_ATTEMPTS = 8  #: to hit a run before it ends


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run: what it started from, what it gives, and how long it takes."""

    start: dict[str, str]
    result: dict[str, str]
    status: int
    seconds: float
    operations: int


@dataclass
class Kill:
    """One kill, and what came of it."""

    place: str
    signal: str
    how: str
    hit: bool = False
    when: float = 0.0
    problems: dict[str, list[str]] = field(default_factory=dict)

    def note(self, problem: str, details: Sequence[str]) -> None:
        """Note a problem, if there are any details."""
        if details:
            self.problems.setdefault(problem, []).extend(details)


# File operations.


def count_operations(folder: Path, at: int, act: Callable[[], object]) -> Callable[[], int]:
    """Count file operations below a folder, before and after each, and act at one of them; return a function that
    returns the number.

    An audit hook sees what Python is about to do. It cannot be removed, so this is for a process of its own.
    """
    counted, prefix = [0], str(folder)

    def step() -> None:
        counted[0] += 1
        if counted[0] == at:
            act()

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        paths = arguments[: 2 if event in _OF_TWO_PATHS else 1]
        if event in _EVENTS and any(_is_below(path, prefix) for path in paths):
            step()

    def afterwards(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            returned = real(*arguments, **named)
            step()
            return returned

        return call

    for name in _COUNTED_AFTERWARDS:
        setattr(os, name, afterwards(getattr(os, name)))
    sys.addaudithook(hook)
    return lambda: counted[0]


def _is_below(argument: object, prefix: str) -> bool:
    if isinstance(argument, bytes):
        argument = os.fsdecode(argument)
    if not isinstance(argument, (str, os.PathLike)):
        return False
    path = os.fspath(argument)
    relative = not os.path.isabs(path) and not path.startswith("/dev")
    return relative or (path.startswith(prefix) and not path.endswith("/output"))


# Kills.


def prepared(place: Place, root: Path, templates: Path) -> Path:
    """Return the folder of a place as it is before the run. All runs of a process share its path, which results may
    hold.
    """
    folder = root / "sandbox"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(templates / place.name, folder, symlinks=True)
    return folder


def make_reference(place: Place, root: Path, templates: Path) -> Reference:
    """Prepare a place, and run it twice without a kill: to compare with, and to see that two runs are alike."""
    folder = root / "sandbox"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    place.prepare(folder)
    shutil.copytree(folder, templates / place.name, symlinks=True)
    start = place.result(folder)
    seconds, status = runs.timed(lambda: runs.in_child(folder, lambda: place.run(folder)).wait())
    result = place.result(folder)
    problems = [*runs.left_over(folder), *runs.foreign_errors(folder)]
    folder = prepared(place, root, templates)

    def counted() -> int:
        counter = count_operations(folder, 0, lambda: None)
        status = place.run(folder)
        (folder / "operations").write_text(str(counter()))
        return status

    runs.in_child(folder, counted).wait()
    problems += differences(result, place.result(folder))
    if problems or not all(result.values()):
        raise SystemExit(
            f"{place.name}: two runs without a kill: {'; '.join(problems) or result}\n{(folder / 'output').read_text()}"
        )
    return Reference(start, result, status, seconds, int((folder / "operations").read_text()))


def differences(wanted: dict[str, str], got: dict[str, str]) -> list[str]:
    """Return the names of what differs."""
    return [name for name in sorted({*wanted, *got}) if wanted.get(name) != got.get(name)]


def kill_once(place: Place, reference: Reference, kill: Kill, folder: Path, rng: random.Random) -> None:
    """Start a run, kill it, look at what it left, run it again, and compare."""
    number = signal.Signals[kill.signal]
    if kill.how == MOMENT:
        kill.when = rng.uniform(0, reference.seconds)
        child = runs.in_child(folder, lambda: place.run(folder))
        if not child.ended(kill.when):
            child.kill(number)
    else:
        at = rng.randint(1, reference.operations)
        kill.when = at
        child = runs.in_child(
            folder,
            lambda: place.run(folder),
            before=lambda: count_operations(folder, at, lambda: os.kill(os.getpid(), number)),
        )
    status = child.wait()
    kill.hit = status != reference.status
    if status == -1000:
        kill.note("foreign", [f"hangs after {kill.signal}"])
    kill.note("foreign", runs.foreign_errors(folder))
    kill.note("lost", lost(place, reference, folder, complete=False))
    status = runs.in_child(folder, lambda: place.run(folder)).wait()
    kill.note("foreign", ["the second run hangs"] if status == -1000 else runs.foreign_errors(folder))
    kill.note("lost", lost(place, reference, folder, complete=True))
    kill.note("wrong", [f"status {status}"] if status != reference.status else [])
    now = place.result(folder)
    kill.note("wrong", [name for name in differences(reference.result, now) if name in reference.result])
    kill.note("left", [*runs.left_over(folder), *sorted(now.keys() - reference.result.keys())])


def lost(place: Place, reference: Reference, folder: Path, complete: bool) -> list[str]:
    """Return what is stored neither as before the run nor as after it; after the second run, what is not there at all.

    The report of an interrupted run may hold what it measured so far.
    """
    now = place.result(folder)
    if complete:
        return [name for name in reference.result if not now.get(name)]
    return [
        name
        for name in sorted({*reference.start, *now})
        if not _is_kept(name, reference.start.get(name, ""), reference.result.get(name, ""), now.get(name, ""))
    ]


def _is_kept(name: str, before: str, after: str, now: str) -> bool:
    """Return whether a file is as before the run or as after it: as a whole, or a book entry by entry."""
    if now in (before, after) or (name.endswith("report.json") and _is_interrupted(now)):
        return True
    if name.endswith(".npz"):  # an item file of the old book, which the new one does not name
        return not after
    return '"entries"' in now and not _lost_entries(before, after, now)


def _is_interrupted(text: str) -> bool:
    try:
        return int(json.loads(text)["run"]["exit_status"]) != 0
    except (ValueError, KeyError, TypeError):
        return False


def _lost_entries(before: str, after: str, now: str) -> list[str]:
    """Return the entries of a book that are neither the old nor the new ones."""
    old, new, there = ({} if not text else json.loads(text)["entries"] for text in (before, after, now))
    return [name for name in {*old, *there} if there.get(name) not in (old.get(name), new.get(name))]


def jobs(kills: int, places: Sequence[str]) -> Iterator[Kill]:
    """Yield kills in equal parts of places, signals and ways to choose the moment."""
    kinds = [(place, number, how) for number in SIGNALS for how in (OPERATION, MOMENT) for place in places]
    for k in range(kills):
        place, number, how = kinds[k % len(kinds)]
        yield Kill(place, number.name, how)


def work(
    mine: Sequence[Kill], references: dict[str, Reference], root: Path, templates: Path, seed: int, until: float
) -> None:
    """Do kills one after another, and write each to ``kills.jsonl``."""
    rng = random.Random(seed)
    root.mkdir()
    with (root / "kills.jsonl").open("w") as lines:
        for kill in mine:
            if time.monotonic() > until:
                return
            for _ in range(_ATTEMPTS):
                folder = prepared(PLACES[kill.place], root, templates)
                kill_once(PLACES[kill.place], references[kill.place], kill, folder, rng)
                if kill.hit or kill.problems:
                    break
            print(json.dumps(asdict(kill)), file=lines, flush=True)


def kill_all(
    kills: int, workers: int, places: Sequence[str], root: Path, seed: int = 0, minutes: float = 60.0
) -> list[Kill]:
    """Do all kills with so many processes, and return those that were done in time."""
    until = time.monotonic() + 60 * minutes
    runs.warm_up()
    gc.freeze()
    templates = root / "templates"
    references = {name: make_reference(PLACES[name], root / "reference", templates) for name in places}
    for name, reference in references.items():
        print(f"{name}: {reference.seconds:.2f} s, {reference.operations} file operations", file=sys.stderr)
    everything = list(jobs(kills, places))
    pids = []
    for k in range(workers):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                work(everything[k::workers], references, root / f"worker-{k}", templates, 1000 * seed + k, until)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    done = [
        json.loads(line) for path in sorted(root.glob("worker-*/kills.jsonl")) for line in path.read_text().splitlines()
    ]
    return [Kill(**kill) for kill in done]


def show(kills: Sequence[Kill]) -> str:
    """Return the table of places and signals, and below it every problem."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for kill in kills:
        of_kind = counts.setdefault((kill.place, kill.signal, kill.how), Counter())
        of_kind.update(["kills"] + ["hit"] * kill.hit + list(kill.problems))
    columns = ("kills", "hit", *PROBLEMS)
    rows = [[*kind, *(count[column] for column in columns)] for kind, count in sorted(counts.items())]
    total = Counter[str]()
    for count in counts.values():
        total.update(count)
    rows.append(["all", "", "", *(total[column] for column in columns)])
    lines = [runs.table(rows, ("place", "signal", "at", *columns))]
    for kill in kills:
        for problem, details in kill.problems.items():
            lines.append(
                f"{problem}: {kill.place}, {kill.signal} at {kill.how} {kill.when:g}:"
                f" {'; '.join(dict.fromkeys(details))[:400]}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the two subcommands, print its table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    kills = commands.add_parser("kills", help="kill runs, and start them again")
    kills.add_argument("--kills", type=int, default=48)
    kills.add_argument("--workers", type=int, default=1)
    kills.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES))
    kills.add_argument("--seed", type=int, default=0)
    kills.add_argument("--minutes", type=float, default=60.0, help="start no kill after so many minutes")
    conditions = commands.add_parser("conditions", help="runs side by side, and short of something")
    conditions.add_argument("--only", default="", help="conditions whose name holds this text")
    for command in commands.choices.values():
        command.add_argument(
            "--folder", type=Path, help="where the runs work and are kept; a temporary folder by default"
        )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kill-test-") as temporary:
        root = Path(options.folder or temporary).resolve()
        root.mkdir(parents=True, exist_ok=True)
        if options.command == "conditions":
            from hard_conditions import check_all

            return check_all(root, options.only)
        done = kill_all(options.kills, options.workers, options.places, root, options.seed, options.minutes)
    print(show(done))
    complete = len(done) == options.kills
    if not complete:
        print(f"{options.kills - len(done)} kills were not done")
    return 0 if complete and not any(kill.problems for kill in done) else 1


if __name__ == "__main__":
    sys.exit(main())
