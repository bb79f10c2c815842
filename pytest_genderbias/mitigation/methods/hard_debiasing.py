"""Hard debiasing of word embeddings, WED: neutralise and equalise (Bolukbasi et al. 2016, as lu2018 uses it)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Method, check_count
from pytest_genderbias.mitigation.words.directions import Pair, check_basis, has_vectors, learn_basis
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, read_pairs
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.saving import (
    copied,
    described,
    input_embeddings,
    replace_input_embeddings,
    with_matrix,
    with_network,
)
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.statistics.subspace import unit_vectors

FloatArray = NDArray[np.float64]
BEFORE_TRAINING, AFTER_TRAINING, BOTH = "before", "after", "both"
LENGTHS = ("unit", "kept")
_ZERO = 1e-12  #: a length below this is rounding


def neutralise(vectors: ArrayLike, basis: ArrayLike) -> FloatArray:
    """Return unit vectors without their part in a subspace: (w - w_B) / |w - w_B| (Bolukbasi et al. 2016, section 5).

    Args:
        vectors: shape (..., dim); only their directions count.
        basis: the gender subspace, shape (dim, k), orthonormal, or (dim,).

    Returns:
        The same shape: length 1, at right angles to the basis. Neutralising again changes nothing.

    Raises:
        UndefinedError: a vector is zero, or lies within the subspace.
        SettingError: the basis is not orthonormal, or for another number of dimensions.

    >>> neutralise([[3.0, 4.0]], [1.0, 0.0])
    array([[0., 1.]])
    """
    w = unit_vectors(vectors)
    b = check_basis(basis, w.shape[-1])
    left = w - (w @ b) @ b.T
    if (np.linalg.norm(left, axis=-1) <= _ZERO).any():
        raise UndefinedError("a vector lies within the subspace, so that nothing of it is left")
    left = unit_vectors(left)
    return unit_vectors(left - (left @ b) @ b.T)  # what rounding left of it, where little was outside


def equalise(sets: ArrayLike, basis: ArrayLike) -> FloatArray:
    """Return sets of words that differ in a subspace only, all equally far from the rest (Bolukbasi et al. 2016, section 5).

    With mu the mean of a set of unit vectors, nu = mu - mu_B, and w_B the part of w in the subspace, w becomes

    .. math:: \\nu + \\sqrt{1 - |\\nu|^2} \\, (w_B - \\mu_B) / |w_B - \\mu_B|

    So every word at right angles to the subspace is equally similar to all words of a set.

    Args:
        sets: shape (n, m, dim): n sets of m words, m = 2 for pairs; only their directions count.
        basis: shape (dim, k), orthonormal, or (dim,).

    Returns:
        The same shape; length 1. Equalising pairs again changes nothing.

    Raises:
        UndefinedError: a vector is zero, or the words of a set are the same within the subspace.
        SettingError: the basis is not orthonormal, or for another number of dimensions; fewer than two words in a set.

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
        raise UndefinedError("the words of a set are the same within the subspace, so that nothing tells them apart")
    rest = np.sqrt(np.maximum(0.0, 1.0 - (nu**2).sum(axis=-1, keepdims=True)))
    return np.asarray(nu + rest * unit_vectors(apart) @ b.T)


def hard_debias(
    vectors: ArrayLike, basis: ArrayLike, neutral: ArrayLike, pairs: ArrayLike, lengths: str = "unit"
) -> NDArray[Any]:
    """Neutralise some rows of a matrix of embeddings, and equalise pairs of others.

    Args:
        vectors: shape (n, dim).
        basis: shape (dim, k), orthonormal, or (dim,).
        neutral: numbers of the rows to neutralise, shape (m,).
        pairs: numbers of the rows to equalise, shape (p, 2).
        lengths: ``unit`` makes every row 1 long, rows that are in neither list too (the paper; rows of zeros stay); ``kept`` gives
            neutralised rows their own length again and the words of a pair their mean length, for a network that was trained with
            long and short vectors.

    Returns:
        The same shape and number format. Every neutral row is equally similar to both words of every pair (dot product and
        cosine). Doing it again changes nothing but rounding.

    Raises:
        UndefinedError: as :func:`neutralise` and :func:`equalise`.
        SettingError: a row is in both lists, or in two pairs; ``lengths`` is neither.
    """
    x = np.asarray(vectors)
    rows = np.asarray(neutral, dtype=np.int64).reshape(-1)
    two = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    if lengths not in LENGTHS:
        raise SettingError(f"lengths should be {' or '.join(LENGTHS)}, got {lengths!r}")
    if len(np.unique(two)) < two.size or np.isin(rows, two).any():
        raise SettingError("a row can be neutral or stand in one pair, not both and not in two")
    w = x.astype(np.float64)
    length = np.linalg.norm(w, axis=1, keepdims=True)
    out = w / np.where(length == 0, 1.0, length) if lengths == "unit" else w.copy()
    kept = length if lengths == "kept" else np.ones_like(length)
    if len(rows):
        out[rows] = neutralise(w[rows], basis) * kept[rows]
    if len(two):
        out[two] = equalise(w[two], basis) * kept[two].mean(axis=1, keepdims=True)
    return np.asarray(out.astype(x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64))


def hard_debias_embeddings(
    model: Model,
    basis: ArrayLike,
    pairs: Sequence[Pair],
    gendered: Collection[str] = (),
    neutral: Collection[str] | None = None,
    lengths: str | None = None,
) -> Model:
    """Return a model whose word vectors, or input embeddings, are hard-debiased.

    Of a network a word is the token of one piece that it has behind a space, and the one that it has at the start of a text; a word of
    several pieces has no vector of its own and is left out, and so is a pair of which a word is (**choice**). Output weights that
    were tied stay as they were; :func:`~pytest_genderbias.models.saving.save_model` makes an ordinary checkpoint of the result.

    Args:
        model: word vectors, or a network.
        basis: the gender subspace of its input embeddings, as ``learn_basis(model, pairs=...)``.
        pairs: the words that are equalised, each in one pair; those that are not in the vocabulary are left out.
        gendered: further words that are gendered by meaning and stay as they are, beside those of ``pairs``.
        neutral: the words that are neutralised; ``None`` for all but special tokens and the words of ``pairs`` and ``gendered``
            (Bolukbasi et al. 2016).
        lengths: as in :func:`hard_debias`; ``None`` for ``unit`` with word vectors and ``kept`` with a network (**choice**: the layers above
            read lengths).

    Returns:
        The model; ``details["mitigation"]`` has how many rows were neutralised and equalised.

    Raises:
        UndefinedError: as :func:`hard_debias`; no pair is in the vocabulary.
        SettingError: a word stands in two pairs, or the basis does not fit.
        NotApplicableError: the model is neither.
    """
    is_network = isinstance(model.backend, Checkpoint)
    if not is_network and not hasattr(model.backend, "matrix"):
        raise NotApplicableError(f"{model.name} is neither a file of word vectors nor a network")
    forms = _token_rows if is_network else _word_rows
    equal = list(dict.fromkeys(
        rows
        for first, second in pairs
        for rows in zip(forms(model, first), forms(model, second), strict=True)
        if None not in rows
    ))  # fmt: skip
    if not equal:
        raise UndefinedError(f"of {len(pairs)} pairs none has both words in the vocabulary of {model.name}")
    left = {row for pair in pairs for word in pair for row in forms(model, word)}
    left |= {row for word in gendered for row in forms(model, word)}
    matrix = input_embeddings(model.backend.network) if is_network else model.backend.matrix
    if neutral is None:
        chosen = set(range(len(matrix))) - (set(model.backend.tokenizer.all_special_ids) if is_network else set())
    else:
        chosen = {row for word in neutral for row in forms(model, word) if row is not None}
    rows = np.array(sorted(chosen - left), dtype=np.int64)
    rows = rows[np.linalg.norm(matrix[rows], axis=1) > 0]  # padding of the vocabulary
    lengths = lengths or ("kept" if is_network else "unit")
    changed = hard_debias(matrix, basis, rows, np.array(equal), lengths)
    what = described({"method": "WED", "neutralised": len(rows), "equalised pairs": len(equal), "lengths": lengths})
    if not is_network:
        return with_matrix(model, changed, what)
    network = copied(model.backend.network)
    replace_input_embeddings(network, changed)
    return with_network(model, network, what)


def _word_rows(model: Model, word: str) -> tuple[int | None, ...]:
    return (model.backend.row(word),)


def _token_rows(model: Model, word: str) -> tuple[int | None, ...]:
    """Return the token of a word behind a space, and at the start of a text; ``None`` for one that has several pieces."""
    tokenizer = model.backend.tokenizer
    found = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in (f" {word}", word)]
    unknown = tokenizer.unk_token_id
    return tuple(ids[0] if len(ids) == 1 and ids[0] != unknown else None for ids in found)


@dataclass(frozen=True)
class HardDebiasing(Method):
    """Word embedding debiasing: neutralise and equalise (Bolukbasi et al. 2016), ``before`` training, ``after`` it, or ``both``.

    ``pairs`` gives the gender subspace, of ``components`` dimensions, and the words that are equalised. lu2018's language model: after.
    """

    name: ClassVar[str] = "wed"
    pairs: str = "lu2018-pairs"
    components: int = 1
    when: str = AFTER_TRAINING
    lengths: str | None = None

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.when not in (BEFORE_TRAINING, AFTER_TRAINING, BOTH):
            raise SettingError(f"when should be before, after or both, got {self.when!r}")
        if self.lengths not in (None, *LENGTHS):
            raise SettingError(f"lengths should be {' or '.join(LENGTHS)}, got {self.lengths!r}")
        check_count("components", self.components)
        read_pairs(self.pairs)

    def changes(self, what: str) -> bool:
        """Tell whether it is done before training, after it, or both."""
        return {"before": self.when != AFTER_TRAINING, "after": self.when != BEFORE_TRAINING}.get(
            what, super().changes(what)
        )

    def before(self, model: Model, seed: int) -> Model:
        """Debias the model that is trained."""
        return self._debiased(model) if self.when != AFTER_TRAINING else model

    def after(self, model: Model, seed: int) -> Model:
        """Debias the finished model."""
        return self._debiased(model) if self.when != BEFORE_TRAINING else model

    def _debiased(self, model: Model) -> Model:
        pairs = [pair for pair in distinct_pairs(self.pairs) if has_vectors(model, *pair)]
        basis = learn_basis(model, pairs=pairs, components=self.components)
        return hard_debias_embeddings(model, basis, pairs, lengths=self.lengths)
