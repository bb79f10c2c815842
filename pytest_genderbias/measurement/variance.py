"""The variance of a suite's values on a model, by source: items, templates, seeds and the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.plain_data import Stored
from pytest_genderbias.measurement.restarts import sums_of_restarts
from pytest_genderbias.statistics.inference.two_way import template_groups
from pytest_genderbias.statistics.inference.variance_shares import VarianceShare, score_table, variance_shares

SEEDS = "seeds"


@dataclass(frozen=True)
class ValueVariance(Stored):
    """The sources of variance of a statistic of a suite on a model, or why they are not known.

    Attributes:
        suite: name of the suite.
        model: name of the model.
        statistic: name of the statistic.
        shares: of items, templates (or what items are crossed with), seeds if there are restarts, and the rest; none if
            not known.
        reason: why they are not known.
    """

    called: ClassVar[str] = "variance"

    suite: str
    model: str
    statistic: str
    shares: tuple[VarianceShare, ...] = ()
    reason: str = ""


def value_variance(measurement: Measurement, statistic: str | None = None) -> ValueVariance:
    """Return the sources of variance of a statistic, the main one by default.

    Seeds are among them where the measurement is one over restarts. Suites are crossed with a few templates (NLI suites
    with one template: with the words of the hypothesis); scores of cells are those of
    :func:`~pytest_genderbias.statistics.inference.variance_shares.score_table`. Of templates that the models read alike
    the first stands for all of them.

    Raises:
        UnknownNameError: the suite has no such statistic.
    """
    name = measurement.statistic(statistic)
    try:
        if measurement.restarts:
            sums = sums_of_restarts(measurement.item_sums, name, measurement.restarts)
        else:
            sums = [measurement.item_sums(name)]
        first = sums[0]
        if measurement.restarts and any(one.templates is None for one in sums):
            raise UndefinedError(f"the {first.over} of restarts are not known by template; measure one of them")
        sources = [first.over, first.across.removesuffix(" in 1 template"), *([SEEDS] if len(sums) > 1 else [])]
        tables = [score_table(one) for one in sums]
        if len({table.shape for table in tables}) > 1:
            raise UndefinedError("the restarts have other items")
        table = np.stack(tables, axis=-1) if len(tables) > 1 else tables[0]
        if (groups := template_groups(*sums)) is not None:
            table = table[:, np.unique(groups, return_index=True)[1]]
        return ValueVariance(measurement.suite, measurement.model, name, tuple(variance_shares(table, sources)))
    except UndefinedError as error:
        return ValueVariance(measurement.suite, measurement.model, name, reason=str(error))


def all_variances(measurements: Iterable[Measurement]) -> list[ValueVariance]:
    """Return the sources of variance of each statistic that has any, and the reason why where the main one has none."""
    known: dict[tuple[str, str, str], ValueVariance] = {}
    for measurement in sorted(measurements, key=lambda measurement: -measurement.n):  # that with most cases is shown
        for statistic in measurement.values:
            variance = value_variance(measurement, statistic)
            if variance.shares or statistic == measurement.main:
                known.setdefault((measurement.suite, measurement.model, statistic), variance)
    return [known[key] for key in sorted(known)]
