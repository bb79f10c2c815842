"""What one more training of the same model changes, by the packaged table of real trainings (``fixtures/retraining``).

The items of a suite say nothing of other trainings. The table holds, by kind of model, suite and statistic, how much trainings differ
that are equal but for the seed, as ratios to the standard error over items. ``docs/evidence/retraining.md`` describes the trainings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from pytest_genderbias.measurement.ability import role_of_abilities
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import sums_of_restarts
from pytest_genderbias.models.roles import CAUSAL_LM, MASKED_LM, NLI_CLASSIFIER, TEXT_CLASSIFIER
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.inference.paired import REPETITIONS
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import LocatedMap, read_yaml, take

NORMAL = 1.96  #: half the width of a 95 % interval, in standard errors
FIGURES = ("spread", "paired", "beyond")
_ARCHITECTURES = {"MaskedLM": MASKED_LM, "CausalLM": CAUSAL_LM, "LMHeadModel": CAUSAL_LM}  #: parts of their names
_FAMILIES = {"nli": NLI_CLASSIFIER, "bios": TEXT_CLASSIFIER}  #: families of suites that are made for one kind


@dataclass(frozen=True)
class Retraining:
    """How much a statistic differs between two equal trainings, in units of the statistic.

    Attributes:
        spread: standard deviation over trainings that differ in the seed only; ``None`` where nothing is known.
        paired: standard error of a difference of two of them, item by item; ``None`` where the statistic is not made of items.
        beyond: the part of ``spread`` that paired items do not show: the difference of two trainings has a variance of 2 ``beyond``
            squared besides that of the items.
        unit: distance from neutral of a public model; ``None`` where none was measured.
        source: where the figures come from, for a line of a report.
        known: whether the suite itself was measured on trainings of this kind of model.
    """

    spread: float | None
    paired: float | None
    beyond: float | None
    unit: float | None
    source: str
    known: bool


@dataclass(frozen=True)
class _Table:
    """The trainings of one kind of model.

    ``rows`` holds figures by suite and statistic. ``cases`` is the number of cases that the trainings were measured on, where
    users bring the cases: the standard error falls with their number, and what a training moves does not.
    """

    kind: str
    base: str
    trainings: int
    cases: int | None
    default: Mapping[str, float]
    rows: Mapping[str, Mapping[str, Mapping[str, float | None]]]


def retraining_of(measurement: Measurement, statistic: str) -> Retraining:
    """Return how much a statistic would differ after another training of the same model.

    A suite without a row takes the default of its kind of model; another kind of model, the median of the defaults.

    Args:
        measurement: of one checkpoint or of restarts.
        statistic: name of a statistic of the measurement.
    """
    kind = kind_of(measurement)
    table = _tables().get(kind)
    row = {} if table is None else table.rows.get(measurement.suite, {}).get(statistic, {})
    if table is None:
        source = f"packaged default for other kinds of model: the median of {len(_tables())}"
        figures: Mapping[str, float | None] = _median_default()
    elif row:
        source, figures = f"packaged: {table.trainings} trainings of {table.base}", row
    else:
        source = f"packaged default for {kind}s: {table.trainings} trainings of {table.base}, other suites"
        figures = table.default
    scale = 1.0 if row.get("absolute") else standard_error(measurement, statistic)
    spread, paired, beyond = (_times(scale, figures[name]) for name in FIGURES)
    if table is not None and table.cases and beyond is not None and spread is not None:
        growth = max(1.0, measurement.n / table.cases)
        spread, beyond = float(np.sqrt(spread**2 + (growth - 1) * beyond**2)), float(np.sqrt(growth)) * beyond
    return Retraining(spread, paired, beyond, row.get("unit"), source, bool(row))


def kind_of(measurement: Measurement) -> str:
    """Return the kind of the model; an empty text if it is not known.

    It is the role by the control items that the model was asked, else the only kind whose table has the suite or the main statistic, else
    the kind by the architecture, else the kind that the suite's family is made for.
    """
    if role := role_of_abilities(measurement.abilities):
        return role
    tables = _tables().values()
    of_suite = [table.kind for table in tables if measurement.suite in table.rows]
    of_main = [table.kind for table in tables if any(measurement.main in rows for rows in table.rows.values())]
    for kinds in (of_suite, of_main):
        if len(kinds) == 1:
            return kinds[0]
    architecture = str(measurement.signature["model"].get("architecture", ""))
    family = str(measurement.signature["definition"]).partition("/")[0]
    return next((kind for part, kind in _ARCHITECTURES.items() if part in architecture), _FAMILIES.get(family, ""))


def standard_error(measurement: Measurement, statistic: str) -> float | None:
    """Return the standard error of a statistic over items; ``None`` where none is known.

    That of restarts is the mean of theirs, by the jackknife over units: their interval is over restarts. One checkpoint that keeps the
    spread of earlier restarts has an interval of its own.
    """
    interval = measurement.intervals[statistic]
    if measurement.restarts and (interval is None or interval.over in REPETITIONS):
        return _error_of_restarts(measurement, statistic)
    return None if interval is None else (interval.high - interval.low) / 2 / NORMAL


def _error_of_restarts(measurement: Measurement, statistic: str) -> float | None:
    try:
        each = [_jackknife(sums) for sums in sums_of_restarts(measurement.item_sums, statistic, measurement.restarts)]
    except UndefinedError:
        return None
    return float(np.mean(each)) if np.isfinite(each).all() else None


def _jackknife(sums: ItemSums) -> float:
    """Return the standard error of a statistic from its values without each unit (Efron 1982, section 3)."""
    rows = sums.by_unit()
    without = rows.value(np.asarray(rows.sums, dtype=np.float64).sum(axis=0) - rows.sums)
    return float(np.sqrt((len(without) - 1) * np.var(without)))


def _times(scale: float | None, ratio: float | None) -> float | None:
    return None if scale is None or ratio is None else scale * ratio


@cache
def _tables() -> Mapping[str, _Table]:
    """Read the tables once, by kind of model."""
    files = sorted((packaged.folder("fixtures") / "retraining").glob("*.yaml"))
    return {table.kind: table for table in map(_read, files)}


def _read(path: Path) -> _Table:
    content, what = read_yaml(path), "a table of trainings"
    return _Table(
        take(content, "kind", str, what),
        take(content, "base", str, what),
        take(content, "trainings", int, what),
        take(content, "cases", int, what, None),
        take(content, "default", LocatedMap, what),
        take(content, "suites", LocatedMap, what),
    )


@cache
def _median_default() -> Mapping[str, float | None]:
    tables = _tables().values()
    if not tables:
        return dict.fromkeys(FIGURES)
    return {name: float(np.median([table.default[name] for table in tables])) for name in FIGURES}
