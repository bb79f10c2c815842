"""Dispatch: the scorer for each type of query and kind of model, and the texts of vocabulary items."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.base import Progress, Scorer
from pytest_genderbias.suites.cases import Cases
from pytest_genderbias.suites.query import (
    BlockLogLikelihood,
    ChatAnswers,
    CoreferenceScores,
    GeneratedTokens,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    SharedLogLikelihood,
    TextVectors,
    VerbalisedProbabilities,
)


def make_scorer(
    cases: Cases,
    query: Query,
    model: Model,
    batch_tokens: int | None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Scorer:
    """Return the scorer that answers a query with a model. Its module is imported here: a run needs one or two of them.

    Args:
        cases: what is scored.
        query: what is asked of the model; its type selects the scorer.
        model: the model under test.
        batch_tokens: tokens in a batch; ``None``: found automatically.
        cache: folder for heads that a scorer trains, or ``None``.
        progress: shows how far the training of a head is, or ``None``.

    Raises:
        NotApplicableError: the model cannot answer the query.
    """
    match query:
        case TextVectors():
            from pytest_genderbias.scoring import vectors

            return vectors.make(cases, query, model, batch_tokens)
        case PairSimilarity():
            from pytest_genderbias.scoring import similarity

            return similarity.make(cases, query, model, batch_tokens)
        case CoreferenceScores():
            from pytest_genderbias.scoring import coreference

            return coreference.make(cases, query, model, batch_tokens, cache, progress)
        case PseudoLogLikelihood() | SharedLogLikelihood():
            from pytest_genderbias.scoring import pseudo_likelihood

            return pseudo_likelihood.make(cases, query, model, batch_tokens)
        case VerbalisedProbabilities():
            from pytest_genderbias.scoring import verbalised

            return verbalised.make(cases, query, model, batch_tokens)
        case ChatAnswers():
            from pytest_genderbias.scoring import chat

            return chat.make(cases, query, model, batch_tokens)
        case BlockLogLikelihood():
            from pytest_genderbias.scoring import block_likelihood

            return block_likelihood.make(cases, query, model, batch_tokens)
        case GeneratedTokens():
            from pytest_genderbias.scoring import generation

            return generation.make(cases, query, model, batch_tokens)
        case _ if isinstance(model.backend, Checkpoint):
            from pytest_genderbias.scoring.checkpoint_scorer import CheckpointScorer

            return CheckpointScorer(cases, query, model, batch_tokens)
        case _:
            from pytest_genderbias.scoring.object_scorer import ObjectScorer

            return ObjectScorer(cases, query, model)


def vocabulary_texts(model: Model, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of vocabulary items by their ids."""
    if not isinstance(model.backend, Checkpoint):
        return {i: str(model.backend.vocabulary[i]) for i in ids}
    tokenizer = model.backend.word_tokenizer
    return {i: str(tokenizer.decode([i])).strip() or str(tokenizer.convert_ids_to_tokens(i)) for i in ids}
