"""Independence, separation and sufficiency against scipy, cell by cell, and their properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.distances import (
    MEASURES,
    distance_figure,
    independence,
    index_wasserstein,
    kl_divergence,
    separation,
    sufficiency,
)
from pytest_genderbias.statistics.group_gaps import confusion_tables


def cases(seed, groups=2, classes=6, n=300):
    """Return predictions, gold labels and groups; some cells are empty."""
    rng = np.random.default_rng(seed)
    gold, group = np.minimum(rng.geometric(0.4, n) - 1, classes - 1), rng.integers(groups, size=n)
    return np.where(rng.random(n) < 0.5, gold, (gold + group) % classes), gold, group


def shares(values, classes):
    return np.bincount(values, minlength=classes) / len(values)


def slow_distances(predictions, gold, group, groups, classes, which):
    """Return {(group, class): distance} with scipy, one cell at a time."""
    found = {}
    for z in range(groups):
        for c in range(1 if which == "independence" else classes):
            here = {"independence": np.full(len(gold), True), "separation": gold == c, "sufficiency": predictions == c}[
                which
            ]
            mine = here & (group == z)
            if not mine.any():
                continue
            if which == "sufficiency":
                p, q = shares(gold[mine], classes), shares(gold[here], classes)
                found[z, c] = stats.wasserstein_distance(np.arange(classes), np.arange(classes), p, q)
            else:
                found[z, c] = stats.entropy(shares(predictions[mine], classes), shares(predictions[here], classes))
    return found


@pytest.mark.parametrize("which", MEASURES)
@pytest.mark.parametrize("groups", [2, 3])
def test_distances_against_scipy(which, groups):
    arrays = cases(groups, groups)
    expected = slow_distances(*arrays, groups, 6, which)
    found = MEASURES[which](confusion_tables(*arrays, 6, n_groups=groups))
    cells = {tuple(map(int, cell)): float(found[tuple(cell)]) for cell in np.argwhere(~np.isnan(found))}
    assert cells == pytest.approx(expected, abs=1e-12)
    assert distance_figure(found, "sum") == pytest.approx(sum(expected.values()))


@pytest.mark.parametrize("which", ["separation", "sufficiency"])
def test_gaps_against_scipy(which):
    arrays = cases(0)
    expected = slow_distances(*arrays, 2, 6, which)
    both = [c for c in range(6) if (0, c) in expected and (1, c) in expected]
    found = MEASURES[which](confusion_tables(*arrays, 6))
    assert distance_figure(found, "gap") == pytest.approx(sum(abs(expected[0, c] - expected[1, c]) for c in both))


def test_a_class_that_a_group_is_missing_from_has_no_gap():
    tables = np.asarray([[[3, 0], [2, 2]], [[0, 1], [0, 0]]])
    found = separation(tables)
    assert np.isnan(found).sum() == 1
    assert distance_figure(found, "gap") == pytest.approx(np.log(4) - np.log(4 / 3))
    assert np.isnan(distance_figure(separation([[[1, 0], [0, 0]], [[0, 0], [1, 0]]]), "gap"))


distributions = hnp.arrays(float, (2, 4), elements=st.floats(0.01, 1)).map(lambda a: a / a.sum(axis=1, keepdims=True))


@given(distributions)
def test_distances_of_distributions_against_scipy(pair):
    p, q = pair
    indices = np.arange(4)
    assert float(kl_divergence(p, q)) == pytest.approx(stats.entropy(p, q), abs=1e-12)
    assert float(index_wasserstein(p, q)) == pytest.approx(
        stats.wasserstein_distance(indices, indices, p, q), abs=1e-12
    )
    assert float(kl_divergence(p, p)) == float(index_wasserstein(p, p)) == 0.0
    assert float(kl_divergence(p, q)) >= 0.0


tables_of_counts = hnp.arrays(
    np.int64, st.tuples(st.integers(2, 3), st.just(3), st.just(3)), elements=st.integers(0, 6)
)


@given(tables_of_counts.filter(np.any), st.sampled_from(sorted(MEASURES)), st.integers(1, 5))
def test_properties_of_all_three(tables, which, times):
    found = MEASURES[which](tables)
    filled = (tables.sum(axis=1, keepdims=True) if which == "independence" else tables).any(
        axis=1 if which == "sufficiency" else 2
    )
    assert np.isfinite(found[filled]).all()
    assert (found[filled] >= 0).all()
    assert np.isnan(found[~filled]).all()
    np.testing.assert_allclose(MEASURES[which](tables * times), found, atol=1e-12)
    np.testing.assert_allclose(MEASURES[which](tables[::-1]), found[::-1], atol=1e-12)
    same = np.broadcast_to(tables[:1] + 1, tables.shape) * np.arange(1, len(tables) + 1)[:, None, None]
    np.testing.assert_allclose(MEASURES[which](same), 0.0, atol=1e-12)


def test_the_order_of_labels_matters_for_sufficiency_alone():
    tables = np.random.default_rng(0).integers(1, 9, (2, 4, 4))
    order = [2, 0, 3, 1]
    renamed = tables[:, order][:, :, order]
    for which, is_same in (("separation", True), ("sufficiency", False)):
        own, other = (distance_figure(MEASURES[which](one), "sum") for one in (tables, renamed))
        assert (own == pytest.approx(other)) == is_same


def test_an_answer_that_is_no_class_is_a_prediction_like_any_other():
    tables = confusion_tables([2, 2, 0, 1], [0, 1, 0, 1], [0, 1, 1, 0], 2, n_answers=3)
    assert separation(tables).shape == (2, 2)
    found = sufficiency(tables)
    assert found.shape == (2, 3)
    assert found[:, 2].tolist() == [0.5, 0.5]


@pytest.mark.parametrize("which", MEASURES)
def test_many_tables_at_once_are_the_same_as_one_after_another(which):
    tables = np.random.default_rng(0).integers(0, 5, (7, 2, 3, 3))
    found = MEASURES[which](tables)
    np.testing.assert_array_equal(found[4], MEASURES[which](tables[4]))


@pytest.mark.parametrize("which", MEASURES)
def test_no_cases_have_no_distance(which):
    with pytest.raises(UndefinedError, match="there are no cases"):
        MEASURES[which](np.zeros((2, 3, 3)))


@pytest.mark.parametrize("which", MEASURES)
def test_a_group_without_cases_has_no_sum(which):
    tables = np.zeros((3, 2, 2))
    tables[0], tables[2, 1, 0] = [[3, 1], [0, 2]], 1
    assert np.isnan(distance_figure(MEASURES[which](tables), "sum"))
    assert distance_figure(MEASURES[which](tables[[0, 2]]), "sum") > 0


def test_a_gap_is_between_two_groups():
    with pytest.raises(ValueError, match="two groups"):
        distance_figure(separation(np.ones((3, 2, 2))), "gap")


def test_a_classifier_like_the_papers_has_figures_of_that_size():
    """orgad2022, table 3, RoBERTa: accuracy .861, independence .009, separation gap .327, sufficiency gap 9.451."""
    rng = np.random.default_rng(0)
    women = np.linspace(0.1, 0.9, 28)
    right = 0.86 + np.outer([1, -1], 0.1 * (women - 0.5)) + rng.normal(0, 0.02, (2, 28))
    wrong = rng.dirichlet(np.full(28, 0.3), 28) * (1 - np.eye(28)) * np.stack([women, 1 - women])[:, None]
    wrong /= wrong.sum(axis=-1, keepdims=True)
    p = right[:, :, None] * np.eye(28) + (1 - right[:, :, None]) * wrong
    sizes = np.tile(rng.integers(50, 1500, 28), (2, 1))
    tables = rng.multinomial(sizes, p)
    assert 0.001 < distance_figure(independence(tables), "sum") < 0.03
    assert 0.05 < distance_figure(separation(tables), "gap") < 1.0
    assert 2 < distance_figure(sufficiency(tables), "gap") < 30
