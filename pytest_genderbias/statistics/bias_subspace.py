"""Bias subspaces: singular values of a set of words, and the cosine of their first component with a learned direction.

Source: dev2019, tables 7 and 12.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.statistics.inference.intervals import in_blocks

FloatArray = NDArray[np.float64]
_BLOCK = 1 << 23  #: Numbers drawn at once: 64 MiB.
_ORTHONORMAL = 1e-6  #: Largest deviation of B^T B from the identity: rounding of single precision.
_ZERO = 1e-12  #: A length below this share of the original lengths is rounding error.


def unit_vectors(vectors: ArrayLike) -> FloatArray:
    """Return each vector divided by its length, shape (..., dim) to (..., dim).

    Raises:
        UndefinedError: a vector is zero or not finite.

    >>> unit_vectors([[3.0, 4.0], [0.0, 2.0]])
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    v = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(v, axis=-1, keepdims=True)
    if not np.isfinite(lengths).all():
        raise UndefinedError("a vector is not finite")
    if not lengths.all():
        raise UndefinedError("a vector is zero and has no direction")
    return np.asarray(v / lengths)


def check_basis(basis: ArrayLike, dimensions: int) -> FloatArray:
    """Return a basis as an array (dim, k), after checking that its columns are orthonormal.

    Args:
        basis: shape (dim, k), or (dim,) for one direction of length 1.
        dimensions: the number of dimensions of the vectors to project.

    Raises:
        SettingError: the shape does not fit, or the columns are not orthonormal or not finite.

    >>> check_basis([0.6, 0.8], 2)
    array([[0.6],
           [0.8]])
    """
    b = np.asarray(basis, dtype=np.float64)
    b = b[:, None] if b.ndim == 1 else b
    if b.ndim != 2 or b.shape[0] != dimensions or not 1 <= b.shape[1] <= dimensions:
        raise SettingError(
            f"a basis for vectors of {dimensions} dimensions has the shape ({dimensions}, k), got {np.shape(basis)}"
        )
    off = np.abs(b.T @ b - np.eye(b.shape[1])).max()
    if not off <= _ORTHONORMAL:
        raise SettingError(
            f"the columns of a basis should be orthonormal, but B^T B differs from the identity by {off:.2g}; create it"
            " with pairs_basis, set_basis or np.linalg.qr"
        )
    return b


def basis_digest(basis: ArrayLike) -> str:
    """Return a short hash of a basis, for a model's details."""
    return hashlib.sha256(np.ascontiguousarray(np.asarray(basis, dtype=np.float64)).data).hexdigest()[:16]


def principal_ratios(
    vectors: ArrayLike, centred: bool = False, normalised: bool = False
) -> tuple[FloatArray, tuple[float, float, float]]:
    """Return the first principal component of a set of words, and the ratios of the next three singular values to the
    first.

    The singular values :math:`\\sigma_1 \\geq \\sigma_2 \\geq \\ldots` are those of the matrix with a word vector in
    each row; ratio i is :math:`\\sigma_i / \\sigma_1` (dev2019, tables 7 and 12, "2nd", "3rd", "4th").

    Neither direction is worse. Low ratios mean that one direction explains most of the variation, so removing it may be
    enough; ratios near 1 mean that no direction dominates. There is no neutral value. The ratios depend on the number
    of words, so compare sets of one size.

    Args:
        vectors: one vector per word, shape (n, dim).
        centred: subtract the mean vector first. Without centring, the first component is close to the mean if the
            vectors have a large common part, as contextual vectors do. The paper does not specify it; the published
            ratios of the demonyms are those of the uncentred matrix.
        normalised: divide each vector by its length first; otherwise, long vectors have more weight.

    Returns:
        The component, shape (dim,), of length 1 and arbitrary sign; and three descending ratios, each 0 to 1.

    Raises:
        UndefinedError: too few vectors or dimensions for four singular values (centring costs one vector); vectors that
            are all equal or not finite; with ``normalised``, a zero vector.

    Example:
        Opposite vectors of lengths 4, 2, 1 along three axes: the mean is 0 and the squares are 2 * 16, 2 * 4, 2 * 1, 0.

        >>> half = np.array([[4, 0, 0, 0], [0, 2, 0, 0], [0, 0, 1, 0]])
        >>> component, ratios = principal_ratios(np.concatenate([half, -half]))
        >>> tuple(round(ratio, 6) for ratio in ratios)
        (0.5, 0.25, 0.0)
        >>> abs(component).round(6)
        array([1., 0., 0., 0.])
    """
    v = unit_vectors(vectors) if normalised else np.asarray(vectors, dtype=np.float64)
    rank = min(len(v) - centred, v.shape[1])
    if rank < 4:
        raise UndefinedError(f"four singular values need more than {len(v)} vectors of {v.shape[1]} dimensions")
    if not np.isfinite(v).all():
        raise UndefinedError("a vector is not finite")
    matrix = v - v.mean(axis=0) if centred else v
    values, components = np.linalg.svd(matrix, full_matrices=False)[1:]
    if values[0] <= _ZERO * np.linalg.norm(v):
        raise UndefinedError("the vectors are all the same" if centred else "the vectors are all zero")
    second, third, fourth = (float(ratio) for ratio in values[1:4] / values[0])
    return components[0], (second, third, fourth)


def cosine_with(direction: ArrayLike, component: ArrayLike) -> float:
    """Return the absolute cosine of a learned direction with a component, whose sign is arbitrary (dev2019, table 7,
    "cosine").

    Args:
        direction: the direction that a projection removes, shape (dim,).
        component: the first component of the full set of words, shape (dim,).

    Returns:
        0 to 1; 1 means that the learned direction is that of the largest variation. A random direction in d dimensions
        has about :math:`\\sqrt{2 / (\\pi d)}`. A lower value means that the direction misses the variation that it
        should remove; it does not make a model better or worse.

    Raises:
        UndefinedError: a vector is zero or not finite.

    >>> round(cosine_with([1.0, 1.0], [0.0, -2.0]), 4)
    0.7071
    """
    return min(1.0, abs(float(unit_vectors(direction) @ unit_vectors(component))))


def pair_direction(she: ArrayLike, he: ArrayLike) -> FloatArray:
    """Return the direction from ``she`` to ``he``: each vector normalised, then the difference, normalised (dev2019).

    Args:
        she: vector of one word, shape (dim,).
        he: vector of the other word, same shape.

    Returns:
        Shape (dim,), length 1; it points towards ``he``.

    Raises:
        UndefinedError: a vector is zero or not finite, or both have the same direction.

    Example:
        Along two axes, for any lengths: (1, 0) - (0, 1), divided by the square root of 2.

        >>> pair_direction([0.0, 3.0], [2.0, 0.0]).round(4)
        array([ 0.7071, -0.7071])
    """
    difference = unit_vectors(he) - unit_vectors(she)
    if np.linalg.norm(difference) <= _ZERO:
        raise UndefinedError("the vectors of the two words have the same direction")
    return unit_vectors(difference)


def random_ratios(
    vectors: ArrayLike, repeats: int, seed: int, centred: bool = False, normalised: bool = False
) -> FloatArray:
    """Return the ratios of :func:`principal_ratios` for vectors with random directions, ``repeats`` times.

    A vector keeps its length or, with ``centred``, its distance from the mean; only the common directions are lost.

    Args:
        vectors: as in :func:`principal_ratios`, shape (n, dim).
        repeats: number of draws.
        seed: seed of the draws.
        centred: as in :func:`principal_ratios`.
        normalised: as in :func:`principal_ratios`.

    Returns:
        Shape (repeats, 3): 2nd, 3rd and 4th singular value over the first. Words with lower ratios have a common
        direction.

    Raises:
        UndefinedError: as :func:`principal_ratios`.

    Example:
        In many dimensions, random directions are nearly orthogonal, so equal lengths give nearly equal singular values.

        >>> ratios = random_ratios(np.eye(6, 4000), 20, seed=0)
        >>> ratios.shape, bool(ratios.min() > 0.9)
        ((20, 3), True)
    """
    principal_ratios(vectors, centred, normalised)
    v = unit_vectors(vectors) if normalised else np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(v - v.mean(axis=0) if centred else v, axis=1, keepdims=True)
    rng, ratios = np.random.default_rng(seed), []
    for size in in_blocks(repeats, v.size, _BLOCK):
        turned = lengths * unit_vectors(rng.standard_normal((size, *v.shape)))
        turned -= turned.mean(axis=1, keepdims=True) if centred else 0.0
        gram = turned @ turned.swapaxes(1, 2) if v.shape[0] <= v.shape[1] else turned.swapaxes(1, 2) @ turned
        squares = np.maximum(np.linalg.eigvalsh(gram)[:, -4:], 0.0)
        ratios.append(np.sqrt(squares[:, 2::-1] / squares[:, 3:]))
    return np.concatenate(ratios)


def random_cosines(dimensions: int, repeats: int, seed: int) -> FloatArray:
    """Return the absolute cosine of a fixed direction with each of ``repeats`` random directions, shape (repeats,).

    >>> bool(random_cosines(1, 3, seed=0).tolist() == [1.0, 1.0, 1.0])
    True
    """
    rng, sizes = np.random.default_rng(seed), in_blocks(repeats, dimensions, _BLOCK)
    return np.concatenate([np.abs(unit_vectors(rng.standard_normal((size, dimensions)))[:, 0]) for size in sizes])
