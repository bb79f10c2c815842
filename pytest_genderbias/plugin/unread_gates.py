"""Find files that look like gate files and that pytest does not read: a wrong name passes every model in silence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
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
_MISNAMED = "pytest reads *.bias.yaml and *.bias.yml only, so rename it"
_AWAY = "pytest did not enter its folder (norecursedirs, testpaths, --ignore): move it, or name it on the command line"
_DEAD = "a link to a file that is not there: fetch the file, or remove the link"
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
    unread: dict[str, list[str]] = {}
    for path in islice(_yaml_files(root), _MOST_FILES):
        is_named = path.name.endswith(ENDINGS)
        if Path(os.path.realpath(path)) in read or (is_named and not any(map(path.is_relative_to, started))):
            continue
        if _looks_like_gates(path) if os.path.exists(path) else is_named:
            why = _MISNAMED if not is_named else _AWAY if os.path.exists(path) else _DEAD
            unread.setdefault(why, []).append(path.relative_to(root).as_posix())
    parts = [f"{_named(unread[why])}: {why}" for why in (_MISNAMED, _AWAY, _DEAD) if why in unread]
    return f"gates that were not read: {'; '.join(parts)}" if parts else ""


def _starting_folders(config: pytest.Config) -> Sequence[Path]:
    """Return the folders that the user wants pytest to search: those of the command line, or else the whole project."""
    if config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        return [config.rootpath]
    typed = [config.invocation_params.dir / str(argument).partition("::")[0] for argument in config.args]
    return [Path(os.path.abspath(path)) for path in typed if path.is_dir()]


def _yaml_files(root: Path) -> Iterator[Path]:
    """Yield the YAML files of a project, and links that are named so and lead nowhere, or to themselves, also in hidden
    folders, but in no environment of Python and no repository of git.
    """
    folders = [root]
    for folder in islice(folders, _MOST_FOLDERS):  # those inside come to its end
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        if folder != root and _ENVIRONMENT & {entry.name for entry in entries}:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and entry.name not in _FOREIGN:
                folders.append(Path(entry.path))
            elif entry.name.casefold().endswith(_YAML) and (
                os.path.isfile(entry.path) or (entry.is_symlink() and not os.path.exists(entry.path))
            ):
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
