"""Paired comparison of two models on the same units, with bounds for other units of the same kind.

``docs/evidence/coverage-paired.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/inference/test_paired.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.gap_rms import METHOD, gap_change_bounds
from pytest_genderbias.statistics.inference.intervals import Bounds, bisected, in_blocks, t_quantile
from pytest_genderbias.statistics.inference.item_bounds import (
    SKEWED,
    TIED,
    ItemEffects,
    fewest_items,
    jackknife_error,
    total_influences,
)
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, Sums, align
from pytest_genderbias.statistics.inference.two_way import (
    FEWEST_TEMPLATES,
    Groups,
    TwoWayError,
    as_it_is,
    clustered_two_way_error,
    influences,
    is_crossed,
    template_groups,
    with_fixed,
)

Distance = Callable[[FloatArray], FloatArray]
#: The sums of both sides by template, where bounds can hold for other templates; and the group of each template, if
#: templates of one group count as one.
_Crossed: TypeAlias = "tuple[tuple[ItemSums, ItemSums] | None, Groups | None]"

_EXCHANGES = 9999  #: so that p values go down to .0001, and survive a correction for many gates
_EXCHANGES_OF_MANY = 999  #: of sums with more figures than ``_MANY``, where more would take seconds
_MANY = 100_000
_SEED = 1999  #: the bounds of a comparison are always the same
_BLOCK = 2_000_000  #: figures held at a time

_SAME = "the same in every item"
_WIDENED = "widened by what retraining gives"
_TOO_FEW = "{} {} say nothing of others at this level, {} are needed"
_NOISE = 1e-6  #: sums that differ by less are equal; times the count where the statistic is a mean
_LEAST = 6  #: units; fewer have no bounds at any level that gates use
_TWO_WAY = "{}; and no narrower than Student's t with two-way errors over items and templates"
_EXCHANGE = "exchange of then and now at random, item by item"


def _nothing() -> FloatArray:
    return np.zeros(0)


@dataclass(frozen=True)
class Difference:
    """The worsening from then to now, with bounds.

    Attributes:
        value: the worsening, distance(now) - distance(then), in units of the statistic; positive is worse.
        low: lower one-sided bound of the worsening for other units of the same kind.
        high: upper one-sided bound.
        p: one-sided p value of "the worsening is at most the tolerance".
        p_better: one-sided p value of "the worsening is at least minus the tolerance".
        items: number of units compared.
        moved: number of units whose sums differ by more than the noise.
        method: how the bounds were computed.
        over: what varies between the bounds: units, in the plural, and perhaps templates.
        changes: contribution of each unit to the worsening, shape (items,); they add up to about ``value``. Empty over
            restarts, which are no units.
        labels: names of the units, shape (items,), or empty.
        least_p: the smallest ``p`` that the method can give on so many units, however much worse they are.
        of_then: what each unit gave by itself then, shape (items,); NaN, or empty, where a unit gives no figure.
        of_now: the same of now.
        templates: number of templates that the bounds are over, beside the units; 0 where they are taken as they are,
            or there are none.
        units: what a unit is, in the plural, where ``over`` says more than that.
    """

    value: float
    low: float
    high: float
    p: float
    p_better: float
    items: int
    moved: int
    method: str
    over: str
    changes: FloatArray = field(default_factory=_nothing)
    labels: NDArray[np.str_] = field(default_factory=lambda: np.zeros(0, dtype=np.str_))
    least_p: float = 0.0
    of_then: FloatArray = field(default_factory=_nothing)
    of_now: FloatArray = field(default_factory=_nothing)
    templates: int = 0
    units: str = ""

    @property
    def what(self) -> str:
        """Name of the units, in the plural, without the templates."""
        return self.units or self.over


def with_retraining(difference: Difference, spread: float, tolerance: float = 0.0, level: float = 0.95) -> Difference:
    """Return a difference of two checkpoints whose bounds also hold for other trainings (MOVER: Zou and Donner 2008,
    section 2).

    Items say nothing of what a training moves on all of them. If that has a known spread, and is independent of the
    items, the squared distances of the bounds from the value add up: low = value - sqrt((value - low over items)^2 + (z
    spread)^2), with z the normal quantile of the level, and likewise high. A p value is the smallest 1 - level at which
    the tolerance lies outside, where the reach over items shrinks with the level as that of a normal variable does; at
    ``level`` itself it agrees with the bound exactly.

    Args:
        difference: of two checkpoints, with bounds over items at ``level``.
        spread: standard deviation of the difference of two equal trainings on given items, beyond what paired items
            show, in units of the statistic, 0 or more. Sqrt(2) times that of one training.
        tolerance: of the p values of ``difference``.
        level: of each bound, one-sided, above 0.5.

    Example:
        3 below the value over items, and 2 x 2 by retraining: 5 together.

        >>> over_items = Difference(6.0, 3.0, 9.0, 0.0, 1.0, 25, 25, "bootstrap-t", "words")
        >>> both = with_retraining(over_items, 2.0, level=0.97725)
        >>> round(both.low, 3), round(both.high, 3), round(both.p, 4), both.over
        (1.0, 11.0, 0.0082, 'words and retraining')
    """
    if not spread:
        return difference
    value, reach = difference.value, t_quantile(level, np.inf) * spread
    below, above = value - difference.low, difference.high - value
    p, p_better = (
        old if old == 1.0 else _p_with_retraining(excess, sides, spread, level)
        for old, excess, sides in (
            (difference.p, value - tolerance, (below, above)),
            (difference.p_better, -value - tolerance, (above, below)),
        )
    )
    return replace(
        difference,
        low=value - float(np.hypot(below, reach)),
        high=value + float(np.hypot(above, reach)),
        p=p,
        p_better=p_better,
        method=f"{difference.method}, {_WIDENED}",
        over=f"{difference.over} and retraining",
        units=difference.what,
    )


def _p_with_retraining(excess: float, reaches: tuple[float, float], spread: float, level: float) -> float:
    """Return the smallest 1 - level whose lower bound is above the tolerance, ``excess`` below the value, by
    bisection.
    """
    if excess < 0:
        return 1 - _p_with_retraining(-excess, reaches[::-1], spread, level)
    of_items = reaches[0] / t_quantile(level, np.inf)

    def is_worse(p: float) -> bool:
        z = t_quantile(1 - p, np.inf)
        return bool(np.hypot(of_items * z, z * spread) < excess)

    return bisected(is_worse, 0.0, 0.5)


def compare_items(
    then: ItemSums,
    now: ItemSums,
    distance: Distance,
    tolerance: float = 0.0,
    level: float = 0.95,
    repeats: int | None = None,
) -> Difference:
    """Return how much worse ``now`` is than ``then`` on the units that both have, with bounds for other units.

    Where both sides have sums by template, of at least four different ones, the bounds are those for other units and
    other templates: never within those for other units, nor within Student's t with two-way errors. ``over`` says so,
    or how many templates are taken as fixed. Templates that both models read alike count as one. Where the units of
    ``now`` have clusters, the bounds are those for other clusters, and ``over`` says "clusters of".

    Args:
        then: the baseline.
        now: the model to compare with it, on the same statistic.
        distance: how bad a value of the statistic is, larger is worse; from shape (...) to (...). Convex, and changing
            no faster than the statistic: v - neutral, neutral - v, \\|v - neutral\\|.
        tolerance: the worsening that is allowed, 0 or more, in units of the statistic.
        level: of each bound, one-sided.
        repeats: exchanges of a count of tests, where a simulation needs many comparisons; at most as many as usual.

    Raises:
        UndefinedError: fewer than five units in common of which some moved (six at 97.5 % or more), or no value on
            them.

    Example:
        All five units are worse by .1, which chance does in one case of 32. Of other units a few may be better by as
            much: the share of worse
        ones is at least .05 ** (1 / 5) = .55.

        >>> from pytest_genderbias.statistics.inference.item_sums import mean_sums
        >>> labels, ones = np.array(list("abcde")), np.ones(5)
        >>> then = mean_sums(labels, np.array([0.1, 0.2, 0.3, 0.4, 0.5]), ones, "letters")
        >>> now = mean_sums(labels, np.array([0.2, 0.3, 0.4, 0.5, 0.6]), ones, "letters")
        >>> difference = compare_items(then, now, lambda v: v)
        >>> round(difference.low, 3), round(difference.value, 3), round(difference.high, 3), round(difference.p, 2)
        (0.009, 0.1, 0.1, 0.03)
    """
    fixed = with_fixed(now)
    then, now = align(then, now)
    then = replace(then, clusters=now.clusters)
    sides, sampled = (then.by_unit(), now.by_unit()), (then.by_cluster(), now.by_cluster())
    crossed = _crossed(then, now)
    difference = compare_aligned(*sampled, distance, tolerance, level, repeats, crossed)
    over = f"{sampled[1].over} and templates" if difference.templates else fixed.replace(now.over, sampled[1].over, 1)
    difference = replace(difference, over=over, units=now.over)
    if not difference.moved:
        return difference
    changes = difference.changes if now.clusters is None else unit_changes(*sides, distance)[0]
    own = [side.by_itself() for side in sides]
    return replace(difference, changes=changes, labels=sides[1].labels, of_then=own[0], of_now=own[1])


def _crossed(then: ItemSums, now: ItemSums) -> _Crossed:
    """Return both sides by template where bounds can hold for other templates: where enough of them differ."""
    if not (is_crossed(then) and is_crossed(now)):
        return None, None
    groups = template_groups(then, now)
    if groups is not None and int(groups.max()) + 1 < FEWEST_TEMPLATES:
        return None, None
    return (then, now), groups


def compare_aligned(
    then: ItemSums,
    now: ItemSums,
    distance: Distance,
    tolerance: float = 0.0,
    level: float = 0.95,
    repeats: int | None = None,
    crossed: _Crossed = (None, None),
) -> Difference:
    """Compare two sides with the same units and the same sums, as :func:`compare_items` does; arguments and errors as
    there.

    ``crossed``: the sums of both sides by template, if the bounds should also hold for other templates.
    """
    pair, labels = _Pair(then, now, distance, repeats, crossed), now.labels
    value, moved, items = pair.worsening, int(pair.moved.sum()), len(labels)
    if not np.isfinite(value):
        raise UndefinedError(f"the statistic has no value on the {items} {now.over} in common")
    if not moved:
        return Difference(0.0, 0.0, 0.0, 1.0, 1.0, items, 0, _SAME, now.over, np.zeros(items), labels)
    if items < min(fewest := fewest_items(level), _LEAST):
        raise UndefinedError(f"{items} {now.over} in common say nothing of others, {fewest} are needed")
    changes, templates = pair.contributions(), pair.n_templates
    if (of_gaps := _gap_bounds(then, now, distance, tolerance, level)) is not None:
        method, bounds, least, templates = METHOD, of_gaps, 0.0, 0
    elif now.smooth:
        bounds, least, tied = _smooth(pair, tolerance, level), 0.5**items, pair.effects().tied
        method = (TIED if tied else SKEWED).format(now.over)
        method = _TWO_WAY.format(method) if pair.by_template else method
    else:
        method, bounds, least = _EXCHANGE, _exchange(pair, tolerance, level), 0.5 / (pair.repeats + 1)
    if items < fewest:
        method, bounds = _TOO_FEW.format(items, now.over, fewest), (-np.inf, np.inf, 1.0, 1.0)
    return Difference(value, *bounds, items, moved, method, now.over, changes, labels, least, templates=templates)


def _gap_bounds(then: ItemSums, now: ItemSums, distance: Distance, tolerance: float, level: float) -> Bounds | None:
    """Return bounds and p values of a root mean square of gaps; ``None`` for any other statistic, or if the rates have
    no errors.
    """
    sides = then.unit_gaps(), now.unit_gaps()
    if sides[0] is None or sides[1] is None or not is_higher(distance):
        return None
    return gap_change_bounds(sides[0], sides[1], tolerance, level)


def is_higher(distance: Distance) -> bool:
    """Return whether a distance is the value less a constant."""
    return bool(np.ptp(distance(np.array([-1.0, 0.0, 1.0])) - [-1.0, 0.0, 1.0]) <= 1e-12)


class _Pair:
    """The sums of the same items then and now, and the worsening as a function of totals."""

    def __init__(
        self,
        then: ItemSums,
        now: ItemSums,
        distance: Distance,
        repeats: int | None = None,
        crossed: _Crossed = (None, None),
    ) -> None:
        self.by_template, self.groups = crossed
        self.of_then, self.of_now, self.ratio = then.value, now.value, now.ratio
        self.distance, self.distances = distance, (distance, distance)
        # Tables may be large, and counts are exact in single precision.
        kind = np.float64 if now.smooth else now.sums.dtype
        self.then: NDArray[np.floating] = then.sums.astype(kind)
        after: NDArray[np.floating] = now.sums.astype(kind)
        allowed = _NOISE * (np.abs(after[:, 1:]) if self.ratio else np.ones(1))
        self.moved = np.asarray((np.abs(after - self.then) > allowed).any(axis=1), dtype=np.bool_)
        self.now: NDArray[np.floating] = np.where(self.moved[:, None], after, self.then)
        most = _EXCHANGES if self.now.size <= _MANY else _EXCHANGES_OF_MANY
        self.repeats = most if repeats is None else min(repeats, most)  #: how often then and now are exchanged

    @property
    def worsening(self) -> float:
        """How much worse the statistic is now."""
        return float(self.bad_now(_total(self.now)) - self.bad_then(_total(self.then)))

    def bad_then(self, totals: FloatArray) -> FloatArray:
        """Return the distance of what totals of then give."""
        return np.asarray(self.distances[0](self.of_then(totals)), dtype=np.float64)

    def bad_now(self, totals: FloatArray) -> FloatArray:
        """Return the distance of what totals of now give."""
        return np.asarray(self.distances[1](self.of_now(totals)), dtype=np.float64)

    def with_distances(self, then: Distance, now: Distance) -> _Pair:
        """Return the same units with other distances."""
        other = copy(self)
        other.distances = then, now
        return other

    @property
    def n_templates(self) -> int:
        """Number of templates over which bounds hold; 0 where they are taken as they are."""
        if self.by_template is None:
            return 0
        return self.by_template[1].n_templates if self.groups is None else int(self.groups.max()) + 1

    def two_way_error(self) -> TwoWayError | None:
        """Return the error of the worsening over other items and templates; ``None`` where templates are taken as they
        are.
        """
        if self.by_template is None:
            return None
        (items_then, cells_then), (items_now, cells_now) = map(influences, self.by_template, self.distances)
        return self.error_of(items_now - items_then, cells_now - cells_then)

    def error_of(self, items: FloatArray, cells: FloatArray) -> TwoWayError:
        """Return the two-way error of influences, with clusters in place of their units."""
        assert self.by_template is not None  # as the caller knows
        return clustered_two_way_error(items, cells, self.groups, self.by_template[1].by_unit().clusters)

    def effects(self) -> ItemEffects:
        """Return what the items contribute to the worsening; an item's weight is its share of the cases, where the
        statistic is a mean.
        """
        n = len(self.now)
        after, before = total_influences(self.bad_now, self.now), total_influences(self.bad_then, self.then)
        weights = self.then[:, 1] + self.now[:, 1] if self.ratio else np.ones(n)
        weights = np.asarray(weights / weights.mean(), dtype=np.float64)
        own = self.worsening + n * (after - before) / weights
        without = self.bad_now(_total(self.now) - self.now) - self.bad_then(_total(self.then) - self.then)
        return ItemEffects(self.worsening, own, weights, jackknife_error(without))

    def contributions(self) -> FloatArray:
        """Return the contribution of each unit: the mean effect of exchanging it alone, then in now and now in then."""
        then, now = _total(self.then), _total(self.now)
        bad_then, bad_now = self.bad_then(then), self.bad_now(now)
        contributions = np.zeros(len(self.now))
        rows = np.flatnonzero(self.moved)
        parts = np.array_split(rows, 1 + self.now.shape[1] * len(rows) // _BLOCK) if len(rows) else []
        for part in parts:
            step = self.now[part] - self.then[part]
            contributions[part] = (bad_now - self.bad_now(now - step) + self.bad_then(then + step) - bad_then) / 2
        return np.nan_to_num(contributions)


def _total(sums: Sums) -> FloatArray:
    return np.asarray(sums.sum(axis=0, dtype=np.float64))


def _exchange(pair: _Pair, tolerance: float, level: float) -> Bounds:
    """Return bounds and p values of a count of significant tests, from two kinds of chance worsening.

    Exchanged: each item then or now, at random, against the rest; this is exact where nothing changed. Drawn again:
    items with replacement, about the mean of the resamples; each count is too large then, and its spread with it, but
    the counts of then and now are so alike. Where counts are known by template, these items in templates that are drawn
    again, too (the pigeonhole bootstrap: Owen 2007), with a spread that is increased for few templates as Student's t
    does. The widest of these is used.
    """
    rng, kind = np.random.default_rng(_SEED), pair.now.dtype
    then, now, step = _total(pair.then), _total(pair.now), pair.now - pair.then
    items, width = step.shape
    exchanged, drawn, redrawn, repeats = [], [], [], pair.repeats
    for size in in_blocks(repeats, max(items, width), _BLOCK):
        totals = then + rng.integers(2, size=(size, items)).astype(kind) @ step
        exchanged.append(pair.bad_now(totals) - pair.bad_then(then + now - totals))
        weights = _weights(rng, size, items).astype(kind)
        again_then, again_now = (np.asarray(weights @ sums, dtype=np.float64) for sums in (pair.then, pair.now))
        drawn.append(pair.bad_now(again_now) - pair.bad_then(again_then))
        if pair.by_template is not None:
            redrawn.append(_with_templates_redrawn(pair, (again_then, again_now), rng))
    chances = [np.concatenate(exchanged), _about_its_mean(np.concatenate(drawn))]
    if redrawn:
        chances.append(_about_its_mean(np.concatenate(redrawn)) * _few_templates(pair.n_templates, level))
    # A resample without a value counts as infinitely far.
    chances = [np.where(np.isfinite(chance), chance, np.inf) for chance in chances]
    rank = min(int(np.ceil((repeats + 1) * (2 * level - 1) - 1e-9)), repeats) - 1
    reach = max(float(np.sort(np.abs(chance))[rank]) for chance in chances)
    if not np.isfinite(reach):
        raise UndefinedError("with then and now exchanged, or items drawn again, the statistic often has no value")
    p, p_better = (
        max(
            (1 + float((np.abs(chance) >= excess).sum())) / (2 * repeats + 2) if excess > 0 else 1.0
            for chance in chances
        )
        for excess in (pair.worsening - tolerance - 1e-9, -pair.worsening - tolerance - 1e-9)
    )
    return pair.worsening - reach, pair.worsening + reach, p, p_better


def _with_templates_redrawn(pair: _Pair, totals: tuple[FloatArray, FloatArray], rng: np.random.Generator) -> FloatArray:
    """Return the worsening at totals of then and now, each row (R,) with templates of its own draw."""
    assert pair.by_template is not None  # as the caller knows
    weights = _weights(rng, len(totals[0]), pair.n_templates) / pair.n_templates
    then, now = (
        distance((weights * side.by_template(total)).sum(axis=-1))
        for distance, side, total in zip(pair.distances, pair.by_template, totals, strict=True)
    )
    return np.asarray(now - then, dtype=np.float64)


def _about_its_mean(chance: FloatArray) -> FloatArray:
    known = np.isfinite(chance)
    return chance - chance[known].mean() if known.any() else chance


def _few_templates(templates: int, level: float) -> float:
    """Return by how much resamples of few templates spread too little: n / (n - 1) in variance, and Student's t for the
    normal quantile.
    """
    from scipy.special import ndtri

    return float((templates / (templates - 1)) ** 0.5 * t_quantile(level, templates - 1) / ndtri(level))


def _smooth(pair: _Pair, tolerance: float, level: float) -> Bounds:
    """Return bounds and p values of a smooth statistic.

    Near neutral, chance makes a statistic look farther from neutral than it is. If the side is in doubt, the worsening
    is bounded by the change of the statistic itself, which it cannot exceed. The bounds also hold if the two values lie
    on different sides of neutral, where the distances add up.
    """
    worsening = _bounds_of(pair, tolerance, level)
    then_bends, now_bends = (_bends(pair.distance, *side) for side in _values_and_errors(pair))
    if not (then_bends or now_bends):
        return worsening
    change = _bounds_of(pair.with_distances(as_it_is, as_it_is), 0.0, level)
    apart = _bounds_of(pair.with_distances(lambda value: -pair.distance(value), pair.distance), tolerance, level)
    bounds = folded(worsening, change, apart, then_bends, now_bends)
    if not pair.ratio:  # the change of r or a slope is bounded less exactly
        return bounds
    # A distance changes no faster than its statistic, on whichever side.
    low, high, p, p_better = bounds
    most = max(change[1], -change[0])
    return max(low, -most), min(high, most), p, p_better


def folded(worsening: Bounds, change: Bounds, apart: Bounds, then_bends: bool, now_bends: bool) -> Bounds:
    """Return bounds of a worsening whose sides are in doubt, from those of the change and of the distances' sum.

    Each argument holds a lower and an upper bound, the p value of "worse by more than the tolerance", and that of
    "better".

    Args:
        worsening: of distance(now) - distance(then), each distance continued in a line from the side on which its value
            lies.
        change: of now - then, the statistic itself.
        apart: of distance(now) + distance(then): the worsening if then lies on the other side of neutral.
        then_bends: whether the side of then is in doubt.
        now_bends: whether the side of now is in doubt.
    """
    low, high, p, p_better = worsening
    most = max(change[1], -change[0])
    if then_bends:
        low, high, p, p_better = min(low, apart[0]), max(high, most), max(p, apart[2]), 1.0
    if now_bends:
        low, high, p, p_better = min(low, -most), max(high, -apart[0]), 1.0, max(p_better, apart[2])
    return low, high, p, p_better


def _bends(distance: Distance, value: float, error: float) -> bool:
    """Return whether a convex distance has a kink within two errors of the value."""
    low, middle, high = distance(value + error * np.array([-2.0, 0.0, 2.0]))
    return bool((low + high) / 2 - middle > 1e-6 * error)


def _values_and_errors(pair: _Pair) -> list[tuple[float, float]]:
    """Return the statistic of each model, and its standard error over items (and templates)."""
    both: list[tuple[float, float]] = []
    for k, (of, sums) in enumerate(((pair.of_then, pair.then), (pair.of_now, pair.now))):
        error = float(np.sqrt(len(sums) / (len(sums) - 1) * np.square(total_influences(of, sums)).sum()))
        if pair.by_template is not None:
            error = max(error, pair.error_of(*influences(pair.by_template[k], as_it_is)).error)
        both.append((float(of(_total(sums))), error))
    return both


def _bounds_of(pair: _Pair, tolerance: float, level: float) -> Bounds:
    """Return bounds and p values for other items and, where sums are by template, other templates."""
    of_items = pair.effects().bounds(tolerance, level)
    if (error := pair.two_way_error()) is None:
        return of_items
    (low, high, *p), (below, above, *also) = of_items, error.bounds(pair.worsening, tolerance, level)
    return min(low, below), max(high, above), max(p[0], also[0]), max(p[1], also[1])


def _weights(rng: np.random.Generator, repeats: int, items: int) -> FloatArray:
    """Return how often each item is drawn, of as many draws with replacement as there are items, (repeats, items)."""
    drawn = rng.integers(items, size=(repeats, items)) + items * np.arange(repeats)[:, None]
    return np.bincount(drawn.ravel(), minlength=repeats * items).reshape(repeats, items).astype(np.float64)


def unit_changes(then: ItemSums, now: ItemSums, distance: Distance) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the contribution of each unit to the worsening, shape (G,), and whether its sums differ by more than the
    noise.

    The contributions add up to about the worsening. Arguments as :func:`compare_aligned`.
    """
    pair = _Pair(then, now, distance)
    return pair.contributions(), pair.moved


def items_to_decide(difference: Difference, tolerance: float) -> int | None:
    """Estimate how many units would decide between worse and no worse, if the worsening stays the same.

    The distance of a bound shrinks with the square root of the number of units. ``None`` if the worsening equals the
    tolerance, or there is no bound.

    Example:
        .02 short of the tolerance with .04 of uncertainty: four times the items.

        >>> items_to_decide(Difference(0.0, -0.04, 0.04, 0.5, 0.5, 25, 25, "", "items"), 0.02)
        100
    """
    room = tolerance - difference.value
    if abs(room) <= 1e-12 * max(1.0, abs(tolerance)):
        return None
    reach = difference.high - difference.value if room > 0 else difference.value - difference.low
    if not np.isfinite(reach):
        return None
    return int(np.ceil(round(max(2.0, difference.items * (reach / room) ** 2), 6)))
