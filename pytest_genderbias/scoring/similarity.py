"""Similarity of two texts: the cosine of their sentence vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorer import check_finite
from pytest_genderbias.scoring.text_vectors import HiddenStates
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import PairSimilarity


class NetworkCosines:
    """Cosines of the sentence vectors of a network."""

    def __init__(self, cases: Cases, query: PairSimilarity, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._name, self._pooling = cases, model.name, query.pooling
        self._states = HiddenStates(model.backend, batch_tokens, packed=True)

    @property
    def notes(self) -> list[str]:
        """Remarks on texts that were cut and batches that were halved."""
        return self._states.notes

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return one cosine for each pair: shape (len(cases), 1)."""
        return cosines(self._vectors, self._cases, cases, self._name)

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        spans = [((0, len(text)),) for text in texts]
        return np.asarray(self._states.span_vectors(texts, spans, self._pooling)[:, 0])


def cosines(
    vectors_of: Callable[[list[str]], NDArray[np.floating]], cases: Cases, numbers: IntArray, name: str
) -> NDArray[np.float64]:
    """Return the cosine of the vectors of the two texts of each case, shape (len(numbers), 1).

    Args:
        vectors_of: returns the vectors of distinct texts.
        cases: pairs of texts.
        numbers: of the cases.
        name: of the model, for an error.

    Raises:
        ScoreError: a vector is not finite, or zero.
    """
    sentences = cases.sentences(numbers)
    texts = list(dict.fromkeys(text for pair in sentences for text in pair))
    vectors = dict(zip(texts, vectors_of(texts), strict=True))
    first, second = (np.stack([vectors[pair[side]] for pair in sentences]).astype(np.float64) for side in (0, 1))
    length = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    check_finite(np.isfinite(length) & (length > 0), cases, numbers, name)
    return np.asarray(((first * second).sum(axis=1) / length)[:, None])
