"""The figures of a judgement beside the value and its bounds: one class for limits, baselines and reductions each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.measurement.plain_data import as_plain, read_mapping
from pytest_genderbias.text.numbers import THREE_DIGITS, Write, format_growth
from pytest_genderbias.text.schema import read_value

#: The models that the judgement of a mitigation compares; those with a new head on the frozen encoder are a fourth
#: kind.
BEFORE, AFTER, CONTROL, RETRAINED = "before", "after", "control", "retrained"
#: Two bounds of a figure; ``None`` where it has none.
Bounds = tuple[float | None, ...]


def change_in_words(worsening: float | None, write: Write = THREE_DIGITS) -> str:
    """Return how much worse or better a value is.

    >>> change_in_words(0.0123), change_in_words(-0.5), change_in_words(0.0), change_in_words(None)
    ('0.0123 worse', '0.5 better', 'no change', 'no value')
    """
    if worsening is None:
        return "no value"
    if abs(worsening) <= FLOAT_NOISE:
        return "no change"
    return f"{write(abs(worsening))} {'worse' if worsening > 0 else 'better'}"


@dataclass(frozen=True)
class Seen:
    """What a gate sees: the smallest true worsening that fails in 80 % of releases.

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
        """The growth, as ``+18 %``.

        >>> Seen(0.09, 0.5, 0.06).in_words, Seen(math.inf, 0.5, math.inf).in_words
        ('+18 %', 'no growth')
        """
        return f"{format_growth(self.growth)} %" if math.isfinite(self.growth) else "no growth"

    @property
    def sentence(self) -> str:
        """From where on the gate is red, and what it stops.

        >>> Seen(0.09, 0.5, 0.06, "5 restarts").sentence
        'red from 0.06 worse (+12 %); stops a growth of 18 % in 80 % of releases; other trainings by 5 restarts'
        >>> Seen(0.09, 0.0, 0.06).sentence
        'red from 0.06 worse; stops 0.09 worse in 80 % of releases'
        """
        share, stopped = "", f"{self.size:.2g} worse"
        if self.unit > 0:
            share, stopped = (
                f" ({format_growth(self.red / self.unit)} %)",
                f"a growth of {self.in_words.removeprefix('+')}",
            )
        of_trainings = f"; other trainings by {self.retraining}" if self.retraining else ""
        return f"red from {self.red:.2g} worse{share}; stops {stopped} in 80 % of releases{of_trainings}"


@dataclass(frozen=True)
class Part:
    """What a gate adds to the number of its release. All figures are in units of its statistic.

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


def anchor_in_words(date: str) -> str:
    """Return an anchor as messages name it, by its date; an earlier version stored none."""
    return f"the anchor of {date}" if date else "the anchor that an earlier version stored"


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
        return change_in_words(self.worsening)


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
    """What a gate on a baseline knows.

    Attributes:
        accepted_on: when the stored value was accepted, in ISO format; empty if an earlier version stored it. ``None``
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
    """What a mitigation costs: a figure of the task before, after and in the control, and how much worse it may be.

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
    """What a new head on the frozen encoder shows of a mitigation: the share of the reduction that comes back, with its
    bounds.

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
    """What the judgement of a mitigation rests on.

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
    """Return what :func:`facts_to_dict` wrote, or an earlier version; its keys that are not known are left out.

    Raises:
        DataFileError: a key has a value of another type.
    """
    content = read_mapping(data, where)
    kind: type[Facts] = ReductionFacts if "by" in content else LimitFacts if "least" in content else BaselineFacts
    if isinstance(sees := content.get("sees"), Mapping):  # without infinities, they are null
        known = {name: sees.get(name) for name in ("size", "unit", "red")}
        retraining = sees.get("retraining", "")
        content["sees"] = {**{k: math.inf if v is None else v for k, v in known.items()}, "retraining": retraining}
    found = {entry.name: content[entry.name] for entry in fields(kind) if entry.name in content}
    return read_value(kind, found, where) if found else None
