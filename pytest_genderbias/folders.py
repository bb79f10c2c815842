"""The default cache folder, and atomic file writing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def default_cache() -> Path:
    """Return the folder of the user's score cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA", base)
    return Path(base) / "pytest-genderbias" / "scores"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file beside it, then rename it. A failure leaves the old file unchanged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
