"""Entries of the score cache: list them, clear them, and bound their size by removing the least recently used.

An entry is a folder of :class:`~pytest_genderbias.scoring.store.ScoreStore` (named with 32 hexadecimal digits, it holds
only scores, ``canaries.npy`` of a served model, ``about.json``, a lock and the unfinished files of killed writers), a
trained head in ``heads``, the replies of a system in ``replies``, or what is known of a model in ``models``. Other
files in the cache folder are neither counted nor changed. No entry is removed while a process holds its lock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_genderbias.folders import is_on_disk
from pytest_genderbias.models.known import RECORDS
from pytest_genderbias.models.replies import KEPT

ABOUT, LOCK, CANARIES = "about.json", ".lock", "canaries.npy"
_FOLDER = re.compile(r"[0-9a-f]{32}")
SCORES = re.compile(r"(\d{10,})-(\d{10,})\.npy")
_LEFTOVER = re.compile(r"\.(\d{10,}-\d{10,}\.npy|about\.json|canaries\.npy)-\w+")
_HEAD = re.compile(r"[0-9a-f]{32}\.safetensors")
_KEPT = re.compile(r"[0-9a-f]{32}\.jsonl")
_RECORD = re.compile(r"[0-9a-f]{32}\.json")


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


@dataclass(frozen=True)
class Removal:
    """Number of removed entries, their size in bytes, and the number of entries that could not be removed, being in
    use.
    """

    removed: int = 0
    size: int = 0
    held: int = 0


def list_entries(root: Path) -> list[CacheEntry]:
    """Return the entries of a cache, least recently used first; empty if there is no folder."""
    entries = [_score_entry(path) for path in _paths(root) if _FOLDER.fullmatch(path.name)]
    entries += [_file_entry(path, "trained head") for path in _paths(root / "heads") if _HEAD.fullmatch(path.name)]
    entries += [_file_entry(path, "known model") for path in _paths(root / RECORDS) if _RECORD.fullmatch(path.name)]
    entries += [_file_entry(path, "replies") for path in _paths(root / KEPT) if _KEPT.fullmatch(path.name)]
    return sorted((entry for entry in entries if entry is not None), key=lambda entry: (entry.used, entry.path))


def clear(root: Path) -> Removal:
    """Remove all entries that no process uses."""
    return _remove(list_entries(root))


def bound(root: Path, size: int) -> Removal:
    """Remove the least recently used entries until the rest takes at most ``size`` bytes, and unfinished files of
    killed writers.
    """
    entries = list_entries(root)
    for entry in entries:
        if entry.leftovers:
            with held(entry.path) as free:
                if free:
                    sweep(entry.path)
    excess = sum(entry.size for entry in entries) - size
    total = Removal()
    for entry in entries:
        if excess <= total.size:
            break
        step = _remove([entry])
        total = Removal(total.removed + step.removed, total.size + step.size, total.held + step.held)
    return total


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


def _remove(entries: Sequence[CacheEntry]) -> Removal:
    gone = [entry for entry in entries if _remove_one(entry.path)]
    return Removal(len(gone), sum(entry.size for entry in gone), len(entries) - len(gone))


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
    each, total = (_count(about.get(name)) for name in ("cases_per_unit", "cases"))
    units = _stored([match for path in files if (match := SCORES.fullmatch(path.name))])
    return CacheEntry(
        folder,
        size,
        used,
        _text(about.get("suite")),
        _text(about.get("model")),
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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None
