"""Entries of a score cache, and a process that holds one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pytest_genderbias.scoring.store import ScoreStore

ABOUT = {"suite": "nli-occupation", "model": "m", "cases_per_unit": 2, "cases": 2000}


def add(
    root: Path, name: str = "a", units: int = 3, about: dict[str, Any] | None = ABOUT, used: float | None = None
) -> Path:
    """Store the scores of some units under a key, and say when."""
    one = ScoreStore(root, {"name": name}, about)
    with one.locked():
        one.write(0, np.full((units, 2, 1), 0.5))
    assert one.note is None
    assert one.folder is not None
    if used is not None:
        os.utime(one.folder, (used, used))
    return one.folder


def holding() -> Iterator[Any]:
    """Return a function that lets another process hold an entry's lock; what it returns kills it."""
    begun = []

    def hold(folder: Path) -> subprocess.Popen[str]:
        code = (
            "import sys, time; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire();"
            " print('held', flush=True); time.sleep(99)"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder / ".lock")], stdout=subprocess.PIPE, text=True
        )
        begun.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in begun:
        process.kill()
        process.communicate()
