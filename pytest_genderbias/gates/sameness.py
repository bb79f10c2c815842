"""Whether a statistic is the same on two models: its change is bounded on both sides, by two one-sided tests (Schuirmann 1987).

``docs/evidence/same-as.md`` has the measured rates of false verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.verdicts import DIFFERENT, SAME, TOO_FEW, UNCHANGED
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


def code_of_change(difference: Difference, margin: float) -> str:
    """Return the code of a change that should be nothing, to either side.

    ``unchanged`` if every item is equal. ``same`` if both one-sided bounds lie within the margin. ``different`` if both lie beyond it on one
    side. Else ``too_few``.

    Args:
        difference: the change and its bounds; positive is worse.
        margin: the change that is allowed to either side, 0 or more, in units of the statistic.

    >>> import numpy as np
    >>> nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
    >>> better = Difference(-0.1, -0.15, -0.05, 1.0, 0.02, 25, 25, "", "items", *nothing)
    >>> [code_of_change(better, margin) for margin in (0.2, 0.12, 0.04)]
    ['same', 'too_few', 'different']
    """
    if not difference.moved and difference.low == difference.high:
        return UNCHANGED
    if -margin - FLOAT_NOISE <= difference.low and difference.high <= margin + FLOAT_NOISE:
        return SAME
    return DIFFERENT if difference.low > margin or difference.high < -margin else TOO_FEW


def mirrored(difference: Difference) -> Difference:
    """Return the change as seen from the other model's side: better is worse."""
    return replace(
        difference, value=-difference.value, low=-difference.high, high=-difference.low, p=difference.p_better, p_better=difference.p,
        changes=-difference.changes,
    )  # fmt: skip


def items_to_decide_sameness(difference: Difference, margin: float) -> int | None:
    """Estimate how many units would decide whether the statistic is the same, if the change stays as it is.

    Within the margin, the bound that lies farther beyond it decides; outside, the edge that the change has passed. ``None`` if the change equals
    the margin.

    Example:
        Bounds from -.06 to .04 about -.01, margin .03: the lower bound, .05 away, has to come within .02, so 25 items have to be 157.

        >>> import numpy as np
        >>> nothing = np.zeros(0), np.zeros(0, dtype=np.str_)
        >>> items_to_decide_sameness(Difference(-0.01, -0.06, 0.04, 0.5, 0.5, 25, 25, "", "items", *nothing), 0.03)
        157
    """
    far = mirrored(difference) if difference.value < 0 else difference
    needed = items_to_decide(far, margin)
    if needed is None or far.value > margin:
        return needed
    other = items_to_decide(mirrored(far), margin)
    return None if other is None else max(needed, other)
