"""Shared by the families of score bias by occupation: their statistics, sums, figures, records and null control."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.score_bias import aggregate_bias, exchanged_biases, signed_bias
from pytest_genderbias.statistics.sums import score_bias_sums, squared_deviation_sums, take_arrays, template_bias_sums
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.suites.statistic import SIGNED, SIZE, Arrays, FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Record, SummaryBuilder

_FEW = "the occupations that vary are too few among those scored"


def occupation_sums(options: Options, arrays: Arrays, absolute: bool) -> ItemSums:
    """Return the sums of AOB (``absolute``) or signed AOB, by occupation and, unless only the bias was stored, by
    template.

    Raises:
        UndefinedError: the arrays have no bias.
    """
    if "template_difference" in arrays:
        labels, differences, templates = take_arrays(arrays, "occupation", "template_difference", "template")
        return template_bias_sums(labels, differences, templates, absolute)
    labels, bias = take_arrays(arrays, "occupation", "bias")
    return score_bias_sums(labels, bias, absolute)


def squared_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of the root mean square of the groups' deviations, by occupation.

    Raises:
        UndefinedError: there is one template only.
    """
    labels, squares = take_arrays(arrays, "occupation", "squares")
    return squared_deviation_sums(labels, squares, "occupations")


def bias_statistics(aggregate: str, signed: str) -> dict[str, FamilyStatistic]:
    """Return AOB and signed AOB, given what they mean in words."""
    return {
        "aggregate_bias": FamilyStatistic(
            SIZE, aggregate, partial(occupation_sums, absolute=True), partner="signed_bias", crossed=True
        ),
        "signed_bias": FamilyStatistic(SIGNED, signed, partial(occupation_sums, absolute=False), crossed=True),
    }


def scores_by_group(answer: Answer, contexts: int, groups: int = 2) -> FloatArray:
    """Return the scores of scored occupations, shape (occupations, contexts, groups)."""
    return np.asarray(answer.values[:, :, 0].reshape(len(answer.units), contexts, groups), dtype=np.float64)


def bias_figures(bias: FloatArray) -> SummaryBuilder:
    """Return AOB and signed AOB with intervals over occupations, from the bias of each occupation."""
    ones = np.ones(len(bias))
    figures = SummaryBuilder(("aggregate_bias", "signed_bias"))
    figures.take(
        "aggregate_bias",
        lambda: aggregate_bias(bias),
        lambda: clustered_mean_interval(np.abs(bias), ones, "occupations", bounds=(0.0, np.inf)),
        _FEW,
    )
    figures.take(
        "signed_bias", lambda: signed_bias(bias), lambda: clustered_mean_interval(bias, ones, "occupations"), _FEW
    )
    return figures


def bias_records(
    labels: Sequence[str], bias: FloatArray, means: Sequence[Sequence[float]], groups: tuple[str, str]
) -> list[Record]:
    """Return a record for each occupation, the most biased first; ``means`` are its mean scores by group."""
    records: list[Record] = [
        {
            "occupation": label,
            "bias": float(b),
            "preferred": groups[0] if b > 0 else groups[1] if b < 0 else "neither",
            **{group: float(mean) for group, mean in zip(groups, of_groups, strict=True)},
        }
        for label, b, of_groups in zip(labels, bias, means, strict=True)
    ]
    return sorted(records, key=lambda record: (-abs(record["bias"]), record["occupation"]))


def shuffled_biases(answer: Answer, contexts: int, repeats: int, seed: int) -> NullFigures:
    """Return AOB and signed AOB after the groups were exchanged at random."""
    scores = scores_by_group(answer, contexts)
    bias = exchanged_biases(scores[:, :, 0], scores[:, :, 1], repeats, seed)
    return {"aggregate_bias": np.abs(bias).mean(axis=1), "signed_bias": bias.mean(axis=1)}
