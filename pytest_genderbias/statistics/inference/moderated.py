"""The spread of a training, from few restarts and what is known of other trainings: moderated variances (Smyth
2004).
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_PRIOR_FREEDOM = 8.0  #: more are never believed: other trainings are not this one
#: Degrees of freedom of a spread that may be too small, or too large, by a factor of 2
#: (docs/evidence/coverage-restarts.md).
PRIOR_FREEDOM = 1.5


@dataclass(frozen=True)
class Prior:
    """Prior knowledge of the spread of a statistic over restarts, before any restart is seen.

    Attributes:
        spread: standard deviation of a restart, in units of the statistic, above 0.
        freedom: how many degrees of freedom it is worth, 0 to 8; more count as 8.
    """

    spread: float
    freedom: float = PRIOR_FREEDOM


def moderated_variance(
    variance: float, freedom: float, prior_variance: float, prior_freedom: float
) -> tuple[float, float]:
    """Return a variance that borrows from a prior one, with its degrees of freedom (Smyth 2004, section 4, equation 4).

    It is the mean of the two variances, weighted by their degrees of freedom. If the true variances of trainings are
    distributed as the prior says, the difference of two means divided by its moderated error follows Student's t with
    the sum of the degrees of freedom.

    Args:
        variance: the estimate, in squared units of the statistic, 0 or more.
        freedom: its degrees of freedom, 0 or more; with 0 the estimate is ignored.
        prior_variance: the variance of other trainings, in the same units.
        prior_freedom: its degrees of freedom; more than 8 count as 8.

    Returns:
        Variance and degrees of freedom.

    Raises:
        ValueError: neither has a degree of freedom, or one is negative.

    Example:
        A variance of 9 from three restarts, and a prior of 1 that is worth two more degrees: (2 x 9 + 2 x 1) / 4.

        >>> moderated_variance(9.0, 2, 1.0, 2)
        (5.0, 4.0)
    """
    borrowed = min(prior_freedom, MOST_PRIOR_FREEDOM)
    total = freedom + borrowed
    if min(freedom, borrowed) < 0 or total <= 0:
        raise ValueError("expected degrees of freedom of 0 or more, and one above 0")
    return (freedom * variance + borrowed * prior_variance) / total, float(total)
