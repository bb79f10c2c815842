"""Perplexity: how well a language model predicts a text."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import UndefinedError

FloatArray = NDArray[np.float64]

_LARGEST = 700.0  #: exp of more is not a finite number.


def perplexity(log_probabilities: ArrayLike, counts: ArrayLike) -> float:
    """Return exp( - sum of ln P / number of words), or of tokens, over all parts of a text.

    The perplexity by words can be compared between models with different tokenizers, the perplexity by tokens cannot.

    Args:
        log_probabilities: ln P of each part, in nats, shape (n,).
        counts: words (or tokens) of each part, shape (n,).

    Returns:
        1 or more; higher is worse. 1 is a perfect prediction; above the size of the vocabulary is worse than a uniform
        guess.

    Raises:
        UndefinedError: there are no words, or the perplexity is too large for a floating-point number.

    >>> round(perplexity([-3 * np.log(8.0), -np.log(8.0)], [3, 1]), 9)
    8.0
    """
    total, number = float(np.sum(np.asarray(log_probabilities, dtype=np.float64))), float(np.sum(counts))
    if not number:
        raise UndefinedError("the text has no words")
    if -total / number > _LARGEST:
        raise UndefinedError(f"it is exp({-total / number:.0f}), too large for a number")
    return float(np.exp(-total / number))


def perplexity_of_sums(totals: FloatArray) -> FloatArray:
    """Return the perplexity of totals of ln P and of words: shape (..., 2) to (...); NaN where it is too large, or
    there are no words.

    >>> round(float(perplexity_of_sums(np.array([-4 * np.log(8.0), 4.0]))), 9)
    8.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        nats = -totals[..., 0] / totals[..., 1]
    return np.exp(np.where(nats <= _LARGEST, nats, np.nan))
