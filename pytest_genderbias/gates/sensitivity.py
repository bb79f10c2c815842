"""What a gate sees: the smallest true worsening that fails in most releases, and whether that is little enough for a gate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.gates.facts import Seen
from pytest_genderbias.gates.margin import Allowed
from pytest_genderbias.gates.regression import level_together
from pytest_genderbias.gates.restarts import prior_of
from pytest_genderbias.gates.retraining import Retraining, retraining_of
from pytest_genderbias.gates.wording import format_number
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import restarts_of
from pytest_genderbias.statistics.inference.detectable import (
    red_from,
    restarts_like,
    seen_over_items,
    seen_over_restarts,
)
from pytest_genderbias.statistics.inference.paired import Distance
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.student import t_quantile

MOST = 0.5  #: growth that a gate has to see by default (``bias_sees``)
_RESTARTS = (3, 5, 10)  #: numbers of restarts that advice names


def seen_by(
    measurement: Measurement,
    statistic: str,
    tests: int = 1,
    allowed: Allowed | None = None,
    retraining: Retraining | None = None,
) -> Seen | None:
    """Return what a gate sees whose baseline is a measurement; ``None`` where it has no bounds.

    Args:
        measurement: what is stored.
        statistic: name of the statistic.
        tests: number of comparisons that its bounds hold for together.
        allowed: the margin of the gate.
        retraining: what other trainings give; that of the measurement by default.
    """
    values, known = restarts_of(measurement.items, statistic), retraining or retraining_of(measurement, statistic)
    unit = _unit(measurement, statistic, known)
    try:
        if values is None:
            return _over_items(measurement, statistic, unit, known, tests, allowed)
        return _over_restarts(measurement, statistic, unit, values, tests, allowed)
    except UndefinedError:
        return None


def why_too_weak(measurement: Measurement, statistic: str, seen: Seen | None, most: float) -> str:
    """Return why a gate without a margin sees too little to be one; an empty text if it sees enough.

    Args:
        measurement: what is to be stored.
        statistic: name of the statistic.
        seen: what the gate sees; ``None`` where it has no bounds.
        most: the growth that a gate has to see.
    """
    if seen is None:
        return f"{statistic} has no bounds, so that nothing is worse than chance explains"
    room = _room(measurement, statistic)
    if seen.size >= room:
        return f"would see nothing: {statistic} can worsen by {room:.3g}, and {seen.size:.3g} would be needed"
    if seen.growth <= most:
        return ""
    if not seen.unit > 0:
        value = format_number(measurement.values[statistic])
        return (
            f"{statistic} is {value}, its neutral value: no growth is a share of that, and no public model gives a unit"
        )
    return f"would see a growth of {seen.in_words}; a gate has to see +{100 * most:.3g} % (bias_sees)"


def what_would_help(measurement: Measurement, statistic: str, most: float, tests: int) -> list[str]:
    """Return what makes a gate see enough, each with what it would see then: restarts, and other statistics of the suite.

    Args:
        measurement: what is to be stored.
        statistic: name of the statistic.
        most: the growth that a gate has to see.
        tests: number of comparisons that its bounds hold for together.
    """
    helps = [
        f"{seen.in_words} with {k} restarts"
        for k, seen in _with_restarts(measurement, statistic, tests)
        if seen.growth <= most
    ]
    others = [(name, seen) for name, seen in _others(measurement, statistic, tests) if seen.growth <= most]
    helps += [
        f"{seen.in_words} with the statistic {name}"
        for name, seen in sorted(others, key=lambda pair: pair[1].growth)[:1]
    ]
    return helps


def _over_items(
    measurement: Measurement, statistic: str, unit: float, retraining: Retraining, tests: int, allowed: Allowed | None
) -> Seen:
    """Return what a gate sees on one checkpoint, whose other trainings are the packaged ones.

    Raises:
        UndefinedError: the statistic has no interval over items.
    """
    interval = measurement.intervals[statistic]
    if retraining.paired is None or retraining.beyond is None or interval is None:
        raise UndefinedError("no interval over items")
    level, freedom = level_together(tests), max(1.0, interval.items - 1.0)
    margin, beyond = 0.0 if allowed is None else allowed.amount, math.sqrt(2) * retraining.beyond
    size = seen_over_items(retraining.paired, beyond, freedom, level, tolerance=margin)
    red = margin + math.hypot(t_quantile(level, freedom) * retraining.paired, t_quantile(level, math.inf) * beyond)
    return Seen(size, unit, red, retraining.source)


def _over_restarts(
    measurement: Measurement, statistic: str, unit: float, values: ArrayLike, tests: int, allowed: Allowed | None = None
) -> Seen:
    """Return what a gate sees over restarts.

    Raises:
        UndefinedError: so few restarts say nothing of others.
    """
    about, level, prior = measurement.statistics[statistic], level_together(tests), prior_of(measurement, statistic)
    margin, known = 0.0 if allowed is None else allowed.amount, np.asarray(values, dtype=np.float64)
    distance: Distance = about.distance
    size = seen_over_restarts(known, distance, prior, level, tolerance=margin, root=about.root)
    ends = np.array([red_from(known, distance, prior, level, margin, about.root), known.mean()])
    red = float(-np.diff(distance(ends))[0])
    return Seen(size, unit, red, f"{len(known)} restarts")


def _unit(measurement: Measurement, statistic: str, retraining: Retraining) -> float:
    """Return the worsening that counts as a growth of 100 %."""
    value, public = measurement.values[statistic], retraining.unit
    distance = 0.0 if value is None else measurement.statistics[statistic].distance(value)
    return max(distance, public or 0.0)


def _with_restarts(measurement: Measurement, statistic: str, tests: int) -> Iterator[tuple[int, Seen]]:
    """Yield what more restarts would see, if the spread is what is known of it."""
    value, known = measurement.values[statistic], restarts_of(measurement.items, statistic)
    retraining = retraining_of(measurement, statistic)
    unit = _unit(measurement, statistic, retraining)
    spread = retraining.spread if known is None or len(known) < 2 else float(np.std(known, ddof=1))
    for k in _RESTARTS:
        if spread and value is not None and (known is None or k > len(known)):
            with suppress(UndefinedError):
                yield k, _over_restarts(measurement, statistic, unit, restarts_like(value, spread, k), tests)


def _others(measurement: Measurement, statistic: str, tests: int) -> Iterator[tuple[str, Seen]]:
    tasks = {about.mistakes for about in measurement.statistics.values()} | {
        "accuracy",
        "perplexity",
    }  # which are no bias
    for name, about in measurement.statistics.items():
        if name not in {statistic, *tasks} and not about.no_gate and measurement.values.get(name) is not None:
            seen = seen_by(measurement, name, tests)
            if seen is not None and seen.size < _room(measurement, name):
                yield name, seen


def _room(measurement: Measurement, statistic: str) -> float:
    """Return how much a value can worsen."""
    about, value = measurement.statistics[statistic], measurement.values[statistic]
    _, worst = about.distances
    return math.inf if value is None else worst - about.distance(value)
