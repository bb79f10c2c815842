"""What a gate sees, as a baseline stores it and messages show it."""

from __future__ import annotations

import math
from dataclasses import dataclass


def percent(share: float) -> str:
    """Return a share in percent, with two digits or whole.

    >>> percent(0.079), percent(-0.18), percent(1.53)
    ('7.9', '-18', '153')
    """
    value = 100 * share
    return f"{value:.2g}" if abs(value) < 99.5 else f"{value:.0f}"


@dataclass(frozen=True)
class Seen:
    """What a gate sees: the smallest true worsening that fails in 80 % of releases.

    Attributes:
        size: in units of the statistic; infinite where the gate sees nothing.
        unit: the worsening that counts as a growth of 100 %: the distance of the stored value from neutral, or that of a public model where
            it is larger, so that a fair model can be gated, too; 0 where the value is neutral and no public model is known.
        red: worsening from which on it fails, in units of the statistic.
        retraining: what is known of other trainings, in words.
    """

    size: float
    unit: float
    red: float
    retraining: str = ""

    @property
    def growth(self) -> float:
        """The worsening in shares of the unit."""
        return self.size / self.unit if self.unit > 0 else math.inf

    @property
    def in_words(self) -> str:
        """The growth, as ``+18 %``.

        >>> Seen(0.09, 0.5, 0.06).in_words, Seen(math.inf, 0.5, math.inf).in_words
        ('+18 %', 'no growth')
        """
        return f"+{percent(self.growth)} %" if math.isfinite(self.growth) else "no growth"

    @property
    def sentence(self) -> str:
        """From where on the gate is red, and what it stops.

        >>> Seen(0.09, 0.5, 0.06, "5 restarts").sentence
        'red from 0.06 worse (+12 %); stops a growth of 18 % in 80 % of releases; other trainings by 5 restarts'
        >>> Seen(0.09, 0.0, 0.06).sentence
        'red from 0.06 worse; stops 0.09 worse in 80 % of releases'
        """
        share, stopped = "", f"{self.size:.2g} worse"
        if self.unit > 0:
            share, stopped = f" (+{percent(self.red / self.unit)} %)", f"a growth of {self.in_words.removeprefix('+')}"
        of_trainings = f"; other trainings by {self.retraining}" if self.retraining else ""
        return f"red from {self.red:.2g} worse{share}; stops {stopped} in 80 % of releases{of_trainings}"
