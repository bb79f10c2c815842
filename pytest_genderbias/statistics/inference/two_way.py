"""Errors of a statistic whose items are crossed with templates, both of which are samples.

A suite puts the same occupations into the same few templates. Other occupations would give another value, and so would
other templates. ``docs/evidence/coverage-two-way.md`` has the measured coverage; a small version is recomputed by
``tests/statistics/inference/test_two_way.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.statistics.combiners import find_combiner
from pytest_genderbias.statistics.inference.intervals import Bounds, Interval, t_bounds
from pytest_genderbias.statistics.inference.item_sums import FloatArray, ItemSums, add_rows

FEWEST_TEMPLATES = 4  #: of fewer, the bounds would say next to nothing; the templates count as fixed
STEP = 1e-3  #: of a standard deviation, by which totals are moved to find a derivative
_ALIKE = 1e-6  #: of the largest sum; scores of the same text differ by less between batches
_NUDGE = 1e-5  #: by which the weight of a template is raised, to find derivatives
_METHOD = "Student's t with two-way errors over {} and templates, never within the bounds over {}"

Of = Callable[[FloatArray], FloatArray]
Groups = NDArray[np.intp]  #: for each template the number of its group, from 0


@dataclass(frozen=True)
class TwoWayError:
    """The variance of a statistic over other items and other templates, in its parts.

    Attributes:
        items: variance over other items, with these templates, in squared units of the statistic.
        templates: variance over other templates, with these items.
        cells: the part that both of them contain: what remains of single cells.
        n_items: number of items.
        n_templates: number of templates.
    """

    items: float
    templates: float
    cells: float
    n_items: int
    n_templates: int

    @property
    def variance(self) -> float:
        """The variance over both: items + templates - cells, and never below the larger of the first two."""
        return max(self.items + self.templates - self.cells, self.items, self.templates)

    @property
    def error(self) -> float:
        """The standard error over both, in units of the statistic."""
        return float(np.sqrt(self.variance))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of :attr:`variance` (Satterthwaite 1946), between 1 and the number of cells."""
        degrees = self.n_items - 1, self.n_templates - 1
        if self.items + self.templates - self.cells < max(self.items, self.templates):
            return float(degrees[int(self.templates > self.items)])
        parts = (self.items, degrees[0]), (self.templates, degrees[1]), (self.cells, degrees[0] * degrees[1])
        spread = sum(variance**2 / freedom for variance, freedom in parts)
        return self.variance**2 / spread if spread > 0 else float(min(degrees))

    def bounds(self, value: float, tolerance: float, level: float) -> Bounds:
        """Return bounds and p values of a worsening with this error, by Student's t."""
        return t_bounds(value, self.error, self.freedom, tolerance, level)


def two_way_error(items: ArrayLike, cells: ArrayLike) -> TwoWayError:
    """Return the error of a statistic from the influences of its items, and of its cells.

    The variance over items crossed with templates is V(items) + V(templates) - V(cells), the two one-way cluster
    variances minus that of single cells, which both contain (Cameron, Gelbach and Miller 2011, Robust Inference with
    Multiway Clustering, section 2.2). Items and templates are taken out of the cells first: with few templates,
    V(cells) would otherwise hold a good part of V(items). For a full table of scores that is (MS(items) + MS(templates)
    - MS(rest)) / n, unbiased for independent effects of items and templates.

    Args:
        items: derivative of the statistic by the weight of each item, shape (G,), in units of the statistic.
        cells: derivative of the statistic along "this template instead of the others", for each item, shape (G, T);
            each row sums to 0.

    Example:
        The mean of three items in two templates, 1 2; 3 4; 5 9. Means of items 1.5, 3.5 and 7, of templates 3 and 5:
        the variances of the mean are 7.75 / 3 and 2 / 2. What remains is .5, .5 and -1 with opposite signs in the other
        template: 3 / 2 / 6.

        >>> scores = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
        >>> of_items = scores.mean(axis=1)
        >>> error = two_way_error(of_items / 3, (scores - of_items[:, None]) / 3)
        >>> round(error.items, 4), round(error.templates, 4), round(error.cells, 4)
        (2.5833, 1.0, 0.25)
        >>> round(error.variance, 4), round(error.freedom, 2)
        (3.3333, 2.54)
    """
    own, table = np.asarray(items, dtype=np.float64), np.asarray(cells, dtype=np.float64)
    n, t = table.shape
    of_templates = table.sum(axis=0)
    rest = table - of_templates / n
    return TwoWayError(
        float(n / (n - 1) * np.square(own - own.mean()).sum()),
        float(np.square(of_templates).sum() / (t * (t - 1))),
        float(np.square(rest).sum() * n / ((n - 1) * (t - 1) * t)),
        n,
        t,
    )


def is_crossed(sums: ItemSums) -> bool:
    """Return whether sums are known by template, of enough templates for an error over others."""
    return sums.across == "templates" and sums.n_templates >= FEWEST_TEMPLATES


def template_groups(*sides: ItemSums) -> Groups | None:
    """Return groups of templates that have the same sums in every item, on all sides: the model reads the same text in
    them.

    "He is" and "he is" are one template to a model that knows no capitals, and say nothing of others.

    Args:
        sides: sums of one statistic, with the same items and templates.

    Returns:
        The number of each template's group, from 0 in the order of their first templates, shape (T,). ``None`` where
        sums are not known by template; other words that items are crossed with differ, even if their scores do not.

    >>> table = np.array([[1.0, 2.0, 1.0], [3.0, 5.0, 3.0]])[..., None]
    >>> words, templates = np.array(["a", "b"]), np.array(["x", "y", "z"])
    >>> sums = ItemSums(words, table, "mean_of_template_means", "words", templates=templates)
    >>> template_groups(sums).tolist()
    [0, 1, 0]
    """
    if any(side.templates is None or side.across != "templates" for side in sides):
        return None
    columns = np.concatenate([np.moveaxis(side.sums, 1, 0).reshape(side.n_templates, -1) for side in sides], axis=1)
    noise = _ALIKE * float(np.abs(columns).max(initial=0.0))
    firsts: list[int] = []
    groups = np.zeros(len(columns), dtype=np.intp)
    for number, column in enumerate(columns):
        alike = (place for place, first in enumerate(firsts) if np.abs(column - columns[first]).max() <= noise)
        groups[number] = next(alike, len(firsts))
        if groups[number] == len(firsts):
            firsts.append(number)
    return groups


def merge_templates(cells: FloatArray, groups: Groups) -> FloatArray:
    """Return the influences of cells, as :func:`two_way_error` takes them, with one column a group of templates, shape
    (G, T) to (G, T').

    >>> merge_templates(np.array([[1.0, -2.0, 1.0]]), np.array([0, 1, 0])).round(3).tolist()
    [[1.333, -1.333]]
    """
    merged = add_rows(cells.T, groups).T
    rows = np.ascontiguousarray(merged, dtype=np.float64)  # the order in memory is that in which sums round
    return np.asarray(rows * merged.shape[1] / len(groups), dtype=np.float64)


def with_fixed(sums: ItemSums) -> str:
    """Return what one-way bounds are over, and how many templates (or whatever items are crossed with) they take as
    they are.

    >>> table = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 4.0]])[..., None]
    >>> words, templates = np.array(["a", "b"]), np.array(["x", "y", "z"])
    >>> sums = ItemSums(words, table, "mean_of_template_means", "words", templates=templates)
    >>> with_fixed(sums), with_fixed(sums.by_unit())
    ('words (3 templates fixed)', 'words')
    """
    n, across = sums.n_templates, sums.across
    if not n:
        return sums.over
    groups = template_groups(sums)
    different = n if groups is None else int(groups.max()) + 1
    number = f"{n}" if different == n else f"{different} different"
    return f"{sums.over} ({number} {across if different > 1 else across.removesuffix('s')} fixed)"


def influences(sums: ItemSums, of: Of) -> tuple[FloatArray, FloatArray]:
    """Return the derivatives of a function of a statistic by the weights of items and of cells, as
    :func:`two_way_error` takes them.

    An item's influence is the derivative of the statistic along its sums (Efron 1982, The Jackknife, section 6.3), and
    a template's along its weight in the sums of every item. An item that has no case in some templates has no influence
    there.

    Args:
        sums: by item and template.
        of: the function, from values of the statistic to numbers, shape (...) to (...).

    Returns:
        Shapes (G,) and (G, T), of the items with a case.
    """
    rows, n_templates = sums.by_unit(), sums.n_templates
    means = np.asarray(sums.sums, dtype=np.float64).mean(axis=1, keepdims=True)
    table = _rows_of(sums, means)
    totals = table.sum(axis=0)
    # A step is a share of the standard deviation, or of the mean, where nothing varies.
    steps = STEP * np.where(table.std(axis=0) > 0, table.std(axis=0), np.abs(table.mean(axis=0)))
    slopes = derivatives(lambda at: of(rows.value(at)), totals, steps)
    # The mean of an item over templates, one of which counts a little more.
    raised = means + _NUDGE / n_templates * sums.sums
    each = _rows_of(sums, raised.reshape(-1, 1, means.shape[-1])).reshape(len(table), n_templates, -1)
    by_template = (each - table[:, None]) @ slopes / _NUDGE
    there = _with_cases(sums, rows)
    share = np.where(there, 1 / np.maximum(there.sum(axis=1, keepdims=True), 1), 0.0)
    return table @ slopes, n_templates * (by_template - share * by_template.sum(axis=1, keepdims=True))


def derivatives(of: Of, totals: FloatArray, steps: FloatArray) -> FloatArray:
    """Return the derivative of a function by each of its totals, from both sides at a step; 0 where the step is 0.

    >>> derivatives(lambda totals: totals[0] * totals[1], np.array([3.0, 5.0]), np.array([0.5, 0.0])).tolist()
    [5.0, 0.0]
    """
    slopes = np.zeros(len(totals))
    for k in np.flatnonzero(steps):
        move = np.zeros(len(totals))
        move[k] = steps[k]
        slopes[k] = (of(totals + move) - of(totals - move)) / (2 * steps[k])
    return slopes


def _rows_of(sums: ItemSums, means: FloatArray) -> FloatArray:
    """Return sums by item from means over templates, (n, 1, K) to (n', K'): no statistic depends on the scale of all
    sums.
    """
    by_unit = find_combiner(sums.combiner, sums.parameters).by_unit
    assert by_unit is not None  # as is_crossed and score_table tell
    return by_unit(np.arange(len(means)).astype(np.str_), means)[1]


def _with_cases(sums: ItemSums, rows: ItemSums) -> FloatArray:
    """Return which cells have a case, of the items that have any: the last of several sums is the number of cases."""
    cells = sums.sums[np.isin(sums.labels, rows.labels)]
    known = cells[..., -1] != 0 if cells.shape[-1] > 1 else np.ones(cells.shape[:2], dtype=np.bool_)
    return np.asarray(known, dtype=np.float64)


def clustered_two_way_error(
    items: FloatArray, cells: FloatArray, groups: Groups | None, clusters: NDArray[np.str_] | None
) -> TwoWayError:
    """Return the error of :func:`two_way_error`, with clusters in place of their items and groups in place of their
    templates; ``None`` where each is alone.
    """
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
        items, cells = (np.asarray(add_rows(rows, codes), dtype=np.float64) for rows in (items, cells))
    return two_way_error(items, cells if groups is None else merge_templates(cells, groups))


def two_way_interval(
    sums: ItemSums, within: Interval | None, limits: tuple[float, float] = (-np.inf, np.inf)
) -> Interval | None:
    """Return the interval of a statistic for other items and other templates of the same kinds.

    Student's t with the two-way error, on Fisher's z for correlations, and never within the interval over items alone,
    which follows skewed items. With fewer than four different templates it is the interval over items, and ``over``
    says how many templates it takes as fixed. Templates that a model reads alike are one.

    Args:
        sums: of the statistic, by item and template.
        within: the interval over items.
        limits: the least and the largest value that the statistic can have.

    Returns:
        The interval. ``None`` where there is none over items.

    Example:
        Items do not differ, four templates do: 1, 2, 3 and 6 have a standard error of 1.08, and 3.18 times that is
            3.44.

        >>> table = np.tile([1.0, 2.0, 3.0, 6.0], (5, 1))[..., None]
        >>> words, templates = np.array(list("abcde")), np.array(list("wxyz"))
        >>> sums = ItemSums(words, table, "mean_of_template_means", "words", templates=templates)
        >>> interval = two_way_interval(sums, Interval(2.9, 3.1, 0.95, "words", "bootstrap-t"))
        >>> round(interval.low, 2), round(interval.high, 2), interval.over
        (-0.44, 6.44, 'words and templates')
    """
    if within is None:
        return None
    groups = template_groups(sums) if is_crossed(sums) else None
    if groups is None or int(groups.max()) + 1 < FEWEST_TEMPLATES:
        return replace(within, over=with_fixed(replace(sums, over=within.over)))
    correlation = sums.by_unit().combiner == "pearson"
    value, of = (float(np.arctanh(sums.total)), np.arctanh) if correlation else (sums.total, as_it_is)
    items, cells = influences(sums, of)
    error = clustered_two_way_error(items, cells, groups, sums.by_unit().clusters)
    low, high, *_ = error.bounds(value, 0.0, (1 + within.level) / 2)
    if correlation:
        low, high = float(np.tanh(low)), float(np.tanh(high))
    low, high = max(min(low, within.low), limits[0]), min(max(high, within.high), limits[1])
    over, method = f"{within.over} and templates", _METHOD.format(within.over, within.over)
    return replace(within, low=low, high=high, over=over, method=method, templates=error.n_templates)


def as_it_is(value: FloatArray) -> FloatArray:
    """Return values unchanged: the distance of a statistic whose change itself is bounded."""
    return value
