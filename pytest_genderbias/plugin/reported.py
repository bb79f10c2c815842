"""The outcome of a test as it travels: plain JSON values on the report of the test, which xdist sends to the
controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.judgement import Judgement
from pytest_genderbias.gates.verdicts import FinishedTest, NotJudged
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import as_plain, read_schema, read_stored
from pytest_genderbias.plugin.books import BookKey
from pytest_genderbias.text.plain_files import check_depth
from pytest_genderbias.text.schema import field_hints

SCHEMA = 1
_WHERE = "outcome of a test"


@dataclass(frozen=True)
class ReportedOutcome:
    """The measurements, judgements and proposed entries of a test.

    Attributes:
        module: the name under which the baselines of the test are stored.
        model: name of the model; empty if the run has none for the test.
        settled: whether the test asked for all its baseline entries, so that the others are not its own.
        used: names of the baseline entries that the test judged.
        refused: names of the entries with a worse value and no reason.
        entries: the entries that the test would store, by name: plain JSON values once they have travelled, which
            :class:`~pytest_genderbias.plugin.acceptance.ProposedEntry` reads.
        unjudged: why the test did not judge, if it was skipped for that.
        pictures: of the measurements, if a file of the run shows them; as plain JSON values once they have travelled.
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
    entries: Mapping[str, object] = field(default_factory=dict)
    unjudged: NotJudged | None = None
    pictures: tuple[object, ...] = ()
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
