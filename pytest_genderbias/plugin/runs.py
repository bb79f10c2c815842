"""The folder of the models that mitigations train: that of ``bias_runs``, or a temporary one that all workers share."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path

import pytest

from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.workers import WorkerNode, is_worker, worker_input

_INPUT = "genderbias_runs"  #: key of the temporary folder in the input of a worker of xdist
_TEMPORARY = pytest.StashKey[Path]()


class RunKeeper:
    """Removes the temporary folder at the end of the run. Workers of xdist have none."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(tempfile.gettempdir(), f"genderbias-{uuid.uuid4().hex}")
        config.stash[_TEMPORARY] = self._folder

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerNode) -> None:
        """Send a worker the path, so that all workers share trained models."""
        node.workerinput[_INPUT] = str(self._folder)

    def pytest_unconfigure(self) -> None:
        """Remove the trained models, if there are any."""
        shutil.rmtree(self._folder, ignore_errors=True)


def keep_runs(config: pytest.Config) -> None:
    """Register a :class:`RunKeeper`, except in a worker of xdist, which gets the path from its controller."""
    if is_worker(config):
        config.stash[_TEMPORARY] = Path(str(worker_input(config)[_INPUT]))
    else:
        config.pluginmanager.register(RunKeeper(config), "genderbias-runs")


def runs_folder(config: pytest.Config) -> Path:
    """Return the folder of trained models. A temporary one is created on first use, readable by its owner only."""
    runs = config.stash[SETTINGS].runs
    if runs is not None:
        return runs
    folder = config.stash[_TEMPORARY]
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
