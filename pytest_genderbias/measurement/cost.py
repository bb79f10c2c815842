"""The cost of a suite: seconds of scoring, estimated from the size of the network and the machine before anything is
loaded.

Operations are counted from the cases, their tokens and the shape of the network, and divided by a rate that was
measured. Cached scores, early stopping and ``--bias-limit`` make a run cheaper; loading and statistics come on top. A
calculated time is right within a factor of two or so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from pytest_genderbias.suites.cases import Cases, Spans, TextCases
from pytest_genderbias.suites.query import (
    ChatAnswers,
    ClassProbabilities,
    CoreferenceScores,
    PairProbabilities,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    SharedLogLikelihood,
    SlotLogProbability,
    TextVectors,
    TopFills,
)

_TOKENS_PER_WORD = 1.2  #: of WordPiece in the packaged suites, with punctuation
_TOKENS_PER_PLAIN_WORD = 1.1  #: without punctuation: names and occupations
_SPECIAL = 2  #: tokens around a text
_CHAT_TEMPLATE = 20  #: tokens around a message, with a short system prompt
_SAMPLE = 200  #: cases whose words are counted
_VOCABULARY = 30_522
#: Queries that take one forward pass of each case, or of each of its texts.
ONE_PASS = (ClassProbabilities, PairProbabilities, PairSimilarity, SlotLogProbability, TopFills)
#: Queries that do not read the vocabulary head; others read it once a row.
_WITHOUT_VOCABULARY = (ClassProbabilities, PairProbabilities, PairSimilarity, TextVectors)


@dataclass(frozen=True)
class NetworkSize:
    """The shape of an encoder: ``layers`` of ``width`` numbers."""

    name: str
    layers: int
    width: int


@dataclass(frozen=True)
class Machine:
    """A machine, with the operations per second of scoring on it by the name of the network's size.

    ``measured``: names of the sizes whose rate was measured; the others are calculated from those
    (docs/evidence/speed.md).
    """

    name: str
    rates: Mapping[str, float]
    measured: frozenset[str]


#: Encoders as large as BERT-tiny, MiniLM, BERT base and BERT large.
SIZES = (
    NetworkSize("tiny, 2 x 128", 2, 128),
    NetworkSize("small, 6 x 384", 6, 384),
    NetworkSize("base, 12 x 768", 12, 768),
    NetworkSize("large, 24 x 1024", 24, 1024),
)


_TINY, _SMALL, _BASE, _LARGE = (size.name for size in SIZES)
#: Operations per second of one core by size, in float32: of the time of the processor, on an AMD EPYC of the Zen 4
#: generation that was busy with other things.
_CORE = {_TINY: 5.5e10, _SMALL: 6.9e10, _BASE: 4.9e10, _LARGE: 5.1e10}
#: Operations per second of an NVIDIA H100 with BERT base in float32, measured with the whole of nli-occupation.
_GPU = 3.6e13
MACHINES = (
    Machine("two cores", {name: 2 * rate for name, rate in _CORE.items()}, frozenset(_CORE)),
    Machine("16 cores", {name: 16 * rate for name, rate in _CORE.items()}, frozenset()),
    Machine("one H100", dict.fromkeys(_CORE, _GPU), frozenset([_BASE])),
)


@dataclass(frozen=True)
class Work:
    """The forward passes of a suite's main question.

    ``rows`` of ``tokens`` each on average; at ``reads`` positions of a row the vocabulary head is computed.
    """

    rows: int
    tokens: float
    reads: int

    def operations(self, size: NetworkSize) -> float:
        """Return the floating-point operations: two a weight and token, those of the attention, and those of the head.

        >>> one = NetworkSize("one", 1, 10)
        >>> Work(3, 4.0, 0).operations(one)  # 3 rows: 2 x 4 x 12 x 10 x 10 in the layer, 4 x 4 x 4 x 10 in attention
        30720.0
        """
        layer = 24 * self.tokens * size.width**2 + 4 * self.tokens**2 * size.width
        head = 2 * self.reads * size.width * (size.width + _VOCABULARY)
        return self.rows * (size.layers * layer + head)

    def seconds(self, size: NetworkSize, machine: Machine) -> float:
        """Return the calculated seconds of scoring."""
        return self.operations(size) / machine.rates[size.name]


def work_of(cases: Cases, query: Query) -> Work | None:
    """Return the forward passes of a question, or ``None`` where there are none, or their number is not known before:
    generated text, the passes of a user's own scorer, and vectors of the embedding table.

    Tokens are estimated from the words of some cases, evenly spaced. A masked LM takes a pass for each token of a
    sentence that is scored whole, for each token that two sentences share, and for each token of a candidate that is
    put in the place of a pronoun. A word of several tokens counts as one where a suite asks for single words. The
    training of heads comes on top.

    Args:
        cases: the cases of the question.
        query: what is asked of each.

    >>> texts = TextCases((("He is a nurse.",), ("She is a nurse.",)), cases_per_unit=2)
    >>> work = work_of(texts, PseudoLogLikelihood())  # 4 words are 4.8 tokens, masked in turn in both sentences
    >>> work.rows, round(work.tokens, 1), work.reads
    (10, 6.8, 1)
    >>> work_of(texts, SharedLogLikelihood()).rows  # 3 words are shared, 3.6 tokens
    7
    """
    if not cases.n_cases:
        return None
    spaced = np.unique(np.linspace(0, cases.n_cases - 1, num=_SAMPLE).round().astype(np.int64))
    passes = [_passes(cases, query, int(number)) for number in spaced]
    known = [one for one in passes if one is not None]
    if len(known) < len(passes):
        return None
    count = sum(number for number, _ in known)
    tokens = sum(number * length for number, length in known) / count if count else 0.0
    without_head = isinstance(query, _WITHOUT_VOCABULARY) or (
        isinstance(query, CoreferenceScores) and query.adapter == "edge-probe"
    )
    return Work(round(cases.n_cases * count / len(known)), tokens, int(not without_head))


def _passes(cases: Cases, query: Query, number: int) -> tuple[float, float] | None:
    """Return how many forward passes a case takes, on average, and their tokens; ``None`` if they are not known."""
    sentence = cases.sentences(np.asarray([number]))[0]
    spans: Spans = cases.spans[number] if isinstance(cases, TextCases) and cases.spans else ()
    tokens = _tokens(sentence)
    match query:
        case PairSimilarity():  # a sentence encoder reads the texts one by one
            return len(sentence), tokens / len(sentence) + _SPECIAL
        case _ if isinstance(query, ONE_PASS):
            return 1, tokens + 1 + len(sentence)
        case TextVectors(where=where) if where != "input":
            return 1, tokens + _SPECIAL
        case ChatAnswers():  # answers of one token are read after the same row
            return 1, tokens + _CHAT_TEMPLATE
        case PseudoLogLikelihood():
            return _tokens_in(sentence[0], spans) if spans else tokens, tokens + _SPECIAL
        case SharedLogLikelihood():
            other = cases.sentences(np.asarray([number ^ 1]))[0]
            return _TOKENS_PER_WORD * _shared_words(sentence[0], other[0]), tokens + _SPECIAL
        case CoreferenceScores(adapter="edge-probe"):
            return 1, tokens + _SPECIAL
        case CoreferenceScores(adapter="substitution"):  # two copies of the text for each candidate
            return _tokens_in(sentence[0], spans[:-1]), 2 * tokens + _SPECIAL
    return None


def _tokens(texts: Sequence[str]) -> float:
    return _TOKENS_PER_WORD * sum(len(text.split()) for text in texts)


def _tokens_in(text: str, spans: Spans) -> float:
    """Return the tokens in spans: their words, which have no punctuation."""
    return _TOKENS_PER_PLAIN_WORD * sum(len(text[start:stop].split()) for start, stop in spans)


def _shared_words(first: str, second: str) -> int:
    """Return the number of words that two texts share, in order.

    >>> _shared_words("He is a good nurse.", "She is a bad nurse.")
    3
    """
    blocks = SequenceMatcher(None, first.split(), second.split(), autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks)
