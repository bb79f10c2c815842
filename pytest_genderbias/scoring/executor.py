"""The seam between the engine and where windows of cases are scored: in this process, or by workers elsewhere.

The engine cuts the random order into windows. A pool scores windows in any order; :func:`in_order` hands them out and
returns them in their order, so that the cache, early stopping and errors see what they would see with one process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ScoreError
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorer import CountNote, Progress
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import Query

#: Windows that a pool may be ahead of the first incomplete one, for each that it scores at once.
AHEAD = 2
#: Workers that may be lost with one window, before it is given up. Machines that are taken away now and then end two or
#: three by chance.
MOST_LOSSES = 5


class Window(NamedTuple):
    """A range of units in the random order, ``stop`` not included."""

    start: int
    stop: int


@dataclass(frozen=True)
class Task:
    """A task to score: the cases of one question, by one model.

    ``batch_tokens``: tokens in a batch (``None``: found automatically). ``cache``: folder for heads that a scorer
    trains, or ``None``. ``progress``: shows how far the training of a head is, or ``None``.
    """

    cases: Cases
    query: Query
    model: Model
    batch_tokens: int | None = None
    cache: Path | None = None
    progress: Progress | None = None


@dataclass(frozen=True)
class Scored:
    """Result of a window.

    Attributes:
        window: the window.
        values: scores of its cases, shape (cases, width of the query); ``None`` if there are none.
        notes: the remarks of the scorer so far.
        worker: who scored it. The remarks of each worker are counted once.
        error: the error that scoring it raised. It is raised when all windows before this one are complete.
        lost: why the worker ended with this window; empty if it did not. The window is scored again.
    """

    window: Window
    values: NDArray[np.generic] | None = None
    notes: Sequence[str] = ()
    worker: str = ""
    error: Exception | None = None
    lost: str = ""


class Pool(Protocol):
    """Workers that are ready to score the windows of a task."""

    @property
    def slots(self) -> int:
        """Number of windows that are under way at once."""

    @property
    def state(self) -> str:
        """The workers in a few words, for the line of the progress; empty for this process."""

    @property
    def notes(self) -> list[str]:
        """Remarks on who scored, for the result."""

    def submit(self, window: Window, units: IntArray) -> None:
        """Let a window be scored: the units with these numbers."""

    def collect(self) -> Scored:
        """Wait until a window is scored or lost, and return it. The order is any; a window may come more than once."""


class Executor(Protocol):
    """Scores windows of the random order somewhere."""

    def open(self, task: Task) -> AbstractContextManager[Pool]:
        """Make ready to score a task. At the end of the context nothing of it is under way."""


class InProcess:
    """Scores in this process, one window at a time: the executor, and the pool of the task that is open."""

    slots, state = 1, ""
    notes: list[str] = []  # noqa: RUF012 - never changed

    @contextmanager
    def open(self, task: Task) -> Iterator[Pool]:
        """Load what the question needs."""
        self._cases = task.cases
        self._scorer = make_scorer(task.cases, task.query, task.model, task.batch_tokens, task.cache, task.progress)
        yield self

    def submit(self, window: Window, units: IntArray) -> None:
        """Let a window be scored."""
        self._asked = window, units  # the only one that is under way

    def collect(self) -> Scored:
        """Score the window."""
        window, units = self._asked
        values = self._scorer.score(self._cases.cases_of(units))
        return Scored(window, values, self._scorer.notes)


def windows(start: int, ends: Iterable[int], size: int) -> Iterator[Window]:
    """Yield the windows from ``start`` on: they end at multiples of ``size`` and at ``ends``, which rise.

    Ends do not depend on ``start`` or on who scores, so that every run has the same batches.

    >>> [tuple(window) for window in windows(0, [3, 10], 4)]
    [(0, 3), (3, 4), (4, 8), (8, 10)]
    >>> [tuple(window) for window in windows(5, [3, 10], 4)]
    [(5, 8), (8, 10)]
    """
    for end in ends:
        while start < end:
            stop = min(end, (start // size + 1) * size)
            yield Window(start, stop)
            start = stop


def in_order(
    pool: Pool, todo: Iterator[Window], units_of: Callable[[Window], IntArray], name: Callable[[Window], str]
) -> Iterator[Scored]:
    """Let a pool score windows, and yield them in the order of ``todo``.

    A window whose worker was lost is submitted again, at most ``MOST_LOSSES - 1`` times. A second result for a window
    is ignored. The pool is at most ``AHEAD`` times its slots ahead of the first window that is not complete, since what
    comes after the last one is in vain.

    Args:
        pool: scores the windows.
        todo: the windows.
        units_of: returns the units of a window.
        name: describes a window in a message.
    """
    order: deque[Window] = deque()  # submitted, and not yielded
    under_way: set[Window] = set()
    complete: dict[Window, Scored] = {}
    losses: Counter[Window] = Counter()
    while True:
        while len(under_way) < pool.slots and len(order) < AHEAD * pool.slots:
            window = next(todo, None)
            if window is None:
                break
            order.append(window)
            under_way.add(window)
            pool.submit(window, units_of(window))
        if not order:
            return
        if order[0] in complete:
            yield complete.pop(order.popleft())
            continue
        scored = pool.collect()
        if scored.window not in under_way:
            continue
        if scored.lost:
            losses[scored.window] += 1
            if losses[scored.window] < MOST_LOSSES:
                pool.submit(scored.window, units_of(scored.window))
                continue
            scored = Scored(scored.window, error=_given_up(name(scored.window), scored.lost))
        under_way.discard(scored.window)
        complete[scored.window] = scored


def _given_up(name: str, lost: str) -> ScoreError:
    return ScoreError(
        f"{name}: {MOST_LOSSES} workers ended one after another while they scored these cases, the last one so: {lost};"
        " scores before them are in the cache. Score them in one process, without bias_executor, to see why (often"
        " memory: -o bias_batch_tokens=512)"
    )


def joined_notes(by_worker: Iterable[Sequence[str]]) -> list[str]:
    """Return the remarks of all workers, each once; counts of the same thing are added.

    >>> joined_notes([["slow head", CountNote(2, "{} texts cut")], ["slow head", CountNote(3, "{} texts cut")]])
    ['slow head', '5 texts cut']
    """
    counts: dict[str, int | None] = {}
    for notes in by_worker:
        for note in notes:
            if isinstance(note, CountNote):
                counts[note.text] = (counts.get(note.text) or 0) + note.number
            else:
                counts[note] = None
    return [str(text) if count is None else text.format(count) for text, count in counts.items()]
