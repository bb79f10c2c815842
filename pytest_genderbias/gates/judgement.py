"""Judgements: the verdict on one statistic of a measurement, with the text that explains it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.escaping import printable
from pytest_genderbias.gates.account import Account, Movement, Paragraph, paragraphs_of, shortened
from pytest_genderbias.gates.facts import BaselineFacts, Facts, ReductionFacts, facts_to_dict, read_facts
from pytest_genderbias.gates.verdicts import (
    CAUGHT,
    EARLIER_VERDICTS,
    FAILED,
    NO_VALUE,
    NOT_ABLE,
    OVER_LIMIT,
    PASSED,
    REASONS,
    STORED,
    TOO_FEW,
    WITHIN,
    XFAIL,
    passes,
    with_note,
)
from pytest_genderbias.gates.wording import (
    direction_in_words,
    format_interval,
    format_null,
    format_number,
    format_record,
)
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import (
    as_plain,
    from_plain,
    read_dataclass,
    read_mapping,
    read_schema,
    read_value,
)
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.null import Null
from pytest_genderbias.suites.summary import Record

SCHEMA = 2  #: of :meth:`Judgement.to_dict`
_IF_UNABLE = 'fix the model; or name control items that fit it (ability: FILE.yaml), or none (ability: "none: REASON")'
_MOST_RECORDS = 5  #: of the items that moved
#: What bounds vary over where they hold for the cases of the suite, and for no others.
WHOLE_SUITE = "the suite's cases"
LEVEL = 0.95  #: confidence of every interval; each of its bounds alone is wrong in at most half of the rest, 2.5 %
ONE_SIDED = (1 + LEVEL) / 2  #: confidence of each bound alone, for a limit and for a worsening


@dataclass(frozen=True)
class AcceptedValue:
    """A value that is worse than the one before and was accepted with a reason.

    ``date`` is in ISO format. ``reason`` is ``None`` as long as nobody gave one; such a value is not written.
    """

    statistic: str
    date: str
    old: float | None
    new: float | None
    reason: str | None

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, data: object, where: str = "accepted value") -> AcceptedValue:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type.
        """
        return read_dataclass(cls, data, where)


@dataclass(frozen=True)
class Finding:
    """The result of a comparison, before it is put into words: the reason of the verdict, and the bounds that decided.

    Attributes:
        code: the reason of the verdict, a key of :data:`~pytest_genderbias.gates.verdicts.REASONS`.
        bound: the limit or baseline in short, for the table.
        text: the reason in words.
        low: lower bound of the figure that was judged; ``None`` where it has no bounds.
        high: upper bound.
        over: what varies between the bounds, which names the question that was answered: the suite's cases on this model, or other
            items or restarts.
        settled_by: what would decide where the bounds do not.
        p: p value of the hypothesis that the statistic is not worse than allowed, where there is one.
        tests: number of comparisons that the bounds of a worsening hold for together.
        difference: how much worse the statistic is, in its units, where it was compared with another value.
        lines: further lines of the text.
        accepted: worse values that were accepted with a reason and are still in force.
        level: confidence level of the bounds.
        facts: figures beside the verdict.
        moved: names of the items that moved, those that moved most first; the text then shows their records instead of the worst ones.
        account: what a failing test shows.
    """

    code: str
    bound: str
    text: str
    low: float | None = None
    high: float | None = None
    over: str = ""
    settled_by: str = ""
    p: float | None = None
    tests: int = 1
    difference: float | None = None
    lines: Sequence[str] = ()
    accepted: tuple[AcceptedValue, ...] = ()
    level: float = LEVEL
    facts: Facts | None = None
    moved: tuple[str, ...] = ()
    account: Account = field(default_factory=Account)

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads."""
        return {name: as_plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, data: object) -> Finding:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type.
        """
        return read_dataclass(cls, from_plain(data, "finding"), "finding")


@dataclass(frozen=True)
class Judgement:
    """The verdict of a gate. It depends on the measurement and the gate only, never on the policy of the run.

    Attributes:
        suite: name of the suite.
        model: name of the model.
        statistic: name of the statistic.
        value: its value; ``None`` if it has none.
        interval: the bounds that decided; ``over`` of it is what varies between them.
        n: cases that were scored.
        n_total: cases of the suite.
        bound: the limit or baseline in short, for the table.
        code: the reason of the verdict, a key of :data:`~pytest_genderbias.gates.verdicts.REASONS`.
        text: the whole explanation, several lines.
        name: name of the gate or baseline entry, if it has one of its own.
        shown: what a failing test shows, the verdict first; :func:`~pytest_genderbias.gates.account.in_lines` makes a text of it.
        movement: how many items moved since the baseline or the other model, and which moved most; ``None`` where none were compared.

    The other attributes are those of :class:`Finding`, and ``null`` is that of the measurement.
    """

    suite: str
    model: str
    statistic: str
    value: float | None
    interval: Interval | None
    n: int
    n_total: int
    bound: str
    code: str
    text: str
    over: str = ""
    settled_by: str = ""
    p: float | None = None
    tests: int = 1
    difference: float | None = None
    accepted: tuple[AcceptedValue, ...] = ()
    null: Null | None = None
    name: str = ""
    facts: Facts | None = None
    shown: tuple[Paragraph, ...] = ()
    movement: Movement | None = None

    @property
    def verdict(self) -> str:
        """``pass``, ``worse``, ``limit broken`` or ``cannot judge``."""
        return REASONS[self.code].verdict

    @property
    def of_baseline(self) -> BaselineFacts:
        """What the gate knows of its baseline; without figures if it has none."""
        return self.facts if isinstance(self.facts, BaselineFacts) else BaselineFacts()

    @property
    def of_reduction(self) -> ReductionFacts | None:
        """What is known of a mitigation; ``None`` of any other gate."""
        return self.facts if isinstance(self.facts, ReductionFacts) else None

    def __bool__(self) -> bool:
        """Refuse a truth value: ``assert judge_limit(...)`` would hold for every verdict."""
        raise TypeError(
            "a judgement has no truth value; compare its verdict, as judgement.verdict == 'pass', or use an assertion such as assert_at_most"
        )

    def to_dict(self, finite: bool = False) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads. With ``finite``, NaN and infinities become ``None``."""
        content = {name: as_plain(value, finite) for name, value in vars(self).items() if name != "facts"}
        return {"schema": SCHEMA, "verdict": self.verdict, **content, "facts": facts_to_dict(self.facts, finite)}

    @classmethod
    def from_dict(cls, data: object) -> Judgement:
        """Return what :meth:`to_dict` wrote, or what an earlier version wrote, whose verdicts are codes now.

        Raises:
            DataFileError: a key is missing, unknown or of another type, or the schema is another.
        """
        content = _of_earlier(data) if isinstance(data, Mapping) and data.get("schema") == 1 else data
        plain = read_mapping(from_plain(read_schema(content, SCHEMA, "judgement"), "judgement"), "judgement")
        code = read_value(str, plain.get("code", ""), "judgement.code")
        if code not in REASONS:
            raise DataFileError(f"judgement.code: expected one of {', '.join(REASONS)}, got {code!r:.80}")
        plain.pop("verdict", None)
        facts = read_facts(plain.pop("facts", {}), "judgement.facts")
        return replace(read_dataclass(cls, plain, "judgement"), facts=facts)


@dataclass(frozen=True)
class SettledJudgement:
    """A judgement to which a policy was applied.

    Attributes:
        outcome: ``"failed"`` or ``"passed"``; ``"xfail"`` or ``"caught"`` if it failed, but its test was expected to fail or
            caught the failure.
        test: id of the test that made it; empty outside a test.
    """

    judgement: Judgement
    outcome: str
    test: str = ""

    @property
    def failed(self) -> bool:
        """Whether the judgement failed its test."""
        return self.outcome == FAILED

    @property
    def verdict(self) -> str:
        """The verdict with its note, and with what its test made of it: ``worse (xfail)``."""
        return with_note(self.judgement.code) + _FORGIVEN.get(self.outcome, "")

    def to_dict(self, finite: bool = False) -> dict[str, object]:
        """Return the plain JSON values of the judgement, with ``test``, ``outcome`` and ``failed`` among them."""
        return {**self.judgement.to_dict(finite), "test": self.test, "outcome": self.outcome, "failed": self.failed}

    @classmethod
    def from_dict(cls, data: object) -> SettledJudgement:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type.
        """
        content = read_mapping(data, "judgement")
        outcome, test = (read_value(str, content.pop(key, ""), f"judgement.{key}") for key in ("outcome", "test"))
        content.pop("failed", None)
        judgement = Judgement.from_dict(content)
        return cls(
            judgement, PASSED if outcome == "warned" else str(outcome), str(test)
        )  # an earlier version could warn


def _of_earlier(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a judgement that an earlier version wrote (schema 1) with the code of its verdict, and its tolerance as the margin."""
    content = {name: value for name, value in data.items() if name != "verdict"}
    if isinstance(facts := content.get("facts"), Mapping):
        content["facts"] = {"margin" if name == "tolerance" else name: fact for name, fact in facts.items()}
    return {**content, "schema": SCHEMA, "code": EARLIER_VERDICTS.get(str(data.get("verdict")), "")}


_FORGIVEN = {XFAIL: " (xfail)", CAUGHT: " (caught by the test)"}


def decide(low: float, high: float, least: float, most: float) -> str:
    """Return the code of a figure between two bounds that should lie from ``least`` to ``most``: one rule for every limit.

    >>> decide(0.1, 0.2, 0.0, 0.3), decide(0.4, 0.5, 0.0, 0.3), decide(0.2, 0.4, 0.0, 0.3)
    ('within', 'over_limit', 'too_few')
    """
    if least <= low and high <= most:
        return WITHIN
    return OVER_LIMIT if high < least or low > most else TOO_FEW


def make_judgement(measurement: Measurement, statistic: str, finding: Finding, name: str | None = None) -> Judgement:
    """Return the judgement of a finding, with its whole text. Every gate's verdict comes from here.

    A verdict that can pass a test rests on finite numbers: if a figure of it is not one, there is none.
    """
    if what := _not_a_number(measurement, statistic, finding):
        text = f"{finding.text}; {what}, and only finite numbers decide"
        finding = replace(finding, code=NO_VALUE, text=text, low=None, high=None, account=Account())
    bounds = None
    if finding.low is not None and finding.high is not None:
        bounds = Interval(finding.low, finding.high, finding.level, finding.over, "")
    return Judgement(
        measurement.suite, measurement.model, statistic, measurement.values[statistic], bounds, measurement.n, measurement.n_total,
        finding.bound, finding.code, _explain(measurement, statistic, finding), finding.over, finding.settled_by, finding.p,
        finding.tests, finding.difference, finding.accepted, measurement.null.get(statistic), name or "", finding.facts,
        _shown(measurement, statistic, finding), finding.account.movement,
    )  # fmt: skip


def _not_a_number(measurement: Measurement, statistic: str, finding: Finding) -> str:
    """Return in words which figure of a finding that can pass is not a finite number; an empty text if all are, or it cannot pass.

    Bounds may be infinite where nothing is known on that side, but NaN is no bound. An update may accept that there is no value.
    """
    if not passes(finding.code) and finding.code != TOO_FEW:
        return ""
    value = measurement.values[statistic]
    if value is None:
        return "" if finding.code == STORED else f"{statistic} has no value"
    if not math.isfinite(value):
        return f"{statistic} is {value}"
    if finding.difference is not None and not math.isfinite(finding.difference):
        return f"the difference is {finding.difference}"
    figures = {"the lower bound": finding.low, "the upper bound": finding.high, "p": finding.p}
    return next(
        (f"{what} is {figure}" for what, figure in figures.items() if figure is not None and math.isnan(figure)), ""
    )


def _shown(measurement: Measurement, statistic: str, finding: Finding) -> tuple[Paragraph, ...]:
    """Return what a failing test shows."""
    about, account = measurement.statistics[statistic], finding.account
    headline = account.headline or finding.text
    meaning = f"{about.meaning}; {direction_in_words(about.direction)} is worse, neutral is {about.neutral:g}"
    scored = f"{measurement.n:,} of {measurement.n_total:,} cases{account.scored_as}"
    if measurement.stopped:
        scored += ", which decided every gate on this suite"
    if finding.over:
        scored += f"; judged for {_question(finding.over)}"
    if finding.settled_by and not account.advice:
        account = replace(account, advice=f"to decide: {finding.settled_by}")
    if finding.code == NOT_ABLE and not account.advice:
        account = replace(account, advice=_IF_UNABLE)
    head = f"{with_note(finding.code)}: {shortened(measurement.suite, 80)} on {shortened(measurement.model, 80)}: {shortened(headline)}"
    return paragraphs_of(head, meaning + _by_chance(measurement, statistic), scored, account)


def _explain(measurement: Measurement, statistic: str, finding: Finding) -> str:
    """Return the whole text: finding, value, intervals, direction, n, what to do, notes, and the worst records."""
    value, about = measurement.values[statistic], measurement.statistics[statistic]
    reason = measurement.reasons.get(statistic, "")
    around = measurement.intervals[statistic]
    interval = format_interval(around) or f"none: {reason or 'not available'}"
    level = LEVEL if around is None else around.level
    scored = f"{measurement.n:,} of {measurement.n_total:,} cases scored"
    if measurement.stopped:
        scored += ": that decided every gate on this suite"
    lines = [
        f"{with_note(finding.code)}: {measurement.suite} on {measurement.model}: {finding.text}",
        f"  {statistic} = {format_number(value)}" + (f" ({reason})" if value is None else ""),
        *([f"  judged for {_question(finding.over)}"] if finding.over else ()),
        *([f"  to settle it: {finding.settled_by}"] if finding.settled_by else ()),
        *finding.lines,
        *([f"  {100 * level:.3g} % interval for other items: {interval}"] if value is not None else ()),
        *([format_null(measurement.null[statistic])] if statistic in measurement.null else ()),
        f"  {about.meaning}; {direction_in_words(about.direction)} is worse, neutral is {about.neutral:g}{_by_chance(measurement, statistic)}",
        f"  {scored}",
        *(f"  note: {note}" for note in measurement.notes),
    ]
    return "\n".join(map(printable, (*lines, *_records(measurement, finding.moved))))


def _records(measurement: Measurement, moved: Sequence[str]) -> list[str]:
    """Return lines on the records of the items that moved most, or else on the worst records."""
    if of_moved := _records_of(measurement.records, moved):
        title, records = "records of what moved most, as they are now", of_moved
    elif measurement.records:
        few = 2 if "slice" in measurement.records[0] else 5
        title, records = "worst records", measurement.worst(few)
    else:
        return []
    return [f"  {title}:", *(f"    {format_record(record)}" for record in records)]


def _records_of(records: Sequence[Record], names: Sequence[str]) -> list[Record]:
    """Return the first record that bears each name, in the order of the names; at most ``_MOST_RECORDS``."""
    first: dict[str, Record] = {}
    for record in records:
        for value in record.values():
            if isinstance(value, str):
                first.setdefault(value, record)
    return [first[name] for name in names if name in first][:_MOST_RECORDS]


def _by_chance(measurement: Measurement, statistic: str) -> str:
    """Return what chance alone gives, for a statistic that is made of sizes and cannot reach its neutral value."""
    null = measurement.null.get(statistic)
    if null is None or measurement.statistics[statistic].partner is None:
        return ""
    return f" (by chance alone {null.low:.4g} to {null.high:.4g})"


def _question(over: str) -> str:
    return over if over.startswith((WHOLE_SUITE, "other ")) else f"other {over}"
