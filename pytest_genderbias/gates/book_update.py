"""Updates of baseline files: one lock for reading, merging, writing and sweeping, so that runs side by side lose
nothing.

The lock is of the folder of a model name, and its file is removed afterwards: the folder is kept in version control.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_genderbias.errors import BaselineError
from pytest_genderbias.folders import has_unfinished, locked_file, sweep_unfinished, write_whole
from pytest_genderbias.gates.book import (
    SCHEMA,
    BaselineEntry,
    NewEntry,
    book_path,
    entries_of,
    file_name,
    items_path,
    read_contents,
    read_items,
)
from pytest_genderbias.gates.item_file import alike_items, load_stored
from pytest_genderbias.gates.refresh import alike, same_values

_LOCK, _PATIENCE = ".lock", 120.0  #: seconds to wait for other runs, each of which writes for less than one
_ITEMS = re.compile(r".+\.[0-9a-f]{8}\.npz")


@dataclass(frozen=True)
class BookChange:
    """What an update does to a baseline file: the entries that it writes, and the names of those that it removes."""

    entries: Mapping[str, NewEntry] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return bool(self.entries or self.removed)


#: From the stored entries of a baseline file to its change.
Decide = Callable[[Mapping[str, BaselineEntry]], BookChange]


@dataclass(frozen=True)
class Book:
    """A baseline file that an update may change: its path, its model and its test file."""

    path: Path
    model: str
    module: str


def update_books(
    directory: Path, decisions: Mapping[tuple[str, str], Decide], is_refused: Callable[[], bool] = lambda: False
) -> dict[tuple[str, str], BookChange]:
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
    books = {key: Book(book_path(directory, *key), *key) for key in decisions}

    def decide(key: tuple[str, str], contents: Mapping[str, object]) -> BookChange:
        return decisions[key](entries_of(books[key].path, contents))

    changed = [decide(key, read_contents(book.path)) for key, book in books.items()]
    if is_refused():
        return {}
    if not any(changed):
        for book in books.values():
            if _superfluous(book.path) or has_unfinished(book.path.parent):
                with suppress(OSError, NotImplementedError), _locked(book.path):
                    _sweep(book.path)
        return {}
    return _change(books, decide, is_refused)


def update_book(directory: Path, model: str, module: str, decide: Decide) -> BookChange:
    """Change one baseline file; arguments and errors as :func:`update_books`."""
    return update_books(directory, {(model, module): decide}).get((model, module), BookChange())


def write_entries(
    directory: Path, model: str, module: str, entries: Mapping[str, NewEntry], remove: frozenset[str] = frozenset()
) -> Path:
    """Write accepted entries into a baseline file, and remove others, whatever is stored; errors as
    :func:`update_book`.
    """
    book = Book(book_path(directory, model, module), model, module)
    _change({(model, module): book}, lambda _, contents: BookChange(entries, remove))
    return book.path


def _locked(path: Path) -> AbstractContextManager[None]:
    """Lock the folder of a baseline file."""
    return locked_file(path.with_name(_LOCK), _PATIENCE, remove=True)


def _change(
    books: Mapping[tuple[str, str], Book], decide: Callable[[tuple[str, str], Mapping[str, object]], BookChange],
    is_refused: Callable[[], bool] = lambda: False,
) -> dict[tuple[str, str], BookChange]:  # fmt: skip
    """Change baseline files under their locks, by the JSON of the entries that they have then; errors as
    :func:`update_books`.

    The locks are taken in the order of the folders, so that no two runs wait for each other.
    """
    folders = {book.path.parent: book.path for book in sorted(books.values(), key=lambda book: book.path, reverse=True)}
    path = next(iter(folders.values()))
    try:
        with ExitStack() as locks:
            for path in reversed(folders.values()):
                locks.enter_context(_locked(path))
            before = {key: read_contents(book.path) for key, book in books.items()}
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
    books: Mapping[tuple[str, str], Book], before: Mapping[tuple[str, str], Mapping[str, object]],
    changes: Mapping[tuple[str, str], BookChange],
) -> None:  # fmt: skip
    """Write item files, then the files that name them, then remove those that nothing names. The caller holds the
    locks.

    Raises:
        BaselineError: a file cannot be written; those that were written have their old content again.
    """
    written: dict[Path, bytes | None] = {}
    try:
        for key, change in changes.items():
            for name, new in change.entries.items():
                path = books[key].path
                if new.items is not None and new.entry.items_sha256 is not None:
                    write_whole(items_path(path, name, new.entry.items_sha256), new.items)
        for key, change in changes.items():
            path = books[key].path
            old = path.read_bytes() if path.exists() else None
            _write_entries(books[key], before[key], change)
            written[path] = old
    except OSError as error:
        for restored, content in written.items():
            with suppress(OSError):
                restored.unlink() if content is None else write_whole(restored, content)
        raise BaselineError(
            f"{path} cannot be written: {error.strerror or error}; nothing that was there is lost"
        ) from None
    finally:
        for key, change in changes.items():
            _sweep(books[key].path, {*change.entries, *change.removed})


def _write_entries(book: Book, before: Mapping[str, object], change: BookChange) -> None:
    """Write a baseline file; remove one without entries.

    Raises:
        OSError: it cannot be written.
    """
    stored = {name: content for name, content in before.items() if name not in change.removed}
    stored.update({name: new.entry.to_dict() for name, new in change.entries.items()})
    content = {"schema": SCHEMA, "model": book.model, "module": book.module, "entries": stored}
    if stored:
        write_whole(book.path, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode())
    else:
        book.path.unlink(missing_ok=True)


def _sweep(book: Path, names: Iterable[str] = ()) -> None:
    """Remove what no baseline file of the folder names; arguments as :func:`_superfluous`. The caller holds the
    lock.
    """
    sweep_unfinished(book.parent)
    for path in _superfluous(book, names):
        with suppress(OSError):  # a superfluous file does no harm
            path.unlink(missing_ok=True)


def _superfluous(book: Path, names: Iterable[str] = ()) -> list[Path]:
    """Return the item files that no baseline file of the folder names: of an earlier state, or of a killed run.

    Args:
        book: the file that is updated. Item files of books whose names do not begin like a file of the folder stay.
        names: entries of it whose files of earlier versions, without a digest in their name, are superfluous, too.
    """
    items = sorted(book.parent.glob("*.npz"))
    of_earlier_versions = {f"{book.stem}.{file_name(name)}.npz" for name in names}
    found = [path for path in items if path.name in of_earlier_versions]
    others = [path for path in items if _ITEMS.fullmatch(path.name)]
    books = {book, *book.parent.glob("*.json")}
    try:
        for other in sorted(books):
            named = _named_items(other)
            others = [path for path in others if path not in named]
            if not others:
                break
    except (BaselineError, ValueError):  # another book cannot be read: what it names is not known
        return found
    ours = tuple(f"{other.stem}." for other in books)
    return [*found, *(path for path in others if path.name.startswith(ours))]


def _named_items(book: Path) -> set[Path]:
    """Return the item files that a baseline file names: of its entries, and of their anchors."""
    files: set[Path] = set()
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


def to_write(book: Path, name: str, new: NewEntry, stored: BaselineEntry | None) -> NewEntry | None:
    """Return what is to be written over a stored entry; ``None`` if the new one differs by noise only.

    If only the gates differ, or the stored entry has no date, the stored figures stay, and with them the model that
    they are of.
    """
    if stored is None or not _unchanged(book, name, new, stored):
        return new
    sees = {**{name: seen for name, seen in stored.sees.items() if name in new.entry.gated}, **new.entry.sees}
    same_gates = (
        sees.keys() == stored.sees.keys()
        and new.entry.gated.keys() == stored.gated.keys()
        and all(alike(amount, stored.gated[statistic]) for statistic, amount in new.entry.gated.items())
    )  # a share of a value has the noise of that value
    dated = stored.date or new.entry.date  # an entry of an earlier version has no date
    abilities = stored.abilities or new.entry.abilities  # an entry of an earlier version has none
    if same_gates and dated == stored.date and abilities == stored.abilities:
        return None
    return NewEntry(replace(stored, gated=new.entry.gated, sees=sees, date=dated, abilities=abilities))


def _unchanged(book: Path, name: str, new: NewEntry, stored: BaselineEntry) -> bool:
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
