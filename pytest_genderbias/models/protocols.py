"""Protocols of models that are not transformers checkpoints: one for each role, over strings and arrays.

``--bias-model=NAME=module:callable`` calls ``callable()`` and measures what it returns. An object may have a
``fingerprint``, a text that changes whenever its scores can; without one its scores are not cached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

#: Abilities of backends of this package. Those of the user's objects are the names of their methods.
LOG_PROBS = "token_log_probs"
HIDDEN_STATES = "hidden_states"
WORD_VECTORS = "word_vectors"
REPLIES = "replies"
FIRST_TOKENS = "first_tokens"


class Backend:
    """A backend of this package, which names what it can do."""

    abilities: ClassVar[frozenset[str]]


@runtime_checkable
class MaskedLM(Protocol):
    """Scores words at one mask in a sentence."""

    mask_token: str
    vocabulary: Sequence[str]

    def fill_scores(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Score every vocabulary item at the one mask of each text: shape (len(texts), len(vocabulary)), larger =
        likelier.
        """


@runtime_checkable
class CausalLM(Protocol):
    """Gives the probability of a continuation."""

    def continuation_log_probs(self, prefixes: Sequence[str], continuations: Sequence[str]) -> NDArray[np.generic]:
        """Return ln P(continuation | prefix), with a space between them, for each pair: shape (len(prefixes),)."""


@runtime_checkable
class ChatModel(Protocol):
    """Gives the probability of the beginning of an answer to a message."""

    def answer_log_probs(self, messages: Sequence[str], answers: Sequence[str]) -> NDArray[np.generic]:
        """Return ln P(the reply to the message begins with the answer) for each pair, in nats: shape (len(messages),).

        The object puts the message into whatever it wraps messages with.
        """


@runtime_checkable
class Replier(Protocol):
    """Answers a question in text. An attribute ``at_once`` may say how many calls it takes at the same time."""

    def reply(
        self, messages: Sequence[Mapping[str, str]], n: int, seed: int
    ) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return ``n`` replies to a question, each sampled anew.

        ``messages``: the question, as ``[{"role": "user", "content": TEXT}]``. ``seed``: another number for each
        question; the same for the same question of the same run. It may be a coroutine.
        """


@runtime_checkable
class PairClassifier(Protocol):
    """Classifies a premise and a hypothesis."""

    labels: Sequence[str]

    def pair_probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> NDArray[np.generic]:
        """Return the probability of each label, in the order of ``labels``: shape (len(premises), len(labels))."""


@runtime_checkable
class TextClassifier(Protocol):
    """Classifies one text."""

    labels: Sequence[str]

    def class_probabilities(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Return the probability of each label, in the order of ``labels``: shape (len(texts), len(labels))."""


@runtime_checkable
class PairRegressor(Protocol):
    """Scores the similarity of two sentences."""

    def pair_scores(self, firsts: Sequence[str], seconds: Sequence[str]) -> NDArray[np.generic]:
        """Return one score a pair, larger = more similar, from 0 to 1 or wider: shape (len(firsts),)."""


@runtime_checkable
class SentenceEncoder(Protocol):
    """Maps sentences to vectors."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Return one vector a sentence: shape (len(texts), dimensions)."""


@runtime_checkable
class CoreferenceScorer(Protocol):
    """Scores how likely a pronoun refers to each of several candidates."""

    def coreference_scores(
        self, texts: Sequence[str], candidates: Sequence[Sequence[tuple[int, int]]], pronouns: Sequence[tuple[int, int]]
    ) -> NDArray[np.generic]:
        """Return one score a candidate, larger = likelier: shape (len(texts), candidates of a text).

        Spans are character ranges [start, end) in their text. All texts of a call have the same number of candidates.
        """


#: The protocol of each method of the user's objects.
METHODS: Mapping[str, type] = {
    "fill_scores": MaskedLM,
    "continuation_log_probs": CausalLM,
    "answer_log_probs": ChatModel,
    "reply": Replier,
    "pair_probabilities": PairClassifier,
    "class_probabilities": TextClassifier,
    "pair_scores": PairRegressor,
    "encode": SentenceEncoder,
    "coreference_scores": CoreferenceScorer,
}
