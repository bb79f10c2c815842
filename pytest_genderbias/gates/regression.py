"""Whether a statistic is worse than before, by the difference on the same items (or restarts), and the text that explains it."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from pytest_genderbias.gates.account import Account, ItemMove, Movement, Paragraph, apart, shortened
from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.chance import why_chance_moved
from pytest_genderbias.gates.judgement import LEVEL, ONE_SIDED, WHOLE_SUITE, Finding
from pytest_genderbias.gates.policy import Correction
from pytest_genderbias.gates.restarts import RestartPair, compare_over_restarts
from pytest_genderbias.gates.sameness import (
    items_to_decide_sameness,
    mirrored,
    straight_distance,
    verdict_of_sameness,
)
from pytest_genderbias.gates.verdicts import (
    DIFFERENT,
    INCONCLUSIVE,
    NO_VALUE,
    NOT_COMPARABLE,
    PASS,
    REGRESSED,
    SAME,
    STALE,
    UNCHANGED,
)
from pytest_genderbias.gates.wording import age_in_words, format_number, more_items, round_up
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Arrays
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, align
from pytest_genderbias.statistics.inference.paired import (
    REPETITIONS,
    Difference,
    Distance,
    compare_items,
    items_to_decide,
)
from pytest_genderbias.statistics.inference.restarts import compare_restarts
from pytest_genderbias.statistics.inference.tails import kish_number, skewness
from pytest_genderbias.statistics.inference.two_way import is_crossed
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.examples import Examples

#: A worsening of the same weights up to this size comes from rounding: other batches move one case in a thousand over a threshold.
SAME_MODEL_NOISE = 1e-3
_MOVED_MOST = 5
_SIGN = {"higher": "+", "lower": "-", "away": "±"}  #: by direction, what stands before a tolerance
_FEW_OF_ALL, _LARGE_SKEW = 0.25, 2.0  #: below and above, a line says that few items carry the change


class ItemSource(Protocol):
    """What a measurement, or its stored form, knows about its units."""

    @property
    def items(self) -> Arrays:
        """Raw arrays. Those of a measurement over restarts have the values of each restart."""

    @property
    def examples(self) -> Examples:
        """A sentence of each unit, with what the model gave for it."""

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic.

        Raises:
            UndefinedError: there are none.
        """


@dataclass(frozen=True)
class Reference:
    """The value that a statistic is compared with: of a baseline, or of another model.

    Attributes:
        name: what messages call it (``baseline``, or the name of the model).
        value: the value of the statistic; ``None`` if it has none.
        worsening: how much worse the statistic is now, in its units; ``None`` if either has no value.
        items: a measurement, or the part of it that was stored; ``None`` if that was too large.
        changed: what else differs and may differ (dtype, tokenizer), in words.
        correction: the comparisons that ``regressed`` is corrected for.
        accept: the command that accepts the new value, without the reason; empty for another model.
        fingerprint: fingerprint of the weights, where it is known.
        lost: why there are no ``items`` although they are not too large; empty if there are, or they are too large.
        date: when the values were accepted, in ISO format; empty if it is not known.
        same: whether the statistic should be the same, so that a better value counts as a worse one does. ``worsening`` is
            then that of :func:`~pytest_genderbias.gates.sameness.straight_distance`.
    """

    name: str
    value: float | None
    worsening: float | None
    items: ItemSource | None
    changed: str = ""
    correction: Correction = Correction()  # noqa: RUF009 - frozen
    accept: str = ""
    fingerprint: object = None
    lost: str = ""
    date: str = ""
    same: bool = False

    @property
    def in_words(self) -> str:
        """What messages call it, with its date and age."""
        if not self.accept:
            return self.name
        age = age_in_words(self.date, datetime.date.today())
        return f"the {self.name}{f' of {self.date}' if self.date else ''}{f' ({age})' if age else ''}"


def find_regression(
    measurement: Measurement, statistic: str, reference: Reference, tolerance: float, written: str = ""
) -> Finding:
    """Compare a statistic with its value before, by bounds of the worsening for other items (or restarts), the same items paired.

    ``unchanged``: every item is equal, whatever the tolerance is. ``pass``: the upper bound of the worsening is at most the
    tolerance. ``stale``: it is below minus the tolerance. ``regressed``: the worsening is above the tolerance, with a p value that
    holds for all comparisons of ``reference.correction``. Else ``inconclusive``. A statistic that is not made of items is compared by
    its values, where all cases were scored both times. ``not comparable``: chance raises the statistic, and otherwise than before
    (:func:`~pytest_genderbias.gates.chance.why_chance_moved`). ``written`` says in words what the tolerance was computed from; it is empty if
    the tolerance itself was written.
    """
    new = measurement.values[statistic]
    direction = "away" if reference.same else measurement.statistics[statistic].direction
    bound = f"{reference.name} {format_number(reference.value)} {_SIGN[direction]} {tolerance:g}"
    if reference.worsening is None:
        return Finding(NO_VALUE, bound, _without_value(statistic, new, reference))
    allowed = f"{tolerance:.4g}" + (f" ({written})" if written else "")
    moved = _change_in_words(statistic, new, reference, allowed)
    units = _Units.of(measurement, reference.items, statistic)
    for when, sums in (("now", units.now), (f"in the {reference.name}", units.then)):
        if isinstance(sums, ItemSums) and (no_number := _without_number(sums)):
            return Finding(NO_VALUE, bound, f"{moved}; {when} {no_number}, and only finite numbers decide")
    if by_chance := why_chance_moved(
        measurement, statistic, units.then, units.now, partial(_of_other, measurement, reference)
    ):
        return Finding(NOT_COMPARABLE, bound, f"{moved}; {by_chance}")
    try:
        difference = _difference_from(reference, measurement, statistic, tolerance, units)
    except UndefinedError as error:
        finding = _compare_values(measurement, statistic, tolerance, reference, str(error))
        why = (Paragraph("judged", f"by its values alone: {shortened(str(error))}"),)
        account = _account(reference, finding, _headline(statistic, new, reference, None, allowed), why)
        return replace(finding, bound=bound, text=moved + finding.text, account=account)
    tests = reference.correction.tests
    verdict = verdict_on(difference, tolerance, tests)
    if reference.same:
        verdict = verdict_of_sameness(difference, tolerance, _largest_p(tests))
    together = _together(
        difference, tolerance, reference,
        lambda level: _difference_from(reference, measurement, statistic, tolerance, units, level),
    )  # fmt: skip
    restarts = RestartPair.of(measurement, statistic, reference.items, reference.value)
    line_of_moved, movement, names = _moved_most(difference)
    lines = [
        *([] if restarts is None else [restarts.in_words(reference.name)]),
        _bounds_in_words(difference, together, reference), *_without_templates(difference, units, reference),
        *_out_of_reach(difference, reference), *_carried_by_few(difference), *line_of_moved,
    ]  # fmt: skip
    if verdict == INCONCLUSIVE and is_rounding(measurement, reference, difference.value):
        verdict, lines = (
            SAME if reference.same else PASS,
            [*lines, "  the same model, by its fingerprint: so small a difference is rounding"],
        )
    share = measurement.n / measurement.n_total if measurement.sampled(statistic) else 1.0
    settled = _settled_by(difference, tolerance, reference, restarts, share) if verdict == INCONCLUSIVE else ""
    shown = _example(measurement, reference, names[:_MOVED_MOST])
    if restarts is not None:
        shown = (Paragraph("restarts", restarts.in_brief(reference.name)),)
    finding = Finding(
        verdict, bound, moved + _advice(verdict, reference), together.low, together.high, difference.over, settled, _p_of(difference, reference),
        tests, difference.value, lines, moved=tuple(names) if verdict in (REGRESSED, DIFFERENT, INCONCLUSIVE) else (),
    )  # fmt: skip
    headline = _headline(statistic, new, reference, difference, allowed, together)
    return replace(finding, account=_account(reference, finding, headline, shown, movement))


def _without_value(statistic: str, new: float | None, reference: Reference) -> str:
    """Return in words which side has no value."""
    now = new is None or not math.isfinite(new)
    lacking = new if now else reference.value
    text = f"{statistic} has no value {'now' if now else f'in the {reference.name}'}"
    if lacking is not None:
        return f"{text}: it is {lacking}, and only finite numbers decide"
    if now or not reference.accept:
        return text
    return f"{text}, which is of an earlier version or had none; run with --bias-update to store what is measured now"


def _headline(
    statistic: str,
    new: float | None,
    reference: Reference,
    difference: Difference | None,
    allowed: str,
    together: Difference | None = None,
) -> str:
    """Return the decision in figures: from what to what, by how much with its bounds, and what was allowed."""
    assert new is not None and reference.value is not None  # the caller has a finding for values that are missing
    worse = reference.worsening or 0.0
    change = "no change" if abs(worse) <= FLOAT_NOISE else f"{abs(worse):.3g} {'worse' if worse > 0 else 'better'}"
    if difference is not None:
        change += _bounds_beside(difference.low, difference.high, _together_in_words(difference, together, reference))
    return f"{statistic} {' -> '.join(apart(reference.value, new))}: {change}, allowed {allowed}{reference.changed}"


def _example(measurement: Measurement, reference: Reference, names: Sequence[str]) -> tuple[Paragraph, ...]:
    """Return a sentence then and now, of the first of some items that has one on both sides; nothing where none was stored."""
    then = Examples() if reference.items is None else reference.items.examples
    for item in names:
        before, after = then.of(item), measurement.examples.of(item)
        if (
            before is None
            or after is None
            or before.text != after.text
            or before.figures.keys() != after.figures.keys()
        ):
            continue
        figures = ", ".join(f"{name} {before.figures[name]:.3g} -> {after.figures[name]:.3g}" for name in after.figures)
        return (Paragraph("example", shortened(f"{after.text} {figures}")),)
    return ()


def _bounds_beside(low: float, high: float, together: str = "") -> str:
    """Return the bounds of a worsening beside it, and what corrects them; an empty text where they are one.

    >>> _bounds_beside(0.1, 0.2), _bounds_beside(-0.2, -0.1), _bounds_beside(-0.1, 0.2), _bounds_beside(0.1, 0.1)
    (' (95 %: 0.1 to 0.2)', ' (95 %: 0.1 to 0.2)', ' (95 %: 0.1 better to 0.2 worse)', '')
    """
    if f"{low:.3g}" == f"{high:.3g}":
        return f" ({together})" if together else ""
    return f" (95 %: {_from_to(low, high)}{f'; {together}' if together else ''})"


def _from_to(low: float, high: float) -> str:
    if low < 0 < high:
        return f"{-low:.3g} better to {high:.3g} worse"
    least, most = sorted((abs(low), abs(high)))
    return f"{least:.3g} to {most:.3g}"


def _together(
    difference: Difference, tolerance: float, reference: Reference, at_level: Callable[[float], Difference]
) -> Difference:
    """Return a difference with the bound that decides between ``regressed`` (or ``different``) and ``inconclusive``.

    Where a bound lies beyond the tolerance, the p value decides, which holds for all comparisons of the correction together. The bound
    that holds for all of them is computed at the same level, and lies on the side of the tolerance on which p is.

    Args:
        difference: the change, with bounds that hold for it alone.
        tolerance: the change that is allowed.
        reference: what it is compared with.
        at_level: computes the same difference with one-sided bounds at another level.
    """
    better = reference.same and difference.value < 0
    far, largest = mirrored(difference) if better else difference, _largest_p(reference.correction.tests)
    if far.low <= tolerance or largest >= 1 - ONE_SIDED - 1e-12:
        return difference
    low = -math.inf
    if far.least_p <= largest:
        try:
            corrected = at_level(1 - largest)
            low = min(far.low, (mirrored(corrected) if better else corrected).low)
        except UndefinedError:  # too few items or restarts for a bound at this level
            pass
    low = max(low, tolerance) if far.p <= largest else min(low, tolerance)
    return replace(difference, high=-low) if better else replace(difference, low=low)


def _together_in_words(difference: Difference, together: Difference | None, reference: Reference) -> str:
    """Return the bounds that hold for all comparisons together; an empty text where these are those of this one alone."""
    if together is None or (together.low, together.high) == (difference.low, difference.high):
        return ""
    bounds = _from_to(together.low, together.high)
    if not (math.isfinite(together.low) and math.isfinite(together.high)):
        bounds = f"no {'lower' if math.isinf(together.low) else 'upper'} bound"
    correction = reference.correction
    return f"for all {correction.tests:,} {correction.what} together: {bounds}"


def _account(
    reference: Reference,
    finding: Finding,
    headline: str,
    remarks: tuple[Paragraph, ...],
    movement: Movement | None = None,
) -> Account:
    """Return what a failing test shows of a comparison: of an undecided one what would settle it, before what would accept it."""
    scored_as, command = f", those of {reference.in_words}", ""
    advice = f"{'make the model more alike' if reference.same else 'mend the model'}, or allow more (tolerance)"
    if reference.accept:
        advice, command = "mend the model, or accept what is measured now:", f'{reference.accept} --bias-reason="why"'
    if finding.verdict == STALE:
        advice, command = "refresh the baseline, or the model may become as much worse unseen:", reference.accept
    if finding.verdict == INCONCLUSIVE and finding.settled_by:
        advice = f"to decide: {finding.settled_by}" + ("; or accept it:" if command else "")
    return Account(headline, movement, scored_as, remarks, advice, command)


def _change_in_words(statistic: str, new: float | None, reference: Reference, tolerance: str) -> str:
    worse = reference.worsening or 0.0
    change = "no change" if abs(worse) <= FLOAT_NOISE else f"{abs(worse):.3g} {'worse' if worse > 0 else 'better'}"
    return f"{statistic} {reference.value:.6g} -> {new:.6g}, {change}, tolerance {tolerance}{reference.changed}"


@dataclass(frozen=True)
class _Units:
    """The sums of the units of a statistic, now and then, or why there are none; ``None`` if nothing is known of the units."""

    now: ItemSums | UndefinedError | None
    then: ItemSums | UndefinedError | None

    @classmethod
    def of(cls, now: ItemSource, then: ItemSource | None, statistic: str) -> _Units:
        """Gather the sums once: those of a large suite are computed on each access."""
        return cls(*(None if source is None else _sums_or_reason(source, statistic) for source in (now, then)))


def _sums_or_reason(source: ItemSource, statistic: str) -> ItemSums | UndefinedError:
    try:
        return source.item_sums(statistic)
    except UndefinedError as error:
        return error


def _defined(sums: ItemSums | UndefinedError | None) -> ItemSums:
    """Return sums, or raise the reason why there are none."""
    if isinstance(sums, UndefinedError):
        raise sums
    assert sums is not None, "the caller knows that something is known of the units"
    return sums


def items_without_number(source: ItemSource, statistic: str) -> str:
    """Return in words that the items of a statistic give no finite value; an empty text if they do, or if there are none.

    Such items contradict the value that they belong to, and no comparison of them or of the value can be trusted.
    """
    sums = _sums_or_reason(source, statistic)
    return _without_number(sums) if isinstance(sums, ItemSums) else ""


def _without_number(sums: ItemSums) -> str:
    try:
        total = sums.total
    except UndefinedError:
        return ""
    return "" if math.isfinite(total) else f"its items give {total}"


def is_rounding(measurement: Measurement, reference: Reference, difference: float | None) -> bool:
    """Return whether a measurement is of the weights of its reference, by their fingerprint, and differs by no more than rounding."""
    fingerprint = measurement.signature["model"].get("fingerprint")
    same = fingerprint is not None and bool(fingerprint == reference.fingerprint)
    return same and difference is not None and abs(difference) <= SAME_MODEL_NOISE


def _difference_from(
    reference: Reference,
    measurement: Measurement,
    statistic: str,
    tolerance: float,
    units: _Units,
    level: float = ONE_SIDED,
) -> Difference:
    """Return the worsening with its bounds, each at ``level``.

    Raises:
        UndefinedError: as :func:`item_difference`, or there are no items of the reference.
    """
    if reference.items is None:
        if not measurement.restarts:
            _defined(units.now)  # a statistic that is not made of items says so itself
        raise UndefinedError(reference.lost or "the statistics of its items take more than 512 KiB and were not stored")
    about, distance = measurement.statistics[statistic], None
    if reference.same and reference.value is not None:
        distance = straight_distance(about, reference.value)
    return _paired_difference(
        measurement, statistic, reference.items, tolerance, units, reference.value, distance, level
    )


def _of_other(measurement: Measurement, reference: Reference, statistic: str) -> Difference:
    """Return the worsening of another statistic of the same measurement; errors as :func:`item_difference`."""
    if reference.items is None:
        raise UndefinedError(reference.lost or "its items are not stored")
    sums = _sums_or_reason(reference.items, statistic)
    before = sums.total if isinstance(sums, ItemSums) else None
    return item_difference(measurement, statistic, reference.items, before=before)


def item_difference(
    measurement: Measurement, statistic: str, then: ItemSource, tolerance: float = 0.0, before: float | None = None
) -> Difference:
    """Return how much worse a statistic is than it was, the same units paired, or over restarts.

    ``before`` is the value of ``then``, which a comparison with one checkpoint needs.

    Raises:
        UndefinedError: nothing is known about the units, the statistic is not made of units, or these say nothing about others.
    """
    units = _Units.of(measurement, then, statistic)
    return _paired_difference(measurement, statistic, then, tolerance, units, before)


def _paired_difference(
    measurement: Measurement, statistic: str, then: ItemSource, tolerance: float, units: _Units, before: float | None,
    distance: Distance | None = None, level: float = ONE_SIDED,
) -> Difference:  # fmt: skip
    distance = distance or _vectorised(measurement.statistics[statistic].distance)
    restarts = RestartPair.of(measurement, statistic, then, before)
    if restarts is not None:
        return compare_over_restarts(restarts, measurement, statistic, then, distance, tolerance, level)
    then_sums, now_sums = _defined(units.then), _defined(units.now)
    if now_sums.over in REPETITIONS:
        return _repetitions(then_sums, now_sums, distance, tolerance, level)
    return compare_items(then_sums, now_sums, distance, tolerance, level, FLOAT_NOISE)


def _repetitions(then: ItemSums, now: ItemSums, distance: Distance, tolerance: float, level: float) -> Difference:
    """Compare trainings inside a suite that only the draws of a seed tell apart (the shuffles of a probe), seed by seed."""
    pairs = [side.sums[:, 0] / side.sums[:, 1] for side in align(then, now)]
    if np.abs(pairs[1] - pairs[0]).max() <= FLOAT_NOISE:
        pairs[1] = pairs[0]
    difference = compare_restarts(pairs[0], pairs[1], distance, tolerance, level, paired=True)
    return replace(difference, over=now.over)


def _vectorised(distance: Callable[[float], float]) -> Callable[[FloatArray], FloatArray]:
    """A statistic's distance is arithmetic and works on arrays as on numbers."""
    return distance  # type: ignore[return-value]


def verdict_on(difference: Difference, tolerance: float, tests: int = 1) -> str:
    """Return the verdict on a worsening: one rule for every comparison with a baseline or another model.

    ``unchanged`` if every item is equal, whatever the tolerance is. ``pass`` if the upper bound of the worsening is at most the
    tolerance, ``stale`` if that is below minus the tolerance. ``regressed`` if its lower bound is above the tolerance, with a p value
    of at most 5 % divided by the number of tests (Bonferroni: Dunn 1961). Else ``inconclusive``.

    Args:
        difference: the worsening and its bounds.
        tolerance: the worsening that is allowed, 0 or more, in units of the statistic.
        tests: number of comparisons that ``regressed`` is corrected for.

    >>> nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
    >>> worse = Difference(0.1, 0.05, 0.15, 0.02, 1.0, 25, 25, "", "items", *nothing)
    >>> verdict_on(worse, 0.2), verdict_on(worse, 0.04), verdict_on(worse, 0.04, tests=3)
    ('pass', 'regressed', 'inconclusive')
    >>> same = Difference(0.0, 0.0, 0.0, 1.0, 1.0, 25, 0, "", "items", *nothing)
    >>> verdict_on(same, 0.0)
    'unchanged'
    """
    if not difference.moved and difference.low == difference.high:
        return UNCHANGED
    if difference.high <= tolerance + FLOAT_NOISE:
        return STALE if difference.high < -tolerance - FLOAT_NOISE else PASS
    return REGRESSED if difference.low > tolerance and difference.p <= _largest_p(tests) else INCONCLUSIVE


def _largest_p(tests: int) -> float:
    """Return the largest p value that counts as significant among so many tests."""
    return (1 - LEVEL) / tests


def _compare_values(
    measurement: Measurement, statistic: str, tolerance: float, reference: Reference, why: str
) -> Finding:
    """Judge without items: if all cases were scored, the values are exact for the suite's own cases, and decide nothing else.

    The text continues the one on the change; ``bound`` is left to the caller.
    """
    worse, n, n_total = reference.worsening, measurement.n, measurement.n_total
    assert worse is not None  # the caller has a finding for values that are missing
    over_restarts = RestartPair.of(measurement, statistic, reference.items, reference.value) is not None
    if (measurement.restarts or over_restarts) and abs(worse) > FLOAT_NOISE:
        advice = "three restarts or more, better five (seeds: 5), on both sides"
        return Finding(INCONCLUSIVE, "", f"; {why}", over="other restarts", settled_by=advice, difference=worse)
    if n < n_total and abs(worse) > FLOAT_NOISE:
        text = f"; {why}, and {n:,} of {n_total:,} cases decide nothing without them"
        advice = f"all {n_total:,} cases (no limit), in a new baseline"
        return Finding(INCONCLUSIVE, "", text, over=WHOLE_SUITE, settled_by=advice, difference=worse)
    if why == reference.lost and abs(worse) > FLOAT_NOISE and worse <= tolerance + FLOAT_NOISE:
        advice = "the entry with its items: restore it from version control, or run with --bias-update"
        text = f"; {why}, so that the difference has no bounds for other items"
        return Finding(INCONCLUSIVE, "", text, over="other items", settled_by=advice, difference=worse)
    verdict = REGRESSED if worse > tolerance + FLOAT_NOISE else STALE if worse < -tolerance - FLOAT_NOISE else PASS
    if reference.same:
        verdict = SAME if verdict == PASS else DIFFERENT
    part = f"{n:,} of {n_total:,}" if n < n_total else "all of them"
    lines = [f"  compared as they are, on the suite's own cases, {part}, and no other items: {why}"]
    over = f"{WHOLE_SUITE}, {part}" if n < n_total else measurement.of_all_cases(statistic)
    return Finding(verdict, "", _advice(verdict, reference), worse, worse, over, difference=worse, lines=lines)


def _advice(verdict: str, reference: Reference) -> str:
    if not reference.accept:
        return ""
    if verdict == STALE:
        return "; the baseline is out of date: refresh it with --bias-update"
    return f'; to accept it: {reference.accept} --bias-reason="why"' if verdict in (REGRESSED, INCONCLUSIVE) else ""


def _bounds_in_words(difference: Difference, together: Difference, reference: Reference) -> str:
    tests, largest = reference.correction.tests, _largest_p(reference.correction.tests)
    corrected = f"{largest:.2g} or less" + (f", 0.05 for {tests} {reference.correction.what}" if tests > 1 else "")
    change, verdict = ("change", DIFFERENT) if reference.same else ("worsening", REGRESSED)
    p = _p_of(difference, reference)
    for_all = _together_in_words(difference, together, reference)
    return (
        f"  {change} {difference.value:.4g}, 95 % bounds {difference.low:.4g} and {difference.high:.4g} over {difference.over}"
        f"{f', {for_all}' if for_all else ''} "
        f"({_count_in_words(difference)}; {difference.method}); p {'<=' if p <= difference.least_p * (1 + 1e-9) else '='} {p:.2g} against a {change} "
        f"within the tolerance, {verdict} at {corrected}"
    )


def _p_of(difference: Difference, reference: Reference) -> float:
    """Return the p value of "within the tolerance": where either side counts, that of the side on which the change lies."""
    return difference.p_better if reference.same and difference.value < 0 else difference.p


def _count_in_words(difference: Difference) -> str:
    """Return how many units or restarts were compared, and how many of them moved."""
    if difference.over.startswith("restarts and "):
        return f"{difference.items} {difference.over.removeprefix('restarts and ')}, {difference.moved} moved"
    return f"{difference.items} of them, {difference.moved} moved"


def _without_templates(difference: Difference, units: _Units, reference: Reference) -> list[str]:
    """Return a line if the bounds take templates as fixed only because what is compared with has no sums by template."""
    now, then = units.now, units.then
    if not (isinstance(now, ItemSums) and isinstance(then, ItemSums) and is_crossed(now)) or not difference.moved:
        return []
    if difference.templates or is_crossed(then):
        return []
    refresh = ": refresh it with --bias-update" if reference.accept else ""
    return [
        f"  the {reference.name} has no sums by template, so that the bounds are not for other templates, of which there are "
        f"{now.n_templates}{refresh}"
    ]


def _carried_by_few(difference: Difference) -> list[str]:
    """Return a line if few items carry the change, or it is skewed: bounds for other items are less sure then than they say."""
    if difference.moved < 2 or not len(difference.changes):
        return []
    carrying, skew = kish_number(difference.changes), skewness(difference.changes)
    if carrying >= _FEW_OF_ALL * difference.items and abs(skew) <= _LARGE_SKEW:
        return []
    return [
        f"  few {difference.over.partition(' (')[0]} carry the change: it is worth {carrying:.2g} of {difference.items} (Kish's effective number), skewness "
        f"{skew:.2g}; such bounds err more often than they say (docs/evidence/coverage-tails.md)"
    ]


def _out_of_reach(difference: Difference, reference: Reference) -> list[str]:
    """Return a line if no worsening could be ``regressed``: no p value of the method is significant among so many tests."""
    tests, largest = reference.correction.tests, _largest_p(reference.correction.tests)
    if difference.least_p <= largest:
        return []
    most = int((1 - LEVEL) / difference.least_p + 1e-9)
    return [
        f"  no p of this method is small enough for '{DIFFERENT if reference.same else REGRESSED}' with {tests} {reference.correction.what}: it is "
        f"{difference.least_p:.2g} at least, and has to be {largest:.2g}; correct for at most {most} "
        "(--bias-correct-for=module, none, or a number)"
    ]


def _settled_by(
    difference: Difference,
    tolerance: float,
    reference: Reference,
    restarts: RestartPair | None = None,
    share: float = 1.0,
) -> str:
    """Return what would decide if the difference stays where it is, and can be had; ``share``: of the cases, those that were scored."""
    if reference.same and difference.value < 0:
        difference = mirrored(difference)
    most = max(difference.high, -difference.low) if reference.same else difference.high
    wider = f"a tolerance of {round_up(most):g}"
    if difference.low > tolerance:  # only the correction keeps it from being regressed, or different
        correction = reference.correction
        fewer = f"fewer comparisons (--bias-correct-for: now {correction.tests} {correction.what})"
        return f"{fewer}, or {wider}"
    if restarts is not None:
        return f"{restarts.settled_by(difference, tolerance)}, if the difference stays where it is; or {wider}"
    decide = items_to_decide_sameness if reference.same else items_to_decide
    needed = decide(difference, tolerance)
    more = "" if needed is None else more_items(needed, difference.items, difference.over, share, difference.templates)
    return f"{more}, if the difference stays where it is; or {wider}" if more else wider


def _moved_most(difference: Difference) -> tuple[list[str], Movement | None, list[str]]:
    """Return a line on the items that moved most, then and now; the same as data; and the names of all that moved, in this order."""
    order = np.argsort(-np.abs(difference.changes), kind="stable")
    order = order[difference.changes[order] != 0]
    names, most = difference.labels[order].tolist(), order[:_MOVED_MOST]
    if not names:
        return [], None, []
    then, now = (
        own[most] if len(own) else np.full(len(most), np.nan) for own in (difference.of_then, difference.of_now)
    )
    known = bool(np.isfinite([then, now]).all())
    changes = difference.changes[most].tolist()
    moves = tuple(
        ItemMove(name, before if known else None, after if known else None, change)
        for name, before, after, change in zip(names, then.tolist(), now.tolist(), changes, strict=False)
    )
    if known:
        figures = [f"{format_number(move.then)} -> {format_number(move.now)}" for move in moves]
        what = ", then and now"
    else:
        figures, what = [f"({move.change:+.3g})" for move in moves], " (+ is worse)"
    shown = ", ".join(f"{name} {figure}" for name, figure in zip(names, figures, strict=False))
    units = difference.what.removeprefix("restarts and ")
    movement = Movement(units, difference.items, difference.moved, moves)
    return [f"  {units} that moved most{what}: {shown}"], movement, names
