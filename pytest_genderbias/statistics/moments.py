"""A statistic as a function of sums over items, so that other draws of the items can be had from sums at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


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
    """

    labels: NDArray[np.str_]
    sums: FloatArray
    value: Callable[[FloatArray], FloatArray]
    over: str
    smooth: bool = True
    ratio: bool = False

    def __post_init__(self) -> None:
        """Refuse sums without, or with equal, labels."""
        if self.sums.ndim != 2 or self.labels.shape != self.sums.shape[:1]:
            raise ValueError("expected a label for each row of sums")
        if len(set(self.labels.tolist())) != len(self.labels):
            raise ValueError("the labels of items should differ")

    @property
    def total(self) -> float:
        """The statistic over all items."""
        return float(self.value(self.sums.sum(axis=0)))


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
