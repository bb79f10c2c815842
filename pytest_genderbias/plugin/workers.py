"""Messages between the controller and the workers of xdist. Without xdist there are no workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import pytest

_WIDTH = "genderbias_width"  #: key of the columns of the terminal, which a worker does not have either
_OF_FILES, _NARROWEST = 100, 40  #: columns of output that goes to a file, and the least that lines are wrapped to
_ARGUMENTS = "genderbias_arguments"  #: key of the arguments of the user, which a worker does not have


class WorkerNode(Protocol):
    """A worker, as its controller sees it."""

    workerinput: dict[str, object]


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker."""
    return hasattr(config, "workerinput")


def worker_input(config: pytest.Config) -> Mapping[str, object]:
    """Return what the controller sent; empty in any other process."""
    sent: Mapping[str, object] = getattr(config, "workerinput", {})
    return sent


def send_to_worker(config: pytest.Config, node: WorkerNode) -> None:
    """Send a worker the columns of the terminal, and the arguments of the user."""
    node.workerinput[_WIDTH] = terminal_width(config)
    node.workerinput[_ARGUMENTS] = [str(argument) for argument in config.invocation_params.args]


def user_arguments(config: pytest.Config) -> Sequence[object]:
    """Return the arguments of the user, also in a worker."""
    arguments = worker_input(config).get(_ARGUMENTS)
    return arguments if isinstance(arguments, list) else config.invocation_params.args


def terminal_width(config: pytest.Config) -> int:
    """Return the columns of the terminal of the run, also in a worker: of output to a file 100, unless ``COLUMNS`` says
    otherwise.
    """
    width = worker_input(config).get(_WIDTH)
    if isinstance(width, int):
        return width
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    # -p no:terminal leaves out the reporter
    is_known = reporter is not None and (os.environ.get("COLUMNS", "").isdigit() or reporter.isatty)
    return max(_NARROWEST, config.get_terminal_writer().fullwidth) if is_known else _OF_FILES
