"""Functions that make the :class:`ItemSums` of each statistic from values by unit."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.block_tables import BlockTables, DistanceFigure, GapFigure, cell_columns, gap_columns
from pytest_genderbias.statistics.contingency import SIZE, fill_column
from pytest_genderbias.statistics.correlation import product_sums
from pytest_genderbias.statistics.gap_rms import paired_columns
from pytest_genderbias.statistics.group_deviations import contrast_columns
from pytest_genderbias.statistics.group_gaps import Rate, hits_and_trials
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, blocks_of, distinct, mean_sums
from pytest_genderbias.statistics.rate_counts import hits_and_trials_of

LineFigure = Literal["pearson", "slope", "mean_absolute"]
PERSON_BLOCKS = "blocks of persons"
_WORD_BLOCKS = "blocks of words"


def correlation_sums(labels: NDArray[np.str_], x: ArrayLike, y: ArrayLike, over: str) -> ItemSums:
    """Return the sums of :func:`~pytest_genderbias.statistics.correlation.pearson` over units; shapes as there."""
    return ItemSums(labels, product_sums(x, y), "pearson", over)


def slope_sums(labels: NDArray[np.str_], x: ArrayLike, y: ArrayLike, over: str) -> ItemSums:
    """Return the sums of :func:`~pytest_genderbias.statistics.correlation.slope` over units; shapes as there."""
    return ItemSums(labels, product_sums(x, y), "slope", over)


def score_bias_sums(labels: ArrayLike, bias: ArrayLike, absolute: bool) -> ItemSums:
    """Return the sums of AOB (``absolute``), or of signed AOB, over occupations, from B(o) of each, shape (n,).

    >>> score_bias_sums(["nurse", "pilot"], [1.5, -0.5], absolute=True).total
    1.0
    """
    values = np.asarray(bias, dtype=np.float64)
    return mean_sums(distinct(labels), np.abs(values) if absolute else values, np.ones(len(values)), "occupations")


def squared_deviation_sums(labels: ArrayLike, squares: ArrayLike, over: str) -> ItemSums:
    """Return the sums of the root of the mean of
    :func:`~pytest_genderbias.statistics.group_deviations.squared_deviations` over units.

    Raises:
        UndefinedError: a unit has one case only.

    >>> squared_deviation_sums(["nurse", "pilot"], [5.0, 3.0], "occupations").total
    2.0
    """
    values = np.asarray(squares, dtype=np.float64)
    if np.isnan(values).any():
        raise UndefinedError("one template does not show what chance does; at least two are needed")
    return ItemSums(distinct(labels), np.stack([values, np.ones(len(values))], axis=1), "root_mean", over)


def template_bias_sums(labels: ArrayLike, differences: ArrayLike, templates: ArrayLike, absolute: bool) -> ItemSums:
    """Return the sums of AOB (``absolute``), or of signed AOB, by occupation and template.

    Args:
        labels: the occupations, shape (n,).
        differences: score of the first group's instance minus that of the second's, shape (n, templates).
        templates: names of the templates.
        absolute: whether the mean of abs(B(o)) is meant, or of B(o).

    >>> template_bias_sums(["nurse", "pilot"], [[1.0, 2.0], [-1.0, 0.0]], ["a", "b"], absolute=True).total
    1.0
    """
    table = np.asarray(differences, dtype=np.float64)[..., None]
    combiner = "mean_absolute_template_mean" if absolute else "mean_of_template_means"
    return ItemSums(distinct(labels), table, combiner, "occupations", templates=distinct(templates))


def template_sums(
    labels: ArrayLike, templates: ArrayLike, sums: ArrayLike, counts: ArrayLike, over: str, across: str = "templates"
) -> ItemSums:
    """Return the sums of a mean over cases by unit and template.

    Args:
        labels: the units, shape (n,).
        templates: the templates, or the other words that units are crossed with, shape (t,).
        sums: sum of the scores, shape (n, t).
        counts: number of cases, shape (n, t).
        over: what a unit is, in the plural.
        across: what units are crossed with, in the plural.

    >>> template_sums(["a", "b"], ["x", "y"], [[1.0, 0.0], [1.0, 1.0]], [[1, 1], [1, 1]], "words").total
    0.75
    """
    pairs = np.stack([np.asarray(x, dtype=np.float64) for x in (sums, counts)], axis=-1)
    return ItemSums(distinct(labels), pairs, "mean_over_templates", over, templates=distinct(templates), across=across)


def template_line_sums(
    labels: ArrayLike,
    templates: ArrayLike,
    x: ArrayLike,
    sums: ArrayLike,
    counts: ArrayLike,
    figure: LineFigure,
    over: str = "professions",
) -> ItemSums:
    """Return the sums of a line of scores against a figure of the units, by unit and template.

    Args:
        labels: the units, shape (n,).
        templates: the templates, shape (t,).
        x: the figure of each unit, such as its share of women, shape (n,).
        sums: sum of the scores of each unit in each template, shape (n, t).
        counts: number of these scores, shape (n, t).
        figure: Pearson's r, the slope, or the mean absolute score, which needs no ``x``.
        over: what a unit is, in the plural.

    Example:
        Means over templates of 0, 1 and 2 lie on a line with 0, .5 and 1.

        >>> names, x, sums = ["a", "b", "c"], [0.0, 0.5, 1.0], [[-1.0, 1.0], [1.0, 1.0], [3.0, 1.0]]
        >>> sums_of = lambda figure: template_line_sums(names, ["s", "t"], x, sums, np.ones((3, 2)), figure)
        >>> [round(sums_of(figure).total, 9) for figure in ("pearson", "slope", "mean_absolute")]
        [1.0, 2.0, 1.0]
    """
    scores, n = (np.asarray(table, dtype=np.float64) for table in (sums, counts))
    parts = [scores, n] if figure == "mean_absolute" else [np.asarray(x, dtype=np.float64)[:, None] * n, scores, n]
    combiner = f"{figure}_over_templates"
    return ItemSums(distinct(labels), np.stack(parts, axis=-1), combiner, over, templates=distinct(templates))


def effect_size_sums(words: ArrayLike, associations: ArrayLike, in_x: ArrayLike) -> ItemSums:
    """Return the sums of WEAT's effect size over target words: of X their number and s, of Y the same, and s squared.

    The attribute words are constants: other attribute words would change every association.

    Args:
        words: the target words, all different, shape (n,).
        associations: s of each word, shape (n,).
        in_x: whether a word belongs to X, shape (n,); the others belong to Y.

    Example:
        As in :func:`~pytest_genderbias.statistics.association.effect_size`; without the third word the mean of Y is 0,
        the deviation .2 and the effect .3 / .2.

        >>> words = effect_size_sums(["a", "b", "c", "d"], [.4, .2, .2, .0], [True, True, False, False])
        >>> round(words.total, 4), round(float(words.value(words.sums.sum(axis=0) - words.sums[2])), 4)
        (1.2247, 1.5)
    """
    s, x = np.asarray(associations, dtype=np.float64), np.asarray(in_x, dtype=np.float64)
    sums = np.stack([x, x * s, 1 - x, (1 - x) * s, s * s], axis=1)
    return ItemSums(np.asarray(words, dtype=np.str_), sums, "effect_size", "target words")


def word_bias_sums(sums: ArrayLike, figure: Literal["mu", "sigma"]) -> ItemSums:
    """Return the sums of mu or sigma over blocks of words.

    The scores of the words are constants: the underlying counts are not resampled.

    Args:
        sums: :func:`~pytest_genderbias.statistics.cooccurrence.sums_by_block` of abs(bias), bias and its square, shape
            (100, 4).
        figure: ``mu``, the mean of abs(bias), or ``sigma``, the standard deviation of bias.

    >>> from pytest_genderbias.statistics.cooccurrence import sums_by_block
    >>> sums = sums_by_block([0, 1, 2], [1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0])
    >>> round(word_bias_sums(sums, "mu").total, 6), word_bias_sums(sums, "sigma").total
    (0.666667, 1.0)
    """
    labels, rows = _filled(sums)
    if figure == "mu":
        return mean_sums(labels, rows[:, 1], rows[:, 0], _WORD_BLOCKS)
    return ItemSums(labels, rows[:, [0, 2, 3]], "deviation", _WORD_BLOCKS)


def word_slope_sums(sums: ArrayLike) -> ItemSums:
    """Return the sums of beta over blocks of words. Outliers are determined once, from all words.

    Args:
        sums: :func:`~pytest_genderbias.statistics.cooccurrence.sums_by_block` of the bias x in the training text and y
            in the generated text, x squared and x y, of the words that are not outliers, shape (100, 5).

    >>> from pytest_genderbias.statistics.cooccurrence import sums_by_block
    >>> x, y = np.array([-1.0, 0.0, 1.0]), np.array([-0.5, 0.0, 0.5])
    >>> word_slope_sums(sums_by_block([0, 1, 2], x, y, x * x, x * y)).total
    0.5
    """
    labels, rows = _filled(sums)
    return ItemSums(labels, rows, "block_slope", _WORD_BLOCKS)


def _filled(sums: ArrayLike) -> tuple[NDArray[np.str_], FloatArray]:
    """Return names and sums of the blocks that have words."""
    rows = np.asarray(sums, dtype=np.float64)
    filled = np.flatnonzero(rows[:, 0])
    return np.asarray([f"block {b}" for b in filled.tolist()], dtype=np.str_), rows[filled]


def perplexity_sums(log_probabilities: ArrayLike, counts: ArrayLike) -> ItemSums:
    """Return the sums of a perplexity over blocks of consecutive parts of a text, 200 at most.

    Args:
        log_probabilities: ln P of each part, in nats, shape (n,).
        counts: words (or tokens) of each part, shape (n,).

    >>> round(perplexity_sums([-3 * np.log(8.0), -np.log(8.0)], [3, 1]).total, 9)
    8.0
    """
    parts = np.stack([np.asarray(c, dtype=np.float64) for c in (log_probabilities, counts)], axis=1)
    labels, block = blocks_of(len(parts), "passages")
    sums = np.zeros((len(labels), 2))
    np.add.at(sums, block, parts)
    return ItemSums(labels, sums, "perplexity", "passages")


def f1_sums(labels: NDArray[np.str_], counts: ArrayLike, over: str) -> ItemSums:
    """Return the sums of :func:`~pytest_genderbias.statistics.coreference_scores.conll_f1`.

    Args:
        labels: names of the units, shape (n,).
        counts: of each unit, shape (n, metrics, 4).
        over: what a unit is, in the plural.
    """
    table = np.asarray(counts, dtype=np.float64)
    return ItemSums(labels, table.reshape(len(table), -1), "f1", over)


def f1_gap_sums(labels: NDArray[np.str_], pro: ArrayLike, anti: ArrayLike, over: str) -> ItemSums:
    """Return the sums of :func:`~pytest_genderbias.statistics.coreference_scores.f1_gap`.

    ``pro`` and ``anti`` as there, partners in the same order, shape (n, metrics, 4).

    >>> pro, anti = [[[1, 1, 1, 1]], [[1, 1, 1, 1]]], [[[1, 1, 1, 1]], [[0, 1, 0, 1]]]
    >>> f1_gap_sums(np.array(["a", "b"]), pro, anti, "pairs").total
    0.5
    """
    table = np.stack([np.asarray(pro), np.asarray(anti)], axis=1).astype(np.float64)
    return ItemSums(labels, table.reshape(len(table), -1), "f1_gap", over)


def accuracy_gap_sums(labels: NDArray[np.str_], right: ArrayLike, n: ArrayLike, over: str) -> ItemSums:
    """Return the sums of the accuracy with she minus that with he, from right answers and sentences, each of shape (n,
    2).
    """
    sums = np.concatenate([np.asarray(right), np.asarray(n)], axis=1).astype(np.float64)
    return ItemSums(labels, sums, "accuracy_gap", over)


def absolute_gap_sums(labels: NDArray[np.str_], counts: FloatArray, rate: Rate, over: str) -> ItemSums:
    """Return the sums of a sum of absolute gaps between two groups.

    Not smooth: resampling units with replacement increases such a sum; exchanging the units of two models does not.

    Args:
        labels: names of the units, shape (n,).
        counts: sums of :func:`~pytest_genderbias.statistics.rate_counts.rate_counts` over the cases of each unit, (n,
            3, 2, K).
        rate: which rate.
        over: what a unit is, in the plural.
    """
    return ItemSums(labels, counts.reshape(len(counts), -1), "absolute_gaps", over, {"rate": rate})


def paired_gap_rms_sums(labels: NDArray[np.str_], counts: FloatArray, rate: Rate, over: str) -> ItemSums:
    """Return the sums of a root mean square of gaps whose units compare the groups, as pairs of sentences do.

    Args:
        labels: names of the units, shape (n,).
        counts: sums of :func:`~pytest_genderbias.statistics.rate_counts.rate_counts` over the cases of each unit, at
            most one of each group, (n, 3, 2, K).
        rate: which rate.
        over: what a unit is, in the plural.
    """
    hits, trials = hits_and_trials_of(counts, rate)
    return ItemSums(labels, paired_columns(hits, trials), "paired_gap_rms", over)


def contrast_rms_sums(labels: NDArray[np.str_], values: ArrayLike, over: str) -> ItemSums:
    """Return the sums of the root mean square of groups' deviations from their mean, from the value of each unit and
    group, shape (n, K).
    """
    return ItemSums(labels, contrast_columns(values), "contrast_rms", over)


def gap_pearson_sums(labels: ArrayLike, counts: ArrayLike, rate: Rate, shares: ArrayLike, over: str) -> ItemSums:
    """Return the sums, over classes, of r of the gaps with the shares; a class without a gap is a unit of zeros.

    Args:
        labels: names of the classes, shape (K,).
        counts: totals of :func:`~pytest_genderbias.statistics.rate_counts.rate_counts`, shape (3, 2, K).
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
    labels, block = tables.by_block()
    shape = (2, len(tables.classes), len(tables.classes))
    cells, column = np.unique(np.ravel_multi_index(tuple(tables.cells[1:]), shape), return_inverse=True)
    sums = np.zeros((len(labels), len(cells)))
    sums[block, column.ravel()] = tables.counts
    group, gold, predicted = np.unravel_index(cells, shape)
    columns = cell_columns(tables.classes, group, gold, predicted)
    about = {"measure": measure, "figure": figure, "classes": tables.classes.tolist()}
    return ItemSums(labels, sums, "distance_of_columns", PERSON_BLOCKS, about, columns)


def probability_distance_sums(
    classes: NDArray[np.str_],
    outputs: NDArray[np.str_],
    blocks: ArrayLike,
    sums: ArrayLike,
    measure: str,
    figure: DistanceFigure,
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
    labels: NDArray[np.str_],
    tables: FloatArray,
    classes: NDArray[np.str_],
    unresolved: str,
    measure: str,
    figure: DistanceFigure,
    over: str,
) -> ItemSums:
    """Return the sums of a figure of distances: the cells that any unit has; not smooth, as :func:`distance_sums`.

    Args:
        labels: names of the units, shape (n,).
        tables: of each unit, by group, class and answer, shape (n, 2, K, K + 1); the last answer is no class.
        classes: names of the classes, shape (K,).
        unresolved: name of the last answer.
        measure: which distance.
        figure: the sum of all distances, or of the differences between groups.
        over: what a unit is, in the plural.
    """
    group, gold, answer = np.nonzero(tables.any(axis=0))
    columns = cell_columns(classes, group, gold, answer, np.asarray([*classes.tolist(), unresolved]))
    about = {"measure": measure, "figure": figure, "classes": classes.tolist()}
    return ItemSums(labels, tables[:, group, gold, answer], "distance_of_columns", over, about, columns)


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
    groups: NDArray[np.str_],
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
