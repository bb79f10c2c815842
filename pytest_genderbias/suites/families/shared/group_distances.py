"""Shared by suites of classifications: independence, separation and sufficiency as statistics (orgad2022, sections 2.1
and A.4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.distances import MEASURES, DistanceFigure, distance_figure
from pytest_genderbias.suites.family import Option, one_of
from pytest_genderbias.suites.statistic import SIZE, Drawn, FamilyStatistic, FloatArray, MakeSums
from pytest_genderbias.suites.summary import Summary

LABELS, PROBABILITIES = "labels", "probabilities"
OUTPUT_OPTION: Mapping[str, Option] = {
    "output": one_of(
        LABELS,
        PROBABILITIES,
        meaning=(
            "what independence, separation and sufficiency compare: predicted labels, as the reference code of"
            " orgad2022 does, or the probabilities of all classes, as its text says"
        ),
        implied=True,
    )
}
_MEANINGS = {
    "independence": "KL of predictions given group from all predictions",
    "separation": "KL of predictions given class and group from those given class",
    "sufficiency": "Wasserstein distance of gold classes given prediction and group from those given prediction",
}
_WITHOUT_CHANCE = {"separation": "tpr_gap_rms", "sufficiency": "precision_gap_rms"}
#: Why a figure has no value.
_LACKING: Mapping[DistanceFigure, str] = {
    "sum": "a group has no cases to compare",
    "gap": "no class has cases of both groups to compare",
}
_FIGURES: tuple[tuple[str, DistanceFigure], ...] = (
    ("independence", "sum"),
    ("separation", "sum"),
    ("separation", "gap"),
    ("sufficiency", "sum"),
    ("sufficiency", "gap"),
)
DISTANCES = tuple(f"{measure}_{figure}" for measure, figure in _FIGURES)  #: names of the statistics


def distance_statistics(
    make_sums: Callable[[str, DistanceFigure], MakeSums], draws: Drawn | str = ""
) -> dict[str, FamilyStatistic]:
    """Return the sum of each distance, and the sum over classes of the difference between groups in separation and
    sufficiency.

    Args:
        make_sums: returns the function that makes the item sums of a measure and a figure.
        draws: as in :class:`~pytest_genderbias.suites.statistic.FamilyStatistic`.
    """
    statistics = {}
    for measure, figure in _FIGURES:
        name = f"{measure}_{figure}"
        statistics[name] = FamilyStatistic(
            SIZE,
            (
                f"sum of the {_MEANINGS[measure]}"
                if figure == "sum"
                else f"sum over classes of the difference between groups in {measure}"
            ),
            make_sums(measure, figure),
            plot="value",
            draws=draws,
            mistakes="accuracy",
            without_chance=_WITHOUT_CHANCE.get(measure),
        )
    return statistics


def take_distances(figures: Summary, tables: Mapping[str, ArrayLike], no_interval: str) -> None:
    """Add the value of each distance, from the table of each measure: cases by group, class and prediction, shape (2,
    K, R).
    """
    for measure, figure in _FIGURES:
        figures.take(f"{measure}_{figure}", partial(_value, measure, figure, tables[measure]), no_interval=no_interval)


def _value(measure: str, figure: DistanceFigure, tables: ArrayLike) -> float:
    value = float(distance_figure(MEASURES[measure](tables), figure))
    if math.isnan(value):
        raise UndefinedError(_LACKING[figure])
    return value


def shuffled_distances(tables: Mapping[str, ArrayLike]) -> dict[str, FloatArray]:
    """Return the distances of shuffled tables of each measure, shape (repeats, 2, K, R) to (repeats,) for each
    statistic.
    """
    distances = {measure: MEASURES[measure](shuffled) for measure, shuffled in tables.items()}
    return {f"{measure}_{figure}": distance_figure(distances[measure], figure) for measure, figure in _FIGURES}
