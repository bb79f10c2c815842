"""One small protocol a role, over strings and arrays, for any model that is no transformers checkpoint.

``--bias-model=NAME=module:callable`` calls ``callable()`` and measures what it returns. An object may give itself a
``fingerprint`` (a text that changes whenever its scores can); without one it is measured and never cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray


@runtime_checkable
class MaskedLM(Protocol):
    """Fills one mask in a sentence."""

    mask_token: str
    vocabulary: Sequence[str]

    def fill_scores(self, texts: Sequence[str]) -> NDArray[Any]:
        """Score every vocabulary item at the one mask of each text: shape (len(texts), len(vocabulary)), larger = likelier."""


@runtime_checkable
class CausalLM(Protocol):
    """Gives the probability of a continuation."""

    def continuation_log_probs(self, prefixes: Sequence[str], continuations: Sequence[str]) -> NDArray[Any]:
        """Return ln P(continuation | prefix), with a space between them, for each pair: shape (len(prefixes),)."""


@runtime_checkable
class PairClassifier(Protocol):
    """Classifies a premise and a hypothesis."""

    labels: Sequence[str]

    def pair_probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> NDArray[Any]:
        """Return the probability of each label, in the order of ``labels``: shape (len(premises), len(labels))."""
