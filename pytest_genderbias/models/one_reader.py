"""One thread of a process reads weights at a time."""

from __future__ import annotations

from threading import RLock

#: Held while transformers reads weights: it replaces functions of its own and of torch for all threads meanwhile, and
#: what two threads at once put back is not what was there. Networks that are read later would then lack their tied
#: weights.
READING = RLock()
