"""Gates with a limit: literal (``at_most``, ``at_least``), or a distance from neutral (``within``); and margins that
can be broken at all.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_genderbias.errors import GateError, UndefinedError
from pytest_genderbias.gates.judgement import Judgement, LimitFacts, decide, make_judgement
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.verdicts import (
    FLOAT_NOISE,
    NO_VALUE,
    NOT_ABLE,
    TOO_FEW,
    WITHIN,
    Paragraph,
    more_items,
    shortened,
)
from pytest_genderbias.measurement.measurement import SUITE_CASES, Measurement
from pytest_genderbias.measurement.restarts import restarts_of
from pytest_genderbias.statistics.inference.intervals import Interval, restart_interval
from pytest_genderbias.statistics.inference.sequences import cases_to_decide
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.printable import approximate, format_bounds, format_share, refuse_unknown_name

if TYPE_CHECKING:  # which imports all families
    from pytest_genderbias.measurement.carry_out import Until

_WORST = 4  #: items that a broken limit names


@dataclass(frozen=True)
class Limit:
    """One or two literal bounds, or a distance from neutral.

    ``range``: a bound on the better side is meant, which a statistic keeps only if it is biased.
    """

    at_most: float | None = None
    at_least: float | None = None
    within: float | None = None
    range: bool = False

    def __post_init__(self) -> None:
        """Reject a limit without bounds, or with bounds that contradict each other.

        Raises:
            GateError: it is such a limit.
        """
        bounds = [v for v in (self.at_most, self.at_least, self.within) if v is not None]
        if not bounds:
            raise GateError("a gate without a limit; expected at_most, at_least, within, or baseline: true")
        if self.within is not None and (len(bounds) > 1 or not self.within >= 0):
            raise GateError(
                "'within' should be a distance from neutral of 0 or more, without at_most and at_least beside it"
            )
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in bounds):
            raise GateError(f"a limit should be a number, got {bounds}")
        if self.range and self.within is not None:
            raise GateError("'range' goes with at_least or at_most; 'within' is a range already")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise GateError(
                f"no value is at least {self.at_least:g} and at most {self.at_most:g}; exchange at_least and at_most"
            )

    def check_fits(self, statistic: str, about: Statistic) -> None:
        """Reject a limit that no value can break or none can keep, a one-sided one on a statistic that is worse on
        either side of neutral, and one that demands bias.

        Raises:
            GateError: it is such a limit, or no gate takes the statistic.
        """
        about.check_gateable(statistic)
        self._check_direction(statistic, about)
        least, most = about.range
        farthest = max(most - about.neutral, about.neutral - least)
        ends = {"at_least": (-1, least, most), "at_most": (1, most, least), "within": (1, farthest, 0.0)}
        for key, (sign, worst, best) in ends.items():
            limit = getattr(self, key)
            if limit is not None and sign * limit >= sign * worst - FLOAT_NOISE:
                raise GateError(
                    f"no model can break {key} {limit}: {statistic} {about.range_text} (neutral is"
                    f" {about.neutral:g}); write a limit inside, or leave it out"
                )
            if limit is not None and sign * limit < sign * best:
                raise GateError(
                    f"no model can pass {key} {limit}: {statistic} {about.range_text}; write a limit inside"
                )

    def _check_direction(self, statistic: str, about: Statistic) -> None:
        demanded = {"higher": self.at_least, "lower": self.at_most}.get(about.direction)
        alone = self.at_most is None or self.at_least is None
        if demanded is not None and alone and not self.range:
            wrong, right = ("at_least", "at_most") if about.direction == "higher" else ("at_most", "at_least")
            raise GateError(
                f"{about.direction} is worse for {statistic} (neutral is {about.neutral:g}), so {wrong} {demanded:g}"
                f" passes a model only if it is that biased: use {right}, or range=True (in YAML 'range: true') if that"
                " is meant"
            )
        if about.direction == "away" and self.within is None and alone:
            raise GateError(
                f"{statistic} is worse on either side of {about.neutral:g} (-0.9 is not 'at most 0.3'): use within, as"
                " within=0.3, or give both at_most and at_least"
            )

    def describe(self, about: Statistic) -> str:
        """Return the limit in short."""
        if self.within is not None:
            return f"within {self.within:g} of {about.neutral:g}"
        bounds = {"at least": self.at_least, "at most": self.at_most}
        return " and ".join(f"{words} {bound:g}" for words, bound in bounds.items() if bound is not None)

    def edges(self, about: Statistic) -> tuple[float, float]:
        """Return the least and the greatest value that keep the limit."""
        if self.within is not None:
            return about.neutral - self.within, about.neutral + self.within
        least, most = self.at_least, self.at_most
        return -math.inf if least is None else least, math.inf if most is None else most

    def code(self, about: Statistic, low: float, high: float) -> str:
        """Return the code of a figure between two bounds. Differences that batches and threads cause do not break the
        limit.
        """
        least, most = self.edges(about)
        return decide(low, high, least - FLOAT_NOISE, most + FLOAT_NOISE)


def decided_by(limits: Iterable[tuple[str, Limit]], statistics: Mapping[str, Statistic]) -> Until:
    """Return the argument ``until`` of ``measure``, which stops scoring as soon as all these limits are decided.

    Args:
        limits: pairs of a statistic's name and its limit; a statistic may have several.
        statistics: the statistics of the suite.

    Raises:
        GateError: a limit does not fit its statistic.
        UnknownNameError: there is no such statistic.
    """
    by_statistic: dict[str, tuple[Limit, ...]] = {}
    for name, limit in limits:
        refuse_unknown_name(name, statistics, f"no statistic {name!r}", "there are")
        limit.check_fits(name, statistics[name])
        by_statistic[name] = (*by_statistic.get(name, ()), limit)
    return {name: AllDecided(some, statistics[name]) for name, some in by_statistic.items()}


@dataclass(frozen=True)
class AllDecided:
    """A test whether bounds of a statistic decide each of several limits. Those with equal fields are equal, so that
    gates on the same limits share one measurement.
    """

    limits: tuple[Limit, ...]
    about: Statistic = field(repr=False)

    def __call__(self, low: float, high: float) -> bool:
        """Return whether a value between these bounds certainly keeps, or certainly breaks, each limit."""
        return all(limit.code(self.about, low, high) != TOO_FEW for limit in self.limits)


def judge_limit(
    measurement: Measurement,
    limit: Limit,
    statistic: str | None = None,
    generalise: bool = False,
    label: str | None = None,
) -> Judgement:
    """Judge a statistic against a limit, by its bounds and not by its value.

    The bounds are those of the whole suite on this model, and exact where all cases were scored. With ``generalise``
    they are those for other items of the same kind: the clustered interval of the measurement. A measurement with
    ``seeds`` is always judged for other restarts.

    Args:
        measurement: the measurement.
        limit: the limit.
        statistic: the main one by default.
        generalise: judge for other items of the same kind.
        label: name of the gate, to tell it from others on the same statistic.

    Raises:
        GateError: the limit does not fit the statistic, or ``generalise`` is set for a measurement that stopped early.
        UnknownNameError: the suite has no such statistic.
    """
    name = measurement.statistic(statistic)
    limit.check_fits(name, measurement.statistics[name])
    generalise = generalise or bool(measurement.restarts)
    if generalise and measurement.stopped:
        raise GateError(
            f"{measurement.suite} was scored only until other gates were decided; bounds for other items or restarts"
            " need a measurement without until="
        )
    least, most = (edge if math.isfinite(edge) else None for edge in limit.edges(measurement.statistics[name]))
    judgement = _judge(measurement, limit, name, generalise).after_refusals(measurement)
    return replace(judgement, facts=LimitFacts(least, most), name=label or "")


def _judge(measurement: Measurement, limit: Limit, name: str, generalise: bool) -> Judgement:
    about, value = measurement.statistics[name], measurement.values[name]
    bound = limit.describe(about) + (
        f" for other {'restarts' if measurement.restarts else 'items'}" if generalise else ""
    )
    if value is None:
        reason = measurement.reasons.get(name, "the suite gives none")
        code = NOT_ABLE if measurement.unable else NO_VALUE
        return make_judgement(
            measurement, name, code, bound, f"{name} should be {bound}, but it has no value: {reason}"
        )
    bounds = measurement.intervals[name] if generalise else measurement.bounds[name]
    if bounds is None:
        return _without_bounds(measurement, name, bound, generalise)
    code, (least, most) = limit.code(about, bounds.low, bounds.high), limit.edges(about)
    figure, advice, settled = f"{name} is {value:.4g}", "", ""
    if bounds.low != bounds.high:
        figure += f" ({format_share(bounds.level)}: {format_bounds(bounds.low, bounds.high)})"
    if code == WITHIN:
        headline = f"{figure}, and should be {bound}"
    elif code == TOO_FEW:
        settled = _settled_by(measurement, name, bounds, value, (least, most))
        headline = f"{figure}, which does not decide whether it is {bound}"
        advice = f"to decide: {settled}"
        if settled.startswith("all ") and " cases" in settled:
            advice += ": leave out 'limit' and --bias-limit"
        elif number := re.match(r"about ([\d,]+) cases", settled):
            advice += f": limit: {number[1].replace(',', '')} in its settings, or --bias-limit"
    else:
        missed, surely = max(least - value, value - most), max(least - bounds.high, bounds.low - most)
        headline = f"{figure}, expected {bound}: missed by {missed:.3g}"
        headline += f" (at least {surely:.3g})" if bounds.low != bounds.high else ""
        advice = "fix the model, or change the limit"
    remarks = () if code == WITHIN else worst_items(measurement, name)
    return make_judgement(
        measurement, name, code, bound, headline, remarks, advice, interval=bounds, settled_by=settled
    )


def worst_items(measurement: Measurement, statistic: str) -> tuple[Paragraph, ...]:
    """Return a line on the items that are farthest from neutral, where the statistic is made of items that have a
    figure each.
    """
    try:
        sums = measurement.item_sums(statistic).by_unit()
    except UndefinedError:
        return ()
    own = sums.by_itself()
    distance = np.array([measurement.statistics[statistic].distance(value) for value in own.tolist()])
    order = np.argsort(-distance, kind="stable")
    worst = [place for place in order[:_WORST].tolist() if math.isfinite(distance[place])]
    if not worst:
        return ()
    shown = ", ".join(f"{shortened(str(sums.labels[place]), 60)} {own[place]:.4g}" for place in worst)
    found_worst = Paragraph("worst", f"{shown}, of {len(own):,} {sums.over}")
    examples = [(own[place], measurement.examples.get(str(sums.labels[place]))) for place in worst]
    known = [(value, example) for value, example in examples if example is not None and example.figures]
    if not known:
        return (found_worst,)
    # The sentence that is most like its item: a mean over sentences may hide that one of them is neutral.
    _, example = min(known, key=lambda pair: abs(next(iter(pair[1].figures.values())) - pair[0]))
    figures = ", ".join(f"{name} {value:.3g}" for name, value in example.figures.items())
    return found_worst, Paragraph("example", shortened(f"{example.text} {figures}"))


def _without_bounds(measurement: Measurement, name: str, bound: str, generalise: bool) -> Judgement:
    if generalise:
        why = measurement.reasons.get(name, "not available")
        over, advice = "other items", "nothing; gate the suite's own cases instead (without generalise)"
        if measurement.restarts:
            by_restart = restarts_of(measurement.items, name)
            enough = by_restart is not None and restart_interval(by_restart) is not None
            over, advice = "other restarts", "three restarts that differ, better five (seeds: 5)"
            advice = f"all {measurement.n_total:,} cases (no limit)" if enough else advice
        text = f"{name} should be {bound}, but there is no interval for {over}: {why}"
        return make_judgement(measurement, name, TOO_FEW, bound, text, over=over, settled_by=advice)
    text = (
        f"{name} should be {bound}, but only {measurement.n:,} of {measurement.n_total:,} cases were scored, "
        "and what a sample of it says about all of them is not known"
    )
    settled = f"all {measurement.n_total:,} cases (no limit)"
    return make_judgement(measurement, name, TOO_FEW, bound, text, over=SUITE_CASES, settled_by=settled)


def _settled_by(
    measurement: Measurement, statistic: str, bounds: Interval, value: float, edges: tuple[float, float]
) -> str:
    """Return how many cases or items would decide if the value stays where it is."""
    if measurement.restarts and measurement.sampled(statistic):
        return f"all {measurement.n_total:,} cases (no limit), or a limit farther away"
    n = bounds.items  # for the suite's cases: units, which may be several cases
    of_suite = bounds.over.startswith(SUITE_CASES)
    population = n / measurement.n * measurement.n_total if of_suite else math.inf
    if not n:
        return "more items, or a limit farther away"
    between = (bounds.low, bounds.high)
    needed = [cases_to_decide(n, between, value, edge, population) for edge in edges if math.isfinite(edge)]
    known = [number for number in needed if number is not None]
    if len(known) < len(needed):
        return f"no number of {bounds.over}, if the value stays on the limit"
    if not of_suite:
        share = measurement.n / measurement.n_total if measurement.sampled(statistic) else 1.0
        farther = "a limit farther away"
        if bounds == measurement.bounds[statistic]:  # of what is drawn at random, of which there can be any number
            return f"{approximate(max(known))} {bounds.over} (now {n:,}), if the value stays where it is; or {farther}"
        if not measurement.restarts:
            farther += ", or the suite's own cases (without generalise)"
        more = more_items(max(known), n, bounds.over, share, bounds.templates)
        return f"{more}, if the value stays where it is; or {farther}" if more else farther
    cases = min(measurement.n_total, round(max(known) * measurement.n / n))
    whole = f"all {cases:,}" if cases == measurement.n_total else approximate(cases)
    return f"{whole} cases, if the value stays where it is"


def check_breakable(
    margin: Margin, statistic: str, about: Statistic, value: float | None = None, same: bool = False
) -> None:
    """Refuse a margin that no value of a statistic can exceed.

    Args:
        margin: the margin; one without an amount is not refused.
        statistic: name of the statistic.
        about: the statistic.
        value: what is compared with; ``None`` where it is not known yet. From the worst value nothing can be worse,
            whatever the margin is; that is not refused.
        same: whether a change to either side counts, and one through neutral counts whole.

    Raises:
        GateError: it is such a margin.

    >>> share = Statistic("lower", 1.0, "a share", least=0.0, most=1.0)
    >>> check_breakable(Margin(0.3), "share", share)
    >>> check_breakable(Margin(0.3), "share", share, value=0.2)
    ... # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    pytest_genderbias.errors.GateError: no model can break the margin 0.3: share lies from 0 to 1, and from 0.2 it can
    worsen by at most 0.2; write a smaller one, or a limit
    """
    if margin.amount is None:
        return
    best, worst = about.distances
    room = worst - (best if value is None else about.distance(value))
    if same:
        least, most = about.range
        room = most - least if value is None else max(most - value, value - least)
    if not math.isfinite(room) or room <= FLOAT_NOISE or margin.amount < room - FLOAT_NOISE:
        return
    since = "it" if value is None else f"from {value:.4g} it"
    change = "change" if same else "worsen"
    written = f" ({margin.origin})" if margin.origin else ""
    raise GateError(
        f"no model can break the margin {margin.amount:.4g}{written}: {statistic} {about.range_text}, and {since}"
        f" can {change} by at most {room:.4g}; write a smaller one, or a limit"
    )
