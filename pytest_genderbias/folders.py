"""The default cache folder, atomic file writing, and locks of folders."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from pytest_genderbias.errors import WriteError

if TYPE_CHECKING:
    from filelock import BaseFileLock

KEPT_REPLIES = "replies"  #: folder of the score cache with the replies of systems that have a fingerprint
RECORDS = "models"  #: folder of the score cache with the records of models that earlier runs loaded
_STREAMS = ("/dev/fd/", "/dev/std", "/proc/")  #: paths of open files, which a rename would cut off from their readers
_STALE = (
    3600.0  #: seconds after which an unfinished file belongs to no writer that still runs, where files have no locks
)
_ATTEMPTS = 50  #: to lock a folder that other processes remove


def default_cache() -> Path:
    """Return the folder of the user's score cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(_home() / ".cache")
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA", base)
    return Path(base) / "pytest-genderbias" / "scores"


def _home() -> Path:
    """Return the user's home; without one, as in some containers, a path where nothing can be written, so that nothing
    is cached.
    """
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull, "no-home")


def distrusted(folder: Path) -> str | None:
    """Return why a folder of the cache is not used: it is a file, another user owns it, or every user can write to it.
    ``None`` if it is, or is not there.

    Who writes there decides what gates see, as who writes to ``~/.ssh`` decides who logs in. A group that can write is
    trusted, since many systems give each user one.
    """
    try:
        about = folder.stat()
    except OSError:
        return None
    if not stat.S_ISDIR(about.st_mode):
        return f"{folder} is no folder; give one (--bias-cache=DIR)"
    if sys.platform == "win32":
        return None
    if about.st_uid not in (os.getuid(), 0):
        return (
            f"{folder} belongs to another user (number {about.st_uid}); give a folder of your own (--bias-cache=DIR),"
            " or take it over (chown)"
        )
    if about.st_mode & stat.S_IWOTH:
        return f"every user can write to {folder}; run: chmod o-w {folder}"
    return None


# Writing.


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file beside it, then rename it. A failure leaves the old file
    unchanged.

    A symbolic link stays, and the file that it leads to is replaced. A file that exists keeps its mode; a new one has
    the mode that the umask of the process leaves. A device, a pipe or a socket is not replaced: it receives the content
    as it is.

    Raises:
        WriteError: the file cannot be written: the path is a folder, a parent is a file, the disk is full, or a right
            is missing.
    """
    try:
        if is_stream(path):
            path.write_bytes(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except FileExistsError as error:  # of the folders that are made for it
        raise WriteError(error.errno, f"{error.filename} is no folder", str(path)) from error
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error
    except ValueError as error:  # a path with a null character
        raise WriteError(None, str(error), str(path)) from error


def is_stream(path: Path) -> bool:
    """Return whether a path leads to something that cannot be replaced by a file; a folder counts, so that writing it
    fails.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) or os.path.abspath(path).startswith(_STREAMS)


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary, handle = _open_temporary(path)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            with suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(path.stat().st_mode))
            if fcntl is not None:  # before the lock goes with the stream; Windows renames no open file
                os.replace(temporary, path)
        if fcntl is None:
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sweep_unfinished(path.parent, path.name, abandoned=True)


def _open_temporary(path: Path) -> tuple[Path, int]:
    """Create a file beside another one, with the mode that the umask leaves, and lock it as long as it is open."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
        handle = os.open(temporary, flags, 0o666)
        if fcntl is None:
            return temporary, handle
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            return temporary, handle
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), temporary.stat()):
                return temporary, handle
        os.close(handle)  # another process took it for abandoned before it was locked


def sweep_unfinished(folder: Path, name: str | None = None, abandoned: bool = False) -> None:
    """Remove unfinished files that killed writers left.

    Args:
        folder: the folder that they wrote to.
        name: the file that they wrote; any file by default.
        abandoned: leave files that a process still writes. Without it the caller holds a lock that every writer takes.
    """
    with suppress(OSError):
        for path in _unfinished(folder, name):
            with suppress(OSError):
                if abandoned:
                    _remove_abandoned(path)
                else:
                    path.unlink()


def has_unfinished(folder: Path) -> bool:
    """Return whether a folder has unfinished files of writers that were killed or still write."""
    try:
        return bool(_unfinished(folder))
    except OSError:
        return False


def _unfinished(folder: Path, name: str | None = None) -> list[Path]:
    pattern = re.compile(rf"\.{'.+' if name is None else re.escape(name)}-[a-z0-9_]{{8}}")
    entries = os.listdir(folder)  # a cache may hold thousands of files: no path is made of each
    return [folder / entry for entry in entries if entry.startswith(".") and pattern.fullmatch(entry)]


def _remove_abandoned(path: Path) -> None:
    """Remove an unfinished file that no process has locked; where there are no such locks, one that is old.

    Raises:
        OSError: a process writes it, or it cannot be removed.
    """
    if fcntl is None:
        if path.stat().st_mtime < time.time() - _STALE:
            path.unlink()
        return
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(handle)


# Locks.


@contextmanager
def locked_file(path: Path, timeout: float = -1) -> Iterator[None]:
    """Hold a lock, waiting for other processes; a killed process holds none. The folder of the lock's file is created.

    The file is removed afterwards. A process that waits sees that its file is gone, and makes another.

    Args:
        path: the lock's file.
        timeout: seconds to wait; for ever by default.

    Raises:
        OSError: the file cannot be created, or another process held the lock all the time.
        NotImplementedError: the file system has no locks.
    """
    lock = acquire(path, timeout)
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file
            path.unlink()
        lock.release()


def acquire(path: Path, timeout: float = -1) -> BaseFileLock:
    """Create the folder of a lock's file and wait for the lock; arguments and errors as :func:`locked_file`."""
    from filelock import FileLock

    obstacle = OSError("other processes keep removing its folder")
    for _ in range(_ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # a parent was removed just now, or cannot be there, as in /proc
            obstacle = error
            continue
        with suppress(FileNotFoundError):
            lock = FileLock(path)
            lock.acquire(timeout)
            if is_on_disk(lock, path):
                return lock
            lock.release()
    raise obstacle


def is_on_disk(lock: BaseFileLock, path: Path) -> bool:
    """Return whether the file that a lock holds is the one at its path: another process may have replaced it.

    Recent versions of filelock check this themselves, but any version that torch and transformers accept may be
    installed.
    """
    held_file = getattr(getattr(lock, "_context", lock), "lock_file_fd", None)  # private, and elsewhere in old versions
    if not isinstance(held_file, int):  # a kind of lock without an open file
        return True
    try:
        return os.path.samestat(os.fstat(held_file), path.stat())
    except OSError:
        return False
