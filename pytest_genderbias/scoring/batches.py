"""Batches of rows of like length, filled by tokens, so that next to nothing is padded."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_FEW = 8  #: fewer rows of one length than this are batched with the next longer ones


def length_batches(lengths: NDArray[np.int64], batch_tokens: int, most_rows: int) -> Iterator[NDArray[np.int64]]:
    """Yield row numbers of one batch after another, longest first, so that too little memory shows at once.

    Args:
        lengths: tokens of each row, shape (n,).
        batch_tokens: tokens of a batch, padding counted.
        most_rows: rows of a batch at most.

    >>> [list(map(int, b)) for b in length_batches(np.array([5, 5, 5, 5, 5, 5, 5, 5, 5]), 20, 99)]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    """
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    start = 0
    while start < len(order):
        stop = int(np.searchsorted(-ordered, -ordered[start], side="right"))
        while stop - start < _FEW and stop < len(order):
            stop = int(np.searchsorted(-ordered, -ordered[stop], side="right"))
        rows = min(most_rows, max(1, batch_tokens // max(1, int(ordered[start]))))
        for at in range(start, stop, rows):
            yield order[at : min(at + rows, stop)]
        start = stop
