"""Baseline files as the plugin names them, the messages on them, and the commands to type next, made from the arguments
of the user. Importing this module imports no numpy.
"""

from __future__ import annotations

import os
import re
import shlex
from itertools import pairwise
from typing import NamedTuple

import pytest

from pytest_genderbias.errors import StoreError
from pytest_genderbias.gates.book_places import MOST_BYTES, Place, read_place
from pytest_genderbias.plugin.bias_item import PACKAGED, BiasItem
from pytest_genderbias.plugin.options import SETTINGS
from pytest_genderbias.plugin.outputs import OUTPUTS
from pytest_genderbias.plugin.workers import user_arguments
from pytest_genderbias.text.plain_files import as_text, parse_json


class BookKey(NamedTuple):
    """The model name and the module whose baselines one file holds."""

    model: str
    module: str


class Messages(list[tuple[str, str]]):
    """Lines for the end of the run, each with its markup; those in red fail the run."""

    def add(self, text: str, markup: str = "") -> None:
        """Add a line."""
        self.append((text, markup))

    def fail(self, text: str) -> None:
        """Add a line, and fail the run."""
        self.add(text, "red")

    @property
    def failures(self) -> list[str]:
        """The lines that fail the run."""
        return [text for text, markup in self if markup == "red"]


def module_and_names(path: Place) -> tuple[str, set[str]]:
    """Return the module and the entry names of a baseline file; nothing if it cannot be read."""
    try:
        data = parse_json(as_text(path, read_place(path), MOST_BYTES), str(path))
    except (OSError, ValueError, StoreError):
        return "", set()
    module, entries = (data.get("module"), data.get("entries")) if isinstance(data, dict) else (None, None)
    return (module, set(entries)) if isinstance(module, str) and isinstance(entries, dict) else ("", set())


def update_command(item: pytest.Item, *others: pytest.Item) -> str:
    """Return the command of one test or several, without a reason, and without the files that the run writes beside
    it.
    """
    config, items = item.config, (item, *others)
    arguments = [str(argument) for argument in user_arguments(config)]
    with_value = ["--bias-reason", *(output.flag for output in OUTPUTS if output.flagged)]
    without_value = {"--bias-update", "--bias-update-new"}
    if not any(map(_is_packaged, items)):  # these tests alone, without the suites of flags
        with_value += ["--bias-suite", "--bias-no-worse-than", "--bias-same-as"]
        without_value.update(config.option.file_or_dir or ())
    remaining = [
        argument
        for before, argument in pairwise(["", *arguments])
        if argument not in without_value and before not in with_value and argument.partition("=")[0] not in with_value
    ]
    selections = (_selection(one) for one in items if not others or not _is_packaged(one))
    chosen = dict.fromkeys(argument for selection in selections for argument in selection)
    return f"pytest {shlex.join([*remaining, *chosen])} --bias-update"


def write_gates_command(config: pytest.Config) -> str:
    """Return the command that writes gates from what a run measured: after the same run, unless it has written its JSON
    file.
    """
    path = config.stash[SETTINGS].json
    if path is not None:
        return (
            f"genderbias report {shlex.quote(os.path.relpath(str(path), config.invocation_params.dir))} --to"
            " release.bias.yaml"
        )
    again = shlex.join([*map(str, user_arguments(config)), "--bias-json=run.json"])
    return f"pytest {again} && genderbias report run.json --to release.bias.yaml"


def _is_packaged(item: pytest.Item) -> bool:
    return isinstance(item, BiasItem) and item.baseline_module == PACKAGED


def _selection(item: pytest.Item) -> list[str]:
    """Return the arguments that select a test: its id, or ``-k`` for a suite that no file names."""
    if not _is_packaged(item):
        file = os.path.relpath(item.path, item.config.invocation_params.dir)
        no_suites = ["-o", "bias_suite="] if item.config.getini("bias_suite") else []
        return [*no_suites, "::".join([file.replace(os.sep, "/"), *item.nodeid.split("::")[1:]])]
    if not re.fullmatch(r"[\w:+\-.\[\]/]+", item.name):
        return []
    longer = [other.name for other in item.session.items if item.name in other.name and other.name != item.name]
    return ["-k", " and not ".join([item.name, *longer])]
