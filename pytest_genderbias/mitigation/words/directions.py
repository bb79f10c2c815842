"""Directions and subspaces for projections: from pairs of words, from sets of words, or random ones.

A *basis* is an array of shape (dim, k) with orthonormal columns. Words are looked up as written: a cased vocabulary has
different vectors for "He" and "he", so pass all forms that you need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, WORD_VECTORS
from pytest_genderbias.scoring.text_vectors import HiddenStates
from pytest_genderbias.statistics.bias_subspace import FloatArray, pair_direction, unit_vectors

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Pair = tuple[str, str]

HE_SHE: tuple[Pair, ...] = (("he", "she"),)  #: the pair that defines the gender direction of dev2019
NAMED_LAYERS = ("all", "upper")
NO_LAYERS = "has no layers; project its vectors with project_embeddings"  #: of a model that is not a network
_ZERO = 1e-10  #: a singular value below this share of the first is a rounding error


def pairs_basis(firsts: ArrayLike, seconds: ArrayLike, components: int = 1) -> FloatArray:
    """Return the subspace in which the words of pairs differ most: the first right singular vectors of the differences.

    One pair gives dev2019's direction, he - she with both vectors normalised. For several pairs the differences of the
    normalised vectors are stacked and not centred: the principal component analysis of Bolukbasi et al. 2016, in which
    each pair is centred at its own mean.

    Args:
        firsts: vectors of the first words, shape (n, dim).
        seconds: vectors of the second words, in the same order; same shape.
        components: k.

    Returns:
        Shape (dim, k), orthonormal. Each column points from the second words to the first, summed over the pairs.

    Raises:
        UndefinedError: there is no pair, the words of each pair are equal, or the differences span fewer than k
            dimensions.
        SettingError: the shapes differ, or k is below 1.

    Example:
        The normalised difference is (1, 0) - (0, 1).

        >>> pairs_basis([[3.0, 0.0]], [[0.0, 2.0]]).round(4).ravel()
        array([ 0.7071, -0.7071])
    """
    u, v = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (firsts, seconds))
    if u.shape != v.shape:
        raise SettingError(
            f"the vectors of first and second words have the shapes {u.shape} and {v.shape}; expected the same shape"
        )
    if len(u) == 1 and components == 1:
        return pair_direction(v[0], u[0])[:, None]
    differences = unit_vectors(u) - unit_vectors(v)
    basis = _components(differences, components)
    return basis * np.where(differences.sum(axis=0) @ basis < 0, -1.0, 1.0)


def set_basis(vectors: ArrayLike, components: int = 1) -> FloatArray:
    """Return the first principal components of a set of words (dev2019: 1 for demonyms, 2 for adherents).

    The mean vector is subtracted first. The first component is that of
    :func:`~pytest_genderbias.statistics.bias_subspace.principal_ratios` with ``centred``.

    Args:
        vectors: one vector per word, shape (n, dim).
        components: k.

    Returns:
        Shape (dim, k), orthonormal. The sign of a component is arbitrary; here the entry with the largest absolute
        value in each column is positive.

    Raises:
        UndefinedError: the vectors span fewer than k dimensions (centring removes one).

    >>> set_basis([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    array([[1.],
           [0.]])
    """
    v = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    basis = _components(v - v.mean(axis=0), components)
    largest = np.take_along_axis(basis, np.abs(basis).argmax(axis=0)[None], axis=0)
    return np.asarray(basis * np.sign(largest))


def random_bases(dimensions: int, components: int = 1, repeats: int = 8, seed: int = 0) -> FloatArray:
    """Return random orthonormal bases, uniform over all subspaces: the control of a projection (dev2019 draws 8, or 4
    for ELMo).

    Args:
        dimensions: number of dimensions of the vectors, dim.
        components: number of dimensions of each subspace, k.
        repeats: number of bases, r.
        seed: seed of the draws.

    Returns:
        Shape (r, dim, k).

    >>> b = random_bases(6, 2, repeats=3, seed=1)
    >>> b.shape, bool(np.allclose(b.swapaxes(1, 2) @ b, np.eye(2)))
    ((3, 6, 2), True)
    """
    if not 1 <= components <= dimensions:
        raise SettingError(f"a basis of {dimensions} dimensions has 1 to {dimensions} components, got {components}")
    drawn = np.random.default_rng(seed).standard_normal((repeats, dimensions, components))
    return np.asarray(np.linalg.qr(drawn)[0], dtype=np.float64)


def vectors_of(model: Model, words: Sequence[str], where: str | int = "input") -> FloatArray:
    """Return the vectors of words in a model: shape (len(words), dim).

    A word of several tokens has the mean of their vectors; each word is read after a space, as within a text
    (**choice**). For a network with factorised embeddings (ALBERT, small ELECTRAs), ``input`` is the small matrix
    before it is mapped to the size of the hidden states (**choice**), the only part that depends on words without their
    context.

    Args:
        model: word vectors, or a network.
        words: the words, as written.
        where: for a network: ``input`` embeddings, ``last`` layer, or the number of a layer (0: output of the embedding
            layer).

    Raises:
        UnknownNameError: a word has no vector in the file.
        NotApplicableError: the model has no vectors.
    """
    model.require(HIDDEN_STATES, WORD_VECTORS)
    if model.can(WORD_VECTORS):
        return np.asarray(model.backend.get(words), dtype=np.float64)
    states = HiddenStates(model.backend, None, where)
    spans = [((1, 1 + len(word)),) for word in words]
    return states.span_vectors([f" {word}" for word in words], spans)[:, 0].astype(np.float64)


def token_of(tokenizer: PreTrainedTokenizerBase, text: str) -> int | None:
    """Return the token of a text; ``None`` if it has several, or an unknown one."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids[0] if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else None


def has_vectors(model: Model, *words: str) -> bool:
    """Return whether a model has a vector for each word; a network has one unless a part of the word is an unknown
    token.
    """
    if model.can(WORD_VECTORS):
        return None not in map(model.backend.row, words)
    tokenizer = model.backend.tokenizer
    tokens = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    return not any(tokenizer.unk_token_id in ids for ids in tokens)


def learn_basis(
    model: Model,
    *,
    pairs: Sequence[Pair] = (),
    words: Sequence[str] = (),
    components: int = 1,
    where: str | int = "input",
) -> FloatArray:
    """Return a basis from a model's own vectors, by pairs (:func:`pairs_basis`) or by words (:func:`set_basis`).

    Args:
        model: word vectors, or a network.
        pairs: pairs of words, such as :data:`HE_SHE`.
        words: a set of words, such as the demonyms of dev2019; pass either this or ``pairs``.
        components: see :func:`pairs_basis`.
        where: see :func:`vectors_of`.

    Raises:
        SettingError: both pairs and words are passed, or neither.
        UndefinedError, UnknownNameError, NotApplicableError: see :func:`vectors_of`, :func:`pairs_basis` and
            :func:`set_basis`.
    """
    if bool(pairs) == bool(words):
        raise SettingError("a basis is learned either from pairs or from words; pass one of the two")
    if words:
        return set_basis(vectors_of(model, words, where), components)
    vectors = vectors_of(model, [word for pair in pairs for word in pair], where)
    return pairs_basis(vectors[::2], vectors[1::2], components)


def layer_bases(model: Model, layers: str | Sequence[int] = "all", **source: Any) -> Mapping[int, FloatArray]:
    """Return a basis for each of a network's layers, from the hidden states of the layer.

    Each basis is learned from the network without any projection of lower layers (**choice**; dev2019 does so for
    ELMo).

    Args:
        model: a network.
        layers: ``all`` (from 0, the output of the embedding layer, to the last), ``upper`` (all except 0), or numbers.
        source: pairs or words, and components: see :func:`learn_basis`.

    Raises:
        SettingError: there is no such layer; or see :func:`learn_basis`.
        NotApplicableError: the model is not a network.
    """
    model.require(HIDDEN_STATES, otherwise=NO_LAYERS)
    last = int(model.backend.network.config.get_text_config().num_hidden_layers)
    named = dict(zip(NAMED_LAYERS, (range(last + 1), range(1, last + 1)), strict=True))
    numbers = named.get(layers) if isinstance(layers, str) else layers
    if not numbers or any(type(layer) is not int or not 0 <= layer <= last for layer in numbers):
        raise SettingError(f"layers should be 'all', 'upper' or numbers from 0 to {last}, got {layers!r}")
    return {layer: learn_basis(model, where=layer, **source) for layer in numbers}


def _components(matrix: FloatArray, components: int) -> FloatArray:
    if components < 1:
        raise SettingError(f"components should be 1 or more, got {components}")
    if not matrix.size or not np.isfinite(matrix).all():
        raise UndefinedError("a vector is not finite" if matrix.size else "there are no words")
    values, rows = np.linalg.svd(matrix, full_matrices=False)[1:]
    rank = int((values > max(_ZERO * values[0], np.finfo(float).tiny)).sum())
    if components > rank:
        raise UndefinedError(f"{len(matrix)} vectors of {matrix.shape[1]} dimensions span {rank}, not {components}")
    return np.asarray(rows[:components].T)
