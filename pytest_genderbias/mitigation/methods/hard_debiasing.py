"""Hard debiasing of word embeddings, WED: neutralise and equalise (Bolukbasi et al. 2016; applied in lu2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import SettingError, UndefinedError
from pytest_genderbias.mitigation.methods.base import Method, Step
from pytest_genderbias.mitigation.methods.projection import with_embeddings
from pytest_genderbias.mitigation.words.directions import Pair, has_vectors, learn_basis, token_of
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, pairs_of, read_pairs
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, WORD_VECTORS
from pytest_genderbias.models.saving import described, input_embeddings
from pytest_genderbias.statistics.bias_subspace import FloatArray, check_basis, unit_vectors
from pytest_genderbias.text.schema import Count, check_fields, one_of

BEFORE_TRAINING, AFTER_TRAINING, BOTH = "before", "after", "both"
LENGTHS = ("unit", "kept")
_ZERO = 1e-12  #: a length below this is a rounding error


def neutralise(vectors: ArrayLike, basis: ArrayLike) -> FloatArray:
    """Return unit vectors without their part in a subspace: (w - w_B) / |w - w_B| (Bolukbasi et al. 2016, section 5).

    Args:
        vectors: shape (..., dim); only their directions count.
        basis: the gender subspace, shape (dim, k), orthonormal, or (dim,).

    Returns:
        The same shape: length 1, orthogonal to the basis. Neutralising again changes nothing.

    Raises:
        UndefinedError: a vector is zero, or lies within the subspace.
        SettingError: the basis is not orthonormal, or has another number of dimensions.

    >>> neutralise([[3.0, 4.0]], [1.0, 0.0])
    array([[0., 1.]])
    """
    w = unit_vectors(vectors)
    b = check_basis(basis, w.shape[-1])
    left = w - (w @ b) @ b.T
    if (np.linalg.norm(left, axis=-1) <= _ZERO).any():
        raise UndefinedError("a vector lies within the subspace, so its projection is zero")
    left = unit_vectors(left)
    return unit_vectors(
        left - (left @ b) @ b.T
    )  # again, for the rounding errors of vectors that lie almost within the subspace


def equalise(sets: ArrayLike, basis: ArrayLike) -> FloatArray:
    """Return sets of words that differ within a subspace only, at equal distances from all else (Bolukbasi et al. 2016,
    section 5).

    Let mu be the mean of a set of unit vectors, w_B the part of w in the subspace, and nu = mu - mu_B. Then w becomes

    .. math:: \\nu + \\sqrt{1 - |\\nu|^2} \\, (w_B - \\mu_B) / |w_B - \\mu_B|

    A word that is orthogonal to the subspace is then equally similar to all words of a set.

    Args:
        sets: shape (n, m, dim): n sets of m words, m = 2 for pairs; only their directions count.
        basis: shape (dim, k), orthonormal, or (dim,).

    Returns:
        The same shape; length 1. Equalising pairs again changes nothing.

    Raises:
        UndefinedError: a vector is zero, or the words of a set are equal within the subspace.
        SettingError: the basis is not orthonormal, or has another number of dimensions; a set has fewer than two words.

    Example:
        Outside the first axis the mean is (0, 0.8), which leaves sqrt(1 - 0.64) = 0.6 along it.

        >>> equalise([[[0.6, 0.8], [-0.6, 0.8]]], [1.0, 0.0]).round(4)
        array([[[ 0.6,  0.8],
                [-0.6,  0.8]]])
    """
    w = unit_vectors(sets)
    if w.ndim != 3 or w.shape[1] < 2:
        raise SettingError(f"expected sets of two words or more, shape (n, m, dim), got {w.shape}")
    b = check_basis(basis, w.shape[-1])
    mean = w.mean(axis=1, keepdims=True)
    nu = mean - (mean @ b) @ b.T
    apart = (w - mean) @ b
    if (np.linalg.norm(apart, axis=-1) <= _ZERO).any():
        raise UndefinedError("the words of a set are equal within the subspace, so they cannot be equalised")
    rest = np.sqrt(np.maximum(0.0, 1.0 - (nu**2).sum(axis=-1, keepdims=True)))
    return np.asarray(nu + rest * unit_vectors(apart) @ b.T)


def hard_debias(
    vectors: ArrayLike, basis: ArrayLike, neutral: ArrayLike, pairs: ArrayLike, lengths: str = "unit"
) -> NDArray[np.floating]:
    """Neutralise some rows of an embedding matrix, and equalise pairs of other rows.

    Args:
        vectors: shape (n, dim).
        basis: shape (dim, k), orthonormal, or (dim,).
        neutral: indices of the rows to neutralise, shape (m,).
        pairs: indices of the rows to equalise, shape (p, 2).
        lengths: ``unit`` scales every row to length 1, including rows in neither list (the paper; rows of zeros stay);
            ``kept`` restores the length of neutralised rows and gives the words of a pair their mean length, for
            networks that were trained with vectors of different lengths.

    Returns:
        The same shape and number format. Every neutral row is equally similar to both words of every pair (dot product
        and cosine). Repeating the operation changes rounding errors only.

    Raises:
        UndefinedError: see :func:`neutralise` and :func:`equalise`.
        SettingError: a row is in both lists, or in two pairs; ``lengths`` has another value.
    """
    x = np.asarray(vectors)
    rows = np.asarray(neutral, dtype=np.int64).reshape(-1)
    two = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if lengths not in LENGTHS:
        raise SettingError(f"lengths should be {' or '.join(LENGTHS)}, got {lengths!r}")
    if len(np.unique(two)) < two.size or np.isin(rows, two).any():
        raise SettingError("a row can be neutral or belong to one pair, but not both, and not to two pairs")
    w = x.astype(np.float64)
    length = np.linalg.norm(w, axis=1, keepdims=True)
    out = w / np.where(length == 0, 1.0, length) if lengths == "unit" else w.copy()
    scale = length if lengths == "kept" else np.ones_like(length)
    if len(rows):
        out[rows] = neutralise(w[rows], basis) * scale[rows]
    if len(two):
        out[two] = equalise(w[two], basis) * scale[two].mean(axis=1, keepdims=True)
    return np.asarray(out.astype(x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64))


def hard_debias_embeddings(model: Model, basis: ArrayLike, pairs: Sequence[Pair], lengths: str | None = None) -> Model:
    """Return a model whose word vectors, or input embeddings, are hard-debiased.

    In a network, a word is represented by its token after a space and by its token at the start of a text. A word of
    several tokens has no vector of its own and is left out, together with its pair (**choice**). Output weights that
    were tied to the input embeddings keep their values; :func:`~pytest_genderbias.models.saving.save_model` saves the
    result as an ordinary checkpoint.

    Args:
        model: word vectors, or a network.
        basis: the gender subspace of the input embeddings, such as ``learn_basis(model, pairs=...)``.
        pairs: the words to equalise, each in one pair; pairs with a word outside the vocabulary are left out. All other
            words are neutralised, except special tokens.
        lengths: see :func:`hard_debias`; ``None`` means ``unit`` for word vectors and ``kept`` for a network
            (**choice**: the layers of a network depend on the lengths).

    Returns:
        The model; ``details["mitigation"]`` gives the numbers of neutralised rows and equalised pairs.

    Raises:
        UndefinedError: see :func:`hard_debias`; no pair is in the vocabulary.
        SettingError: a word is in two pairs, or the basis does not fit.
        NotApplicableError: the model is neither word vectors nor a network.
    """
    model.require(HIDDEN_STATES, WORD_VECTORS)
    backend, is_network = model.backend, model.can(HIDDEN_STATES)
    matrix: NDArray[np.floating] = input_embeddings(backend.network) if is_network else backend.matrix
    lengths = lengths or ("kept" if is_network else "unit")

    def rows_of(word: str) -> list[int | None]:
        """Return the token of a word after a space, and at the start of a text; or its one row."""
        if not is_network:
            return [backend.row(word)]
        return [token_of(backend.tokenizer, text) for text in (f" {word}", word)]

    both = [rows for first, second in pairs for rows in zip(rows_of(first), rows_of(second), strict=True)]
    equalised = list(dict.fromkeys(rows for rows in both if None not in rows))
    if not equalised:
        raise UndefinedError(f"none of {len(pairs)} pairs has both words in the vocabulary of {model.name}")
    unchanged = {row for rows in both for row in rows} | set(backend.tokenizer.all_special_ids if is_network else ())
    rows = np.array(sorted(set(range(len(matrix))) - unchanged), dtype=np.int64)
    rows = rows[np.linalg.norm(matrix[rows], axis=1) > 0]  # without the padding of the vocabulary
    changed = hard_debias(matrix, basis, rows, np.array(equalised), lengths)
    what = described({"method": "WED", "neutralised": len(rows), "equalised pairs": len(equalised), "lengths": lengths})
    return with_embeddings(model, lambda _: changed, what)


@dataclass(frozen=True)
class HardDebiasing(Method):
    """Word embedding debiasing: neutralise and equalise (Bolukbasi et al. 2016).

    ``pairs`` (the name of a list, or pairs, such as he - she alone, which neutralise all other words, also "man")
    define the gender subspace, which has ``components`` dimensions, and are the words that are equalised; all other
    words are neutralised. ``when`` is ``before`` training, ``after`` it (as for lu2018's language model), or ``both``.
    ``lengths`` of the vectors are ``kept`` in a network and ``unit`` in word vectors, if it does not say which
    (:func:`hard_debias`).
    """

    name: ClassVar[str] = "wed"
    pairs: str | tuple[Pair, ...] = "lu2018-pairs"
    components: Count = 1
    when: Annotated[str, one_of(BEFORE_TRAINING, AFTER_TRAINING, BOTH)] = AFTER_TRAINING
    lengths: Annotated[str, one_of(*LENGTHS)] | None = None

    def __post_init__(self) -> None:
        """Reject unknown settings."""
        check_fields(self)
        if isinstance(self.pairs, str):
            read_pairs(self.pairs)
        else:
            pairs_of(self.pairs)

    def changes(self, step: Step) -> bool:
        """Return whether the settings use a step: ``before``, ``after``, or both."""
        uses = {"before": self.when != AFTER_TRAINING, "after": self.when != BEFORE_TRAINING}
        return uses.get(step, super().changes(step))

    def before(self, model: Model, seed: int) -> Model:
        """Debias the model before it is trained."""
        return self._debiased(model) if self.changes("before") else model

    def after(self, model: Model, seed: int) -> Model:
        """Debias the trained model."""
        return self._debiased(model) if self.changes("after") else model

    def _debiased(self, model: Model) -> Model:
        listed = distinct_pairs(self.pairs) if isinstance(self.pairs, str) else self.pairs
        pairs = [pair for pair in listed if has_vectors(model, *pair)]
        basis = learn_basis(model, pairs=pairs, components=self.components)
        return hard_debias_embeddings(model, basis, pairs, lengths=self.lengths)
