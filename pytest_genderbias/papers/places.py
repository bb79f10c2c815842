"""Where the files of a run lie on the user's machine: names in braces in the settings of a run stand for paths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import SettingError
from pytest_genderbias.measurement.runner import Runner, RunSettings
from pytest_genderbias.papers.texts import TEXTS

_NAME = re.compile(r"\{([a-z0-9_]+)\}")


@dataclass(frozen=True)
class Places:
    """Paths by the names that settings use, and where trainings are kept.

    Attributes:
        named: ``data`` (the folder of data sets), ``runs`` (the folder of trainings), and what the user names:
            ``glove``.
        trainings: folder of the trainings, so that an interrupted run resumes and runs share models.
        progress: whether trainings show a progress bar.
    """

    named: Mapping[str, str]
    trainings: Path
    progress: bool = field(default=False, compare=False)


def runner_of_paper(places: Places) -> Runner:
    """Return a runner for the models of a paper's table. The figures of their task, which stand beside their bias, show
    how able they are.
    """
    reason = "none: the figures of the task stand beside the bias"
    return Runner(score=RunSettings(cache=places.trainings / "scores", ability=reason))


def names_in(settings: object) -> set[str]:
    """Return the names in braces in all texts of some settings.

    >>> sorted(names_in({"model": "{data}/models/x", "recipe": {"corpus": ["{runs}/bold.txt"]}}))
    ['data', 'runs']
    """
    return {name for text in _texts(settings) for name in _NAME.findall(text)}


def placed(settings: Any, places: Places) -> Any:
    """Return settings with every name in braces replaced by its path.

    Raises:
        SettingError: a name has no path.
    """
    named = dict(places.named)
    for name in (names_in(settings) - named.keys()) & TEXTS.keys():
        if "data" in named:
            named[name] = str(TEXTS[name](Path(named["data"]), places.trainings))
    if missing := sorted(names_in(settings) - named.keys()):
        raise SettingError(
            f"this run needs {', '.join(missing)}; name the path: --place {missing[0]}=PATH, or --data for the data"
            " sets"
        )
    return _replaced(settings, named)


def without_paths(value: Any, places: Places) -> Any:
    """Return JSON values in which paths are reduced to their last part, so that results do not depend on the
    machine.
    """
    if isinstance(value, Mapping):
        return {str(key): without_paths(member, places) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_paths(member, places) for member in value]
    if isinstance(value, str):
        for root in sorted((*places.named.values(), str(places.trainings)), key=len, reverse=True):
            value = value.replace(f"{root}/", "") if root else value
    if isinstance(value, Path) or (isinstance(value, str) and value.startswith("/")):
        return Path(value).name
    return value


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, (list, tuple)):
        for member in value:
            yield from _texts(member)


def _replaced(value: Any, named: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(lambda match: named[match[1]], value)
    if isinstance(value, Mapping):
        return {key: _replaced(member, named) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_replaced(member, named) for member in value]
    return value
