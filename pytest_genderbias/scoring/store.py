"""The score cache: content-addressed, checksummed, with atomic writes. Damaged entries are recomputed and never end a
run. And the entries of a cache: what they are, and the removal of those that are least used.

A folder holds the scores of one key (model fingerprint, suite digest, cases, query, settings, scoring version) in files
``START-STOP.npy`` of consecutive units in the random order; beside those of a served model, ``canaries.npy`` says of
which model they are. Each file begins with the SHA-256 of its rest.

Several machines may share scores in a store at a URL that fsspec opens (``s3://``, ``gs://``, ``abfs://``, ...). The
folder of the user's score cache stays in front of it: an entry is fetched before it is read, and each file is sent when
it is written. Files are never changed once they are written, so that machines need no lock: a file that is cut off or
damaged is scored again. A store that fails ends no run: it is left alone for the rest of the process, and the next run
sends what it lacks.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.folders import KEPT_REPLIES, RECORDS, acquire, distrusted, is_on_disk, write_whole
from pytest_genderbias.scoring import SCORING_VERSION
from pytest_genderbias.text.plain_files import check_url, put_file, reason_of

_MOST_HEADER = 4096  #: bytes of a file before its numbers
#: Tells whether stored scores can be those of the query.
Plausible: TypeAlias = Callable[[NDArray[np.generic]], bool]
ABOUT, LOCK, CANARIES = "about.json", ".lock", "canaries.npy"
_FOLDER = re.compile(r"[0-9a-f]{32}")
SCORES = re.compile(r"(\d{10,})-(\d{10,})\.npy")
_LEFTOVER = re.compile(r"\.(\d{10,}-\d{10,}\.npy|about\.json|canaries\.npy)-\w+")
_HEAD = re.compile(r"[0-9a-f]{32}\.safetensors")
_KEPT = re.compile(r"[0-9a-f]{32}\.jsonl")
_RECORD = re.compile(r"[0-9a-f]{32}\.json")


class ScoreStore:
    """The stored scores of one key. Without a root folder, nothing is stored.

    ``about`` describes the entry in listings of the cache and is not part of the key: ``suite`` (and question),
    ``model``, ``cases_per_unit``, and the total number of ``cases``. ``shared``: where other machines store the same.
    """

    def __init__(
        self,
        root: Path | None,
        key: dict[str, object],
        about: dict[str, object] | None = None,
        shared: SharedScores | None = None,
    ) -> None:
        text = json.dumps({**key, "version": SCORING_VERSION}, sort_keys=True)
        folder = None if root is None else root / hashlib.sha256(text.encode()).hexdigest()[:32]
        doubt = None if root is None or folder is None else distrusted(root) or distrusted(folder)
        self.folder = None if doubt else folder
        self.note = f"scores not cached: {doubt}" if doubt else None
        self._about, self._shared = about, shared

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the key: a second process waits, and then reads the scores of the first.

        A killed process holds no lock. If the key cannot be locked, stored scores are read (each file is complete and
        checked), and none are written.
        """
        if self.folder is None:
            yield
            return
        try:
            lock = acquire(self.folder / LOCK)
        except (OSError, NotImplementedError) as error:
            self._give_up(error)
            yield
            return
        try:
            sweep(self.folder)
            with suppress(OSError):  # scores do not depend on the description
                path, content = self.folder / ABOUT, json.dumps(self._about, sort_keys=True).encode()
                if self._about is not None and (not path.is_file() or path.read_bytes() != content):
                    write_whole(path, content)
                os.utime(self.folder)  # marks the entry as used
            yield
        finally:
            lock.release()

    def kept_beside(self, canaries: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the canaries that are kept beside the stored scores, of the same shape; ``None`` if no score is
        stored, and these are kept from now on.

        Stored scores without canaries, or with damaged ones, may be of any model: they are removed, and scored again.
        """
        if self.folder is None:
            return None
        path, scores = self.folder / CANARIES, [path for _, _, path in self._files()]
        kept = _read_checked(path, canaries.shape, canaries.dtype) if scores else None
        if kept is not None:
            return cast("NDArray[np.float64]", kept)
        if self.note is not None:  # nothing is changed without the lock, and so nothing is read
            self.folder = None
            return None
        try:
            for score in scores:
                score.unlink()
            write_whole(path, _sealed(canaries))
        except OSError as error:
            self._give_up(error)
            self.folder = None
        return None

    def read(self, scores: NDArray[np.generic], plausible: Plausible = lambda values: True) -> int:
        """Fill ``scores`` (units, cases, width) from the front with stored scores; return the number of filled units.

        Files that are damaged, of another form or not ``plausible`` are left out, and their units are scored again.
        """
        if self.folder is None:
            return 0
        if self._shared is not None and self.note is None:
            self._shared.fetch(self.folder, SCORES, scores.nbytes + _MOST_HEADER)
        done = 0
        for start, stop, path in sorted(self._files(), key=lambda f: (f[0], -f[1])):
            if start > done or done == len(scores):
                break
            shape = (stop - start, *scores.shape[1:])
            if stop <= done:
                continue
            values = _read_checked(path, shape, scores.dtype)
            if values is None or not plausible(values):
                continue
            part = values[done - start : len(scores) - start]
            scores[done : done + len(part)] = part
            done += len(part)
        return done

    def write(self, start: int, values: NDArray[np.generic]) -> None:
        """Store the scores of consecutive units from ``start`` on. If this fails, nothing more is stored, and ``note``
        says why.
        """
        if self.folder is None or self.note is not None or not len(values):
            return
        path, content = self.folder / f"{start:010d}-{start + len(values):010d}.npy", _sealed(values)
        try:
            write_whole(path, content)
        except OSError as error:
            self._give_up(error)
            return
        if self._shared is not None:
            self._shared.send(path, content)

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        assert self.folder is not None
        with suppress(OSError):
            for path in self.folder.iterdir():
                span = SCORES.fullmatch(path.name)
                if span and path.is_file() and not path.is_symlink():
                    yield int(span[1]), int(span[2]), path

    def _give_up(self, error: OSError | NotImplementedError) -> None:
        """Store nothing more, and note the reason."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        self.note = f"scores not cached: {reason} ({self.folder})"


def _sealed(values: NDArray[np.generic]) -> bytes:
    """Return the content of a file: the SHA-256 of its rest, and the array."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    payload = buffer.getvalue()
    return hashlib.sha256(payload).digest() + payload


def _read_checked(path: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[np.generic] | None:
    """Return the array in a file, or ``None`` if the file is damaged or larger, or the array of another form than
    expected.
    """
    most = int(np.prod(shape, dtype=np.float64)) * dtype.itemsize + _MOST_HEADER
    try:
        if path.stat().st_size > most:
            return None
        content = path.read_bytes()
        digest, payload = content[:32], content[32:]
        if hashlib.sha256(payload).digest() != digest:
            return None
        values = np.asarray(np.load(io.BytesIO(payload), allow_pickle=False))
    except Exception:  # NumPy raises errors of many kinds for headers that break rules
        return None
    return values if values.shape == shape and values.dtype == dtype else None


@dataclass(frozen=True)
class CacheEntry:
    """An entry of the cache.

    ``size``: in bytes. ``used``: time of the last read or write, in seconds since the epoch. ``suite`` and ``model``:
    names in the run that wrote the entry. ``cases``: stored cases, of ``cases_total``. ``None`` for what is unknown.
    ``leftovers``: the entry holds unfinished files of a killed writer.
    """

    path: Path
    size: int
    used: float
    suite: str | None = None
    model: str | None = None
    cases: int | None = None
    cases_total: int | None = None
    leftovers: bool = False


def list_entries(root: Path) -> list[CacheEntry]:
    """Return the entries of a cache, least recently used first; empty if there is no folder."""
    entries = [_score_entry(path) for path in _paths(root) if _FOLDER.fullmatch(path.name)]
    entries += [_file_entry(path, "trained head") for path in _paths(root / "heads") if _HEAD.fullmatch(path.name)]
    entries += [_file_entry(path, "known model") for path in _paths(root / RECORDS) if _RECORD.fullmatch(path.name)]
    entries += [_file_entry(path, "replies") for path in _paths(root / KEPT_REPLIES) if _KEPT.fullmatch(path.name)]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: (entry.used, entry.path))


def clear(root: Path) -> tuple[list[CacheEntry], list[CacheEntry]]:
    """Remove all entries that no process uses. Return what was removed, and what could not be, being in use."""
    return _remove(list_entries(root))


def bound(root: Path, size: int) -> tuple[list[CacheEntry], list[CacheEntry]]:
    """Remove the least recently used entries until the rest takes at most ``size`` bytes, and unfinished files of
    killed writers. Return entries as :func:`clear` does.
    """
    entries = list_entries(root)
    for entry in entries:
        if entry.leftovers:
            with held(entry.path) as free:
                if free:
                    sweep(entry.path)
    return _remove(entries, sum(entry.size for entry in entries) - size)


def sweep(folder: Path) -> None:
    """Remove the unfinished files of a killed writer. The caller holds the entry's lock."""
    for path in _paths(folder):
        if _LEFTOVER.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold an entry's lock if it is free, and yield whether it is held. A killed process holds no lock."""
    from filelock import FileLock

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except (OSError, NotImplementedError):  # a timeout is an OSError
        yield False
        return
    try:
        yield is_on_disk(lock, folder / LOCK)
    finally:
        lock.release()


def _remove(entries: Sequence[CacheEntry], most: float = math.inf) -> tuple[list[CacheEntry], list[CacheEntry]]:
    """Remove entries in their order until they had ``most`` bytes. Return entries as :func:`clear` does."""
    removed: list[CacheEntry] = []
    in_use: list[CacheEntry] = []
    for entry in entries:
        if most <= 0:
            break
        if _remove_one(entry.path):
            removed.append(entry)
            most -= entry.size
        else:
            in_use.append(entry)
    return removed, in_use


def _remove_one(path: Path) -> bool:
    """Remove an entry unless it is in use, and return whether it is gone. If this is interrupted, the rest is a valid
    shorter entry.
    """
    try:
        if path.is_file():
            path.unlink()
            return True
        with held(path) as free:
            if not free:
                return not path.exists()
            for file in _paths(path):
                if _is_ours(file) and file.name != LOCK:
                    file.unlink()
            with suppress(OSError):  # a process that waits for the lock sees that its file is gone, and makes another
                (path / LOCK).unlink()
        with suppress(OSError):
            path.rmdir()
    except OSError:
        return False
    return True


def _score_entry(folder: Path) -> CacheEntry | None:
    """Return the entry of a folder, or ``None`` if it is empty or holds files that the cache does not write."""
    files = list(_paths(folder))
    if not files or folder.is_symlink() or not all(map(_is_ours, files)):
        return None
    try:
        size, used = sum(path.stat().st_size for path in files), folder.stat().st_mtime
    except OSError:  # another process removes the entry right now
        return None
    about = _about(folder / ABOUT)
    each, total = (
        value if type(value) is int and 0 <= value < 1 << 63 else None
        for value in (about.get("cases_per_unit"), about.get("cases"))
    )
    suite, model = (value if isinstance(value, str) else None for value in (about.get("suite"), about.get("model")))
    units = _stored([match for path in files if (match := SCORES.fullmatch(path.name))])
    return CacheEntry(
        folder,
        size,
        used,
        suite,
        model,
        None if each is None else units * each,
        total,
        any(_LEFTOVER.fullmatch(path.name) for path in files),
    )


def _file_entry(path: Path, what: str) -> CacheEntry | None:
    try:
        stat = path.lstat()
    except OSError:
        return None
    return CacheEntry(path, stat.st_size, stat.st_mtime, what) if path.is_file() else None


def _stored(spans: Sequence[re.Match[str]]) -> int:
    """Return the number of units that are stored without a gap from the first one."""
    done = 0
    for start, stop in sorted((int(span[1]), int(span[2])) for span in spans):
        if start > done:
            break
        done = max(done, stop)
    return done


def _is_ours(path: Path) -> bool:
    named = path.name in (ABOUT, LOCK, CANARIES) or any(p.fullmatch(path.name) for p in (SCORES, _LEFTOVER))
    return named and path.is_file() and not path.is_symlink()


def _paths(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder.iterdir())


def _about(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


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
