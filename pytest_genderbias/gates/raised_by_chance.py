"""The check of statistics that chance raises: two values are compared only where chance raises both alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pytest_genderbias.gates.verdicts import LEVEL
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.statistics.inference.item_sums import ItemSums, align
from pytest_genderbias.statistics.inference.paired import Difference
from pytest_genderbias.statistics.inference.undefined import UndefinedError

#: The largest share of cases that may be counted for another class. Chance errors shrink with the root of a count, so
#: that they move by half of this share at most.
MOST_MOVED = 0.05


def why_chance_moved(
    measurement: Measurement,
    statistic: str,
    then: ItemSums | UndefinedError | None,
    now: ItemSums | UndefinedError | None,
    compare: Callable[[str], Difference],
) -> str:
    """Explain why chance raises the statistic differently than before, and what to gate instead. Return "" if it does
    not.

    Sums of absolute gaps and of distances are above 0 by chance, and farther above the more mistakes a model makes, and
    the fewer cases a rate is of.

    Args:
        measurement: the measurement of today.
        statistic: name of the statistic.
        then: its sums in the baseline or on the other model, or why there are none.
        now: its sums now.
        compare: function that returns the worsening of another statistic since then, or raises UndefinedError.
    """
    about = measurement.statistics[statistic]
    if about.mistakes is None:
        return ""
    reason = _mistakes_moved(about.mistakes, compare) or _counts_moved(then, now)
    if not reason:
        return ""
    advice = "" if about.without_chance is None else f"; gate {about.without_chance}, which chance does not raise"
    return f"{reason}, so that chance alone moves {statistic}{advice}"


def _mistakes_moved(mistakes: str, compare: Callable[[str], Difference]) -> str:
    """Return how the statistic of the mistakes moved, if chance does not explain it (two-sided, at 5 %)."""
    try:
        difference = compare(mistakes)
    except UndefinedError as error:
        return f"it is not known whether {mistakes} moved ({error})"
    p = min(1.0, 2 * min(difference.p, difference.p_better))
    if not difference.moved or p > 1 - LEVEL:
        return ""
    return f"{mistakes} is {abs(difference.value):.3g} {'worse' if difference.value > 0 else 'better'} (p = {p:.2g})"


def _counts_moved(then: ItemSums | UndefinedError | None, now: ItemSums | UndefinedError | None) -> str:
    """Return which share of the cases is counted for another class, if it is too large."""
    if not (isinstance(then, ItemSums) and isinstance(now, ItemSums)):
        return ""
    counts = [side.by_unit().trials() for side in align(then, now)]
    if counts[0] is None or counts[1] is None:
        return ""
    share = float(np.abs(counts[1] - counts[0]).sum() / max(1.0, counts[0].sum(), counts[1].sum()))
    if share <= MOST_MOVED:
        return ""
    return f"the cases that its classes are counted of moved by {share:.1%} (at most {MOST_MOVED:.0%})"
