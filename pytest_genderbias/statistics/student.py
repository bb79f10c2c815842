"""Student's t by the functions of ``scipy.special``, which give the same numbers as ``scipy.stats`` and are imported in
a tenth of its time.
"""

from __future__ import annotations


def t_quantile(level: float, freedom: float) -> float:
    """Return the value below which Student's t lies with probability ``level``, above 0 and at most 1; ``freedom``:
    degrees of freedom, also infinite.

    >>> round(t_quantile(0.975, 2), 3), round(t_quantile(0.975, float("inf")), 3)
    (4.303, 1.96)
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, level))


def t_above(value: float, freedom: float) -> float:
    """Return the probability that Student's t lies above ``value``, in [0, 1].

    >>> round(t_above(4.303, 2), 3), t_above(0.0, 7)
    (0.025, 0.5)
    """
    from scipy.special import stdtr

    return float(stdtr(freedom, -value))
