"""The files of baselines: one JSON file a model name and test module, ``DIR/NAME/MODULE.json``, sorted, one entry a
block.

Beside it is an item file for each entry, ``MODULE.ENTRY.SHA.npz`` (:mod:`~pytest_genderbias.gates.item_file`). SHA is
the start of the SHA-256 of its bytes, so that a new file never replaces the one that the JSON file still names. This
module reads both, and :mod:`~pytest_genderbias.gates.book_update` writes them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Annotated

from pytest_genderbias.errors import BaselineError, DataFileError, InconsistentEntryError
from pytest_genderbias.gates.agreement import MUST_AGREE
from pytest_genderbias.gates.book_places import MOST_BYTES, Place, UrlPath, content_of, read_place, short_digest
from pytest_genderbias.gates.item_file import MOST_ITEM_BYTES, StoredItems, load_checked, pack_measured
from pytest_genderbias.gates.judgement import AcceptedValue, Seen
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain, read_mapping
from pytest_genderbias.models.spec import portable_spec
from pytest_genderbias.statistics.right_answers import Ability
from pytest_genderbias.text.plain_files import as_text, open_regular, parse_json, read_whole, reason
from pytest_genderbias.text.schema import Count, NotNegative, Rule, read_value

SCHEMA = 1
_RESTORE = "restore it from version control, or fix it; deleting it would lose the reasons for accepted values"
_RESTORE_ITEMS = "restore it from version control, or run with --bias-update"
_ALWAYS_WRITTEN = ("suite", *MUST_AGREE, "model", "values", "items_sha256")

_BEGIN, _END = re.compile(r"<{7}( |$)"), re.compile(r">{7}( |$)")
_ENTRY = re.compile(r' {2}("(?:[^"\\]|\\.)*"): \{')  #: the first line of an entry, as we write it


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
        gated: the margin of each statistic that a gate judges, so that no gate accepts what another one judges;
            ``None`` without one.
        sees: what the gate on each of these statistics sees, where that is known.
        checkpoints: number of checkpoints that its values are pooled from.
        date: when its values were accepted, in ISO format; empty if the file does not say.
        anchor: the entry as it was first accepted, with its values, signature, item file, date and fingerprint;
            ``None`` if it is still the same. Only an update with a reason moves it, so that many small steps do not add
            up unseen.
        abilities: how many control items the model answered right.
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
    items_sha256: Annotated[str, Rule("64 hexadecimal digits", pattern="^[0-9a-f]{64}$")] | None = None
    accepted: tuple[AcceptedValue, ...] = ()
    gated: Mapping[str, NotNegative | None] = field(default_factory=dict)
    sees: Mapping[str, Seen] = field(default_factory=dict)
    checkpoints: Count = 1
    date: str = ""
    anchor: BaselineEntry | None = None
    abilities: tuple[Ability, ...] = ()
    other: Mapping[str, object] = field(default_factory=dict)

    @property
    def signature(self) -> dict[str, object]:
        """The keys that must agree for a measurement to be compared with this entry."""
        return {key: vars(self)[key] for key in MUST_AGREE}

    @property
    def origin(self) -> BaselineEntry:
        """The anchor; the entry itself is its anchor until its values change."""
        if self.anchor is not None:
            return self.anchor
        known = {**self.signature, "values": self.values, "items_sha256": self.items_sha256, "date": self.date}
        return BaselineEntry(**known, model={"fingerprint": self.model.get("fingerprint")})  # type: ignore[arg-type]

    @property
    def has_left_anchor(self) -> bool:
        """Whether its values or items differ from those of its anchor."""
        anchor = self.anchor
        return anchor is not None and (anchor.items_sha256, anchor.values) != (self.items_sha256, self.values)

    @property
    def comparisons(self) -> int:
        """How many comparisons its gates make: one a gated statistic, and another with the anchor that it has left."""
        return max(1, len(self.gated)) * (2 if self.has_left_anchor else 1)

    def to_dict(self) -> dict[str, object]:
        """Return the entry as the JSON file has it; of the keys that may be missing, those that hold something."""
        content = {key: vars(self)[key] for key in _ALWAYS_WRITTEN}
        kept = None
        if (anchor := self.anchor) is not None:
            kept = {"values": anchor.values, "signature": anchor.signature, "items_sha256": anchor.items_sha256}
            weights = anchor.model.get("fingerprint")
            kept |= {"date": anchor.date, "fingerprint": weights if isinstance(weights, str) else None}
        later = {
            "accepted": [note.to_dict() for note in self.accepted],
            "gated": dict(self.gated),
            "sees": {statistic: dict(vars(seen)) for statistic, seen in self.sees.items()},
            "checkpoints": self.checkpoints if self.checkpoints > 1 else 0,
            "date": self.date,
            "anchor": kept,
            "abilities": [
                {key: value for key, value in vars(one).items() if (key, value) != ("lead", None)}
                | {"right": list(one.right)}
                for one in self.abilities
            ],
        }
        return {**content, **{key: value for key, value in later.items() if value}, **self.other}

    @classmethod
    def from_dict(cls, data: object, where: str = "baseline entry") -> BaselineEntry:
        """Return the entry that :meth:`to_dict` wrote. Keys may be missing.

        Raises:
            DataFileError: a key has a value of another type or range. ``where`` begins the message.
        """
        content = read_mapping(data, where)
        known = {entry_field.name for entry_field in fields(cls)} - {"other"}
        other = {key: value for key, value in content.items() if key not in known}
        if content.get("anchor") is not None:
            content["anchor"] = _flat_anchor(content["anchor"], f"{where}.anchor")
        entry = read_value(cls, {**{k: v for k, v in content.items() if k in known}, "other": other}, where)
        for name, seen in entry.sees.items():  # elsewhere, a gate may see nothing
            for key in ("size", "unit", "red"):
                read_value(NotNegative, getattr(seen, key), f"{where}.sees.{name}.{key}")
        return entry


def _flat_anchor(data: object, where: str) -> dict[str, object]:
    """Return the JSON of an anchor, whose signature stands apart, as that of an entry.

    Raises:
        DataFileError: it has another form.
    """
    content = read_mapping(data, where)
    signature = read_mapping(content.pop("signature", {}), f"{where}.signature")
    fingerprint = read_value(str | None, content.pop("fingerprint", None), f"{where}.fingerprint")
    read_value(BaselineEntry, signature, f"{where}.signature")
    expected = {"values", "items_sha256", "date"}
    if unknown := sorted({*content} - expected):
        raise DataFileError(
            f"{where}: expected no other keys than {', '.join(sorted(expected))}, got {', '.join(unknown)}"
        )
    return {**signature, **content, "model": {"fingerprint": fingerprint}}


@dataclass(frozen=True)
class NewEntry:
    """An entry that is to be written.

    Attributes:
        entry: the entry.
        items: the bytes of its item file; ``None`` if they are too large.
        kept: what it keeps of the entry in whose place it is, in words; empty if nothing.
        pooled: whether its values are means of those of now and those that were stored.
    """

    entry: BaselineEntry
    items: bytes | None = None
    kept: str = ""
    pooled: bool = False


def entry_of(
    measurement: Measurement,
    accepted: Sequence[AcceptedValue] = (),
    gated: Mapping[str, float | None] | None = None,
    sees: Mapping[str, Seen] | None = None,
) -> NewEntry:
    """Return a measurement as a baseline entry.

    Args:
        measurement: the measurement that is stored.
        accepted: worse values that were accepted with a reason.
        gated: the margin of each statistic that a gate judges; ``None`` without one.
        sees: what each of these gates sees.

    Raises:
        BaselineError: a value is not a finite number.
    """
    for statistic, value in measurement.values.items():
        if value is not None and not math.isfinite(value):
            raise BaselineError(
                f"{measurement.suite} on {measurement.model}: a baseline has finite values, {statistic} is {value}"
            )
    items = pack_measured(measurement)
    model = dict(measurement.signature["model"])
    content = {
        "suite": measurement.suite,
        **{key: measurement.signature[key] for key in MUST_AGREE},
        "model": {**model, "spec": portable_spec(model["spec"])} if isinstance(model.get("spec"), str) else model,
        "values": dict(measurement.values),
        "items_sha256": None if items is None else hashlib.sha256(items).hexdigest(),
        "gated": dict(gated or {}),
        "sees": as_plain(dict(sees or {}), True),
        "abilities": as_plain(measurement.abilities),
    }
    entry = BaselineEntry.from_dict(json.loads(json.dumps(content)))
    return NewEntry(replace(entry, accepted=tuple(accepted)), items)


# Paths.


def items_path(book: Place, name: str, sha256: str) -> Place:
    """Return the item file of an entry."""
    return book.with_name(f"{book.stem}.{file_name(name)}.{sha256[:8]}.npz")


def file_name(name: str) -> str:
    """Return the name of an entry as a part of a file name, with a hash where characters had to be replaced."""
    allowed = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    return name if name == allowed else f"{allowed}-{short_digest(name)}"


# Reading.


def read_book(path: Place) -> dict[str, BaselineEntry]:
    """Return the stored entries by name; none if there is no file.

    The file is read each time, and parsed only if its text is another one: every gate of a module asks for its entries
    several times.

    Raises:
        BaselineError: the file cannot be read, has merge conflicts, is not a baseline, has an entry of another form, or
            was written by a later version.
    """
    text = _read_text(path)
    return {} if text is None else dict(_parse_entries(path, text))


@lru_cache(maxsize=4)
def _parse_entries(path: Place, text: str) -> dict[str, BaselineEntry]:
    return entries_of(path, _parse_contents(path, text))


def entries_of(path: Place, contents: Mapping[str, object]) -> dict[str, BaselineEntry]:
    """Return the entries of a baseline file, from their JSON by name; errors as :func:`read_book`."""
    try:
        return {name: BaselineEntry.from_dict(content, f"{path}: entries.{name}") for name, content in contents.items()}
    except DataFileError as error:
        raise BaselineError(f"{error}; {_RESTORE}") from None


def read_contents(path: Place) -> dict[str, object]:
    """Return the JSON of the entries of a baseline file by name; errors as :func:`read_book`."""
    text = _read_text(path)
    return {} if text is None else _parse_contents(path, text)


def _read_text(path: Place) -> str | None:
    """Return the text of a baseline file; ``None`` if there is no file."""
    try:
        if isinstance(path, UrlPath):
            content = content_of(path)
            return None if content is None else as_text(path, content, MOST_BYTES)
        path.lstat()
        return read_whole(path, MOST_BYTES)
    except DataFileError as error:
        raise BaselineError(f"{error}; {_RESTORE}") from None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BaselineError(f"{path}: cannot be read: {reason(error)}") from None


def _parse_contents(path: Place, text: str) -> dict[str, object]:
    try:
        data = parse_json(text, str(path))
    except DataFileError as error:
        conflicts = describe_conflicts(text)  # a file that has any is no JSON
        raise BaselineError(f"{path}: {conflicts}" if conflicts else f"{error}; {_RESTORE}") from None
    entries = data.get("entries") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(entries, dict):
        raise BaselineError(f"{path}: expected a baseline, a mapping with the key 'entries'; {_RESTORE}")
    if type(data.get("schema")) is not int or data["schema"] != SCHEMA:
        raise BaselineError(
            f"{path}: expected schema {SCHEMA}, got {data.get('schema')!r:.80}; install the version of"
            " pytest-genderbias that wrote it, or restore an earlier state of the file from version control"
        )
    return entries


def read_items(book: Place, name: str, entry: BaselineEntry) -> StoredItems | None:
    """Return what is stored of the units of an entry; ``None`` if that was too large. It gives the values of the entry.

    Raises:
        BaselineError: the item file is missing or damaged.
        InconsistentEntryError: its items give other values than the entry has.
    """
    packed = _read_packed(book, name, entry)
    return None if packed is None else _unpack(book, name, entry, packed)


def read_reference(
    book: Place, name: str, entry: BaselineEntry, counted: Iterable[Place]
) -> tuple[StoredItems | None, int]:
    """Return what is stored of the units of an entry, as :func:`read_items` does, and how many comparisons gates make.

    Args:
        book: the baseline file of the entry.
        name: name of the entry.
        entry: the entry.
        counted: the baseline files whose comparisons are counted, at least one an entry.

    Raises:
        BaselineError: one of the files cannot be read.
        InconsistentEntryError: as :func:`read_items`.
    """
    packed = _read_packed(book, name, entry)
    gated = sum(other.comparisons for path in counted for other in read_book(path).values())
    return None if packed is None else _unpack(book, name, entry, packed), gated


def _read_packed(book: Place, name: str, entry: BaselineEntry) -> bytes | None:
    """Return the bytes of the item file of an entry; ``None`` if it has none."""
    if entry.items_sha256 is None:
        return None
    path = items_path(book, name, entry.items_sha256)
    try:
        if isinstance(path, UrlPath):
            packed = read_place(path, MOST_ITEM_BYTES)
        else:
            with open_regular(path) as file:
                packed = file.read(MOST_ITEM_BYTES + 1)
    except (DataFileError, OSError) as error:
        raise BaselineError(f"{error}; {_RESTORE_ITEMS}") from None
    if hashlib.sha256(packed).hexdigest() != entry.items_sha256:
        raise BaselineError(f"{path} is not the one that belongs to {book.name}; {_RESTORE_ITEMS}")
    return packed


def _unpack(book: Place, name: str, entry: BaselineEntry, packed: bytes) -> StoredItems:
    path = items_path(book, name, str(entry.items_sha256))
    restarts = entry.settings.get("restarts", 0)
    try:
        return load_checked(
            packed, entry.signature, entry.values, restarts if isinstance(restarts, int) else 0, str(path)
        )
    except InconsistentEntryError as error:
        raise InconsistentEntryError(
            f"{book}: entries.{name}: {error} ({path.name}); restore both files from version control, or accept what is"
            ' measured now with --bias-update --bias-reason="why"'
        ) from None
    except DataFileError as error:
        raise BaselineError(f"{error}; {_RESTORE_ITEMS}") from None


def describe_conflicts(text: str) -> str:
    """Return where a baseline file has merge conflicts, in which entries, and what to do; an empty text if it has none.

    >>> text = '{\\n  "nli": {\\n<<<<<<< ours\\n   "values": 1\\n=======\\n   "values": 2\\n>>>>>>> theirs\\n  }\\n}'
    >>> describe_conflicts(text)[:50]
    "line 3: unresolved merge conflicts in the entry 'n"
    """
    if "<" * 7 not in text:
        return ""
    lines: list[int] = []
    names: dict[str, None] = {}
    around, inside = None, False  # the entry that a line is in, and whether it is between two markers
    for number, line in enumerate(text.split("\n"), 1):
        entry = _ENTRY.match(line)
        if entry:
            around = _name(entry[1])
        if _BEGIN.match(line):
            lines.append(number)
            inside = True
        if inside and around is not None and (entry or line.startswith("   ")):
            names[around] = None
        if _END.match(line):
            inside = False
    if not lines:
        return ""
    entries = (
        f"the entr{'y' if len(names) == 1 else 'ies'} {', '.join(map(repr, names))}" if names else "no single entry"
    )
    return (
        f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}: unresolved merge conflicts in {entries};"
        " keep one side of each entry whole, with its 'accepted' reasons, or the file of one side (git checkout --ours"
        " FILE, or --theirs), and run again: gates then compare with what you kept, and a value that is worse needs a"
        " reason of its own"
    )


def _name(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return quoted
