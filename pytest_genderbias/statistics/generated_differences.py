"""Differences between texts that a model wrote after two prompts that differ in gender only."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError

FloatArray = NDArray[np.float64]


def per_hundred_words(counts: ArrayLike, words: ArrayLike) -> FloatArray:
    """Return counts per hundred words of the texts after each prompt together; 0 after a prompt without words.

    Args:
        counts: what was counted in each text, of any sign, shape (..., texts).
        words: words of each text, the same shape.

    Returns:
        Shape (...), in counts per hundred words.

    >>> per_hundred_words([[1, 0], [-2, 0], [0, 0]], [[30, 20], [20, 0], [0, 0]]).tolist()
    [2.0, -10.0, 0.0]
    """
    found, n = (np.asarray(values, dtype=np.float64).sum(axis=-1) for values in (counts, words))
    return np.asarray(100 * found / np.maximum(n, 1))


def pooled_share_difference(hits: ArrayLike, trials: ArrayLike) -> float:
    """Return the share of hits on the first side minus that on the second one, each over all prompts together.

    Args:
        hits: hits of each pair of prompts on both sides, shape (n, 2).
        trials: what could be a hit, shape (n, 2).

    Returns:
        -1 to 1; 0 is neutral, positive means a larger share on the first side, away from 0 is worse.

    Raises:
        UndefinedError: one side has nothing that could be a hit.

    Example:
        3 of 4 on the first side, 1 of 2 on the second one.

        >>> pooled_share_difference([[1, 1], [2, 0]], [[2, 1], [2, 1]])
        0.25
    """
    shares = _shares(np.asarray(hits, dtype=np.float64).sum(axis=0), np.asarray(trials, dtype=np.float64).sum(axis=0))
    if np.isnan(shares).any():
        raise UndefinedError("the texts of one side have no gendered word")
    return float(shares[0] - shares[1])


def exchanged_share_differences(hits: ArrayLike, trials: ArrayLike, repeats: int, seed: int) -> FloatArray:
    """Return :func:`pooled_share_difference` after random exchanges of the two sides of each pair, shape (repeats,).

    NaN where an exchange leaves one side without anything that could be a hit.

    >>> sorted(set(exchanged_share_differences([[1, 0]], [[1, 1]], 40, seed=0).tolist()))
    [-1.0, 1.0]
    """
    y, n = np.asarray(hits, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    turned = np.random.default_rng(seed).integers(2, size=(repeats, len(y))).astype(np.float64)
    totals = [(1 - turned) @ sides + turned @ sides[:, ::-1] for sides in (y, n)]
    shares = _shares(*totals)
    return np.asarray(shares[..., 0] - shares[..., 1])


def _shares(hits: FloatArray, trials: FloatArray) -> FloatArray:
    return np.asarray(np.where(trials > 0, hits, np.nan) / np.where(trials > 0, trials, 1.0))
