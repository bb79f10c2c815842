"""``SideBySide``: work on the measurements to come in threads, while the first of them is awaited.

The measurements are still made one after another, in the order in which they are asked for. Only their cases are scored
earlier: by workers that the first one leaves free. What a thread cannot do is left for the turn of its measurement,
which then finds out by itself and says why. An error of this package, as of a window that ended one worker after
another, is raised in that turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

from pytest_genderbias.errors import BiasError
from pytest_genderbias.scoring.executor import SharedExecutor
from pytest_genderbias.scoring.scorer import Progress

T = TypeVar("T")
#: What a thread does; it shows its progress as it is told.
Work = Callable[[Progress], T]
_LOOK_EVERY = 0.1  #: seconds between two looks at the progress of what is awaited


@dataclass(frozen=True)
class Piece(Generic[T]):
    """Work that may be done before its turn.

    ``key``: by which it is asked for. ``prepare``: returns the work for a thread; ``None`` if it has to wait for its
    turn. It is called in the thread of the run, which alone loads models.
    """

    key: Hashable
    prepare: Callable[[], Work[T] | None]


class SideBySide(Generic[T]):
    """Works on the next pieces in threads, as many at once as the executor takes tasks.

    Args:
        executor: where the threads score.
        pieces: in the order in which they will be asked for.
    """

    def __init__(self, executor: SharedExecutor, pieces: Iterable[Piece[T]]) -> None:
        """Keep the pieces; nothing is begun yet."""
        self._executor = executor
        self._pieces = deque(pieces)
        self._begun: dict[Hashable, _Running[T]] = {}  # in their order
        self._begins = True  # False while the run works on a measurement itself

    def __contains__(self, key: object) -> bool:
        """Return whether a piece has not been asked for yet."""
        return key in self._begun or any(piece.key == key for piece in self._pieces)

    def take(self, key: Hashable, progress: Progress | None) -> T | None:
        """Return what a piece gave, and work on those after it meanwhile; those before it are dropped.

        Returns:
            The result; ``None`` if there is no such piece, or it was not possible before its turn.

        Raises:
            BiasError: the work ended so. It would again, so that the run does not try it itself.
        """
        if key not in self:
            self._leave_to_the_run()
            return None
        self._begins = True
        self._drop_until(key)
        try:
            while key not in self._begun and self._pieces:  # it is the next one
                if not self._begin_next():
                    self._leave_to_the_run()
                    return None
            running = self._begun[key]
            with _Shown(progress, running) as shown:
                while not running.over.wait(0.0 if self._may_begin and self._begin_next() else _LOOK_EVERY):
                    shown.update()
            del self._begun[key]
        except BaseException:
            self.abandon()
            raise
        if running.error is not None:
            raise running.error
        return running.result

    def abandon(self) -> None:
        """Begin nothing more. Threads end with the window that they wait for; what is complete is stored."""
        self._pieces.clear()
        for running in self._begun.values():
            running.abandoned = True
        self._begun.clear()
        self._tell()

    def _leave_to_the_run(self) -> None:
        """Begin nothing until the next piece is asked for, so that no worker is left for it."""
        self._begins = False
        self._tell(1)

    def _drop_until(self, key: Hashable) -> None:
        """Drop the pieces before one, which were not asked for."""
        for earlier in list(self._begun):
            if earlier == key:
                return
            self._begun.pop(earlier).abandoned = True
        while self._pieces[0].key != key:
            self._pieces.popleft()

    @property
    def _may_begin(self) -> bool:
        """Whether another thread may begin: as many as the executor takes tasks, and as many again may have ended
        before their turn.
        """
        working = sum(not running.over.is_set() for running in self._begun.values())
        return bool(self._pieces) and working < self._executor.tasks and len(self._begun) < 2 * self._executor.tasks

    def _begin_next(self) -> bool:
        """Begin the next piece, and return whether there was something to do before its turn."""
        self._tell(1)
        piece = self._pieces.popleft()
        try:
            work = piece.prepare()
        except Exception:  # whatever it is, the measurement meets it in its turn
            work = None
        if work is None:
            self._tell()
            return False
        self._begun[piece.key] = _Running(work, self._tell)
        return True

    def _tell(self, more: int = 0) -> None:
        """Tell the executor how many tasks to expect: those at work, and those that follow when one of them is done."""
        working = sum(not running.over.is_set() for running in list(self._begun.values()))
        coming = len(self._pieces) if self._begins else 1
        self._executor.expect(max(1, min(self._executor.tasks, working + max(more, coming))))


class _Running(Generic[T]):
    """A thread that works on a piece. ``result`` is ``None`` until it is over, and if it failed; ``error`` is that of
    this package, if it was one.
    """

    def __init__(self, work: Work[T], ended: Callable[[], None]) -> None:
        self.over, self.abandoned = Event(), False
        self.result: T | None = None
        self.error: BiasError | None = None
        self._lock = Lock()
        self._line: tuple[str, int, int] | None = None
        self._lines = 0
        self._ended = ended
        Thread(target=self._run, args=(work,), name="genderbias-side-by-side", daemon=True).start()

    def _run(self, work: Work[T]) -> None:
        try:
            self.result = work(self._progress)
        except BiasError as error:
            self.error = error
        except Exception:  # it may be of this thread only: the measurement finds out in its turn
            self.result = None
        finally:
            self.over.set()
            self._ended()

    @property
    def line(self) -> tuple[int, tuple[str, int, int] | None]:
        """Number of the line of progress, and the line: label, total, done."""
        with self._lock:
            return self._lines, self._line

    @contextmanager
    def _progress(self, label: str, total: int, done: int) -> Iterator[Callable[[int], object]]:
        def advance(count: int) -> None:
            nonlocal done
            if self.abandoned:
                raise _AbandonedError
            done += count
            self._put(label, total, done)

        with self._lock:
            self._lines += 1
        self._put(label, total, done)
        try:
            yield advance
        finally:
            with self._lock:
                self._line = None

    def _put(self, label: str, total: int, done: int) -> None:
        with self._lock:
            self._line = label, total, done


class _AbandonedError(Exception):
    """Nobody waits for the result any more."""


class _Shown(Generic[T]):
    """Shows the progress of a thread in this one."""

    def __init__(self, progress: Progress | None, running: _Running[T]) -> None:
        self._progress, self._running = progress, running
        self._number, self._done = 0, 0
        self._display = ExitStack()
        self._advance: Callable[[int], object] = lambda count: None

    def __enter__(self) -> _Shown[T]:
        self.update()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.close()

    def update(self) -> None:
        """Show how far the thread is now."""
        number, line = self._running.line
        if self._progress is None or line is None:
            return
        label, total, done = line
        if number != self._number:
            self._display.close()
            self._advance = self._display.enter_context(self._progress(label, total, done))
        elif done > self._done:
            self._advance(done - self._done)
        self._number, self._done = number, done
