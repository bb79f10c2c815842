"""Perplexity: how well a language model foretells a text."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.inference.item_sums import FloatArray, Moments, blocks_of
from pytest_genderbias.statistics.inference.undefined import UndefinedError

_LARGEST = 700.0  #: exp of more is no finite number


def perplexity(log_probabilities: ArrayLike, counts: ArrayLike) -> float:
    """Return exp( - sum of ln P / number of words), or of tokens, over all parts of a text.

    By words it can be compared between models with different tokens; by tokens it cannot.

    Args:
        log_probabilities: ln P of each part, in nats, shape (n,).
        counts: words (or tokens) of each part, shape (n,).

    Returns:
        1 or more (above the number of words that the model knows: worse than a guess); higher is worse, 1 is a text that is foretold.

    Raises:
        UndefinedError: there are no words, or the perplexity is too large for a number.

    >>> round(perplexity([-3 * np.log(8.0), -np.log(8.0)], [3, 1]), 9)
    8.0
    """
    total, number = float(np.sum(np.asarray(log_probabilities, dtype=np.float64))), float(np.sum(counts))
    if not number:
        raise UndefinedError("the text has no words")
    if -total / number > _LARGEST:
        raise UndefinedError(f"it is exp({-total / number:.0f}), too large for a number")
    return float(np.exp(-total / number))


def perplexity_moments(log_probabilities: ArrayLike, counts: ArrayLike) -> Moments:
    """Return :func:`perplexity` as a function of sums over blocks of consecutive parts of a text, 200 at most.

    Args:
        log_probabilities: as in :func:`perplexity`, shape (n,).
        counts: as in :func:`perplexity`, shape (n,).

    >>> round(perplexity_moments([-3 * np.log(8.0), -np.log(8.0)], [3, 1]).total, 9)
    8.0
    """
    parts = np.stack([np.asarray(c, dtype=np.float64) for c in (log_probabilities, counts)], axis=1)
    labels, block = blocks_of(len(parts), "passages")
    sums = np.zeros((len(labels), 2))
    np.add.at(sums, block, parts)
    return Moments(labels, sums, _of_sums, "passages")


def _of_sums(totals: NDArray[np.float64]) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = -totals[..., 0] / totals[..., 1]
    return np.exp(np.where(nats <= _LARGEST, nats, np.nan))
