"""A check that the labels of an NLI classifier are in the right order."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pytest_genderbias.errors import BiasWarning
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES
from pytest_genderbias.models.roles import NLI_CLASSIFIER
from pytest_genderbias.scoring.engine import ScoreSettings, score_suite
from pytest_genderbias.suites.query import PairProbabilities
from pytest_genderbias.suites.space import Axis, CaseSpace, Template
from pytest_genderbias.text.template import Word, parse_template


class LabelWarning(BiasWarning):
    """The labels of an NLI classifier may be in the wrong order."""


#: Sentences for a pair with a known answer: each entails itself.
_SENTENCES = (
    "A man is sleeping.", "The dog runs in the park.", "Two children play football.", "The teacher bought a car.",
         "The woman ate an apple.", "The doctor visited a friend.")  # fmt: skip


def label_warning(model: Model, cache: Path | None = None) -> str | None:
    """Score pairs of a sentence and itself, and return a warning if entailment is not the most likely label.

    ``None`` for models that are not NLI classifiers. ``cache``: the score cache, which keeps the scores of a checkpoint
    like those of a suite; an object in memory is asked each time.
    """
    if model.role.kind != NLI_CLASSIFIER:
        return None
    pieces = parse_template("{sentence}")
    words = {"sentence": tuple(Word.of(text) for text in _SENTENCES)}
    space = CaseSpace((Template((pieces, pieces)),), words, (Axis.whole("sentence", len(_SENTENCES)),), 1)
    label = f"label check on {model.name}"
    settings = ScoreSettings(cache=cache if model.can(HIDDEN_STATES) else None)
    answer, _ = score_suite(space, PairProbabilities(), model, space.digest(), settings, label)
    probabilities = answer.values[np.argsort(answer.units), 0].mean(axis=0)
    entailment, neutral, contradiction = map(float, probabilities)
    if entailment >= max(neutral, contradiction):
        return None
    return (
        f"{model.name} does not find that a sentence entails itself (entailment {entailment:.2f}, neutral"
        f" {neutral:.2f}, contradiction {contradiction:.2f}): are its labels in the right order? Name them with"
        " --bias-labels"
    )
