"""Whether a statistic is the same on two models: its change is bounded on both sides, by two one-sided tests (Schuirmann 1987).

``docs/evidence/same-as.md`` has the measured rates of false verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.verdicts import DIFFERENT, INCONCLUSIVE, SAME, UNCHANGED
from pytest_genderbias.statistics.inference.item_sums import FloatArray
from pytest_genderbias.statistics.inference.paired import Difference, items_to_decide
from pytest_genderbias.suites.statistic import Statistic


def straight_distance(about: Statistic, before: float) -> Callable[[FloatArray], FloatArray]:
    """Return the distance from neutral as a straight line: beyond neutral it goes on below 0, where the other way is worse, too.

    A value that moves from one side of neutral to the other has changed, though it may be as far from neutral as before.

    Args:
        about: the statistic.
        before: the value that others are compared with, whose side counts as worse where either side does.

    >>> effect = Statistic("away", 0.0, "effect size")
    >>> moved = straight_distance(effect, 0.2)
    >>> moved(0.3), moved(-0.2), effect.distance(-0.2)
    (0.3, -0.2, 0.2)
    """
    falling = about.direction == "lower" or (about.direction == "away" and before < about.neutral)
    return lambda value: about.neutral - value if falling else value - about.neutral


def verdict_of_sameness(difference: Difference, tolerance: float, largest_p: float) -> str:
    """Return the verdict on a change that should be nothing, to either side.

    ``unchanged`` if every item is equal. ``same`` if both one-sided bounds lie within the tolerance. ``different`` if both lie beyond it on one
    side, with a p value of at most ``largest_p``. Else ``inconclusive``.

    Args:
        difference: the change and its bounds; positive is worse.
        tolerance: the change that is allowed to either side, 0 or more, in units of the statistic.
        largest_p: the largest p value that counts as significant.

    >>> import numpy as np
    >>> nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
    >>> better = Difference(-0.1, -0.15, -0.05, 1.0, 0.02, 25, 25, "", "items", *nothing)
    >>> [verdict_of_sameness(better, tolerance, 0.05) for tolerance in (0.2, 0.12, 0.04)]
    ['same', 'inconclusive', 'different']
    """
    if not difference.moved and difference.low == difference.high:
        return UNCHANGED
    if -tolerance - FLOAT_NOISE <= difference.low and difference.high <= tolerance + FLOAT_NOISE:
        return SAME
    far = mirrored(difference) if difference.value < 0 else difference
    return DIFFERENT if far.low > tolerance and far.p <= largest_p else INCONCLUSIVE


def mirrored(difference: Difference) -> Difference:
    """Return the change as seen from the other model's side: better is worse."""
    return replace(
        difference, value=-difference.value, low=-difference.high, high=-difference.low, p=difference.p_better, p_better=difference.p,
        changes=-difference.changes,
    )  # fmt: skip


def items_to_decide_sameness(difference: Difference, tolerance: float) -> int | None:
    """Estimate how many units would decide whether the statistic is the same, if the change stays as it is.

    Within the tolerance, the bound that lies farther beyond it decides; outside, the edge that the change has passed. ``None`` if the change equals
    the tolerance.

    Example:
        Bounds from -.06 to .04 about -.01, tolerance .03: the lower bound, .05 away, has to come within .02, so 25 items have to be 157.

        >>> import numpy as np
        >>> nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
        >>> items_to_decide_sameness(Difference(-0.01, -0.06, 0.04, 0.5, 0.5, 25, 25, "", "items", *nothing), 0.03)
        157
    """
    far = mirrored(difference) if difference.value < 0 else difference
    needed = items_to_decide(far, tolerance)
    if needed is None or far.value > tolerance:
        return needed
    other = items_to_decide(mirrored(far), tolerance)
    return None if other is None else max(needed, other)
