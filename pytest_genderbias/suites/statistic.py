"""The figures of a suite: direction, neutral value and meaning of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Statistic:
    """One figure of a suite: which way is worse, and the value of a model without bias.

    ``direction`` is the direction that is worse: ``higher``, ``lower``, or ``away`` from ``neutral`` on either side.
    """

    direction: str
    neutral: float
    meaning: str

    def distance(self, value: float) -> float:
        """Return how bad a value is: larger is worse, 0 is neutral."""
        signed = value - self.neutral
        return {"higher": signed, "lower": -signed, "away": abs(signed)}[self.direction]
