"""Directions and subspaces that a projection takes out: from pairs of words, from sets of words, at random.

A *basis* is an array of shape (dim, k) whose columns are orthonormal. Words are looked up as they are given: a cased vocabulary
has another vector for "He" than for "he", so name the forms that you want (:func:`with_capitals`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.vectors import HiddenStates
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.subspace import pair_direction, unit_vectors

FloatArray = NDArray[np.float64]
Pair = tuple[str, str]

HE_SHE: tuple[Pair, ...] = (("he", "she"),)  #: the pair that dev2019 learns gender from
NAMED_LAYERS = ("all", "upper")
_ORTHONORMAL = 1e-6  #: how far B^T B may be from the identity: rounding of single precision
_ZERO = 1e-10  #: a singular value below this share of the first is rounding


def check_basis(basis: ArrayLike, dimensions: int) -> FloatArray:
    """Return a basis as an array (dim, k), if its columns are orthonormal.

    Args:
        basis: shape (dim, k), or (dim,) for one direction of length 1.
        dimensions: how many the vectors have that it is for.

    Raises:
        SettingError: another shape, columns that are not orthonormal, or not finite.

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
            f"the columns of a basis should be orthonormal, B^T B is off by {off:.2g}; make it by pairs_basis, set_basis or np.linalg.qr"
        )
    return b


def basis_digest(basis: ArrayLike) -> str:
    """Return a short hash of a basis, for a model's details."""
    return hashlib.sha256(np.ascontiguousarray(np.asarray(basis, dtype=np.float64)).data).hexdigest()[:16]


def pairs_basis(
    firsts: ArrayLike, seconds: ArrayLike, components: int | None = 1, share: float = 0.5, normalised: bool = True
) -> FloatArray:
    """Return the subspace in which the words of pairs differ most: the first right singular vectors of the differences.

    One pair gives dev2019's direction, he - she with both vectors normalised. Of many pairs the differences
    are stacked and not centred, which is the principal component analysis of Bolukbasi et al. 2016 (each pair about its own
    mean) and, with ``normalised=False``, the subspace of bordia2019 (section 3.4).

    Args:
        firsts: vectors of the first words, shape (n, dim).
        seconds: vectors of the second ones, in the same order, same shape.
        components: k; ``None`` for the fewest that hold ``share`` of the variance, the squared singular values.
        share: above 0, up to 1; only with ``components=None``.
        normalised: divide each vector by its length first.

    Returns:
        Shape (dim, k), orthonormal. Each column points from the second words to the first, all differences summed.

    Raises:
        UndefinedError: no pair, the words of every pair are the same, or the differences span fewer than k dimensions.
        SettingError: shapes that differ, k or share out of range.

    Example:
        (1, 0) - (0, 1), whatever the lengths.

        >>> pairs_basis([[3.0, 0.0]], [[0.0, 2.0]]).round(4).ravel()
        array([ 0.7071, -0.7071])
    """
    u, v = (np.atleast_2d(np.asarray(side, dtype=np.float64)) for side in (firsts, seconds))
    if u.shape != v.shape:
        raise SettingError(f"first and second words have the shapes {u.shape} and {v.shape}, expected the same")
    if len(u) == 1 and components == 1 and normalised:
        return pair_direction(v[0], u[0])[:, None]
    differences = unit_vectors(u) - unit_vectors(v) if normalised else u - v
    found = _components(differences, components, share)
    return found * np.where(differences.sum(axis=0) @ found < 0, -1.0, 1.0)


def set_basis(
    vectors: ArrayLike, components: int | None = 1, share: float = 0.5, centred: bool = True, normalised: bool = False
) -> FloatArray:
    """Return the first principal components of a set of words (dev2019: 1 for demonyms, 2 for adherents).

    The first one is that of :func:`~pytest_genderbias.statistics.subspace.principal_ratios`, with the same choices.

    Args:
        vectors: one vector a word, shape (n, dim).
        components: as in :func:`pairs_basis`.
        share: as in :func:`pairs_basis`.
        centred: subtract the mean vector first; without, the first component is nearly the mean of all words.
        normalised: divide each vector by its length first.

    Returns:
        Shape (dim, k), orthonormal; the largest number of each column is positive, for a component has no sign.

    Raises:
        UndefinedError: the vectors span fewer than k dimensions (centring costs one).

    >>> set_basis([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    array([[1.],
           [0.]])
    """
    v = unit_vectors(vectors) if normalised else np.atleast_2d(np.asarray(vectors, dtype=np.float64))
    found = _components(v - v.mean(axis=0) if centred else v, components, share)
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=0)[None], axis=0)
    return np.asarray(found * np.sign(largest))


def random_bases(dimensions: int, components: int = 1, repeats: int = 8, seed: int = 0) -> FloatArray:
    """Return random orthonormal bases, uniform over all subspaces: the control of a projection (dev2019 draws 8, for ELMo 4).

    Args:
        dimensions: of the vectors.
        components: k of the basis that they are held against.
        repeats: how many, r.
        seed: of the draws.

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


def with_capitals(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return pairs as they are and with capitals: for a vocabulary that tells "He" from "he".

    >>> with_capitals([("he", "she")])
    (('he', 'she'), ('He', 'She'))
    """
    given = list(pairs)
    capitals = [(first[:1].upper() + first[1:], second[:1].upper() + second[1:]) for first, second in given]
    return tuple(dict.fromkeys([*given, *capitals]))


def vectors_of(
    model: Model, words: Sequence[str], where: str | int = "input", texts: Sequence[str] = (), most: int = 1000
) -> FloatArray:
    """Return the vectors of words in a model: shape (len(words), dim).

    A word of several pieces has the mean of their vectors, each word read behind a space, as it stands in a text (**choice**).
    Of a network with factorised embeddings (ALBERT, small ELECTRAs) ``input`` is the small matrix, before it is mapped to the
    size of the hidden states (**choice**): it is the only place that knows words and no context.

    Args:
        model: word vectors, or a network.
        words: the words, case as given.
        where: of a network: ``input`` embeddings, ``last`` layer, or the number of a layer (0: output of the embedding layer).
        texts: take the mean over the occurrences of each word in these (dev2019's way for ELMo) instead of the bare word.
        most: occurrences of a word that are read, the first ones.

    Raises:
        UnknownNameError: a word has no vector in the file.
        UndefinedError: a word occurs in none of the texts.
        NotApplicableError: the model has no vectors.
    """
    if not isinstance(model.backend, Checkpoint):
        if not hasattr(model.backend, "matrix"):
            raise NotApplicableError(f"{model.name} is neither a file of word vectors nor a network")
        return np.asarray(model.backend.get(words), dtype=np.float64)
    places = [_occurrences(word, texts, most) if texts else [(f" {word}", (1, 1 + len(word)))] for word in words]
    flat = [place for found in places for place in found]
    states = HiddenStates(model.backend, None, where)
    read = states.span_vectors([text for text, _ in flat], [(span,) for _, span in flat])[:, 0].astype(np.float64)
    ends = np.cumsum([len(found) for found in places])
    return np.stack([read[end - len(found) : end].mean(axis=0) for end, found in zip(ends, places, strict=True)])


def has_vectors(model: Model, *words: str) -> bool:
    """Tell whether a model has a vector of each word: a network has one of any word, of its pieces, but for an unknown one."""
    if hasattr(model.backend, "row"):
        return None not in map(model.backend.row, words)
    tokenizer = model.backend.tokenizer
    pieces = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"]
    return not any(tokenizer.unk_token_id in ids for ids in pieces)


def learn_basis(
    model: Model,
    *,
    pairs: Sequence[Pair] = (),
    words: Sequence[str] = (),
    components: int | None = 1,
    share: float = 0.5,
    where: str | int = "input",
    texts: Sequence[str] = (),
) -> FloatArray:
    """Return a basis from a model's own vectors: of pairs (:func:`pairs_basis`), or else of words (:func:`set_basis`).

    Args:
        model: word vectors, or a network.
        pairs: as :data:`HE_SHE`.
        words: a set of words, as the demonyms of dev2019; either this or ``pairs``.
        components: see :func:`pairs_basis`.
        share: see :func:`pairs_basis`.
        where: see :func:`vectors_of`.
        texts: see :func:`vectors_of`.

    Raises:
        SettingError: both pairs and words, or neither.
        UndefinedError, UnknownNameError, NotApplicableError: as in the functions that it calls.
    """
    if bool(pairs) == bool(words):
        raise SettingError("a basis is learned either from pairs or from words")
    if words:
        return set_basis(vectors_of(model, words, where, texts), components, share)
    flat = [word for pair in pairs for word in pair]
    found = vectors_of(model, flat, where, texts)
    return pairs_basis(found[::2], found[1::2], components, share)


def layer_bases(
    model: Model,
    layers: str | Sequence[int] = "all",
    *,
    pairs: Sequence[Pair] = (),
    words: Sequence[str] = (),
    components: int | None = 1,
    share: float = 0.5,
    texts: Sequence[str] = (),
) -> Mapping[int, FloatArray]:
    """Return a basis for each of a network's layers, from its own hidden states there.

    Each is learned from the network as it is, nothing projected below (**choice**; dev2019 learns ELMo's so).

    Args:
        model: a network.
        layers: ``all`` (0, the output of the embedding layer, to the last), ``upper`` (all but the first, 0), or numbers.
        pairs: see :func:`learn_basis`; with the rest.
        words: see :func:`learn_basis`.
        components: see :func:`learn_basis`.
        share: see :func:`learn_basis`.
        texts: see :func:`learn_basis`.

    Raises:
        SettingError: a layer that is not there; or as :func:`learn_basis`.
    """
    if not isinstance(model.backend, Checkpoint):
        raise NotApplicableError(f"{model.name} has no layers; project its vectors")
    last = int(model.backend.network.config.get_text_config().num_hidden_layers)
    named = dict(zip(NAMED_LAYERS, (range(last + 1), range(1, last + 1)), strict=True))
    chosen = named.get(layers) if isinstance(layers, str) else layers
    if not chosen or any(type(layer) is not int or not 0 <= layer <= last for layer in chosen):
        raise SettingError(f"layers should be 'all', 'upper' or numbers from 0 to {last}, got {layers!r}")
    how = {"pairs": pairs, "words": words, "components": components, "share": share, "texts": texts}
    return {layer: learn_basis(model, where=layer, **how) for layer in chosen}  # type: ignore[arg-type]


def _components(matrix: FloatArray, components: int | None, share: float) -> FloatArray:
    if components is None and not 0 < share <= 1:
        raise SettingError(f"share should be above 0 and at most 1, got {share}")
    if components is not None and components < 1:
        raise SettingError(f"components should be 1 or more, got {components}")
    if not matrix.size or not np.isfinite(matrix).all():
        raise UndefinedError("a vector is not finite" if matrix.size else "no words")
    values, rows = np.linalg.svd(matrix, full_matrices=False)[1:]
    rank = int((values > max(_ZERO * values[0], np.finfo(float).tiny)).sum())
    held = np.cumsum(values**2)
    wanted = components or 1 + int(np.searchsorted(held, share * held[-1] * (1 - _ZERO)))
    if wanted > rank:
        raise UndefinedError(f"{len(matrix)} rows of {matrix.shape[1]} dimensions span {rank}, not {wanted}")
    return np.asarray(rows[:wanted].T)


def _occurrences(word: str, texts: Sequence[str], most: int) -> list[tuple[str, tuple[int, int]]]:
    whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
    found = []
    for text in texts:
        found += [(text, match.span()) for match in whole.finditer(text)]
        if len(found) >= most:
            break
    if not found:
        raise UndefinedError(f"{word!r} occurs in none of the {len(texts)} texts")
    return found[:most]
