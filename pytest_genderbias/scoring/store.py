"""The score cache: content-addressed, checksummed, with atomic writes. Damaged entries are recomputed and never end a run.

A folder holds the scores of one key (model fingerprint, suite digest, cases, query, settings, scoring version) in files
``START-STOP.npy`` of consecutive units in the random order. Each file begins with the SHA-256 of its rest.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.folders import acquire, write_whole
from pytest_genderbias.scoring import SCORING_VERSION
from pytest_genderbias.scoring.entries import ABOUT, LOCK, sweep


class ScoreStore:
    """The stored scores of one key. Without a root folder, nothing is stored.

    ``about`` describes the entry in listings of the cache and is not part of the key: ``suite`` (and question), ``model``,
    ``cases_per_unit``, and the total number of ``cases``.
    """

    def __init__(self, root: Path | None, key: dict[str, object], about: Mapping[str, object] | None = None) -> None:
        text = json.dumps({**key, "version": SCORING_VERSION}, sort_keys=True)
        self.folder = None if root is None else root / hashlib.sha256(text.encode()).hexdigest()[:32]
        self.note: str | None = None
        self._about = about

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the key: a second process waits, and then reads the scores of the first.

        A killed process holds no lock. If the key cannot be locked, stored scores are read (each file is complete and checked), and none
        are written.
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
            self._begin(self.folder)
            yield
        finally:
            lock.release()

    def _begin(self, folder: Path) -> None:
        """Remove unfinished files of killed writers, write the description of the entry, and mark it as used."""
        sweep(folder)
        with suppress(OSError):  # scores do not depend on the description
            if self._about is not None:
                content = json.dumps(dict(self._about), sort_keys=True).encode()
                path = folder / ABOUT
                if not path.is_file() or path.read_bytes() != content:
                    write_whole(path, content)
            os.utime(folder)

    def read(self, scores: NDArray[np.generic]) -> int:
        """Fill ``scores`` (units, cases, width) from the front with stored scores; return the number of filled units."""
        if self.folder is None:
            return 0
        done = 0
        for start, stop, path in sorted(self._files(), key=lambda f: (f[0], -f[1])):
            if start > done or done == len(scores):
                break
            values = _read_checked(path)
            if (
                stop <= done
                or values is None
                or values.shape != (stop - start, *scores.shape[1:])
                or values.dtype != scores.dtype
            ):
                continue
            part = values[done - start : len(scores) - start]
            scores[done : done + len(part)] = part
            done += len(part)
        return done

    def write(self, start: int, values: NDArray[np.generic]) -> None:
        """Store the scores of consecutive units from ``start`` on. If this fails, nothing more is stored, and ``note`` says why."""
        if self.folder is None or self.note is not None or not len(values):
            return
        buffer = io.BytesIO()
        np.save(buffer, values, allow_pickle=False)
        payload = buffer.getvalue()
        try:
            write_whole(
                self.folder / f"{start:010d}-{start + len(values):010d}.npy", hashlib.sha256(payload).digest() + payload
            )
        except OSError as error:
            self._give_up(error)

    def _files(self) -> Iterator[tuple[int, int, Path]]:
        assert self.folder is not None
        with suppress(OSError):
            for path in self.folder.iterdir():
                start, _, stop = path.stem.partition("-")
                if path.suffix == ".npy" and start.isdecimal() and stop.isdecimal():
                    yield int(start), int(stop), path

    def _give_up(self, error: OSError | NotImplementedError) -> None:
        """Store nothing more, and note the reason."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        self.note = f"scores not cached: {reason} ({self.folder})"


def _read_checked(path: Path) -> NDArray[np.generic] | None:
    try:
        content = path.read_bytes()
        digest, payload = content[:32], content[32:]
        if hashlib.sha256(payload).digest() != digest:
            return None
        return np.asarray(np.load(io.BytesIO(payload), allow_pickle=False))
    except (OSError, ValueError, EOFError):
        return None
