"""Functions that make the :class:`ItemSums` of each statistic from values by unit."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.correlation import product_sums
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, blocks_of, distinct, mean_sums

LineFigure = Literal["pearson", "slope", "mean_absolute"]

_WORD_BLOCKS = "blocks of words"


def line_sums(labels: ArrayLike, x: ArrayLike, y: ArrayLike, figure: LineFigure, over: str) -> ItemSums:
    """Return the sums over units of :func:`~pytest_genderbias.statistics.correlation.pearson`, of
    :func:`~pytest_genderbias.statistics.correlation.slope`, or of the mean of ``abs(y)``; shapes as there.

    >>> line_sums(["a", "b", "c"], [0.0, 1.0, 2.0], [0.0, 3.0, 6.0], "slope", "letters").total
    3.0
    """
    if figure == "mean_absolute":
        return mean_sums(distinct(labels), np.abs(y), np.ones(np.size(y)), over)
    return ItemSums(distinct(labels), product_sums(x, y), figure, over)


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
