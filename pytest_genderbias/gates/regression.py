"""The test whether a statistic is worse than before, or the same on another model, by the difference on the same items
or restarts.

Sameness takes two one-sided tests (Schuirmann 1987). ``docs/evidence/same-as.md`` has the measured rates of false
verdicts.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from pytest_genderbias.errors import GateError, UndefinedError
from pytest_genderbias.gates.agreement import why_chance_moved
from pytest_genderbias.gates.item_file import StoredItems
from pytest_genderbias.gates.judgement import BaselineFacts, Judgement, Part, Seen, WorstCluster, make_judgement
from pytest_genderbias.gates.limits import check_breakable
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.sensitivity import Retraining, prior_of
from pytest_genderbias.gates.verdicts import (
    BETTER,
    DIFFERENT,
    FLOAT_NOISE,
    LEVEL,
    NO_VALUE,
    NOT_ABLE,
    NOT_COMPARABLE,
    ONE_SIDED,
    REGRESSED,
    SAME,
    TOO_FEW,
    UNCHANGED,
    WITHIN,
    Correction,
    ItemMove,
    Movement,
    Paragraph,
    describe_age,
    describe_anchor,
    describe_change,
    more_items,
    shortened,
)
from pytest_genderbias.measurement.measurement import SUITE_CASES, Measurement
from pytest_genderbias.measurement.restarts import restarts_of, sums_of_restarts
from pytest_genderbias.statistics.inference.intervals import Interval, t_quantile
from pytest_genderbias.statistics.inference.item_bounds import kish_number, skewness
from pytest_genderbias.statistics.inference.item_sums import (
    REPETITIONS,
    FloatArray,
    ItemSums,
    KnownSums,
    align,
    units_shared,
    without_number,
)
from pytest_genderbias.statistics.inference.over_restarts import (
    Prior,
    compare_crossed,
    compare_restarts,
    prediction_bounds,
    restarts_to_decide,
)
from pytest_genderbias.statistics.inference.paired import (
    Difference,
    Distance,
    compare_items,
    items_to_decide,
    with_retraining,
)
from pytest_genderbias.statistics.inference.reduction import defined
from pytest_genderbias.statistics.inference.two_way import is_crossed
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.printable import apart, format_growth, format_number, round_up

#: A worsening of the same weights up to this size comes from rounding: other batches move one case in a thousand over a
#: threshold.
SAME_MODEL_NOISE = 1e-3
_MOVED_MOST = 5
_MOST_ADVISED = 20  #: restarts of a training, of which a message advises more at most
_NOT_STORED = "the sums of each restart were not stored; --bias-update stores them"
ANCHOR = "anchor"  #: name of the reference that is the anchor of a baseline
_SIGN = {"higher": "+", "lower": "-", "away": "±"}  #: by direction, what stands before a margin
_FEW_OF_ALL, _LARGE_SKEW = 0.25, 2.0  #: below and above, a line says that few items carry the change


#: What has sums and arrays of units, and a sentence of each: a measurement, or the part of it that was stored. Over
#: restarts, the arrays have the values of each restart.
ItemSource: TypeAlias = "Measurement | StoredItems"


@dataclass(frozen=True)
class Reference:
    """The value that a statistic is compared with: of a baseline, or of another model.

    Attributes:
        name: what messages call it (``baseline``, or the name of the model).
        value: the value of the statistic; ``None`` if it has none.
        items: a measurement, or the part of it that was stored; ``None`` if that was too large.
        changed: what else differs and may differ (dtype, tokenizer), in words.
        correction: the comparisons that the bounds hold for together.
        accept: the command that accepts the new value, without the reason; empty for another model.
        fingerprint: fingerprint of the weights, where it is known.
        lost: why there are no ``items`` although they are not too large; empty if there are, or they are too large.
        date: when the values were accepted, in ISO format; empty if it is not known.
        retraining: what other trainings give; ``None`` where none is in question, as of a copy of the same weights.
        seen: what the gate sees, as the baseline says; ``None`` if it does not.
        checkpoints: number of checkpoints that the value is pooled from.
        same: whether the statistic should be the same, so that a better value counts as a worse one does.
    """

    name: str
    value: float | None
    items: ItemSource | None
    changed: str = ""
    correction: Correction = Correction()  # noqa: RUF009 - frozen
    accept: str = ""
    fingerprint: object = None
    lost: str = ""
    date: str = ""
    same: bool = False
    retraining: Retraining | None = None
    seen: Seen | None = None
    checkpoints: int = 1

    @property
    def beyond(self) -> float:
        """Standard deviation of the difference to one more training, beyond what paired items show, in units of the
        statistic.
        """
        beyond = None if self.retraining is None else self.retraining.beyond
        return (beyond or 0.0) * math.sqrt(1 + 1 / self.checkpoints)

    def worsening(self, measurement: Measurement, statistic: str) -> float | None:
        """Return how much worse a statistic is now, in its units; ``None`` if either has no value.

        Of a statistic that should be the same, a change through neutral counts whole.
        """
        worse = measurement.worsening(statistic, self.value)
        if not self.same or worse is None or self.value is None:
            return worse
        straight = straight_distance(measurement.statistics[statistic], self.value)
        then, now = straight(np.array([self.value, measurement.values[statistic]])).tolist()
        return float(now - then)

    @property
    def against(self) -> str:
        """Where a headline has to say that it is of the anchor of a baseline, a text that says so; else empty."""
        return f"against {describe_anchor(self.date)}: " if self.name == ANCHOR else ""

    @property
    def in_words(self) -> str:
        """Its name in messages, with its date and age."""
        if not self.accept:
            return self.name
        age = describe_age(self.date, datetime.date.today())
        return f"the {self.name}{f' of {self.date}' if self.date else ''}{f' ({age})' if age else ''}"


@dataclass(frozen=True, eq=False)
class Pair:
    """A statistic of a measurement beside the same of an earlier one, or of another model.

    Attributes:
        measurement: of now.
        statistic: name of the statistic.
        source: what is known of the other side; ``None`` if nothing.
        then: the sums of its units, or why there are none; ``None`` if nothing is known of them.
        now: the sums of the units now.
        restarts: the values of the restarts then and now, shapes (k,) and (m,), where one checkpoint is one value;
            ``None`` if neither side has restarts, or one has no value.
    """

    measurement: Measurement
    statistic: str
    source: ItemSource | None
    then: KnownSums | None
    now: KnownSums | None
    restarts: tuple[FloatArray, FloatArray] | None = None

    @classmethod
    def of(cls, now: Measurement, statistic: str, then: ItemSource | None, before: float | None) -> Pair:
        """Gather the sums once: those of a large suite are computed on each access.

        ``before`` is the value of ``then``, where that is one checkpoint; ``None`` if it has none.
        """
        values = [None if side is None else restarts_of(side.items, statistic) for side in (then, now)]
        sums = [None if side is None else side.sums.known(statistic) for side in (then, now)]
        alone = cls(now, statistic, then, sums[0], sums[1])
        if all(by_seed is None for by_seed in values):
            return alone
        one_each = before, now.values[statistic]
        known = [value if by_seed is None else by_seed for by_seed, value in zip(values, one_each, strict=True)]
        if any(value is None for value in known):
            return alone
        earlier, later = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in known)
        return replace(alone, restarts=(earlier, later))

    @property
    def about(self) -> Statistic:
        """The statistic."""
        return self.measurement.statistics[self.statistic]

    @cached_property
    def prior(self) -> Prior | None:
        """Known spread of a restart before the stored ones."""
        return prior_of(self.measurement, self.statistic, {} if self.source is None else self.source.items)

    def difference(
        self, margin: float = 0.0, level: float = ONE_SIDED, distance: Distance | None = None, beyond: float = 0.0
    ) -> Difference:
        """Return how much worse the statistic is, the same units paired, or over restarts.

        Args:
            margin: the worsening that is allowed, for the p values.
            level: of each bound, one-sided.
            distance: how bad a value is; that of the statistic by default.
            beyond: standard deviation of the difference of two trainings, beyond what paired items show.

        Raises:
            UndefinedError: the statistic is not made of units, or these, or so few restarts, say nothing of others.
        """
        distance = distance or self.about.distance
        if self.restarts is not None:
            return self._over_restarts(*self.restarts, distance, margin, level)
        then, now = defined(self.then), defined(self.now)
        if now.over in REPETITIONS:
            # Trainings inside a suite that only the draws of a seed tell apart (the shuffles of a probe).
            before, after = (side.sums[:, 0] / side.sums[:, 1] for side in align(then, now))
            after = before if np.abs(after - before).max() <= FLOAT_NOISE else after
            difference = compare_restarts(before, after, distance, margin, level, paired=True)
            difference = replace(difference, over=now.over)
        else:
            difference = compare_items(then, now, distance, margin, level)
        if not beyond or not difference.moved:
            return difference
        widened = with_retraining(difference, beyond, margin, level)
        p, p_better = max(widened.p, difference.p), max(widened.p_better, difference.p_better)
        return replace(widened, p=p, p_better=p_better)  # more is uncertain, so that no p becomes smaller

    def _over_restarts(
        self, then: FloatArray, now: FloatArray, distance: Distance, margin: float, level: float
    ) -> Difference:
        """Return the worsening with bounds for other restarts, and for other items where both sides have several.

        One checkpoint is judged by the prediction bound of the restarts on the other side. Several are judged by the
        crossed variance of restarts and items if each restart has sums of the same items that give its value, and else
        by the values of the restarts.
        """
        prior, root = self.prior, self.about.root
        if min(len(then), len(now)) == 1:
            return self._on_these_cases(compare_restarts(then, now, distance, margin, level, prior, root))
        if len(then) == len(now) and np.abs(now - then).max() <= FLOAT_NOISE:
            then = now = np.full(len(now), now.mean())  # the same seeds, unchanged
            return self._on_these_cases(compare_restarts(then, now, distance, margin, level))
        try:
            assert self.source is not None  # whose restarts they are
            earlier, later = (
                _sums_of_values(side, self.statistic, values)
                for side, values in ((self.source, then), (self.measurement, now))
            )
            return compare_crossed(earlier, later, distance, margin, level, prior)
        except UndefinedError as error:
            difference = compare_restarts(then, now, distance, margin, level, prior, root)
            method = f"{difference.method}, on these items: {self._why_not_crossed(error)}"
            return self._on_these_cases(replace(difference, method=method))

    def _on_these_cases(self, difference: Difference) -> Difference:
        """Say that bounds over restarts cover no other cases, where both sides were measured on a sample of the
        same.
        """
        if not self.measurement.sampled(self.statistic):
            return difference
        return replace(difference, over=f"{difference.over}, on these {self.measurement.n:,} cases")

    def _why_not_crossed(self, error: UndefinedError) -> str:
        try:
            sums_of_restarts(self.measurement.item_sums, self.statistic, 1)
        except UndefinedError as own:
            return str(own)
        return _NOT_STORED if str(error).startswith("no sums of ") else str(error)

    def worst_cluster(self, tests: int, beyond: float) -> WorstCluster | None:
        """Return the declared cluster that became worse by the most standard errors; ``None`` where none did by more
        than chance explains.

        Each cluster is compared by its own units, or by its own values over restarts, at the level of the gate shared
        by the clusters. What retraining gives beyond units grows as their standard error does, with the root of one
        over their number.

        Args:
            tests: number of comparisons that the bounds hold for together.
            beyond: as in :meth:`difference`.
        """
        try:
            now = self._sums_of_each(self.measurement, self.now, 1)
            clusters = now[0].units_by_cluster()
            if not clusters or self.source is None:
                return None
            then = self._sums_of_each(self.source, self.then, 0)
        except UndefinedError:
            return None
        level = Correction(tests * len(clusters)).level
        found = []
        for name, names in clusters.items():
            wider = math.sqrt(len(now[0].labels) / len(names))
            own_then, own_now = ([sums.only(names) for sums in side] for side in (then, now))
            try:
                difference = self._compare_alone(own_then, own_now, beyond * wider, level)
            except UndefinedError:  # too few of its units, or none of them on the other side
                continue
            if difference.low > FLOAT_NOISE and math.isfinite(difference.low):
                errors = t_quantile(level, math.inf) * difference.value / (difference.value - difference.low)
                found.append(WorstCluster(name, difference.value, difference.low, errors, len(clusters)))
        return max(found, key=lambda one: one.standardised, default=None)

    def _sums_of_each(self, source: ItemSource, known: KnownSums | None, side: int) -> list[ItemSums]:
        """Return the sums of each restart, or of the only checkpoint, which are known."""
        count = 1 if self.restarts is None else len(self.restarts[side])
        return [defined(known)] if count == 1 else sums_of_restarts(source.item_sums, self.statistic, count)

    def _compare_alone(self, then: list[ItemSums], now: list[ItemSums], beyond: float, level: float) -> Difference:
        """Compare the units of one cluster, whose spread over retraining is ``beyond``, or is known from restarts."""
        distance: Distance = self.about.distance
        if self.restarts is None:
            difference = compare_items(then[0], now[0], distance, 0.0, level)
            return with_retraining(difference, beyond, 0.0, level)
        before, after = ([sums.total for sums in side] for side in (then, now))
        return compare_restarts(before, after, distance, 0.0, level, root=self.about.root)

    def describe_spread(self) -> str:
        """Return mean and standard deviation of the restarts: of then, if it has any."""
        _, values = self._several("")
        if len(values) > 1:
            mean = format_number(values.mean())
            return f"mean {mean} of {len(values)} restarts, standard deviation {values.std(ddof=1):.3g}"
        assert self.prior is not None  # it was compared
        return f"standard deviation {self.prior.spread:.3g}, of the restarts before the stored checkpoint"

    def _several(self, name: str) -> tuple[str, FloatArray]:
        """Return what the side is called of which others are expected, and its values: then, unless only now has
        restarts.
        """
        assert self.restarts is not None
        then, now = self.restarts
        return ("measurement of now", now) if len(then) == 1 < len(now) else (name, then)

    def describe_restarts(self, name: str, level: float) -> str:
        """Return what the restarts gave, and what one more of them is expected to give, by one-sided bounds of a
        level. ``name`` is what then is called.
        """
        assert self.restarts is not None
        then, now = self.restarts
        whose, values = self._several(name)
        ends = " to ".join(dict.fromkeys(map(format_number, (values.min(), values.max()))))
        text = f"{len(values)} of the {whose}: {ends}"
        if min(len(then), len(now)) > 1:
            return text
        least, most = self.about.range
        low, high = np.clip(prediction_bounds(values, level, self.prior, self.about.root), least, most)
        alone = float((then if values is now else now)[0])
        where = "inside" if low <= alone <= high else "below" if alone < low else "above"
        return (
            f"{text}; one more of them lies from {format_number(low)} to {format_number(high)} in"
            f" {100 * (2 * level - 1):.3g} % of the cases, and this one lies {where}"
        )

    def more_restarts(self, difference: Difference, margin: float, level: float) -> str:
        """Return how many restarts would decide, by one-sided bounds of a level."""
        assert self.restarts is not None
        if min(map(len, self.restarts)) > 1:
            return "more restarts on both sides, or a suite with more items"
        values = max(self.restarts, key=len)
        enough = None
        if len(values) > 1:
            enough = restarts_to_decide(values, difference.value, margin, level, self.prior)
        others = "several restarts of what is judged (--bias-seeds), which are compared by their mean"
        if enough is None or not len(values) < enough <= _MOST_ADVISED:
            return others
        return f"a baseline of {enough} restarts, or {others}"


def _sums_of_values(source: ItemSource, statistic: str, values: FloatArray) -> list[ItemSums]:
    """Return the sums of each restart, which give its value.

    Raises:
        UndefinedError: there are none, or they give another value.
    """
    sums = sums_of_restarts(source.item_sums, statistic, len(values))
    totals = np.array([one.total for one in sums])
    if not np.allclose(totals, values, rtol=FLOAT_NOISE, atol=FLOAT_NOISE):
        raise UndefinedError("the value of a restart is not that of its items")
    return sums


def find_regression(measurement: Measurement, statistic: str, reference: Reference, allowed: Margin) -> Judgement:
    """Compare a statistic with its value before, by bounds of the worsening for other items (or restarts), the same
    items paired.

    Without a margin: ``regressed`` where the lower bound of the worsening is above 0, else ``within``, or ``better``
    than a baseline where the upper bound is below 0. With one: ``within`` where the upper bound is at most the margin,
    ``regressed`` where the lower bound is above it, else ``too_few``. ``unchanged``: every item is equal. The bounds
    hold for all comparisons of ``reference.correction`` together. A statistic that is not made of items is compared
    with a margin only, by its values, where all cases were scored both times. ``not_comparable``: chance raises the
    statistic, and otherwise than before (:func:`~pytest_genderbias.gates.agreement.why_chance_moved`), or too few units
    have a figure on both sides.
    """
    new, margin = measurement.values[statistic], allowed.tolerance
    direction = "away" if reference.same else measurement.statistics[statistic].direction
    bound = f"{reference.name} {format_number(reference.value)}"
    bound += f" {_SIGN[direction]} {margin:g}" if allowed.amount is not None else ""
    judged = partial(make_judgement, measurement, statistic)
    if (worse := reference.worsening(measurement, statistic)) is None:
        code = NOT_ABLE if measurement.unable else NO_VALUE
        return judged(code, bound, _without_value(statistic, new, reference, measurement.reasons.get(statistic, "")))
    headline = partial(_headline, measurement, statistic, reference, allowed)
    pair = Pair.of(measurement, statistic, reference.items, reference.value)
    shared, are_few = units_shared(pair.then, pair.now)
    for when, sums in (("now", pair.now), (f"in the {reference.name}", pair.then)):
        if no_number := without_number(sums):
            return judged(NO_VALUE, bound, f"{headline()}; {when} {no_number}, and only finite numbers decide")
    if by_chance := why_chance_moved(
        measurement, statistic, pair.then, pair.now, partial(_of_other, measurement, reference)
    ):
        return judged(NOT_COMPARABLE, bound, f"{headline()}; {by_chance}")
    if are_few:
        return judged(NOT_COMPARABLE, bound, *_of_other_units(headline(), shared, reference))
    scored_as = f", those of {reference.in_words}"
    try:
        difference = _difference_from(reference, pair, margin)
    except UndefinedError as error:
        if shared:
            return judged(NOT_COMPARABLE, bound, *_of_other_units(headline(), shared, reference))
        code, why, over, settled = _decided_by_values(pair, worse, allowed, reference, str(error))
        exact = None if settled else Interval(worse, worse, LEVEL, over, "")
        return judged(
            code,
            bound,
            headline(),
            (Paragraph("judged", shortened(f"by its values alone{why}")),),
            *_advice(code, reference, settled),
            interval=exact,
            over=over,
            settled_by=settled,
            difference=worse,
            scored_as=scored_as,
        )
    code = code_of_change(difference, margin) if reference.same else code_of_worsening(difference, allowed)
    details = [_describe_bounds(difference, reference), *_without_templates(difference, pair, reference)]
    details += _carried_by_few(difference)
    if code in (TOO_FEW, REGRESSED) and is_rounding(measurement, reference, difference.value):
        code = SAME if reference.same else WITHIN
        details.append(Paragraph("rounding", "the same model, by its fingerprint: so small a difference is rounding"))
    if code == BETTER and not reference.accept:  # a better model makes nothing out of date
        code = WITHIN
    settled = _settled_by(difference, margin, reference, pair) if code == TOO_FEW else ""
    movement, names = _moved_most(difference)
    if pair.restarts is None:
        remarks = _example(measurement, reference, names[:_MOVED_MOST])
    else:
        remarks = (Paragraph("restarts", pair.describe_restarts(reference.name, reference.correction.level)),)
        details.append(Paragraph("spread", pair.describe_spread()))
    facts = None
    if reference.accept and not reference.same:
        cluster = pair.worst_cluster(reference.correction.tests, reference.beyond)
        facts = BaselineFacts(release=_part(pair, reference, difference, bool(shared)), cluster=cluster)
        if cluster is not None:
            worst = f"{cluster.name} alone: {cluster.worsening:.3g} worse, at least {cluster.low:.3g}"
            details.append(Paragraph("cluster", f"{worst}; the most of {cluster.clusters} clusters"))
    made = on_shared(difference, shared), difference.method, difference.items, difference.templates
    interval = Interval(difference.low, difference.high, LEVEL, *made)
    return judged(
        code,
        bound,
        headline(difference, shared),
        remarks,
        *_advice(code, reference, settled),
        interval=interval,
        over=difference.over,
        settled_by=settled,
        p=_p_of(difference, reference),
        tests=reference.correction.tests,
        difference=difference.value,
        facts=facts,
        movement=movement,
        moved=names if code in (REGRESSED, DIFFERENT, TOO_FEW) else (),
        details=details,
        scored_as=scored_as,
    )


def _part(pair: Pair, reference: Reference, difference: Difference, on_shared_units: bool) -> Part | None:
    """Return what a comparison with a baseline adds to the number of its release; ``None`` where its bounds say
    nothing. Where one side has units of its own, the worsening is that of the others.
    """
    alone = ([reference.value], [pair.measurement.values[pair.statistic]])
    values = alone if pair.restarts is None else [side.tolist() for side in pair.restarts]
    then, now = (tuple(float(pair.about.distance(value)) for value in side if value is not None) for side in values)
    if on_shared_units and pair.restarts is None:
        now = (then[0] + difference.value,)
    unit = max(float(np.mean(then)), 0.0) if reference.seen is None else reference.seen.unit
    z = t_quantile(reference.correction.level, math.inf)
    reach = (difference.high - difference.low) / 2 / z
    of_trainings = reference.beyond if pair.restarts is None else reach
    if not unit > 0 or not math.isfinite(reach):
        return None
    return Part(unit, then, now, math.sqrt(max(0.0, reach**2 - of_trainings**2)), of_trainings)


def code_of_worsening(difference: Difference, allowed: Margin) -> str:
    """Return the code of a worsening: one rule for every comparison with a baseline or another model.

    Args:
        difference: the worsening and its bounds.
        allowed: the margin; without one, nothing is allowed but chance.

    >>> worse = Difference(0.1, 0.05, 0.15, 0.02, 1.0, 25, 25, "", "items")
    >>> [code_of_worsening(worse, allowed) for allowed in map(Margin, (None, 0.2, 0.04, 0.1))]
    ['regressed', 'within', 'regressed', 'too_few']
    >>> same = Difference(0.0, 0.0, 0.0, 1.0, 1.0, 25, 0, "", "items")
    >>> code_of_worsening(same, Margin())
    'unchanged'
    """
    if not difference.moved and difference.low == difference.high:
        return UNCHANGED
    margin = allowed.tolerance
    if difference.low > margin + FLOAT_NOISE:
        return REGRESSED
    if difference.high < -margin - FLOAT_NOISE:
        return BETTER
    if allowed.amount is None:  # without a lower bound, nothing could be worse
        return WITHIN if math.isfinite(difference.low) else TOO_FEW
    return WITHIN if difference.high <= margin + FLOAT_NOISE else TOO_FEW


def _without_value(statistic: str, new: float | None, reference: Reference, reason: str) -> str:
    """Return in words which side has no value; ``reason`` is why there is none now."""
    now = new is None or not math.isfinite(new)
    lacking = new if now else reference.value
    text = f"{statistic} has no value {'now' if now else f'in the {reference.name}'}"
    if lacking is not None:
        return f"{text}: it is {lacking}, and only finite numbers decide"
    if now or not reference.accept:
        return f"{text}: {reason}" if now and reason else text
    return f"{text}; run with --bias-update to store what is measured now"


def _headline(
    measurement: Measurement,
    statistic: str,
    reference: Reference,
    allowed: Margin,
    found: Difference | None = None,
    shared: str = "",
) -> str:
    """Return the decision in figures: from what to what, by how much with its bounds, and what is allowed.

    ``shared``: the units of the change, where one side has others.
    """
    new, worse = measurement.values[statistic], reference.worsening(measurement, statistic)
    # The caller has a finding for values that are missing.
    assert new is not None and worse is not None and reference.value is not None
    if found is not None and shared:
        worse = found.value
    change = describe_change(worse)
    if found is not None and f"{found.low:.3g}" != f"{found.high:.3g}":
        change += f" (95 %{_for_all(reference.correction)}: {_from_to(found.low, found.high)})"
    change += f" on the {shared} that both sides have" if shared else ""
    figures = " -> ".join(apart(reference.value, new))
    return (
        f"{reference.against}{statistic} {figures}:"
        f" {change}{_describe_margin(allowed)}{_describe_growth(reference, worse)}{reference.changed}"
    )


def on_shared(difference: Difference, shared: str) -> str:
    """Return what varies between the bounds, with the units that both sides have where one side has others."""
    return difference.over.replace(difference.what, shared, 1) if shared else difference.over


def _of_other_units(headline: str, shared: str, reference: Reference) -> tuple[str, tuple[Paragraph, ...], str, str]:
    """Return headline, remarks, advice and command of a comparison of two sides that have too few units in common."""
    why = f"{headline}; only {shared} have a figure on both sides, and the others may be those that are biased"
    advice = "find out why they have none (-v has the notes)"
    if not reference.accept:
        return why, (), advice, ""
    return why, (), f"{advice}, or if the change is meant, accept what is measured now:", reference.accept


def _describe_growth(reference: Reference, worse: float) -> str:
    """Return the growth of the bias, and the growth that would have failed in 80 % of releases; an empty text where it
    is not known.
    """
    if reference.seen is None or not reference.seen.unit > 0:
        return ""
    growth = worse / reference.seen.unit if abs(worse) > FLOAT_NOISE else 0.0
    return f", {format_growth(growth)} % (sees {reference.seen.in_words})"


def _describe_margin(allowed: Margin) -> str:
    """Return what is allowed; an empty text without a margin.

    >>> _describe_margin(Margin(share=0.2).resolve(0.15)), _describe_margin(Margin())
    (', allowed 0.03 (20% of the distance 0.15 from neutral)', '')
    """
    if allowed.amount is None:
        return ""
    return f", allowed {allowed.amount:.4g}" + (f" ({allowed.origin})" if allowed.origin else "")


def _example(measurement: Measurement, reference: Reference, names: Sequence[str]) -> tuple[Paragraph, ...]:
    """Return a sentence then and now, of the first of some items that has one on both sides; nothing where none was
    stored.
    """
    then = {} if reference.items is None else reference.items.examples
    for item in names:
        before, after = then.get(item), measurement.examples.get(item)
        if before is None or after is None or before.text != after.text:
            continue
        if (now := after.figures).keys() == before.figures.keys():
            figures = ", ".join(f"{name} {before.figures[name]:.3g} -> {now[name]:.3g}" for name in now)
            return (Paragraph("example", shortened(f"{after.text} {figures}")),)
    return ()


def _for_all(correction: Correction) -> str:
    """Return for how many comparisons bounds hold together; an empty text for one.

    >>> _for_all(Correction()), _for_all(Correction(5, "gates"))
    ('', ' for all 5 gates')
    """
    return f" for all {correction.tests:,} {correction.what}" if correction.tests > 1 else ""


def _from_to(low: float, high: float) -> str:
    """Return the bounds of a worsening.

    >>> _from_to(0.1, 0.2), _from_to(-0.1, 0.2)
    ('0.1 to 0.2', '0.1 better to 0.2 worse')
    """
    if math.isinf(low) or math.isinf(high):
        least = "no lower bound" if math.isinf(low) else f"{low:.3g}"
        return f"{least} to {'no upper bound' if math.isinf(high) else f'{high:.3g}'}"
    if low < 0 < high:
        return f"{-low:.3g} better to {high:.3g} worse"
    return " to ".join(f"{end:.3g}" for end in sorted((abs(low), abs(high))))


def _advice(code: str, reference: Reference, settled: str) -> tuple[str, str]:
    """Return what to do and what to type: of an undecided comparison what would settle it, before what would accept
    it.
    """
    if code == BETTER:
        return "refresh the baseline, or the model may become as much worse unseen:", reference.accept
    if code not in (REGRESSED, DIFFERENT, TOO_FEW):
        return "", ""
    command = f'{reference.accept} --bias-reason="why"' if reference.accept else ""
    if settled:
        return f"to decide: {settled}" + ("; or accept it:" if command else ""), command
    if command:
        return "fix the model, or accept what is measured now:", command
    return f"{'make the model more alike' if reference.same else 'fix the model'}, or allow more (margin)", ""


def is_rounding(measurement: Measurement, reference: Reference, difference: float | None) -> bool:
    """Return whether a measurement is of the weights of its reference, by their fingerprint, and differs by no more
    than rounding.
    """
    fingerprint = measurement.signature["model"].get("fingerprint")
    same = fingerprint is not None and bool(fingerprint == reference.fingerprint)
    return same and difference is not None and abs(difference) <= SAME_MODEL_NOISE


def _difference_from(reference: Reference, pair: Pair, margin: float) -> Difference:
    """Return the worsening with its bounds, which hold for all comparisons of the reference together.

    Raises:
        UndefinedError: as :meth:`Pair.difference`, or there are no items of the reference.
    """
    if reference.items is None:
        if not pair.measurement.restarts:
            defined(pair.now)  # a statistic that is not made of items says so itself
        raise UndefinedError(reference.lost or "the statistics of its items take more than 512 KiB and were not stored")
    distance = None
    if reference.same and reference.value is not None:
        distance = straight_distance(pair.about, reference.value)
    return pair.difference(margin, reference.correction.level, distance, reference.beyond)


def _of_other(measurement: Measurement, reference: Reference, statistic: str) -> Difference:
    """Return the worsening of another statistic of the same measurement; errors as :meth:`Pair.difference`."""
    items = reference.items
    if items is None:
        raise UndefinedError(reference.lost or "its items are not stored")
    return Pair.of(measurement, statistic, items, items.values.get(statistic)).difference()


def _decided_by_values(
    pair: Pair, worse: float, allowed: Margin, reference: Reference, why: str
) -> tuple[str, str, str, str]:
    """Judge without items: if all cases were scored, the values are exact for the suite's own cases, and decide about a
    margin.

    Returns:
        The code, how it was judged, what varies, and what would decide where the values do not.
    """
    measurement = pair.measurement
    n, n_total, margin = measurement.n, measurement.n_total, allowed.tolerance
    settled = over = ""
    if (measurement.restarts or pair.restarts is not None) and abs(worse) > FLOAT_NOISE:
        settled, over = "three restarts or more, better five (seeds: 5), on both sides", "other restarts"
    elif n < n_total and abs(worse) > FLOAT_NOISE:
        why = f"{why}, and {n:,} of {n_total:,} cases decide nothing without them"
        settled, over = f"all {n_total:,} cases (no limit), in a new baseline", SUITE_CASES
    elif why == reference.lost and abs(worse) > FLOAT_NOISE and worse <= margin + FLOAT_NOISE:
        why = f"{why}, so that the difference has no bounds for other items"
        settled = "the entry with its items: restore it from version control, or run with --bias-update"
        over = "other items"
    elif allowed.amount is None and not reference.same and worse > FLOAT_NOISE:
        why = f"{why}, so that it is not known what chance gives"
        settled, over = "a margin, or restarts (--bias-seeds) in the baseline", "other items"
    if settled:
        return TOO_FEW, f": {why}", over, settled
    code = REGRESSED if worse > margin + FLOAT_NOISE else BETTER if worse < -margin - FLOAT_NOISE else WITHIN
    if reference.same:
        code = SAME if code == WITHIN else DIFFERENT
    elif code == BETTER and not reference.accept:
        code = WITHIN
    part = f"{n:,} of {n_total:,}" if n < n_total else "all of them"
    over = f"{SUITE_CASES}, {part}" if n < n_total else measurement.of_all_cases(pair.statistic)
    return code, f", on the suite's own cases, {part}, and no other items: {why}", over, ""


def _describe_bounds(difference: Difference, reference: Reference) -> Paragraph:
    change = "change" if reference.same else "worsening"
    p, what = _p_of(difference, reference), difference.over.removeprefix("restarts and ")
    counted = f"{difference.items} {'of them' if what == difference.over else what}, {difference.moved} moved"
    return Paragraph(
        "bounds",
        f"{change} {difference.value:.4g}, 95 % bounds{_for_all(reference.correction)} {difference.low:.4g} and"
        f" {difference.high:.4g} over {difference.over} ({counted}; {difference.method}); p"
        f" {'<=' if p <= difference.least_p * (1 + 1e-9) else '='} {p:.2g} against a {change} within the margin, alone",
    )


def _p_of(difference: Difference, reference: Reference) -> float:
    """Return the p value of "within the margin": where either side counts, that of the side on which the change
    lies.
    """
    return difference.p_better if reference.same and difference.value < 0 else difference.p


def _without_templates(difference: Difference, pair: Pair, reference: Reference) -> list[Paragraph]:
    """Return a line if the bounds take templates as fixed only because what is compared with has no sums by
    template.
    """
    now, then = pair.now, pair.then
    if not (isinstance(now, ItemSums) and isinstance(then, ItemSums) and is_crossed(now)) or not difference.moved:
        return []
    if difference.templates or is_crossed(then):
        return []
    refresh = ": refresh it with --bias-update" if reference.accept else ""
    text = (
        f"the {reference.name} has no sums by template, so that the bounds are not for other templates, of which there"
        f" are {now.n_templates}{refresh}"
    )
    return [Paragraph("", text)]


def _carried_by_few(difference: Difference) -> list[Paragraph]:
    """Return a line if few items carry the change, or it is skewed: bounds for other items are less sure then than they
    say.
    """
    if difference.moved < 2 or not len(difference.changes):
        return []
    carrying, skew = kish_number(difference.changes), skewness(difference.changes)
    if carrying >= _FEW_OF_ALL * difference.items and abs(skew) <= _LARGE_SKEW:
        return []
    text = (
        f"few {difference.what.partition(' (')[0]} carry the change: it is worth {carrying:.2g} of {difference.items}"
        f" (Kish's effective number), skewness {skew:.2g}; such bounds err more often than they say"
        " (docs/evidence/coverage-tails.md)"
    )
    return [Paragraph("", text)]


def _settled_by(difference: Difference, margin: float, reference: Reference, pair: Pair) -> str:
    """Return what would decide if the difference stays where it is, and can be had."""
    if reference.same and difference.value < 0:
        difference = mirrored(difference)
    most = max(difference.high, -difference.low) if reference.same else difference.high
    wider = _wider_margin(round_up(most), margin, reference, pair)
    if pair.restarts is not None:
        more = pair.more_restarts(difference, margin, reference.correction.level)
        return f"{more}, if the difference stays where it is; or {wider}"
    decide = items_to_decide_sameness if reference.same else items_to_decide
    needed = decide(difference, margin)
    measurement = pair.measurement
    share = measurement.n / measurement.n_total if measurement.sampled(pair.statistic) else 1.0
    more = "" if needed is None else more_items(needed, difference.items, difference.what, share, difference.templates)
    return f"{more}, if the difference stays where it is; or {wider}" if more else wider


def _wider_margin(needed: float, margin: float, reference: Reference, pair: Pair) -> str:
    """Return the margin that would decide, with what it would not find; another statistic where nothing breaks it."""
    try:
        check_breakable(Margin(needed), pair.statistic, pair.about, reference.value, reference.same)
    except GateError:
        return f"another statistic, since no model breaks the margin of {needed:g} that this one needs"
    text = f"a margin of {needed:g}"
    if reference.same and reference.value is not None and margin < abs(reference.value - pair.about.neutral) <= needed:
        return f"another statistic, or {text}, within which a copy without any bias is the same, too"
    return text


def _moved_most(difference: Difference) -> tuple[Movement | None, list[str]]:
    """Return how many items moved and which moved most, and the names of all that moved, those that moved most
    first.
    """
    order = np.argsort(-np.abs(difference.changes), kind="stable")
    order = order[difference.changes[order] != 0]
    names, most = difference.labels[order].tolist(), order[:_MOVED_MOST]
    if not names:
        return None, []
    own = [side[most] for side in (difference.of_then, difference.of_now) if len(side)]
    known = len(own) == 2 and bool(np.isfinite(own).all())
    then, now = (side.tolist() for side in own) if known else [[None] * len(most)] * 2
    moves = tuple(map(ItemMove, names, then, now, difference.changes[most].tolist()))
    return Movement(difference.what.removeprefix("restarts and "), difference.items, difference.moved, moves), names


def straight_distance(about: Statistic, before: float) -> Callable[[FloatArray], FloatArray]:
    """Return the distance from neutral as a straight line: beyond neutral it goes on below 0, where the other way is
    worse, too.

    A value that moves from one side of neutral to the other has changed, though it may be as far from neutral as
    before.

    Args:
        about: the statistic.
        before: the value that others are compared with, whose side counts as worse where either side does.

    >>> effect = Statistic("away", 0.0, "effect size")
    >>> moved = straight_distance(effect, 0.2)
    >>> moved(0.3), moved(-0.2), effect.distance(-0.2)
    (0.3, -0.2, 0.2)
    """
    falling = about.direction == "lower" or (about.direction == "away" and before < about.neutral)
    return lambda value: about.neutral - value if falling else value - about.neutral


def code_of_change(difference: Difference, margin: float) -> str:
    """Return the code of a change that should be nothing, to either side.

    ``unchanged`` if every item is equal. ``same`` if both one-sided bounds lie within the margin. ``different`` if both
    lie beyond it on one side. Else ``too_few``.

    Args:
        difference: the change and its bounds; positive is worse.
        margin: the change that is allowed to either side, 0 or more, in units of the statistic.

    >>> better = Difference(-0.1, -0.15, -0.05, 1.0, 0.02, 25, 25, "", "items")
    >>> [code_of_change(better, margin) for margin in (0.2, 0.12, 0.04)]
    ['same', 'too_few', 'different']
    """
    if not difference.moved and difference.low == difference.high:
        return UNCHANGED
    if -margin - FLOAT_NOISE <= difference.low and difference.high <= margin + FLOAT_NOISE:
        return SAME
    return DIFFERENT if difference.low > margin or difference.high < -margin else TOO_FEW


def mirrored(difference: Difference) -> Difference:
    """Return the change as seen from the other model's side: better is worse."""
    low, high, p, p_better = -difference.high, -difference.low, difference.p_better, difference.p
    changes, value = -difference.changes, -difference.value
    return replace(difference, value=value, low=low, high=high, p=p, p_better=p_better, changes=changes)


def items_to_decide_sameness(difference: Difference, margin: float) -> int | None:
    """Estimate how many units would decide whether the statistic is the same, if the change stays as it is.

    Within the margin, the bound that lies farther beyond it decides; outside, the edge that the change has passed.
    ``None`` if the change equals the margin.

    Example:
        Bounds from -.06 to .04 about -.01, margin .03: the lower bound, .05 away, has to come within .02, so 25 items
        have to be 157.

        >>> items_to_decide_sameness(Difference(-0.01, -0.06, 0.04, 0.5, 0.5, 25, 25, "", "items"), 0.03)
        157
    """
    far = mirrored(difference) if difference.value < 0 else difference
    needed = items_to_decide(far, margin)
    if needed is None or far.value > margin:
        return needed
    other = items_to_decide(mirrored(far), margin)
    return None if other is None else max(needed, other)
