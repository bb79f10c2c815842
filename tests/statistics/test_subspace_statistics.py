"""Ratios of singular values and cosines of directions, against eigenvalues, scikit-learn, and matrices made by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.bias_subspace import cosine_with, pair_direction, principal_ratios, unit_vectors


def vectors(words=12, dim=9, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(words, dim)) * np.linspace(3, 1, dim) + rng.normal(size=dim)


def test_centred_ratios_against_principal_component_analysis():
    pca, (component, ratios) = PCA(n_components=4).fit(vectors()), principal_ratios(vectors(), centred=True)
    np.testing.assert_allclose(ratios, pca.singular_values_[1:] / pca.singular_values_[0])
    np.testing.assert_allclose(component * np.sign(component @ pca.components_[0]), pca.components_[0])


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("normalised", [True, False])
def test_ratios_against_eigenvalues(centred, normalised):
    v = vectors(seed=1)
    if normalised:
        v = np.asarray([w / np.sqrt(sum(w * w)) for w in v])
    if centred:
        v = v - sum(v) / len(v)
    values, axes = np.linalg.eigh(v.T @ v)
    component, ratios = principal_ratios(vectors(seed=1), centred, normalised)
    np.testing.assert_allclose(ratios, np.sqrt(values[[-2, -3, -4]] / values[-1]))
    assert abs(component @ axes[:, -1]) == pytest.approx(1)


def test_ratios_that_were_planted():
    """Singular values 10, 5, 4, 1 between rows and columns that are orthonormal, the rows with sum 0."""
    rows = np.linalg.qr(np.column_stack([np.ones(9), np.random.default_rng(0).normal(size=(9, 4))]))[0][:, 1:]
    columns = ortho_group.rvs(7, random_state=1)[:4]
    component, ratios = principal_ratios(rows * [10, 5, 4, 1] @ columns + 3.0, centred=True)
    np.testing.assert_allclose(ratios, [0.5, 0.4, 0.1])
    assert cosine_with(columns[0], component) == pytest.approx(1)
    assert cosine_with(columns[1], component) == pytest.approx(0, abs=1e-9)


@given(st.integers(0, 2**32), st.integers(5, 12), st.integers(4, 8), st.floats(1e-3, 1e3), st.booleans())
def test_properties_of_the_ratios(seed, words, dim, scale, normalised):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(words, dim))
    component, ratios = principal_ratios(v, normalised=normalised)
    assert 1 >= ratios[0] >= ratios[1] >= ratios[2] >= 0
    assert np.linalg.norm(component) == pytest.approx(1)
    turn = ortho_group.rvs(dim, random_state=seed % 1000)
    _, same = principal_ratios(rng.permutation(v) @ turn * scale, normalised=normalised)
    np.testing.assert_allclose(same, ratios, atol=1e-9)
    if not normalised:
        _, centred = principal_ratios(v, centred=True)
        np.testing.assert_allclose(principal_ratios(v + rng.normal(size=dim), centred=True)[1], centred, atol=1e-9)


def test_without_centring_the_first_component_is_nearly_the_mean():
    v = vectors() + 20
    assert cosine_with(v.mean(axis=0), principal_ratios(v)[0]) > 0.99
    assert cosine_with(v.mean(axis=0), principal_ratios(v, centred=True)[0]) < 0.9


@pytest.mark.parametrize(
    ("matrix", "options", "reason"),
    [
        (vectors(4), {"centred": True}, "more than 4 vectors"),
        (vectors(3), {}, "more than 3 vectors"),
        (vectors(9, 3), {}, "of 3 dimensions"),
        (np.full((6, 5), 0.1), {"centred": True}, "all the same"),
        (np.outer(np.arange(1, 7) / 7, np.ones(5)), {"centred": True, "normalised": True}, "all the same"),
        (np.zeros((6, 5)), {"centred": True}, "all the same"),
        (np.zeros((6, 5)), {}, "all zero"),
        (np.zeros((6, 5)), {"normalised": True}, "zero and has no direction"),
        (np.full((6, 5), np.nan), {}, "not finite"),
        (np.full((6, 5), np.inf), {"normalised": True}, "not finite"),
    ],
)
def test_what_has_no_ratios(matrix, options, reason):
    with pytest.raises(UndefinedError, match=reason):
        principal_ratios(matrix, **options)


def test_as_few_vectors_as_can_be():
    assert len(principal_ratios(vectors(5), centred=True)[1]) == 3
    assert len(principal_ratios(vectors(4))[1]) == 3


# Directions


def test_a_component_has_no_sign_and_no_length():
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2, 30))
    expected = abs(np.corrcoef([[*u, *-u], [*v, *-v]])[0, 1])  # a correlation of what has mean 0 is a cosine
    for sign in (1, -1, 7.5):
        assert cosine_with(u, sign * v) == pytest.approx(expected)
        assert cosine_with(sign * u, v) == pytest.approx(expected)
    assert cosine_with(u, -3 * u) == pytest.approx(1)
    assert cosine_with(u, -3 * u) <= 1


def test_a_random_direction_has_the_cosine_that_the_docstring_says():
    v = np.random.default_rng(0).normal(size=(4000, 50))
    assert np.mean([cosine_with(w, v[0]) for w in v[1:]]) == pytest.approx(np.sqrt(2 / (np.pi * 50)), rel=0.05)


def test_the_direction_of_a_pair_is_he_less_she_of_length_one():
    rng = np.random.default_rng(1)
    she, he = rng.normal(size=(2, 20))
    found = pair_direction(she, he)
    expected = he / np.sqrt(he @ he) - she / np.sqrt(she @ she)
    np.testing.assert_allclose(found, expected / np.sqrt(expected @ expected))
    np.testing.assert_allclose(pair_direction(5 * she, he / 3), found)
    np.testing.assert_allclose(pair_direction(he, she), -found)
    assert unit_vectors(he) @ found == pytest.approx(-unit_vectors(she) @ found)
    assert he @ found > 0


def test_words_that_point_the_same_way_have_no_direction():
    v = np.random.default_rng(2).normal(size=10)
    with pytest.raises(UndefinedError, match="same direction"):
        pair_direction(v, 3 * v)
    with pytest.raises(UndefinedError, match="zero"):
        pair_direction(v, 0 * v)
    with pytest.raises(UndefinedError, match="zero"):
        cosine_with(v, 0 * v)


def test_unit_vectors_of_one_vector_and_of_tables():
    v = np.random.default_rng(3).normal(size=(2, 3, 4))
    np.testing.assert_allclose(np.sum(unit_vectors(v) ** 2, axis=-1), 1)
    np.testing.assert_allclose(unit_vectors(v)[1, 2], unit_vectors(v[1, 2]))


@pytest.mark.parametrize(("bad", "reason"), [(0.0, "zero"), (np.nan, "not finite"), (np.inf, "not finite")])
def test_one_vector_without_a_direction_is_enough(bad, reason):
    v = np.ones((3, 4))
    v[1] = bad
    with pytest.raises(UndefinedError, match=reason):
        unit_vectors(v)
