"""The way to the terminal in a run: lines, what fails the run beside its tests, and progress in spite of pytest's
capturing, in one line on a terminal, otherwise in a line every half minute.

A worker of xdist has no terminal. It writes its line to a file, and the controller shows the lines of all workers as
one.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import ReprExceptionInfo, ReprFileLocation, ReprTracebackNative

from pytest_genderbias.escaping import isolated, printable
from pytest_genderbias.plugin.workers import WorkerNode, is_worker, worker_input

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter

_LINE_EVERY, _UPDATE_EVERY = 30.0, 0.5  #: seconds between two lines without a terminal, and between two updates on one
_SEND_EVERY = 1.0  #: seconds between two writes of a worker, and between two looks of the controller
_STALE = 600.0  #: seconds after which a worker that wrote nothing is no longer shown
_LONGEST_LABEL = 48
_PLUGINS = ("capturemanager", "terminalreporter")  #: of pytest
_INPUT = "genderbias_progress"  #: key of the folder in the input of a worker


def describe_progress(
    label: str, unit: str, total: int, done: int, before: int = 0, seconds: float = 0.0, brief: bool = False
) -> str:
    """Return how far something is as a line: with its rate, and the time that the rest takes at it, once there is one.

    Args:
        label: what is scored or trained, and on which model.
        unit: what is counted, in the plural.
        total: how many there are.
        done: how many are complete.
        before: how many were complete at the start, which took no time.
        seconds: since the start.
        brief: in fewer words, for a line of several workers.

    >>> describe_progress("lm on m", "cases", 4000, 1000, 0, 10.0)
    'lm on m  25 % of 4,000 cases  100/s  0:30 left'
    >>> describe_progress("lm on m", "cases", 4000, 1000, 0, 10.0, brief=True)
    'lm on m 25 %, 100/s, 0:30 left'
    >>> describe_progress("lm on m", "cases", 4000, 0)
    'lm on m  0 % of 4,000 cases'
    """
    name = printable(label[: 2 * _LONGEST_LABEL])
    name = name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 3]}..."
    percent, made = f"{100 * done // total if total else 100} %", done - before
    parts = [f"{name} {percent}"] if brief else [name, f"{percent} of {total:,} {unit}"]
    if made > 0 and seconds > 0:
        rate = made / seconds
        parts += [_rate(rate), f"{_clock(max(0, total - done) / rate)} left"]
    return (", " if brief else "  ").join(parts)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s" if rate >= 0.1 else f"{1 / rate:,.0f} s each"


def _clock(seconds: float) -> str:
    """Return a duration as a clock shows it.

    >>> _clock(75), _clock(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class TerminalProgress:
    """Shows progress, rate and remaining time: on the terminal, or in a worker of xdist on the controller's line; in a
    command without pytest, ``config`` is ``None``.
    """

    def __init__(self, config: pytest.Config | None, unit: str = "cases") -> None:
        self._unit, self._display = unit, _Screen(None) if config is None else _display_of(config)

    @contextmanager
    def __call__(self, label: str, total: int, done: int) -> Iterator[Callable[[int], object]]:
        """Show the progress of ``total`` units, of which ``done`` are complete; yield a function that adds to them."""
        display = self._display
        if display is None:
            yield lambda count: None
            return
        start, before = time.monotonic(), done
        shown = start + max(display.every, 1.0) - display.every

        def advance(count: int) -> None:
            nonlocal done, shown
            now = time.monotonic()
            done += count
            if now - shown >= display.every and done < total:
                shown = now
                display.write(describe_progress(label, self._unit, total, done, before, now - start, display.brief))

        try:
            yield advance
        finally:
            display.end()


def _display_of(config: pytest.Config) -> _LineFile | _Screen | None:
    """Return where this process shows progress; ``None`` if it should be silent."""
    folder = worker_input(config).get(_INPUT)
    if is_worker(config):
        worker = str(worker_input(config).get("workerid"))
        return _LineFile(Path(str(folder), f"{worker}.txt")) if folder else None
    return None if config.get_verbosity() < 0 else _Screen(config)


class _LineFile:
    """The file of a worker, which the controller reads. Progress is no reason to fail: what cannot be written is left
    out.
    """

    every = _SEND_EVERY  #: seconds between two updates
    brief = True

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, text: str) -> None:
        half_written = self._path.with_suffix(".part")
        with suppress(OSError):
            half_written.write_text(text, encoding="utf-8")
            os.replace(half_written, self._path)

    def end(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


class _Screen:
    """Standard error: a line below that of pytest, which is removed at the end; or lines, where it is no terminal."""

    brief = False

    def __init__(self, config: pytest.Config | None) -> None:
        found = (None, None) if config is None else map(config.pluginmanager.getplugin, _PLUGINS)
        self._capture: Any
        self._reporter: TerminalReporter | None
        self._capture, self._reporter = found
        with self._uncaptured():
            self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"
        self.every = _UPDATE_EVERY if self._is_live else _LINE_EVERY
        self._column: int | None = None  # of the cursor on pytest's line, while a line is shown below it

    def write(self, text: str) -> None:
        """Show a line, in place of the one before."""
        if not self._is_live:
            self._put(f"\n{text}\n")
            return
        columns = shutil.get_terminal_size().columns
        below = "" if self._column is not None else "\n"
        if self._column is None:
            self._column = 0 if self._reporter is None else self._reporter._tw.width_of_current_line
        self._put(f"{below}\r{text[: columns - 1]}\x1b[K")

    def end(self) -> None:
        """Remove the line, and return to that of pytest."""
        if self._column is not None:
            self._put("\r\x1b[K\x1b[A" + (f"\x1b[{self._column}C" if self._column else ""))
            self._column = None

    def _put(self, text: str) -> None:
        with self._uncaptured():
            sys.stderr.write(text)
            sys.stderr.flush()

    def _uncaptured(self) -> AbstractContextManager[None]:
        return nullcontext() if self._capture is None else self._capture.global_and_fixture_disabled()


class WorkersOnOneLine:
    """Shows in the controller of xdist how far its workers are. What pytest prints is never mixed with it."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._folder = config, Path()
        self._screen: _Screen | None = None
        self._lock, self._over = threading.RLock(), threading.Event()
        self._thread: threading.Thread | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        """Send a worker the folder of the lines, and begin to look there. Without room for a folder nothing is
        shown.
        """
        if self._config.get_verbosity() < 0:
            return
        if self._thread is None:
            try:
                self._folder = Path(tempfile.mkdtemp(prefix="genderbias-progress-"))
            except OSError:
                return
            self._screen = _Screen(self._config)
            self._thread = threading.Thread(target=self._look, name="genderbias-progress", daemon=True)
            self._thread.start()
        node.workerinput[_INPUT] = str(self._folder)

    def _look(self) -> None:
        screen = self._screen
        assert screen is not None
        shown = time.monotonic()
        while not self._over.wait(_SEND_EVERY):
            if time.monotonic() - shown < screen.every:
                continue
            text = on_one_line(self._folder)
            with self._lock, suppress(OSError, ValueError):  # the terminal may be gone
                if text and not self._over.is_set():
                    screen.write(text)
                elif not text:
                    screen.end()
            shown = time.monotonic()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Generator[None]:
        """Remove the line while pytest prints the result of a test."""
        with self._lock:
            if self._screen is not None:
                self._screen.end()
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Stop, before anything is printed at the end of the run."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self._screen is not None:
            self._screen.end()
            shutil.rmtree(self._folder, ignore_errors=True)


def on_one_line(folder: Path) -> str:
    """Return what workers wrote lately, as ``gw0 lm on m 25 %, 1/s, 0:03 left | gw1 weat on m 0 %``."""
    lines = []
    for path in sorted(folder.glob("*.txt"), key=lambda path: (len(path.name), path.name)):
        with suppress(OSError, ValueError):
            if time.time() - path.stat().st_mtime < _STALE:
                lines.append(f"{printable(path.stem)} {path.read_text(encoding='utf-8')}")
    return " | ".join(lines)


# What stays there.


def show(terminalreporter: TerminalReporter, text: str, markup: str = "") -> None:
    """Write a text, which may come from files and flags: lines stay, characters that a terminal would obey are escaped.

    Args:
        terminalreporter: Pytest's plugin.
        text: One or more lines.
        markup: A colour, ``bold``, both with a space between them, or nothing.
    """
    terminalreporter.write_line(isolated(printable(text, keep="\n")), **dict.fromkeys(markup.split(), True))


def count_failures(failures: Sequence[str], terminalreporter: TerminalReporter) -> None:
    """Add an error to the short summary and to the last line for each failure, and so colour the last line red. The
    short summary takes a line from the message of the crash.

    Call it when the section that shows them in full is printed: pytest then does not show them once more.
    """
    for text in failures:
        message = printable(text)
        report = pytest.TestReport(
            nodeid="bias",
            location=("bias", None, "bias"),
            keywords={},
            outcome="failed",
            longrepr=ReprExceptionInfo(ReprTracebackNative([message]), ReprFileLocation("bias", 0, message)),
            when="teardown",
        )
        terminalreporter._add_stats("error", [report])
