"""Functions that make the :class:`ItemSums` of gaps, distances and fills from counts of cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.block_tables import BlockTables, GapFigure, cell_columns, gap_columns
from pytest_genderbias.statistics.contingency import SIZE, fill_column
from pytest_genderbias.statistics.correlation import product_sums
from pytest_genderbias.statistics.distances import DistanceFigure
from pytest_genderbias.statistics.gap_rms import paired_columns
from pytest_genderbias.statistics.group_gaps import Rate, hits_and_trials, hits_and_trials_of
from pytest_genderbias.statistics.inference.intervals import Labels
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, distinct, mean_sums

PERSON_BLOCKS = "blocks of persons"


def absolute_gap_sums(labels: Labels, counts: FloatArray, rate: Rate, over: str) -> ItemSums:
    """Return the sums of a sum of absolute gaps between two groups.

    Not smooth: resampling units with replacement increases such a sum; exchanging the units of two models does not.

    Args:
        labels: names of the units, shape (n,).
        counts: sums of :func:`~pytest_genderbias.statistics.group_gaps.rate_counts` over the cases of each unit, (n,
            3, 2, K).
        rate: which rate.
        over: what a unit is, in the plural.
    """
    return ItemSums(labels, counts.reshape(len(counts), -1), "absolute_gaps", over, {"rate": rate})


def paired_gap_rms_sums(labels: Labels, counts: FloatArray, rate: Rate, over: str) -> ItemSums:
    """Return the sums of a root mean square of gaps whose units compare the groups, as pairs of sentences do.

    Args:
        labels: names of the units, shape (n,).
        counts: sums of :func:`~pytest_genderbias.statistics.group_gaps.rate_counts` over the cases of each unit, at
            most one of each group, (n, 3, 2, K).
        rate: which rate.
        over: what a unit is, in the plural.
    """
    hits, trials = hits_and_trials_of(counts, rate)
    return ItemSums(labels, paired_columns(hits, trials), "paired_gap_rms", over)


def gap_pearson_sums(labels: ArrayLike, counts: ArrayLike, rate: Rate, shares: ArrayLike, over: str) -> ItemSums:
    """Return the sums, over classes, of r of the gaps with the shares; a class without a gap is a unit of zeros.

    Args:
        labels: names of the classes, shape (K,).
        counts: totals of :func:`~pytest_genderbias.statistics.group_gaps.rate_counts`, shape (3, 2, K).
        rate: which rate.
        shares: of each class, NaN where it is not known, shape (K,).
        over: what a class is, in the plural.
    """
    hits, trials = hits_and_trials_of(counts, rate)
    share, there = np.asarray(shares, dtype=np.float64), np.asarray(trials.min(axis=0) > 0)
    rates = hits / np.where(trials > 0, trials, 1.0)
    known = np.isfinite(share)
    sums = product_sums(share[known], (rates[0] - rates[1])[known], there[known])
    return ItemSums(np.asarray(labels, dtype=np.str_)[known], sums, "pearson", over)


def gap_sums(tables: BlockTables, rate: Rate, shares: ArrayLike, figure: GapFigure) -> ItemSums:
    """Return the sums of a figure of gaps: hits and trials by block of persons.

    The sums are marked as not smooth, so that comparisons exchange blocks between the models: resampling persons with
    replacement would increase a sum of absolute gaps, and is slow with four sums for each class.

    Raises:
        UndefinedError: there are no persons.
    """
    labels, _ = tables.by_block()
    sums = np.stack(hits_and_trials(tables.dense(), rate), axis=1)
    share = np.asarray(shares, dtype=np.float64).tolist()
    known = {name: s for name, s in zip(tables.classes.tolist(), share, strict=True) if np.isfinite(s)}
    return ItemSums(
        labels,
        sums.reshape(len(labels), -1).astype(np.float64),
        "gap_of_columns",
        PERSON_BLOCKS,
        {"figure": figure, "shares": known},
        gap_columns(tables.classes),
    )


def distance_sums(tables: BlockTables, measure: str, figure: DistanceFigure) -> ItemSums:
    """Return the sums of a figure of distances: the cells of the tables by block of persons.

    Not smooth: like all distances between distributions with small cells, it increases when persons are resampled with
    replacement.

    Args:
        tables: the counts.
        measure: which distance.
        figure: the sum of all distances, or of the differences between groups.

    Raises:
        UndefinedError: there are no persons.
    """
    labels, _ = tables.by_block()
    classes = tables.classes
    sums = cell_distance_sums(labels, tables.dense(), classes, classes, measure, figure, PERSON_BLOCKS)
    return replace(sums, sums=np.ascontiguousarray(sums.sums))  # as item files have them, whose digests count bytes


def probability_distance_sums(
    classes: Labels, outputs: Labels, blocks: ArrayLike, sums: ArrayLike, measure: str, figure: DistanceFigure
) -> ItemSums:
    """Return the sums of a figure of distances between probabilities, by block of persons; not smooth, as
    :func:`distance_sums`.

    Args:
        classes: names of the gold classes, in the order of their codes, shape (K,).
        outputs: names of the outputs, shape (R,).
        blocks: numbers of the blocks, shape (B,).
        sums: tables of :func:`~pytest_genderbias.statistics.distances.probability_tables` by block, shape (B,
            2, K, R).
        measure: which distance.
        figure: the sum of all distances, or of the differences between groups.

    >>> sums = [[[[2.0, 0.0]], [[0.0, 2.0]]]]
    >>> names = np.array(["cook"]), np.array(["cook", "nurse"])
    >>> round(probability_distance_sums(*names, [7], sums, "independence", "sum").total, 6)
    1.386294
    """
    table = np.asarray(sums, dtype=np.float64)
    group, gold, output = (codes.ravel() for codes in np.indices(table.shape[1:]))
    columns = cell_columns(classes, group, gold, output, outputs)
    labels = np.asarray([f"block {block}" for block in np.asarray(blocks).tolist()], dtype=np.str_)
    about = {"measure": measure, "figure": figure, "classes": classes.tolist()}
    return ItemSums(labels, table.reshape(len(table), -1), "distance_of_columns", PERSON_BLOCKS, about, columns)


def cell_distance_sums(
    labels: Labels, tables: ArrayLike, classes: Labels, outputs: Labels, measure: str, figure: DistanceFigure, over: str
) -> ItemSums:
    """Return the sums of a figure of distances: the cells that any unit has; not smooth, as :func:`distance_sums`.

    Args:
        labels: names of the units, shape (n,).
        tables: of each unit, by group, class and output, shape (n, 2, K, R).
        classes: names of the classes, shape (K,).
        outputs: names of the outputs, shape (R,); some may be no classes.
        measure: which distance.
        figure: the sum of all distances, or of the differences between groups.
        over: what a unit is, in the plural.
    """
    table = np.asarray(tables, dtype=np.float64)
    group, gold, output = np.nonzero(table.any(axis=0))
    columns = cell_columns(classes, group, gold, output, outputs)
    about = {"measure": measure, "figure": figure, "classes": classes.tolist()}
    return ItemSums(labels, table[:, group, gold, output], "distance_of_columns", over, about, columns)


def accuracy_sums(tables: BlockTables) -> ItemSums:
    """Return the sums of the share of persons whose class is predicted, by block of persons.

    Raises:
        UndefinedError: there are no persons.
    """
    labels, block = tables.by_block()
    right = np.where(tables.cells[2] == tables.cells[3], tables.counts, 0)
    return mean_sums(
        labels, np.bincount(block, weights=right), np.bincount(block, weights=tables.counts), PERSON_BLOCKS
    )


def significant_fill_sums(
    persons: ArrayLike,
    group_of: NDArray[np.integer],
    groups: Labels,
    fills: NDArray[np.integer],
    fill_ids: NDArray[np.integer],
    fill_texts: ArrayLike,
    *,
    level: float,
    family: str,
    test: str,
) -> ItemSums:
    """Return the sums of DisCo's count of significant fills: for each person, which fill of which template is supplied
    to whom.

    Args:
        persons: names of the persons, shape (n,).
        group_of: group of each person, shape (n,).
        groups: names of the groups.
        fills: ids of the fills that are supplied for each person in each template, shape (n, templates, k).
        fill_ids: all ids, ascending.
        fill_texts: text of each id.
        level: level of the test, as the other settings in
            :func:`~pytest_genderbias.statistics.contingency.significant_fills`.
        family: what Bonferroni's correction is for.
        test: the test.
    """
    n, templates, _ = fills.shape
    shape = (templates, len(groups), len(fill_ids))
    place = (np.arange(templates)[:, None], group_of[:, None, None], np.searchsorted(fill_ids, fills))
    cells, at = np.unique(np.ravel_multi_index(np.broadcast_arrays(*place), shape), return_inverse=True)
    sums = np.zeros((n, len(cells) + len(groups)), dtype=np.float32)
    np.add.at(sums, (np.arange(n)[:, None], at.reshape(n, -1)), 1.0)
    sums[np.arange(n), len(cells) + group_of] = 1.0
    texts = distinct(fill_texts)
    columns = [
        fill_column(template, groups[group], texts[fill])
        for template, group, fill in zip(*np.unravel_index(cells, shape), strict=True)
    ]
    columns += [fill_column(SIZE, group, "") for group in groups]
    about = {"templates": templates, "level": level, "family": family, "test": test}
    return ItemSums(distinct(persons), sums, "significant_fills", "persons", about, tuple(columns))
