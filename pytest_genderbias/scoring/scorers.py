"""Which scorer answers which query, by what the model's backend can do, and the texts of vocabulary items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, cast

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import FIRST_TOKENS, HIDDEN_STATES, LOG_PROBS, REPLIES, WORD_VECTORS
from pytest_genderbias.models.roles import COREFERENCE_SCORER, PAIR_REGRESSOR, PROBABILITY, Role
from pytest_genderbias.scoring.scorer import Progress, Scorer
from pytest_genderbias.suites.cases import Cases, TextCases
from pytest_genderbias.suites.query import (
    AddedTokens,
    BlockLogLikelihood,
    ChatAnswers,
    ChatReplies,
    ClassProbabilities,
    CoreferenceScores,
    GeneratedReplies,
    GeneratedTokens,
    PairProbabilities,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    Replies,
    SharedLogLikelihood,
    SlotLogProbability,
    TextVectors,
    TopFills,
    VerbalisedProbabilities,
    ways_for,
)


class _Way(NamedTuple):
    """A scorer and what it needs.

    ``ability``: of the backend. ``scorer``: module, and the function or class that makes it. ``trait``: ``kind`` or
    ``scores`` of the model's role; empty if any role will do. ``keeps``: what else it is given: ``cache``, if it
    keeps something, and ``progress``, if it trains something.
    """

    ability: str
    scorer: str
    trait: str = ""
    keeps: tuple[str, ...] = ()


_OUTPUTS = (_Way(HIDDEN_STATES, "checkpoint_scorer.outputs_of_checkpoint"),)
_OF_OBJECTS = _Way("", "object_scorer.ObjectScorer")
#: The scorers of each kind of query, the preferred one first. The user's objects have their own, of any query.
_WAYS: Mapping[type | str, tuple[_Way, ...]] = {
    TopFills: _OUTPUTS,
    PairProbabilities: _OUTPUTS,
    ClassProbabilities: _OUTPUTS,
    SlotLogProbability: (_Way(LOG_PROBS, "pseudo_likelihood.slot_likelihood"),),
    PseudoLogLikelihood: (_Way(LOG_PROBS, "pseudo_likelihood.span_likelihood"),),
    SharedLogLikelihood: (_Way(LOG_PROBS, "pseudo_likelihood.shared_likelihood"),),
    VerbalisedProbabilities: (_Way(LOG_PROBS, "pseudo_likelihood.verbalised"),),
    ChatAnswers: (_Way(LOG_PROBS, "chat.ChatScorer"), _Way(FIRST_TOKENS, "chat.first_tokens", keeps=("cache",))),
    AddedTokens: (_Way(LOG_PROBS, "checkpoint_scorer.added_tokens"),),
    BlockLogLikelihood: (_Way(HIDDEN_STATES, "pseudo_likelihood.block_likelihood"),),
    ChatReplies: (_Way(HIDDEN_STATES, "sampled_texts.ChatSampler"),),
    GeneratedTokens: (_Way(HIDDEN_STATES, "sampled_texts.Sampler"),),
    Replies: (_Way(REPLIES, "chat.reply_counts", keeps=("cache",)),),
    GeneratedReplies: (_Way(HIDDEN_STATES, "sampled_texts.ReplySampler"),),
    TextVectors: (_Way(HIDDEN_STATES, "text_vectors.network_vectors"), _Way(WORD_VECTORS, "text_vectors.file_vectors")),
    PairSimilarity: (
        _Way(HIDDEN_STATES, "checkpoint_scorer.outputs_of_checkpoint", PAIR_REGRESSOR),
        _Way(HIDDEN_STATES, "text_vectors.network_cosines"),
    ),
    "substitution": (_Way(LOG_PROBS, "pseudo_likelihood.substitution"),),
    "edge-probe": (_Way(HIDDEN_STATES, "edge_probe.edge_probe", keeps=("cache", "progress")),),
    "own": (
        _Way(HIDDEN_STATES, "edge_probe.carried_probe", PROBABILITY),
        _Way(HIDDEN_STATES, "span_coreference.span_scores", COREFERENCE_SCORER),
    ),
}


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
        query: what is asked of the model; its kind selects the scorer.
        model: the model under test.
        batch_tokens: tokens in a batch; ``None``: found automatically.
        cache: folder for heads that a scorer trains and for replies, or ``None``.
        progress: shows how far the training of a head is, or ``None``.

    Raises:
        NotApplicableError: the model cannot answer the query.
    """
    refuse_unserved(query, model.name, model.role)
    if isinstance(query, CoreferenceScores) and not (
        isinstance(cases, TextCases) and all(len(spans) == query.candidates + 1 for spans in cases.spans)
    ):
        raise ValueError(f"a case needs the spans of {query.candidates} candidates and of the pronoun")
    traits = ("", model.role.kind, model.role.scores)
    fitting = (way for way in ways_for(query, _WAYS) if model.can(way.ability) and way.trait in traits)
    way = next(fitting, _OF_OBJECTS)
    module, _, name = way.scorer.partition(".")
    make = vars(import_module(f"pytest_genderbias.scoring.{module}"))[name]
    given = {"cache": cache, "progress": progress}
    return cast("Scorer", make(cases, query, model, batch_tokens, **{name: given[name] for name in way.keeps}))


def refuse_unserved(query: Query, name: str, role: Role) -> None:
    """Refuse a question that log-probabilities of prompts do not answer, if the model gives nothing else.

    Args:
        query: what is asked of the model.
        name: the model's name.
        role: of the model.

    Raises:
        NotApplicableError: the question needs hidden states, or text that is generated by the seeds of this package.
    """
    if not role.only_prompts or any(way.ability == LOG_PROBS for way in ways_for(query, _WAYS)):
        return
    if isinstance(query, (GeneratedTokens, GeneratedReplies)):
        otherwise = (
            "" if isinstance(query, GeneratedReplies) else ", or let it write a text, and measure that: text:FILE"
        )
        raise NotApplicableError(
            f"{name} is {role.text}, whose texts are not drawn with the seed of the run; give the checkpoint instead:"
            f" --bias-model={name}=DIR{otherwise}"
        )
    raise NotApplicableError(
        f"{name} is {role.text}, which gives log-probabilities of texts alone; this suite needs the checkpoint:"
        f" --bias-model={name}=DIR"
    )


def vocabulary_texts(model: Model, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of vocabulary items by their ids."""
    if not model.can(LOG_PROBS):
        return {i: str(model.backend.vocabulary[i]) for i in ids}
    tokenizer = model.backend.word_tokenizer
    return {i: str(tokenizer.decode([i])).strip() or str(tokenizer.convert_ids_to_tokens(i)) for i in ids}
