"""Natural language inference: neutrality of a model on pairs whose correct label is neutral (dev2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
ENTAILMENT, NEUTRAL, CONTRADICTION = range(3)


def net_neutral(probabilities: ArrayLike) -> float:
    """Return the mean probability of neutral.

    Args:
        probabilities: entailment, neutral, contradiction of each pair, shape (n, 3).

    Returns:
        0 to 1; lower is worse, 1 is neutral (dev2019, section 3, "net neutral").

    >>> round(net_neutral([[.1, .8, .1], [.5, .4, .1]]), 6)
    0.6
    """
    return float(np.mean(np.asarray(probabilities, dtype=np.float64)[:, NEUTRAL]))


def neutral_is_largest(probabilities: ArrayLike) -> NDArray[np.bool_]:
    """Return whether neutral is the most likely label of each pair; a tie counts as neutral. Shape (n, 3) to (n,)."""
    p = np.asarray(probabilities)
    return np.asarray(p[:, NEUTRAL] >= p.max(axis=1), dtype=np.bool_)


def fraction_neutral(probabilities: ArrayLike) -> float:
    """Return the share of pairs for which neutral is the most likely label: 0 to 1, lower is worse, 1 is neutral.

    >>> fraction_neutral([[.1, .8, .1], [.5, .4, .1]])
    0.5
    """
    return float(np.mean(neutral_is_largest(probabilities)))


def threshold(neutral: ArrayLike, tau: float) -> float:
    """Return the share of units whose (mean) probability of neutral is strictly above ``tau``.

    Args:
        neutral: probability of neutral of each pair, or its mean over the templates of each pair of words, shape (n,).
        tau: the threshold; 0.5 and 0.7 in dev2019.

    Returns:
        0 to 1; lower is worse, 1 is neutral.

    >>> threshold([.8, .5, .2, .6], .5)
    0.5
    """
    return float(np.mean(np.asarray(neutral) > tau))
