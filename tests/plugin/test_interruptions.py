"""Ctrl-C at the end of a run, where files are written and tables are printed, and where Python has no line for it: no
traceback.
"""

from __future__ import annotations

import os
import signal
import sys

import pytest

TEST = "def test_bias(bias_measure):\n    assert bias_measure('lm-occupation', limit=8).value is not None\n"
RUN = ("--bias-model=demo-lm", "--bias-json=r.json", "--bias-device=cpu")
IN_HOOK = """
import signal
import pytest
@pytest.hookimpl({order})
def {name}():
    signal.raise_signal(signal.SIGINT)
"""
#: Where the interruption comes: a hook of a conftest.py, before or after those of the plugin.
HOOKS = {
    "before files are written": ("pytest_sessionfinish", "tryfirst=True"),
    "after files were written": ("pytest_sessionfinish", "trylast=True"),
    "before tables are printed": ("pytest_terminal_summary", "tryfirst=True"),
    "after tables were printed": ("pytest_terminal_summary", "trylast=True"),
}


@pytest.fixture(autouse=True)
def heard():
    """A shell starts what runs in its background deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def assert_interrupted(result):
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stderr.fnmatch_lines(["Exit: interrupted at the end of the run, *"])
    shown = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in shown and "INTERNALERROR" not in shown


def test_an_interruption_while_a_file_is_written_leaves_the_old_one(project, monkeypatch):
    project.makepyfile(TEST)
    project.path.joinpath("r.json").write_text("old")
    monkeypatch.setattr(os, "fsync", lambda handle: signal.raise_signal(signal.SIGINT))
    assert_interrupted(project.runpytest(*RUN, "--bias-no-cache"))
    assert project.path.joinpath("r.json").read_text() == "old"
    assert not list(project.path.glob(".r.json*"))


@pytest.mark.parametrize("when", HOOKS)
def test_an_interruption_at_the_end_is_one_line(project, when):
    name, order = HOOKS[when]
    project.makepyfile(TEST)
    project.makeconftest(IN_HOOK.format(name=name, order=order))
    assert_interrupted(project.runpytest(*RUN))


MADE_CLASS = """
import signal
class Interrupted:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)
def {name}():
    class Owner:
        attribute = Interrupted()
"""


@pytest.mark.parametrize("name", ["pytest_collection", "pytest_runtestloop"])
def test_an_interruption_that_python_turned_into_another_error_is_one(project, name):
    """While a class is made, before Python 3.12."""
    project.makepyfile(TEST)
    project.makeconftest(MADE_CLASS.format(name=name))
    result = project.runpytest(*RUN, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


WITHOUT_LINE = """
def pytest_runtestloop():
    code = compile("raise KeyboardInterrupt", "nowhere.py", "exec")
    exec(code.replace({change}))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tables of lines have another form")
def test_an_interruption_at_a_place_without_a_line_is_shown(project):
    """As Python 3.11 has where a with begins."""
    project.makepyfile(TEST)
    project.makeconftest(WITHOUT_LINE.format(change="co_linetable=bytes([0xF8 | min(7, len(code.co_code) // 2 - 1)])"))
    result = project.runpytest(*RUN, no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    shown = result.stdout.str() + result.stderr.str()
    assert "Traceback" not in shown and "TypeError" not in shown
