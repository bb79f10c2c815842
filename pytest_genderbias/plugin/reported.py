"""The outcome of a test as it travels: plain JSON values on the report of the test, which xdist sends to the
controller.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.book import BaselineEntry, NewEntry
from pytest_genderbias.gates.judgement import AcceptedValue, Judgement
from pytest_genderbias.gates.verdicts import FinishedTest, NotJudged
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain, read_mapping, read_schema, read_stored
from pytest_genderbias.plugin.books import BookKey
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.text.plain_files import check_depth
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import field_hints, read_value

SCHEMA = 1
_WHERE = "outcome of a test"


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
        return {
            "entry": self.new.entry.to_dict(),
            "items": None if items is None else base64.b64encode(items).decode("ascii"),
            "kept": self.new.kept,
            "pooled": self.new.pooled,
            "gates": None if self.gates is None else dict(self.gates),
            "overlooked": {statistic: value.to_dict() for statistic, value in self.overlooked.items()},
            "against": self.against,
        }

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


@dataclass
class Proposals:
    """Proposed entries of the tests of one baseline file.

    Attributes:
        entries: the proposed entries by name, one for each test.
        refused: names of entries with a worse value and no reason for it.
        complete: whether all tests of the file ran.
    """

    entries: dict[str, list[ProposedEntry]] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    complete: bool = False


@dataclass(frozen=True)
class ReportedOutcome:
    """The measurements, judgements and proposed entries of a test.

    Attributes:
        module: the name under which the baselines of the test are stored.
        model: name of the model; empty if the run has none for the test.
        settled: whether the test asked for all its baseline entries, so that the others are not its own.
        used: names of the baseline entries that the test judged.
        refused: names of the entries with a worse value and no reason.
        entries: the entries that the test would store, by name.
        unjudged: why the test did not judge, if it was skipped for that.
        pictures: of the measurements, if a file of the run shows them.
        undrawn: a line for each measurement whose pictures could not be drawn.
        finished: result of the test, for the files of the run.
        failed: whether the reported part of the test failed.
    """

    module: str
    model: str
    settled: bool
    measurements: tuple[Measurement, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    used: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    entries: Mapping[str, ProposedEntry] = field(default_factory=dict)
    unjudged: NotJudged | None = None
    pictures: tuple[Picture, ...] = ()
    undrawn: tuple[str, ...] = ()
    finished: FinishedTest | None = None
    failed: bool = False

    @property
    def key(self) -> BookKey:
        """Where the baselines of the test are stored."""
        return BookKey(self.model, self.module)

    @property
    def is_broken(self) -> bool:
        """Whether the test measures, and failed without a verdict that failed it."""
        return self.failed and bool(self.model) and not any(settled.failed for settled in self.judgements)

    def after(self, before: ReportedOutcome) -> ReportedOutcome:
        """Return this outcome with what an earlier part of the same test asked of its baselines, and its result."""
        return replace(
            self,
            settled=self.settled or before.settled,
            used=self.used | before.used,
            refused=self.refused | before.refused,
            entries={**before.entries, **self.entries},
            finished=self.finished or before.finished,
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads."""
        return {"schema": SCHEMA, **{name: as_plain(value) for name, value in vars(self).items()}}

    @classmethod
    def from_dict(cls, data: object) -> ReportedOutcome:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing or a value is of another type, or the schema is another.
        """
        check_depth(data, _WHERE)
        content = read_schema(data, SCHEMA, _WHERE)
        hints = field_hints(cls)
        if missing := sorted(hints.keys() - content.keys()):
            raise DataFileError(f"{_WHERE}: expected the keys {', '.join(sorted(hints))}, {', '.join(missing)} missing")
        return cls(**{name: read_stored(hint, content[name], _WHERE) for name, hint in hints.items()})
