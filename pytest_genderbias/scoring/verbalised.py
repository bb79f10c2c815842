"""NLI probabilities of a causal LM, which is asked about premise and hypothesis in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.model import Model, Tokenized
from pytest_genderbias.models.protocols import CausalLM
from pytest_genderbias.scoring.object_scorer import continuation_method
from pytest_genderbias.scoring.pseudo_likelihood import SpanLikelihood
from pytest_genderbias.scoring.scorer import Scorer, check_finite
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import VerbalisedProbabilities


def make(cases: Cases, query: VerbalisedProbabilities, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer of a causal LM.

    Raises:
        NotApplicableError: the model is an object without log-probabilities of continuations.
    """
    if not isinstance(model.backend, (Tokenized, CausalLM)):
        raise NotApplicableError(
            f"{model.name} has no continuation_log_probs(prefixes, continuations), which this suite needs"
        )
    return VerbalisedScorer(cases, query, model, batch_tokens)


class VerbalisedScorer:
    """Compares the log-probabilities of the three answers to a question about each pair.

    Answers of one token need one forward pass for each pair, since the rows of all three are equal before the answer.
    """

    def __init__(self, cases: Cases, query: VerbalisedProbabilities, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._query, self._model = cases, query, model
        has_tokens = isinstance(model.backend, Tokenized)
        self._likelihood = SpanLikelihood(model, batch_tokens) if has_tokens else None
        self._ask = continuation_method(model) if self._likelihood is None else None

    @property
    def notes(self) -> list[str]:
        """Remarks on batches that were halved and slower computations."""
        return self._likelihood.notes if self._likelihood else []

    def score(self, cases: IntArray) -> NDArray[np.float32]:
        """Return the probabilities of entailment, neutral and contradiction: shape (len(cases), 3)."""
        prompts = [self._query.prompt(*pair) for pair in self._cases.sentences(cases) for _ in self._query.answers]
        answers = [answer for _ in cases for answer in self._query.answers]
        scores = self._log_probabilities(prompts, answers).reshape(len(cases), -1)
        check_finite(np.asarray(np.isfinite(scores).all(axis=1)), self._cases, cases, self._model.name)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)

    def _log_probabilities(self, prompts: list[str], answers: list[str]) -> NDArray[np.float64]:
        if self._ask is not None:
            return self._ask(prompts, answers)
        assert self._likelihood is not None, "a model is an object or a network"
        texts = [f"{prompt} {answer}" for prompt, answer in zip(prompts, answers, strict=True)]
        spans = [((len(prompt), len(text)),) for prompt, text in zip(prompts, texts, strict=True)]
        scores = self._likelihood.score(texts, spans)
        if self._likelihood.cut:
            raise ModelError(
                f"a question and its answer are longer than the {self._model.backend.max_length} tokens that"
                f" {self._model.name} reads; shorten the template of the verbaliser"
            )
        return np.asarray(scores[:, 0])
