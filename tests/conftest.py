"""Hooks of the test run. The fixtures that the tests share are in ``support/fixtures.py``."""

import gc
import os
import sys
from importlib.util import find_spec

import pytest
from support.homes import leave_home

# Without bytecode each process that a test starts would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Tests run side by side, each on one core, and so do the processes that they start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
#: Whether the packages of the extra [dev] are there. A plain install has a clone as well, and pytest reads this file in
#: it.
CAN_TEST = find_spec("hypothesis") is not None
_NEEDED = pytest.StashKey[bool]()  #: set where a run would collect tests that cannot run


def pytest_configure(config):
    """Load the shared fixtures, and torch with them, except in the process that only hands the tests out to others."""
    if not CAN_TEST:
        return
    if not hasattr(config, "workerinput"):  # workers live where the process lives that started them
        config.add_cleanup(leave_home().cleanup)
    if config.getoption("dist", "no") == "no":
        gc.disable()  # until all tests are collected: nearly all that is made by then stays
        config.pluginmanager.import_plugin("support.fixtures")
        if "slow" in config.option.markexpr:
            from hypothesis import settings

            settings.load_profile("slow")


@pytest.hookimpl(trylast=True)
def pytest_ignore_collect(config):
    """Import no test where it could not run."""
    if CAN_TEST:
        return None
    config.stash[_NEEDED] = True
    return True


def _spare_collector():
    """Free what is garbage, and leave all else out of later collections: by then it is what stays until the end."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish():
    """Leave the modules and the tests out of collections, and collect less often.

    What is garbage by then stays: one object in twenty, and to find it takes a second.
    """
    gc.freeze()
    gc.set_threshold(20_000)  # the usual 700 are made many times over in each test
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Leave what the tests of a file have left out of collections. Runs that release a model collect each time."""
    if nextitem is None or nextitem.path != item.path:
        _spare_collector()


def pytest_collection_modifyitems(config, items):
    """Leave the tests that take long to those who ask for them, and all of them to those who can run them."""
    if _NEEDED in config.stash:
        raise pytest.UsageError(
            "the tests of this clone need its development dependencies: pip install -c constraints.txt -e '.[dev]'. "
            "To measure a model without them, run pytest in another folder, such as that of your project"
        )
    if "slow" in config.option.markexpr:
        for item in items:
            if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
                item.add_marker(pytest.mark.slow)  # with many new examples
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="takes long; run it with -m slow"))
