"""Failures of gates that do not reach their test: in another thread, or in a task of asyncio that nothing awaits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from threading import get_ident
from types import FrameType, TracebackType

from pytest_genderbias.errors import GateFailure


@dataclass(frozen=True)
class AsideFailure:
    """A failure that was raised beside the call stack of its test.

    Attributes:
        failure: the exception.
        task: the task of asyncio that raised it; ``None`` for another thread.
        frames: the frames of the task.
    """

    failure: GateFailure
    task: asyncio.Task[object] | None
    frames: tuple[FrameType, ...]

    @property
    def is_lost(self) -> bool:
        """Whether the test does not know of it: what a thread raises, and what ended a task that nothing awaited."""
        if self.task is None:
            return True
        ended = self.task.done() and not self.task.cancelled() and self.task.exception() is self.failure
        return ended and all(frame in self.frames for frame in _frames_of(self.failure.__traceback__))


def raised_aside(failure: GateFailure, test_thread: int) -> AsideFailure | None:
    """Return a failure that is about to be raised beside its test; ``None`` where it goes up the stack of the test itself.

    Args:
        failure: the exception.
        test_thread: identifier of the thread that runs the test.
    """
    if get_ident() != test_thread:
        return AsideFailure(failure, None, ())
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs
        return None
    if task is None:
        return None
    outermost = getattr(task.get_coro(), "cr_frame", None)
    frames = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        frames.append(frame)
        if frame is outermost:
            break
        frame = frame.f_back
    return AsideFailure(failure, task, tuple(frames))


def _frames_of(traceback: TracebackType | None) -> Iterator[FrameType]:
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next
