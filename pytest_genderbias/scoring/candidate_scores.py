"""Scores of the candidates for a pronoun: by a language model, a head on frozen vectors, or an object of the user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.protocols import CoreferenceScorer
from pytest_genderbias.models.roles import COREFERENCE_SCORER
from pytest_genderbias.scoring import edge_probe, span_coreference, substitution
from pytest_genderbias.scoring.object_answers import ObjectMethod
from pytest_genderbias.scoring.scorer import Progress, Scorer, check_finite
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.query import CoreferenceScores


def make(
    cases: Cases,
    query: CoreferenceScores,
    model: Model,
    batch_tokens: int | None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Scorer:
    """Return the scorer for the adapter of the query.

    Args:
        cases: texts with the spans of the candidates and of the pronoun.
        query: its adapter selects the scorer.
        model: the model under test.
        batch_tokens: tokens in a batch.
        cache: folder for a trained head, or ``None``.
        progress: shows how far its training is, or ``None``.

    Raises:
        NotApplicableError: the model has no scorer for the adapter.
    """
    if not isinstance(cases, TextCases) or any(len(spans) != query.candidates + 1 for spans in cases.spans):
        raise ValueError(f"a case needs the spans of {query.candidates} candidates and of the pronoun")
    if query.adapter == "substitution":
        return substitution.make(cases, model, batch_tokens)
    if query.adapter == "edge-probe":
        return edge_probe.make(cases, query, model, batch_tokens, cache, progress)
    if isinstance(model.backend, Checkpoint) and model.role.kind == COREFERENCE_SCORER:  # the checkpoint has a head
        if model.backend.network.config.model_type == "span-coreference":
            return span_coreference.SpanScores(cases, model, batch_tokens)
        return edge_probe.CarriedProbe(cases, model, batch_tokens)
    if not isinstance(model.backend, CoreferenceScorer):
        raise NotApplicableError(f"{model.name} has no coreference_scores(texts, candidates, pronouns)")
    return ObjectScores(cases, model)


class ObjectScores:
    """The scores of an object with the protocol ``CoreferenceScorer``."""

    notes: list[str]

    def __init__(self, cases: TextCases, model: Model) -> None:
        self._cases, self._model = cases, model
        scorer: CoreferenceScorer = model.backend
        self._ask = ObjectMethod(model.name, "coreference_scores", scorer.coreference_scores)
        self.notes = []

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return one score for each candidate: shape (len(cases), candidates)."""
        spans = [self._cases.spans[i] for i in cases]
        texts = [self._cases.texts[i][0] for i in cases]
        candidates, pronouns = [list(s[:-1]) for s in spans], [s[-1] for s in spans]
        scores = self._ask(texts, candidates, pronouns, width=len(candidates[0]))
        check_finite(np.asarray(np.isfinite(scores).all(axis=1)), self._cases, cases, self._model.name)
        return scores
