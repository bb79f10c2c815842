"""Where baselines are: a folder, or a URL that fsspec opens (``s3://``, ``gs://``, ``abfs://``, ...).

Both hold the same files. At a URL, a process keeps what it has read until it writes or starts another run, and an
update holds a lock: a file that only one process can create. A run that is killed leaves that file behind.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from pytest_genderbias.errors import DataFileError, SettingError, StoreError, WriteError
from pytest_genderbias.folders import locked_file, write_whole
from pytest_genderbias.text.plain_files import check_url, open_regular, put_file, reason_of

MOST_BYTES = 64 * 1024 * 1024  #: of a baseline file
_PAUSE = 1.0  #: seconds between two attempts to lock
_ADVICE = "check the URL, the network and the credentials in the environment, and run again"


class UrlPath(PurePosixPath):
    """A file or folder at a URL, named as a path is: its first two parts are the protocol and the bucket or host."""

    def __str__(self) -> str:
        """Return the URL."""
        return super().__str__().replace(":/", "://", 1)

    def opened(self) -> tuple[Any, str]:
        """Return the file system of fsspec, and the name of this file in it."""
        from fsspec.core import url_to_fs

        files, name = url_to_fs(str(self), use_listings_cache=False)
        return files, name

    def glob(self, pattern: str) -> list[UrlPath]:
        """Return the files below this folder that match a pattern of one or two parts.

        Raises:
            StoreError: the store cannot be read, or has no such bucket.
        """
        depth = pattern.count("/") + 1
        below = (self.joinpath(*parts) for parts in _found(self) if len(parts) == depth)
        return [path for path in below if path.match(pattern)]


Place: TypeAlias = Path | UrlPath


def place_of(text: str, folder: Path) -> Place:
    """Return where a path from a folder, or a URL, leads.

    Raises:
        SettingError: the URL names no store, holds a key, or its package is missing.
    """
    if "://" not in text:
        return folder / text
    protocol, bucket, path = check_url(text)
    if protocol in ("file", "local"):
        return Path(bucket + path)
    if not bucket:
        raise SettingError(f"expected a URL with a bucket or host, as s3://BUCKET/FOLDER, got {text}")
    forget()
    return UrlPath(text)


def book_path(directory: Place, model: str, module: str) -> Place:
    """Return the JSON file of a model name and test module.

    A slash becomes a dot. A hash follows a name that has more dots, so that no two modules share a file.
    """
    named = module.replace("/", ".")
    stem = module.removesuffix(".bias.yaml") if module.endswith(".bias.yaml") else module.rpartition(".")[0]
    return directory / model / (f"{named}-{short_digest(module)}.json" if "." in stem else f"{named}.json")


def short_digest(text: str) -> str:
    """Return the start of the SHA-256 of a text, by which names of files differ."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def is_missing(place: Place) -> bool:
    """Return whether there is no file; a file that cannot be read is there.

    Raises:
        StoreError: the store of a URL cannot be read, or has no such bucket.
    """
    if isinstance(place, UrlPath):
        return content_of(place) is None
    try:
        place.lstat()
    except (OSError, ValueError) as error:
        return isinstance(error, FileNotFoundError)
    return False


def forget() -> None:
    """Read anew what is at URLs."""
    _read.cache_clear()
    _found.cache_clear()


def listed(folder: Place, pattern: str) -> list[Place]:
    """Return the files below a folder that match a pattern of one or two parts, sorted.

    Raises:
        StoreError: the store of a URL cannot be read, or has no such bucket.
    """
    return [*sorted(folder.glob(pattern))] if isinstance(folder, Path) else [*folder.glob(pattern)]


def read_place(place: Place, most: int = MOST_BYTES) -> bytes:
    """Return the first bytes of a file, at most one more than ``most``.

    Raises:
        DataFileError: there is no such file, or it is no file.
        StoreError: the store of a URL cannot be read, or has no such bucket.
        OSError: the file of a folder cannot be read.
    """
    if isinstance(place, Path):
        with open_regular(place) as file:
            return file.read(most + 1)
    content = content_of(place, most)
    if content is None:
        raise DataFileError(f"{place}: no such file")
    return content


def content_of(place: Place, most: int = MOST_BYTES) -> bytes | None:
    """Return the first bytes of a file; ``None`` if there is none. Arguments and errors as :func:`read_place`."""
    if isinstance(place, Path):
        return read_place(place, most) if place.exists() else None
    return _read(place, most)


def write_place(place: Place, content: bytes) -> None:
    """Write a file whole.

    Raises:
        WriteError: it cannot be written.
    """
    if isinstance(place, Path):
        write_whole(place, content)
        return
    with _changing(place) as (files, name):
        put_file(files, name, content)


def remove_place(place: Place) -> None:
    """Remove a file, if it is there.

    Raises:
        OSError: it cannot be removed.
    """
    if isinstance(place, Path):
        place.unlink(missing_ok=True)
        return
    with _changing(place) as (files, name), suppress(FileNotFoundError):
        files.rm_file(name)


def locked(place: Place, patience: float) -> AbstractContextManager[None]:
    """Hold a lock, waiting some seconds for other processes; its file is removed afterwards.

    Raises:
        OSError: the file cannot be created, or another process held the lock all the time.
        NotImplementedError: the file system has no locks.
    """
    return locked_file(place, patience) if isinstance(place, Path) else _locked(place, patience)


@lru_cache(maxsize=512)
def _read(path: UrlPath, most: int) -> bytes | None:
    try:
        files, name = path.opened()
        size = files.info(name)["size"]
        return bytes(files.cat_file(name, end=most + 1) if size > most else files.cat_file(name))
    except FileNotFoundError:
        _refuse_missing(path)
        return None
    except Exception as error:  # each library of a store raises errors of its own
        raise _unreadable(path, error) from None


@lru_cache(maxsize=512)
def _found(folder: UrlPath) -> tuple[tuple[str, ...], ...]:
    """Return the parts of the name of each file below a folder."""
    try:
        files, root = folder.opened()
        names = sorted(str(name).removeprefix(root).lstrip("/") for name in files.find(root))
    except FileNotFoundError:
        names = []
    except Exception as error:
        raise _unreadable(folder, error) from None
    if not names:
        _refuse_missing(folder)
    return tuple(PurePosixPath(name).parts for name in names)


def _refuse_missing(path: UrlPath) -> None:
    """Refuse a bucket that is not there: nothing in it is no missing baseline."""
    bucket = UrlPath(*path.parts[:2])
    try:
        files, name = bucket.opened()
        files.ls(name)
    except FileNotFoundError:
        raise StoreError(f"{path}: there is no {bucket}; make it, or correct the URL") from None
    except Exception as error:
        raise _unreadable(path, error) from None


def _unreadable(path: UrlPath, error: Exception) -> StoreError:
    return StoreError(f"{path}: cannot be read: {reason_of(error)}; {_ADVICE}")


@contextmanager
def _changing(path: UrlPath) -> Iterator[tuple[Any, str]]:
    """Give the file system, and turn its errors into those of this package.

    Raises:
        WriteError: it raises one.
    """
    try:
        yield path.opened()
    except WriteError:
        raise
    except Exception as error:
        raise WriteError(None, f"{reason_of(error)}; {_ADVICE}", str(path)) from None
    finally:
        forget()


@contextmanager
def _locked(path: UrlPath, patience: float) -> Iterator[None]:
    since = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    own = f"process {os.getpid()} of {socket.gethostname()} since {since}, {secrets.token_hex(4)}".encode()
    until = time.monotonic() + patience
    with _changing(path) as (files, name):
        while holder := _holder(files, name, own):
            if time.monotonic() > until:
                why = f"{holder} updates it; if that run has ended, remove {path} and run again"
                raise WriteError(None, why, str(path))
            time.sleep(_PAUSE)
        if not _holder(files, name, own + b"?"):
            files.rm_file(name)
            raise WriteError(None, "this store lets two runs create one file, and one would undo the other", str(path))
    try:
        yield
    finally:
        with suppress(Exception):  # what was written stays, and the next update names the file
            files.rm_file(name)


def _holder(files: Any, name: str, own: bytes) -> str:
    """Create the file of a lock, and return who holds it instead; empty if it was created."""
    try:
        put_file(files, name, own, mode="create")
    except Exception as error:
        try:
            content = bytes(files.cat_file(name))
        except FileNotFoundError:
            if isinstance(error, FileExistsError):  # it is gone by now
                return "another run"
            raise error from None
        return "" if content == own else content.decode(errors="replace")  # a request that was sent twice
    return ""
