"""What chance gives, beside a value: shuffles of the groups, where a suite has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_genderbias.measurement.measurement import Measurement

#: Kinds of figures: the end of the shuffles on the side that is worse, or both ends; the share of splits; the value of
#: a control.
SHUFFLES, SPLITS, CONTROL = "shuffles", "splits", "control"
_LEVEL = 0.05  #: p value of the null control below which a value is marked
#: Statistics that have a control among the statistics of their suite: the largest of some shuffles, or their mean.
_LARGEST = {"significant_fills": "random_groups_max"}
_MEANS = {"compression": "compression_shuffled"}
#: Statistics that have a permutation test among the statistics of their suite.
_TESTS = {"effect_size": "p_value", "combined_effect_size": "word_p_value"}


@dataclass(frozen=True)
class Chance:
    """What chance gives for a statistic.

    Attributes:
        kind: one of the kinds above.
        figures: one figure, or the two ends of the shuffles.
        beyond: whether the value is farther out than chance explains.
    """

    kind: str
    figures: tuple[float, ...]
    beyond: bool

    def in_words(self, figure: Callable[[float], str]) -> str:
        """Return it as a cell, with numbers as ``figure`` writes them."""
        if self.kind == SPLITS:
            return f"p {self.figures[0]:.4f}"
        return " to ".join(figure(number) for number in self.figures)


def chance_of(measurement: Measurement, statistic: str) -> Chance | None:
    """Return what chance gives for a statistic; ``None`` where the measurement does not say.

    The null control decides where there is one. Otherwise it is a statistic of the same suite: a control, or the p
    value of a permutation test, which is one-sided unless the suite was told otherwise.
    """
    value, null = measurement.values[statistic], measurement.null.get(statistic)
    if value is None:
        return None
    if null is not None:
        ends = {"higher": (null.high,), "lower": (null.low,)}.get(measurement.statistics[statistic].direction)
        return Chance(SHUFFLES, ends or (null.low, null.high), null.p_value <= _LEVEL)
    largest = measurement.values.get(_LARGEST.get(statistic, ""))
    if largest is not None:
        return Chance(CONTROL, (largest,), value > largest)
    mean = measurement.values.get(_MEANS.get(statistic, ""))
    if mean is not None:
        return Chance(CONTROL, (mean,), False)
    p = measurement.values.get(_TESTS.get(statistic, ""))
    if p is None:
        return None
    two_sided = bool(measurement.signature["settings"].get("two_sided", False))
    return Chance(SPLITS, (p,), p <= _LEVEL if two_sided else min(p, 1 - p) <= _LEVEL / 2)
