"""Failures of gates that do not reach their test: in another thread, or in a task of asyncio that nothing awaits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import get_ident
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from pytest_genderbias.errors import GateFailure

if TYPE_CHECKING:
    from asyncio import Task
    from concurrent.futures import Future

_ASKS = ("result", "exception")  #: methods of a future that tell of a failure


@dataclass(frozen=True)
class AsideFailure:
    """A failure that was raised beside the call stack of its test.

    Attributes:
        failure: the exception.
        test_thread: identifier of the thread that runs the test.
        frames: the frames of the thread, or of the task, that raised it.
        task: the task of asyncio that raised it; ``None`` for another thread.
        future: the future of the thread's pool; ``None`` for any other thread.
        asked: identifiers of the threads that asked this future.
    """

    failure: GateFailure
    test_thread: int
    frames: tuple[FrameType, ...]
    task: Task[object] | None = None
    future: Future[object] | None = None
    asked: list[int] = field(default_factory=list)

    @property
    def is_lost(self) -> bool:
        """Whether the test does not know of it: it asked no future, and nothing raised the failure again outside of its
        thread or task.
        """
        if self.future is not None:
            return self.test_thread not in self.asked
        if self.task is not None:
            ended = self.task.done() and not self.task.cancelled()
            if not ended or self.task.exception() is not self.failure:
                return False
        return all(frame in self.frames for frame in _frames_of(self.failure.__traceback__))


def raised_aside(failure: GateFailure, test_thread: int) -> AsideFailure | None:
    """Return a failure that is about to be raised beside its test; ``None`` where it goes up the stack of the test
    itself.

    Args:
        failure: the exception.
        test_thread: identifier of the thread that runs the test.
    """
    if get_ident() != test_thread:
        frames = tuple(_stack(sys._getframe()))
        aside = AsideFailure(failure, test_thread, frames, future=_future_of(frames))
        if aside.future is not None:
            _note_who_asks(aside.future, aside.asked, test_thread)
        return aside
    import asyncio

    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None
    if task is None:
        return None
    outermost = getattr(task.get_coro(), "cr_frame", None)
    return AsideFailure(failure, test_thread, tuple(_stack(sys._getframe(), outermost)), task)


def _stack(frame: FrameType | None, outermost: FrameType | None = None) -> Iterator[FrameType]:
    """Yield a frame and its callers, until ``outermost``."""
    while frame is not None:
        yield frame
        if frame is outermost:
            return
        frame = frame.f_back


def _frames_of(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _future_of(frames: tuple[FrameType, ...]) -> Future[object] | None:
    """Return the future that a thread of a pool works on; ``None`` for any other thread."""
    from concurrent.futures import Future

    found = (getattr(frame.f_locals.get("self"), "future", None) for frame in frames)
    return next((future for future in found if isinstance(future, Future)), None)


def _note_who_asks(future: Future[object], asked: list[int], test_thread: int) -> None:
    """Add to ``asked`` each thread that asks a future, from now on; and the thread of the test, if it waits for it
    already.

    An event loop asks to hand the failure on to a future of its own, which reports it nowhere.
    """

    def noted(ask: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **named: Any) -> Any:
            if not str(sys._getframe(1).f_globals.get("__name__")).startswith("asyncio"):
                asked.append(get_ident())
            return ask(*arguments, **named)

        return noting

    for name in _ASKS:
        setattr(future, name, noted(getattr(future, name)))
    waiting = _stack(sys._current_frames().get(test_thread))
    if any(frame.f_code.co_name in _ASKS and frame.f_locals.get("self") is future for frame in waiting):
        asked.append(test_thread)
