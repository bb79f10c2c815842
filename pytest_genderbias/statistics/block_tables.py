"""Statistics of a classifier as functions of sums over blocks of persons: gaps in rates, distances, accuracy.

A hash of the id assigns a person to a block. A person is therefore in the same block for all models, and tables by
block need little memory. The shares of women are constants: they do not change when persons are resampled.
Thousands of cases without names are units in blocks of consecutive cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.distances import MEASURES, distance_figure
from pytest_genderbias.statistics.gap_rms import UnitGaps, gaps_and_variances, rms_of_gaps, unit_gaps
from pytest_genderbias.statistics.inference.intervals import Columns, FloatArray, IntArray, Labels, Parameters

HASHED_BLOCKS = 100  #: blocks of cases that have names


def block_of(names: Iterable[str]) -> NDArray[np.int64]:
    """Return the block of each case, 0 to 99: the CRC-32 of its name, which does not depend on the other cases. Shape
    (n,).

    >>> block_of(["x001", "x002", "x001"])
    array([98, 84, 98])
    """
    return np.asarray([zlib.crc32(name.encode()) % HASHED_BLOCKS for name in names], dtype=np.int64)


GapFigure = Literal["sum", "rms", "pearson", "slope"]
_BETWEEN = "\x1f"  #: A separator that occurs in no label.
_FLAT = 1e-20  #: A smaller variance is rounding error, since gaps and shares are at most 1.


@dataclass(frozen=True)
class BlockTables:
    """Counts of persons by block, group (two of them), gold class and prediction, for the cells with persons.

    ``classes``, (C,): the names, in the order of the codes. ``cells``, (4, N): the codes of each cell. ``counts``,
    (N,): the number of persons in each cell, above 0.
    """

    classes: Labels
    cells: IntArray
    counts: IntArray

    @classmethod
    def of(
        cls, classes: ArrayLike, blocks: ArrayLike, group: ArrayLike, gold: ArrayLike, predicted: ArrayLike
    ) -> BlockTables:
        """Count persons; each array has one code per person."""
        names = np.asarray(classes, dtype=np.str_)
        codes = tuple(np.asarray(c, dtype=np.int64) for c in (blocks, group, gold, predicted))
        flat, counts = np.unique(np.ravel_multi_index(codes, _shape(names)), return_counts=True)
        return cls(names, np.stack(np.unravel_index(flat, _shape(names))), counts)

    @classmethod
    def unpacked(cls, classes: ArrayLike, flat: ArrayLike, counts: ArrayLike) -> BlockTables:
        """Return the tables from the cells and counts that :meth:`packed` returns."""
        names = np.asarray(classes, dtype=np.str_)
        cells = np.unravel_index(np.asarray(flat, dtype=np.int64), _shape(names))
        return cls(names, np.stack(cells), np.asarray(counts, dtype=np.int64))

    def packed(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return each cell as one number, ascending, and the counts."""
        flat = np.ravel_multi_index(tuple(self.cells), _shape(self.classes))
        return flat.astype(np.int32), self.counts.astype(np.int32)

    def by_block(self) -> tuple[Labels, IntArray]:
        """Return the names of the blocks with persons, and for each cell the position of its block in them.

        Raises:
            UndefinedError: there are no persons.
        """
        present, index = np.unique(self.cells[0], return_inverse=True)
        if not len(present):
            raise UndefinedError("there are no cases")
        return np.asarray([f"block {b}" for b in present.tolist()]), index.ravel()

    def dense(self) -> IntArray:
        """Return the table of each block with persons, shape (B, 2, C, C)."""
        labels, index = self.by_block()
        tables = np.zeros((len(labels), *_shape(self.classes)[1:]), dtype=np.int64)
        tables[(index, *self.cells[1:])] = self.counts
        return tables


def _shape(classes: Labels) -> tuple[int, int, int, int]:
    return HASHED_BLOCKS, 2, len(classes), len(classes)


def gap_figure(hits: ArrayLike, trials: ArrayLike, shares: ArrayLike, figure: GapFigure) -> FloatArray:
    """Return a statistic of the gaps between two groups in a rate, for many tables at once.

    Args:
        hits: numerators of the rate by group and class, shape (..., 2, C), from
            :func:`~pytest_genderbias.statistics.group_gaps.hits_and_trials`.
        trials: denominators, same shape; a class without trials of a group has no gap.
        shares: share of the first group in each class, NaN if unknown, shape (C,).
        figure: ``sum`` of the absolute gaps, ``rms`` (their root mean square without chance, as
            :func:`~pytest_genderbias.statistics.gap_rms.rms_of_gaps`), ``pearson`` (r of gap and share), or ``slope``
            of gap on share.

    Returns:
        Shape (...), NaN if undefined: no class has a gap (``rms``: with two cases of each group), fewer than three have
        a gap and a share, or a variable is constant.

    Example:
        Rates 3/4, 1/2, 1/2 against 1/4, 1/2, 3/4: gaps .5, 0, -.25.

        >>> hits, trials, shares = [[3, 2, 2], [1, 2, 3]], [[4, 4, 4], [4, 4, 4]], [0.9, 0.5, 0.1]
        >>> float(gap_figure(hits, trials, shares, "sum")), round(float(gap_figure(hits, trials, shares, "slope")), 4)
        (0.75, 0.9375)
    """
    of, by = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    there = (by > 0).all(axis=-2)
    rates = of / np.where(by > 0, by, 1.0)
    gaps = np.where(there, rates[..., 0, :] - rates[..., 1, :], 0.0)
    if figure == "sum":
        return np.where(there.any(axis=-1), np.abs(gaps).sum(axis=-1), np.nan)
    if figure == "rms":
        return rms_of_gaps(*gaps_and_variances(of, by))
    share = np.asarray(shares, dtype=np.float64)
    return _line(np.where(np.isfinite(share), share, 0.0), gaps, there & np.isfinite(share), figure)


def _line(x: FloatArray, y: FloatArray, used: NDArray[np.bool_], figure: GapFigure) -> FloatArray:
    """Return r, or the slope, of y on x over the used classes, along the last axis."""
    n = used.sum(axis=-1, keepdims=True)
    dx, dy = (
        np.where(used, v - np.where(used, v, 0.0).sum(axis=-1, keepdims=True) / np.maximum(n, 1), 0.0) for v in (x, y)
    )
    xx, yy, xy = (dx * dx).sum(axis=-1), (dy * dy).sum(axis=-1), (dx * dy).sum(axis=-1)
    enough = (n[..., 0] >= 3) & (xx > _FLAT)
    if figure == "slope":
        return np.where(enough, xy / np.where(enough, xx, 1.0), np.nan)
    enough &= yy > _FLAT
    return np.where(enough, np.clip(xy / np.sqrt(np.where(enough, xx * yy, 1.0)), -1.0, 1.0), np.nan)


def gap_columns(classes: Labels) -> tuple[str, ...]:
    """Return the names of hits and trials by group and class for :func:`gap_of_columns`, four per class."""
    return tuple(_BETWEEN.join((what, group, name)) for what in "ht" for group in "01" for name in classes.tolist())


def gap_of_columns(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    """Return a :func:`gap_figure` of totals of named hits and trials: shape (..., K) to (...).

    Args:
        totals: shape (..., K).
        parameters: ``figure``, the statistic, and ``shares``, the known shares of the first group by class.
        columns: K names from :func:`gap_columns`.
    """
    classes, at = _gap_layout(columns)
    share = np.asarray([parameters["shares"].get(name, np.nan) for name in classes])
    return gap_figure(totals[..., at[0]], totals[..., at[1]], share, parameters["figure"])


def trials_of_columns(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    """Return the denominators of the rates, by group and class: shape (..., K) to (..., 2 C); columns as
    :func:`gap_of_columns`.

    >>> trials_of_columns(np.array([1.0, 2.0, 5.0, 6.0]), {}, gap_columns(np.array(["nurse"]))).tolist()
    [5.0, 6.0]
    """
    return np.asarray(totals[..., _gap_layout(columns)[1][1].ravel()], dtype=np.float64)


def unit_gaps_of_columns(sums: FloatArray, parameters: Parameters, columns: Columns) -> UnitGaps | None:
    """Return the gaps and what each unit adds to their errors, if they are for a root mean square; otherwise ``None``.

    Args:
        sums: of each unit, shape (G, K).
        parameters: as of :func:`gap_of_columns`.
        columns: K names from :func:`gap_columns`.
    """
    if parameters["figure"] != "rms":
        return None
    _, at = _gap_layout(columns)
    return unit_gaps(sums[:, at[0]], sums[:, at[1]])


@lru_cache(maxsize=16)
def _gap_layout(columns: tuple[str, ...]) -> tuple[tuple[str, ...], IntArray]:
    """Return the classes, and the columns of hits and trials by group and class, shape (2, 2, C)."""
    parts = [name.split(_BETWEEN) for name in columns]
    classes = sorted({name for _, _, name in parts})
    place = {name: i for i, name in enumerate(classes)}
    at = np.zeros((2, 2, len(classes)), dtype=np.int64)
    for i, (what, group, name) in enumerate(parts):
        at["ht".index(what), int(group), place[name]] = i
    return tuple(classes), at


def cell_columns(
    classes: Labels, group: IntArray, gold: IntArray, predicted: IntArray, outputs: Labels
) -> tuple[str, ...]:
    """Return the names of cells, given by their codes, for :func:`distance_of_columns`; ``outputs`` names the
    predictions.
    """
    return tuple(
        _BETWEEN.join((str(g), str(classes[y]), str(outputs[r])))
        for g, y, r in zip(group.tolist(), gold.tolist(), predicted.tolist(), strict=True)
    )


def distance_of_columns(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    """Return a :func:`~pytest_genderbias.statistics.distances.distance_figure` of totals of named cells of tables:
    shape (..., K) to (...).

    Args:
        totals: persons in each cell, shape (..., K).
        parameters: ``measure``, the distance; ``figure``, its statistic; and ``classes``, those of the model in order.
        columns: K names from :func:`cell_columns`.
    """
    n_classes, at = _cell_layout(columns, tuple(parameters["classes"]))
    counts = np.zeros((*totals.shape[:-1], 2, n_classes, n_classes))
    counts[(..., *at)] = np.maximum(totals, 0.0)
    if not counts.any():
        return np.full(totals.shape[:-1], np.nan)
    return distance_figure(MEASURES[parameters["measure"]](counts), parameters["figure"])


def predictions_of_columns(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    """Return the number of predictions by group and class: shape (..., K) to (..., 2 C); arguments as
    :func:`distance_of_columns`.

    >>> names = np.array(["a", "b"])
    >>> columns = cell_columns(names, np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0, 0, 1]), names)
    >>> about = {"measure": "sufficiency", "figure": "sum", "classes": ["a", "b"]}
    >>> predictions_of_columns(np.array([4.0, 1.0, 3.0]), about, columns).tolist()
    [5.0, 0.0, 0.0, 3.0]
    """
    n_classes, at = _cell_layout(columns, tuple(parameters["classes"]))
    counts = np.zeros((*totals.shape[:-1], 2, n_classes, n_classes))
    counts[(..., *at)] = totals
    return np.asarray(counts.sum(axis=-2).reshape(*totals.shape[:-1], -1), dtype=np.float64)


@lru_cache(maxsize=16)
def _cell_layout(columns: tuple[str, ...], own: tuple[str, ...]) -> tuple[int, IntArray]:
    """Return the number of classes, and group, gold class and prediction of each column, shape (3, K)."""
    parts = [name.split(_BETWEEN) for name in columns]
    # The other model's classes come last: sufficiency counts the steps between classes, so none may come between the
    # own ones.
    others = {name for _, *both in parts for name in both} - set(own)
    classes = [*own, *sorted(others)]
    place = {name: i for i, name in enumerate(classes)}
    return len(classes), np.asarray([(int(g), place[y], place[r]) for g, y, r in parts]).T
