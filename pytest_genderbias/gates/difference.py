"""A statistic then and now: whether the two may be compared, and how far they differ, item by item or over restarts."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from pytest_genderbias.gates.judgement import WorstCluster
from pytest_genderbias.gates.policy import Correction
from pytest_genderbias.gates.sensitivity import prior_of
from pytest_genderbias.gates.verdicts import FLOAT_NOISE, LEVEL, ONE_SIDED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Arrays
from pytest_genderbias.measurement.restarts import restarts_of, sums_of_restarts
from pytest_genderbias.statistics.inference.item_sums import (
    FloatArray,
    ItemSums,
    KnownSums,
    align,
    defined,
    sums_or_reason,
)
from pytest_genderbias.statistics.inference.moderated import Prior
from pytest_genderbias.statistics.inference.over_restarts import (
    compare_crossed,
    compare_restarts,
    compare_with_restarts,
    prediction_bounds,
    restarts_to_decide,
)
from pytest_genderbias.statistics.inference.paired import (
    REPETITIONS,
    Difference,
    Distance,
    compare_items,
    with_retraining,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.student import t_quantile
from pytest_genderbias.suites.examples import Examples
from pytest_genderbias.suites.statistic import Statistic
from pytest_genderbias.text.numbers import format_number

#: The keys of a signature that must be equal for two measurements to be compared, and their names in messages.
MUST_AGREE = {"digest": "suite", "definition": "definition", "settings": "setting", "data": "data", "sample": "sample"}
_DEFAULT = "the default"  # of an option that a signature does not have
_MAY_DIFFER = ("architecture", "tokenizer", "pooling", "max_length", "dtype", "device", "runtime", "text_ends")
_DIGEST = re.compile(r"[0-9a-f]{16,}")  #: of which the beginning is shown
#: The largest share of cases that may be counted for another class. Chance errors shrink with the root of a count, so
#: that they move by half of this share at most.
MOST_MOVED = 0.05
_MOST_ADVISED = 20  #: restarts of a training, of which a message advises more at most
_NOT_STORED = "the sums of each restart were not stored; --bias-update stores them"


def worsening(measurement: Measurement, statistic: str, before: float | None) -> float | None:
    """Return how much worse a value is than before, in units of the statistic; ``None`` if either has no finite
    value.
    """
    now = measurement.values.get(statistic)
    if before is None or now is None or not (math.isfinite(before) and math.isfinite(now)):
        return None
    about = measurement.statistics[statistic]
    return about.distance(now) - about.distance(before)


def distance_from_neutral(measurement: Measurement, statistic: str, value: float | None) -> float | None:
    """Return how far a value of a statistic lies from neutral, on the side that is worse; ``None`` without a value."""
    return None if value is None else measurement.statistics[statistic].distance(value)


def is_worse(measurement: Measurement, statistic: str, before: float | None, margin: float = 0.0) -> bool:
    """Return whether a value is worse than before by more than the margin and numerical noise."""
    worse = worsening(measurement, statistic, before)
    return worse is not None and worse > margin + FLOAT_NOISE


def different(measurement: Measurement, statistic: str, before: Mapping[str, object]) -> list[str]:
    """Return in words what keeps a measurement from being compared with one that has the signature ``before``.

    Each text ends in the two values, ``... stored, ... now``; without a difference the list is empty.
    """
    now, then = (
        dict(
            signature,
            data=_data_of(signature.get("data"), statistic, measurement),
            settings=comparable_settings(signature.get("settings")),
        )
        for signature in (measurement.signature, before)
    )
    return [
        f"{word}: {name}{_short(old)} stored, {_short(new)} now"
        for key, word in MUST_AGREE.items()
        for name, old, new in _changed(then.get(key), now[key], _DEFAULT if key == "settings" else None)
    ]


def comparable_settings(settings: object) -> object:
    """Return settings without the number of restarts, which may differ between two measurements that are compared.

    >>> comparable_settings({"seed": 0, "restarts": 3})
    {'seed': 0}
    """
    if not isinstance(settings, Mapping):
        return settings
    return {name: value for name, value in settings.items() if name != "restarts"}


def other_conditions(measurement: Measurement, model: Mapping[str, object]) -> str:
    """Return in words what differs between the models and may differ, as ``" (changed: dtype ...)"``; or an empty
    text.
    """
    now = measurement.signature["model"]
    changed = [f"{key} {model.get(key)} -> {now.get(key)}" for key in _MAY_DIFFER if model.get(key) != now.get(key)]
    return f" (changed: {', '.join(changed)})" if changed else ""


def _changed(then: object, now: object, absent: str | None) -> list[tuple[str, object, object]]:
    """Return what differs: of two mappings only the keys that do, each followed by a space, and ``absent`` for a
    missing one.
    """
    if not (isinstance(then, Mapping) and isinstance(now, Mapping)):
        return [("", then, now)] if then != now else []
    names = sorted({*then, *now})
    return [
        (f"{name} ", then.get(name, absent), now.get(name, absent)) for name in names if then.get(name) != now.get(name)
    ]


def _data_of(data: object, statistic: str, measurement: Measurement) -> dict[str, object]:
    """Return the data of a statistic: data that bear the name of another statistic (accuracy, perplexity) belong to
    that one.
    """
    entries = data if isinstance(data, Mapping) else {}
    return {name: value for name, value in entries.items() if name == statistic or name not in measurement.statistics}


def _short(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value, sort_keys=True)
    return value[:12] if _DIGEST.fullmatch(value) else value


class ItemSource(Protocol):
    """What a measurement, or its stored form, knows about its units."""

    @property
    def items(self) -> Arrays:
        """Raw arrays. Those of a measurement over restarts have the values of each restart."""

    @property
    def examples(self) -> Examples:
        """A sentence of each unit, with what the model gave for it."""

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic, or what has its name in a restart.

        Raises:
            UndefinedError: there are none.
        """


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
    now: KnownSums
    restarts: tuple[FloatArray, FloatArray] | None

    @classmethod
    def of(cls, now: Measurement, statistic: str, then: ItemSource | None, before: float | None = None) -> Pair:
        """Gather the sums once: those of a large suite are computed on each access.

        ``before`` is the value of ``then``, which is one checkpoint; by default it is that of its sums.
        """
        sums = None if then is None else sums_or_reason(then.item_sums, statistic)
        values = [None if side is None else restarts_of(side.items, statistic) for side in (then, now)]
        restarts = None
        if any(by_seed is not None for by_seed in values):
            if before is None and isinstance(sums, ItemSums):
                before = sums.total
            alone = before, now.values[statistic]
            known = [value if by_seed is None else by_seed for by_seed, value in zip(values, alone, strict=True)]
            if all(value is not None for value in known):
                earlier, later = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in known)
                restarts = earlier, later
        return cls(now, statistic, then, sums, sums_or_reason(now.item_sums, statistic), restarts)

    @property
    def about(self) -> Statistic:
        """The statistic."""
        return self.measurement.statistics[self.statistic]

    @cached_property
    def prior(self) -> Prior | None:
        """What is known of the spread of a restart in other trainings."""
        return prior_of(self.measurement, self.statistic)

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
        distance = distance or _vectorised(self.about.distance)
        if self.restarts is not None:
            return self._over_restarts(*self.restarts, distance, margin, level)
        then, now = defined(self.then), defined(self.now)
        if now.over in REPETITIONS:
            difference = _repetitions(then, now, distance, margin, level)
        else:
            difference = compare_items(then, now, distance, margin, level, FLOAT_NOISE)
        if not beyond or not difference.moved:
            return difference
        widened = with_retraining(difference, beyond, math.inf, margin, level)
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
            return self._on_these_cases(compare_with_restarts(then, now, distance, margin, level, prior, root))
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
            difference = compare_restarts(then, now, distance, margin, level, prior=prior, root=root)
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
        distance = _vectorised(self.about.distance)
        if self.restarts is None:
            difference = compare_items(then[0], now[0], distance, 0.0, level, FLOAT_NOISE)
            return with_retraining(difference, beyond, math.inf, 0.0, level)
        compare = compare_with_restarts if min(len(then), len(now)) == 1 else compare_restarts
        before, after = ([sums.total for sums in side] for side in (then, now))
        return compare(before, after, distance, 0.0, level, root=self.about.root)

    def describe_spread(self) -> str:
        """Return mean and standard deviation of the restarts: of then, if it has any."""
        assert self.restarts is not None
        then, now = self.restarts
        values = then if len(then) > 1 else now
        return (
            f"mean {format_number(values.mean())} of {len(values)} restarts, standard deviation"
            f" {values.std(ddof=1):.3g}"
        )

    def describe_restarts(self, name: str, level: float) -> str:
        """Return what the restarts gave, and what one more of them is expected to give, by one-sided bounds of a
        level. ``name`` is what then is called.
        """
        assert self.restarts is not None
        then, now = self.restarts
        values, whose = (then, name) if len(then) > 1 else (now, "measurement of now")
        text = f"{len(values)} of the {whose}: {format_number(values.min())} to {format_number(values.max())}"
        if min(len(then), len(now)) > 1:
            return text
        low, high = prediction_bounds(values, level, self.prior, self.about.root)
        alone = float(min(then, now, key=len)[0])
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


def _repetitions(then: ItemSums, now: ItemSums, distance: Distance, margin: float, level: float) -> Difference:
    """Compare trainings inside a suite that only the draws of a seed tell apart (the shuffles of a probe), seed by
    seed.
    """
    pairs = [side.sums[:, 0] / side.sums[:, 1] for side in align(then, now)]
    if np.abs(pairs[1] - pairs[0]).max() <= FLOAT_NOISE:
        pairs[1] = pairs[0]
    difference = compare_restarts(pairs[0], pairs[1], distance, margin, level, paired=True)
    return replace(difference, over=now.over)


def _vectorised(distance: Callable[[float], float]) -> Callable[[FloatArray], FloatArray]:
    """A statistic's distance is arithmetic and works on arrays as on numbers."""
    return distance  # type: ignore[return-value]


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


def why_chance_moved(
    measurement: Measurement,
    statistic: str,
    then: KnownSums | None,
    now: KnownSums | None,
    compare: Callable[[str], Difference],
) -> str:
    """Explain why chance raises the statistic differently than before, and what to gate instead. Return "" if it does
    not.

    Sums of absolute gaps and of distances are above 0 by chance, and farther above the more mistakes a model makes, and
    the fewer cases a rate is of.

    Args:
        measurement: the measurement of today.
        statistic: name of the statistic.
        then: its sums in the baseline or on the other model, or why there are none.
        now: its sums now.
        compare: function that returns the worsening of another statistic since then, or raises UndefinedError.
    """
    about = measurement.statistics[statistic]
    if about.mistakes is None:
        return ""
    reason = _mistakes_moved(about.mistakes, compare) or _counts_moved(then, now)
    if not reason:
        return ""
    advice = "" if about.without_chance is None else f"; gate {about.without_chance}, which chance does not raise"
    return f"{reason}, so that chance alone moves {statistic}{advice}"


def _mistakes_moved(mistakes: str, compare: Callable[[str], Difference]) -> str:
    """Return how the statistic of the mistakes moved, if chance does not explain it (two-sided, at 5 %)."""
    try:
        difference = compare(mistakes)
    except UndefinedError as error:
        return f"it is not known whether {mistakes} moved ({error})"
    p = min(1.0, 2 * min(difference.p, difference.p_better))
    if not difference.moved or p > 1 - LEVEL:
        return ""
    return f"{mistakes} is {abs(difference.value):.3g} {'worse' if difference.value > 0 else 'better'} (p = {p:.2g})"


def _counts_moved(then: KnownSums | None, now: KnownSums | None) -> str:
    """Return which share of the cases is counted for another class, if it is too large."""
    if not (isinstance(then, ItemSums) and isinstance(now, ItemSums)):
        return ""
    counts = [side.by_unit().trials() for side in align(then, now)]
    if counts[0] is None or counts[1] is None:
        return ""
    share = float(np.abs(counts[1] - counts[0]).sum() / max(1.0, counts[0].sum(), counts[1].sum()))
    if share <= MOST_MOVED:
        return ""
    return f"the cases that its classes are counted of moved by {share:.1%} (at most {MOST_MOVED:.0%})"
