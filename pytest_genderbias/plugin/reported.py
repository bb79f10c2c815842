"""The outcome of a test as it travels: plain JSON values on the report of the test, which xdist sends to the
controller.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.book import BaselineEntry, NewEntry
from pytest_genderbias.gates.judgement import AcceptedValue, SettledJudgement
from pytest_genderbias.gates.verdicts import Unjudged
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import read_dataclass, read_mapping, read_schema, read_value
from pytest_genderbias.reports.picture import Picture
from pytest_genderbias.reports.run_report import FinishedTest
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.strict_json import check_depth

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
        items, gates = content.get("items"), content.get("gates")
        return cls(
            NewEntry(
                BaselineEntry.from_dict(content.get("entry")),
                None if items is None else _unpacked(items),
                str(content.get("kept", "")),
                content.get("pooled") is True,
            ),
            None if gates is None else _margins(gates),
            {
                statistic: AcceptedValue.from_dict(value)
                for statistic, value in read_mapping(content.get("overlooked"), "overlooked values").items()
            },
            str(content.get("against")),
        )  # fmt: skip


@dataclass(frozen=True)
class ReportedOutcome:
    """What a test measured, judged and would store.

    Attributes:
        module: the name under which the baselines of the test are stored.
        model: name of the model; empty if the run has none for the test.
        settled: whether the test came to a result, so that a baseline entry that it did not use is not its own.
        used: names of the baseline entries that the test judged.
        refused: names of the entries with a worse value and no reason.
        entries: the entries that the test would store, by name.
        unjudged: why the test did not judge, if it was skipped for that.
        pictures: of the measurements, if a file of the run shows them.
        undrawn: a line for each measurement whose pictures could not be drawn.
        finished: what the test came to, for the files of the run.
    """

    module: str
    model: str
    settled: bool
    measurements: tuple[Measurement, ...] = ()
    judgements: tuple[SettledJudgement, ...] = ()
    used: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    entries: Mapping[str, ProposedEntry] = field(default_factory=dict)
    unjudged: Unjudged | None = None
    pictures: tuple[Picture, ...] = ()
    undrawn: tuple[str, ...] = ()
    finished: FinishedTest | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads."""
        return {
            "schema": SCHEMA,
            "module": self.module,
            "model": self.model,
            "settled": self.settled,
            "measurements": [measurement.to_dict() for measurement in self.measurements],
            "judgements": [judgement.to_dict() for judgement in self.judgements],
            "used": sorted(self.used),
            "refused": sorted(self.refused),
            "entries": {name: entry.to_dict() for name, entry in self.entries.items()},
            "unjudged": None if self.unjudged is None else dict(vars(self.unjudged)),
            "pictures": [picture.to_dict() for picture in self.pictures],
            "undrawn": list(self.undrawn),
            "finished": None if self.finished is None else dict(vars(self.finished)),
        }

    @classmethod
    def from_dict(cls, data: object) -> ReportedOutcome:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing or a value is of another type, or the schema is another.
        """
        check_depth(data, _WHERE)
        content = read_schema(data, SCHEMA, _WHERE)
        if missing := sorted(_KEYS - content.keys()):
            raise DataFileError(f"{_WHERE}: expected the keys {', '.join(sorted(_KEYS))}, {', '.join(missing)} missing")
        return cls(
            str(content["module"]),
            str(content["model"]),
            bool(content["settled"]),
            tuple(Measurement.from_dict(measurement) for measurement in _list(content["measurements"])),
            tuple(SettledJudgement.from_dict(judgement) for judgement in _list(content["judgements"])),
            frozenset(map(str, _list(content["used"]))),
            frozenset(map(str, _list(content["refused"]))),
            {name: ProposedEntry.from_dict(entry) for name, entry in read_mapping(content["entries"], _WHERE).items()},
            None if content["unjudged"] is None else read_dataclass(Unjudged, content["unjudged"], _WHERE),
            tuple(Picture.from_dict(picture) for picture in _list(content["pictures"])),
            tuple(map(str, _list(content["undrawn"]))),
            None if content["finished"] is None else read_dataclass(FinishedTest, content["finished"], _WHERE),
        )


_KEYS = frozenset(
    ("module", "model", "settled", "measurements", "judgements", "used", "refused", "entries", "unjudged", "pictures",
     "undrawn", "finished")
)  # fmt: skip


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise DataFileError(f"{_WHERE}: expected a list, got {value!r:.80}")
    return value


def _unpacked(items: object) -> bytes:
    try:
        return base64.b64decode(items if isinstance(items, str) else "?", validate=True)
    except ValueError as error:
        raise DataFileError(
            f"items of a proposed entry: expected bytes in base64, got {brief(items)} ({error})"
        ) from None


def _margins(value: object) -> dict[str, float | None]:
    margins = read_value(Mapping[str, float | None], value, "gates of a proposed entry")
    assert isinstance(margins, dict)
    return margins
