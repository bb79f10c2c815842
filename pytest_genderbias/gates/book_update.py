"""Updates of baseline files: what of a measurement is kept in the place of an entry, and one lock for reading, merging,
writing and sweeping, so that runs side by side lose nothing.

A lucky value is not kept, and the spread of retrainings is not lost. The lock is of the folder of a model name, and its
file is removed afterwards: the folder is kept in version control.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pytest_genderbias.errors import BaselineError, StoreError, UndefinedError
from pytest_genderbias.folders import has_unfinished, sweep_unfinished
from pytest_genderbias.gates.book import (
    SCHEMA,
    BaselineEntry,
    NewEntry,
    entries_of,
    items_path,
    read_contents,
    read_items,
)
from pytest_genderbias.gates.book_places import Place, book_path, content_of, listed, locked, remove_place, write_place
from pytest_genderbias.gates.item_file import StoredItems, alike_items, load_stored
from pytest_genderbias.gates.sensitivity import spread_of
from pytest_genderbias.gates.verdicts import FLOAT_NOISE
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import EARLIER, RESTART, name_in_restart, restarts_of
from pytest_genderbias.statistics.inference.item_sums import Entry, ItemSums, SumsByStatistic
from pytest_genderbias.text.printable import counted


@dataclass(frozen=True)
class Kept:
    """The part of a measurement that an update stores.

    Attributes:
        measurement: the one that is stored.
        checkpoints: how many single checkpoints its values are means of.
        in_words: what it keeps of the stored values; "" if nothing.
        pooled: whether its values are also those of earlier checkpoints.
    """

    measurement: Measurement
    checkpoints: int = 1
    in_words: str = ""
    pooled: bool = False


def kept_of(measurement: Measurement, before: StoredItems, weight: int, again: bool, is_chance: bool) -> Kept:
    """Return what an update stores of a measurement in place of what is stored.

    Where chance explains the change, it is pooled with what is stored, once; else one checkpoint takes its place, with
    the spread of the restarts that are stored.

    Args:
        measurement: of now.
        before: what is stored of its items.
        weight: number of checkpoints that the stored values are of.
        again: whether the measurement is of the checkpoint that was stored last.
        is_chance: whether chance explains the change, and nobody gives a reason for it.
    """
    if not is_chance:
        with_spread = _with_kept_spread(measurement, before)
        is_kept = with_spread is not measurement
        return Kept(with_spread, 1, "the spread of the stored restarts is kept beside it" if is_kept else "")
    if again:
        kept, checkpoints = _as_stored(measurement, before, weight), weight
        how = "it is one of what is stored, which stays"
    else:
        kept, checkpoints = _pooled(measurement, before, weight), weight + 1
        how = "chance explains the change, so that both are pooled"
    if kept.restarts:
        checkpoints = 1
    if kept is measurement:
        return Kept(measurement, checkpoints)
    of = counted(kept.restarts, "restarts") if kept.restarts else counted(checkpoints, "checkpoints")
    return Kept(kept, checkpoints, f"{how} ({of})", True)


def _pooled(measurement: Measurement, before: StoredItems, weight: int) -> Measurement:
    """Return a measurement pooled with what is stored; arguments as :func:`kept_of`.

    Restarts are joined. Of single checkpoints, the sums of each item are averaged, and values that are not made of
    items.
    """
    if _restarts(before) or measurement.restarts:
        return _joined(measurement, before)
    entries: dict[str, Entry] = {}
    means: dict[str, float | None] = {}
    for name, now in measurement.values.items():
        then = before.values.get(name)
        means[name] = now if now is None or then is None else (weight * then + now) / (weight + 1)
        try:
            entries[name] = _mean_of(before.item_sums(name), measurement.item_sums(name), weight)
            means[name] = entries[name].total  # type: ignore[union-attr]
        except UndefinedError as error:
            entries[name] = str(error)
    return replace(measurement, values=means, sums=SumsByStatistic(entries))


def _as_stored(measurement: Measurement, before: StoredItems, weight: int) -> Measurement:
    """Return a measurement with the stored values, of which it is a part already; others as they are. Arguments as
    :func:`kept_of`.
    """
    stored = _restarts(before)
    if stored > measurement.restarts:
        return with_stored_restarts(measurement, before)
    if weight < 2 or stored or measurement.restarts:
        return measurement
    entries = {name: before.sums.known(name) for name in measurement.values}
    known = {name: before.values.get(name) for name in measurement.values}
    return replace(measurement, values=known, sums=SumsByStatistic(entries))


def _with_kept_spread(measurement: Measurement, before: StoredItems) -> Measurement:
    """Return a measurement of one checkpoint with the spread of the stored restarts beside it; others as they are.

    It is a mean over one training: that of the others is kept, and their values are not.
    """
    spreads = {name: spread for name in measurement.values if (spread := spread_of(before.items, name)) is not None}
    kept = {EARLIER + name: np.array([spread.spread, spread.freedom]) for name, spread in spreads.items()}
    if measurement.restarts or not kept:
        return measurement
    own = {RESTART + name: np.array([value]) for name, value in measurement.values.items() if value is not None}
    signature = _with_restarts(measurement, 1)
    return replace(measurement, items={**measurement.items, **own, **kept}, signature=signature)


def with_stored_restarts(measurement: Measurement, before: StoredItems) -> Measurement:
    """Return a measurement with the stored restarts in the place of its own values; as it is where none are stored."""
    return _joined(measurement, before, only_stored=True) if _restarts(before) else measurement


def _restarts(before: StoredItems) -> int:
    """Return the number of stored restarts; 0 without."""
    known = (restarts_of(before.items, name) for name, value in before.values.items() if value is not None)
    return max((len(by_restart) for by_restart in known if by_restart is not None), default=0)


def _joined(measurement: Measurement, before: StoredItems, *, only_stored: bool = False) -> Measurement:
    """Return a measurement over restarts: the stored ones and those of now, or the stored ones."""
    earlier = {name: kept for name, kept in before.items.items() if name.startswith(EARLIER)}
    items, means = {**measurement.items, **earlier}, dict(measurement.values)
    entries: dict[str, Entry] = {}
    count = 0
    for name, now in measurement.values.items():
        then, new = restarts_of(before.items, name), restarts_of(measurement.items, name)
        value = before.values.get(name)
        if now is None or (then is None and value is None):
            means[name] = None
            continue
        then = np.array([value], dtype=np.float64) if then is None else then
        new = np.array([]) if only_stored else np.array([now]) if new is None else new
        both = np.concatenate([then, new])
        items[RESTART + name], means[name], count = both, float(both.mean()), len(both)
        entries[name] = "the values of its restarts are compared, and not its units"
        entries |= _sums_of_both(measurement, before, name, len(then), len(new))
        if len(both) == 1:
            entries[name] = entries.pop(name_in_restart(0, name), entries[name])
    if count > 1:
        items["seed"] = np.arange(count)
    sums, signature = SumsByStatistic(entries), _with_restarts(measurement, count)
    return replace(measurement, values=means, items=items, sums=sums, signature=signature)


def _with_restarts(measurement: Measurement, count: int) -> dict[str, Any]:
    """Return the signature of a measurement over so many restarts."""
    settings = {**measurement.signature["settings"], "restarts": count}
    return {**measurement.signature, "settings": settings}


def _sums_of_both(measurement: Measurement, before: StoredItems, name: str, then: int, now: int) -> dict[str, Entry]:
    """Return the sums of each restart of both sides under their names; nothing where one has none."""
    found: dict[str, Entry] = {}
    for source, count, first in ((before, then, 0), (measurement, now, then)):
        for k in range(count):
            try:
                sums = source.item_sums(name_in_restart(k, name) if count > 1 or (first == 0 and then > 1) else name)
            except UndefinedError:
                return {}
            found[name_in_restart(first + k, name)] = sums
    return found


def _mean_of(then: ItemSums, now: ItemSums, weight: int) -> ItemSums:
    """Return the mean of sums of the same units.

    Raises:
        UndefinedError: they are of other units.
    """
    if then.sums.shape != now.sums.shape or then.labels.tolist() != now.labels.tolist():
        raise UndefinedError("the units then and now are others")
    sums = (weight * then.sums.astype(np.float64) + now.sums) / (weight + 1)
    return replace(now, sums=sums.astype(now.sums.dtype) if now.sums.dtype.kind == "f" else sums)


def accepted_on(date: str, stored: BaselineEntry, new: BaselineEntry, reason: str | None) -> BaselineEntry:
    """Return a new entry with its date, and with the anchor that the stored one leaves to it.

    An update with a reason moves the anchor to the new values, and so does another definition, by which old values mean
    something else. A better value does not move it: of equal models, some are better by chance.

    Args:
        date: when the new values are accepted, in ISO format.
        stored: the entry in whose place the new one is; an empty one if there is none.
        new: the entry that is accepted.
        reason: why it is accepted, if somebody says so.
    """
    if stored.definition != new.definition:
        return replace(new, date=date, anchor=None)
    if stored.anchor is None and stored.signature == new.signature and same_values(stored.values, new.values):
        return replace(new, date=stored.date or date, anchor=None)  # only its items are written anew
    return replace(new, date=date, anchor=None if reason else stored.origin)


def same_values(first: Mapping[str, float | None], second: Mapping[str, float | None]) -> bool:
    """Return whether two mappings have the same statistics, with the same values up to noise."""
    return first.keys() == second.keys() and all(alike(first[name], second[name]) for name in first)


def alike(first: float | None, second: float | None) -> bool:
    """Return whether two numbers are equal up to noise, or both missing."""
    if first is None or second is None:
        return first is second
    return abs(first - second) <= FLOAT_NOISE


_LOCK, _PATIENCE = ".lock", 120.0  #: seconds to wait for other runs, each of which writes for less than one
_ITEMS = re.compile(r".+\.[0-9a-f]{8}\.npz")


Key: TypeAlias = tuple[str, str]  #: the model and the test file of a baseline file
#: What an update writes into a baseline file, by the name of the entry; ``None`` removes one.
Change: TypeAlias = Mapping[str, NewEntry | None]
#: From the stored entries of a baseline file to its change.
Decide: TypeAlias = Callable[[Mapping[str, BaselineEntry]], Change]


def update_books(
    directory: Place, decisions: Mapping[Key, Decide], is_refused: Callable[[], bool] = lambda: False
) -> Mapping[Key, Change]:
    """Change baseline files by what is stored in them at that time: all of them, or none. Each is written whole.

    Args:
        directory: the folder of all baselines.
        decisions: by model and test file, the function that decides. It is called again, under the locks, if anything
            changes.
        is_refused: called after all decisions; returns whether one of them refuses an entry, so that nothing is
            written.

    Returns:
        The changes that were written, by model and test file.

    Raises:
        BaselineError: a file cannot be read, locked or written; what was there is still there.
    """
    books = {key: book_path(directory, *key) for key in decisions}

    def decide(key: Key, contents: Mapping[str, object]) -> Change:
        return decisions[key](entries_of(books[key], contents))

    changed = [decide(key, read_contents(path)) for key, path in books.items()]
    if is_refused():
        return {}
    if not any(changed):
        for path in books.values():
            if _superfluous(path) or (isinstance(path, Path) and has_unfinished(path.parent)):
                with suppress(OSError, NotImplementedError), locked(path.with_name(_LOCK), _PATIENCE):
                    _sweep(path)
        return {}
    return _change(books, decide, is_refused)


def _change(
    books: Mapping[Key, Place],
    decide: Callable[[Key, Mapping[str, object]], Change],
    is_refused: Callable[[], bool] = lambda: False,
) -> Mapping[Key, Change]:
    """Change baseline files under their locks, by the JSON of the entries that they have then; errors as
    :func:`update_books`.

    The locks are taken in the order of the folders, so that no two runs wait for each other.
    """
    folders = {path.parent: path for path in sorted(books.values(), reverse=True)}
    path = next(iter(folders.values()))
    try:
        with ExitStack() as locks:
            for path in reversed(folders.values()):
                locks.enter_context(locked(path.with_name(_LOCK), _PATIENCE))
            before = {key: read_contents(path) for key, path in books.items()}
            changes = {key: decide(key, contents) for key, contents in before.items()}
            if is_refused():
                return {}
            changes = {key: change for key, change in changes.items() if change}
            _write(books, before, changes)
            return changes
    except BaselineError:  # an OSError, too
        raise
    except NotImplementedError as error:
        raise BaselineError(
            f"{path.parent} cannot be locked: {error}; nothing was written, put it on another file system"
        ) from None
    except OSError as error:
        raise BaselineError(
            f"{path} cannot be written: {error.strerror or error}; nothing that was there is lost"
        ) from None


def _write(
    books: Mapping[Key, Place], before: Mapping[Key, Mapping[str, object]], changes: Mapping[Key, Change]
) -> None:
    """Write item files, then the files that name them, then remove those that nothing names. The caller holds the
    locks.

    Raises:
        BaselineError: a file cannot be written; those that were written have their old content again.
    """
    written: dict[Place, bytes | None] = {}
    try:
        for key, change in changes.items():
            path = books[key]
            for name, new in change.items():
                if new is not None and new.items is not None and new.entry.items_sha256 is not None:
                    write_place(items_path(path, name, new.entry.items_sha256), new.items)
        for key, change in changes.items():
            path = books[key]
            old = content_of(path)
            written_now = {name: None if new is None else new.entry.to_dict() for name, new in change.items()}
            entries = {**before[key], **written_now}
            stored = {name: content for name, content in entries.items() if content is not None or name not in change}
            model, module = key
            book = {"schema": SCHEMA, "model": model, "module": module, "entries": stored}
            if stored:
                write_place(path, (json.dumps(book, indent=1, sort_keys=True) + "\n").encode())
            else:
                remove_place(path)
            written[path] = old
    except OSError as error:
        for restored, content in written.items():
            with suppress(OSError):
                remove_place(restored) if content is None else write_place(restored, content)
        raise BaselineError(
            f"{path} cannot be written: {error.strerror or error}; nothing that was there is lost"
        ) from None
    finally:
        for key in changes:
            _sweep(books[key])


def _sweep(book: Place) -> None:
    """Remove what no baseline file of the folder names. The caller holds the lock."""
    if isinstance(book, Path):
        sweep_unfinished(book.parent)
    for path in _superfluous(book):
        with suppress(OSError):  # a superfluous file does no harm
            remove_place(path)


def _superfluous(book: Place) -> list[Place]:
    """Return the item files that no baseline file of the folder names: of an earlier state, or of a killed run.

    Args:
        book: the file that is updated. Item files of books whose names do not begin like a file of the folder stay.
    """
    try:
        items = [path for path in listed(book.parent, "*.npz") if _ITEMS.fullmatch(path.name)]
        books = {book, *listed(book.parent, "*.json")}
        named = set().union(*map(_named_items, books)) if items else set()
    except (BaselineError, StoreError, ValueError):  # another book cannot be read: what it names is not known
        return []
    ours = tuple(f"{other.stem}." for other in books)
    return [path for path in items if path not in named and path.name.startswith(ours)]


def _named_items(book: Place) -> set[Place]:
    """Return the item files that a baseline file names: of its entries, and of their anchors."""
    files: set[Place] = set()
    for name, content in read_contents(book).items():
        for part in (content, content.get("anchor") if isinstance(content, Mapping) else None):
            digest = part.get("items_sha256") if isinstance(part, Mapping) else None
            if isinstance(digest, str):
                files.add(items_path(book, name, digest))
    return files


# Whether an entry changes.


def state_of(entry: BaselineEntry | None) -> str:
    """Return a digest of what a verdict on an entry depends on, so that a change of it can be noticed; empty for no
    entry.
    """
    if entry is None:
        return ""
    content = {key: value for key, value in entry.to_dict().items() if key not in ("gated", "sees", "date")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def to_write(book: Place, name: str, new: NewEntry, stored: BaselineEntry | None) -> NewEntry | None:
    """Return what is to be written over a stored entry; ``None`` if the new one differs by noise only.

    If only the gates differ, the stored figures stay, and with them the model that they are of.
    """
    if stored is None or not _unchanged(book, name, new, stored):
        return new
    sees = {**{name: seen for name, seen in stored.sees.items() if name in new.entry.gated}, **new.entry.sees}
    # A share of a value has the noise of that value.
    same_gates = (
        sees.keys() == stored.sees.keys()
        and new.entry.gated.keys() == stored.gated.keys()
        and all(alike(amount, stored.gated[statistic]) for statistic, amount in new.entry.gated.items())
    )
    abilities = stored.abilities or new.entry.abilities  # control items may have come since
    if same_gates and abilities == stored.abilities:
        return None
    return NewEntry(replace(stored, gated=new.entry.gated, sees=sees, abilities=abilities))


def _unchanged(book: Place, name: str, new: NewEntry, stored: BaselineEntry) -> bool:
    """Return whether a stored entry has the same signature and reasons, and every value and item within noise."""
    now = new.entry
    if (now.suite, now.accepted, now.signature) != (stored.suite, stored.accepted, stored.signature):
        return False
    if now.anchor != stored.anchor and now.anchor != stored.origin:
        return False
    if not same_values(now.values, stored.values):
        return False
    try:
        items = read_items(book, name, stored)
    except BaselineError:  # it is written anew
        return False
    if items is None or new.items is None:
        return items is None and new.items is None
    return alike_items(load_stored(new.items, now.signature), items)
