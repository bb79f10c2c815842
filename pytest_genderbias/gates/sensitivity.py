"""The spread of figures over equal trainings, and the smallest worsening that a gate sees: one that fails in most
releases.

The items of a suite say nothing of other trainings. A table of real trainings (``fixtures/retraining``) holds, by kind
of model, suite and statistic, how much trainings differ that are equal but for the seed, as ratios to the standard
error over items. ``docs/evidence/retraining.md`` describes the trainings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.gates.judgement import Seen
from pytest_genderbias.gates.policy import WITHOUT, Margin
from pytest_genderbias.gates.verdicts import FLOAT_NOISE, ONE_SIDED, Correction
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import EARLIER, restarts_of, sums_of_restarts
from pytest_genderbias.models.roles import CAUSAL_LM, MASKED_LM, NLI_CLASSIFIER, TEXT_CLASSIFIER, role_of_tasks
from pytest_genderbias.statistics.inference.detectable import (
    red_from,
    restarts_like,
    seen_over_items,
    seen_over_restarts,
)
from pytest_genderbias.statistics.inference.intervals import Interval, t_quantile
from pytest_genderbias.statistics.inference.item_sums import REPETITIONS, Arrays, ItemSums
from pytest_genderbias.statistics.inference.over_restarts import PRIOR_FREEDOM, Prior, moderated_variance
from pytest_genderbias.statistics.inference.paired import Distance
from pytest_genderbias.statistics.inference.two_way import two_way_interval
from pytest_genderbias.suites.family import ITEMS_KEY, WIDE
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.printable import counted, format_number, format_share
from pytest_genderbias.text.schema import LocatedMap, read_located, refuse_unknown

MOST = 0.5  #: growth that a gate has to see by default (``bias_sees``)
_RESTARTS = (3, 5, 10)  #: numbers of restarts that advice names

NORMAL = 1.96  #: half the width of a 95 % interval, in standard errors
FIGURES = ("spread", "paired", "beyond")
ROW = (*FIGURES, "unit", "response", "log_odds", "absolute", "trainings", "items", "value")  #: keys of a statistic
AGREE = 2.5  #: where another network of the kind differs more than so many times as much, restarts borrow little
LITTLE = 0.5  #: degrees of freedom of what they borrow then (docs/evidence/coverage-restarts.md)
_ARCHITECTURES = {"MaskedLM": MASKED_LM, "CausalLM": CAUSAL_LM, "LMHeadModel": CAUSAL_LM}  #: parts of their names
_FAMILIES = {"nli": NLI_CLASSIFIER, "bios": TEXT_CLASSIFIER}  #: families of suites that are made for one kind


def seen_by(
    measurement: Measurement,
    statistic: str,
    tests: int = 1,
    allowed: Margin = WITHOUT,
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
    return f"would see a growth of {seen.in_words}; a gate has to see +{format_share(most)} (bias_sees)"


def what_would_help(measurement: Measurement, statistic: str, most: float, tests: int) -> list[str]:
    """Return what makes a gate see enough, each with what it would see then: restarts, and other statistics of the
    suite.

    Args:
        measurement: what is to be stored.
        statistic: name of the statistic.
        most: the growth that a gate has to see.
        tests: number of comparisons that its bounds hold for together.
    """
    value, known = measurement.values[statistic], restarts_of(measurement.items, statistic)
    retraining, stored = retraining_of(measurement, statistic), spread_of(measurement.items, statistic)
    spread = retraining.spread if stored is None else stored.spread
    unit, helps = _unit(measurement, statistic, retraining), []
    for k in _RESTARTS:
        if spread and value is not None and (known is None or k > len(known)):
            with suppress(UndefinedError):
                seen = _over_restarts(measurement, statistic, unit, restarts_like(value, spread, k), tests)
                sees_enough = not why_too_weak(measurement, statistic, seen, most)
                helps += [f"{seen.in_words} with {k} restarts"] if sees_enough else []
    no_bias = {statistic, "accuracy", "perplexity", *(about.mistakes for about in measurement.statistics.values())}
    enough = [
        (one.growth, f"{one.in_words} with the statistic {name}")
        for name, about in measurement.statistics.items()
        if name not in no_bias and not about.no_gate and measurement.values.get(name) is not None
        if (one := seen_by(measurement, name, tests)) and not why_too_weak(measurement, name, one, most)
    ]
    return helps + [text for _, text in sorted(enough, key=lambda pair: pair[0])[:1]]


def _over_items(
    measurement: Measurement, statistic: str, unit: float, retraining: Retraining, tests: int, allowed: Margin
) -> Seen:
    """Return what a gate sees on one checkpoint, whose other trainings are the packaged ones.

    Raises:
        UndefinedError: the statistic has no interval over items.
    """
    paired, beyond, spread = retraining.paired, retraining.beyond, retraining.spread
    if paired is None or beyond is None or spread is None or measurement.intervals[statistic] is None:
        raise UndefinedError("no interval over items")
    sums = measurement.item_sums(statistic)
    units = sums.labels if sums.clusters is None else sums.clusters  # which a comparison would pair
    level, freedom = Correction(tests).level, max(1.0, len(np.unique(units)) - 1.0)
    margin, of_two = allowed.tolerance, math.sqrt(2)  # a difference has twice the variance
    error = paired * NORMAL / t_quantile(ONE_SIDED, freedom)  # half the width of its bounds over t
    size = seen_over_items(error, of_two * beyond, freedom, level, tolerance=margin, trainings=of_two * spread)
    red = margin + math.hypot(t_quantile(level, freedom) * error, t_quantile(level, math.inf) * of_two * beyond)
    return Seen(size, unit, red, retraining.source)


def _over_restarts(
    measurement: Measurement, statistic: str, unit: float, values: ArrayLike, tests: int, allowed: Margin = WITHOUT
) -> Seen:
    """Return what a gate sees over restarts.

    Raises:
        UndefinedError: so few restarts say nothing of others.
    """
    about, level = measurement.statistics[statistic], Correction(tests).level
    prior = prior_of(measurement, statistic, measurement.items)
    margin, known = allowed.tolerance, np.asarray(values, dtype=np.float64)
    distance: Distance = about.distance
    size = seen_over_restarts(known, distance, prior, level, tolerance=margin, root=about.root)
    ends = np.array([red_from(known, distance, prior, level, margin, about.root), known.mean()])
    red = float(-np.diff(distance(ends))[0])
    earlier = "the restarts before this checkpoint"  # their spread is known, and their values are not
    return Seen(size, unit, red, earlier if len(known) == 1 else counted(len(known), "restarts"))


def _unit(measurement: Measurement, statistic: str, retraining: Retraining) -> float:
    """Return the worsening that counts as a growth of 100 %; 0 where rounding alone makes it."""
    value, about = measurement.values[statistic], measurement.statistics[statistic]
    unit = max(0.0 if value is None else about.distance(value), retraining.unit or 0.0)
    return unit if unit > FLOAT_NOISE else 0.0


def _room(measurement: Measurement, statistic: str) -> float:
    """Return how much a value can worsen."""
    about, value = measurement.statistics[statistic], measurement.values[statistic]
    _, worst = about.distances
    return math.inf if value is None else worst - about.distance(value)


@dataclass(frozen=True)
class Retraining:
    """How much a statistic differs between two equal trainings, in units of the statistic.

    Of several networks whose trainings are packaged, it is the one whose trainings differ most: one checkpoint does not
    show how far its own trainings lie apart.

    Attributes:
        spread: standard deviation over trainings that differ in the seed only; ``None`` where nothing is known.
        paired: standard error of a difference of two of them, item by item; ``None`` where the statistic is not made of
            items.
        beyond: the part of ``spread`` that paired items do not show: the difference of two trainings has a variance of
            2 ``beyond`` squared besides that of the items.
        unit: distance from neutral of a public model, or what a dose of bias of 70 moves where that is more and known;
            ``None`` where neither is.
        source: where the figures come from, for a line of a report.
        known: whether the suite itself was measured on trainings of this kind of model.
        abilities: standard deviation of each ability over such trainings, by name.
        freedom: degrees of freedom of these standard deviations.
        prior: what restarts borrow: the spread of the network with the most trainings, and how much it weighs.
    """

    spread: float | None
    paired: float | None
    beyond: float | None
    unit: float | None
    source: str
    known: bool
    abilities: Mapping[str, float] = field(default_factory=dict)
    freedom: float = math.inf
    prior: Prior | None = None


@dataclass(frozen=True)
class _Table:
    """The trainings of one network.

    ``suites`` holds figures by suite and statistic. ``cases`` is the number of cases that the trainings were measured
    on, where users bring the cases: the standard error falls with their number, and what a training moves does not.
    ``abilities`` has the standard deviation of each ability over trainings. ``default`` is for suites without a row;
    some kinds have none. ``unit_of``: the model whose distances from neutral are the units.
    """

    noun: ClassVar[str] = "table of trainings"
    kind: str
    base: str
    source: str
    date: str
    trainings: int
    unit_of: str
    abilities: Mapping[str, float]
    suites: Mapping[str, Mapping[str, Mapping[str, Any]]]
    default: Mapping[str, float] | None = None
    cases: int | None = None


def retraining_of(measurement: Measurement, statistic: str) -> Retraining:
    """Return how much a statistic would differ after another training of the same model.

    A suite without a row, or with a unit only, takes the default of its kind of model; a kind without one takes the
    median of the defaults.
    What moves a share as a whole is known by its log odds: the standard error over items of one checkpoint is no
    yardstick of it.

    Args:
        measurement: of one checkpoint or of restarts.
        statistic: name of a statistic of the measurement.
    """
    kind, wide = kind_of(measurement), measurement.signature["settings"].get(ITEMS_KEY) == WIDE
    suite = f"{measurement.suite} {WIDE}" if wide else measurement.suite  # a wide set of items has rows of its own
    tables = [table for table in _tables() if table.kind == kind]
    rows = [(table, table.suites.get(suite, {}).get(statistic, {})) for table in tables]
    table, row = max(rows, key=lambda pair: pair[1].get("spread", 0.0), default=(None, {}))
    if table is not None and "spread" in row:
        source = f"packaged: {row.get('trainings', table.trainings)} trainings of {table.base}"
        figures: Mapping[str, float | None] = row
    elif table is None or table.default is None:
        source = f"packaged default for other kinds of model: the median of {len(_defaults())}"
        figures = {name: float(np.median([of[name] for of in _defaults()])) for name in FIGURES}
    else:
        source = f"packaged default for {kind}s: {table.trainings} trainings of {table.base}, other suites"
        figures = table.default
    scale = 1.0 if row.get("absolute") else standard_error(measurement, statistic)
    spread, paired, beyond = (
        None if scale is None or ratio is None else scale * ratio for ratio in (figures[name] for name in FIGURES)
    )
    if (log_odds := row.get("log_odds")) is not None and measurement.values[statistic] is not None:
        spread = beyond = _moved_share(measurement, statistic, log_odds)
    if table is not None and table.cases and beyond is not None and spread is not None:
        growth = max(1.0, measurement.n / table.cases)
        spread, beyond = float(np.sqrt(spread**2 + (growth - 1) * beyond**2)), float(np.sqrt(growth)) * beyond
    first = rows[0][1] if rows else {}
    units = (first.get("unit"), *(of.get("response") for _, of in rows))
    unit = max((one for one in units if one is not None), default=None)
    apart = row["spread"] / first["spread"] if "spread" in first else 1.0
    prior = Prior(spread / apart, PRIOR_FREEDOM if apart <= AGREE else LITTLE) if spread else None
    abilities = _spread_of_abilities(measurement, tables)
    freedom = min((one.trainings for one in tables or _tables()), default=math.inf) - 1
    return Retraining(spread, paired, beyond, unit, source, "spread" in row, abilities, freedom, prior)


def _moved_share(measurement: Measurement, statistic: str, log_odds: float) -> float:
    """Return how far another training moves a share to the worse side, as a standard deviation in units.

    ``log_odds`` is the standard deviation of its log odds over trainings, so that no bound passes the end of the range.
    It is taken at the bound of a difference of two trainings at 97.5 %.
    """
    value, about = measurement.values[statistic], measurement.statistics[statistic]
    assert value is not None  # the caller knows
    least = 1e-9
    odds = math.log(max(value, least)) - math.log(max(1 - value, least))
    reach = NORMAL * math.sqrt(2) * log_odds
    ends = [1 / (1 + math.exp(-(odds + side * reach))) for side in (-1, 1)]
    return max(float(about.distance(end)) - float(about.distance(value)) for end in ends) / NORMAL / math.sqrt(2)


def _spread_of_abilities(measurement: Measurement, tables: list[_Table]) -> Mapping[str, float]:
    """Return the standard deviation of each ability over trainings, by name: the largest of the networks.

    An ability that no packaged training of this kind of model was asked has the median of those that others were.
    """
    usual = float(np.median([spread for one in _tables() for spread in one.abilities.values()] or [0.0]))
    own = {name: max(of.abilities.get(name, 0.0) for of in tables) for of in tables for name in of.abilities}
    return {one.name: own.get(one.name, usual) for one in measurement.abilities}


def earlier_spread(items: Arrays, statistic: str) -> Prior | None:
    """Return the spread of the restarts whose place the stored ones took; ``None`` if they took nobody's."""
    kept = items.get(f"{EARLIER}{statistic}")
    return None if kept is None else Prior(*map(float, kept))


def spread_of(items: Arrays, statistic: str) -> Prior | None:
    """Return the spread of the stored restarts and of those before them; ``None`` where none is known."""
    restarts, earlier = restarts_of(items, statistic), earlier_spread(items, statistic)
    if restarts is None or len(restarts) < 2:
        return earlier
    return _pooled(float(restarts.var(ddof=1)), len(restarts) - 1.0, earlier or Prior(0.0, 0.0))


def _pooled(variance: float, freedom: float, prior: Prior) -> Prior:
    variance, freedom = moderated_variance(variance, freedom, prior.spread**2, prior.freedom)
    return Prior(math.sqrt(variance), freedom)


def prior_of(measurement: Measurement, statistic: str, items: Arrays) -> Prior | None:
    """Return what is known of the spread of a restart before any is seen: of other trainings, and of the restarts whose
    place the stored ones took; ``None`` if nothing is.

    Args:
        measurement: of now.
        statistic: name of the statistic.
        items: the arrays of what is stored.
    """
    known = retraining_of(measurement, statistic).prior
    earlier = earlier_spread(items, statistic)
    if known is None or earlier is None:
        return known or earlier
    return _pooled(earlier.spread**2, earlier.freedom, known)


def kind_of(measurement: Measurement) -> str:
    """Return the kind of the model; an empty text if it is not known.

    It is the role by the control items that the model was asked, else the only kind whose table has the suite, else the
    kind by the architecture, else the only kind whose table has the main statistic, else the kind that the suite's
    family is made for.
    """
    if role := role_of_tasks({ability.name for ability in measurement.abilities}):
        return role
    of_suite = {table.kind for table in _tables() if measurement.suite in table.suites}
    of_main = {table.kind for table in _tables() if any(measurement.main in rows for rows in table.suites.values())}
    architecture = str(measurement.signature["model"].get("architecture", ""))
    of_network = {kind for part, kind in _ARCHITECTURES.items() if part in architecture}
    for kinds in (of_suite, of_network, of_main):
        if len(kinds) == 1:
            return kinds.pop()
    return _FAMILIES.get(str(measurement.signature["definition"]).partition("/")[0], "")


def standard_error(measurement: Measurement, statistic: str) -> float | None:
    """Return the standard error of a statistic over items, of which the packaged ratios are multiples; ``None`` where
    none is known.

    It is half the width of the interval over 1.96. That of restarts, whose interval is over restarts, is the mean of
    theirs, by the jackknife over units; where units are crossed with templates it is over both, as their intervals are.
    One checkpoint that keeps the spread of earlier restarts has an interval of its own.
    """
    interval = measurement.intervals[statistic]
    if measurement.restarts and (interval is None or interval.over in REPETITIONS):
        try:
            restarts = sums_of_restarts(measurement.item_sums, statistic, measurement.restarts)
            each = [_jackknife(sums, measurement.statistics[statistic].range) for sums in restarts]
        except UndefinedError:
            return None
        return float(np.mean(each)) if np.isfinite(each).all() else None
    return None if interval is None else (interval.high - interval.low) / 2 / NORMAL


def _jackknife(sums: ItemSums, limits: tuple[float, float]) -> float:
    """Return the standard error of a statistic from its values without each unit, or cluster of units (Efron 1982,
    section 3); of units crossed with templates from the interval for both.
    """
    rows = sums.by_cluster()
    without = rows.value(np.asarray(rows.sums, dtype=np.float64).sum(axis=0) - rows.sums)
    reach = NORMAL * float(np.sqrt((len(without) - 1) * np.var(without)))
    within = Interval(sums.total - reach, sums.total + reach, 0.95, sums.over, "jackknife")
    interval = two_way_interval(sums, within, limits) or within
    return (interval.high - interval.low) / 2 / NORMAL


@cache
def _tables() -> list[_Table]:
    """Read the tables once, those of the most trainings first."""
    files = sorted((packaged.folder("fixtures") / "retraining").glob("*.yaml"))
    return sorted(map(_read, files), key=lambda table: -table.trainings)


def _read(path: Path) -> _Table:
    table = read_located(_Table, read_yaml(path))
    for row in (row for of_suite in table.suites.values() for row in of_suite.values()):
        assert isinstance(row, LocatedMap)
        refuse_unknown(row, ROW, "a row of trainings")
    return table


def _defaults() -> list[Mapping[str, float]]:
    return [table.default for table in _tables() if table.default is not None]
