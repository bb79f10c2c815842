"""Scores of an object with the protocol of its role, from strings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import CausalLM, MaskedLM, PairClassifier, TextClassifier
from pytest_genderbias.scoring.object_answers import LOG_PROBABILITIES, PROBABILITIES, FloatArray, ObjectMethod
from pytest_genderbias.scoring.reads import top_ids
from pytest_genderbias.scoring.scorer import answer_width, check_finite
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import PairProbabilities, Query, SlotLogProbability, TopFills
from pytest_genderbias.suites.space import CaseSpace


class ObjectScorer:
    """Scores cases with the method that the protocol of the role has for the query.

    Raises:
        NotApplicableError: the object lacks the method.
    """

    def __init__(self, cases: Cases, query: Query, model: Model) -> None:
        self._cases, self._query, self._model = cases, query, model
        if isinstance(query, SlotLogProbability) and not isinstance(model.backend, CausalLM):
            raise NotApplicableError(
                f"{model.name} has no continuation_log_probs(prefixes, continuations), which this suite needs"
            )
        self._ask = _method_for(query, model)

    @property
    def notes(self) -> list[str]:
        """No remarks."""
        return []

    def score(self, cases: IntArray) -> NDArray[np.generic]:
        """Return the scores of the cases: shape (len(cases), width of the query)."""
        if isinstance(self._query, SlotLogProbability):
            return self._continuations(cases, self._query.slot)
        if isinstance(self._query, TopFills):
            return self._fills(cases, self._query.k)
        return self._probabilities(cases)

    def _continuations(self, cases: IntArray, slot: str) -> NDArray[np.float64]:
        """Return the log-probability of the word in the slot, given the words before it."""
        assert isinstance(self._cases, CaseSpace)
        columns = self._cases.columns(cases)
        choices = [{name: int(v[row]) for name, v in columns.items()} for row in range(len(cases))]
        prefixes = [self._cases.prefix(choice, slot) for choice in choices]
        words = [self._cases.word_of(choice, slot) for choice in choices]
        return self._finite(self._ask(prefixes, words), cases)[:, None]

    def _fills(self, cases: IntArray, k: int) -> NDArray[np.int32]:
        """Return the ids of the k best fills of the mask in each case."""
        model: MaskedLM = self._model.backend
        texts = [text for (text,) in self._cases.sentences(cases, model.mask_token)]
        size = len(model.vocabulary)
        if size < k:
            raise SettingError(f"top_k is {k}, the vocabulary of {self._model.name} has {size} items")
        best = np.zeros((len(texts), k), dtype=np.int32)
        ids = np.arange(size)[None]
        for start in range(0, len(texts), 64):
            part = slice(start, start + 64)
            scores = self._finite(self._ask(texts[part], width=size), cases[part])
            best[part] = top_ids(scores, np.repeat(ids, len(scores), axis=0), k)
        return best

    def _probabilities(self, cases: IntArray) -> NDArray[np.float32]:
        """Return the probabilities of a classifier's labels, for pairs in the order of the query."""
        columns = [list(column) for column in zip(*self._cases.sentences(cases), strict=True)]
        answer = self._finite(self._ask(*columns, width=answer_width(self._query, self._model)), cases)
        pair = isinstance(self._query, PairProbabilities)
        return (answer[:, list(self._model.role.label_order)] if pair else answer).astype(np.float32)

    def _finite(self, answer: FloatArray, cases: IntArray) -> FloatArray:
        finite = np.isfinite(answer.reshape(len(cases), -1)).all(axis=1)
        check_finite(np.asarray(finite), self._cases, cases, self._model.name)
        return answer


def _method_for(query: Query, model: Model) -> ObjectMethod:
    """Return the object's method that answers a query."""
    if isinstance(query, SlotLogProbability):
        return continuation_method(model)
    if isinstance(query, TopFills):
        filler: MaskedLM = model.backend
        return ObjectMethod(model.name, "fill_scores", filler.fill_scores)
    if isinstance(query, PairProbabilities):
        pair_classifier: PairClassifier = model.backend
        return ObjectMethod(model.name, "pair_probabilities", pair_classifier.pair_probabilities, PROBABILITIES)
    classifier: TextClassifier = model.backend
    return ObjectMethod(model.name, "class_probabilities", classifier.class_probabilities, PROBABILITIES)


def continuation_method(model: Model) -> ObjectMethod:
    """Return the method of a causal LM that is an object: log-probabilities of continuations, in nats, shape (n,)."""
    writer: CausalLM = model.backend
    return ObjectMethod(model.name, "continuation_log_probs", writer.continuation_log_probs, LOG_PROBABILITIES)
