"""Corrections of p values for the number of tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Return p values adjusted so that the chance of any false rejection stays within the level (Holm 1979, step-down).

    The smallest of m p values is multiplied by m, the next by m - 1, and so on; none falls below one before it. It
    needs no independence, and rejects whatever Bonferroni's correction rejects, which multiplies each of them by m
    (Dunn 1961).

    Args:
        p: p values of the whole family, shape (m,), in any order.

    Returns:
        Adjusted p values, shape (m,), in the order of ``p``, at most 1.

    Example:
        .01 x 3, .03 x 2, and .04 x 1, which is raised to the one before it.

        >>> holm([0.04, 0.01, 0.03]).round(6).tolist()
        [0.06, 0.03, 0.06]
    """
    values = _p_values(p)
    order = np.argsort(values, kind="stable")
    left = np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(left * values[order]), 1.0)
    return adjusted


def _p_values(p: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(p, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("p values lie between 0 and 1")
    return values
