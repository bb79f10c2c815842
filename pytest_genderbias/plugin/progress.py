"""Progress on the terminal, in spite of pytest's capturing: a bar on a terminal, otherwise a line every half minute."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import pytest

from pytest_genderbias.escaping import printable
from pytest_genderbias.plugin.workers import is_worker

_LINE_EVERY = 30.0  #: seconds between two lines without a terminal


class _CaptureManager(Protocol):
    """Pytest's plugin ``capturemanager``."""

    def global_and_fixture_disabled(self) -> AbstractContextManager[None]: ...


class TerminalProgress:
    """Shows progress, rate and remaining time. Workers of xdist show nothing."""

    def __init__(self, config: pytest.Config, unit: str = "cases") -> None:
        self._unit = unit
        self._silent = is_worker(config) or config.get_verbosity() < 0
        self._capture: _CaptureManager | None = config.pluginmanager.getplugin("capturemanager")

    @contextmanager
    def __call__(self, label: str, total: int, done: int) -> Iterator[Callable[[int], object]]:
        """Show the progress of ``total`` units, of which ``done`` are complete; yield a function that adds to them."""
        if self._silent:
            yield lambda count: None
            return
        from tqdm import tqdm

        with self._uncaptured():
            terminal = sys.stderr.isatty()
        with tqdm(
            desc=printable(label), total=total, initial=done, unit=f" {self._unit}", leave=False, file=_Uncaptured(self, terminal), dynamic_ncols=terminal,
            ncols=None if terminal else 100, mininterval=0.5 if terminal else _LINE_EVERY, delay=1.0 if terminal else _LINE_EVERY,
        ) as bar:  # fmt: skip
            yield bar.update

    def _uncaptured(self) -> AbstractContextManager[None]:
        return nullcontext() if self._capture is None else self._capture.global_and_fixture_disabled()

    def write(self, text: str) -> None:
        """Write to the real standard error."""
        with self._uncaptured():
            sys.stderr.write(text)
            sys.stderr.flush()


class _Uncaptured:
    """A stream for tqdm. Without a terminal each update becomes a line."""

    def __init__(self, progress: TerminalProgress, terminal: bool) -> None:
        self._progress, self._terminal = progress, terminal

    def write(self, text: str) -> int:
        if self._terminal:
            self._progress.write(text)
        elif text.strip():
            self._progress.write(f"\n{text.strip()}\n")
        return len(text)

    def flush(self) -> None:
        """Do nothing: every write is flushed."""

    def isatty(self) -> bool:
        return self._terminal
