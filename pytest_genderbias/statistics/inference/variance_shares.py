"""The variance of a statistic by source: items, templates, restarts and the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums
from pytest_genderbias.statistics.inference.two_way import influences

_Group: TypeAlias = "tuple[int, ...]"  #: axes of a table

REST = "rest"  #: what remains of single cells: interactions and noise


@dataclass(frozen=True)
class VarianceShare:
    """One source of variance.

    Attributes:
        source: what varies, in the plural, or ``rest``.
        levels: number of items, templates or restarts; of cells, for the rest.
        variance: the component of variance, in squared units of the statistic; 0 if its estimate is below 0.
        share: of the variance of a single cell, 0 to 1.
        share_of_value: of the variance of the value, a mean over all levels, 0 to 1: what the value would change by
            with other items, other templates or other seeds.
        below_zero: whether the estimate is below 0, as it is in about half of the cases where the source has no
            variance.
    """

    source: str
    levels: int
    variance: float
    share: float
    share_of_value: float
    below_zero: bool = False


def variance_shares(table: ArrayLike, sources: Sequence[str]) -> list[VarianceShare]:
    """Return the components of variance of a full table of scores whose factors are all samples.

    These are the estimates of the analysis of variance with random effects: expected mean squares are solved for the
    components (Searle, Casella and McCulloch 1992, Variance Components, chapter 4). The component of factors A is the
    sum of (-1)^(|B| - |A|) MS(B) over the sets B that contain A, divided by the number of scores of each combination of
    their levels. The rest is made of all interactions.

    Args:
        table: one score a cell, one axis a factor, each with at least two levels.
        sources: names of the factors.

    Raises:
        UndefinedError: a factor has one level only, a score is missing, or all scores are the same.

    Example:
        Three items in two templates, 1 2; 3 4; 5 9: the mean squares are 15.5, 6 and 1.5, so the components are (15.5 -
        1.5) / 2, (6 - 1.5) / 3 and 1.5. The variance of the mean is 7 / 3 + 1.5 / 2 + 1.5 / 6.

        >>> for one in variance_shares([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]], ["items", "templates"]):
        ...     print(one.source, one.levels, round(one.variance, 3), round(one.share, 3), round(one.share_of_value, 3))
        items 3 7.0 0.7 0.7
        templates 2 1.5 0.15 0.225
        rest 6 1.5 0.15 0.075
    """
    scores = np.asarray(table, dtype=np.float64)
    if min(scores.shape) < 2:
        raise UndefinedError(
            f"one of the {sources[int(np.argmin(scores.shape))]} says nothing of others; two are needed"
        )
    if not np.isfinite(scores).all():
        raise UndefinedError("a score is missing")
    axes = tuple(range(scores.ndim))
    squares = {group: _mean_square(scores, group) for group in _groups(axes)}
    if max(squares.values()) <= 1e-24 * max(1.0, float(np.square(scores).max())):
        raise UndefinedError("all scores are the same")
    components = {group: _component(group, squares, scores.shape) for group in squares}
    cells = {group: max(0.0, variance) for group, variance in components.items()}
    of_value = {group: cells[group] / prod(scores.shape[axis] for axis in group) for group in cells}
    members: list[tuple[str, int, list[_Group]]] = [(sources[axis], scores.shape[axis], [(axis,)]) for axis in axes]
    members.append((REST, scores.size, [group for group in cells if len(group) > 1]))
    total, total_of_value = sum(cells.values()), sum(of_value.values())
    return [
        VarianceShare(
            name,
            levels,
            sum(cells[group] for group in groups),
            sum(cells[group] for group in groups) / total,
            sum(of_value[group] for group in groups) / total_of_value,
            all(components[group] < 0 for group in groups),
        )
        for name, levels, groups in members
    ]


def _groups(axes: Sequence[int]) -> Iterator[_Group]:
    """Yield all sets of one axis or more."""
    for size in range(1, len(axes) + 1):
        yield from combinations(axes, size)


def _mean_square(scores: FloatArray, group: _Group) -> float:
    """Return the mean square of the interaction of some factors, or of the main effect of one."""
    effect = np.zeros([scores.shape[axis] if axis in group else 1 for axis in range(scores.ndim)])
    for size in range(len(group) + 1):
        for inner in combinations(group, size):
            others = tuple(axis for axis in range(scores.ndim) if axis not in inner)
            effect = effect + (-1) ** (len(group) - size) * scores.mean(axis=others, keepdims=True)
    repeats = scores.size / effect.size
    freedom = np.prod([scores.shape[axis] - 1 for axis in group])
    return float(repeats * np.square(effect).sum() / freedom)


def _component(group: _Group, squares: dict[_Group, float], shape: tuple[int, ...]) -> float:
    signed = sum(
        (-1) ** (len(larger) - len(group)) * square for larger, square in squares.items() if {*group} <= {*larger}
    )
    return float(signed / np.prod([n for axis, n in enumerate(shape) if axis not in group]))


def score_table(sums: ItemSums) -> FloatArray:
    """Return one score a cell whose mean is the statistic, shape (G, T), from sums by item and template.

    The score of a mean is that of the cell. For other statistics it is the value plus the influences of the item and of
    the cell (pseudo-values: Efron 1982, The Jackknife, section 6.3): for mean absolute scores, the score with the sign
    of its item's mean.

    Raises:
        UndefinedError: sums are not known by template, the statistic is not smooth, or some items have no case in some
            templates.

    >>> table = np.array([[1.0, 2.0], [-3.0, -4.0]])[..., None]
    >>> words, templates = np.array(["a", "b"]), np.array(["x", "y"])
    >>> sums = ItemSums(words, table, "mean_absolute_template_mean", "words", templates=templates)
    >>> score_table(sums).round(4).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if sums.templates is None or not sums.smooth:
        raise UndefinedError(f"the statistic has no score of each of the {sums.over} in each template")
    if sums.sums.shape[-1] > 1 and not sums.sums[..., -1].all():
        raise UndefinedError(
            f"some of the {sums.over} have no case in some of the {sums.across}; score all cases (no limit)"
        )
    items, cells = influences(sums, lambda value: value)
    return np.asarray(sums.total + len(items) * ((items - items.mean())[:, None] + cells))
