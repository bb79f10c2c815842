"""The first import of torch and transformers, which takes longer than the loading of a small model."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LAST = "transformers.modeling_utils"  #: a module that every network needs, and the last one that takes long


@contextmanager
def uncollected_imports() -> Iterator[None]:
    """Pause the garbage collector inside a ``with`` block while transformers has not built a network yet.

    Nearly all that imports make stays, so to search it again and again finds nothing and takes a sixth of the time.
    """
    if _LAST in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
