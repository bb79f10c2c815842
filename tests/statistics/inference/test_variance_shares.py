"""Components of variance of tables of scores."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.inference.variance_shares import score_table, variance_shares
from pytest_genderbias.statistics.sums import template_bias_sums, template_line_sums, template_sums


def test_two_factors_by_the_formulas_of_a_textbook() -> None:
    scores = np.random.default_rng(0).normal(size=(7, 5)) + np.arange(7)[:, None]
    n, t = scores.shape
    grand = scores.mean()
    of_items = t * sum((scores[i].mean() - grand) ** 2 for i in range(n)) / (n - 1)
    of_templates = n * sum((scores[:, k].mean() - grand) ** 2 for k in range(t)) / (t - 1)
    whole = sum((x - grand) ** 2 for x in scores.ravel())
    rest = (whole - (n - 1) * of_items - (t - 1) * of_templates) / ((n - 1) * (t - 1))
    items, templates, remaining = variance_shares(scores, ["items", "templates"])
    assert items.variance == pytest.approx((of_items - rest) / t)
    assert templates.variance == pytest.approx(max(0.0, (of_templates - rest) / n))
    assert remaining.variance == pytest.approx(rest)
    for kind in ("share", "share_of_value"):
        assert sum(getattr(one, kind) for one in (items, templates, remaining)) == pytest.approx(1.0)


def test_components_are_estimated_without_bias() -> None:
    """Three factors with variances 1, .5 and .25, an interaction of items and seeds of .3, and noise of .2."""
    rng = np.random.default_rng(1)
    means = np.zeros(4)
    for _ in range(400):
        scores = (
            rng.normal(size=(20, 1, 1))
            + rng.normal(size=(1, 6, 1)) * 0.5**0.5
            + rng.normal(size=(1, 1, 4)) * 0.5
            + rng.normal(size=(20, 1, 4)) * 0.3**0.5
            + rng.normal(size=(20, 6, 4)) * 0.2**0.5
        )
        means += [one.variance for one in variance_shares(scores, ["items", "templates", "seeds"])]
    assert means / 400 == pytest.approx([1.0, 0.5, 0.25, 0.5], rel=0.12)


def test_the_order_of_levels_does_not_matter_and_units_scale() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(9, 4, 3)) + rng.normal(size=(9, 1, 1))
    names = ["items", "templates", "seeds"]
    one = variance_shares(scores, names)
    other = variance_shares(10 * scores[rng.permutation(9)][:, rng.permutation(4)][:, :, ::-1] + 5, names)
    assert [x.variance * 100 for x in one] == pytest.approx([x.variance for x in other])
    assert [x.share for x in one] == pytest.approx([x.share for x in other])


def test_an_estimate_below_zero_is_reported_as_zero() -> None:
    scores = np.array([[1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])  # items do not differ at all in the mean
    items, templates, rest = variance_shares(scores, ["items", "templates"])
    assert (items.variance, items.share, items.below_zero) == (0.0, 0.0, True)
    assert templates.below_zero and not rest.below_zero and rest.share == rest.share_of_value == 1.0


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (np.ones((1, 4)), "one of the items says nothing of others"),
        (np.ones((4, 1)), "one of the templates says nothing"),
        (np.full((4, 3), 0.1), "all scores are the same"),
        (np.array([[1.0, np.nan], [1.0, 2.0]]), "a score is missing"),
    ],
)
def test_tables_without_components(table: np.ndarray, reason: str) -> None:
    with pytest.raises(UndefinedError, match=reason):
        variance_shares(table, ["items", "templates"])


def test_scores_of_cells_have_the_statistic_as_their_mean() -> None:
    rng = np.random.default_rng(3)
    scores, names, templates = rng.normal(size=(12, 5)), [f"i{k}" for k in range(12)], list("vwxyz")
    signed = template_bias_sums(names, scores, templates, absolute=False)
    assert score_table(signed) == pytest.approx(scores, abs=1e-6)
    absolute = template_bias_sums(names, scores, templates, absolute=True)
    assert score_table(absolute) == pytest.approx(scores * np.sign(scores.mean(axis=1, keepdims=True)), abs=1e-4)
    for figure in ("pearson", "slope"):
        line = template_line_sums(names, templates, rng.random(12), scores, np.ones((12, 5)), figure)  # type: ignore[arg-type]
        assert score_table(line).mean() == pytest.approx(line.total, abs=1e-6)


def test_without_every_cell_there_is_no_table() -> None:
    counts = np.array([[1, 1], [0, 2]])
    with pytest.raises(
        UndefinedError, match="some of the words have no case in some of the templates; score all cases"
    ):
        score_table(template_sums(["a", "b"], ["x", "y"], counts * 0.5, counts, "words"))
    with pytest.raises(UndefinedError, match="no score of each of the words"):
        score_table(template_sums(["a", "b"], ["x", "y"], counts * 0.5, counts, "words").by_unit())
