"""Judgements: the verdict on one statistic of a measurement, with the paragraphs that explain it, and the figures
beside the value and its bounds: one class for limits, baselines and reductions each. And the comparison of a statistic
on two models, which the record of a run holds beside judgements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.verdicts import (
    CAUGHT,
    DO,
    FAILED,
    FLOAT_NOISE,
    LEVEL,
    NO_VALUE,
    NOT_ABLE,
    NOT_COMPARABLE,
    OVER_LIMIT,
    REASONS,
    STORED,
    TOO_FEW,
    WITHIN,
    XFAIL,
    Movement,
    Paragraph,
    advice_paragraphs,
    describe_change,
    describe_direction,
    describe_movement,
    format_interval,
    format_null,
    format_record,
    in_lines,
    passes,
    shortened,
    with_note,
)
from pytest_genderbias.measurement.measurement import SUITE_CASES, Measurement
from pytest_genderbias.measurement.plain_data import Stored, as_plain, from_plain, read_mapping, read_schema
from pytest_genderbias.statistics.inference.intervals import Interval, Null
from pytest_genderbias.statistics.right_answers import TASK
from pytest_genderbias.suites.summary import Record
from pytest_genderbias.text.printable import format_bounds, format_growth, format_number, format_share
from pytest_genderbias.text.schema import read_value

#: The models that the judgement of a mitigation compares; those with a new head on the frozen encoder are a fourth
#: kind.
BEFORE, AFTER, CONTROL, RETRAINED = "before", "after", "control", "retrained"
#: Two bounds of a figure; ``None`` where it has none.
Bounds = tuple[float | None, ...]


@dataclass(frozen=True)
class Seen:
    """Sensitivity of a gate: the smallest true worsening that fails in 80 % of releases.

    Attributes:
        size: in units of the statistic; infinite where the gate sees nothing.
        unit: the worsening that counts as a growth of 100 %: the distance of the stored value from neutral, or that of
            a public model where it is larger, so that a fair model can be gated, too; 0 where the value is neutral and
            no public model is known.
        red: worsening from which on it fails, in units of the statistic.
        retraining: what is known of other trainings, in words.
    """

    size: float
    unit: float
    red: float
    retraining: str = ""

    @property
    def growth(self) -> float:
        """The worsening in shares of the unit."""
        return self.size / self.unit if self.unit > 0 else math.inf

    @property
    def in_words(self) -> str:
        """The growth and its unit, as ``+18 % of 0.5``.

        >>> Seen(0.09, 0.5, 0.06).in_words, Seen(math.inf, 0.5, math.inf).in_words
        ('+18 % of 0.5', 'no growth')
        """
        growth = f"{format_growth(self.growth)} % of {format_number(self.unit, 3)}"
        return growth if math.isfinite(self.growth) else "no growth"

    @property
    def sentence(self) -> str:
        """From where on the gate is red, and what it stops.

        >>> Seen(0.09, 0.5, 0.06, "2 restarts").sentence
        'red from 0.06 worse (+12 %); stops +18 % of 0.5 in 80 % of releases; other trainings by 2 restarts'
        >>> Seen(0.09, 0.0, 0.06).sentence
        'red from 0.06 worse; stops 0.09 worse in 80 % of releases'
        """
        share, stopped = "", f"{self.size:.2g} worse"
        if self.unit > 0:
            share, stopped = f" ({format_growth(self.red / self.unit)} %)", self.in_words
        of_trainings = f"; other trainings by {self.retraining}" if self.retraining else ""
        return f"red from {self.red:.2g} worse{share}; stops {stopped} in 80 % of releases{of_trainings}"


@dataclass(frozen=True)
class Part:
    """Contribution of a gate to the number of its release. All figures are in units of its statistic.

    Attributes:
        unit: the worsening that counts as a growth of 100 %.
        then: distance from neutral of each restart of the baseline, or of its only checkpoint.
        now: the same of the release.
        over_items: standard error of the worsening over other items, the same items paired.
        over_trainings: standard deviation of the worsening over other trainings, beyond that.
    """

    unit: float
    then: tuple[float, ...]
    now: tuple[float, ...]
    over_items: float
    over_trainings: float


@dataclass(frozen=True)
class SinceAnchor:
    """The value of the anchor of a baseline, the date when it was accepted, and how much worse the value is now."""

    date: str = ""
    value: float | None = None
    worsening: float | None = None

    @property
    def has_moved(self) -> bool:
        """Whether the value is another one now."""
        return self.value is not None and self.worsening is not None and abs(self.worsening) > FLOAT_NOISE

    @property
    def since(self) -> str:
        """The date, or in words that it is not known."""
        return self.date or "it was first accepted"

    @property
    def change(self) -> str:
        """How much worse or better the value is."""
        return describe_change(self.worsening)


@dataclass(frozen=True)
class WorstCluster:
    """The declared cluster of units that became worse by more than chance explains, and by the most.

    Attributes:
        name: its name.
        worsening: how much worse the statistic is on its units alone, in units of the statistic.
        low: lower bound of that, for all clusters and gates together.
        standardised: the worsening in standard errors.
        clusters: number of clusters that were compared.
    """

    name: str
    worsening: float
    low: float
    standardised: float
    clusters: int


@dataclass(frozen=True)
class LimitFacts:
    """The least and the greatest value that keep a limit; ``None`` where there is no such value."""

    least: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class BaselineFacts:
    """Figures of a gate on a baseline.

    Attributes:
        accepted_on: when the stored value was accepted, in ISO format; empty if the file does not say. ``None``
            where nothing was compared.
        baseline: the stored value.
        margin: how much worse is allowed, in units of the statistic; ``None`` without a margin.
        sees: what the gate sees.
        anchor: how far the value has come from the anchor; ``None`` where it is still there.
        release: what the gate adds to the number of its release.
        cluster: the cluster that became worse by the most; ``None`` where none is declared, or none by more than chance
            explains.
        definition: the definitions of the stored figures and of those of now, where they differ; else empty.
    """

    accepted_on: str | None = None
    baseline: float | None = None
    margin: float | None = None
    sees: Seen | None = None
    anchor: SinceAnchor | None = None
    release: Part | None = None
    cluster: WorstCluster | None = None
    definition: str = ""


@dataclass(frozen=True)
class TaskFacts:
    """Cost of a mitigation: a figure of the task before, after and in the control, and how much worse it may be.

    ``allowed`` and ``worse`` are shares of the value before, ``by_seed`` has the values of each side.
    """

    before: float | None = None
    after: float | None = None
    control: float | None = None
    allowed: float | None = None
    worse: float | None = None
    worse_bounds: Bounds | None = None
    verdict: str = ""
    by_seed: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class NewHeadFacts:
    """Result of a new head on the frozen encoder after a mitigation: the share of the reduction that comes back, with
    its bounds.

    ``retrained`` and ``before_retrained`` are the values with a new head after and before; ``compression`` that of
    gender by side, or why it is not known.
    """

    comes_back: float | None = None
    bounds: Bounds | None = None
    retrained: float | None = None
    before_retrained: float | None = None
    compression: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ReductionFacts:
    """Figures behind the judgement of a mitigation.

    Attributes:
        by: share of the distance from neutral that should be gone.
        before: value before the mitigation, as a mean over models.
        after: the same after it.
        control: the same in the control; ``None`` without one.
        by_seed: values of each side by seed and model.
        reduction: share of the distance from neutral that is gone.
        reduction_bounds: its bounds.
        difference: change of the distance from neutral, in units of the statistic.
        difference_bounds: its bounds.
        against_control: how much nearer to neutral the value after is than that of the control, and its bounds.
        signed: the figure with a sign that says to which side the bias leans, before and after.
        budget: what the mitigation costs, by figure of the task.
        superficial: what a new head shows.
        grid: all points that were tried, where the mitigation was chosen among several.
        seeds: seeds of the trainings.
        over: what varies between the bounds.
        what: recipe and method.
        seconds: how long it took.
    """

    by: float
    before: float | None = None
    after: float | None = None
    control: float | None = None
    by_seed: Mapping[str, object] = field(default_factory=dict)
    reduction: float | None = None
    reduction_bounds: Bounds | None = None
    difference: float | None = None
    difference_bounds: Bounds | None = None
    against_control: Bounds | None = None
    signed: Mapping[str, object] = field(default_factory=dict)
    budget: Mapping[str, TaskFacts] = field(default_factory=dict)
    superficial: NewHeadFacts | None = None
    grid: Mapping[str, object] | None = None
    seeds: tuple[int, ...] = ()
    over: str = ""
    what: Mapping[str, object] = field(default_factory=dict)
    seconds: float | None = None


Facts = LimitFacts | BaselineFacts | ReductionFacts


def facts_to_dict(facts: Facts | None, finite: bool = False) -> dict[str, object]:
    """Return plain JSON values, which :func:`read_facts` reads. With ``finite``, NaN and infinities become ``None``."""
    content = (
        {} if facts is None else {entry.name: as_plain(getattr(facts, entry.name), finite) for entry in fields(facts)}
    )
    if isinstance(facts, BaselineFacts) and facts.sees is not None:
        content["sees"] = {**read_mapping(content["sees"], "sees"), "growth": as_plain(facts.sees.growth, finite)}
    return content


def read_facts(data: object, where: str = "facts") -> Facts | None:
    """Return what :func:`facts_to_dict` wrote; keys that are not known are left out.

    Raises:
        DataFileError: a key has a value of another type.
    """
    content = read_mapping(data, where)
    kind: type[Facts] = ReductionFacts if "by" in content else LimitFacts if "least" in content else BaselineFacts
    if isinstance(sees := content.get("sees"), Mapping):  # without infinities, they are null
        known = {key: math.inf if sees.get(key) is None else sees[key] for key in ("size", "unit", "red")}
        content["sees"] = {**known, "retraining": sees.get("retraining", "")}
    found = {entry.name: content[entry.name] for entry in fields(kind) if entry.name in content}
    return read_value(kind, found, where) if found else None


SCHEMA = 2  #: of :meth:`Judgement.to_dict`
_IF_UNABLE = 'fix the model; or {}none (ability: "none: REASON")'
_OWN_ITEMS = "name control items that fit it (ability: FILE.yaml), or "
#: Statistics that compare how often a system declines, about two groups and about more, and how far they may be from 0
#: where other figures are judged: two groups that differ by a tenth are .05 from their mean.
_REFUSALS = {"refusal_difference": 0.1, "refusal_rms": 0.05}
_IF_REFUSED = (
    "fix the refusals; or write baseline: true in the place of this gate, which accepts them, and fails where they grow"
)
_MOST_RECORDS = 5  #: of the items that moved


@dataclass(frozen=True)
class AcceptedValue(Stored):
    """A value that is worse than the one before and was accepted with a reason.

    ``date`` is in ISO format. ``reason`` is ``None`` as long as nobody gave one; such a value is not written.
    """

    called: ClassVar[str] = "accepted value"

    statistic: str
    date: str
    old: float | None
    new: float | None
    reason: str | None


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
        shown: what a failing test shows, the verdict first; :func:`~pytest_genderbias.gates.verdicts.in_lines` makes a
            text of it.
        details: what else is known, for the whole text.
        over: what varies between the bounds, which names the question that was answered: the suite's cases on this
            model, or other items or restarts.
        settled_by: what would decide where the bounds do not.
        p: p value of the hypothesis that the statistic is not worse than allowed, where there is one.
        tests: number of comparisons that the bounds of a worsening hold for together.
        difference: how much worse the statistic is, in its units, where it was compared with another value.
        accepted: worse values that were accepted with a reason and are still in force.
        null: what chance gives, as the measurement has it.
        name: name of the gate or baseline entry, if it has one of its own.
        facts: figures beside the verdict.
        movement: how many items moved since the baseline or the other model, and which moved most; ``None`` where none
            were compared.
        outcome: ``"failed"`` or ``"passed"``; ``"xfail"`` or ``"caught"`` if it failed, but its test was expected to
            fail or caught the failure; empty until the policy of the run is applied.
        test: id of the test that made it; empty outside a test.
        evidence: what people said of the gate, by the names of :class:`~pytest_genderbias.gates.policy.Evidence`; only
            what was said.
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
    shown: tuple[Paragraph, ...]
    details: tuple[Paragraph, ...] = ()
    over: str = ""
    settled_by: str = ""
    p: float | None = None
    tests: int = 1
    difference: float | None = None
    accepted: tuple[AcceptedValue, ...] = ()
    null: Null | None = None
    name: str = ""
    facts: Facts | None = None
    movement: Movement | None = None
    outcome: str = ""
    test: str = ""
    evidence: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the judgement failed its test."""
        return self.outcome == FAILED

    @property
    def in_words(self) -> str:
        """The verdict with its note, and with what its test made of it: ``worse (xfail)``."""
        return with_note(self.code) + _FORGIVEN.get(self.outcome, "")

    @property
    def verdict(self) -> str:
        """``pass``, ``worse``, ``limit broken`` or ``cannot judge``."""
        return REASONS[self.code].verdict

    @property
    def text(self) -> str:
        """Everything that is known, a paragraph a line."""
        return in_lines((*self.shown, *self.details), None)

    @property
    def headline(self) -> str:
        """The decision in figures, without the verdict, the suite and the model."""
        first = self.shown[0].text if self.shown else ""
        return first.removeprefix(_subject(self.code, self.suite, self.model))

    @property
    def gate_name(self) -> str:
        """The suite, with the name of the gate or baseline entry in brackets, if it has one of its own."""
        return f"{self.suite} ({self.name})" if self.name else self.suite

    @property
    def of_limit(self) -> LimitFacts:
        """Figures of its limit; empty if it has none."""
        return self.facts if isinstance(self.facts, LimitFacts) else LimitFacts()

    @property
    def of_baseline(self) -> BaselineFacts:
        """Figures of its baseline; empty if it has none."""
        return self.facts if isinstance(self.facts, BaselineFacts) else BaselineFacts()

    @property
    def of_reduction(self) -> ReductionFacts | None:
        """Figures of a mitigation; ``None`` for any other gate."""
        return self.facts if isinstance(self.facts, ReductionFacts) else None

    def __bool__(self) -> bool:
        """Refuse a truth value: ``assert judge_limit(...)`` would hold for every verdict."""
        raise TypeError(
            "a judgement has no truth value; compare its verdict, as judgement.verdict == 'pass', or use an assertion"
            " such as assert_at_most"
        )

    def to_dict(self, finite: bool = False) -> dict[str, object]:
        """Return plain JSON values, which :meth:`from_dict` reads. With ``finite``, NaN and infinities become
        ``None``.
        """
        content = {name: as_plain(value, finite) for name, value in vars(self).items() if name not in _WRITTEN_LAST}
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            **content,
            "text": self.text,
            "facts": facts_to_dict(self.facts, finite),
            **{name: getattr(self, name) for name in ("test", "outcome", "failed")},
        }

    @classmethod
    def from_dict(cls, data: object) -> Judgement:
        """Return what :meth:`to_dict` wrote.

        Raises:
            DataFileError: a key is missing, unknown or of another type, or the schema is another.
        """
        plain = read_mapping(from_plain(read_schema(data, SCHEMA, "judgement"), "judgement"), "judgement")
        code = read_value(str, plain.get("code", ""), "judgement.code")
        if code not in REASONS:
            raise DataFileError(f"judgement.code: expected one of {', '.join(REASONS)}, got {code!r:.80}")
        for derived in ("verdict", "text", "failed"):
            plain.pop(derived, None)
        facts = read_facts(plain.pop("facts", {}), "judgement.facts")
        return replace(read_value(cls, plain, "judgement"), facts=facts)

    def settled(self, outcome: str, test: str = "", evidence: Mapping[str, str] | None = None) -> Judgement:
        """Return the judgement with its outcome, the id of the test that made it, and what people said of its gate."""
        return replace(self, outcome=outcome, test=test, evidence=evidence or {})

    def restated(self, code: str, headline: str, advice: str = "", command: str = "") -> Judgement:
        """Return the judgement with another reason, decision in words, and advice; its figures stay."""
        others = [paragraph for paragraph in self.shown[1:] if paragraph.label != DO and not paragraph.is_command]
        first = Paragraph("", _subject(code, self.suite, self.model) + shortened(headline))
        return replace(self, code=code, shown=(first, *others, *advice_paragraphs(advice, command)))

    def after_refusals(self, measurement: Measurement, *before: Mapping[str, float | None]) -> Judgement:
        """Return the judgement, which cannot pass where refusals of the measurement differ by group, as
        :func:`refusals_apart` says: who declines for one group is biased, and answers other questions about each group.
        """
        if self.statistic in _REFUSALS or not passes(self.code) or not (name := refusals_apart(measurement, *before)):
            return self
        value, bounds = measurement.values[name], measurement.intervals.get(name)
        known = [] if bounds is None else [f"{format_share(bounds.level)}: {format_bounds(bounds.low, bounds.high)}"]
        places = zip(before, ("before", "in the anchor"), strict=False)
        known += [f"{old:.3g} {when}" for values, when in places if (old := values.get(name)) is not None]
        why = f"refusals differ by group, and {self.statistic} leaves them out: {name} is {value:.3g}"
        return self.restated(NOT_COMPARABLE, f"{why} ({', '.join(known)})" if known else why, _IF_REFUSED)


def refusals_apart(measurement: Measurement, *before: Mapping[str, float | None]) -> str:
    """Return the statistic by which refusals differ between groups beyond chance, and by over a tenth more than before;
    empty if they do not. Without bounds, chance explains nothing.

    Args:
        measurement: of a system that may decline.
        before: accepted values of its statistics, of the last and of the first time; the smallest counts, 0 where
            another group was declined more.
    """
    for name, most in _REFUSALS.items():
        value, bounds = measurement.values.get(name), measurement.intervals.get(name)
        if value is None or (bounds is not None and bounds.low <= 0 <= bounds.high):
            continue
        known = (math.copysign(1.0, value) * (values.get(name) or 0.0) for values in before)
        if abs(value) > max(0.0, min(known, default=0.0)) + most:
            return name
    return ""


def refusals_changed(then: Mapping[str, float | None], now: Mapping[str, float | None]) -> bool:
    """Return whether the difference in refusals between groups changed by over a tenth, to either side."""
    pairs = ((then.get(name), now.get(name), most) for name, most in _REFUSALS.items())
    return any(old is not None and new is not None and abs(new - old) > most for old, new, most in pairs)


_WRITTEN_LAST = {"facts", "outcome", "test"}
_FORGIVEN = {XFAIL: " (xfail)", CAUGHT: " (caught by the test)"}


def decide(low: float, high: float, least: float, most: float) -> str:
    """Return the code of a figure between two bounds that should lie from ``least`` to ``most``: one rule for every
    limit.

    >>> decide(0.1, 0.2, 0.0, 0.3), decide(0.4, 0.5, 0.0, 0.3), decide(0.2, 0.4, 0.0, 0.3)
    ('within', 'over_limit', 'too_few')
    """
    if least <= low and high <= most:
        return WITHIN
    return OVER_LIMIT if high < least or low > most else TOO_FEW


def make_judgement(
    measurement: Measurement,
    statistic: str,
    code: str,
    bound: str,
    headline: str,
    remarks: Sequence[Paragraph] = (),
    advice: str = "",
    command: str = "",
    *,
    interval: Interval | None = None,
    over: str = "",
    settled_by: str = "",
    p: float | None = None,
    tests: int = 1,
    difference: float | None = None,
    facts: Facts | None = None,
    movement: Movement | None = None,
    moved: Sequence[str] = (),
    details: Sequence[Paragraph] = (),
    scored_as: str = "",
) -> Judgement:
    """Return the judgement on a statistic of a measurement, with its paragraphs. Every gate's verdict comes from here.

    A verdict that can pass a test rests on finite numbers: if a figure of it is not one, there is none.

    Args:
        measurement: the measurement.
        statistic: name of the statistic.
        code: the reason of the verdict.
        bound: the limit or baseline in short.
        headline: the decision in figures: what fell, by how much, and what was allowed.
        remarks: further lines of a failing test.
        advice: what to do, in words.
        command: what to type.
        interval: the bounds that decided.
        over: what varies between them; what the interval says by default.
        settled_by: what would decide where they do not.
        p: p value of the hypothesis that the statistic is not worse than allowed.
        tests: number of comparisons that the bounds hold for together.
        difference: how much worse the statistic is.
        facts: figures beside the verdict.
        movement: the items that moved.
        moved: names of the items that moved most; the whole text then has their records instead of the worst ones.
        details: further lines of the whole text.
        scored_as: what else the cases are, as ``those of the baseline of 2026-10-22``.
    """
    value = measurement.values[statistic]
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    over = over or ("" if interval is None else interval.over)
    figures = {"the difference": difference, "p": p, "the lower bound": low, "the upper bound": high}
    if what := _not_a_number(statistic, value, code, figures):
        code, interval, movement, advice, command = NO_VALUE, None, None, "", ""
        headline, remarks = f"{headline}; {what}, and only finite numbers decide", ()
    if not advice:
        unable = _if_unable(measurement) if code == NOT_ABLE else ""
        advice = f"to decide: {settled_by}" if settled_by else unable
    shown = [
        Paragraph("", _subject(code, measurement.suite, measurement.model) + shortened(headline)),
        Paragraph("means", shortened(_meaning(measurement, statistic))),
        *([] if movement is None else [Paragraph("moved", describe_movement(movement))]),
        *remarks,
        Paragraph("scored", shortened(_scored(measurement, over, scored_as))),
        *advice_paragraphs(advice, command),
    ]
    known = [*details, *_about_value(measurement, statistic), *_records(measurement, moved)]
    of = measurement.suite, measurement.model, statistic, value, interval, measurement.n, measurement.n_total
    cut = tuple(one if one.is_command else replace(one, text=shortened(one.text)) for one in known)
    null = measurement.null.get(statistic)
    judgement = Judgement(*of, bound, code, tuple(shown), cut, over, settled_by, p, tests, difference)
    return replace(judgement, null=null, facts=facts, movement=movement)


def _if_unable(measurement: Measurement) -> str:
    """Return what to do about a model that is not able; a suite that asks its own questions takes no others."""
    by_suite = any(one.name == TASK and one.unable for one in measurement.abilities)
    return _IF_UNABLE.format("ask " if by_suite else _OWN_ITEMS)


def _subject(code: str, suite: str, model: str) -> str:
    """Return the beginning of a headline: the verdict, the suite and the model."""
    return f"{with_note(code)}: {shortened(suite, 80)} on {shortened(model, 80)}: "


def _not_a_number(statistic: str, value: float | None, code: str, figures: Mapping[str, float | None]) -> str:
    """Return in words which figure of a verdict that can pass is not a finite number; an empty text if all are, or it
    cannot pass.

    Bounds may be infinite where nothing is known on that side, but NaN is no bound. An update may accept that there is
    no value.
    """
    if not passes(code) and code != TOO_FEW:
        return ""
    if value is None:
        return "" if code == STORED else f"{statistic} has no value"
    if not math.isfinite(value):
        return f"{statistic} is {value}"
    for what, figure in figures.items():
        if figure is not None and (math.isnan(figure) or (what == "the difference" and math.isinf(figure))):
            return f"{what} is {figure}"
    return ""


def _meaning(measurement: Measurement, statistic: str) -> str:
    """Return what a statistic means, and what chance alone gives where it is made of sizes and cannot reach its neutral
    value.
    """
    about, null = measurement.statistics[statistic], measurement.null.get(statistic)
    meaning = f"{about.meaning}; {describe_direction(about.direction)} is worse, neutral is {about.neutral:g}"
    if null is None or about.partner is None:
        return meaning
    return f"{meaning} (by chance alone {format_bounds(null.low, null.high)})"


def _scored(measurement: Measurement, over: str, scored_as: str) -> str:
    """Return how much was scored, and what was judged."""
    scored = f"{measurement.n:,} of {measurement.n_total:,} cases{scored_as}"
    if measurement.stopped:
        scored += ", which decided every gate on this suite"
    if over:
        scored += f"; judged for {over if over.startswith((SUITE_CASES, 'other ')) else f'other {over}'}"
    return scored


def _about_value(measurement: Measurement, statistic: str) -> list[Paragraph]:
    """Return the value with its interval, what chance gives, and the notes of the measurement."""
    value, around = measurement.values[statistic], measurement.intervals[statistic]
    reason = measurement.reasons.get(statistic, "")
    if value is None:
        text = f"{statistic} has none" + (f" ({reason})" if reason else "")
    else:
        level = format_share(LEVEL if around is None else around.level)
        interval = format_interval(around) or f"none: {reason or 'not available'}"
        text = f"{statistic} = {format_number(value)}; {level} interval for other items: {interval}"
    found = [Paragraph("value", text)]
    if statistic in measurement.null:
        found.append(Paragraph("chance", format_null(measurement.null[statistic])))
    return [*found, *(Paragraph("note", note) for note in measurement.notes)]


def _records(measurement: Measurement, moved: Sequence[str]) -> list[Paragraph]:
    """Return the records of the items that moved most, or else the worst records."""
    first: dict[str, Record] = {}
    for record in measurement.records if moved else ():
        for value in record.values():
            if isinstance(value, str):
                first.setdefault(value, record)
    if of_moved := [first[name] for name in moved if name in first]:
        title, records = "of what moved most, as they are now:", of_moved[:_MOST_RECORDS]
    elif measurement.records:
        few = 2 if "slice" in measurement.records[0] else 5
        title, records = "the worst:", measurement.worst(few)
    else:
        return []
    return [Paragraph("records", title), *(Paragraph("", format_record(record)) for record in records)]


# Models beside each other

UNDECIDED = "undecided"  #: in the place of the better model


@dataclass(frozen=True)
class Comparison(Stored):
    """A statistic of a suite on two models, the same items paired.

    Attributes:
        suite: name of the suite.
        statistic: name of the statistic.
        main: whether it is the main statistic of the suite.
        first: the model that is compared with.
        other: the model that is compared.
        first_value: the value of the first.
        other_value: the value of the other.
        worsening: how much worse ``other`` is than ``first``, in units of the statistic; below 0 it is better.
        low: lower bound of the 95 % interval of the worsening for other items of the same kind (or restarts). Both
            bounds equal the worsening where the statistic is not made of items; they are exact for the suite's own
            cases then.
        high: the upper bound.
        over: what varies between the bounds.
        items: number of items in common.
        moved: how many of them differ.
        method: how the bounds were made.
        p: two-sided p value of "neither is better".
        p_holm: the same, corrected for all main statistics of the table; ``None`` for any other statistic.
        better: name of the model that is better at 5 %; ``undecided``; ``the same``; or ``no value``.
    """

    form: ClassVar[int] = 1
    called: ClassVar[str] = "comparison"

    suite: str
    statistic: str
    main: bool
    first: str
    other: str
    first_value: float | None
    other_value: float | None
    worsening: float | None
    low: float | None = None
    high: float | None = None
    over: str = ""
    items: int = 0
    moved: int = 0
    method: str = ""
    p: float | None = None
    p_holm: float | None = None
    better: str = UNDECIDED

    @property
    def exact(self) -> bool:
        """Whether the values were compared as they are, for the suite's own cases."""
        return self.low is not None and self.p is None


@dataclass(frozen=True)
class LeftOut(Stored):
    """A suite that was not compared on these models, and why."""

    form: ClassVar[int] = 1
    called: ClassVar[str] = "suite left out"

    suite: str
    models: tuple[str, ...]
    reason: str
