"""Batches of rows of similar length, limited by their number of tokens, with little padding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_FEW = 8  #: fewer rows than this of one length are batched with rows of the next shorter length


def length_batches(
    lengths: NDArray[np.int64], batch_tokens: int, most_rows: int, padded: bool = True
) -> Iterator[NDArray[np.int64]]:
    """Yield the row numbers of each batch, longest rows first, so that a lack of memory shows at once.

    Args:
        lengths: tokens of each row, shape (n,).
        batch_tokens: maximum number of tokens in a batch, including padding.
        most_rows: maximum number of rows in a batch.
        padded: whether a batch may have rows of several lengths, the shorter ones with padding.

    >>> [list(map(int, b)) for b in length_batches(np.array([5, 5, 5, 5, 5, 5, 5, 5, 5]), 20, 99)]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    start, few = 0, _FEW if padded else 0
    while start < len(order):
        stop = int(np.searchsorted(-ordered, -ordered[start], side="right"))
        while stop - start < few and stop < len(order):
            stop = int(np.searchsorted(-ordered, -ordered[stop], side="right"))
        rows = min(most_rows, max(1, batch_tokens // max(1, int(ordered[start]))))
        for at in range(start, stop, rows):
            yield order[at : min(at + rows, stop)]
        start = stop
