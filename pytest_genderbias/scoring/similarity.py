"""Similarity of two texts: the score of a pair regressor, or the cosine of two sentence vectors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.protocols import PairRegressor, SentenceEncoder
from pytest_genderbias.models.roles import PAIR_REGRESSOR
from pytest_genderbias.scoring.checkpoint_scorer import CheckpointScorer
from pytest_genderbias.scoring.object_answers import ObjectMethod
from pytest_genderbias.scoring.scorer import Scorer, check_finite
from pytest_genderbias.scoring.text_vectors import HiddenStates
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import PairSimilarity


def make(cases: Cases, query: PairSimilarity, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer for the kind of model.

    Raises:
        NotApplicableError: the model is an object without scores of pairs or sentence vectors.
    """
    if isinstance(model.backend, Checkpoint):
        if model.role.kind == PAIR_REGRESSOR:
            return CheckpointScorer(cases, query, model, batch_tokens)
        return NetworkCosines(cases, query, model, batch_tokens)
    if not isinstance(model.backend, (PairRegressor, SentenceEncoder)):
        raise NotApplicableError(
            f"{model.name} has neither pair_scores(firsts, seconds) nor encode(texts), which this suite needs"
        )
    return ObjectSimilarity(cases, model)


class NetworkCosines:
    """Cosines of the sentence vectors of a network."""

    def __init__(self, cases: Cases, query: PairSimilarity, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._model, self._pooling = cases, model, query.pooling
        self._states = HiddenStates(model.backend, batch_tokens, packed=True)

    @property
    def notes(self) -> list[str]:
        """Remarks on texts that were cut and batches that were halved."""
        return self._states.notes

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return one cosine for each pair: shape (len(cases), 1)."""
        sentences = self._cases.sentences(cases)
        texts = list(dict.fromkeys(text for pair in sentences for text in pair))
        vectors = self._states.span_vectors(texts, [((0, len(text)),) for text in texts], self._pooling)[:, 0]
        return _cosines(sentences, dict(zip(texts, vectors, strict=True)), self._cases, cases, self._model.name)


class ObjectSimilarity:
    """The scores of an object with the protocol ``PairRegressor`` or ``SentenceEncoder``; the first is preferred."""

    notes: list[str]

    def __init__(self, cases: Cases, model: Model) -> None:
        self._cases, self._model = cases, model
        backend: PairRegressor | SentenceEncoder = model.backend
        self._encodes = not isinstance(backend, PairRegressor)
        self._ask = (
            ObjectMethod(model.name, "pair_scores", backend.pair_scores)
            if isinstance(backend, PairRegressor)
            else ObjectMethod(model.name, "encode", backend.encode)
        )
        self.notes = []

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return one score for each pair: shape (len(cases), 1)."""
        sentences = self._cases.sentences(cases)
        if self._encodes:
            texts = list(dict.fromkeys(text for pair in sentences for text in pair))
            vectors = self._ask(texts, width="dimensions")
            return _cosines(sentences, dict(zip(texts, vectors, strict=True)), self._cases, cases, self._model.name)
        firsts, seconds = zip(*sentences, strict=True)
        scores = self._ask(list(firsts), list(seconds))
        check_finite(np.isfinite(scores), self._cases, cases, self._model.name)
        return scores[:, None]


def _cosines(
    sentences: list[tuple[str, ...]],
    vectors: Mapping[str, NDArray[np.floating]],
    cases: Cases,
    numbers: IntArray,
    name: str,
) -> NDArray[np.float64]:
    first, second = (np.stack([vectors[pair[side]] for pair in sentences]).astype(np.float64) for side in (0, 1))
    length = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    check_finite(np.isfinite(length) & (length > 0), cases, numbers, name)
    return np.asarray(((first * second).sum(axis=1) / length)[:, None])
