"""The device of networks that a recipe makes from nothing: that of the run, as ``--bias-device`` names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pytest_genderbias.models.checkpoints import pick_device

_DEVICE: ContextVar[str] = ContextVar("device", default="auto")


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Make networks on a torch device inside; ``auto`` is a GPU if there is one."""
    before = _DEVICE.set(device)
    try:
        yield
    finally:
        _DEVICE.reset(before)


def device_for_new() -> str:
    """Return the torch device of a network that is made now.

    >>> with on_device("cuda:1"):
    ...     device_for_new()
    'cuda:1'
    """
    return pick_device(_DEVICE.get())
