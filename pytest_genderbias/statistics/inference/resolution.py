"""What a comparison with a baseline can resolve: simulated models that are equal, or worse by a known amount, judged by its own bounds.

``docs/evidence/coverage-plan.md`` compares what is promised with what is seen; a small version is recomputed by
``tests/statistics/inference/test_resolution.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, align
from pytest_genderbias.statistics.inference.paired import (
    REPETITIONS,
    Difference,
    Distance,
    compare_items,
)
from pytest_genderbias.statistics.inference.restarts import compare_restarts, compare_with_restarts
from pytest_genderbias.statistics.inference.two_way import different_templates
from pytest_genderbias.statistics.inference.undefined import UndefinedError

#: The items of a simulated model then and now, shape (2, items), and its templates, if they are drawn again.
_Drawn: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.int64] | None]"

SHARE = 0.95  #: of equal models that a plan keeps green
_ONE_SIDED = (1 + SHARE) / 2  #: level of each bound of a comparison: both together hold with SHARE
POWER = 0.8  #: with which a plan finds a worsening
_DRAWS, _REPEATS = 300, 1999  #: simulated models, and resamples of the bounds of each
_BENT_DRAWS, _BENT_REPEATS = 150, 999  #: where each worsening is simulated by itself
_ROUGH_DRAWS, _ROUGH_REPEATS = 100, 399  #: of counts of tests, whose tables are wide
_RESTART_DRAWS = 400  #: evenly spaced, so that chance does not matter
_NORMAL = 1.645  #: the 95 % quantile of the normal distribution
_SEED = 2024
_STEP = 1.25  #: factor between the worsenings that are tried there
_MOST_STEPS = 15
_FEWEST_BEYOND = 5  #: draws beyond a quantile that make it a figure of the draws
_UNDEFINED = 0.2  #: share of draws without bounds from which on nothing is planned


@dataclass(frozen=True)
class SimulatedBounds:
    """One-sided bounds of the worsening of each simulated model.

    Attributes:
        low: lower bounds at 97.5 %, one-sided, shape (draws,), in units of the statistic.
        strict_low: lower bounds at 100 % less 5 % divided by the number of tests, shape (draws,), as ``regressed`` needs them in the
            project's family.
        high: upper bounds at 97.5 %, one-sided, shape (draws,).
        freedom: degrees of freedom of Student's t that far tails are extrapolated by.
    """

    low: FloatArray
    strict_low: FloatArray
    high: FloatArray
    freedom: float = np.inf

    def moved_by(self, worsening: float) -> SimulatedBounds:
        """Return the bounds of models that are worse by so much more, where the distance from neutral is a straight line."""
        return replace(
            self, low=self.low + worsening, strict_low=self.strict_low + worsening, high=self.high + worsening
        )

    def tolerance(self, share: float = SHARE) -> float:
        """Return the least tolerance at which this share of the models is green: 0 or more.

        Example:
            One of four upper bounds is .4, the others are smaller: with .3 three of four are green.

            >>> bounds = SimulatedBounds(np.zeros(4), np.zeros(4), np.array([0.1, 0.2, 0.3, 0.4]))
            >>> bounds.tolerance(share=0.75)
            0.3
        """
        return max(0.0, _quantile(self.high, share, self.freedom))

    def green(self, tolerance: float) -> NDArray[np.bool_]:
        """Return which models are green at a tolerance, shape (draws,)."""
        return np.asarray(self.high <= tolerance, dtype=np.bool_)

    def found(self, tolerance: float, strict: bool = True) -> float:
        """Return the share of the models that are ``regressed`` at a tolerance; with ``strict`` in the family, else alone."""
        return float(np.mean((self.strict_low if strict else self.low) > tolerance))


class Simulation(Protocol):
    """Models that are worse than the baseline by a known amount, as a gate sees them."""

    def bounds(self, worsening: float) -> SimulatedBounds:
        """Return the bounds of models that are worse by so much, in units of the statistic."""

    @property
    def straight(self) -> bool:
        """Whether a worsening moves all bounds by itself, since the distance from neutral is a straight line."""


@dataclass(frozen=True)
class Resolution:
    """What a gate resolves.

    Attributes:
        tests: number of gates in the project's family.
        alone: least tolerance at which 95 % of equal models are green at this gate, in units of the statistic.
        together: least tolerance at which an equal model is green at all gates of the family in 95 % (Bonferroni).
        tolerance: the tolerance that the other figures hold for.
        green: share of equal models that are green.
        alarms: share of equal models that are ``regressed`` in the family.
        worsening: smallest worsening that is ``regressed`` in 80 %, if this gate were alone; infinite if there is none.
        worsening_together: the same in the project's family.
        power: share of the models worse by twice the tolerance that are ``regressed`` in the family.
        equal: which of the simulated equal models are green, shape (draws,). The draws of gates on the same items are the same.
    """

    tests: int
    alone: float
    together: float
    tolerance: float
    green: float
    alarms: float
    worsening: float
    worsening_together: float
    power: float
    equal: NDArray[np.bool_] = field(repr=False)


def resolve(simulation: Simulation, tests: int = 1, tolerance: float | None = None) -> Resolution:
    """Return what a gate resolves at a tolerance; at the one that keeps its family green if none is given.

    Args:
        simulation: models that are equal to the baseline or worse by a known amount.
        tests: number of gates in the project's family, 1 or more.
        tolerance: of the gate, 0 or more, in units of the statistic.

    Raises:
        UndefinedError: too many of the simulated comparisons have no bounds.

    Example:
        Bounds .1 below and above a worsening that varies by nothing: .1 is the least tolerance, and a worsening of .2 is found.

        >>> class Exact:
        ...     straight = True
        ...     def bounds(self, worsening):
        ...         return SimulatedBounds(*np.full((3, 8), [[-0.1], [-0.1], [0.1]])).moved_by(worsening)
        >>> resolution = resolve(Exact())
        >>> round(resolution.tolerance, 3), round(resolution.worsening, 3), resolution.green, resolution.power
        (0.1, 0.2, 1.0, 0.0)
    """
    equal = simulation.bounds(0.0)
    if float(np.mean(~np.isfinite(equal.high))) > _UNDEFINED:
        raise UndefinedError("the bounds of a simulated comparison are often infinite")
    alone, together = equal.tolerance(), equal.tolerance(1 - (1 - SHARE) / tests)
    allowed = together if tolerance is None else tolerance
    return Resolution(
        tests, alone, together, allowed,
        green=float(equal.green(allowed).mean()),
        alarms=equal.found(allowed),
        worsening=_smallest(simulation, equal, allowed, strict=False),
        worsening_together=_smallest(simulation, equal, allowed, strict=True),
        power=simulation.bounds(2 * allowed).found(allowed),
        equal=equal.green(allowed),
    )  # fmt: skip


def _smallest(simulation: Simulation, equal: SimulatedBounds, tolerance: float, strict: bool) -> float:
    """Return the smallest worsening that is found in 80 %: solved where it moves all bounds alike, else searched for."""
    low = equal.strict_low if strict else equal.low
    worsening = tolerance - float(np.quantile(low, 1 - POWER, method="lower"))
    if simulation.straight or not np.isfinite(worsening):
        return float(worsening)
    before = np.inf  # the first is no step from another: nothing is interpolated
    for _ in range(_MOST_STEPS):
        found = simulation.bounds(worsening).found(tolerance, strict)
        if found >= POWER:
            part = (POWER - before) / (found - before) if before < POWER else 1.0
            return float(worsening / _STEP * (1 + (_STEP - 1) * part))
        before, worsening = found, worsening * _STEP
    return np.inf


def _quantile(values: FloatArray, share: float, freedom: float) -> float:
    """Return a quantile; one with few draws beyond it is extrapolated from the median and the 95 % quantile."""
    if (1 - share) * len(values) >= _FEWEST_BEYOND or share <= SHARE:
        return float(np.quantile(values, share, method="inverted_cdf"))
    from scipy.special import ndtri, stdtrit

    middle, at = (float(x) for x in np.quantile(values, [0.5, SHARE], method="inverted_cdf"))
    beyond, known = ndtri([share, SHARE]) if np.isinf(freedom) else stdtrit(freedom, [share, SHARE])
    return middle + (at - middle) * float(beyond / known)


def _bounds_from(judged: FloatArray, freedom: float) -> SimulatedBounds:
    """Return bounds from rows of lower bound, strict lower bound and upper bound, shape (draws, 3)."""
    return SimulatedBounds(judged[:, 0], judged[:, 1], judged[:, 2], freedom)


class ItemSimulation:
    """Equal and worse models, made from the items of one checkpoint or of two checkpoints of the same training.

    *Two checkpoints.* Each simulated model has as many items, drawn with replacement from the pairs of items then and now, in as many
    templates, drawn likewise where the bounds hold for other templates, too (Owen 2007, The pigeonhole bootstrap), and their differences
    are recentred: on all items the two values are equal. What differs between the two beyond the error of the items is
    a difference of trainings, of which two checkpoints show one: its variance is the squared difference less the squared error
    (at least 0), and each simulated model is moved by that error times a draw of Student's t with one degree of freedom.

    *One checkpoint.* Nothing is known of another training. As a stand-in, the items of then and of now are drawn independently of
    each other, as if the items of two trainings had nothing in common. That makes their differences larger than those of two
    checkpoints usually are; but a training that moves all items alike is not in it.

    A model is worse by an amount if its statistic is moved by that amount; the differences of its items stay as they are. Each
    simulated model is judged by :func:`~pytest_genderbias.statistics.inference.paired.compare_items`, the rule of the gate itself.
    The bootstrap of paired differences: Efron and Tibshirani 1993, An Introduction to the Bootstrap, sections 16.4 and 25.5 (power).

    Args:
        then: sums of the checkpoint that is the baseline.
        now: sums of another checkpoint of the same training; ``None`` if there is none.
        distance: how bad a value is, as of :func:`~pytest_genderbias.statistics.inference.paired.compare_items`.
        tests: number of comparisons that ``regressed`` is corrected for.
        draws: number of simulated models.
        repeats: random draws of the bounds of each of them.

    Raises:
        UndefinedError: the two have no items in common, or too few; or they are the same in every item.
    """

    def __init__(
        self,
        then: ItemSums,
        now: ItemSums | None,
        distance: Distance,
        tests: int = 1,
        draws: int | None = None,
        repeats: int | None = None,
    ) -> None:
        """Draw the items; nothing is judged yet."""
        self._then, self._now = align(then, then if now is None else now)
        self._distance, self._tests = distance, tests
        items, rng = len(self._then.labels), np.random.default_rng(_SEED)
        self._middle = self._then.by_unit().total
        self._apart = self._now.by_unit().total - self._middle
        first = rng.integers(items, size=(2, items))
        pair = self._rows_of(first) if now is None else (self._then, self._now)
        change = compare_items(*pair, _as_it_is, repeats=_ROUGH_REPEATS)
        if not change.moved:
            raise UndefinedError(f"the two checkpoints are the same in every one of the {items} {then.over}")
        #: The standard error of the items, and that of a training beyond it, in units of the statistic.
        self.item_error = (change.high - change.low) / (2 * _NORMAL)
        self.training_error = max(0.0, self._apart**2 - self.item_error**2) ** 0.5
        self._worse = 1.0 if distance(self._array(1e-3)) >= distance(self._array(-1e-3)) else -1.0
        self.straight = not then.by_unit().smooth or then.over in REPETITIONS or self._is_straight()
        rough = not self._then.by_unit().smooth
        straight = (_ROUGH_DRAWS, _ROUGH_REPEATS) if rough else (_DRAWS, _REPEATS)
        usual = straight if self.straight else (_BENT_DRAWS, _BENT_REPEATS)
        self._repeats = max(usual[1], 20 * tests - 1) if repeats is None else repeats
        rows = rng.integers(items, size=(usual[0] if draws is None else draws, 2, items))
        if now is not None:
            rows[:, 1] = rows[:, 0]
        groups = None if now is None else different_templates(self._then, self._now)
        templates = None if groups is None else len(groups)
        self._drawn: list[_Drawn] = [
            (of_draw, None if templates is None else rng.integers(templates, size=(templates,))) for of_draw in rows
        ]
        self.freedom, self._trainings = np.inf, np.zeros(len(rows))
        if self.training_error:
            self.freedom = 1.0
            self._trainings = self.training_error * rng.permutation(_student_scores(1.0, len(rows)))
        self._known: dict[float, SimulatedBounds] = {}

    def _array(self, move: float) -> FloatArray:
        return np.asarray(self._middle + move, dtype=np.float64)

    def _is_straight(self) -> bool:
        """Return whether the distance has no kink within six errors of the value."""
        reach = 6 * (self.item_error + self.training_error) + abs(self._apart)
        ends = (self._distance(self._array(-reach)) + self._distance(self._array(reach))) / 2
        return bool(ends - self._distance(self._array(0.0)) <= 1e-9 * reach)

    def _rows_of(self, rows: NDArray[np.int64], columns: NDArray[np.int64] | None = None) -> tuple[ItemSums, ItemSums]:
        """Return some items then and some now, shape (2, items), in some templates: each pair is one item of a simulated model."""
        labels = np.arange(rows.shape[1]).astype(np.str_)
        then, now = (
            replace(side, labels=labels, sums=side.sums[of_side])
            for side, of_side in zip((self._then, self._now), rows, strict=True)
        )
        if columns is None:
            return then, now
        names = np.arange(len(columns)).astype(np.str_)
        then, now = (replace(side, templates=names, sums=side.sums[:, columns]) for side in (then, now))
        return then, now

    def bounds(self, worsening: float) -> SimulatedBounds:
        """Return the bounds of models that are worse by so much, in units of the statistic."""
        if self.straight:
            if 0.0 not in self._known:
                apart = float(self._distance(self._array(self._apart)) - self._distance(self._array(0.0)))
                judged = np.asarray([self._bounds_of(*self._rows_of(*drawn)) for drawn in self._drawn])
                self._known[0.0] = _bounds_from(judged + (self._trainings - apart)[:, None], self.freedom)
            return self._known[0.0].moved_by(worsening)
        if worsening not in self._known:
            moves = self._trainings - self._apart + self._worse * worsening
            judged = np.asarray([self._judged(drawn, move) for drawn, move in zip(self._drawn, moves, strict=True)])
            self._known[worsening] = _bounds_from(judged, self.freedom)
        return self._known[worsening]

    def _judged(self, drawn: _Drawn, move: float) -> tuple[float, float, float]:
        """Judge a model whose baseline has the value that is stored, and whose statistic is moved from there."""
        then, now = self._rows_of(*drawn)
        middle = self._middle - then.by_unit().total
        return self._bounds_of(moved(then, middle), moved(now, middle + move))

    def _compared(self, then: ItemSums, now: ItemSums, level: float) -> Difference:
        """Compare as the gate does: repetitions of a training inside a suite seed by seed, and units by their sums."""
        if then.over not in REPETITIONS:
            redrawn = self._drawn[0][1] is not None
            return compare_items(then, now, self._distance, level=level, repeats=self._repeats, redrawn=redrawn)
        pairs = [side.sums[:, 0] / side.sums[:, 1] for side in (then, now)]
        return compare_restarts(pairs[0], pairs[1], self._distance, level=level, paired=True)

    def _bounds_of(self, then: ItemSums, now: ItemSums) -> tuple[float, float, float]:
        """Return lower bound, strict lower bound and upper bound; infinite ones where the gate has none."""
        try:
            usual = self._compared(then, now, _ONE_SIDED)
            if self._tests == 1:
                return usual.low, usual.low, usual.high
            level = 1 - (1 - SHARE) / self._tests
            if usual.least_p > 1 - level + 1e-12:
                return usual.low, -np.inf, usual.high
            strict = self._compared(then, now, level)
        except UndefinedError:
            return -np.inf, -np.inf, np.inf
        return usual.low, min(usual.low, strict.low), usual.high


@dataclass(frozen=True)
class MovedSums(ItemSums):
    """Sums of a model whose statistic is moved by ``move``, in its units; the differences of its items stay as they are.

    >>> from pytest_genderbias.statistics.inference.item_sums import mean_sums
    >>> sums = mean_sums(np.array(["a", "b"]), np.array([3.0, 6.0]), np.array([2, 1]), "letters")
    >>> MovedSums(**vars(sums), move=0.5).total
    3.5
    """

    move: float = 0.0

    def value(self, totals: FloatArray) -> FloatArray:
        """Return the statistic of totals, moved: shape (..., K) to (...)."""
        return super().value(totals) + self.move

    def by_unit(self) -> ItemSums:
        """Return the same with one row of sums a unit, moved as well."""
        return MovedSums(**{**vars(super().by_unit()), "move": self.move})


def moved(sums: ItemSums, move: float) -> ItemSums:
    """Return the sums of a model whose statistic is moved by so much."""
    return MovedSums(**{**vars(sums), "move": move})


def _as_it_is(value: FloatArray) -> FloatArray:
    return value


def _student_scores(freedom: float, draws: int) -> FloatArray:
    """Return as many quantiles of Student's t, evenly spaced: draws without chance."""
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, (np.arange(draws) + 0.5) / draws), dtype=np.float64)


class RestartSimulation:
    """Equal and worse checkpoints, made from the values of several restarts.

    The restarts of the baseline are what they are. One more checkpoint of that training differs from their mean by Student's t with
    k - 1 degrees of freedom times s sqrt(1 + 1/k), if the values are normal (Hahn and Meeker 1991, Statistical Intervals, section 4.7);
    the simulated ones are its evenly spaced quantiles.

    Args:
        then: values of the restarts of the baseline, shape (k,), at least 2.
        distance: how bad a value is, as of :func:`~pytest_genderbias.statistics.inference.restarts.compare_with_restarts`.
        tests: number of comparisons that ``regressed`` is corrected for.
        draws: number of simulated checkpoints.

    Raises:
        UndefinedError: fewer than two restarts, or all of them are equal.

    Example:
        Three restarts have s = 1. One more lies t(2) sqrt(4/3) = 3.37 above their mean in 5 %, and its bounds reach 4.97 farther.

        >>> resolution = resolve(RestartSimulation([1.0, 2.0, 3.0], lambda v: v))
        >>> bool(8.2 < resolution.tolerance < 8.5)
        True
    """

    def __init__(self, then: ArrayLike, distance: Distance, tests: int = 1, draws: int = _RESTART_DRAWS) -> None:
        """Draw the checkpoints; nothing is judged yet."""
        self._then = np.asarray(then, dtype=np.float64)
        restarts, middle = len(self._then), np.asarray(np.mean(self._then))
        if restarts < 2:
            raise UndefinedError("one restart says nothing of others; three are needed, five are better")
        spread = float(self._then.std(ddof=1))
        if spread <= 1e-12 * max(1.0, float(np.abs(self._then).max())):
            raise UndefinedError(f"the {restarts} restarts gave the same value, so that what others give is not known")
        error = spread * (1 + 1 / restarts) ** 0.5
        self._now = middle + error * _student_scores(restarts - 1.0, draws)
        self._distance, self._tests, self.freedom = distance, tests, restarts - 1.0
        near, step = 6 * error, 1e-3 * spread
        bend = (distance(middle - near) + distance(middle + near)) / 2 - distance(middle)
        self.straight = bool(bend <= 1e-9 * near)
        self._worse = 1.0 if distance(middle + step) >= distance(middle - step) else -1.0
        self._known: dict[float, SimulatedBounds] = {}

    def bounds(self, worsening: float) -> SimulatedBounds:
        """Return the bounds of checkpoints that are worse by so much, in units of the statistic."""
        if self.straight and worsening:
            return self.bounds(0.0).moved_by(worsening)
        if worsening not in self._known:
            judged = np.asarray([self._judged(value) for value in self._now + self._worse * worsening])
            self._known[worsening] = _bounds_from(judged, self.freedom)
        return self._known[worsening]

    def _judged(self, value: float) -> tuple[float, float, float]:
        usual = compare_with_restarts(self._then, [value], self._distance, level=_ONE_SIDED)
        if self._tests == 1:
            return usual.low, usual.low, usual.high
        strict = compare_with_restarts(self._then, [value], self._distance, level=1 - (1 - SHARE) / self._tests)
        return usual.low, min(usual.low, strict.low), usual.high
