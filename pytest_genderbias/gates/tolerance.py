"""Tolerances: how much worse a statistic may be, as it is written, and as the number that a verdict rests on."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_genderbias.errors import GateError

AUTO = "auto"
_SHARE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*%\s*")
FORMS = (
    "a number of 0 or more in units of the statistic, a share of the stored distance from neutral ('20%'), or 'auto'"
)
#: What to do where a comparison has no tolerance.
HOW_TO_CHOOSE = (
    "run pytest with --bias-plan: it measures which tolerance models keep that are equal but for chance, and which worsening is found then; "
    "'auto' takes the one that it stored in the baseline"
)


@dataclass(frozen=True)
class Tolerance:
    """How much worse a statistic may be, as it is written. With neither an amount nor a share, it is the planned one (``auto``).

    Attributes:
        amount: in units of the statistic, 0 or more.
        share: of the distance of the stored value from neutral, 0 or more: .2 for ``20%``.
    """

    amount: float | None = None
    share: float | None = None

    def __str__(self) -> str:
        """Return it as it is written."""
        if self.amount is not None:
            return f"{self.amount:g}"
        return AUTO if self.share is None else f"{100 * self.share:g}%"

    @property
    def is_auto(self) -> bool:
        """Whether it is the planned one."""
        return self.amount is None and self.share is None

    def resolve(self, distance: float | None, planned: PlannedMargin | None = None) -> Margin | None:
        """Return the number that it stands for; ``None`` if that is the planned one and there is none.

        Args:
            distance: of the stored value from neutral, in units of the statistic; ``None`` or not finite if it has no value.
            planned: what ``--bias-plan`` stored for the statistic.

        >>> Tolerance(share=0.2).resolve(0.15)
        Margin(amount=0.03, written='20% of the distance 0.15 from neutral')
        >>> Tolerance(amount=0.02).resolve(0.15), Tolerance().resolve(0.15)
        (Margin(amount=0.02, written=''), None)
        """
        if self.amount is not None:
            return Margin(self.amount)
        if self.share is not None:
            far = abs(distance) if distance is not None and math.isfinite(distance) else 0.0
            return Margin(self.share * far, f"{self} of the distance {far:.4g} from neutral")
        if planned is None or planned.tolerance is None:
            return None
        return Margin(
            planned.tolerance, f"{AUTO}, planned on {planned.date}" if planned.date else f"{AUTO}, as planned"
        )


@dataclass(frozen=True)
class Margin:
    """A tolerance as a number.

    Attributes:
        amount: in units of the statistic, 0 or more.
        written: what it was computed from, in words; empty if the number itself was written.
    """

    amount: float
    written: str = ""


@dataclass(frozen=True)
class PlannedMargin:
    """What ``--bias-plan`` found for a statistic of a baseline entry.

    Attributes:
        tolerance: the least tolerance at which 95 % of equal models pass, in units of the statistic; ``None`` if it found none.
        date: when it was planned, in ISO format.
        measured: what else the plan measured (power, rate of false alarms, ...), as plain JSON values by name.
        why: why it found no tolerance; empty if it found one.
    """

    tolerance: float | None
    date: str = ""
    measured: Mapping[str, object] = field(default_factory=dict)
    why: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, as the baseline file has them."""
        return {name: value for name, value in vars(self).items() if name != "why" or value}


def read_tolerance(written: object) -> Tolerance:
    """Return a tolerance from a number, a text such as ``20%`` or ``auto``, or a tolerance.

    Raises:
        GateError: it is ``None``, or has another form.

    >>> read_tolerance(0.02), read_tolerance("20 %"), read_tolerance("auto")
    (Tolerance(amount=0.02, share=None), Tolerance(amount=None, share=0.2), Tolerance(amount=None, share=None))
    """
    if isinstance(written, Tolerance):
        return written
    if written is None:
        raise GateError(f"a comparison needs a tolerance: {FORMS}. To choose one, write 'auto' and {HOW_TO_CHOOSE}")
    if isinstance(written, (int, float)) and not isinstance(written, bool) and 0 <= written < math.inf:
        return Tolerance(amount=float(written))
    if isinstance(written, str):
        if written.strip() == AUTO:
            return Tolerance()
        if (match := _SHARE.fullmatch(written)) and math.isfinite(share := float(match[1]) / 100):
            return Tolerance(share=share)
    raise GateError(f"a tolerance should be {FORMS}; got {written!r:.80}")


def read_tolerance_of_sameness(written: object) -> Tolerance:
    """Return the tolerance of a model that should be the same as another; forms and errors as :func:`read_tolerance`, without ``auto``.

    Raises:
        GateError: it is ``None`` or ``auto``, or has another form.

    >>> read_tolerance_of_sameness(0.02)
    Tolerance(amount=0.02, share=None)
    """
    if written is not None and not (tolerance := read_tolerance(written)).is_auto:
        return tolerance
    raise GateError(
        f"'the same as' needs a tolerance of its own, a number in units of the statistic or a share of the distance from neutral ('20%'); got {written!s:.80}. "
        "What is planned as 'auto' is how much worse equal models may look, not how much a copy may change"
    )
