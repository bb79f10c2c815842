"""A clone inside another project, as a submodule of it, is no part of that project's tests."""

from pathlib import Path


def pytest_ignore_collect(config):
    """Leave the files of a clone to runs in the clone, in this folder or below it."""
    clone = Path(__file__).parent
    return None if config.rootpath.is_relative_to(clone) else True
