"""Combiners: named functions from totals over units to a statistic, to which :class:`ItemSums` refers by name.

A combiner takes totals of shape (..., K), the parameters of the sums and the names of their columns. It returns values
of shape (...), NaN if the statistic is undefined. All combiners are pure functions. Those of few suites are named by
their modules, which are imported when one of them is called, so this table is all that stored sums need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.statistics.correlation import pearson_of_sums, product_sums, slope_of_sums
from pytest_genderbias.statistics.inference.intervals import Columns, FloatArray, Labels, Parameters

if TYPE_CHECKING:
    from pytest_genderbias.statistics.gap_rms import UnitGaps

Value: TypeAlias = Callable[[FloatArray, Parameters, Columns], FloatArray]
GapsByUnit: TypeAlias = Callable[[FloatArray, Parameters, Columns], "UnitGaps | None"]


@dataclass(frozen=True)
class Combiner:
    """A function from totals to a statistic, and its properties.

    Attributes:
        value: the function.
        smooth: whether the statistic is a smooth function of the sums. A count of significant tests is not.
        ratio: whether the statistic is the first total divided by the second.
        named: whether the columns of the sums have names, so that two models may have different columns.
        by_unit: for sums by unit and template, (G, T, K): function from labels and sums to labels and sums by unit,
            (G', K').
        after: the combiner of the sums that ``by_unit`` returns.
        unit_gaps: function from sums of units, shape (G, K), to the gaps whose root mean square is the statistic; it
            returns ``None`` for parameters that make another statistic. ``None`` instead of a function: the statistic
            never is one.
        trials: of a statistic that chance raises: function from totals, shape (..., K), to the numbers of cases that
            its rates or distributions are of, shape (..., N).
        own: function from the sums of units, (..., K), to what each of them gives by itself, (...): its mean, or its
            score where the statistic holds scores against something else; ``None`` where a unit gives no figure by
            itself.
        by_template: for totals that hold each template: function to the statistic of each, (..., K) to (..., T), whose
            mean is the statistic. T is the parameter ``templates``.
    """

    value: Value
    smooth: bool = True
    ratio: bool = False
    named: bool = False
    by_unit: Callable[[Labels, NDArray[np.floating]], tuple[Labels, FloatArray]] | None = None
    after: str = ""
    unit_gaps: GapsByUnit | None = None
    trials: Value | None = None
    own: Callable[[FloatArray], FloatArray] | None = None
    by_template: Value | None = None


def find_combiner(name: str, parameters: Parameters) -> Combiner:
    """Return a combiner by its name; ``log`` is the logarithm of the combiner in its parameter ``of``.

    Raises:
        ValueError: the name is unknown.

    >>> mean = find_combiner("mean", {})
    >>> float(mean.value(np.array([3.0, 2.0]), {}, None)), mean.smooth, mean.ratio
    (1.5, True, True)
    """
    if name == "log":
        inner = COMBINERS[str(parameters["of"])]
        return Combiner(_log, smooth=inner.smooth, named=inner.named)
    if name not in COMBINERS:
        raise ValueError(f"no combiner {name!r}; expected one of {', '.join(COMBINERS)}")
    return COMBINERS[name]


def _ratio(totals: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(totals[..., 0] / totals[..., 1])


def _log(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
    inner = parameters["parameters"]
    assert isinstance(inner, Mapping)  # log_sums writes it
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(COMBINERS[str(parameters["of"])].value(totals, inner, columns))
    return np.asarray(np.where(np.isfinite(logarithms), logarithms, np.nan), dtype=np.float64)


def _plain(function: Callable[[FloatArray], FloatArray]) -> Value:
    """Return a function of totals only, with the signature of a combiner."""

    def value(totals: FloatArray, parameters: Parameters, columns: Columns) -> FloatArray:
        return function(totals)

    return value


def _mean_by_unit(labels: Labels, sums: NDArray[np.floating]) -> tuple[Labels, FloatArray]:
    """Return the mean over templates of each unit's sum, and a count of 1, since every unit has every template."""
    means = np.ascontiguousarray(sums[..., 0], dtype=np.float64).mean(axis=-1)
    return labels, np.stack([means, np.ones(len(means))], axis=1)


def _absolute_mean_by_unit(labels: Labels, sums: NDArray[np.floating]) -> tuple[Labels, FloatArray]:
    labels, pairs = _mean_by_unit(labels, sums)
    return labels, np.abs(pairs)


def _mean_absolute_by_unit(labels: Labels, sums: NDArray[np.floating]) -> tuple[Labels, FloatArray]:
    """Return the absolute mean score of each unit over its cases in all templates, and a count of 1."""
    labels, pairs = _sums_by_unit(labels, sums)
    return labels, np.stack([np.abs(pairs[:, 0] / pairs[:, 1]), np.ones(len(pairs))], axis=1)


def _products_by_unit(labels: Labels, sums: NDArray[np.floating]) -> tuple[Labels, FloatArray]:
    """Return the sums of x and y of each unit, from its x and y summed over the cases in all templates, and their
    number.
    """
    x, y, n = np.asarray(sums, dtype=np.float64).sum(axis=1).T
    filled = n > 0
    return labels[filled], product_sums(x[filled] / n[filled], y[filled] / n[filled])


def _sums_by_unit(labels: Labels, sums: NDArray[np.floating]) -> tuple[Labels, FloatArray]:
    """Return score and count of each unit, summed over templates; units without cases are left out."""
    pairs = np.stack([np.ascontiguousarray(sums[..., k], dtype=np.float64).sum(axis=1) for k in (0, 1)], axis=1)
    filled = pairs[:, 1] > 0
    return labels[filled], pairs[filled]


def _by_first(column: int) -> Callable[[FloatArray], FloatArray]:
    """Return the function that divides a column of the sums of each unit by their first one."""
    return lambda sums: np.asarray(sums[..., column] / sums[..., 0])


def _association(sums: FloatArray) -> FloatArray:
    """Return s of each target word, of whichever set it is."""
    return np.asarray((sums[..., 1] + sums[..., 3]) / (sums[..., 0] + sums[..., 2]))


def _of(place: str) -> Callable[..., Any]:
    """Return a function of another module, ``MODULE:NAME``, which is imported at the first call."""

    module, _, name = place.partition(":")

    def function(*arguments: Any) -> Any:
        return vars(import_module(f"pytest_genderbias.statistics.{module}"))[name](*arguments)

    return function


#: All combiners by name. Stored files contain these names, so never give a name another meaning.
COMBINERS: dict[str, Combiner] = {
    "mean": Combiner(_plain(_ratio), ratio=True, own=_ratio),
    "mean_of_template_means": Combiner(_plain(_ratio), ratio=True, by_unit=_mean_by_unit, after="mean"),
    "mean_absolute_template_mean": Combiner(_plain(_ratio), ratio=True, by_unit=_absolute_mean_by_unit, after="mean"),
    "mean_over_templates": Combiner(_plain(_ratio), ratio=True, by_unit=_sums_by_unit, after="mean"),
    "mean_absolute_over_templates": Combiner(_plain(_ratio), ratio=True, by_unit=_mean_absolute_by_unit, after="mean"),
    "pearson_over_templates": Combiner(_plain(pearson_of_sums), by_unit=_products_by_unit, after="pearson"),
    "slope_over_templates": Combiner(_plain(slope_of_sums), by_unit=_products_by_unit, after="slope"),
    "pearson": Combiner(_plain(pearson_of_sums), own=_by_first(2)),
    "slope": Combiner(_plain(slope_of_sums), own=_by_first(2)),
    "effect_size": Combiner(_plain(_of("association:effect_size_of_sums")), own=_association),
    "deviation": Combiner(_plain(_of("cooccurrence:deviation_of_sums")), own=_by_first(1)),
    "block_slope": Combiner(_plain(_of("cooccurrence:slope_of_block_sums")), own=_by_first(2)),
    "perplexity": Combiner(_plain(_of("perplexity:perplexity_of_sums")), own=_of("perplexity:perplexity_of_sums")),
    "f1": Combiner(_plain(_of("coreference_scores:f1_of_sums")), own=_of("coreference_scores:f1_of_sums")),
    "f1_gap": Combiner(_plain(_of("coreference_scores:f1_gap_of_sums"))),
    "accuracy_gap": Combiner(_plain(_of("coreference_scores:accuracy_gap_of_sums"))),
    "absolute_gaps": Combiner(
        _of("group_gaps:absolute_gaps_of_counts"), smooth=False, trials=_of("group_gaps:trials_of_counts")
    ),
    "paired_gap_rms": Combiner(
        _plain(_of("gap_rms:rms_of_paired_sums")), smooth=False, unit_gaps=_of("gap_rms:unit_gaps_of_pairs")
    ),
    "contrast_rms": Combiner(
        _plain(_of("group_deviations:rms_of_contrast_sums")),
        smooth=False,
        unit_gaps=_of("group_deviations:unit_gaps_of_contrasts"),
    ),
    "lowest_mean": Combiner(_plain(_of("impact_ratio:lowest_mean_of_sums")), smooth=False),
    "lowest_ratio": Combiner(_plain(_of("impact_ratio:impact_ratio_of_sums")), smooth=False),
    "root_mean": Combiner(
        _plain(_of("group_deviations:root_of_mean")), smooth=False, own=_of("group_deviations:root_of_mean")
    ),
    "gap_of_columns": Combiner(
        _of("block_tables:gap_of_columns"),
        smooth=False,
        named=True,
        unit_gaps=_of("block_tables:unit_gaps_of_columns"),
        trials=_of("block_tables:trials_of_columns"),
    ),
    "distance_of_columns": Combiner(
        _of("block_tables:distance_of_columns"),
        smooth=False,
        named=True,
        trials=_of("block_tables:predictions_of_columns"),
    ),
    "significant_fills": Combiner(
        _of("contingency:significant_fills_of_columns"),
        smooth=False,
        named=True,
        by_template=_of("contingency:significant_fills_by_template"),
    ),
}
