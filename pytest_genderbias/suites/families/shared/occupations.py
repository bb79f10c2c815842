"""Shared by the families of bias by occupation: score bias with its sums, figures, records and null control, and lines
against the share of women.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pytest_genderbias.statistics import sums
from pytest_genderbias.statistics.correlation import pearson, pearson_interval, slope, slope_interval
from pytest_genderbias.statistics.inference.intervals import clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.score_bias import aggregate_bias, exchanged_biases, score_bias, signed_bias
from pytest_genderbias.suites.cases import Answer, Items, take_arrays
from pytest_genderbias.suites.statistic import SIGNED, SIGNED_SHARE, SIZE, Arrays, FamilyStatistic, NullFigures, Options
from pytest_genderbias.suites.summary import Examples, Record, Summary, examples_of, rows_of, text_of_versions


def occupation_sums(options: Options, arrays: Arrays, absolute: bool) -> ItemSums:
    """Return the sums of AOB (``absolute``) or signed AOB, by occupation and, unless only the bias was stored, by
    template.

    Raises:
        UndefinedError: the arrays have no bias.
    """
    if "template_difference" in arrays:
        labels, differences, templates = take_arrays(arrays, "occupation", "template_difference", "template")
        return sums.template_bias_sums(labels, differences, templates, absolute)
    labels, bias = take_arrays(arrays, "occupation", "bias")
    return sums.score_bias_sums(labels, bias, absolute)


def squared_sums(options: Options, arrays: Arrays) -> ItemSums:
    """Return the sums of the root mean square of the groups' deviations, by occupation.

    Raises:
        UndefinedError: there is one template only.
    """
    labels, squares = take_arrays(arrays, "occupation", "squares")
    return sums.squared_deviation_sums(labels, squares, "occupations")


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


def bias_summary(
    statistics: Mapping[str, FamilyStatistic],
    answer: Answer,
    labels: Sequence[str],
    scores: FloatArray,
    means: FloatArray,
    groups: Sequence[str],
    templates: Sequence[str],
    what: str = "ln P",
    notes: Sequence[str] = (),
) -> Summary:
    """Return AOB and signed AOB with intervals over occupations.

    Args:
        statistics: of the family.
        answer: to the question about the occupations.
        labels: names of the scored occupations.
        scores: as of :func:`scores_by_group`.
        means: of the scores of each occupation by group, shape (occupations, 2).
        groups: names of the two groups.
        templates: the contexts.
        what: what a score is.
        notes: remarks for the reader.
    """
    bias, ones = score_bias(scores[:, :, 0], scores[:, :, 1]), np.ones(len(scores))
    figures = Summary(statistics)
    figures.take(
        "aggregate_bias",
        lambda: aggregate_bias(bias),
        lambda: clustered_mean_interval(np.abs(bias), ones, "occupations", bounds=(0.0, np.inf)),
        over="occupations",
    )
    figures.take(
        "signed_bias",
        lambda: signed_bias(bias),
        lambda: clustered_mean_interval(bias, ones, "occupations"),
        over="occupations",
    )
    items: Items = {"occupation": np.asarray(labels), "bias": bias}
    by_template = {"template": np.asarray(templates), "template_difference": scores[:, :, 0] - scores[:, :, 1]}
    records = records_of_groups({"occupation": labels, "bias": bias}, groups, means)
    examples = examples_of_versions(labels, answer, scores, groups, what)
    return replace(figures, records=records, items=items, notes=notes, unstored=by_template, examples=examples)


def records_of_groups(
    columns: Mapping[str, Sequence[Any] | FloatArray],
    groups: Sequence[str],
    means: FloatArray,
    more: Mapping[str, FloatArray] | None = None,
    middle: float = 0.0,
) -> list[Record]:
    """Return a record for each unit, those farthest from ``middle`` first.

    Args:
        columns: by name: the labels of the units, their values, and what else is known of them.
        groups: names of the two groups.
        means: the mean score of each group, shape (n, 2).
        more: further columns, after the group that is preferred.
        middle: the value that others are held against.
    """
    label, value, *_ = columns
    preferred = [groups[0] if b > 0 else groups[1] if b < 0 else "neither" for b in columns[value]]
    rows = rows_of({**columns, "preferred": preferred, **(more or {}), **dict(zip(groups, means.T, strict=True))})
    return sorted(rows, key=lambda row: (-abs(row[value] - middle), row[label]))


def examples_of_versions(
    labels: Sequence[str], answer: Answer, scores: FloatArray, groups: Sequence[str], what: str = "ln P"
) -> Examples:
    """Return an example for each occupation: its first two sentences, and the scores of the groups in its first
    context.

    Args:
        labels: names of the scored occupations.
        answer: to the question about them.
        scores: as of :func:`scores_by_group`.
        groups: names of the groups.
        what: what a score is.
    """
    figures = {f"{what} ({group})": scores[:, 0, place] for place, group in enumerate(groups)}
    return examples_of(labels, np.arange(len(labels)), answer.units, partial(text_of_versions, answer.cases), figures)


def shuffled_biases(scores: FloatArray, repeats: int, seed: int) -> NullFigures:
    """Return AOB and signed AOB after the groups were exchanged at random; ``scores`` as of :func:`scores_by_group`."""
    bias = exchanged_biases(scores[:, :, 0], scores[:, :, 1], repeats, seed)
    return {"aggregate_bias": np.abs(bias).mean(axis=1), "signed_bias": bias.mean(axis=1)}


def line_sums(
    options: Options,
    arrays: Arrays,
    figure: sums.LineFigure,
    unit: str,
    value: str,
    over: str,
    x_of: Callable[[FloatArray], FloatArray] | None = None,
) -> ItemSums:
    """Return the sums of a figure of values against the share of women, by unit and, where there are some, by template.

    Args:
        options: of the measurement.
        arrays: ``unit`` and ``share``, shape (n,), and ``value``: shape (n,); where there are templates, also
            ``template``, shape (t,), the sums ``template_VALUE`` and, unless each is one value, their numbers
            ``template_n``, shape (n, t).
        figure: r, the slope, or the mean absolute value.
        unit: name of the array with the units.
        value: name of the array with their values.
        over: what a unit is, in the plural.
        x_of: makes of the shares what the values are held against; by default the shares themselves.
    """
    labels, share, y = take_arrays(arrays, unit, "share", value)
    x = share if x_of is None else x_of(share)
    if f"template_{value}" in arrays:
        templates, totals = take_arrays(arrays, "template", f"template_{value}")
        n = arrays.get("template_n", np.ones_like(totals))
        return sums.template_line_sums(labels, templates, x, totals, n, figure, over)
    return sums.line_sums(labels, x, y, figure, over)


def line_statistics(
    r: str, slope: str, unit: str, value: str, over: str, crossed: bool = True
) -> dict[str, FamilyStatistic]:
    """Return r and slope of values against the share of women, given what they mean in words; the other arguments as of
    :func:`line_sums`.
    """
    of = partial(partial, line_sums, unit=unit, value=value, over=over)
    return {
        "pearson_r": FamilyStatistic(SIGNED_SHARE, r, of(figure="pearson"), plot="scatter", crossed=crossed),
        "slope": FamilyStatistic(SIGNED, slope, of(figure="slope"), plot="scatter", crossed=crossed),
    }


def take_line(figures: Summary, share: FloatArray, values: FloatArray, over: str) -> None:
    """Add r and slope of values against the share of women, each of shape (n,), with intervals over units."""
    few = f"too few {over}, or all on a line"
    figures.take("pearson_r", lambda: pearson(share, values), lambda: pearson_interval(share, values, over), few)
    figures.take("slope", lambda: slope(share, values), lambda: slope_interval(share, values, over), few)
