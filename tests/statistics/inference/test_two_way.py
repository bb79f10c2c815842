"""Two-way errors: of items that are crossed with templates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pytest_genderbias.statistics.count_sums import significant_fill_sums
from pytest_genderbias.statistics.inference.intervals import Interval, clustered_mean_interval
from pytest_genderbias.statistics.inference.item_sums import ItemSums, align
from pytest_genderbias.statistics.inference.paired import compare_aligned, compare_items
from pytest_genderbias.statistics.inference.two_way import (
    TwoWayError,
    influences,
    is_crossed,
    merge_templates,
    template_groups,
    two_way_error,
    two_way_interval,
    with_fixed,
)
from pytest_genderbias.statistics.sums import template_bias_sums, template_line_sums, template_sums


def names(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i:03d}" for i in range(n)]


def crossed_mean(scores: np.ndarray, absolute: bool = False) -> ItemSums:
    return template_bias_sums(names("i", len(scores)), scores, names("t", scores.shape[1]), absolute)


def effects(
    rng: np.random.Generator, items: int, templates: int, *, item: float = 1.0, template: float = 0.5, rest: float = 1.0
) -> np.ndarray:
    """Return scores with effects of items and of templates, each with this standard deviation."""
    table = rng.normal(size=(items, 1)) * item + rng.normal(size=(1, templates)) * template
    return np.asarray(table + rng.normal(size=(items, templates)) * rest)


def by_loops(scores: np.ndarray) -> tuple[float, float, float]:
    """Return the three parts from sums of squares, as a textbook on analysis of variance has them."""
    n, t = scores.shape
    grand = scores.sum() / (n * t)
    items = sum(t * (scores[i].sum() / t - grand) ** 2 for i in range(n)) / (n - 1)
    templates = sum(n * (scores[:, k].sum() / n - grand) ** 2 for k in range(t)) / (t - 1)
    rest = 0.0
    for i in range(n):
        for k in range(t):
            rest += (scores[i, k] - scores[i].sum() / t - scores[:, k].sum() / n + grand) ** 2
    return items / (n * t), templates / (n * t), rest / ((n - 1) * (t - 1)) / (n * t)


@pytest.mark.parametrize("shape", [(5, 4), (30, 6), (12, 14)])
def test_of_a_mean_it_is_the_analysis_of_variance(shape: tuple[int, int]) -> None:
    scores = effects(np.random.default_rng(1), *shape)
    error = two_way_error(*influences(crossed_mean(scores), lambda v: v))
    assert (error.items, error.templates, error.cells) == pytest.approx(by_loops(scores), rel=1e-4)
    assert (error.n_items, error.n_templates) == shape


def test_of_absolute_means_a_template_counts_with_the_sign_of_each_item() -> None:
    scores = effects(np.random.default_rng(2), 20, 5, template=0.1)
    error = two_way_error(*influences(crossed_mean(scores, absolute=True), lambda v: v))
    signs = np.sign(scores.mean(axis=1, keepdims=True))
    assert (error.items, error.templates, error.cells) == pytest.approx(by_loops(scores * signs), rel=1e-4)


def test_cases_of_any_number_in_a_cell() -> None:
    """The parts of items and templates are the one-way cluster variances of a ratio (Cochran 1977, 6.4)."""
    rng = np.random.default_rng(3)
    n = rng.integers(0, 5, (15, 6))
    sums = n * effects(rng, 15, 6)
    crossed = template_sums(names("i", 15), names("t", 6), sums, n, "words")
    error = two_way_error(*influences(crossed, lambda v: v))
    residual = sums - n * sums.sum() / n.sum()
    of_items = 15 / 14 * np.square(residual.sum(axis=1)).sum() / n.sum() ** 2
    assert error.items == pytest.approx(of_items, rel=1e-4)
    full = np.where(n > 0, n, 1)
    crossed = template_sums(names("i", 15), names("t", 6), full * effects(rng, 15, 6), full, "words")
    residual = crossed.sums[..., 0] - full * crossed.total
    assert crossed.n_templates == 6
    error = two_way_error(*influences(crossed, lambda v: v))
    share = residual - residual.sum(axis=1, keepdims=True) / 6
    assert error.templates == pytest.approx(6 / 5 * np.square(share.sum(axis=0)).sum() / full.sum() ** 2, rel=1e-4)


@pytest.mark.parametrize("figure", ["pearson", "slope", "mean_absolute"])
def test_of_a_line_it_is_near_the_jackknife(figure: str) -> None:
    """Each template, and each item, is left out in turn (Efron 1982, 3.1)."""
    rng = np.random.default_rng(4)
    x = rng.random(80)
    scores = 2 * x[:, None] + effects(rng, 80, 12, template=0.0, rest=0.5) + rng.normal(size=(1, 12)) * x[:, None]
    crossed = template_line_sums(names("i", 80), names("t", 12), x, scores, np.ones((80, 12)), figure)  # type: ignore[arg-type]
    error = two_way_error(*influences(crossed, lambda v: v))

    def without(axis: int, k: int) -> float:
        labels = crossed.labels if axis else np.delete(crossed.labels, k)
        templates = crossed.templates if axis == 0 else np.delete(crossed.templates, k)
        return replace(crossed, labels=labels, templates=templates, sums=np.delete(crossed.sums, k, axis=axis)).total

    for part, axis, count in ((error.items, 0, 80), (error.templates, 1, 12)):
        values = np.array([without(axis, k) for k in range(count)])
        assert part == pytest.approx((count - 1) / count * np.square(values - values.mean()).sum(), rel=0.15), axis


def test_it_is_never_below_either_one_way_variance() -> None:
    rng = np.random.default_rng(5)
    floors = 0
    for _ in range(200):
        scores = effects(rng, 8, 4, item=0.2, template=0.2)
        error = two_way_error(*influences(crossed_mean(scores), lambda v: v))
        one_way = scores.mean(axis=1).var(ddof=1) / 8, scores.mean(axis=0).var(ddof=1) / 4
        assert error.variance >= max(one_way) * (1 - 1e-4)
        assert 0.99 <= error.freedom <= 8 * 4
        floors += error.items + error.templates - error.cells < max(error.items, error.templates)
    assert floors > 20  # the floor is needed


@pytest.mark.parametrize(("items", "templates", "freedom"), [(1.0, 0.0, 29.0), (0.0, 1.0, 3.0), (2.0, 1.0, 19.1)])
def test_degrees_of_freedom(items: float, templates: float, freedom: float) -> None:
    """By hand (Satterthwaite 1946): 3 squared / (2 squared / 29 + 1 squared / 3) = 19.1."""
    assert TwoWayError(items, templates, 0.0, 30, 4).freedom == pytest.approx(freedom, abs=0.01)


def test_the_order_of_items_and_templates_does_not_matter() -> None:
    scores = effects(np.random.default_rng(6), 12, 6)
    rng = np.random.default_rng(0)
    other = scores[rng.permutation(12)][:, rng.permutation(6)]
    one, two = (two_way_error(*influences(crossed_mean(table), lambda v: v)) for table in (scores, 10 * other + 3))
    assert two.variance == pytest.approx(100 * one.variance, rel=1e-4)
    assert two.freedom == pytest.approx(one.freedom, rel=1e-3)


def test_bounds_hold_where_those_over_items_do_not() -> None:
    """A small version of docs/evidence/coverage-two-way.md: the share of intervals that miss a mean of 0."""
    rng = np.random.default_rng(7)
    missed = np.zeros(2)
    for _ in range(250):
        sums = crossed_mean(effects(rng, 60, 6))
        means = sums.by_unit().sums[:, 0]
        within = clustered_mean_interval(means, np.ones(60), "words")
        assert within is not None
        interval = two_way_interval(sums, within)
        assert interval is not None and interval.low <= within.low and interval.high >= within.high
        assert (interval.over, interval.templates, interval.items) == ("words and templates", 6, 60)
        missed += [not bounds.low <= 0 <= bounds.high for bounds in (within, interval)]
    assert missed[0] / 250 > 0.15 and missed[1] / 250 <= 0.07


def test_the_interval_of_a_correlation_stays_within_one() -> None:
    rng = np.random.default_rng(8)
    x = np.linspace(0, 1, 30)
    scores = (
        5 * x[:, None] + effects(rng, 30, 5, item=0.3, template=0.0, rest=0.2) + rng.normal(size=(1, 5)) * x[:, None]
    )
    sums = template_line_sums(names("i", 30), names("t", 5), x, scores, np.ones((30, 5)), "pearson")
    interval = two_way_interval(sums, Interval(0.95, 0.99, 0.95, "professions", ""), (-1.0, 1.0))
    assert interval is not None and -1 < interval.low < sums.total < interval.high < 1


def test_few_templates_count_as_fixed() -> None:
    scores = effects(np.random.default_rng(9), 20, 3)
    sums = crossed_mean(scores)
    within = Interval(-1.0, 1.0, 0.95, "occupations", "bootstrap-t", 20)
    assert not is_crossed(sums) and is_crossed(crossed_mean(np.tile(scores, 2)))
    assert two_way_interval(sums, within) == replace(within, over="occupations (3 templates fixed)")
    assert two_way_interval(sums.by_unit(), within) == within
    assert with_fixed(crossed_mean(scores[:, :1])) == "occupations (1 template fixed)"
    assert two_way_interval(sums, None) is None


# Comparisons


def test_a_comparison_covers_other_templates() -> None:
    rng = np.random.default_rng(10)
    before = effects(rng, 40, 4)
    after = before + effects(rng, 40, 4, item=0.1, template=0.5, rest=0.1)
    then, now = crossed_mean(before), crossed_mean(after)
    both = compare_items(then, now, lambda v: v)
    one_way = compare_aligned(then.by_unit(), now.by_unit(), lambda v: v)
    change = (after - before).mean(axis=0)
    assert (both.over, both.templates, both.what) == ("occupations and templates", 4, "occupations")
    assert both.value == one_way.value == pytest.approx(change.mean())
    assert both.low < one_way.low and both.high > one_way.high and both.p >= one_way.p
    t = stats.ttest_1samp(change, 0.0)  # nearly all of it lies between templates
    assert both.low == pytest.approx(t.confidence_interval(0.9).low, abs=0.05)
    assert (
        compare_items(then, then, lambda v: v).over == "occupations (4 templates fixed)"
    )  # nothing moved, nothing varies
    lacking = compare_items(then.by_unit(), now, lambda v: v)
    assert (lacking.over, lacking.templates, lacking.low) == ("occupations (4 templates fixed)", 0, one_way.low)


def test_a_side_in_doubt_over_templates_is_in_doubt() -> None:
    """The mean over these templates is .3 and 5 errors over items away from 0; over templates it is not even one."""
    rng = np.random.default_rng(11)
    before = 0.3 + effects(rng, 60, 4, item=0.2, template=0.0, rest=0.2) + np.array([1.0, -1.0, 0.5, -0.5])
    after = before + 0.05 + 0.01 * rng.normal(size=before.shape)
    found = compare_items(crossed_mean(before), crossed_mean(after), abs)
    one_way = compare_aligned(crossed_mean(before).by_unit(), crossed_mean(after).by_unit(), abs)
    assert one_way.low > 0.04 and found.low < -0.04 and found.high > 0.05


def test_a_change_that_is_all_chance_is_rarely_a_regression() -> None:
    """Nominal 5 %: models that are equal over other templates, and differ in each of these six."""
    rng = np.random.default_rng(12)
    wrong = np.zeros(2)
    for _ in range(150):
        before = effects(rng, 40, 6)
        after = before + effects(rng, 40, 6, item=0.5, template=0.5, rest=0.5)
        then, now = crossed_mean(before), crossed_mean(after)
        one_way = compare_aligned(then.by_unit(), now.by_unit(), lambda v: v)
        wrong += [one_way.low > 0, compare_items(then, now, lambda v: v).low > 0]
    assert wrong[0] / 150 > 0.08 and wrong[1] / 150 <= 0.07


def test_counts_of_tests_draw_templates_again() -> None:
    """Owen's pigeonhole bootstrap: a change in one of six templates says less than the same change in all of them."""
    rng = np.random.default_rng(13)
    group = np.repeat([0, 1], 20)

    def sums_of(templates: set[int]) -> ItemSums:
        fills = np.tile(rng.integers(0, 2, (40, 1, 1)), (1, 6, 1))
        for template in templates:
            fills[:, template, 0] = group
        return significant_fill_sums(
            names("p", 40),
            group,
            np.array(["a", "b"]),
            fills,
            np.arange(2),
            ["x", "y"],
            level=0.05,
            family="template",
            test="chi2",
        )

    nowhere, once = sums_of(set()), sums_of({0})
    assert once.n_templates == 6 and is_crossed(once)
    assert once.by_template(once.sums.sum(axis=0, dtype=np.float64)).tolist() == [2.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert once.total == pytest.approx(2 / 6)
    found = compare_items(nowhere, once, lambda v: v, repeats=499)
    one_way = compare_aligned(*align(nowhere, once), lambda v: v, repeats=499)
    assert (found.over, found.templates) == ("persons and templates", 6)
    assert found.value == one_way.value and found.low <= one_way.low and found.high >= one_way.high
    assert found.low < 0 < found.high


# Templates that a model reads alike


def test_templates_that_a_model_reads_alike_are_one() -> None:
    """With capitals ignored, "He is" and "he is" say nothing of other templates."""
    table = effects(np.random.default_rng(3), 30, 4)
    twice = np.repeat(table[:, :2], 2, axis=1)
    within = Interval(-1.0, 1.0, 0.95, "items", "bootstrap-t")
    assert two_way_interval(crossed_mean(table), within).over == "items and templates"
    assert two_way_interval(crossed_mean(twice), within) == replace(within, over="items (2 different templates fixed)")
    noisy = twice + 1e-9 * np.random.default_rng(4).normal(size=twice.shape)
    assert template_groups(crossed_mean(noisy)).tolist() == [0, 0, 1, 1]


def test_a_repeated_set_of_templates_has_the_error_of_the_set() -> None:
    table = effects(np.random.default_rng(5), 20, 5)
    sums = crossed_mean(table)
    repeated = crossed_mean(np.concatenate([table, table], axis=1))
    items, cells = influences(repeated, lambda v: v)
    merged = two_way_error(items, merge_templates(cells, template_groups(repeated)))
    once = two_way_error(*influences(sums, lambda v: v))
    assert [merged.items, merged.templates, merged.cells] == pytest.approx([once.items, once.templates, once.cells])
    assert (merged.n_templates, merged.freedom) == (5, pytest.approx(once.freedom))


def test_a_comparison_counts_templates_that_both_models_read_alike_once() -> None:
    rng = np.random.default_rng(6)
    then, now = effects(rng, 30, 4), effects(rng, 30, 4)
    over = [
        compare_items(crossed_mean(a), crossed_mean(b), lambda v: v).over
        for a, b in ((then, now), (then[:, [0, 0, 1, 1]], now), (then[:, [0, 0, 1, 1]], now[:, [0, 0, 1, 1]]))
    ]
    assert over == [*["occupations and templates"] * 2, "occupations (2 different templates fixed)"]
