"""What a suite asks of a model for each case. The engine knows how each is answered; families only choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TopFills:
    """The ``k`` best vocabulary items at the mask, best first, ties broken by token id."""

    k: int
    roles = ("masked-lm",)
    dtype = "int32"

    @property
    def width(self) -> int:
        """Number of columns in the scores."""
        return self.k


@dataclass(frozen=True)
class PairProbabilities:
    """The probabilities of entailment, neutral and contradiction of a pair, in this order."""

    roles = ("nli-classifier",)
    dtype = "float32"
    width = 3


@dataclass(frozen=True)
class SlotLogProbability:
    """The natural logarithm of the probability of the word in ``slot``.

    A causal LM gives it by the chain rule, after the words before it. A masked LM gives the sum over the word's tokens of
    the log-probability of each, masked alone, with all the rest in place.
    """

    slot: str
    roles = ("causal-lm", "masked-lm")
    dtype = "float64"
    width = 1


Query = TopFills | PairProbabilities | SlotLogProbability
