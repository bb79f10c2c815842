"""Progress on the terminal, past pytest's capturing: a bar where there is a terminal, a line now and then where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

_LINE_EVERY = 30.0  #: seconds between two lines where there is no terminal


class TerminalProgress:
    """Shows done, rate and time left. Workers of xdist show nothing."""

    def __init__(self, config: pytest.Config, unit: str = "cases") -> None:
        self._unit = unit
        self._silent = hasattr(config, "workerinput") or config.get_verbosity() < 0
        self._capture: Any = config.pluginmanager.getplugin("capturemanager")

    @contextmanager
    def __call__(self, label: str, total: int, done: int) -> Iterator[Callable[[int], object]]:
        """Show ``total`` units, of which ``done`` are there."""
        if self._silent:
            yield lambda count: None
            return
        from tqdm import tqdm

        with self._uncaptured():
            terminal = sys.stderr.isatty()
        with tqdm(
            desc=label, total=total, initial=done, unit=f" {self._unit}", leave=False, file=_Uncaptured(self, terminal), dynamic_ncols=terminal,
            ncols=None if terminal else 100, mininterval=0.5 if terminal else _LINE_EVERY, delay=1.0 if terminal else _LINE_EVERY,
        ) as bar:  # fmt: skip
            yield bar.update

    def _uncaptured(self) -> Any:
        return self._capture.global_and_fixture_disabled() if self._capture is not None else nullcontext()

    def write(self, text: str) -> None:
        """Write to the real standard error."""
        with self._uncaptured():
            sys.stderr.write(text)
            sys.stderr.flush()


class _Uncaptured:
    """A stream for tqdm. Without a terminal each refresh becomes a line of its own."""

    def __init__(self, progress: TerminalProgress, terminal: bool) -> None:
        self._progress, self._terminal, self._last = progress, terminal, time.monotonic()

    def write(self, text: str) -> int:
        if self._terminal:
            self._progress.write(text)
        elif text.strip():
            self._progress.write(f"\n{text.strip()}\n")
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""

    def isatty(self) -> bool:
        return self._terminal
