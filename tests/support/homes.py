"""A home for tests: neither a test nor a process that it starts reads or writes what belongs to the user."""

from __future__ import annotations

import os
import site
import tempfile
from pathlib import Path

#: Variables that name a place of the user's, or what the user has elsewhere; the folders below a home are in their
#: place.
ELSEWHERE = (
    "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ASSETS_CACHE", "HUGGINGFACE_ASSETS_CACHE", "HF_XET_CACHE",
    "HF_MODULES_CACHE", "HF_DATASETS_CACHE", "HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN",
    "TRANSFORMERS_CACHE", "TORCH_HOME", "MATPLOTLIBRC", "NLTK_DATA", "MLFLOW_TRACKING_URI", "GENDERBIAS_API_KEY",
)  # fmt: skip
_FOLDERS = {
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "APPDATA": "AppData/Roaming",
    "LOCALAPPDATA": "AppData/Local",
}


def places(home: Path) -> dict[str, str]:
    """Return the environment variables of a user with this home."""
    return {"HOME": str(home), "USERPROFILE": str(home)} | {name: str(home / at) for name, at in _FOLDERS.items()}


def leave_home() -> tempfile.TemporaryDirectory[str]:
    """Make a home for this process and all that it starts, and return it.

    What libraries download or compute once (fonts, code of checkpoints) is kept there for the whole run.
    """
    new = tempfile.TemporaryDirectory(prefix="genderbias-home-", ignore_cleanup_errors=True)
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())  # packages that the user installed stay importable
    for name in ELSEWHERE:
        os.environ.pop(name, None)
    os.environ.update(places(Path(new.name)))
    os.environ["HF_HOME"] = str(Path(new.name, "huggingface"))
    os.environ["MPLCONFIGDIR"] = str(Path(new.name, "matplotlib"))
    return new
