"""The way from a sign that a run uses the plugin to the plugin at work."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from pytest_genderbias.plugin.work import Work

NAME = "genderbias-work"  #: under which pytest knows it


def at_work(config: pytest.Config) -> Work:
    """Return the plugin at work in a run. It is imported, and registered with pytest, when it is first asked for."""
    work = config.pluginmanager.get_plugin(NAME)
    if work is None:
        from pytest_genderbias.plugin.work import Work

        work = Work(config)
        config.pluginmanager.register(work, NAME)
    return cast("Work", work)
