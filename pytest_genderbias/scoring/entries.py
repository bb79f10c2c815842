"""What the score cache holds, and what may go: entries are listed, cleared, and bounded by when they were last used.

An entry is a folder of :class:`~pytest_genderbias.scoring.store.ScoreStore` (its name has 32 hexadecimal digits, and it holds
nothing but scores, ``about.json``, a lock and what a killed writer left), or a trained head in ``heads``. Whatever else lies in the
folder of the cache is neither counted nor touched. No entry is removed while a process holds its lock.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ABOUT, LOCK = "about.json", ".lock"
_FOLDER = re.compile(r"[0-9a-f]{32}")
_SCORES = re.compile(r"(\d{10,})-(\d{10,})\.npy")
_LEFTOVER = re.compile(r"\.(\d{10,}-\d{10,}\.npy|about\.json)-\w+")
_HEAD = re.compile(r"[0-9a-f]{32}\.safetensors")


@dataclass(frozen=True)
class Entry:
    """An entry of the cache.

    ``size`` in bytes; ``used``: when it was last read or written, in seconds since the epoch; ``suite`` and ``model`` as the run
    called them, ``cases`` stored of ``cases_total``: ``None`` where the entry does not say. ``leftovers``: it holds files that a
    writer began.
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
    """How many entries were removed, their bytes, and how many should have gone and could not: in use, or not to be locked."""

    removed: int = 0
    size: int = 0
    held: int = 0


def list_entries(root: Path) -> list[Entry]:
    """Return the entries of a cache, the least recently used first; none where there is no folder."""
    found = [_score_entry(path) for path in _paths(root) if _FOLDER.fullmatch(path.name)]
    found += [_head_entry(path) for path in _paths(root / "heads") if _HEAD.fullmatch(path.name)]
    return sorted((entry for entry in found if entry is not None), key=lambda entry: (entry.used, entry.path))


def clear(root: Path) -> Removal:
    """Remove all entries that no process holds."""
    return _remove(list_entries(root))


def bound(root: Path, size: int) -> Removal:
    """Remove the least recently used entries until the rest takes ``size`` bytes at most, and what killed writers left."""
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
        one = _remove([entry])
        total = Removal(total.removed + one.removed, total.size + one.size, total.held + one.held)
    return total


def sweep(folder: Path) -> None:
    """Remove the files that a killed writer began. Only for who holds the entry's lock."""
    for path in _paths(folder):
        if _LEFTOVER.fullmatch(path.name):
            with suppress(OSError):
                path.unlink()


@contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold an entry's lock if it can be had at once, and tell so. A process that was killed holds none."""
    from filelock import FileLock

    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except (OSError, NotImplementedError):  # a time-out is an OSError
        yield False
        return
    try:
        yield is_on_disk(lock, folder / LOCK)
    finally:
        lock.release()


def is_on_disk(lock: Any, path: Path) -> bool:
    """Tell whether the file that a lock holds is the one at its path: another process may have removed it and made another.

    Late versions of filelock see to it themselves; it comes with torch and transformers, in whatever version they are content with.
    """
    held_file = getattr(getattr(lock, "_context", lock), "lock_file_fd", None)
    if held_file is None:  # a kind of lock that has no file open
        return True
    try:
        return os.path.samestat(os.fstat(held_file), path.stat())
    except OSError:
        return False


def _remove(entries: Sequence[Entry]) -> Removal:
    gone = [entry for entry in entries if _remove_one(entry.path)]
    return Removal(len(gone), sum(entry.size for entry in gone), len(entries) - len(gone))


def _remove_one(path: Path) -> bool:
    """Remove an entry unless it is in use, and tell whether it is gone. Half an entry, after a kill, is a shorter one."""
    try:
        if path.is_file():
            path.unlink()
            return True
        with held(path) as free:
            if not free:
                return not path.exists()
            for one in _paths(path):
                if _is_ours(one) and one.name != LOCK:
                    one.unlink()
            with suppress(OSError):  # who waits for the lock sees that its file is gone, and makes another
                (path / LOCK).unlink()
        with suppress(OSError):
            path.rmdir()
    except OSError:
        return False
    return True


def _score_entry(folder: Path) -> Entry | None:
    """Describe a folder, or say that it is no entry: it is empty, or holds something that the cache does not write."""
    files = list(_paths(folder))
    if not files or folder.is_symlink() or not all(map(_is_ours, files)):
        return None
    try:
        size, used = sum(path.stat().st_size for path in files), folder.stat().st_mtime
    except OSError:  # it goes this very moment
        return None
    about = _about(folder / ABOUT)
    each, total = (_count(about.get(name)) for name in ("cases_per_unit", "cases"))
    units = _stored([match for path in files if (match := _SCORES.fullmatch(path.name))])
    return Entry(
        folder,
        size,
        used,
        _text(about.get("suite")),
        _text(about.get("model")),
        None if each is None else units * each,
        total,
        any(_LEFTOVER.fullmatch(path.name) for path in files),
    )


def _head_entry(path: Path) -> Entry | None:
    try:
        stat = path.lstat()
    except OSError:
        return None
    return Entry(path, stat.st_size, stat.st_mtime, "trained head") if path.is_file() else None


def _stored(spans: Sequence[re.Match[str]]) -> int:
    """Return the number of units that are stored without a gap, from the first on."""
    done = 0
    for start, stop in sorted((int(span[1]), int(span[2])) for span in spans):
        if start > done:
            break
        done = max(done, stop)
    return done


def _is_ours(path: Path) -> bool:
    named = path.name in (ABOUT, LOCK) or any(p.fullmatch(path.name) for p in (_SCORES, _LEFTOVER))
    return named and path.is_file() and not path.is_symlink()


def _paths(folder: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder.iterdir())


def _about(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None
