"""The data sets that the suites can use, and the search for their files under ``--bias-data=DIR``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import brief, expected_instead, refuse_unknown_name

#: Files that belong together, each a path or pattern relative to the data folder.
Choice = tuple[str, ...]
_TABLE = ".TABLE"  #: ends an entry that stands for a table in any of the formats


class MissingDataError(NotApplicableError):
    """A data set is missing."""


@dataclass(frozen=True)
class DataSet:
    """The file names, the source and the licence of a data set, as ``data_sets.yaml`` has them."""

    name: str
    title: str
    splits: Mapping[str, tuple[Choice, ...]]
    published: str
    licence: str
    instead: str = ""
    read_by: Mapping[str, Any] = field(default_factory=dict)


@cache
def known_data_sets() -> Mapping[str, DataSet]:
    """Return all data sets by name."""
    found = {}
    for name, about in read_yaml(Path(__file__).with_name("data_sets.yaml")).items():
        splits = {split: tuple(chain.from_iterable(map(_choices, rows))) for split, rows in about["splits"].items()}
        found[name] = DataSet(name, **{**about, "splits": splits})
    return found


def _choices(written: str | list[str]) -> tuple[Choice, ...]:
    """Return the choices of files that an entry of a split stands for."""
    if isinstance(written, str) and written.endswith(_TABLE):
        stem = written.removesuffix(_TABLE)
        return tuple((stem + suffix,) for suffix in (".jsonl", ".csv", ".tsv", ".parquet"))
    return ((written,) if isinstance(written, str) else tuple(written),)


def bbq_categories() -> tuple[str, ...]:
    """Return the categories of BBQ, which are splits of it."""
    return tuple(split for split in known_data_sets()["bbq"].splits if split not in ("gender_templates", "names"))


def data_set_of(value: str, names: Collection[str]) -> str | None:
    """Return the data set in the value of an option, ``NAME`` or ``NAME/SPLIT``, or None if the value is a path.

    The name of a data set takes precedence over a file in the working directory. Write ``./NAME`` for a folder of that
    name.

    Raises:
        SettingError: the value is neither a name nor, without a separator or suffix, a path.

    >>> data_set_of("brown", ["brown"]), data_set_of("./brown", ["brown"]), data_set_of("brown.txt", ["brown"])
    ('brown', None, None)
    """
    name = value.partition("/")[0]
    if name in names:
        return name
    if not re.search(r"[/\\.~]", value):
        if os.path.exists(value):
            raise SettingError(
                f"no data set is called {brief(value)}; a file or folder of this name is here: write ./{value} for it,"
                f" or one of {', '.join(names)}"
            )
        raise SettingError(
            f"no data set is called {brief(value)}; "
            + expected_instead(name, names, advice=f", or a path with a separator or a suffix (./{value})")
        )
    return None


@dataclass(frozen=True)
class DataFolder:
    """The folder of ``--bias-data``. With ``root=None``, every data set is missing.

    Raises:
        SettingError: the folder does not exist.
    """

    root: Path | None = None

    def __post_init__(self) -> None:
        """Check that the folder exists."""
        if self.root is not None and not self.root.is_dir():
            raise SettingError(
                f"--bias-data={self.root}: no such folder; expected the folder that contains snli/, stsb/, ..."
                " (docs/reference/data.md)"
            )

    def locate(self, name: str, split: str | None = None) -> tuple[tuple[Path, ...], str]:
        """Return the files of a data set, and their split.

        Args:
            name: A name from :func:`known_data_sets`.
            split: An official split. None: the first split that exists, in the order of ``splits``, except ``train``.

        Raises:
            UnknownNameError: no data set, or no split of it, has that name.
            MissingDataError: the files are missing; the message names them, the folder, the source and an alternative.
        """
        refuse_unknown_name(name, known_data_sets(), f"no data set is called {brief(name)}")
        data = known_data_sets()[name]
        if split is not None:
            refuse_unknown_name(split, data.splits, f"no split of {name} is called {brief(split)}")
        splits = [split] if split is not None else [s for s in data.splits if s != "train"]
        for candidate in splits if self.root is not None else ():
            for choice in data.splits[candidate]:
                files = self._files(choice)
                if files:
                    return files, candidate
        raise MissingDataError(self._missing(data, splits))

    def find_all(self, name: str, split: str | None = None) -> tuple[Path, ...]:
        """Return the files of a data set; see :meth:`locate`."""
        return self.locate(name, split)[0]

    def find(self, name: str, split: str | None = None) -> Path:
        """Return the file of a data set that consists of one file; see :meth:`locate`."""
        files = self.find_all(name, split)
        if len(files) > 1:
            raise SettingError(f"{name} is {len(files)} files here, expected one: {', '.join(map(str, files))}")
        return files[0]

    def _files(self, choice: Choice) -> tuple[Path, ...]:
        assert self.root is not None
        files: list[Path] = []
        for pattern in choice:
            matches = sorted(p for p in self.root.glob(pattern) if p.is_file())
            matches = matches or sorted(p for p in self.root.glob(pattern + ".gz") if p.is_file())
            if not matches:
                return ()
            files += matches
        return tuple(files)

    def _missing(self, data: DataSet, splits: list[str]) -> str:
        wanted = " or ".join(_describe(data.splits[split][0]) for split in splits)
        where = f"under --bias-data={self.root}" if self.root is not None else "in a folder named by --bias-data=DIR"
        instead = f"; {data.instead}" if data.instead else ""
        return f"no {data.title}: expected {wanted} {where}; published at {data.published}{instead}"


def _describe(choice: Choice) -> str:
    return choice[0] if len(choice) == 1 else f"{choice[0]} and the {len(choice) - 1} files beside it"
