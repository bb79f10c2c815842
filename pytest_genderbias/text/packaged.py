"""Locate the data folders of the package, in a wheel, an sdist, an editable install or a checkout."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from pytest_genderbias.text.plain_files import expand, is_regular

CHECKOUT = Path(__file__).resolve().parents[2]
_IN_CHECKOUT = {"results": "docs/evidence/papers"}  #: folders of other names there


@cache
def folder(name: str) -> Path:
    """Return the path of a packaged data folder: ``wordlists``, ``fixtures``, or ``results`` (of the papers)."""
    try:
        module = import_module(f"pytest_genderbias.{name}")
    except ModuleNotFoundError:
        return CHECKOUT / _IN_CHECKOUT.get(name, name)  # a checkout on sys.path, before any installed wheel
    return Path(str(module.__file__)).parent


def names(folder_name: str) -> list[str]:
    """Return the sorted names of the packaged YAML files in a folder."""
    return sorted(path.stem for path in folder(folder_name).glob("*.yaml"))


def locate(folder_name: str, name: str, beside: Path | None = None) -> Path | None:
    """Return the path of a data file, or None if no packaged file has that name.

    Args:
        folder_name: ``wordlists`` or ``fixtures``.
        name: The name of a packaged file, or a path that ends in ``.yaml`` or ``.yml``.
        beside: The folder that a relative path starts from. None: the working directory.
    """
    if name.endswith((".yaml", ".yml")):
        path = expand(name)
        return path if path.is_absolute() or beside is None else beside / path
    path = folder(folder_name) / f"{name}.yaml"
    return path if is_regular(path) and path.stem == name else None
