"""A plugin for ``-p``: pytest collects no file, so that a run has the suites of ``--bias-suite`` and nothing else.

The command line loads it for measurements that are no part of a project's tests. Workers of xdist load it, too.
"""

from __future__ import annotations


def pytest_ignore_collect() -> bool:
    """Ignore every file and folder."""
    return True
