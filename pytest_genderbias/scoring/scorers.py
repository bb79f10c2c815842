"""Dispatch: the scorer for each type of query and kind of model, and the texts of vocabulary items."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import Role
from pytest_genderbias.models.served import ServedModel
from pytest_genderbias.scoring.base import Progress, Scorer
from pytest_genderbias.suites.cases import Cases
from pytest_genderbias.suites.query import (
    AddedTokens,
    BlockLogLikelihood,
    ChatAnswers,
    CoreferenceScores,
    GeneratedReplies,
    GeneratedTokens,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    SharedLogLikelihood,
    SlotLogProbability,
    TextVectors,
    VerbalisedProbabilities,
)

#: Questions that log-probabilities of the tokens of prompts answer.
_SERVED = (
    AddedTokens,
    SlotLogProbability,
    PseudoLogLikelihood,
    SharedLogLikelihood,
    VerbalisedProbabilities,
    ChatAnswers,
    CoreferenceScores,
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
    if isinstance(model.backend, ServedModel):
        refuse_unserved(query, model.name, model.role)
    if isinstance(query, CoreferenceScores):  # the one query for which something may be trained, kept and shown
        from pytest_genderbias.scoring import coreference

        return coreference.make(cases, query, model, batch_tokens, cache, progress)
    return _scorer_of_query(cases, query, model, batch_tokens)


def _scorer_of_query(cases: Cases, query: Query, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer of a query for which nothing is trained."""
    match query:
        case TextVectors():
            from pytest_genderbias.scoring import vectors

            return vectors.make(cases, query, model, batch_tokens)
        case PairSimilarity():
            from pytest_genderbias.scoring import similarity

            return similarity.make(cases, query, model, batch_tokens)
        case PseudoLogLikelihood() | SharedLogLikelihood():
            from pytest_genderbias.scoring import pseudo_likelihood

            return pseudo_likelihood.make(cases, query, model, batch_tokens)
        case VerbalisedProbabilities():
            from pytest_genderbias.scoring import verbalised

            return verbalised.make(cases, query, model, batch_tokens)
        case ChatAnswers():
            from pytest_genderbias.scoring import chat

            return chat.make(cases, query, model, batch_tokens)
        case AddedTokens():
            from pytest_genderbias.scoring import added_tokens

            return added_tokens.make(cases, model)
        case BlockLogLikelihood():
            from pytest_genderbias.scoring import block_likelihood

            return block_likelihood.make(cases, query, model, batch_tokens)
        case GeneratedTokens() | GeneratedReplies():
            from pytest_genderbias.scoring import generation

            return generation.make(cases, query, model, batch_tokens)
        case _:
            return _scorer_of_role(cases, query, model, batch_tokens)


def _scorer_of_role(cases: Cases, query: Query, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer of a query that each role answers in its own way."""
    if isinstance(query, SlotLogProbability) and isinstance(model.backend, (Checkpoint, ServedModel)):
        from pytest_genderbias.scoring.slot_likelihood import SlotLikelihood

        return SlotLikelihood(cases, query, model, batch_tokens)
    if isinstance(model.backend, Checkpoint):
        from pytest_genderbias.scoring.checkpoint_scorer import CheckpointScorer

        return CheckpointScorer(cases, query, model, batch_tokens)
    from pytest_genderbias.scoring.object_scorer import ObjectScorer

    return ObjectScorer(cases, query, model)


def refuse_unserved(query: Query, name: str, role: Role) -> None:
    """Refuse a question that log-probabilities of prompts do not answer.

    Args:
        query: what is asked of the model.
        name: name of a model behind a server or in vLLM.
        role: says which of both.

    Raises:
        NotApplicableError: the question needs hidden states, or text that is generated by the seeds of this package.
    """
    if isinstance(query, (GeneratedTokens, GeneratedReplies)):
        otherwise = (
            "" if isinstance(query, GeneratedReplies) else ", or let it write a text, and measure that: text:FILE"
        )
        raise NotApplicableError(
            f"{name} is {role.text}, whose texts are not drawn with the seed of the run; give the checkpoint instead: --bias-model={name}=DIR{otherwise}"
        )
    by_head = isinstance(query, CoreferenceScores) and query.adapter != "substitution"
    if by_head or not isinstance(query, _SERVED):
        raise NotApplicableError(
            f"{name} is {role.text}, which gives log-probabilities of texts alone; this suite needs the checkpoint: --bias-model={name}=DIR"
        )


def vocabulary_texts(model: Model, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of vocabulary items by their ids."""
    if not isinstance(model.backend, Checkpoint):
        return {i: str(model.backend.vocabulary[i]) for i in ids}
    tokenizer = model.backend.word_tokenizer
    return {i: str(tokenizer.decode([i])).strip() or str(tokenizer.convert_ids_to_tokens(i)) for i in ids}
