"""The statistics of suites: all that is known of one in one object, and the plain part of it that a measurement
carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import GateError, UndefinedError
from pytest_genderbias.statistics.inference.intervals import Interval, clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.suites.cases import Answer
from pytest_genderbias.text.schema import one_of

FloatArray = NDArray[np.float64]
Options: TypeAlias = Mapping[str, Any]  #: values of the options of a family, each of its own type
Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
NullFigures: TypeAlias = dict[str, FloatArray]  #: the values of each statistic after shuffles, shape (repeats,)
Value = TypeVar("Value", float, FloatArray)
Plot = Literal["units", "scatter", "value"]


class Scale(NamedTuple):
    """The values of a statistic: the direction that is worse, the value of a model without bias, and the least and the
    largest value.
    """

    direction: str
    neutral: float
    limits: tuple[float, float] = (-np.inf, np.inf)


#: Of a difference that leans to either side, in units or in shares; of a size; of what is left of a size in shares
#: without what chance adds, which may be below 0; and of a share that should be whole, as of right answers.
SIGNED, SIGNED_SHARE = Scale("away", 0.0), Scale("away", 0.0, (-1.0, 1.0))
SIZE, EXCESS_SHARE = Scale("higher", 0.0, (0.0, np.inf)), Scale("higher", 0.0, (-1.0, 1.0))
SHARE = Scale("lower", 1.0, (0.0, 1.0))


@dataclass(frozen=True)
class Statistic:
    """A statistic as a measurement holds it: plain data.

    Attributes:
        direction: the direction that is worse: ``higher``, ``lower``, or ``away`` from neutral on either side.
        neutral: value of a model without bias.
        meaning: what the statistic is, in one clause.
        partner: of a statistic without a sign: the statistic of the same suite that says to which side the bias leans.
        question: name of its own question; ``None`` for a statistic of the main question.
        plot: how its units are drawn: ``units`` (one value a unit), ``scatter`` (against the share of women), or
            ``value`` (one value).
        mistakes: of a statistic that chance raises, the more so the more mistakes a model makes: the statistic of these
            mistakes (``accuracy``). Two values are compared only where it did not move. ``None``: chance does not raise
            the statistic.
        without_chance: the statistic of the same kind that chance does not raise, if there is one.
        no_gate: why no gate takes it, and what to gate instead; empty for a statistic that gates take.
        least: the least value that it can have; ``None`` if it has none, or it is not known.
        most: the largest.
        root: whether it is the signed root of a mean square. Its restarts are compared on the squares then, where
            errors are about normal.
    """

    direction: Annotated[str, one_of("higher", "lower", "away")]
    neutral: float
    meaning: str
    partner: str | None = None
    question: str | None = None
    plot: str = "units"
    mistakes: str | None = None
    without_chance: str | None = None
    no_gate: str = ""
    least: float | None = None
    most: float | None = None
    root: bool = False

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value, infinite where there is none."""
        return -math.inf if self.least is None else self.least, math.inf if self.most is None else self.most

    @property
    def range_text(self) -> str:
        """The range as a message names it."""
        if self.least is None:
            return "has any value" if self.most is None else f"is at most {self.most:.4g}"
        return (
            f"is at least {self.least:.4g}" if self.most is None else f"lies from {self.least:.4g} to {self.most:.4g}"
        )

    @property
    def distances(self) -> tuple[float, float]:
        """How good and how bad a value can be: the least and the largest distance from neutral."""
        ends = [self.distance(value) for value in self.range]
        reaches_neutral = self.direction == "away" and self.range[0] <= self.neutral <= self.range[1]
        return 0.0 if reaches_neutral else min(ends), max(ends)

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


def mean_interval(sums: ItemSums, limits: tuple[float, float]) -> Interval | None:
    """Return the interval of a mean over units."""
    totals, counts = np.asarray(sums.sums, dtype=np.float64).T
    return clustered_mean_interval(totals, counts, sums.over, bounds=limits)


@dataclass(frozen=True)
class FamilyStatistic:
    """A statistic of a family: its plain part, and the functions that compute its sums and unit scores.

    Attributes:
        scale: its direction, neutral value and limits.
        meaning: as in :class:`Statistic`, as are ``partner``, ``question``, ``plot``, ``mistakes``, ``without_chance``,
            ``no_gate`` and ``root``.
        sums: function that makes the sums of each unit, or the reason why the statistic has none.
        scores: for a statistic that is a mean over all units of scores between 0 and 1: function that returns the score
            of each answered unit, shape (n,), in the order of the answer. NaN for a unit that turns out to have no
            score. The function returns ``None`` if the options make the statistic something else than such a mean; the
            default one always does.
        draws: what is drawn at random inside the statistic, beside the sample of cases, in words ("shuffles"), or a
            function that returns these words. Such a statistic is not exact even if all cases are scored: another seed
            gives another value.
        limits_of: function from the body of a suite to its limits, where these depend on the words of the suite.
        crossed: whether its sums are by unit and template, and not by unit alone. Its interval comes from the sums
            (``measurement/carry_out.py``), and not by the family.
        interval: function that makes the interval of the sums, where :meth:`Summary.take_sums` takes them.
    """

    scale: Scale
    meaning: str
    sums: MakeSums | str
    partner: str | None = None
    question: str | None = None
    plot: Plot = "units"
    scores: UnitScores = lambda options, answer: None
    draws: Drawn | str = ""
    mistakes: str | None = None
    without_chance: str | None = None
    no_gate: str = ""
    limits_of: Callable[[Any], tuple[float, float]] | None = None
    crossed: bool = False
    root: bool = False
    interval: Callable[[ItemSums, tuple[float, float]], Interval | None] = mean_interval

    @property
    def is_size(self) -> bool:
        """Whether it is made of sizes without a sign, so that chance alone keeps it from its neutral value 0, and
        shuffles say how far.
        """
        return self.scale[:2] == SIZE[:2] and self.partner is not None

    def plain(self, body: Any = None) -> Statistic:
        """Return the part that a measurement carries, with the limits that the body of its suite sets; without a body,
        those of any suite of the family.
        """
        limits = self.scale.limits if body is None or self.limits_of is None else self.limits_of(body)
        least, most = (limit if math.isfinite(limit) else None for limit in limits)
        about = (self.meaning, self.partner, self.question, self.plot, self.mistakes, self.without_chance)
        return Statistic(self.scale.direction, self.scale.neutral, *about, self.no_gate, least, most, self.root)

    def item_sums(self, options: Options, arrays: Arrays) -> ItemSums:
        """Return the sums of each unit.

        Raises:
            UndefinedError: the statistic is not made of sums over units, or the arrays lack what it needs.
        """
        if isinstance(self.sums, str):
            raise UndefinedError(self.sums)
        return self.sums(options, arrays)

    def drawn(self, options: Options, role: str) -> str:
        """Return what is drawn at random inside the statistic, in words, for a model of the kind ``role``."""
        return self.draws if isinstance(self.draws, str) else self.draws(options, role)
