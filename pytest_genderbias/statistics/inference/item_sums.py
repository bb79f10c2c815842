"""A statistic as a function of sums over items, so that other draws of the items can be had from sums at hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.inference.undefined import UndefinedError

FloatArray = NDArray[np.float64]
Sums = NDArray[np.floating[Any]]
Value = Callable[[FloatArray], FloatArray]

HASHED_BLOCKS = 100  #: of cases that have names
_MOST_BLOCKS = 200


@dataclass(frozen=True)
class Moments:
    """Sufficient sums of each item, and the statistic that their totals give.

    A mean over cases has two sums an item, the scores and their number, and is the one total divided by the other; Pearson's r
    has six (1, x, y, x^2, y^2, xy). Nothing but the totals enters the statistic: leaving items out, drawing them again, or
    exchanging them with those of another model is arithmetic, and needs no model.

    Attributes:
        labels: names of the items (occupations, persons, word pairs), all different, shape (G,).
        sums: the sums of each item, shape (G, K).
        value: from totals, shape (..., K), to the statistic, shape (...); NaN where it is undefined for them.
        over: what an item is, in the plural, for tables.
        smooth: whether small changes of the sums change the statistic a little. Not so for a count of significant tests.
        ratio: whether the statistic is the first sum's total divided by the second's, and nothing else.
        columns: names of the sums, all different, where two models may have different ones (as the fills that they supply);
            what a model has no sum for is 0. ``None``: both have the same sums.
        value_of: from the names of sums to ``value`` for sums of these names; only with ``columns``.
    """

    labels: NDArray[np.str_]
    sums: Sums
    value: Value
    over: str
    smooth: bool = True
    ratio: bool = False
    columns: tuple[str, ...] | None = None
    value_of: Callable[[tuple[str, ...]], Value] | None = None

    def __post_init__(self) -> None:
        """Refuse sums without, or with equal, labels."""
        if self.sums.ndim != 2 or self.labels.shape != self.sums.shape[:1]:
            raise ValueError("expected a label for each row of sums")
        if len(set(self.labels.tolist())) != len(self.labels):
            raise ValueError("the labels of items should differ")
        if (self.columns is None) != (self.value_of is None):
            raise ValueError("names of sums and value_of go together")
        if self.columns is not None and not len(self.columns) == len(set(self.columns)) == self.sums.shape[1]:
            raise ValueError("expected a name of its own for each sum")

    @property
    def total(self) -> float:
        """The statistic over all items."""
        return float(self.value(self.sums.sum(axis=0, dtype=np.float64)))


def mean_moments(
    labels: NDArray[np.str_], sums: NDArray[np.generic], counts: NDArray[np.generic], over: str
) -> Moments:
    """Return the moments of a mean over cases: ``sums`` of each item's cases and their ``counts``, each of shape (G,).

    Items without a case are left out.

    Example:
        Two cases of the first item sum to 3, one of the second is 6: the mean of all three cases is 3.

        >>> mean_moments(np.array(["a", "b"]), np.array([3.0, 6.0]), np.array([2, 1]), "items").total
        3.0
    """
    pairs = np.stack([np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)], axis=1)
    kept = pairs[:, 1] > 0
    return Moments(np.asarray(labels, dtype=np.str_)[kept], pairs[kept], _ratio, over, ratio=True)


def _ratio(totals: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., 0] / totals[..., 1])


def named_moments(
    labels: NDArray[np.str_],
    sums: Sums,
    columns: tuple[str, ...],
    value_of: Callable[[tuple[str, ...]], Value],
    over: str,
    smooth: bool = True,
) -> Moments:
    """Return moments whose sums have names, so that two models may have different ones (see :func:`align`)."""
    return Moments(labels, sums, value_of(columns), over, smooth, columns=columns, value_of=value_of)


def align(then: Moments, now: Moments) -> tuple[Moments, Moments]:
    """Return both with the same items and the same sums, each in the same order.

    Items are those that both have, sorted by label. Sums with names are those that either has, sorted by name; one that a
    side lacks is 0 for all its items there.

    Args:
        then: moments of one model.
        now: those of the same statistic on another.

    Raises:
        UndefinedError: they have no item in common, or other sums (as F1 of clusters and of pairs).
        ValueError: they are not of one statistic: their items are of other kinds.

    Example:
        One has the items a and b and the sum "dance", the other has b and c and "fight": both have b left.

        >>> both = lambda columns: lambda totals: totals.sum(axis=-1)
        >>> then = named_moments(np.array(["a", "b"]), np.array([[1.0], [2.0]]), ("dance",), both, "persons")
        >>> now = named_moments(np.array(["c", "b"]), np.array([[4.0], [5.0]]), ("fight",), both, "persons")
        >>> [(m.labels.tolist(), m.columns, m.sums.tolist(), m.total) for m in align(then, now)]
        [(['b'], ('dance', 'fight'), [[2.0, 0.0]], 2.0), (['b'], ('dance', 'fight'), [[0.0, 5.0]], 5.0)]
    """
    if then.over != now.over or (then.columns is None) != (now.columns is None):
        raise ValueError(f"moments over {then.over} and over {now.over} are not of one statistic")
    labels, rows_then, rows_now = np.intersect1d(then.labels, now.labels, assume_unique=True, return_indices=True)
    if not len(labels):
        raise UndefinedError(f"the two have none of the {then.over} in common")
    if then.columns is None or now.columns is None:
        if then.sums.shape[1] != now.sums.shape[1]:
            raise UndefinedError(
                f"the two were counted in other ways: {then.sums.shape[1]} sums an item and {now.sums.shape[1]}"
            )
        return (
            replace(then, labels=labels, sums=then.sums[rows_then]),
            replace(now, labels=labels, sums=now.sums[rows_now]),
        )
    columns = tuple(sorted({*then.columns, *now.columns}))
    return _restrict(then, labels, rows_then, columns), _restrict(now, labels, rows_now, columns)


def _restrict(moments: Moments, labels: NDArray[np.str_], rows: NDArray[np.intp], columns: tuple[str, ...]) -> Moments:
    assert moments.columns is not None and moments.value_of is not None  # __post_init__ sees to it
    place = {name: i for i, name in enumerate(columns)}
    sums = np.zeros((len(rows), len(columns)), dtype=moments.sums.dtype)
    sums[:, [place[name] for name in moments.columns]] = moments.sums[rows]
    return replace(moments, labels=labels, sums=sums, columns=columns, value=moments.value_of(columns))


def distinct(names: ArrayLike) -> NDArray[np.str_]:
    """Return names that all differ: the second of equal ones gets " (2)", and so on. Shape (n,).

    >>> distinct(["a", "b", "a"]).tolist()
    ['a', 'b', 'a (2)']
    """
    taken: set[str] = set()
    found = []
    for name in np.asarray(names, dtype=np.str_).tolist():
        chosen, number = name, 1
        while chosen in taken:
            number += 1
            chosen = f"{name} ({number})"
        taken.add(chosen)
        found.append(chosen)
    return np.asarray(found, dtype=np.str_)


def blocks_of(n: int, what: str) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return at most 200 blocks of n consecutive cases, as items of what has thousands of cases.

    Neighbours in a data set are often alike (three pairs of SNLI share a premise), which single cases would hide.

    Args:
        n: number of cases.
        what: what a case is, in the plural.

    Returns:
        The name of each block, and the block of each case, shape (n,).

    >>> labels, block = blocks_of(500, "pairs")
    >>> len(labels), str(labels[1]), block[:7].tolist()
    (167, 'pairs 3-5', [0, 0, 0, 1, 1, 1, 2])
    """
    size = -(-n // _MOST_BLOCKS) or 1
    starts = range(0, n, size)
    labels = [f"{what} {start}-{min(start + size, n) - 1}" for start in starts]
    return np.asarray(labels, dtype=np.str_), np.arange(n, dtype=np.int64) // size


def block_of(names: Iterable[str]) -> NDArray[np.int64]:
    """Return the block of each case, 0 to 99, by the CRC-32 of its name, so that it is the same whoever else is there. Shape (n,).

    >>> block_of(["x001", "x002", "x001"])
    array([98, 84, 98])
    """
    return np.asarray([zlib.crc32(name.encode()) % HASHED_BLOCKS for name in names], dtype=np.int64)


def stored(items: Mapping[str, NDArray[Any]], *names: str) -> list[NDArray[Any]]:
    """Return arrays of item statistics by name.

    Raises:
        UndefinedError: one is not there, as in a baseline of an earlier version, or where the data were not at hand.
    """
    lacking = [name for name in names if name not in items]
    if lacking:
        raise UndefinedError(f"the items have no {', '.join(lacking)}")
    return [np.asarray(items[name]) for name in names]
