"""Runs side by side, and runs that are short of something: ``python scripts/kill_test.py conditions``.

The places are those of ``forked_runs.py``. Under every condition a run either gives what it gives otherwise, or ends
with an error of this package (where memory is short, of memory); nothing that was stored is lost; and the next run,
without the condition, gives what it gives otherwise and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import forked_runs as runs
from forked_runs import PLACES, Place
from kill_test import Reference, differences, lost, make_reference, prepared

_MEMORY = re.compile(r"MemoryError|allocate|Cannot allocate|not enough memory|could not create a primitive")
_YEAR = 365 * 86_400
_WORKERS = 4


@dataclass(frozen=True)
class Condition:
    """What a run is short of.

    Attributes:
        before: called in its process, before the run.
        environment: changed variables; ``None`` removes one.
        around: a context that is entered with the folder of the run.
        same: whether the run must give what it gives otherwise; else it may end with an error of its own.
        allowed: foreign errors that may be shown.
    """

    name: str
    places: tuple[str, ...] = tuple(PLACES)
    before: Callable[[], object] = lambda: None
    environment: Mapping[str, str | None] = field(default_factory=dict)
    around: Callable[[Path], object] | None = None
    same: bool = True
    allowed: re.Pattern[str] | None = None


@dataclass(frozen=True)
class Check:
    """A condition at a place; ``problems`` tries it, and returns what does not hold."""

    condition: str
    place: str
    problems: Callable[[], list[str]]


def _limit(kind: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (value, value))


def _little_memory() -> None:
    """Allow this process 48 MiB more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (48 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _nobody_at_home() -> None:
    """Let this process have no home: neither a variable nor an entry in the list of users."""

    def unknown(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    pwd.getpwuid = unknown  # type: ignore[assignment]


@contextmanager
def _full_cache(folder: Path) -> Iterator[None]:
    """Mount a file system of 64 KiB on the cache."""
    cache = folder / "cache"
    cache.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", cache], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", cache], check=True, capture_output=True)


def _in_the_future(folder: Path) -> None:
    """Give all files times that are still to come."""
    then = time.time() + _YEAR
    for path in folder.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


CONDITIONS = (
    Condition("64 open files", before=_limit(resource.RLIMIT_NOFILE, 64), same=False),
    Condition("48 MiB of memory", before=_little_memory, same=False, allowed=_MEMORY),
    Condition("files of 2 KiB at most", before=_limit(resource.RLIMIT_FSIZE, 2048), same=False),
    Condition("a full disk for the cache", ("scoring", "baseline update", "JSON report"), around=_full_cache),
    Condition("a home that cannot be written", environment={"HOME": "/proc/self", "XDG_CACHE_HOME": None}),
    Condition("a home that does not exist", environment={"HOME": "/proc/nowhere/home", "XDG_CACHE_HOME": None}),
    Condition("no home", before=_nobody_at_home, environment={"HOME": None, "XDG_CACHE_HOME": None}, same=False),
    Condition("no room for temporary files", environment={"TMPDIR": "/proc/self"}, same=False),
)


def check(condition: Condition, place: Place, reference: Reference, root: Path, templates: Path) -> list[str]:
    """Return what does not hold in a run under a condition, and in the next run without it."""
    folder = prepared(place, root, templates)

    def under_condition() -> int:
        child = runs.in_child(folder, lambda: place.run(folder), condition.before, condition.environment)
        return child.wait()

    if condition.around is None:
        status = under_condition()
    else:
        with condition.around(folder):  # type: ignore[attr-defined]
            status = under_condition()
    problems = [f"foreign: {line}" for line in runs.foreign_errors(folder) if not _is_allowed(line, condition)]
    result = place.result(folder)
    different = differences(reference.result, result)
    fails = status != reference.status or bool(runs.own_errors(folder))
    if different and (condition.same or not fails):
        problems += [f"wrong: {name}" for name in different]
    if status < 0 or (condition.same and status != reference.status):
        problems.append(f"ends with {status}: {_last_line(folder)}")
    if not condition.same:  # otherwise it is wrong, too
        problems += [f"lost: {name}" for name in lost(place, reference, folder, complete=False)]
    return problems + _next_run(place, reference, folder)


def _next_run(place: Place, reference: Reference, folder: Path) -> list[str]:
    status = runs.in_child(folder, lambda: place.run(folder)).wait()
    problems = [] if status == reference.status else [f"the next run ends with {status}: {_last_line(folder)}"]
    problems += [f"the next run, foreign: {line}" for line in runs.foreign_errors(folder)]
    problems += [f"the next run, wrong: {name}" for name in differences(reference.result, place.result(folder))]
    return problems + [f"left: {name}" for name in runs.left_over(folder)]


def _is_allowed(line: str, condition: Condition) -> bool:
    return condition.allowed is not None and bool(condition.allowed.search(line))


def _last_line(folder: Path) -> str:
    lines = (folder / "output").read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "no output"


def future_times(place: Place, reference: Reference, root: Path, templates: Path) -> list[str]:
    """Run once, give all files times in the future, as if the clock had been set back, and run again."""
    folder = prepared(place, root, templates)
    runs.in_child(folder, lambda: place.run(folder)).wait()
    _in_the_future(folder)
    return _next_run(place, reference, folder)


def side_by_side(reference: Reference, root: Path, templates: Path) -> list[str]:
    """Update each book by two of four runs at once, which share the cache; the books must be those of one run."""
    problems = []
    for _ in range(3):
        folder = prepared(PLACES["baseline update"], root, templates)
        children = []
        for number, (module, name) in enumerate(
            [(m, n) for m in ("first", "second") for n in ("nli-occupation.", f"{m}.")]
        ):
            children.append(runs.in_child(folder, lambda m=module, n=name: _part(m, n), output=f"output-{number}"))
        statuses = [child.wait() for child in children]
        problems += [f"a run ends with {status}" for status in statuses if status]
        for number in range(len(children)):
            problems += [f"foreign: {line}" for line in runs.foreign_errors(folder, f"output-{number}")]
        problems += [
            f"wrong: {name}" for name in differences(reference.result, PLACES["baseline update"].result(folder))
        ]
        problems += [f"left: {name}" for name in runs.left_over(folder)]
    return list(dict.fromkeys(problems))


def _part(module: str, name: str) -> int:
    models = [f"--bias-model={model}=models:new" for model in ("a", "b")]
    return runs.run_pytest(f"{module}.bias.yaml", "-k", name, *models, "--bias-update", "--bias-baseline=books")


def with_workers(reference: Reference, root: Path, templates: Path) -> list[str]:
    """Run pytest with four workers of xdist; the report must hold the same measurements and judgements."""
    place = PLACES["JSON report"]
    folder = prepared(place, root, templates)
    places = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        *runs.FIXED,
        "-p",
        "xdist.plugin",
        "-n",
        str(_WORKERS),
        *runs.report_arguments(),
    ]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **places}, capture_output=True, text=True, check=False
    )
    (folder / "output").write_text(done.stdout + done.stderr)
    problems = [] if done.returncode == reference.status else [f"ends with {done.returncode}: {_last_line(folder)}"]
    if _in_any_order(place.result(folder)["report.json"]) != _in_any_order(reference.result["report.json"]):
        problems.append("wrong: report.json")
    return problems + [f"left: {name}" for name in runs.left_over(folder)]


def _in_any_order(report: str) -> dict[str, object]:
    content = json.loads(report)
    return {key: sorted(map(repr, value)) if isinstance(value, list) else value for key, value in content.items()}


def all_checks(references: Mapping[str, Reference], root: Path, templates: Path) -> list[Check]:
    """Return every check."""
    checks = [
        Check(condition.name, name, partial(check, condition, PLACES[name], references[name], root, templates))
        for condition in CONDITIONS
        for name in condition.places
    ]
    for name, place in PLACES.items():
        checks.append(
            Check("file times in the future", name, partial(future_times, place, references[name], root, templates))
        )
    update, report = "baseline update", "JSON report"
    checks.append(Check("four runs side by side", update, partial(side_by_side, references[update], root, templates)))
    checks.append(Check(f"-n {_WORKERS}", report, partial(with_workers, references[report], root, templates)))
    return checks


def check_all(root: Path, only: str = "") -> int:
    """Check every condition, or those whose name holds a text, print a table, and return the exit status."""
    runs.warm_up()
    templates = root / "templates"
    references = {name: make_reference(place, root, templates) for name, place in PLACES.items()}
    rows, failed = [], False
    for one_check in all_checks(references, root, templates):
        if only not in one_check.condition:
            continue
        try:
            problems = one_check.problems()
        except subprocess.CalledProcessError as error:  # no right to mount
            rows.append([one_check.condition, one_check.place, f"not tried: {error.cmd[0]} fails"])
            continue
        failed = failed or bool(problems)
        rows.append([one_check.condition, one_check.place, "; ".join(dict.fromkeys(problems))[:300] or "holds"])
    print(runs.table(rows, ("condition", "place", "what does not hold")))
    return 1 if failed else 0
