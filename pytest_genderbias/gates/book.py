"""The files of baselines: one JSON file a model name and test module, ``DIR/NAME/MODULE.json``, sorted, one entry a block.

Beside it, for each entry, the sums of its units for every statistic, ``MODULE.ENTRY.SHA.npz``, without pickle and at most 512 KiB;
SHA is the start of the SHA-256 of its bytes, so that a new file never takes the place of the one that the JSON file still names.
Where the sums take more room and the raw item statistics do not, it has these, as files of earlier versions do.
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

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import BaselineError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.regression import FLOAT_NOISE, MUST_AGREE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import RESTART
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.inference.packed_sums import SumsByStatistic, holds_sums

SCHEMA = 1
MOST_ITEM_BYTES = 512 * 1024
_RAW = ("id", "seed")  #: raw arrays that are stored beside the sums, as are the values of restarts


@dataclass(frozen=True)
class StoredItems:
    """What an item file holds: the sums of units by statistic, and raw arrays (ids of examples, values of restarts)."""

    items: Mapping[str, NDArray[np.generic]]
    sums: SumsByStatistic

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic.

        Raises:
            UndefinedError: there are none.
        """
        return self.sums[statistic]


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
    items = pack_measured(measurement)
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


def pack_measured(measurement: Measurement) -> bytes | None:
    """Return the bytes of an item file: sums, or raw item statistics where only these fit; ``None`` if nothing fits."""
    raw = {k: v for k, v in measurement.items.items() if k in _RAW or k.startswith(RESTART)}
    return pack_items({**raw, **measurement.sums.to_arrays()}) or pack_items(measurement.items)


def load_stored(packed: bytes, signature: Mapping[str, Any]) -> StoredItems:
    """Return what an item file holds, of this version or an earlier one.

    Args:
        packed: the bytes of the file.
        signature: of the measurement, with ``definition`` and ``settings``.
    """
    arrays = load_items(packed)
    if holds_sums(arrays):
        return StoredItems(arrays, SumsByStatistic.from_arrays(arrays))
    from pytest_genderbias.suites.stored_items import (
        sums_of_items,  # all families, which a file of this version does not need
    )

    return StoredItems(arrays, sums_of_items(signature["definition"], signature["settings"], arrays))


def pack_items(items: Mapping[str, Any]) -> bytes | None:
    """Return item statistics as a compressed npz, or ``None`` if that takes more than 512 KiB."""
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


def read_items(book: Path, name: str, content: Mapping[str, Any]) -> StoredItems | None:
    """Return what is stored of the units of an entry; ``None`` if that was too large.

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
    return load_stored(found, content)


def load_items(packed: bytes) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of an item file."""
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
    return _alike_items(load_stored(entry.items, entry.content), stored)


def _alike_items(now: StoredItems, then: StoredItems) -> bool:
    """Compare sums, and the raw arrays that are stored beside them."""
    if set(now.sums) != set(then.sums) or not all(_alike_sums(now.sums[name], then.sums[name]) for name in now.sums):
        return False
    names = {name for name in (*now.items, *then.items) if name in _RAW or name.startswith(RESTART)}
    return all(
        name in now.items and name in then.items and _alike_arrays(now.items[name], then.items[name]) for name in names
    )


def _alike_sums(now: ItemSums, then: ItemSums) -> bool:
    if (now.templates is None) != (then.templates is None):  # an earlier version stored them by unit
        now, then = now.by_unit(), then.by_unit()
    about = [(s.combiner, s.over, s.parameters, s.columns) for s in (now, then)]
    same = about[0] == about[1] and np.array_equal(now.labels, then.labels)
    return same and _alike_arrays(now.sums, then.sums)


def _alike(now: float | None, then: float | None) -> bool:
    return now is None and then is None if now is None or then is None else abs(now - then) <= FLOAT_NOISE


def _alike_arrays(now: NDArray[Any], then: NDArray[Any]) -> bool:
    """Compare sums over units, which gather the noise of their cases."""
    if now.shape != then.shape or now.dtype.kind != then.dtype.kind:
        return False
    if now.dtype.kind != "f":
        return bool(np.array_equal(now, then))
    return bool(np.allclose(now, then, rtol=FLOAT_NOISE, atol=FLOAT_NOISE, equal_nan=True))
