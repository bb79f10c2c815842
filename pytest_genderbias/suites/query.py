"""Queries: what a suite can ask of a model. The scoring engine answers them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

#: Kinds of checkpoints that have hidden states.
NETWORKS = ("encoder", "masked-lm", "causal-lm", "nli-classifier", "text-classifier", "pair-regressor")
#: The same, with the checkpoints of coreference recipes: their kind also has objects, which have no hidden states.
WITH_HIDDEN_STATES = (*NETWORKS, "coreference-scorer")


@dataclass(frozen=True)
class Query:
    """Any query."""

    dtype = "float64"  #: number format of the answers

    @property
    def width(self) -> int | None:
        """Numbers per case in an answer; ``None``: the size of the model's vectors, or the number of its labels."""
        return 1


@dataclass(frozen=True)
class TopFills(Query):
    """The ``k`` best vocabulary items at the mask, best first, ties broken by token id."""

    k: int
    dtype = "int32"

    @property
    def width(self) -> int:
        """Number of columns in the scores."""
        return self.k


class PairProbabilities(Query):
    """The probabilities of entailment, neutral and contradiction of a pair, in this order."""

    dtype = "float32"
    width = 3


@dataclass(frozen=True)
class VerbalisedProbabilities(Query):
    """The probabilities of entailment, neutral and contradiction of a pair, as a causal LM answers in words.

    ``template`` is a question with {premise} and {hypothesis}; ``answers`` are the words for the three labels, in this
    order. The probabilities are those of the answers after the question (the chain rule, a space between them), divided
    by their sum.
    """

    template: str
    answers: tuple[str, str, str]
    dtype = "float32"
    width = 3

    def prompt(self, premise: str, hypothesis: str) -> str:
        """Return the question about a pair.

        >>> query = VerbalisedProbabilities("{premise} So {hypothesis}", ("yes", "maybe", "no"))
        >>> query.prompt("He sings.", "She sings?")
        'He sings. So She sings?'
        """
        words = {"premise": premise, "hypothesis": hypothesis}
        return re.sub(r"\{(premise|hypothesis)\}", lambda match: words[match[1]], self.template)


@dataclass(frozen=True)
class ChatAnswers(Query):
    """ln P of each answer as the beginning of what a chat model replies to a message, in nats.

    The message is put into the chat template of the model's tokenizer, and the tokens of an answer follow right after
    its end. No space is put between them, unless the template itself writes one before the model's words.
    ``otherwise``: what to do with a model without a chat template, for the message.
    """

    answers: tuple[str, ...]
    otherwise: str = field(default="", repr=False, compare=False)

    @property
    def width(self) -> int:
        """One number an answer."""
        return len(self.answers)


@dataclass(frozen=True)
class Replies(Query):
    """What a system answers in text to each message, ``samples`` times.

    The answer has, for each case, how many replies pick each of the ``labels``, how many decline and how many are
    unreadable (:mod:`~pytest_genderbias.text.reply_reading`); without labels, how many decline and how many characters
    all of them have. ``content`` of the answer has the texts.

    ``language``: of the replies. ``own_refusals``: what a reply that declines begins with, in small letters; those
    that are packaged in the language by default. ``name`` and ``digest``: of the question, by which files name its
    cases. ``reading``: raise it whenever a reply may be read otherwise, since counts are stored.
    """

    labels: tuple[str, ...]
    samples: int
    seed: int
    language: str = "en"
    name: str = ""
    digest: str = ""
    own_refusals: tuple[str, ...] = ()
    reading: int = 1
    dtype = "int32"
    window = 64  #: messages in a window; small, so that an interruption loses little

    @property
    def width(self) -> int:
        """One column a label, and two."""
        return len(self.labels) + 2

    def id_of(self, case: int) -> str:
        """Return the name of a case in files of questions and answers.

        >>> Replies(("A", "B"), 1, 0, name="bbq-questions", digest="12ab34cd").id_of(7)
        'bbq-questions-7-12ab34cd'
        """
        return f"{self.name}-{case}-{self.digest}"


class ReplyTexts(NamedTuple):
    """The replies to each case, in the order of the scored cases."""

    texts: tuple[tuple[str, ...], ...]


class AddedTokens(Query):
    """The number of tokens that the second text of a pair has more than the first, which it begins with.

    No network is asked, only the model's tokenizer.
    """

    dtype = "int32"


@dataclass(frozen=True)
class SlotLogProbability(Query):
    """The natural logarithm of the probability of the word in ``slot``.

    For a causal LM, by the chain rule after the words before it. For a masked LM, the sum over the word's tokens of the
    log-probability of each token, masked alone, with the rest of the text in place.
    """

    slot: str


@dataclass(frozen=True)
class TextVectors(Query):
    """A vector for each text, or for the first span of each where the cases have spans.

    ``where``: ``last`` hidden layer, ``input`` embeddings (before positions and LayerNorm), or the number of a hidden
    layer (0 = output of the embedding layer). ``pooling``: ``mean`` over the tokens of the text (or span), ``first``
    token, or ``own``: as the sentence encoder says, else the mean over all tokens, special ones too. Static vectors
    ignore both: a word that they lack gives a row of NaN. ``random_seed``: take the untrained network, initialised with
    this seed. ``mask_others``: mask the tokens in the spans after the first.
    """

    where: str | int = "last"
    pooling: str = "mean"
    random_seed: int | None = None
    mask_others: bool = False
    dtype = "float32"
    width = None


@dataclass(frozen=True)
class PairSimilarity(Query):
    """The similarity of two texts: a pair regressor's score, or the cosine of two sentence vectors (pooled as in
    ``TextVectors``).
    """

    pooling: str = "own"


class ClassProbabilities(Query):
    """The probability of each label of a text classifier, in the order of its labels."""

    dtype = "float32"
    width = None


@dataclass(frozen=True)
class CoreferenceScores(Query):
    """A score of the pronoun referring to each candidate: larger is likelier.

    The spans of a case are its candidates, then the pronoun. ``adapter``: ``substitution`` (an LM puts the candidate in
    the pronoun's place), ``edge-probe`` (a head on frozen span vectors, trained on ``training``), or ``own`` (the
    user's scorer).
    """

    candidates: int
    adapter: str
    training: Any = None
    seed: int = 0

    @property
    def roles(self) -> tuple[str, ...]:
        """Kinds of model that the adapter takes."""
        by_adapter = {"substitution": ("masked-lm", "causal-lm"), "own": ("coreference-scorer",)}
        return by_adapter.get(self.adapter, NETWORKS)

    @property
    def width(self) -> int:
        """One score a candidate."""
        return self.candidates


class PseudoLogLikelihood(Query):
    """ln P of the tokens in the spans (of the whole text where a case has none), and their number.

    For a masked LM, the sum over tokens of the log-probability of each token, masked alone. For a causal LM, the chain
    rule over the tokens after the first.
    """

    width = 2


class SharedLogLikelihood(Query):
    """As :class:`PseudoLogLikelihood`, of the tokens that the two texts of a unit share: the longest matching blocks of
    their ids.

    Special tokens are matched, but not scored.
    """

    width = 2


@dataclass(frozen=True)
class GeneratedTokens(Query):
    """``length`` tokens sampled after each text, at temperature 1 from the full distribution, with the text's number in
    the seed.

    An empty text stands for the token that begins a text. Sampling continues after an end of text. ``content`` of the
    answer has the texts of each sample, split at each end of text.
    """

    length: int
    seed: int
    dtype = "int32"
    window = 64  #: texts in a batch; small, so that an interruption loses little

    @property
    def width(self) -> int:
        """One column a token."""
        return self.length


@dataclass(frozen=True)
class GeneratedReplies(Query):
    """Texts that a model writes after given ones: up to ``length`` tokens, sampled at ``temperature``, until it ends
    the text by itself.

    A chat model is asked in its chat template, with ``message``, in which {prompt} stands for the text; the others
    continue the text. A unit has ``samples`` cases of its first text and as many of its second one, and both sides draw
    the same random numbers, which depend on the seed and the unit. ``content`` of the answer has a :class:`Reply` for
    each case.
    """

    length: int
    samples: int
    seed: int
    temperature: float
    message: str
    dtype = "int32"
    window = 192  #: texts in a batch; small, so that an interruption loses little

    @property
    def width(self) -> int:
        """One column a token."""
        return self.length

    def stream(self, case: int) -> int:
        """Return the number of the random numbers of a case, which the case with the same place on the other side
        shares.

        >>> [GeneratedReplies(9, 2, 0, 1.0, "{prompt}").stream(case) for case in range(8)]
        [0, 1, 0, 1, 2, 3, 2, 3]
        """
        unit, place = divmod(case, 2 * self.samples)
        return unit * self.samples + place % self.samples


@dataclass(frozen=True)
class ChatReplies(GeneratedReplies):
    """As :class:`GeneratedReplies`, of texts that are no pairs: each case has random numbers of its own, and its reply
    has all tokens, also the marks around reasoning.

    ``thinking``: whether the model may think aloud, where its template has a switch for it.
    """

    thinking: bool = False

    def stream(self, case: int) -> int:
        """Return the number of the random numbers of a case: its own."""
        return case


class Reply(NamedTuple):
    """A generated text, and whether the model ended it by itself."""

    text: str
    ended: bool


#: Queries that are put into the chat template of a chat model.
IN_TEMPLATE = (ChatAnswers, GeneratedReplies)


class BlockLogLikelihood(Query):
    """ln P of all tokens of each text, and their number: in blocks of the model's length, each after the token that
    begins a text.
    """

    width = 2
    window = 8  #: texts in a batch; few, as their length varies


class StoredPredictions(Query):
    """The table of a file of predictions, which takes the place of a model."""


class StoredText(Query):
    """The path of a text under test."""


@dataclass(frozen=True)
class BesideText(Query):
    """The paths of a text beside the model, such as its training text, and the ``sha256`` of their content."""

    paths: tuple[str, ...]
    sha256: str


Ways = TypeVar("Ways")


def ways_for(query: Query, table: Mapping[type | str, tuple[Ways, ...]]) -> tuple[Ways, ...]:
    """Return the entry of a table for a query: by its type or one that it is derived from, of coreference scores by
    their adapter; empty where there is none.
    """
    if isinstance(query, CoreferenceScores):
        return table.get(query.adapter, ())
    return next((table[kind] for kind in type(query).__mro__ if kind in table), ())
