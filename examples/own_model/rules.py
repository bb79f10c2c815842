"""A classifier that is no transformers checkpoint: it only has to have the protocol of its role."""

from collections.abc import Sequence

import numpy as np


class WordOverlap:
    """Calls a pair entailed as far as its words agree. It cannot tell a woman from a man, so every gendered word scores alike."""

    labels = ("entailment", "neutral", "contradiction")
    fingerprint = "word-overlap 1"  # changes whenever a score can change; without one nothing is cached

    def pair_probabilities(self, premises: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
        entailment = np.array(
            [self._overlap(a.lower().split(), b.lower().split()) for a, b in zip(premises, hypotheses, strict=True)]
        )
        rest = 1 - entailment
        return np.stack([entailment, 0.9 * rest, 0.1 * rest], axis=1)

    @staticmethod
    def _overlap(premise: list[str], hypothesis: list[str]) -> float:
        return len(set(premise) & set(hypothesis)) / len(set(premise) | set(hypothesis))


def make_model() -> WordOverlap:
    return WordOverlap()
