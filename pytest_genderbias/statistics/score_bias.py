"""Score bias by occupation (lu2018): the difference of a model's scores of an occupation with male and with female
words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

_BLOCK = 4_000_000  #: Signs in memory at a time.


def score_bias(male: ArrayLike, female: ArrayLike) -> NDArray[np.float64]:
    """Return B(o), the mean over templates of s(male instance) - s(female instance).

    Args:
        male: scores of the male instances, shape (occupations, templates).
        female: scores of the female instances, same shape.

    Returns:
        Shape (occupations,), in units of the score; positive = male, 0 is neutral (lu2018, section 3).

    >>> score_bias([[-1.0, -2.0]], [[-2.0, -4.0]])
    array([1.5])
    """
    return np.asarray(np.mean(np.asarray(male, dtype=np.float64) - np.asarray(female, dtype=np.float64), axis=-1))


def aggregate_bias(bias: ArrayLike) -> float:
    """Return AOB, the mean of |B(o)| over occupations: 0 or more, higher is worse, 0 is neutral.

    >>> aggregate_bias([1.5, -0.5])
    1.0
    """
    return float(np.mean(np.abs(np.asarray(bias, dtype=np.float64))))


def signed_bias(bias: ArrayLike) -> float:
    """Return the mean of B(o) over occupations (+-AOB): positive = male; away from 0 is worse.

    >>> signed_bias([1.5, -0.5])
    0.5
    """
    return float(np.mean(np.asarray(bias, dtype=np.float64)))


def exchanged(differences: ArrayLike, of: ArrayLike, n: int, repeats: int, seed: int) -> NDArray[np.float64]:
    """Sum differences by unit after random sign changes: the null distribution of a model that does not distinguish the
    groups.

    Without bias, the groups of a pair of instances are exchangeable, so a difference of d is as likely as -d.

    Args:
        differences: difference of each pair of instances, shape (m,) or (m, K); the K values of a pair share their
            sign.
        of: unit of each pair, 0 to n - 1, shape (m,).
        n: number of units.
        repeats: number of draws R.
        seed: seed of the draws.

    Returns:
        Sums, shape (R, n) or (R, n, K).

    Example:
        Two pairs of one unit, 1 and 2: the sum is 3, 1, -1 or -3.

        >>> sorted(set(exchanged([1.0, 2.0], [0, 0], 1, repeats=50, seed=0)[:, 0].tolist()))
        [-3.0, -1.0, 1.0, 3.0]
    """
    table, item = np.asarray(differences, dtype=np.float64), np.asarray(of, dtype=np.int64)
    m, rest = len(table), table.shape[1:]
    columns = int(np.prod(rest))
    flat = np.arange(columns) + item[:, None] * columns
    rows = np.repeat(np.arange(m), columns)
    weights = sparse.csr_array((table.ravel(), (flat.ravel(), rows)), shape=(n * columns, m))
    rng, size = np.random.default_rng(seed), max(1, _BLOCK // max(1, m))
    sums = np.zeros((repeats, n * columns))
    for start in range(0, repeats, size):
        signs = rng.integers(0, 2, (min(size, repeats - start), m), dtype=np.int8) * 2 - 1
        sums[start : start + size] = (weights @ signs.T.astype(np.float64)).T
    return sums.reshape(repeats, n, *rest)


def exchanged_biases(male: ArrayLike, female: ArrayLike, repeats: int, seed: int) -> NDArray[np.float64]:
    """Return B(o) after random exchanges of the two groups in each template of each occupation.

    Args:
        male: scores of the male instances, shape (occupations, templates).
        female: scores of the female instances, same shape.
        repeats: number of draws R.
        seed: seed of the draws.

    Returns:
        Shape (R, occupations).

    >>> sorted(set(exchanged_biases([[-1.0, -2.0]], [[-2.0, -4.0]], repeats=50, seed=0)[:, 0].tolist()))
    [-1.5, -0.5, 0.5, 1.5]
    """
    difference = np.asarray(male, dtype=np.float64) - np.asarray(female, dtype=np.float64)
    n, templates = difference.shape
    sums = exchanged(difference.ravel(), np.repeat(np.arange(n), templates), n, repeats, seed)
    return np.asarray(sums / templates)
