"""An interruption (Ctrl-C) at any moment of a run ends it as one: in a line, with pytest's exit status for it, and
without a traceback.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from traceback import walk_tb

import pytest


class Interruptions:
    """Hooks around everything that a run does after its configuration."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Collect; whatever an interruption was turned into is one again."""
        with _plain():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Run the tests; whatever an interruption was turned into is one again."""
        with _plain():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Leave out places without a line, as Python 3.11 has where a ``with`` begins: pytest counts on one."""
        if excinfo.tb is not None:
            entries = zip(excinfo.traceback, walk_tb(excinfo.tb), strict=False)
            known = [entry for entry, (_, line) in entries if isinstance(line, int)]
            excinfo.traceback = type(excinfo.traceback)(known) if known else excinfo.traceback

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        """Write files and print tables; an interruption ends the run here, which pytest expects of no hook at its
        end.
        """
        try:
            with _plain():
                return (yield)
        except KeyboardInterrupt:
            raise pytest.exit.Exception(
                "interrupted at the end of the run, after its tests; a file of the run is whole or as it was before:"
                " run again for the others",
                returncode=pytest.ExitCode.INTERRUPTED,
            ) from None


@contextmanager
def _plain() -> Iterator[None]:
    """Raise an error that an interruption was turned into as that interruption.

    Python before 3.12 does so where a class is made (``RuntimeError: Error calling __set_name__``), as in a module that
    a hook imports.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
