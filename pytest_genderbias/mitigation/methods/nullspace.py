"""Iterative nullspace projection (Ravfogel et al. 2020, INLP): repeatedly remove the directions that a linear
classifier uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.projection import project_embeddings
from pytest_genderbias.mitigation.words.directions import has_vectors, random_bases, vectors_of
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, read_pairs
from pytest_genderbias.models.model import Model
from pytest_genderbias.statistics.inference.intervals import FloatArray
from pytest_genderbias.statistics.linear_probe import cross_entropy, predicted
from pytest_genderbias.text.schema import Count, check_fields

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

IntArray = NDArray[np.int64]

_HELD_OUT = 0.25  #: share of the examples on which accuracies are measured
_ZERO = 1e-8  #: a direction that is shorter than this share of the first is a rounding error


def iterative_nullspace(
    features: ArrayLike, labels: ArrayLike, *, rounds: int = 50, until_majority: bool = True, seed: int = 0
) -> FloatArray:
    """Find the subspace from which linear classifiers predict a label, one classifier per round (Ravfogel et al. 2020,
    algorithm 1).

    Each round fits a logistic regression on the remaining part of the features, and adds the span of its weights to the
    subspace: one dimension for two labels, K - 1 for K labels. The subspace is the sum of these spans, so one
    projection removes everything that the rounds removed one by one. Accuracies are measured on a quarter of the
    examples, drawn at random within each label, on which no classifier is fitted.

    Args:
        features: vectors of words or texts, shape (n, dim). They need not be centred, since the classifiers have a bias
            term.
        labels: the label of each vector, such as gender, shape (n,).
        rounds: the largest number of rounds.
        until_majority: stop as soon as the held-out accuracy is not above the majority's share; otherwise run all
            ``rounds``.
        seed: seed of that draw.

    Returns:
        The removed subspace as an orthonormal basis, shape (dim, rank), for
        :mod:`~pytest_genderbias.mitigation.methods.projection`; the rank is 0 if no label could be predicted.

    Raises:
        UndefinedError: there are fewer than two labels, a label has fewer than two examples (one to fit, one to hold
            out), or a feature is not finite.
        SettingError: a shape does not fit.

    Example:
        The label is the sign of the first of three numbers: after one round it cannot be predicted any more.

        >>> x = np.random.default_rng(0).standard_normal((400, 3))
        >>> basis = iterative_nullspace(x, x[:, 0] > 0, rounds=1)
        >>> basis.shape, bool(abs(basis[0, 0]) > 0.99)
        ((3, 1), True)
    """
    x, y = np.asarray(features, dtype=np.float64), np.unique(np.asarray(labels), return_inverse=True)[1]
    if x.ndim != 2 or y.shape != (len(x),):
        raise SettingError(f"expected features (n, dim) and n labels, got {x.shape} and {y.shape}")
    if not np.isfinite(x).all():
        raise UndefinedError("a vector is not finite")
    test, majority = draw_held_out(y, _HELD_OUT, seed)
    return _removed(x, y, test, rounds, majority if until_majority else -1.0)


def logistic_weights(
    features: ArrayLike | csr_matrix[np.float64], labels: ArrayLike, ridge: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Fit a logistic regression: minimise the summed cross entropy plus ridge / 2 times the squared norm of the
    weights.

    The minimum is unique, so it does not depend on a seed or on the order of the examples. The bias is not penalised.

    Args:
        features: an array, or a sparse matrix of SciPy, which stays sparse; shape (n, dim).
        labels: integers from 0 to K - 1, shape (n,).
        ridge: weight of the penalty, above 0.

    Returns:
        Weights (C, dim) and biases (C,). C is K, or 1 if K = 2 (log odds of label 1).

    >>> weights, bias = logistic_weights([[-1.0], [1.0]], [0, 1])
    >>> weights.round(3), bool(abs(bias[0]) < 1e-3)  # w = 2 / (1 + exp(w))
    (array([[0.675]]), True)
    """
    from scipy.optimize import minimize
    from scipy.sparse import issparse

    x = features if issparse(features) else np.asarray(features, dtype=np.float64)
    y = np.asarray(labels, dtype=np.int64)
    n_labels = int(y.max()) + 1
    columns = 1 if n_labels == 2 else n_labels
    target = y[:, None].astype(np.float64) if columns == 1 else np.eye(n_labels)[y]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        table = flat.reshape(columns, -1)
        weights = table[:, :-1]
        z = x @ weights.T + table[:, -1]
        if columns == 1:
            total, residual = cross_entropy(z / 2, y), 0.5 * (1 + np.tanh(z / 2)) - target
        else:
            p = np.exp(z - z.max(axis=1, keepdims=True))
            total, residual = cross_entropy(z, y), p / p.sum(axis=1, keepdims=True) - target
        gradient = np.column_stack([residual.T @ x + ridge * weights, residual.sum(axis=0)])
        return float(total.sum() + 0.5 * ridge * (weights**2).sum()), gradient.ravel()

    start = np.zeros(columns * (x.shape[1] + 1))
    minimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-6})
    table = np.asarray(minimum.x, dtype=np.float64).reshape(columns, -1)
    return table[:, :-1], table[:, -1]


def draw_held_out(y: IntArray, share: float, seed: int) -> tuple[NDArray[np.bool_], float]:
    """Draw the held-out examples: a share of each label, at least one example and not all. Return also the accuracy
    of the most frequent label of the others on them.

    Raises:
        UndefinedError: there are fewer than two labels, or a label has fewer than two examples.

    >>> test, majority = draw_held_out(np.array([0, 0, 0, 0, 1, 1]), 0.25, 0)
    >>> int(test.sum()), majority
    (2, 0.5)
    """
    counts = np.bincount(y)
    if len(counts) < 2 or counts.min() < 2:
        raise UndefinedError(
            "a group has fewer than two examples" if len(counts) > 1 else "all examples are of one group"
        )
    rng = np.random.default_rng(seed)
    test = np.zeros(len(y), dtype=np.bool_)
    for label in range(len(counts)):
        rows = rng.permutation(np.flatnonzero(y == label))
        test[rows[: min(len(rows) - 1, max(1, round(share * len(rows))))]] = True
    return test, float((y[test] == np.bincount(y[~test]).argmax()).mean())


def _removed(x: FloatArray, y: IntArray, test: NDArray[np.bool_], rounds: int, enough: float) -> FloatArray:
    """Return the subspace of so many rounds, or fewer: until a classifier is no more accurate than ``enough``."""
    basis = np.zeros((x.shape[1], 0))
    scale = 0.0
    for _ in range(rounds):
        left = x - (x @ basis) @ basis.T
        weights, bias = logistic_weights(left[~test], y[~test])
        accuracy = float((predicted(left[test] @ weights.T + bias) == y[test]).mean())
        if accuracy <= enough or basis.shape[1] == x.shape[1]:
            return basis
        # Twice, to remove the rounding errors along directions that are in the basis already.
        fresh = weights - (weights @ basis) @ basis.T
        fresh -= (fresh @ basis) @ basis.T
        values, rows = np.linalg.svd(fresh, full_matrices=False)[1:]
        scale = max(scale, float(values[0]))
        new = rows[values > _ZERO * scale]
        if not len(new):
            return basis
        basis = np.linalg.qr(np.column_stack([basis, new.T]))[0]
    return basis


@dataclass(frozen=True)
class NullspaceProjection(Method):
    """Iterative nullspace projection of the input embeddings (Ravfogel et al. 2020).

    It removes the directions from which classifiers tell the first words of ``pairs`` from the second ones. ``rounds``
    is the largest number of classifiers. The control projects as many random directions; ``random`` is its seed.
    """

    name: ClassVar[str] = "inlp"
    pairs: str = "lu2018-pairs"
    rounds: Count = 20
    random: int | None = None

    control_in_words: ClassVar[str] = "as many random directions"

    def __post_init__(self) -> None:
        """Reject unknown settings."""
        check_fields(self)
        read_pairs(self.pairs)

    def after(self, model: Model, seed: int) -> Model:
        """Project the trained model."""
        pairs = [pair for pair in distinct_pairs(self.pairs) if has_vectors(model, *pair)]
        words = [word for pair in pairs for word in pair]
        labels = np.tile([0, 1], len(pairs))
        basis = iterative_nullspace(vectors_of(model, words), labels, rounds=self.rounds, seed=seed)
        if not basis.shape[1]:
            return model
        if self.random is not None:
            basis = random_bases(model.input_width, basis.shape[1], 1, self.random)[0]
        return project_embeddings(model, basis)

    def control(self, repeat: int) -> Method | None:
        """Return the method that projects as many random directions."""
        return replace(self, random=repeat)
