"""Gates with a limit: literal (``at_most``, ``at_least``), or a distance from neutral (``within``)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.judgement import NO_VALUE, PASS, REGRESSED, Judgement, make_judgement
from pytest_genderbias.measurement import Measurement
from pytest_genderbias.suites.family import Statistic


@dataclass(frozen=True)
class Limit:
    """One or two literal bounds, or a distance from neutral."""

    at_most: float | None = None
    at_least: float | None = None
    within: float | None = None

    def __post_init__(self) -> None:
        """Refuse a limit that bounds nothing, or two things at once."""
        given = [v for v in (self.at_most, self.at_least, self.within) if v is not None]
        if not given:
            raise GateError("a gate without a limit; expected at_most, at_least, within, or baseline: true")
        if self.within is not None and (len(given) > 1 or not self.within >= 0):
            raise GateError("'within' is a distance from neutral, 0 or more, and stands alone")
        if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in given):
            raise GateError(f"a limit should be a number, got {given}")
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise GateError(f"nothing is at least {self.at_least:g} and at most {self.at_most:g}")

    def check_direction(self, statistic: str, about: Statistic) -> None:
        """Refuse a lone one-sided limit on a statistic that is worse on either side of neutral."""
        if about.direction == "away" and self.within is None and (self.at_most is None or self.at_least is None):
            raise GateError(
                f"{statistic} is worse on either side of {about.neutral:g} (-0.9 is not 'at most 0.3'): use within, as within=0.3, "
                "or give both at_most and at_least"
            )

    def describe(self, about: Statistic) -> str:
        """Return the limit in short."""
        if self.within is not None:
            return f"within {self.within:g} of {about.neutral:g}"
        parts = [
            f"at least {self.at_least:g}" if self.at_least is not None else "",
            f"at most {self.at_most:g}" if self.at_most is not None else "",
        ]
        return " and ".join(part for part in parts if part)

    def holds(self, value: float, about: Statistic) -> bool:
        """Tell whether a value keeps the limit."""
        if self.within is not None:
            return abs(value - about.neutral) <= self.within
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)


def judge_limit(measurement: Measurement, limit: Limit, statistic: str | None = None) -> Judgement:
    """Judge a statistic, the main one by default, against a limit.

    Raises:
        GateError: the limit does not fit the statistic.
        UnknownNameError: the suite has no such statistic.
    """
    name = measurement.statistic(statistic)
    about, value = measurement.statistics[name], measurement.values[name]
    limit.check_direction(name, about)
    bound = limit.describe(about)
    if value is None:
        return make_judgement(measurement, name, bound, NO_VALUE, f"{name} should be {bound}, but it has no value")
    holds = limit.holds(value, about)
    finding = f"{name} is {value:.6g}, {'and should be' if holds else 'expected'} {bound}"
    return make_judgement(measurement, name, bound, PASS if holds else REGRESSED, finding)
