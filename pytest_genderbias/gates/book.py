"""The files of baselines: one JSON file a model name and test module, ``DIR/NAME/MODULE.json``, sorted, one entry a block.

Beside it is an item file for each entry, ``MODULE.ENTRY.SHA.npz`` (:mod:`~pytest_genderbias.gates.item_file`). SHA is the start of the
SHA-256 of its bytes, so that a new file never replaces the one that the JSON file still names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from pytest_genderbias.errors import BaselineError, DataFileError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.gates.agreement import FLOAT_NOISE, MUST_AGREE
from pytest_genderbias.gates.item_file import StoredItems, alike_items, load_stored, pack_measured
from pytest_genderbias.gates.judgement import AcceptedValue
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import read_dataclass, read_mapping

SCHEMA = 1
_RESTORE = "restore it from version control, or delete it and run with --bias-update"
_ALWAYS_WRITTEN = ("suite", *MUST_AGREE, "model", "values", "items_sha256")


@dataclass(frozen=True)
class BaselineEntry:
    """One accepted measurement, as a baseline file has it.

    Attributes:
        suite: name of the suite.
        digest: digest of the suite.
        definition: definition of its statistics.
        settings: settings of the suite and of the run that change figures.
        data: digests of data sets, by name.
        sample: ``n`` cases of how many, and the seed.
        model: what is known of the model: fingerprint, architecture, dtype.
        values: values of the statistics.
        items_sha256: SHA-256 of its item file; ``None`` if that would be too large.
        accepted: worse values that were accepted with a reason.
        gated: the tolerance of each statistic that a gate judges, so that no gate accepts what another one judges.
        other: keys that this version does not know; they are written back as they were read.
    """

    suite: str = ""
    digest: str | None = None
    definition: str | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    data: Mapping[str, object] = field(default_factory=dict)
    sample: Mapping[str, object] = field(default_factory=dict)
    model: Mapping[str, object] = field(default_factory=dict)
    values: Mapping[str, float | None] = field(default_factory=dict)
    items_sha256: str | None = None
    accepted: tuple[AcceptedValue, ...] = ()
    gated: Mapping[str, float] = field(default_factory=dict)
    other: Mapping[str, object] = field(default_factory=dict)

    @property
    def signature(self) -> dict[str, object]:
        """The keys that must agree for a measurement to be compared with this entry."""
        return {key: vars(self)[key] for key in MUST_AGREE}

    def to_dict(self) -> dict[str, object]:
        """Return the entry as the JSON file has it; reasons and gates only where there are some."""
        content = {key: vars(self)[key] for key in _ALWAYS_WRITTEN}
        notes = [note.to_dict() for note in self.accepted]
        content.update({"accepted": notes} if notes else {})
        content.update({"gated": dict(self.gated)} if self.gated else {})
        return {**content, **self.other}

    @classmethod
    def from_dict(cls, data: object, where: str = "baseline entry") -> BaselineEntry:
        """Return the entry that :meth:`to_dict` wrote. Entries of earlier versions may lack keys.

        Raises:
            DataFileError: a key has a value of another type. ``where`` begins the message.
        """
        content = read_mapping(data, where)
        known = {entry_field.name for entry_field in fields(cls)} - {"other"}
        other = {key: value for key, value in content.items() if key not in known}
        return read_dataclass(cls, {**{k: v for k, v in content.items() if k in known}, "other": other}, where)


@dataclass(frozen=True)
class NewEntry:
    """An entry that is to be written. ``items`` are the bytes of its item file; ``None`` if they are too large."""

    entry: BaselineEntry
    items: bytes | None = None


def entry_of(
    measurement: Measurement, accepted: Sequence[AcceptedValue] = (), gated: Mapping[str, float] | None = None
) -> NewEntry:
    """Return a measurement as a baseline entry.

    Args:
        measurement: the measurement that is stored.
        accepted: worse values that were accepted with a reason.
        gated: the tolerance of each statistic that a gate judges.
    """
    items = pack_measured(measurement)
    content = {
        "suite": measurement.suite,
        **{key: measurement.signature[key] for key in MUST_AGREE},
        "model": dict(measurement.signature["model"]),
        "values": dict(measurement.values),
        "items_sha256": None if items is None else hashlib.sha256(items).hexdigest(),
        "gated": dict(gated or {}),
    }
    entry = BaselineEntry.from_dict(json.loads(json.dumps(content)))
    return NewEntry(replace(entry, accepted=tuple(accepted)), items)


# Paths.


def book_path(directory: Path, model: str, module: str) -> Path:
    """Return the JSON file of a model name and test module.

    A slash becomes a dot. A hash follows a name that has more dots, so that no two modules share a file.
    """
    named = module.replace("/", ".")
    stem = module.removesuffix(".bias.yaml") if module.endswith(".bias.yaml") else module.rpartition(".")[0]
    return directory / model / f"{named}-{_sha(module)}.json" if "." in stem else directory / model / f"{named}.json"


def items_path(book: Path, name: str, sha256: str) -> Path:
    """Return the item file of an entry."""
    return book.with_name(f"{book.stem}.{_file_name(name)}.{sha256[:8]}.npz")


def _file_name(name: str) -> str:
    """Return the name of an entry as a part of a file name, with a hash where characters had to be replaced."""
    allowed = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return name if name == allowed else f"{allowed}-{_sha(name)}"


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


# Reading.


def read_book(path: Path) -> dict[str, BaselineEntry]:
    """Return the stored entries by name; none if there is no file.

    Raises:
        BaselineError: the file cannot be read, is not a baseline, has an entry of another form, or was written by a later version.
    """
    try:
        return {
            name: BaselineEntry.from_dict(content, f"{path}: entries.{name}")
            for name, content in _read_contents(path).items()
        }
    except DataFileError as error:
        raise BaselineError(f"{error}; {_RESTORE}") from None


def _read_contents(path: Path) -> dict[str, object]:
    """Return the JSON of the entries by name."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BaselineError(f"{path} cannot be read: {error}; {_RESTORE}") from None
    if not isinstance(data, dict) or not isinstance(data.get("entries"), dict):
        raise BaselineError(f"{path} is no baseline: expected a mapping with the key 'entries'; {_RESTORE}")
    if data.get("schema") != SCHEMA:
        raise BaselineError(
            f"{path} has the schema {data.get('schema')!r}, this version reads {SCHEMA}; install a later version, or delete it and "
            "run with --bias-update"
        )
    return dict(data["entries"])


def read_items(book: Path, name: str, entry: BaselineEntry) -> StoredItems | None:
    """Return what is stored of the units of an entry; ``None`` if that was too large.

    Raises:
        BaselineError: the item file is missing or damaged.
    """
    if entry.items_sha256 is None:
        return None
    path = items_path(book, name, entry.items_sha256)
    advice = "restore it from version control, or run with --bias-update"
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise BaselineError(f"{path} cannot be read: {error.strerror or error}; {advice}") from None
    if hashlib.sha256(packed).hexdigest() != entry.items_sha256:
        raise BaselineError(f"{path} is not the one that belongs to {book.name}; {advice}")
    return load_stored(packed, entry.signature)


def count_gated(directory: Path, model: str, module: str | None = None) -> int:
    """Return how many stored statistics of a model gates judge, at least one an entry; only those of a module, if it is named."""
    books = [book_path(directory, model, module)] if module else sorted((directory / model).glob("*.json"))
    return sum(max(1, len(entry.gated)) for path in books for entry in read_book(path).values())


# Writing.


def write_entries(
    directory: Path, model: str, module: str, entries: Mapping[str, NewEntry], remove: frozenset[str] = frozenset()
) -> Path:
    """Write accepted entries into a baseline file, and remove others. Each file is written whole; other entries stay as they are.

    Raises:
        BaselineError: the disk is full or the folder cannot be written; what was there is still there.
    """
    path = book_path(directory, model, module)
    before = _read_contents(path)
    stored = {name: content for name, content in before.items() if name not in remove}
    stored.update({name: new.entry.to_dict() for name, new in entries.items()})
    text = json.dumps({"schema": SCHEMA, "model": model, "module": module, "entries": stored}, indent=1, sort_keys=True)
    try:
        for name, new in entries.items():
            if new.items is not None and new.entry.items_sha256 is not None:
                write_whole(items_path(path, name, new.entry.items_sha256), new.items)
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


def _sweep(book: Path, names: Iterable[str], stored: Mapping[str, object]) -> None:
    """Remove the item files of some entries that no stored entry names: of an earlier state, or of a run that was killed."""
    hashes = {name: content.get("items_sha256") for name, content in stored.items() if isinstance(content, Mapping)}
    named = {items_path(book, name, str(sha256)) for name, sha256 in hashes.items() if sha256}
    for name in names:
        pattern = re.compile(rf"{re.escape(f'{book.stem}.{_file_name(name)}')}(\.[0-9a-f]{{8}})?\.npz")
        for path in book.parent.glob("*.npz"):
            if pattern.fullmatch(path.name) and path not in named:
                with suppress(OSError):  # a superfluous file does no harm
                    path.unlink(missing_ok=True)


def to_write(book: Path, name: str, new: NewEntry, stored: BaselineEntry | None) -> NewEntry | None:
    """Return what is to be written over a stored entry; ``None`` if the new one differs by noise only.

    If only the gates differ, the stored figures stay, and with them the model that they are of.
    """
    if stored is None or not _unchanged(book, name, new, stored):
        return new
    return None if new.entry.gated == stored.gated else NewEntry(replace(stored, gated=new.entry.gated))


def _unchanged(book: Path, name: str, new: NewEntry, stored: BaselineEntry) -> bool:
    """Return whether a stored entry has the same signature and reasons, and every value and item within noise."""
    now = new.entry
    if (now.suite, now.accepted, now.signature) != (stored.suite, stored.accepted, stored.signature):
        return False
    if now.values.keys() != stored.values.keys():
        return False
    if not all(_alike(now.values[key], stored.values[key]) for key in now.values):
        return False
    try:
        items = read_items(book, name, stored)
    except BaselineError:  # it is written anew
        return False
    if items is None or new.items is None:
        return items is None and new.items is None
    return alike_items(load_stored(new.items, now.signature), items)


def _alike(now: float | None, then: float | None) -> bool:
    return now is None and then is None if now is None or then is None else abs(now - then) <= FLOAT_NOISE
