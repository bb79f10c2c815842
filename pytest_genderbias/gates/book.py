"""The files of baselines: one JSON file a model name and test module, ``DIR/NAME/MODULE.json``, sorted, one entry a block.

Beside it, for each entry, the statistics of its items, ``MODULE.ENTRY.npz``, without pickle and at most 512 KiB.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BaselineError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.regression import MUST_AGREE
from pytest_genderbias.measurement import Measurement

SCHEMA = 1
MOST_ITEM_BYTES = 512 * 1024


@dataclass(frozen=True)
class Entry:
    """One accepted measurement, as it is stored; ``items`` are the bytes of its item file."""

    name: str
    content: Mapping[str, Any]
    items: bytes | None = None


def entry_of(name: str, measurement: Measurement, accepted: Sequence[Mapping[str, Any]] = ()) -> Entry:
    """Return a measurement as a baseline entry; ``accepted`` are worse values that were accepted with a reason."""
    items = pack_items(measurement.items)
    content = {
        "suite": measurement.suite,
        **{key: measurement.signature[key] for key in MUST_AGREE},
        "model": dict(measurement.signature["model"]),
        "values": dict(measurement.values),
        "items_sha256": None if items is None else hashlib.sha256(items).hexdigest(),
        **({"accepted": list(accepted)} if accepted else {}),
    }
    return Entry(name, json.loads(json.dumps(content)), items)


def pack_items(items: Mapping[str, Any]) -> bytes | None:
    """Return item statistics as a compressed npz, or ``None`` if that takes more than 512 KiB."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(sorted(items.items())))
    return buffer.getvalue() if buffer.tell() <= MOST_ITEM_BYTES else None


def book_path(directory: Path, model: str, module: str) -> Path:
    """Return the JSON file of a model name and test module."""
    return directory / model / f"{module.replace('/', '.')}.json"


def items_path(book: Path, name: str) -> Path:
    """Return the item file of an entry."""
    return book.with_name(f"{book.stem}.{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}.npz")


def read_book(path: Path) -> dict[str, Any]:
    """Return the stored entries by name; none if there is no file.

    Raises:
        BaselineError: the file cannot be read, is no baseline, or was written by a later version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BaselineError(
            f"{path} cannot be read: {error}; restore it from version control, or delete it and run with --bias-update"
        ) from None
    if not isinstance(data, dict) or not isinstance(data.get("entries"), dict):
        raise BaselineError(
            f"{path} is no baseline; restore it from version control, or delete it and run with --bias-update"
        )
    if data.get("schema") != SCHEMA:
        raise BaselineError(
            f"{path} has the schema {data.get('schema')!r}, this version reads {SCHEMA}; install a later version, or delete it and run with --bias-update"
        )
    return dict(data["entries"])


def read_items(book: Path, name: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the item statistics of a stored entry; ``None`` if they were too large to be stored.

    Raises:
        BaselineError: the item file is lacking or damaged.
    """
    import numpy as np

    if content.get("items_sha256") is None:
        return None
    path = items_path(book, name)
    advice = "restore it from version control, or run with --bias-update"
    try:
        found = path.read_bytes()
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror or error}; {advice}") from None
    if hashlib.sha256(found).hexdigest() != content["items_sha256"]:
        raise BaselineError(f"{path} is not the one that belongs to {book.name}; {advice}")
    with np.load(io.BytesIO(found), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def count_entries(directory: Path, model: str, module: str | None = None) -> int:
    """Return the number of entries that are stored for a model (in one module, if it is named)."""
    books = [book_path(directory, model, module)] if module else sorted((directory / model).glob("*.json"))
    return sum(len(read_book(path)) for path in books)


def write_entries(
    directory: Path, model: str, module: str, entries: Mapping[str, Entry], remove: frozenset[str] = frozenset()
) -> Path:
    """Write accepted entries into a baseline file, and remove others. Each file is written whole.

    Raises:
        BaselineError: the disk is full or the folder cannot be written; what was there is still there.
    """
    path = book_path(directory, model, module)
    stored = {name: content for name, content in read_book(path).items() if name not in remove}
    stored.update({name: dict(entry.content) for name, entry in entries.items()})
    text = json.dumps({"schema": SCHEMA, "model": model, "module": module, "entries": stored}, indent=1, sort_keys=True)
    try:
        for entry in entries.values():
            if entry.items is not None:
                write_whole(items_path(path, entry.name), entry.items)
        if stored:
            write_whole(path, (text + "\n").encode())
        else:
            path.unlink(missing_ok=True)
        for name in remove:
            items_path(path, name).unlink(missing_ok=True)
    except OSError as error:
        raise BaselineError(
            f"{path} cannot be written: {error.strerror or error}; nothing that was there is lost"
        ) from None
    return path
