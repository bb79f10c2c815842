"""The files of baselines: one JSON file a model name and test module, ``DIR/NAME/MODULE.json``, sorted, one entry a block.

Beside it, for each entry, the statistics of its items, ``MODULE.ENTRY.SHA.npz``, without pickle and at most 512 KiB; SHA is the start
of the SHA-256 of its bytes, so that a new file never takes the place of the one that the JSON file still names.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import BaselineError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.regression import FLOAT_NOISE, MUST_AGREE
from pytest_genderbias.measurement.measurement import Measurement

SCHEMA = 1
MOST_ITEM_BYTES = 512 * 1024


@dataclass(frozen=True)
class Entry:
    """One accepted measurement, as it is stored; ``items`` are the bytes of its item file."""

    name: str
    content: Mapping[str, Any]
    items: bytes | None = None


def entry_of(
    name: str,
    measurement: Measurement,
    accepted: Sequence[Mapping[str, Any]] = (),
    gated: Mapping[str, float] | None = None,
) -> Entry:
    """Return a measurement as a baseline entry.

    Args:
        name: of the entry.
        measurement: what is stored.
        accepted: worse values that were accepted with a reason.
        gated: the tolerance of each statistic that a gate judges, so that no gate accepts what is another's.
    """
    items = pack_items(measurement.items)
    content = {
        "suite": measurement.suite,
        **{key: measurement.signature[key] for key in MUST_AGREE},
        "model": dict(measurement.signature["model"]),
        "values": dict(measurement.values),
        "items_sha256": None if items is None else hashlib.sha256(items).hexdigest(),
        **({"accepted": list(accepted)} if accepted else {}),
        **({"gated": dict(gated)} if gated else {}),
    }
    return Entry(name, json.loads(json.dumps(content)), items)


def pack_items(items: Mapping[str, Any]) -> bytes | None:
    """Return item statistics as a compressed npz, or ``None`` if that takes more than 512 KiB."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(sorted(items.items())))
    return buffer.getvalue() if buffer.tell() <= MOST_ITEM_BYTES else None


def book_path(directory: Path, model: str, module: str) -> Path:
    """Return the JSON file of a model name and test module: a slash is a dot, and a name with more dots has its hash behind it."""
    named = module.replace("/", ".")
    stem = module.removesuffix(".bias.yaml") if module.endswith(".bias.yaml") else module.rpartition(".")[0]
    return directory / model / f"{named}-{_sha(module)}.json" if "." in stem else directory / model / f"{named}.json"


def items_path(book: Path, name: str, sha256: str) -> Path:
    """Return the item file of an entry."""
    return book.with_name(f"{book.stem}.{_file_name(name)}.{sha256[:8]}.npz")


def _file_name(name: str) -> str:
    """Return an entry's name as part of a file's name; where a character cannot stand there, with a hash, so that no two are alike."""
    allowed = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return name if name == allowed else f"{allowed}-{_sha(name)}"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


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
    if content.get("items_sha256") is None:
        return None
    path = items_path(book, name, content["items_sha256"])
    advice = "restore it from version control, or run with --bias-update"
    try:
        found = path.read_bytes()
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror or error}; {advice}") from None
    if hashlib.sha256(found).hexdigest() != content["items_sha256"]:
        raise BaselineError(f"{path} is not the one that belongs to {book.name}; {advice}")
    return load_items(found)


def load_items(packed: bytes) -> dict[str, Any]:
    """Return item statistics from the bytes of a file."""
    import numpy as np

    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def count_gated(directory: Path, model: str, module: str | None = None) -> int:
    """Return the number of statistics that gates hold to what is stored for a model (in one module, if it is named): one an entry at least."""
    books = [book_path(directory, model, module)] if module else sorted((directory / model).glob("*.json"))
    return sum(max(1, len(content.get("gated", ()))) for path in books for content in read_book(path).values())


def write_entries(
    directory: Path, model: str, module: str, entries: Mapping[str, Entry], remove: frozenset[str] = frozenset()
) -> Path:
    """Write accepted entries into a baseline file, and remove others. Each file is written whole.

    Raises:
        BaselineError: the disk is full or the folder cannot be written; what was there is still there.
    """
    path = book_path(directory, model, module)
    before = read_book(path)
    stored = {name: content for name, content in before.items() if name not in remove}
    stored.update({name: dict(entry.content) for name, entry in entries.items()})
    text = json.dumps({"schema": SCHEMA, "model": model, "module": module, "entries": stored}, indent=1, sort_keys=True)
    try:
        for entry in entries.values():
            if entry.items is not None:
                write_whole(items_path(path, entry.name, entry.content["items_sha256"]), entry.items)
        if stored:
            write_whole(path, (text + "\n").encode())
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        _sweep(path, entries, before)
        raise BaselineError(
            f"{path} cannot be written: {error.strerror or error}; nothing that was there is lost"
        ) from None
    _sweep(path, {*entries, *remove}, stored)
    return path


def _sweep(book: Path, names: Iterable[str], stored: Mapping[str, Any]) -> None:
    """Remove the item files of some entries that no stored entry names: those of an earlier state, or of a run that was killed."""
    named = {
        items_path(book, name, content["items_sha256"])
        for name, content in stored.items()
        if content.get("items_sha256")
    }
    for name in names:
        pattern = re.compile(rf"{re.escape(f'{book.stem}.{_file_name(name)}')}(\.[0-9a-f]{{8}})?\.npz")
        for path in book.parent.glob("*.npz"):
            if pattern.fullmatch(path.name) and path not in named:
                with suppress(OSError):  # a file too many harms nothing
                    path.unlink(missing_ok=True)


def to_write(book: Path, entry: Entry, content: Mapping[str, Any] | None) -> Entry | None:
    """Return what of an entry is to be written over a stored one: nothing where only noise differs, and the model that it is of."""
    if content is None or not _unchanged(book, entry, content):
        return entry
    gated = entry.content.get("gated")
    return None if gated == content.get("gated") else Entry(entry.name, {**content, "gated": gated})


def _unchanged(book: Path, entry: Entry, content: Mapping[str, Any]) -> bool:
    """Tell whether a stored entry is of the same thing, with the same reasons, and every value and item within noise."""
    exact = ("suite", "accepted", *MUST_AGREE)
    if any(entry.content.get(key) != content.get(key) for key in exact):
        return False
    now, then = entry.content["values"], content.get("values", {})
    if now.keys() != then.keys() or any(not _alike(now[name], then[name]) for name in now):
        return False
    try:
        stored = read_items(book, entry.name, content)
    except BaselineError:  # to be written anew
        return False
    if stored is None or entry.items is None:
        return stored is None and entry.items is None
    measured = load_items(entry.items)
    return measured.keys() == stored.keys() and all(_alike_arrays(measured[key], stored[key]) for key in measured)


def _alike(now: float | None, then: float | None) -> bool:
    return now is None and then is None if now is None or then is None else abs(now - then) <= FLOAT_NOISE


def _alike_arrays(now: Any, then: Any) -> bool:
    """Compare sums over items, which gather the noise of their cases."""
    import numpy as np

    if now.shape != then.shape or now.dtype.kind != then.dtype.kind:
        return False
    if now.dtype.kind != "f":
        return bool(np.array_equal(now, then))
    return bool(np.allclose(now, then, rtol=FLOAT_NOISE, atol=FLOAT_NOISE, equal_nan=True))
