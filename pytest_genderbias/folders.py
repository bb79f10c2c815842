"""Where files go, and how they are written: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def default_cache() -> Path:
    """Return the user's cache folder for scores."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA", base)
    return Path(base) / "pytest-genderbias" / "scores"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one step: a temporary file beside it, then a rename. A failure leaves what was there."""
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
