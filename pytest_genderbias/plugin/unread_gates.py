"""Find files that look like gate files and that pytest does not read: a wrong name passes every model in silence."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pytest_genderbias.plugin.flags import ENDINGS

_YAML = (".yaml", ".yml")
_TOP_KEY = re.compile(rb"^(?:\xef\xbb\xbf)?\{?\s*[\"']?(?:gates|mitigate)[\"']?\s*:", re.MULTILINE)
_SUITE = re.compile(rb"\bsuites?[\"']?\s*:")
_FOREIGN = frozenset({".git", ".hg", ".svn", ".tox", ".nox", "node_modules", "site-packages", "__pycache__"})
_ENVIRONMENT = frozenset({"pyvenv.cfg", "conda-meta"})  #: what marks a folder as an environment of Python
_MOST_FOLDERS, _MOST_FILES, _MOST_BYTES = 10_000, 2_000, 2**18
_SHOWN = 5  #: files that the line names
_COLLECTED = pytest.StashKey[set[Path]]()


def collected_gate_files(config: pytest.Config) -> set[Path]:
    """Return the gate files that were collected, as absolute paths: by this process, or by a worker of xdist that sent
    them.
    """
    return config.stash.setdefault(_COLLECTED, set())


def find_unread_gates(config: pytest.Config) -> str:
    """Search the project of a run for gate files that it did not collect, and return in one line what is not read, why,
    and what to do; an empty text if there are none.

    Files in a folder that the command line leaves out on purpose, by naming others, are not counted.
    """
    root, started = config.rootpath, _starting_folders(config)
    read = {path.resolve() for path in collected_gate_files(config)}
    misnamed: list[str] = []
    not_entered: list[str] = []
    for path in _yaml_files(root):
        is_named = path.name.endswith(ENDINGS)
        if path.resolve() in read or (is_named and not any(path.is_relative_to(folder) for folder in started)):
            continue
        if _looks_like_gates(path):
            (not_entered if is_named else misnamed).append(path.relative_to(root).as_posix())
    parts = []
    if misnamed:
        parts.append(f"{_named(misnamed)}: pytest reads *.bias.yaml and *.bias.yml only, so rename it")
    if not_entered:
        parts.append(
            f"{_named(not_entered)}: pytest did not enter its folder (norecursedirs, testpaths, --ignore), so move it,"
            " or name it on the command line"
        )
    return f"gates that were not read: {'; '.join(parts)}" if parts else ""


def _starting_folders(config: pytest.Config) -> Sequence[Path]:
    """Return the folders that the user wants pytest to search: those of the command line, or else the whole project."""
    if config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        return [config.rootpath]
    typed = [config.invocation_params.dir / str(argument).partition("::")[0] for argument in config.args]
    return [Path(os.path.abspath(path)) for path in typed if path.is_dir()]


def _yaml_files(root: Path) -> Iterator[Path]:
    """Yield the YAML files of a project, also in hidden folders, but in no environment of Python and no repository of
    git.
    """
    folders, files = deque([root]), 0
    for _ in range(_MOST_FOLDERS):
        if not folders:
            return
        folder = folders.popleft()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if folder != root and _ENVIRONMENT & {entry.name for entry in entries}:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _FOREIGN:
                    folders.append(Path(entry.path))
            elif entry.name.casefold().endswith(_YAML) and entry.is_file():
                files += 1
                if files > _MOST_FILES:
                    return
                yield Path(entry.path)


def _looks_like_gates(path: Path) -> bool:
    """Return whether a YAML file has the key ``gates`` or ``mitigate`` at its top, and names a suite."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return False
    return bool(_TOP_KEY.search(content) and _SUITE.search(content))


def _named(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"
