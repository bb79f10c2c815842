"""The event loop of a process, in a thread that ends with it, for requests and for the user's coroutines."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

#: The event loop of a process, by its number.
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}


def loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process. Threads that begin at once have the same one, without a lock to fork
    with.
    """
    process = os.getpid()
    if process not in _LOOPS:
        begun = asyncio.new_event_loop()
        if _LOOPS.setdefault(process, begun) is begun:
            threading.Thread(target=begun.run_forever, name="pytest-genderbias", daemon=True).start()
        else:
            begun.close()
    return _LOOPS[process]


def done(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns. An interruption cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop())
    try:
        return future.result()
    finally:
        future.cancel()
