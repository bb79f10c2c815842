"""A language model as a coreference scorer: each candidate takes the pronoun's place in a second copy of the text.

To ask whether the pronoun of "The nurse met the clerk because she was late." means the nurse, the model is given

    The nurse met the clerk because she was late. The nurse met the clerk because the nurse was late.

and the score is ln P of the words *the nurse* in the second copy: for a masked LM the sum over their tokens of the log-probability
of each, masked alone, with all the rest in place; for a causal LM the chain rule over them, after all that stands before. Where the
pronoun is simply replaced (Trinh and Le 2018; Kocijan et al. 2019), it is gone, and so is its gender: the scores for "she" and
"he" would be equal. Here the first copy keeps it, as a premise does (WNLI, Wang et al. 2019), so the score is conditional on it.

A score is in nats, 0 at most. Two candidates of one text are compared by the probability of all their words, as in a causal LM's
own choice between them (a longer candidate is not helped; between two of several tokens a masked LM sees the rest of the word).
The frequencies of "he" and "she" do not enter, since no pronoun is scored.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.mentions import Span, words_of
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.base import Scorer, check_finite
from pytest_genderbias.scoring.pseudo_likelihood import SpanLikelihood
from pytest_genderbias.suites.cases import IntArray, TextCases

#: First words that have a capital only where a sentence begins.
_SMALL = re.compile(r"(?:the|an?|this|that|some\w*|my|our|your|his|her|its|their)\b", re.IGNORECASE)
#: Words after "her" that begin no noun phrase: "met her because", "told her that".
_AFTER_OBJECT = re.compile(
    r"\W*\Z|[^\w\s]|\s+(?:a|about|after|all|an|and|any|as|at|because|before|but|by|during|for|from|how|if|in|into|it|not|of|off|on|"
    r"or|out|over|so|some|something|than|that|the|through|to|up|was|were|what|when|where|whether|which|while|who|why|will|with|"
    r"without|would)\b",
    re.IGNORECASE,
)
_POSSESSIVES = ("his", "its", "their", "hers", "theirs")


def substituted(text: str, candidate: Span, pronoun: Span, genitive: bool | None = None) -> tuple[str, Span]:
    """Return the text twice, the candidate in the pronoun's place in the second copy, and where it stands there.

    A possessive pronoun becomes the candidate's genitive ("her shift": "the nurse's shift"); capitals follow the place.

    Args:
        text: the text.
        candidate: where the candidate stands in it.
        pronoun: where the pronoun stands.
        genitive: whether the pronoun is a possessive; without it :func:`is_possessive` tells.

    >>> text, (start, end) = substituted("The nurse left because her shift was over.", (0, 9), (23, 26))
    >>> text[43:], text[start:end]
    ("The nurse left because the nurse's shift was over.", "the nurse's")
    """
    words = words_of(text, candidate)
    if text[pronoun[0]].isupper():
        words = words[0].upper() + words[1:]
    elif _SMALL.match(words):
        words = words[0].lower() + words[1:]
    if is_possessive(text, pronoun) if genitive is None else genitive:
        words += "'s"
    before = f"{text} {text[: pronoun[0]]}"
    return before + words + text[pronoun[1] :], (len(before), len(before) + len(words))


def is_possessive(text: str, pronoun: Span) -> bool:
    """Tell whether a pronoun is a possessive: his, their, hers, and "her" where no word follows that says otherwise.

    >>> is_possessive("The clerk met her because of her hat.", (14, 17)), is_possessive("He took her hat.", (8, 11))
    (False, True)
    """
    word = words_of(text, pronoun).lower()
    return word in _POSSESSIVES or (word == "her" and not _AFTER_OBJECT.match(text[pronoun[1] :]))


def make(cases: TextCases, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer of a language model."""
    if isinstance(model.backend, Checkpoint):
        return NetworkSubstitution(cases, model, batch_tokens)
    if not hasattr(model.backend, "continuation_log_probs"):
        raise NotApplicableError(
            f"{model.name} has no continuation_log_probs(prefixes, continuations); an object scores coreference with it, or with "
            "coreference_scores(texts, candidates, pronouns)"
        )
    return ObjectSubstitution(cases, model)


class NetworkSubstitution:
    """Scores candidates by a checkpoint."""

    def __init__(self, cases: TextCases, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._model = cases, model
        self._likelihood = SpanLikelihood(model, batch_tokens)

    @property
    def notes(self) -> list[str]:
        """Say what was halved."""
        return self._likelihood.notes

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return ln P of each candidate."""
        made = _filled(self._cases, cases)
        found = self._likelihood.score([text for text, _ in made], [(span,) for _, span in made])
        if not found[:, 1].all():
            text = made[int(np.argmin(found[:, 1]))][0]
            raise ModelError(f"two copies of a text are longer than {self._model.name} reads: {text!r:.120}")
        scores = found[:, 0].reshape(len(cases), -1)
        check_finite(np.asarray(np.isfinite(scores).all(axis=1)), self._cases, cases, self._model.name)
        return np.asarray(scores)


class ObjectSubstitution:
    """Scores candidates by an object that continues texts."""

    notes: list[str]

    def __init__(self, cases: TextCases, model: Model) -> None:
        self._cases, self._model = cases, model
        self.notes = []

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return ln P of each candidate after all that stands before it."""
        made = _filled(self._cases, cases)
        prefixes = [text[: span[0]].rstrip() for text, span in made]
        words = [words_of(text, span) for text, span in made]
        found = np.asarray(self._model.backend.continuation_log_probs(prefixes, words), dtype=np.float64)
        if found.shape != (len(made),):
            raise ScoreError(
                f"{self._model.name} answered with an array of the shape {found.shape}, expected {(len(made),)}"
            )
        scores = found.reshape(len(cases), -1)
        check_finite(np.asarray(np.isfinite(scores).all(axis=1)), self._cases, cases, self._model.name)
        return np.asarray(scores)


def _filled(cases: TextCases, numbers: IntArray) -> list[tuple[str, Span]]:
    """Return the two copies for each candidate of each case; the fact ``genitive`` is 1, 0, or -1 for unknown."""
    known = np.asarray(cases.facts["genitive"]) if "genitive" in cases.facts else np.full(cases.n_cases, -1)
    return [
        substituted(cases.texts[i][0], candidate, cases.spans[i][-1], genitive=None if known[i] < 0 else bool(known[i]))
        for i in numbers
        for candidate in cases.spans[i][:-1]
    ]
