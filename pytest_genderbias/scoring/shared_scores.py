"""Scores in a store that several machines share, at a URL that fsspec opens (``s3://``, ``gs://``, ``abfs://``, ...).

The folder of the user's score cache stays in front of it: an entry is fetched before it is read, and each file is sent
when it is written. Files are never changed once they are written, and begin with their checksum, so that machines need
no lock: a file that is cut off or damaged is scored again. A store that fails ends no run: it is left alone for the
rest of the process, and the next run sends what it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pytest_genderbias.folders import write_whole
from pytest_genderbias.text.plain_files import check_url, put_file, reason_of


class SharedScores:
    """The scores at a URL.

    Args:
        url: the URL of a folder, as ``s3://bucket/scores``. Keys are those of the environment: a URL that holds a
            password or a query is refused.

    Attributes:
        failure: why the store is no longer used; ``None`` as long as it works.

    Raises:
        SettingError: the URL names no store, holds a key, or its package is missing.
    """

    def __init__(self, url: str) -> None:
        """Read the URL, and check that its package is installed; nothing is asked of the store yet."""
        check_url(url)
        self._url = url.rstrip("/")
        self._files: Any = None
        self.failure: str | None = None

    def fetch(self, folder: Path, wanted: re.Pattern[str], most: int) -> None:
        """Copy the files of an entry that its folder lacks, and send those that the store lacks.

        Args:
            folder: the folder of the entry, whose name is its name in the store.
            wanted: matches the names of the files that belong to it.
            most: largest size in bytes of a file; larger ones are left where they are.
        """
        self._try(lambda: self._copy(folder, wanted, most))

    def send(self, path: Path, content: bytes) -> None:
        """Write a file of an entry to the store."""
        self._try(lambda: self._put(path, content))

    def _copy(self, folder: Path, wanted: re.Pattern[str], most: int) -> None:
        there = dict(_sizes(self._opened(), f"{self._root}/{folder.name}"))
        here = {path.name: path for path in folder.iterdir() if wanted.fullmatch(path.name)}
        for name in sorted(there.keys() - here.keys()):
            if wanted.fullmatch(name) and there[name] <= most:
                write_whole(folder / name, self._opened().cat_file(f"{self._root}/{folder.name}/{name}"))
        for name in sorted(here.keys() - there.keys()):
            self._put(here[name], here[name].read_bytes())

    def _put(self, path: Path, content: bytes) -> None:
        put_file(self._opened(), f"{self._root}/{path.parent.name}/{path.name}", content)

    def _opened(self) -> Any:
        if self._files is None:
            from fsspec.core import url_to_fs

            self._files, self._root = url_to_fs(self._url, use_listings_cache=False)
        return self._files

    def _try(self, act: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            act()
        except Exception as error:  # each library of a store raises errors of its own
            self.failure = f"scores not shared: {self._url}: {reason_of(error)}"


def _sizes(files: Any, folder: str) -> Iterable[tuple[str, int]]:
    """Yield the name and the size in bytes of each file of a folder; nothing if there is none."""
    try:
        found = files.ls(folder, detail=True)
    except FileNotFoundError:
        return
    for file in found:
        if file.get("type") == "file" and isinstance(file.get("size"), int):
            yield str(file["name"]).rsplit("/", 1)[-1], file["size"]
