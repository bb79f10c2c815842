"""Whether a margin can be exceeded at all, by the range of its statistic."""

from __future__ import annotations

import math

from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.agreement import FLOAT_NOISE
from pytest_genderbias.gates.margin import Allowed
from pytest_genderbias.suites.statistic import Statistic


def check_breakable(
    margin: Allowed, statistic: str, about: Statistic, value: float | None = None, same: bool = False
) -> None:
    """Refuse a margin that no value of a statistic can exceed.

    Args:
        margin: the margin as a number.
        statistic: name of the statistic.
        about: the statistic.
        value: what is compared with; ``None`` where it is not known yet. From the worst value nothing can be worse, whatever the
            margin is; that is not refused.
        same: whether a change to either side counts, and one through neutral counts whole.

    Raises:
        GateError: it is such a margin.

    >>> share = Statistic("lower", 1.0, "a share", least=0.0, most=1.0)
    >>> check_breakable(Allowed(0.3), "share", share)
    >>> check_breakable(Allowed(0.3), "share", share, value=0.2)
    Traceback (most recent call last):
    pytest_genderbias.errors.GateError: no model can break the margin 0.3: share lies from 0 to 1, and from 0.2 it can worsen by at most 0.2; \
write a smaller one, or a limit
    """
    best, worst = about.distances
    room = worst - (best if value is None else about.distance(value))
    if same:
        least, most = about.range
        room = most - least if value is None else max(most - value, value - least)
    if not math.isfinite(room) or room <= FLOAT_NOISE or margin.amount < room - FLOAT_NOISE:
        return
    since = "it" if value is None else f"from {value:.4g} it"
    change = "change" if same else "worsen"
    written = f" ({margin.written})" if margin.written else ""
    raise GateError(
        f"no model can break the margin {margin.amount:.4g}{written}: {statistic} {about.range_in_words}, and {since} can {change} by at most "
        f"{room:.4g}; write a smaller one, or a limit"
    )
