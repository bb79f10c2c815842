"""Simulate a night of many models and suites, and write the tables of docs/scale.md.

    python scripts/scale.py             # prints the tables
    python scripts/scale.py --page      # writes them into docs/scale.md

Nothing is measured here. Seconds a case come from the calculated times of suites (docs/evidence/speed.md), windows and
their ends from the scoring engine, and the number of cases that decide a gate from the measured ones
(docs/evidence/gates-on-real-scores.md).
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from pytest_genderbias import load_suite
from pytest_genderbias.engines.ray_executor import EACH
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.fit import MACHINES, ONE_PASS, SIZES, main_question, work_of
from pytest_genderbias.scoring.engine import WINDOW, looks
from pytest_genderbias.scoring.executor import AHEAD, windows
from pytest_genderbias.statistics.inference.sequences import cases_to_decide
from pytest_genderbias.suites.query import (
    ClassProbabilities,
    PairProbabilities,
    PairSimilarity,
    SlotLogProbability,
    TopFills,
)

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
_BEGIN, _END = "<!-- tables of scripts/scale.py -->", "<!-- end -->"

#: Models of a night: of each size and role so many. 100 in all.
ROLES = {"masked-lm": 40, "nli-classifier": 25, "causal-lm": 25, "encoder": 10}
#: By query, those of them that can answer it.
ANSWERED = {
    ClassProbabilities: (),
    PairProbabilities: ("nli-classifier",),
    PairSimilarity: tuple(ROLES),
    SlotLogProbability: ("causal-lm", "masked-lm"),
    TopFills: ("masked-lm",),
}
#: The suites of the night: in English, and with one forward pass of each case, or of each of its texts.
SUITES = (
    "disco-names",
    "disco-terms",
    "lm-occupation",
    "nli-demonym",
    "nli-occupation",
    "nli-religion",
    "pronoun-occupation",
    "sts-occupation",
)
SHARES = (0.2, 0.4, 0.3, 0.1)  #: of the sizes tiny, small, base, large
TWO_CORES = "two cores"  #: the machine that a worker is where nothing else is said
NEW = 0.2  #: share of the models whose weights changed since the night before
DISTANCE = 0.1  #: standard deviation of the distance of a value from its limit
#: Measured: so many pairs decide a gate at this distance from the value.
DECIDED = (1_500, 0.02)
START = 6.0  #: seconds until a process has imported torch and transformers
LOAD = {"tiny": 0.1, "small": 0.3, "base": 1.0, "large": 3.0}  #: seconds to read and check a network
ENTRY = 3 * 4096  #: bytes of an entry of the cache beside its numbers: a description, a lock and the rest of a block
NIGHTS = 30  #: that a shared cache keeps


@dataclass(frozen=True)
class SuiteWork:
    """The main question of a suite: its cases, and what a stored score takes.

    ``early``: whether scoring may stop as soon as a gate is decided. ``bytes``: of the stored scores of a case.
    """

    name: str
    roles: tuple[str, ...]
    cases: int
    early: bool
    bytes: int
    operations: dict[str, float]

    def seconds(self, size: str, machine: str) -> float:
        """Return the calculated seconds of a case on a machine."""
        return self.operations[size] / self.cases / MACHINES[machine][size]


class Job(NamedTuple):
    """One suite on one model: ``cases`` are to be scored, of which the first ``enough`` decide.

    ``seconds``: of a case on one worker. ``load``: seconds until a running worker has the model. ``bytes``: of the
    stored scores of a case.
    """

    model: int
    cases: int
    enough: int
    seconds: float
    load: float
    bytes: int = 0


@dataclass
class Night:
    """A simulated night: its hours, and the hours of all workers by what they were spent on."""

    hours: float = 0.0
    scoring: float = 0.0
    loading: float = 0.0
    unused: float = 0.0  #: windows beyond the last one that a gate needed
    repeated: float = 0.0  #: windows that were lost with their worker

    def add(self, loading: float = 0.0, scoring: float = 0.0, repeated: float = 0.0, unused: bool = False) -> None:
        """Add seconds of a worker."""
        self.loading += loading / 3600
        self.repeated += repeated / 3600
        if unused:
            self.unused += scoring / 3600
        else:
            self.scoring += scoring / 3600


@cache
def suite_works() -> tuple[SuiteWork, ...]:
    """Return the suites of the night."""
    works = []
    for name in SUITES:
        question = main_question(load_suite(name))
        assert question is not None and question.cases is not None and isinstance(question.query, ONE_PASS)
        work, query = work_of(question.cases, question.query), question.query
        assert work is not None
        size = (query.width or 1) * np.dtype(query.dtype).itemsize
        operations = {name: work.operations(*shape) for name, shape in SIZES.items()}
        works.append(
            SuiteWork(name, ANSWERED[type(query)], question.cases.n_cases, not question.whole, size, operations)
        )
    return tuple(works)


def fleet(machine: str, stop: bool, new: float, generator: np.random.Generator) -> Iterator[Job]:
    """Yield the jobs of a night, model by model.

    Args:
        machine: what a worker is.
        stop: whether gates stop scoring when they are decided.
        new: share of the models that have no stored scores.
        generator: draws which models are new, and how far each value is from its limit.
    """
    sizes = generator.choice(len(SIZES), p=SHARES, size=sum(ROLES.values()))
    roles = [role for role, count in ROLES.items() for _ in range(count)]
    changed = generator.random(len(roles)) < new
    for model, (role, size) in enumerate(zip(roles, (list(SIZES)[i] for i in sizes), strict=True)):
        load = LOAD[size.split(",")[0]]
        for work in suite_works():
            if role not in work.roles:
                continue
            distance = abs(generator.normal(0, DISTANCE))
            enough = decided_after(work.cases, distance) if stop and work.early else work.cases
            if changed[model]:
                yield Job(model, work.cases, enough, work.seconds(size, machine), load, work.bytes)


def decided_after(cases: int, distance: float) -> int:
    """Return the number of cases that decide a gate at a distance from the value, as the measured number tells.

    >>> decided_after(2_000_000, 0.02), decided_after(2_000_000, 0.05), decided_after(300, 0.02)
    (1500, 241, 300)
    """
    measured, reach = DECIDED
    if cases <= measured:
        at_once = measured * (reach / max(distance, 1e-9)) ** 2
        return min(cases, max(64, math.ceil(at_once)))
    if distance >= reach:
        return max(64, math.ceil(measured * (reach / distance) ** 2))
    return cases_to_decide(measured, (-reach, reach), 0.0, distance, cases) or cases


def pieces(job: Job) -> Iterator[int]:
    """Yield the sizes of the windows of a job, in order: all of them, also those that nobody needs."""
    ends: Iterable[int] = looks(job.cases, 1) if job.enough < job.cases else (job.cases,)
    for window in windows(0, ends, WINDOW):
        yield window.stop - window.start


# Ways to share the work.


def together(jobs: Sequence[Job], workers: int, lost_every: float, generator: np.random.Generator) -> Night:
    """Simulate one run at a time, whose windows all workers share, as with ``bias_executor=ray``.

    Args:
        jobs: the jobs, in order.
        workers: number of workers.
        lost_every: mean hours after which a worker is lost while it scores.
        generator: draws the losses.
    """
    crew, night = _Crew(workers), Night()
    for job in jobs:
        crew.begin = crew.take(job, night, lost_every, generator)
    night.hours = crew.begin / 3600
    return night


class _Crew:
    """Workers that share the windows of one run after another. ``begin``: when the last one was decided, in seconds."""

    def __init__(self, workers: int) -> None:
        self.begin = 0.0
        self._free = [START] * workers
        self._loaded: dict[int, int] = {}

    def take(self, job: Job, night: Night, lost_every: float, generator: np.random.Generator) -> float:
        """Score a run, add what that took to the night, and return when it is decided."""
        free, loaded = self._free, self._loaded
        free[:] = [max(time, self.begin) for time in free]
        asking = [(time, nth, worker) for nth in range(EACH) for worker, time in enumerate(free)]
        heapq.heapify(asking)
        needed = needed_windows(job)
        front = self.begin
        for number, cases in enumerate(islice(pieces(job), needed + AHEAD * EACH * len(free))):
            asked, nth, worker = asking[0]
            if number >= needed and asked >= front:
                break  # the gate is decided before a worker asks for more
            time = free[worker]
            if number >= needed and time >= front:
                heapq.heapreplace(asking, (math.inf, nth, worker))
                continue  # it waits at a worker when the gate is decided, and is taken back
            load = 0.0 if loaded.get(worker) == job.model else job.load
            scoring = cases * job.seconds
            repeated = _lost(scoring, lost_every, generator)
            again = 0.0 if repeated == 0.0 else START + job.load
            loaded[worker] = job.model
            free[worker] = time + load + scoring + repeated + again
            heapq.heapreplace(asking, (free[worker], nth, worker))
            if number < needed:
                front = max(front, free[worker])
            night.add(load + again, scoring, repeated, unused=number >= needed)
        return front


def apart(jobs: Sequence[Job], workers: int, lost_every: float, generator: np.random.Generator) -> Night:
    """Simulate a process a worker, each of which takes the next model when it is free, as with a matrix of CI jobs.

    Arguments as :func:`together`.
    """
    free = [0.0] * workers
    night = Night()
    for _, of_model in groupby(jobs, key=lambda job: job.model):
        time = heapq.heappop(free)
        load: float | None = None
        for job in of_model:
            if load is None:
                load = START + job.load
                night.add(loading=load)
                time += load
            for cases in islice(pieces(job), needed_windows(job)):
                scoring = cases * job.seconds
                repeated = _lost(scoring, lost_every, generator)
                again = 0.0 if repeated == 0.0 else START + job.load
                night.add(again, scoring, repeated)
                time += scoring + repeated + again
        heapq.heappush(free, time)
    night.hours = max(free) / 3600
    return night


def needed_windows(job: Job) -> int:
    """Return the number of windows until the look after which a gate is decided."""
    done = 0
    for number, cases in enumerate(pieces(job), 1):
        done += cases
        if done >= job.enough:
            return number
    return number


def _lost(seconds: float, lost_every: float, generator: np.random.Generator) -> float:
    """Return the seconds of a window that are lost with its worker; mostly none."""
    until = generator.exponential(lost_every * 3600) if math.isfinite(lost_every) else math.inf
    return until if until < seconds else 0.0


#: Simulates a night: the jobs, workers, hours between two losses of one, and what draws them.
Way = Callable[[Sequence["Job"], int, float, np.random.Generator], Night]


# Tables.


def night_of(
    machine: str,
    workers: int,
    *,
    stop: bool = True,
    new: float = NEW,
    way: Way | None = None,
    lost_every: float = math.inf,
) -> Night:
    """Simulate the night of the fleet, always the same one for the same arguments, by default a model each."""
    jobs = list(fleet(machine, stop, new, np.random.default_rng(0)))
    return (way or apart)(jobs, workers, lost_every, np.random.default_rng(1))


def stored_bytes(stop: bool, new: float) -> float:
    """Return the bytes that a night adds to the score cache."""
    jobs = fleet(TWO_CORES, stop, new, np.random.default_rng(0))
    return sum(ENTRY + job.bytes * sum(islice(pieces(job), needed_windows(job))) for job in jobs)


def savings() -> str:
    """Return the table of what early stopping and the cache save, in hours of one worker."""
    ways = (
        ("every case of every model", False, 1.0),
        (f"{NEW:.0%} of the models are new", False, NEW),
        ("gates stop when they are decided", True, 1.0),
        ("both", True, NEW),
    )
    rows = []
    for label, stop, new in ways:
        nights = [night_of(machine, 1, stop=stop, new=new) for machine in MACHINES]
        rows.append([label, *(_hours(night.hours) for night in nights), _size(stored_bytes(stop, new))])
    return _table(rows, ["", *MACHINES, "added to the cache"])


def sharing() -> str:
    """Return the table of the ways to share the work, by the number of workers with two cores."""
    rows = []
    for stop in (False, True):
        for workers in (1, 4, 16, 64):
            nights = [night_of(TWO_CORES, workers, stop=stop, way=way) for way in (apart, together)]
            what = "gates stop" if stop else "every case"
            waste = nights[1].unused / (nights[1].scoring + nights[1].unused)
            rows.append([what, workers, *(_hours(night.hours) for night in nights), f"{waste:.1%}"])
    return _table(rows, ["", "workers", "a model each", "a window each", "in vain by windows"])


def losses() -> str:
    """Return the table of what lost workers cost, with every case scored by 16 workers."""
    rows = []
    for lost_every in (math.inf, 10.0, 1.0, 0.1):
        night = night_of(TWO_CORES, 16, stop=False, way=together, lost_every=lost_every)
        label = "never" if math.isinf(lost_every) else f"{60 * lost_every:g} min"
        again = night.repeated / (night.scoring + night.repeated)
        rows.append([label, _hours(night.hours), f"{again:.2%}", _hours(night.loading)])
    return _table(rows, ["a worker is lost every", "night", "scored again", "loading, all workers"])


def shared_cache() -> str:
    """Return the table of what a cache of many nights holds."""
    rows = [
        [label, _size(stored_bytes(stop, 1.0) + (NIGHTS - 1) * stored_bytes(stop, NEW))]
        for label, stop in (("every case", False), ("gates stop", True))
    ]
    return _table(rows, ["", f"{NIGHTS} nights, {NEW:.0%} of the models new in each"])


def tables() -> str:
    """Return the part of the page that is generated."""
    works = suite_works()
    per_role = {role: sum(role in work.roles for work in works) for role in ROLES}
    fit = ", ".join(
        f"{count} models of the kind {role} with {per_role[role]} suites each" for role, count in ROLES.items()
    )
    about = (
        f"The night: {fit}. Sizes:"
        f" {', '.join(f'{share:.0%} {size}' for share, size in zip(SHARES, SIZES, strict=True))}. Only"
        " suites in English that take one forward pass for each known case are in it: others take more, train,"
        " generate, read a corpus or need data. A worker has two cores where nothing else is said. A time of 16 cores"
        " is calculated."
    )
    parts = (
        ("What early stopping and the cache save", savings()),
        ("A model each, or a window each", sharing()),
        ("Lost workers", losses()),
        ("A shared cache", shared_cache()),
    )
    return "\n\n".join([about, *(f"## {title}\n\n{table}" for title, table in parts)])


def _table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    return tabulate(rows, headers, tablefmt="github", disable_numparse=True)


def _hours(hours: float) -> str:
    """Return a time with two digits.

    >>> _hours(12.34), _hours(0.5), _hours(0.001)
    ('12 h', '30 min', '3.6 s')
    """
    seconds = hours * 3600
    unit, number = next(
        (unit, seconds / size) for unit, size in (("h", 3600), ("min", 60), ("s", 1)) if seconds >= size or unit == "s"
    )
    return f"{float(f'{number:.2g}'):,g} {unit}"


def _size(count: float) -> str:
    unit, number = next(
        (unit, count / size) for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)) if count >= size or unit == "kB"
    )
    return f"{float(f'{number:.2g}'):,g} {unit}"


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help=f"write them into {PAGE.name}")
    if not parser.parse_args().page:
        print(tables())
        return
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    write_whole(PAGE, f"{before}{_BEGIN}\n\n{tables()}\n\n{_END}{after}".encode())


if __name__ == "__main__":
    main()
