"""NLI probabilities of a causal LM, which is asked about premise and hypothesis in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.pseudo_likelihood import SpanLikelihood
from pytest_genderbias.scoring.scorer import check_finite
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import VerbalisedProbabilities


class VerbalisedScorer:
    """Compares the log-probabilities of the three answers to a question about each pair.

    Answers of one token need one forward pass for each pair, since the rows of all three are equal before the answer.
    """

    def __init__(self, cases: Cases, query: VerbalisedProbabilities, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._query, self._model = cases, query, model
        self._likelihood = SpanLikelihood(model, batch_tokens)

    @property
    def notes(self) -> list[str]:
        """Remarks on batches that were halved and slower computations."""
        return self._likelihood.notes

    def score(self, cases: IntArray) -> NDArray[np.float32]:
        """Return the probabilities of entailment, neutral and contradiction: shape (len(cases), 3)."""
        pairs = zip(*prompts_and_answers(self._query, self._cases.sentences(cases)), strict=True)
        texts = [(prompt, f"{prompt} {answer}") for prompt, answer in pairs]
        spans = [((len(prompt), len(text)),) for prompt, text in texts]
        scores = self._likelihood.score([text for _, text in texts], spans)[:, 0].reshape(len(cases), -1)
        if self._likelihood.cut:
            raise ModelError(
                f"a question and its answer are longer than the {self._model.backend.max_length} tokens that"
                f" {self._model.name} reads; shorten the template of the verbaliser"
            )
        check_finite(np.asarray(np.isfinite(scores).all(axis=1)), self._cases, cases, self._model.name)
        return shares(scores)


def prompts_and_answers(query: VerbalisedProbabilities, pairs: list[tuple[str, ...]]) -> tuple[list[str], list[str]]:
    """Return the question about each pair, as often as there are answers, and the answers."""
    prompts = [query.prompt(premise, hypothesis) for premise, hypothesis in pairs for _ in query.answers]
    return prompts, list(query.answers) * len(pairs)


def shares(scores: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the probabilities of the answers to each question, divided by their sum, from log-probabilities."""
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)
