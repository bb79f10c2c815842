"""The statistics of suites: all that is known of one in one object, and the plain part of it that a measurement carries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import GateError
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.cases import Answer

FloatArray = NDArray[np.float64]
Options: TypeAlias = Mapping[str, Any]  #: values of the options of a family, each of its own type
Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Value = TypeVar("Value", float, FloatArray)
Plot = Literal["units", "scatter", "value"]


@dataclass(frozen=True)
class Statistic:
    """What a measurement carries of a statistic: plain data.

    Attributes:
        direction: the direction that is worse: ``higher``, ``lower``, or ``away`` from neutral on either side.
        neutral: value of a model without bias.
        meaning: what the statistic is, in one clause.
        partner: of a statistic without a sign: the statistic of the same suite that says to which side the bias leans.
        question: name of its own question; ``None`` for a statistic of the main question.
        plot: how its units are drawn: ``units`` (one value a unit), ``scatter`` (against the share of women), or ``value`` (one value).
        mistakes: of a statistic that chance raises, the more so the more mistakes a model makes: the statistic of these mistakes
            (``accuracy``). Two values are compared only where it did not move. ``None``: chance does not raise the statistic.
        without_chance: the statistic of the same kind that chance does not raise, if there is one.
        no_gate: why no gate takes it, and what to gate instead; empty for a statistic that gates take.
    """

    direction: str
    neutral: float
    meaning: str
    partner: str | None = None
    question: str | None = None
    plot: str = "units"
    mistakes: str | None = None
    without_chance: str | None = None
    no_gate: str = ""

    def check_gateable(self, name: str) -> None:
        """Refuse a statistic that says nothing of how large a bias is.

        Args:
            name: its name, for the message.

        Raises:
            GateError: it is a p value, or no measure of bias.
        """
        if self.no_gate:
            raise GateError(f"no gate takes {name}: {self.no_gate}")

    def distance(self, value: Value) -> Value:
        """Return how bad a value is, or each of an array of values: larger is worse, 0 is neutral."""
        signed = value - self.neutral
        return signed if self.direction == "higher" else -signed if self.direction == "lower" else abs(signed)


#: From options and item arrays to the sums of a statistic.
MakeSums: TypeAlias = Callable[[Options, Arrays], ItemSums]
#: From options and the answer to the main question to the score of each unit, or ``None``.
UnitScores: TypeAlias = Callable[[Options, Answer], "FloatArray | None"]
#: From options and the kind of the model to what is drawn at random.
Drawn: TypeAlias = Callable[[Options, str], str]
#: From what :meth:`Family.shuffle` returns to the values of a statistic, shape (repeats,); ``None`` where there are none.
NullValues: TypeAlias = Callable[[Any], "FloatArray | None"]


@dataclass(frozen=True)
class FamilyStatistic:
    """A statistic of a family: its plain part, and the functions that compute its sums, unit scores and null values.

    Attributes:
        direction: as in :class:`Statistic`, as are ``neutral``, ``meaning``, ``partner``, ``question``, ``plot``, ``mistakes``,
            ``without_chance`` and ``no_gate``.
        sums: function that makes the sums of each unit, or the reason why the statistic has none.
        scores: for a statistic that is a mean over all units of scores between 0 and 1: function that returns the score of each
            answered unit, shape (n,), in the order of the answer. NaN for a unit that turns out to have no score. The function returns
            ``None`` if the options make the statistic something else than such a mean. ``None`` instead of a function: it never is one.
        draws: what is drawn at random inside the statistic, beside the sample of cases, in words ("shuffles"), or a function that
            returns these words. Such a statistic is not exact even if all cases are scored: another seed gives another value.
        null: function from the family's shuffles to the values of the statistic; ``None``: the statistic has no null control.
        limits: for a statistic whose sums are by unit and template, the least and the largest value that it can have; ``None``: its sums
            are by unit.
    """

    direction: str
    neutral: float
    meaning: str
    sums: MakeSums | str
    partner: str | None = None
    question: str | None = None
    plot: Plot = "units"
    scores: UnitScores | None = None
    draws: Drawn | str = ""
    null: NullValues | None = None
    mistakes: str | None = None
    without_chance: str | None = None
    no_gate: str = ""
    limits: tuple[float, float] | None = None

    @property
    def is_size(self) -> bool:
        """Whether it is made of sizes without a sign, so that chance alone keeps it from its neutral value 0, and shuffles say how far."""
        return self.direction == "higher" and self.neutral == 0 and self.partner is not None and self.null is not None

    @property
    def plain(self) -> Statistic:
        """The part that a measurement carries."""
        about = (self.direction, self.neutral, self.meaning, self.partner, self.question, self.plot)
        return Statistic(*about, self.mistakes, self.without_chance, self.no_gate)

    def item_sums(self, options: Options, arrays: Arrays) -> ItemSums:
        """Return the sums of each unit.

        Raises:
            UndefinedError: the statistic is not made of sums over units, or the arrays lack what it needs.
        """
        if isinstance(self.sums, str):
            raise UndefinedError(self.sums)
        return self.sums(options, arrays)

    def unit_scores(self, options: Options, answer: Answer) -> FloatArray | None:
        """Return the score of each unit that was answered, or ``None`` (see ``scores``)."""
        return None if self.scores is None else self.scores(options, answer)

    def drawn(self, options: Options, role: str) -> str:
        """Return what is drawn at random inside the statistic, in words, for a model of the kind ``role``."""
        return self.draws if isinstance(self.draws, str) else self.draws(options, role)


def named_values(name: str) -> NullValues:
    """Return a function that takes the values of a statistic from shuffles that are a mapping from names to values.

    >>> named_values("share")({"share": [0.5]}), named_values("mean")({"share": [0.5]})
    ([0.5], None)
    """

    def values(shuffles: Mapping[str, FloatArray]) -> FloatArray | None:
        return shuffles.get(name)

    return values
