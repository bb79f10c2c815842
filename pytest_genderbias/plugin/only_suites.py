"""A plugin for ``-p``: pytest collects no file, so that a run has the suites of ``--bias-suite`` and nothing else.

The command line loads it for measurements that are no part of a project's tests. Workers of xdist load it, too.
"""

from __future__ import annotations

import pytest

from pytest_genderbias.errors import BiasError
from pytest_genderbias.escaping import printable


def pytest_ignore_collect() -> bool:
    """Ignore every file and folder."""
    return True


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how much is measured of suites that nobody named, and how long it takes."""
    from pytest_genderbias.plugin.options import SETTINGS

    settings = config.stash.get(SETTINGS, None)
    if settings is None or not settings.selection.includes_all or not settings.models:
        return []
    from pytest_genderbias.plugin.expected_time import expected_line

    try:
        line = expected_line(config)
    except BiasError:  # the model cannot be read, and each test says so
        return []
    return [printable(line)] if line else []


def measures_only(config: pytest.Config) -> bool:
    """Return whether a run loads this plugin: it measures, and is not meant to judge."""
    return config.pluginmanager.has_plugin(__name__)
