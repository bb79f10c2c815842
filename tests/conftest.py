"""Hooks of the test run. The fixtures that the tests share are in ``support/fixtures.py``."""

import gc
import os
import sys

import pytest

# Without bytecode each process that a test starts would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Tests run side by side, each on one core, and so do the processes that they start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config):
    """Load the shared fixtures, and torch with them, except in the process that only hands the tests out to others."""
    if config.getoption("dist", "no") == "no":
        gc.disable()  # until all tests are collected: nearly all that is made by then stays
        config.pluginmanager.import_plugin("support.fixtures")


def pytest_collection_finish():
    """Spare the garbage collector the modules and the tests, which stay until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config, items):
    """Leave the tests that take long to those who ask for them."""
    if "slow" in config.option.markexpr:
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="takes long; run it with -m slow"))
