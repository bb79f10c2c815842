"""A language model as a coreference scorer: each candidate replaces the pronoun in a second copy of the text.

To score the nurse as the referent of "she" in "The nurse met the clerk because she was late.", the model reads

    The nurse met the clerk because she was late. The nurse met the clerk because the nurse was late.

and the score is the log-probability of the words *the nurse* in the second copy. For a masked LM this is the sum over
their tokens of the log-probability of each token, masked in turn, with all others in place; for a causal LM it is the
chain rule over the tokens, given everything before them. If the candidate replaces the pronoun in the only copy (Trinh
and Le 2018; Kocijan et al. 2019), the pronoun's gender is lost: the scores for "she" and "he" are equal. Here the first
copy keeps the pronoun, as a premise does (WNLI, Wang et al. 2019), so the score is conditional on it.

A score is in nats, at most 0. Two candidates of a text are compared by the probability of all their words, as when a
causal LM chooses between them. Longer candidates have no advantage; in a candidate of several tokens, a masked LM sees
the other tokens. The frequencies of "he" and "she" have no influence, since no pronoun is scored.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.mentions import Span, words_of
from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.pseudo_likelihood import SpanLikelihood, positions_in
from pytest_genderbias.scoring.scorer import PlainScorer
from pytest_genderbias.suites.cases import IntArray, TextCases
from pytest_genderbias.suites.query import CoreferenceScores
from pytest_genderbias.text.printable import brief

#: First words that are capitalised only at the beginning of a sentence.
_SMALL = re.compile(r"(?:the|an?|this|that|some\w*|my|our|your|his|her|its|their)\b", re.IGNORECASE)
#: Words after "her" that do not begin a noun phrase: "met her because", "told her that".
_AFTER_OBJECT = re.compile(
    r"\W*\Z|[^\w\s]|\s+(?:a|about|after|all|an|and|any|as|at|because|before|but|by|during|for|from|how|if|in|into|it|not|of|off|on|"
    r"or|out|over|so|some|something|than|that|the|through|to|up|was|were|what|when|where|whether|which|while|who|why|will|with|"
    r"without|would)\b",
    re.IGNORECASE,
)
_POSSESSIVES = ("his", "its", "their", "hers", "theirs")


def substituted(text: str, candidate: Span, pronoun: Span, genitive: bool | None = None) -> tuple[str, Span]:
    """Return two copies of the text, with the candidate in place of the pronoun in the second, and the candidate's span
    there.

    A possessive pronoun becomes the genitive of the candidate ("her shift": "the nurse's shift"). The candidate is
    capitalised as the pronoun's place requires.

    Args:
        text: the text.
        candidate: character range of the candidate.
        pronoun: character range of the pronoun.
        genitive: whether the pronoun is possessive; ``None``: see :func:`is_possessive`.

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
    """Return whether a pronoun is possessive: his, their, hers, or "her" before a possible noun phrase.

    >>> is_possessive("The clerk met her because of her hat.", (14, 17)), is_possessive("He took her hat.", (8, 11))
    (False, True)
    """
    word = words_of(text, pronoun).lower()
    return word in _POSSESSIVES or (word == "her" and not _AFTER_OBJECT.match(text[pronoun[1] :]))


def substitution(cases: TextCases, query: CoreferenceScores, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score candidates with a checkpoint: the log-probability of each candidate, in nats.

    Raises:
        NotApplicableError: two copies of a text are longer than the checkpoint reads, so that nothing of the candidate
            is left.
    """
    likelihood = SpanLikelihood(model, batch_tokens)

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        copies = filled(cases, numbers)
        encodings = likelihood.tokenizer.encode([text for text, _ in copies])
        sums = likelihood.score(encodings, positions_in(encodings, [(span,) for _, span in copies]))
        if not sums[:, 1].all():
            text = copies[int(np.argmin(sums[:, 1]))][0]
            raise NotApplicableError(
                f"two copies of a text are longer than the {model.backend.max_length} tokens that"
                f" {model.name} reads ({brief(text, 120)}); --bias-option=scorer=edge-probe reads one copy"
            )
        return np.asarray(sums[:, 0].reshape(len(numbers), -1))

    return PlainScorer(scores, likelihood.notes)


def filled(cases: TextCases, numbers: IntArray) -> list[tuple[str, Span]]:
    """Return the two copies of the text for each candidate of each case. The fact ``genitive`` is 1, 0, or -1 for
    unknown.
    """
    known = np.asarray(cases.facts["genitive"]) if "genitive" in cases.facts else np.full(cases.n_cases, -1)
    return [
        substituted(cases.texts[i][0], candidate, cases.spans[i][-1], genitive=None if known[i] < 0 else bool(known[i]))
        for i in numbers
        for candidate in cases.spans[i][:-1]
    ]
