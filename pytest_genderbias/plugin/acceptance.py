"""Accepts measured values as the new baseline: merges the entries of all tests of a run, and writes them."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

from pytest_genderbias.errors import BiasError, DataFileError
from pytest_genderbias.gates.agreement import MUST_AGREE
from pytest_genderbias.gates.baseline import strictest
from pytest_genderbias.gates.book import BaselineEntry, NewEntry
from pytest_genderbias.gates.book_places import Place, book_path
from pytest_genderbias.gates.book_update import Change, state_of, to_write, update_books
from pytest_genderbias.gates.judgement import AcceptedValue
from pytest_genderbias.gates.verdicts import describe_anchor
from pytest_genderbias.measurement.plain_data import as_plain, read_mapping, read_stored
from pytest_genderbias.plugin.books import BookKey, Messages, module_and_names
from pytest_genderbias.plugin.reported import ReportedOutcome
from pytest_genderbias.text.printable import brief, format_number
from pytest_genderbias.text.schema import read_value

_SHOWN = 3  #: tests that failed, of those that a message names


@dataclass(frozen=True)
class ProposedEntry:
    """A baseline entry that a test would store.

    Attributes:
        new: the entry with its items.
        gates: the margin of each statistic that a gate file judges on the entry; ``None`` for a test in Python, which
            knows its own gate only.
        overlooked: worse values of gated statistics that the test did not judge, by statistic.
        against: what was stored when the test judged it, as :func:`~pytest_genderbias.gates.book_update.state_of` has
            it; empty for no entry.
    """

    new: NewEntry
    gates: Mapping[str, float | None] | None = None
    overlooked: Mapping[str, AcceptedValue] = field(default_factory=dict)
    against: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads."""
        items = self.new.items
        packed = None if items is None else base64.b64encode(items).decode("ascii")
        content = {**vars(self.new), **vars(self), "items": packed}
        return {name: as_plain(value) for name, value in content.items() if name != "new"}

    @classmethod
    def from_dict(cls, data: object) -> ProposedEntry:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a value is of another type.
        """
        content = read_mapping(data, "proposed entry")
        items = content.get("items")
        return cls(
            NewEntry(
                BaselineEntry.from_dict(content.get("entry")),
                None if items is None else _unpacked(items),
                str(content.get("kept", "")),
                content.get("pooled") is True,
            ),
            read_value(Mapping[str, float | None] | None, content.get("gates"), "gates of a proposed entry"),
            read_stored(Mapping[str, AcceptedValue], content.get("overlooked"), "overlooked values"),
            str(content.get("against")),
        )


def _unpacked(items: object) -> bytes:
    try:
        return base64.b64decode(items if isinstance(items, str) else "?", validate=True)
    except ValueError as error:
        raise DataFileError(
            f"items of a proposed entry: expected bytes in base64, got {brief(items)} ({error})"
        ) from None


def accept(
    directory: Place,
    outcomes: Iterable[ReportedOutcome],
    complete: Collection[BookKey],
    unused: Mapping[Place, set[str]],
    only_new: bool,
    messages: Messages,
    failed: Sequence[str] = (),
) -> bool:
    """Write proposed entries, and remove unused ones: all of them, or nothing, so that no book is of two checkpoints.

    What was decided must still hold when it is written: an entry that another run has changed since a test judged it is
    not written.

    Args:
        directory: folder of the baselines.
        outcomes: of the tests, with the entries that they propose.
        complete: models and modules whose tests all ran.
        unused: names of the entries to remove, by file.
        only_new: leave stored entries as they are.
        messages: receives a line for every change and every entry that is not written.
        failed: why tests that measure failed; any of them keeps the update from being written.

    Returns:
        Whether the update was written, or nothing was to be written.
    """
    of_books: dict[BookKey, list[ReportedOutcome]] = {}
    for outcome in outcomes:
        of_books.setdefault(outcome.key, []).append(outcome)
    books = {book_path(directory, key.model, key.module): key for key in of_books if key.model}
    for path in unused:
        books.setdefault(path, BookKey(path.parent.name, module_and_names(path)[0]))
    decisions: dict[tuple[str, str], _Decision] = {
        key: _Decision(path, key, of_books.get(key, ()), key in complete, frozenset(unused.get(path, ())), only_new)
        for path, key in sorted(books.items())
    }

    def is_refused() -> bool:
        return bool(failed) or any(decision.is_refused for decision in decisions.values())

    try:
        changes = update_books(directory, decisions, is_refused)
    except BiasError as error:
        messages.fail(str(error))
        return False
    for decision in decisions.values():
        messages.extend(decision.messages)
    if is_refused():
        if any(decision.changes for decision in decisions.values()):
            messages.fail(_nothing_stored(failed))
        return False
    for key, change in changes.items():
        _list_changes(decisions[key].path, decisions[key].stored, change, messages)
    return True


def _nothing_stored(failed: Sequence[str]) -> str:
    """Return why nothing was stored, and what to do."""
    shown = "; ".join(failed[:_SHOWN]) + (f"; and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else "")
    why = (
        f"{len(failed)} test{'s that measure' if len(failed) > 1 else ' that measures'} failed ({shown})"
        if failed
        else "an entry is refused"
    )
    return (
        f"nothing was stored, since {why}: an update is stored whole or not at all; fix what failed, give a"
        " --bias-reason for values that are worse, or select the tests to accept with -k"
    )


@dataclass
class _Decision:
    """An update of one baseline file, given its stored entries: called with the stored entries, perhaps again
    under the lock.

    Attributes:
        path: the file.
        key: its model and module.
        outcomes: of its tests.
        complete: whether all its tests ran.
        unused: names of entries to remove.
        only_new: leave stored entries as they are.
        stored: the entries of the last call.
        messages: on the last call.
        changes: whether the last call would have changed anything.
    """

    path: Place
    key: BookKey
    outcomes: Sequence[ReportedOutcome]
    complete: bool
    unused: frozenset[str]
    only_new: bool
    stored: Mapping[str, BaselineEntry] = field(default_factory=dict)
    messages: Messages = field(default_factory=Messages)
    changes: bool = False

    @cached_property
    def proposals(self) -> Mapping[str, Sequence[ProposedEntry]]:
        """The proposed entries by name, one for each test."""
        found: dict[str, list[ProposedEntry]] = {}
        for name, entry in chain.from_iterable(outcome.entries.items() for outcome in self.outcomes):
            found.setdefault(name, []).append(ProposedEntry.from_dict(as_plain(entry)))
        return found

    @cached_property
    def refused(self) -> frozenset[str]:
        """Names of entries with a worse value and no reason for it."""
        return frozenset[str]().union(*(outcome.refused for outcome in self.outcomes))

    @property
    def is_refused(self) -> bool:
        """Whether an entry must not be written."""
        return bool(self.refused or self.messages.failures)

    def __call__(self, stored: Mapping[str, BaselineEntry]) -> Change:
        """Return the change of a file with these entries."""
        self.stored, self.messages = stored, Messages()
        change: dict[str, NewEntry | None] = dict.fromkeys(self.unused & stored.keys())
        for name, new in self._agreed().items():
            changed = to_write(self.path, name, new, stored.get(name))
            if changed is None:
                continue
            if self._holds(name, changed, stored.get(name)):
                change[name] = changed
            else:
                self.messages.fail(
                    f"not written: {name} of {self.key.module}: another run changed this entry after it was judged"
                    " here; run again, so that it is compared with what is stored now"
                )
        self.changes = bool(change)
        return change

    def _holds(self, name: str, changed: NewEntry, stored: BaselineEntry | None) -> bool:
        """Return whether the verdicts on an entry hold for what is stored now, or only its gates change, which no
        verdict rests on.
        """
        judged = {proposal.against for proposal in self.proposals[name]}
        return judged == {state_of(stored)} or state_of(changed.entry) == state_of(stored)

    def _agreed(self) -> dict[str, NewEntry]:
        """Return the entries on which all tests agree: all measured the same thing, and none refused a worse value.

        An entry with a worse value of a statistic whose gate did not run is written only if there is a reason.
        """
        agreed: dict[str, NewEntry] = {}
        for name, proposed in self.proposals.items():
            merged, module = merge(proposed), self.key.module
            if merged is None:
                self.messages.fail(
                    f"two measurements of {module} claim the baseline entry {name!r}; give one of them another name"
                )
            elif name in self.refused:
                continue
            elif not self.only_new or all(proposal.against == "" for proposal in proposed):
                is_known = self.complete or name not in self.stored
                new, unseen = add_gates(merged, proposed, {} if is_known else self.stored[name].gated)
                if unseen:
                    self.messages.fail(f"not written: {name} of {module}: {'; '.join(map(_describe_unseen, unseen))}")
                else:
                    agreed[name] = new
        return agreed


def merge(proposals: Sequence[ProposedEntry]) -> ProposedEntry | None:
    """Merge proposals of one entry, each with a judged statistic of it; ``None`` if they measured different things.

    The merged entry has the reasons of all. Where a statistic of one moved by more than chance, nothing is pooled,
    since all values of an entry are of the same trainings.
    """
    anew = [proposal for proposal in proposals if not proposal.new.pooled]
    last = (anew or proposals)[-1]
    signatures = [proposal.new.entry.signature for proposal in anew or proposals]
    if any(signature[key] != signatures[-1][key] for signature in signatures for key in MUST_AGREE):
        return None
    accepted = {value: None for proposal in proposals for value in proposal.new.entry.accepted}
    entry = replace(last.new.entry, accepted=tuple(sorted(accepted, key=_by_date)))
    return replace(last, new=replace(last.new, entry=entry))


def add_gates(
    merged: ProposedEntry, proposals: Sequence[ProposedEntry], gated_before: Mapping[str, float | None]
) -> tuple[NewEntry, list[AcceptedValue]]:
    """Return an entry with the margins of all its gates, and the worse values that no gate judged and that have no
    reason.

    A gate file knows all gates. Of tests in Python, the known gates are those that ran, and those of ``gated_before``.
    """
    judged: dict[str, float | None] = {}
    for proposal in proposals:
        for statistic, margin in proposal.new.entry.gated.items():
            judged[statistic] = strictest((margin, judged.get(statistic, margin)))
    gates = gated_before if merged.gates is None else merged.gates
    overlooked = {statistic: value for proposal in proposals for statistic, value in proposal.overlooked.items()}
    worse = [value for name, value in sorted(overlooked.items()) if name not in judged and name in gates]
    sees = {name: seen for proposal in proposals for name, seen in proposal.new.entry.sees.items()}
    entry = replace(merged.new.entry, gated={**gates, **judged}, sees=sees)
    with_reason = [value for value in worse if value.reason]
    if with_reason:
        entry = replace(entry, accepted=tuple(sorted((*entry.accepted, *with_reason), key=_by_date)))
    return replace(merged.new, entry=entry), [value for value in worse if not value.reason]


def _by_date(value: AcceptedValue) -> tuple[str, str]:
    return value.date, value.statistic


def _describe_unseen(value: AcceptedValue) -> str:
    return (
        f"{value.statistic} {format_number(value.old, 6)} -> {format_number(value.new, 6)} is worse, and its gate "
        "did not run;"
        ' run all gates of the entry, or accept it with --bias-update --bias-reason="why"'
    )


def _list_changes(path: Place, stored: Mapping[str, BaselineEntry], change: Change, messages: Messages) -> None:
    messages.add(f"baseline written: {path}", "green")
    for name, new in sorted(change.items(), key=lambda pair: (pair[1] is None, pair[0])):
        if new is None:
            messages.add(f"  {name}: removed, no longer measured")
            continue
        old = stored[name].values if name in stored else {}
        for statistic, value in new.entry.values.items():
            before = "new" if statistic not in old else f"was {format_number(old[statistic], 6)}"
            if statistic not in old or format_number(old[statistic], 6) != format_number(value, 6):
                messages.add(f"  {name}.{statistic}: {format_number(value, 6)} ({before})")
        if new.kept:
            messages.add(f"  {name}: {new.kept}")
        if name in stored and (moved := _moved_anchor(stored[name], new.entry)):
            messages.add(f"  {name}: {moved}")


def _moved_anchor(stored: BaselineEntry, new: BaselineEntry) -> str:
    """Return in words how far the anchor of an entry moves; an empty text if it stays."""
    anchor = stored.origin
    values = [
        f"{statistic} {format_number(anchor.values.get(statistic), 6)} -> {format_number(new.values.get(statistic), 6)}"
        for statistic in sorted(new.gated)
        if format_number(anchor.values.get(statistic), 6) != format_number(new.values.get(statistic), 6)
    ]
    return f"{describe_anchor(anchor.date)} moves: {', '.join(values)}" if new.anchor is None and values else ""
