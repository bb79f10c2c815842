"""Scores of a model object, from strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, ScoreError, SettingError
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.base import answer_width, check_finite
from pytest_genderbias.scoring.reads import top_ids
from pytest_genderbias.suites.cases import IntArray
from pytest_genderbias.suites.query import PairProbabilities, Query, SlotLogProbability, TopFills


class ObjectScorer:
    """Scores through strings, for an object with the protocol of its role."""

    def __init__(self, space: Any, query: Query, model: Model) -> None:
        self._space, self._query, self._model = space, query, model
        if isinstance(query, SlotLogProbability) and not hasattr(model.backend, "continuation_log_probs"):
            raise NotApplicableError(
                f"{model.name} has no continuation_log_probs(prefixes, continuations), which this suite asks for"
            )

    @property
    def notes(self) -> list[str]:
        """Say that the model came as an object."""
        return []

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return the scores of the cases."""
        model = self._model.backend
        if isinstance(self._query, SlotLogProbability):
            columns = self._space.columns(cases)
            choices = [{name: int(v[row]) for name, v in columns.items()} for row in range(len(cases))]
            slot = self._query.slot
            prefixes = [self._space.prefix(choice, slot) for choice in choices]
            answer = model.continuation_log_probs(prefixes, [self._space.word_of(choice, slot) for choice in choices])
            return self._checked(answer, (len(cases),), cases)[:, None]
        if isinstance(self._query, TopFills):
            texts = [text for (text,) in self._space.sentences(cases, model.mask_token)]
            return self._fills(texts, cases, self._query.k)
        columns = [list(column) for column in zip(*self._space.sentences(cases), strict=True)]
        pair = isinstance(self._query, PairProbabilities)
        found = model.pair_probabilities(*columns) if pair else model.class_probabilities(*columns)
        answer = self._checked(found, (len(cases), answer_width(self._query, self._model)), cases)
        if not np.allclose(answer.sum(axis=1), 1.0, atol=1e-3):
            raise ScoreError(f"the probabilities of {self._model.name} do not sum to one for {columns[0][0]!r}")
        return (answer[:, list(self._model.role.label_order)] if pair else answer).astype(np.float32)

    def _fills(self, texts: list[str], cases: IntArray, k: int) -> NDArray[Any]:
        size = len(self._model.backend.vocabulary)
        if size < k:
            raise SettingError(f"top_k is {k}, the vocabulary of {self._model.name} has {size} items")
        best = np.zeros((len(texts), k), dtype=np.int32)
        ids = np.arange(size)[None]
        for start in range(0, len(texts), 64):
            part = slice(start, start + 64)
            scores = self._checked(self._model.backend.fill_scores(texts[part]), (len(texts[part]), size), cases[part])
            best[part] = top_ids(scores, np.repeat(ids, len(scores), axis=0), k)
        return best

    def _checked(self, answer: Any, shape: tuple[int, ...], cases: IntArray) -> NDArray[Any]:
        array = np.asarray(answer, dtype=np.float64)
        if array.shape != shape:
            raise ScoreError(f"{self._model.name} answered with an array of the shape {array.shape}, expected {shape}")
        check_finite(
            np.asarray(np.isfinite(array.reshape(len(cases), -1)).all(axis=1)), self._space, cases, self._model.name
        )
        return array
