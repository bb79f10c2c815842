"""Parsers of flag values. Each takes the text and its :class:`Origin`, and raises a usage error.

A ``BiasError`` of what a parser calls becomes one where the settings are read (``plugin/options.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from pytest_genderbias.errors import DataFileError, SettingError, installing
from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import is_stream
from pytest_genderbias.gates.book_places import Place, UrlPath, place_of
from pytest_genderbias.gates.policy import Margin, read_margin
from pytest_genderbias.measurement.ability_setting import NONE, ability_from
from pytest_genderbias.models.spec import ModelSpec, parse_specs
from pytest_genderbias.plugin.doors import EXECUTORS, reach
from pytest_genderbias.plugin.flags import FLAGS
from pytest_genderbias.text import packaged
from pytest_genderbias.text.plain_files import expand, is_regular, read_whole, reason
from pytest_genderbias.text.printable import brief, expected_instead
from pytest_genderbias.text.schema import Count, Mismatch, fit, one_of, words

_DIGITS = 300  #: a whole number of more digits is read as a float, for which no number of digits is too many
_SIZE_UNITS = {
    "": 1,
    **{f"{p}b": 1000**n for n, p in enumerate(["", *"kmgt"])},
    **{f"{p}ib": 1024**n for n, p in enumerate("kmgt", 1)},
}
ALL = "all"  #: stands for all packaged suites
_LONGEST_PROMPT = 1 << 20  #: bytes of a system prompt in a file


@dataclass(frozen=True)
class Origin:
    """The flag that a value belongs to, and where relative paths start.

    ``folder``: the current directory for a value on the command line, and the root directory for one in the ini file.
    ``project``: the root directory of the project in either case.
    """

    flag: str
    folder: Path
    project: Path

    def error(self, message: str) -> pytest.UsageError:
        """Return a usage error that names the flag."""
        return pytest.UsageError(printable(f"{self.flag}: {message}"))


def models(texts: list[str], origin: Origin) -> tuple[ModelSpec, ...]:
    """Parse ``[NAME=]SPEC`` values."""
    return tuple(parse_specs(texts))


def ability(text: str, origin: Origin) -> str | list[str] | None:
    """Parse ``bias_ability``: ``none: REASON``, or paths of control items, separated by commas."""
    written = text if text.partition(":")[0].strip() == NONE else [part.strip() for part in text.split(",")]
    return ability_from(written, origin.folder, "the key")


def suites(texts: list[str], origin: Origin) -> tuple[str, ...]:
    """Parse names of packaged suites, paths of suite files, which become absolute, and ``all``, separated by commas."""
    packaged_names = packaged.names("fixtures")
    otherwise = "expected 'all', the path of a .yaml file, or one of"
    parts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if texts and not parts:
        raise origin.error("no suite is named; expected 'all', or names such as lm-occupation")
    selected: list[str] = []
    for part in parts:
        if part.endswith((".yaml", ".yml")):
            path = origin.folder / _expanded(part, origin)
            if not is_regular(path):
                raise origin.error(f"no file {path}")
            selected.append(str(path))
        elif part == ALL or part in packaged_names:
            selected.append(part)
        else:
            raise origin.error(f"no suite {part!r}; {expected_instead(part, packaged_names, otherwise)}")
    return tuple(selected)


def in_full(selected: tuple[str, ...]) -> tuple[str, ...]:
    """Return the suites that were selected, each once, with those that ``all`` stands for."""
    each = (packaged.names("fixtures") if one == ALL else [one] for one in selected)
    return tuple(dict.fromkeys(chain.from_iterable(each)))


def suite_options(texts: list[str], origin: Origin) -> tuple[tuple[str, str, object], ...]:
    """Parse ``[SUITE:]NAME=VALUE`` values; VALUE is YAML. An option without a suite (``""``) goes to every suite that
    has it.
    """
    return tuple(_suite_option(text, origin) for text in texts)


def _suite_option(text: str, origin: Origin) -> tuple[str, str, object]:
    key, equals, value = text.partition("=")
    suite, _, name = (part.strip() for part in key.rpartition(":"))
    if not equals or not name:
        raise origin.error(f"expected [SUITE:]NAME=VALUE, got {text!r}")
    from pytest_genderbias.text.located_yaml import parse_value

    if not suite:  # otherwise an option that no suite has would have no effect
        from pytest_genderbias.suites.suite import FAMILIES, load_family

        known = {option for family in map(load_family, FAMILIES) for option in family.options}
        if name not in known:
            raise origin.error(f"no suite has an option {name!r}; {expected_instead(name, sorted(known))}")
    try:
        return suite, name, parse_value(value, "the value")
    except DataFileError as error:
        problem = str(error).partition(": ")[2]  # without the place in a value that is one line long
        raise origin.error(f"{brief(value)} is not a valid value: {problem}") from None


def as_is(text: str, origin: Origin) -> str:
    """Return the text unchanged."""
    return text


def one_line(text: str, origin: Origin) -> str | None:
    """Return the text on one line, without control characters; ``None`` if nothing is left."""
    return printable(" ".join(text.split())) or None


def names(text: str, origin: Origin) -> tuple[str, ...]:
    """Parse names separated by commas."""
    return tuple(part.strip() for part in text.split(","))


def named_places(texts: list[str], origin: Origin) -> tuple[tuple[str, str], ...]:
    """Parse ``NAME=DIR`` values, each for another name."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        name, equals, place = (part.strip() for part in text.partition("="))
        if not equals or not name or not place:
            raise origin.error(f"expected NAME=DIR, with NAME that of a --bias-model, got {text!r}")
        if name in dict(pairs):
            raise origin.error(f"{name!r} has two places; expected one")
        folder = path(place, origin)
        pairs.append((name, str(folder) if folder.is_dir() else place))
    return tuple(pairs)


def _number_or_text(text: str) -> float | str:
    if text.replace("_", "").isdecimal() and len(text) < _DIGITS:
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def value(hint: object) -> Callable[[str, Origin], Any]:
    """Return a parser of what an annotation allows: a number, or a text."""

    def parse(text: str, origin: Origin) -> Any:
        try:
            return fit(hint, _number_or_text(text))
        except Mismatch:
            raise origin.error(f"expected {words(hint)}, got {text!r}") from None

    return parse


def executor(text: str, origin: Origin) -> str:
    """Parse where cases are scored; the package of an executor has to be installed."""
    where: str = value(Annotated[str, one_of("process", *EXECUTORS)])(text, origin)
    if where in EXECUTORS and find_spec(where) is None:
        raise origin.error(f"needs the package {where}; install it with: {installing(where)}")
    return where


def ray_address(text: str, origin: Origin) -> str:
    """Parse the address of a Ray cluster; the executor checks any but the default."""
    return text if text == FLAGS["ray"].default else str(reach(EXECUTORS["ray"][1])(text))


def workers(text: str, origin: Origin) -> tuple[int, int]:
    """Parse a number of workers, and of the threads of each, 1 by default: ``4`` or ``4x2``."""
    match = re.fullmatch(r"([1-9]\d{0,5})(?:x([1-9]\d{0,3}))?", text.strip())
    if match is None:
        raise origin.error(f"expected a number of workers, or of workers and threads as 4x2, got {text!r}")
    return int(match[1]), int(match[2] or 1)


#: The parser of the comparisons to correct for.
correction = value(Literal["model", "module", "none"] | Count)


def margin(text: str, origin: Origin) -> Margin:
    """Parse a margin: ``0.02`` or ``20%``."""
    return read_margin(_number_or_text(text))


def text_or_file(text: str, origin: Origin) -> str | None:
    """Return a text, or that of the file after ``@``; ``None`` if nothing is left."""
    if text.startswith("@"):
        text = read_whole(origin.folder / _expanded(text[1:].strip(), origin), _LONGEST_PROMPT)
    return text.strip() or None


def growth(text: str, origin: Origin) -> float:
    """Parse a growth: ``50%`` is .5."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*%\s*", text)
    if match is None or not float(match[1]) > 0:
        raise origin.error(f"expected a growth in percent, as 50%, got {text!r}")
    return float(match[1]) / 100


def size(text: str, origin: Origin) -> int:
    """Parse a size in bytes: ``500MB``, ``1.5 GiB``, ``1000``."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _SIZE_UNITS:
        raise origin.error(f"expected a size such as 500MB, 2GB or 1GiB, or a number of bytes, got {text!r}")
    return int(float(match[1]) * _SIZE_UNITS[match[2]])


def path(text: str, origin: Origin) -> Path:
    """Parse the path of a file or folder that need not exist."""
    return _possible(origin.folder / _expanded(text, origin), origin)


def _expanded(text: str, origin: Origin) -> Path:
    try:
        return expand(text)
    except SettingError as error:
        raise origin.error(str(error)) from None


def _possible(path: Path, origin: Origin) -> Path:
    """Return a path; one that nothing can have, or that may not be looked up, is a usage error."""
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise origin.error(f"{path}: {reason(error)}; choose another path") from None
    return path


def file(text: str, origin: Origin) -> Path:
    """Parse the path of a file to write, whose folder can be written or made; a pipe or a device needs neither."""
    path = _possible(origin.folder / text, origin)
    if path.is_dir():
        raise origin.error(f"{path} is a folder; give the path of a file")
    if is_stream(path):  # it is written as it is, without a file beside it
        return path
    if (obstacle := not_writable(path.parent)) is not None:
        raise origin.error(f"{obstacle} cannot be written; choose another folder for the file")
    return path


def file_or_url(text: str, origin: Origin) -> Path | str:
    """Parse the path of a file to write, or leave a URL as it is."""
    return text if "://" in text else file(text, origin)


def records_file(text: str, origin: Origin) -> Path:
    """Parse the path of a table to write: CSV, or Parquet where pyarrow is installed."""
    ending = Path(text).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise origin.error(f"expected a file that ends in .csv or .parquet, got {text!r}")
    if ending == ".parquet" and find_spec("pyarrow") is None:
        raise origin.error(f"a .parquet file needs pyarrow; install with: {installing('parquet')}")
    return file(text, origin)


def new_gate_file(text: str, origin: Origin) -> Path:
    """Parse the path of a new gate file."""
    if not text.endswith(".bias.yaml"):
        raise origin.error(f"expected a file that ends in .bias.yaml, which pytest collects, got {text!r}")
    return file(text, origin)


def baseline_folder(text: str, origin: Origin) -> Place:
    """Parse the URL of the baselines, or their path, which always starts at the root directory of the project."""
    place = place_of(text, origin.project)
    return _possible(place, origin) if isinstance(place, Path) else place


def shared_cache(url: str, origin: Origin) -> str:
    """Parse the URL of a folder of scores that can be opened here."""
    from pytest_genderbias.scoring.store import SharedScores

    SharedScores(url)
    return url


def data_folder(text: str, origin: Origin) -> Path:
    """Parse the path of a folder with data sets, which must exist."""
    folder = path(text, origin)
    if not folder.is_dir():
        raise origin.error(f"no folder {folder}; its layout is in docs/reference/data.md")
    return folder


def writable_folder(text: str, origin: Origin) -> Path:
    """Parse the path of a folder that can be written or made."""
    folder = path(text, origin)
    if (obstacle := not_writable(folder)) is not None:
        raise origin.error(f"{obstacle} cannot be written; choose another folder")
    return folder


def not_writable(folder: Place) -> Place | None:
    """Return what prevents writing or making a folder: itself or its nearest existing parent; ``None`` if nothing
    does. Of a URL, it is only checked that it can be read.

    Raises:
        StoreError: it cannot.
    """
    if isinstance(folder, UrlPath):
        folder.glob("*")
        return None
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return None if nearest.is_dir() and os.access(nearest, os.W_OK) else nearest
