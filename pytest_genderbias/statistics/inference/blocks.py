"""Names of units, and blocks of cases that serve as units where there are thousands of cases."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

HASHED_BLOCKS = 100  #: blocks of cases that have names
_MOST_BLOCKS = 200  #: blocks of consecutive cases


def distinct(names: ArrayLike) -> NDArray[np.str_]:
    """Return names that all differ: a repeated name gets the suffix " (2)", " (3)", and so on. Shape (n,).

    >>> distinct(["a", "b", "a"]).tolist()
    ['a', 'b', 'a (2)']
    """
    taken: set[str] = set()
    unique = []
    for name in np.asarray(names, dtype=np.str_).tolist():
        candidate, number = name, 1
        while candidate in taken:
            number += 1
            candidate = f"{name} ({number})"
        taken.add(candidate)
        unique.append(candidate)
    return np.asarray(unique, dtype=np.str_)


def blocks_of(n: int, what: str) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Split n consecutive cases into at most 200 blocks.

    Neighbours in a data set are often alike (three pairs of SNLI share a premise). Blocks keep them together.

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
    """Return the block of each case, 0 to 99: the CRC-32 of its name, which does not depend on the other cases. Shape
    (n,).

    >>> block_of(["x001", "x002", "x001"])
    array([98, 84, 98])
    """
    return np.asarray([zlib.crc32(name.encode()) % HASHED_BLOCKS for name in names], dtype=np.int64)
