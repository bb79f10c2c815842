"""INLP: against scikit-learn's logistic regression and a slow loop of nullspace projections."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.mitigation.methods.nullspace import iterative_nullspace, logistic_weights
from pytest_genderbias.mitigation.methods.projection import project
from pytest_genderbias.statistics.linear_probe import predicted


def blobs(seed, n=300, dim=8, labels=2, apart=2.0, planes=2):
    """Return points whose label shifts the first ``planes`` dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(labels, size=n)
    x = rng.standard_normal((n, dim))
    x[:, :planes] += apart * rng.standard_normal((labels, planes))[y]
    return x, y


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_classifier_is_scikit_learns(seed, labels, ridge):
    x, y = blobs(seed, labels=labels)
    weights, bias = logistic_weights(x, y, ridge)
    peer = LogisticRegression(C=1 / ridge, tol=1e-9, max_iter=5000).fit(x, y)
    np.testing.assert_allclose(weights, peer.coef_, atol=1e-3)
    scores = x @ weights.T + bias - (x @ peer.coef_.T + peer.intercept_)
    np.testing.assert_allclose(scores - scores.mean(axis=1, keepdims=labels > 2) * (labels > 2), 0, atol=5e-3)


@pytest.mark.parametrize("labels", [2, 3])
def test_sparse_counts_give_the_weights_of_the_same_dense_ones(labels):
    rng = np.random.default_rng(labels)
    counts, y = rng.poisson(0.2, size=(200, 30)), rng.integers(labels, size=200)
    for dense, sparse in zip(logistic_weights(counts, y), logistic_weights(csr_matrix(counts), y), strict=True):
        np.testing.assert_allclose(dense, sparse, atol=1e-6)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_the_subspace_is_that_of_a_slow_loop(seed, labels):
    """Ravfogel et al.'s loop in another way: the features are multiplied by each round's nullspace projection in
    turn.
    """
    x, y = blobs(seed, labels=labels)
    basis = iterative_nullspace(x, y, rounds=3, until_majority=False, seed=1)
    train = ~held_out_rows(y, 0.25, 1)
    left, total = x.copy(), np.zeros((8, 8))
    for _ in range(3):
        peer = LogisticRegression(C=1.0, solver="newton-cg", tol=1e-10, max_iter=5000).fit(left[train], y[train])
        rowspace = np.linalg.pinv(peer.coef_, rcond=1e-3) @ peer.coef_
        total += rowspace
        left = left @ (np.eye(8) - rowspace)
    values, vectors = np.linalg.eigh(total)
    span = vectors[:, values > 0.5]
    assert basis.shape[1] == span.shape[1] == min(8, 3 * (labels - 1))
    np.testing.assert_allclose(basis @ basis.T, span @ span.T, atol=2e-3)


def held_out_rows(y, share, seed):
    rng, test = np.random.default_rng(seed), np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        test[rows[: round(share * len(rows))]] = True
    return test


def read(x, y, seed=0):
    """Return how well a classifier reads the labels of held-out rows, and how well the majority would."""
    test = held_out_rows(y, 0.25, seed)
    weights, bias = logistic_weights(x[~test], y[~test])
    majority = np.bincount(y[~test]).argmax()
    return np.mean(predicted(x[test] @ weights.T + bias) == y[test]), np.mean(y[test] == majority)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 3))
def test_the_projection_is_one_and_leaves_nothing_to_read(seed, labels):
    x, y = blobs(seed, n=600, labels=labels, apart=3.0)
    basis = iterative_nullspace(x, y, seed=seed)
    p = np.eye(x.shape[1]) - basis @ basis.T
    np.testing.assert_allclose(p, p.T, atol=1e-12)
    np.testing.assert_allclose(p @ p, p, atol=1e-10)
    rank = basis.shape[1]
    np.testing.assert_allclose(basis.T @ basis, np.eye(rank), atol=1e-10)
    np.testing.assert_allclose(x @ p, project(x, basis) if rank else x, atol=1e-9)
    left, majority = read(x @ p, y, seed)
    assert left <= majority or rank == x.shape[1]
    assert np.linalg.matrix_rank(p, tol=1e-6) == x.shape[1] - rank
    np.testing.assert_array_equal(iterative_nullspace(x, y, seed=seed), basis)


def test_what_can_be_read_is_lost():
    x, y = blobs(3, n=2000, dim=20, apart=4.0)
    basis = iterative_nullspace(x, y)
    left, majority = read(x - x @ basis @ basis.T, y)
    assert read(x, y)[0] > 0.95 and left <= majority
    assert 1 <= basis.shape[1] <= 6


def test_nothing_is_removed_where_nothing_can_be_read():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((800, 3)), rng.integers(2, size=800)
    y[:500] = 0  # the majority is as good as it gets
    assert iterative_nullspace(x, y).shape == (3, 0)


def test_features_that_are_used_up_end_the_rounds():
    x, y = blobs(1, dim=2, apart=5.0)
    assert iterative_nullspace(x, y, rounds=9, until_majority=False).shape == (2, 2)


def test_labels_can_be_words():
    x, y = blobs(4)
    words = np.array(["female", "male"])[y]
    np.testing.assert_array_equal(iterative_nullspace(x, words), iterative_nullspace(x, y))


@pytest.mark.parametrize(
    ("x", "y", "error", "said"),
    [
        (np.ones((4, 2)), [0, 0, 0, 0], UndefinedError, "one group"),
        (np.ones((4, 2)), [0, 0, 0, 1], UndefinedError, "fewer than two"),
        (np.full((4, 2), np.nan), [0, 1, 0, 1], UndefinedError, "not finite"),
        (np.ones((4, 2)), [0, 1], SettingError, "n labels"),
    ],
)
def test_what_cannot_be_is_refused(x, y, error, said):
    with pytest.raises(error, match=said):
        iterative_nullspace(x, y)


def test_constant_features_end_without_a_direction():
    assert iterative_nullspace(np.ones((40, 3)), np.arange(40) % 2, until_majority=False).shape == (3, 0)
