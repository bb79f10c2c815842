"""Log-probabilities of the tokens of prompts, from whatever runs a causal LM elsewhere: a server, or an engine with a
process of its own.

Prompts are token ids, so that nothing hangs on how a server would cut a text into tokens. ``served_proof.py`` tests
whatever has this protocol before its first figure is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Prompt = Sequence[int]  #: token ids


@dataclass(frozen=True, eq=False)
class PromptAnswer:
    """Log-probabilities of the tokens of one prompt.

    Attributes:
        log_probabilities: ln P(token | those before it), in nats, shape (number of values that came,), NaN where there
            is none, as for the first token. As many as the prompt has tokens, if all is well.
        token_ids: the ids that the values are said to belong to; ``None`` if they were not said.
        top: for each value, the log-probabilities of the most likely tokens in its place, by their ids; empty where
            none were asked for.
        tokens_read: number of tokens that the source says it read; ``None`` if it does not say so for this prompt.
    """

    log_probabilities: NDArray[np.float64]
    token_ids: list[int] | None = None
    top: list[dict[int, float]] = field(default_factory=list)
    tokens_read: int | None = None


class PromptLogProbabilities(Protocol):
    """A causal LM that is asked for the log-probabilities of prompts.

    Attributes:
        where: what is asked, in words, as ``the server at http://127.0.0.1:8000/v1``. It holds no secret.
        max_length: most tokens in a prompt, or ``None`` if that is unknown.
        facts: name and version of what runs the model, for the details of the model; the same values in every run with
            the same software.
    """

    @property
    def where(self) -> str:
        """The question in words."""

    @property
    def max_length(self) -> int | None:
        """Most tokens in a prompt, or ``None``."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Name and version of what runs the model."""

    def ask(self, prompts: Sequence[Prompt], most_likely: int = 0, temperature: float = 0.0) -> list[PromptAnswer]:
        """Return an answer for each prompt, in their order.

        Args:
            prompts: token ids, each with at least one token.
            most_likely: how many of the most likely tokens are listed in each place, at most 5.
            temperature: of tokens that might be generated; the values should not depend on it.
        """

    def generate(self, prompts: Sequence[Prompt], tokens: int, temperature: float, seed: int | None) -> list[list[int]]:
        """Return the ids of up to ``tokens`` generated tokens for each prompt, drawn from the whole distribution (0:
        the most likely ones).
        """

    def own_token_ids(self, text: str) -> list[int] | None:
        """Return the ids into which the source itself cuts a text; ``None`` if it does not say."""
