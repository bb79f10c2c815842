"""What a suite costs: seconds of scoring by the size of the network and by machine, calculated before anything is loaded.

Operations are counted from the cases, their tokens and the shape of the network, and divided by a rate that was measured. Cached scores,
early stopping and ``--bias-limit`` make a run cheaper; loading and statistics come on top. A calculated time is right within a factor of two
or so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pytest_genderbias.suites.cases import Cases
from pytest_genderbias.suites.query import (
    ClassProbabilities,
    PairProbabilities,
    PairSimilarity,
    Query,
    SlotLogProbability,
    TopFills,
)

_TOKENS_PER_WORD = 1.2  #: of WordPiece in the packaged suites, with punctuation
_SAMPLE = 200  #: cases whose words are counted
_VOCABULARY = 30_522
_ONE_PASS = (ClassProbabilities, PairProbabilities, PairSimilarity, SlotLogProbability, TopFills)
_AT_VOCABULARY = (SlotLogProbability, TopFills)  #: queries that read the vocabulary head, at one position of each case


@dataclass(frozen=True)
class NetworkSize:
    """The shape of an encoder: ``layers`` of ``width`` numbers."""

    name: str
    layers: int
    width: int


@dataclass(frozen=True)
class Machine:
    """A machine, with the operations per second of scoring on it by the name of the network's size.

    ``measured``: names of the sizes whose rate was measured; the others are calculated from those (docs/evidence/speed.md).
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
#: Operations per second of one core by size, in float32: of the time of the processor, on an AMD EPYC of the Zen 4 generation that was busy
#: with other things.
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
        >>> Work(3, 4.0, 0).operations(one)  # 3 rows: 2 x 4 x 12 x 10 x 10 in the layer, 4 x 4 x 4 x 10 in the attention
        30720.0
        """
        layer = 24 * self.tokens * size.width**2 + 4 * self.tokens**2 * size.width
        head = 2 * self.reads * size.width * (size.width + _VOCABULARY)
        return self.rows * (size.layers * layer + head)

    def seconds(self, size: NetworkSize, machine: Machine) -> float:
        """Return the calculated seconds of scoring."""
        return self.operations(size) / machine.rates[size.name]


def work_of(cases: Cases, query: Query) -> Work | None:
    """Return the forward passes of a question, or ``None`` where their number is not that of the cases (trainings, generated text).

    Tokens are estimated from the words of some cases, evenly spaced. Words of several tokens, which take a pass for each in a masked
    LM's log-probability, count as one.

    Args:
        cases: the cases of the question.
        query: what is asked of each.
    """
    if not isinstance(query, _ONE_PASS) or not cases.n_cases:
        return None
    spaced = np.unique(np.linspace(0, cases.n_cases - 1, num=_SAMPLE).round().astype(np.int64))
    sentences = cases.sentences(spaced)
    segments = len(sentences[0])
    apart = isinstance(query, PairSimilarity)  # a sentence encoder reads the texts one by one
    words = float(np.mean([sum(len(text.split()) for text in sentence) for sentence in sentences]))
    tokens = _TOKENS_PER_WORD * words + (2 * segments if apart else 1 + segments)
    rows = cases.n_cases * (segments if apart else 1)
    return Work(rows, tokens / (segments if apart else 1), int(isinstance(query, _AT_VOCABULARY)))
