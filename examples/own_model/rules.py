"""A classifier that is not a transformers checkpoint: it only needs the methods of the protocol for its role."""

from collections.abc import Sequence

import numpy as np


class WordOverlap:
    """Predicts entailment by the share of common words. All gendered words get the same score."""

    labels = ("entailment", "neutral", "contradiction")
    fingerprint = "word-overlap 1"  # change it whenever a score can change; without a fingerprint nothing is cached

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
