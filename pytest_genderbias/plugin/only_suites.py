"""A plugin for ``-p``: pytest collects no file, so that a run has the suites of ``--bias-suite`` and nothing else.

The command line loads it for measurements that are no part of a project's tests. Workers of xdist load it, too.
"""

from __future__ import annotations

import pytest


def pytest_ignore_collect() -> bool:
    """Ignore every file and folder."""
    return True


def measures_only(config: pytest.Config) -> bool:
    """Return whether a run loads this plugin: it measures, and is not meant to judge."""
    return config.pluginmanager.has_plugin(__name__)
