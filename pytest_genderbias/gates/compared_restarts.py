"""Comparison of measurements over restarts: of one checkpoint with several restarts of a training, or of several with
several.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.sensitivity import prior_of
from pytest_genderbias.gates.verdicts import ONE_SIDED
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Arrays
from pytest_genderbias.measurement.restarts import restarts_of, sums_of_restarts
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.moderated import Prior
from pytest_genderbias.statistics.inference.over_restarts import (
    compare_crossed,
    compare_restarts,
    compare_with_restarts,
    prediction_bounds,
    restarts_to_decide,
)
from pytest_genderbias.statistics.inference.paired import Difference
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.text.numbers import format_number

_MOST_ADVISED = 20  #: restarts of a training, of which a message advises more at most
_NOT_STORED = "the sums of each restart were not stored; --bias-update stores them"


class RestartSource(Protocol):
    """What a measurement, or its stored form, knows about restarts."""

    @property
    def items(self) -> Arrays:
        """Raw arrays, with the values of each restart."""

    def item_sums(self, statistic: str) -> ItemSums:
        """Return the sums of each unit that give a statistic, or what has its name in a restart."""


@dataclass(frozen=True, eq=False)
class RestartPair:
    """The values of a statistic then and now, of which one side at least has restarts.

    Attributes:
        then: values of the restarts of the baseline, or the value of its only checkpoint, shape (k,).
        now: the same of the measurement, shape (m,).
        prior: what is known of the spread of a restart in other trainings.
        root: whether the statistic is the signed root of a mean square.
    """

    then: FloatArray
    now: FloatArray
    prior: Prior | None = None
    root: bool = False

    @classmethod
    def of(
        cls, measurement: Measurement, statistic: str, then: RestartSource | None, before: float | None
    ) -> RestartPair | None:
        """Return the values of both sides; ``None`` if neither has restarts, or one has no value.

        Args:
            measurement: the measurement of today.
            statistic: name of the statistic.
            then: what is known of the baseline; ``None`` if nothing.
            before: the value of the baseline.
        """
        sides = [restarts_of({} if source is None else source.items, statistic) for source in (then, measurement)]
        if all(values is None for values in sides):
            return None
        alone = before, measurement.values[statistic]
        known = [value if by_seed is None else by_seed for by_seed, value in zip(sides, alone, strict=True)]
        if any(values is None for values in known):
            return None
        before_values, values = (np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in known)
        return cls(before_values, values, prior_of(measurement, statistic), measurement.statistics[statistic].root)

    @property
    def one_checkpoint(self) -> bool:
        """Whether one of the sides is a single checkpoint."""
        return min(len(self.then), len(self.now)) == 1

    @property
    def spread_in_words(self) -> str:
        """Mean and standard deviation of the restarts: of the baseline, if it has any."""
        values = self.then if len(self.then) > 1 else self.now
        return (
            f"mean {format_number(values.mean())} of {len(values)} restarts, standard deviation"
            f" {values.std(ddof=1):.3g}"
        )

    def in_words(self, name: str, level: float = ONE_SIDED) -> str:
        """Return what the restarts gave, and what one more of them is expected to give, by one-sided bounds of a
        level.
        """
        values, whose = (self.then, name) if len(self.then) > 1 else (self.now, "measurement of now")
        text = f"{len(values)} of the {whose}: {format_number(values.min())} to {format_number(values.max())}"
        if not self.one_checkpoint:
            return text
        low, high = prediction_bounds(values, level, self.prior, self.root)
        alone = float(min(self.then, self.now, key=len)[0])
        where = "inside" if low <= alone <= high else "below" if alone < low else "above"
        return (
            f"{text}; one more of them lies from {format_number(low)} to {format_number(high)} in"
            f" {100 * (2 * level - 1):.3g} % of the cases, and this one lies {where}"
        )

    def settled_by(self, difference: Difference, margin: float, level: float = ONE_SIDED) -> str:
        """Return what would decide about one checkpoint, or about several, by one-sided bounds of a level."""
        if not self.one_checkpoint:
            return "more restarts on both sides, or a suite with more items"
        values = max(self.then, self.now, key=len)
        enough = restarts_to_decide(values, difference.value, margin, level, self.prior)
        others = "several restarts of what is judged (--bias-seeds), which are compared by their mean"
        if enough is None or not len(values) < enough <= _MOST_ADVISED:
            return others
        return f"a baseline of {enough} restarts, or {others}"


def compare_over_restarts(
    pair: RestartPair,
    measurement: Measurement,
    statistic: str,
    then: RestartSource,
    distance: Callable[[FloatArray], FloatArray],
    margin: float,
    level: float = ONE_SIDED,
) -> Difference:
    """Return how much worse a statistic is, with bounds for other restarts, and for other items where both sides have
    several.

    One checkpoint is judged by the prediction bound of the restarts on the other side. Several are judged by the
    crossed variance of restarts and items if each restart has sums of the same items that give its value, and else by
    the values of the restarts.

    Raises:
        UndefinedError: so few restarts say nothing of others.
    """
    prior, root = pair.prior, pair.root
    if pair.one_checkpoint:
        difference = compare_with_restarts(pair.then, pair.now, distance, margin, level, prior, root)
        return _on_these_cases(difference, measurement, statistic)
    before, after = pair.then, pair.now
    if len(before) == len(after) and np.abs(after - before).max() <= FLOAT_NOISE:
        before = after = np.full(len(after), after.mean())  # the same seeds, unchanged
        return _on_these_cases(compare_restarts(before, after, distance, margin, level), measurement, statistic)
    try:
        earlier, later = _sums(then, statistic, before), _sums(measurement, statistic, after)
        return compare_crossed(earlier, later, distance, margin, level, prior)
    except UndefinedError as error:
        difference = compare_restarts(before, after, distance, margin, level, prior=prior, root=root)
        why = _why_not_crossed(measurement, statistic, error)
        difference = replace(difference, method=f"{difference.method}, on these items: {why}")
        return _on_these_cases(difference, measurement, statistic)


def _on_these_cases(difference: Difference, measurement: Measurement, statistic: str) -> Difference:
    """Say that bounds over restarts cover no other cases, where both sides were measured on a sample of the same."""
    if not measurement.sampled(statistic):
        return difference
    return replace(difference, over=f"{difference.over}, on these {measurement.n:,} cases")


def _sums(source: RestartSource, statistic: str, values: FloatArray) -> list[ItemSums]:
    """Return the sums of each restart, which give its value.

    Raises:
        UndefinedError: there are none, or they give another value.
    """
    sums = sums_of_restarts(source.item_sums, statistic, len(values))
    totals = np.array([one.total for one in sums])
    if not np.allclose(totals, values, rtol=FLOAT_NOISE, atol=FLOAT_NOISE):
        raise UndefinedError("the value of a restart is not that of its items")
    return sums


def _why_not_crossed(measurement: Measurement, statistic: str, error: UndefinedError) -> str:
    try:
        sums_of_restarts(measurement.item_sums, statistic, 1)
    except UndefinedError as own:
        return str(own)
    return _NOT_STORED if str(error).startswith("no sums of ") else str(error)
