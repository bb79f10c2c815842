"""The command ``genderbias``, run in the process of a test, and in the folder of its project."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

import pytest

from pytest_genderbias.command_line.main import main

#: Loads the flags of the commands that show something.
SHOWS = ("-p", "pytest_genderbias.plugin.without_files")


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    out: str
    err: str
    status: int


def type_command(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Printed:
    """Carry out ``genderbias ARGUMENTS``. What it hands to pytest runs as pytester runs pytest."""
    out, err = StringIO(), StringIO()

    def run_pytest(words: list[str]) -> int:
        result = pytester.runpytest_inprocess(*words)
        out.write("\n".join((*result.outlines, "")))
        err.write("\n".join((*result.errlines, "")))
        return int(result.ret)

    with monkeypatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(pytest, "main", run_pytest)
        try:
            status = main(arguments)
        except SystemExit as error:  # argparse, of --help and of wrong arguments
            status = int(error.code or 0)
    return Printed(out.getvalue(), err.getvalue(), status)


def make_reports(*to: str, file: str = "run.json") -> Printed:
    """Carry out ``genderbias report FILE --to ...`` in the current folder, that of the project of a test."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["report", file, *(f"--to={path}" for path in to)])
    return Printed(out.getvalue(), err.getvalue(), status)
