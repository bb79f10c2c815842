"""Tables of cases by group, gold class and output, to which each case adds the probabilities of its outputs in place of
one prediction.

They are for the distances of :mod:`pytest_genderbias.statistics.distances`, whose r are then "the model's output
probabilities" (orgad2022, section 2.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def probability_tables(probabilities: ArrayLike, gold: ArrayLike, groups: ArrayLike, n_classes: int) -> FloatArray:
    """Sum the probabilities of the outputs by group and gold class.

    Args:
        probabilities: of each output R for each case, shape (n, R).
        gold: gold class of each case, 0 to n_classes - 1, shape (n,).
        groups: group of each case, 0 or 1, shape (n,); cases of other groups are left out.
        n_classes: number of classes K.

    Returns:
        Shape (2, K, R). With probabilities of 0 and 1 it is that of
        :func:`~pytest_genderbias.statistics.group_gaps.confusion_tables`.

    Example:
        Two women of class 0 and a man of class 1.

        >>> probability_tables([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]], [0, 0, 1], [0, 0, 1], 2).tolist()
        [[[1.25, 0.75], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]
    """
    p = np.asarray(probabilities, dtype=np.float64)
    y, z = (np.asarray(codes, dtype=np.int64) for codes in (gold, groups))
    kept = (z == 0) | (z == 1)
    table = np.zeros((2, n_classes, p.shape[1]))
    np.add.at(table, (z[kept], y[kept]), p[kept])
    return table


def shuffled_probability_tables(
    probabilities: ArrayLike,
    gold: ArrayLike,
    groups: ArrayLike,
    strata: ArrayLike,
    n_classes: int,
    repeats: int,
    seed: int,
) -> FloatArray:
    """Return :func:`probability_tables` after shuffles of the groups over the cases of each stratum, shape (repeats, 2,
    K, R).

    Args:
        probabilities: as there.
        gold: as there.
        groups: 0 or 1, shape (n,).
        strata: code of the stratum of each case, shape (n,).
        n_classes: as there.
        repeats: number of shuffles.
        seed: seed of the shuffles.

    Example:
        A woman and a man, each alone in a stratum, keep their places.

        >>> shuffled_probability_tables([[1.0], [0.5]], [0, 0], [0, 1], [0, 1], 1, 2, seed=0).tolist()
        [[[[1.0]], [[0.5]]], [[[1.0]], [[0.5]]]]
    """
    stratum, y = (np.asarray(codes, dtype=np.int64) for codes in (strata, gold))
    p, z = np.asarray(probabilities, dtype=np.float64), np.asarray(groups, dtype=np.int64)
    rng, by_stratum = np.random.default_rng(seed), np.argsort(stratum, kind="stable")
    tables = np.empty((repeats, 2, n_classes, p.shape[1]))
    for table in tables:
        order = np.lexsort((rng.random(len(z)), stratum))  # the cases of a stratum in random order
        shuffled = np.empty_like(z)
        shuffled[order] = z[by_stratum]
        table[:] = probability_tables(p, y, shuffled, n_classes)
    return tables
