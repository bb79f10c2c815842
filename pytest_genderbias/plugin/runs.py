"""Where the models are that mitigations train: in the folder of ``--bias-runs``, or in a temporary one, the same for all workers."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

import pytest

from pytest_genderbias.plugin.options import SETTINGS

_INPUT = "genderbias_runs"  #: the temporary folder, as a worker of xdist gets it
_TEMPORARY = pytest.StashKey[Path]()


class RunKeeper:
    """Removes the temporary folder at the end. A plugin of the controller's own."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(tempfile.gettempdir(), f"genderbias-{uuid.uuid4().hex}")
        config.stash[_TEMPORARY] = self._folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where the others look for what one of them trained."""
        node.workerinput[_INPUT] = str(self._folder)

    def pytest_unconfigure(self) -> None:
        """Remove what was trained, if anything was."""
        shutil.rmtree(self._folder, ignore_errors=True)


def keep_runs(config: pytest.Config) -> None:
    """Register what removes the temporary folder, unless this is a worker of xdist."""
    if hasattr(config, "workerinput"):
        config.stash[_TEMPORARY] = Path(config.workerinput[_INPUT])
    else:
        config.pluginmanager.register(RunKeeper(config), "genderbias-runs")


def runs_folder(config: pytest.Config) -> Path:
    """Return the folder of trained models, made when it is first needed, for its owner alone if it is temporary."""
    kept = config.stash[SETTINGS].runs
    if kept is not None:
        return kept
    folder = config.stash[_TEMPORARY]
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
