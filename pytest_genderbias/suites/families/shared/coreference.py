"""What the coreference suites share: who scores, and what was said of each sentence."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.coreference_output import CoreferenceOutput, is_linked, outputs_for, scores_with_pronoun
from pytest_genderbias.datasets.mentions import Span, words_of
from pytest_genderbias.errors import NotApplicableError, ScoreError
from pytest_genderbias.statistics.coreference_scores import (
    document_counts,
    likelier_profession,
    linked_profession,
    pair_counts,
)
from pytest_genderbias.suites.cases import Answer, IntArray, TextCases
from pytest_genderbias.suites.family import Context
from pytest_genderbias.suites.options import Option, one_of
from pytest_genderbias.suites.query import NETWORKS, CoreferenceScores, StoredPredictions
from pytest_genderbias.text.wordlist import load_wordlist

SCORER = "coreference-scorer"
PREDICTIONS = "coreference-predictions"
SCORING_ROLES = (*NETWORKS, SCORER)
NEEDS = "a masked or causal LM, a network with hidden states, or an object that scores coreference"

_GENITIVE = {"possessive", "independent"}
_LMS = ("masked-lm", "causal-lm")
_FILE = re.compile(r".*[/\\.].*")
_HOW = {
    "substitution": "substitution: ln P of the candidate in the pronoun's place, in a second copy of the text",
    "edge-probe": "edge-probe: a head on frozen span vectors",
    "own": "own: the object's scores",
}

OPTIONS: Mapping[str, Option] = {
    "scorer": one_of(
        "auto",
        "substitution",
        "edge-probe",
        meaning="how a network scores; auto: substitution for a masked or causal LM, edge-probe for the others",
    ),
    "training": Option(
        "gap",
        "gap, winobias, or the path of a file or folder in the format of CoNLL-2012",
        lambda v: v in ("gap", "winobias") or (isinstance(v, str) and bool(_FILE.fullmatch(v))),
        "what the head of edge-probe is trained on",
        display=True,  # the signature has the digest of the data
    ),
}


def coreference_query(options: Mapping[str, Any], context: Context, candidates: int) -> CoreferenceScores:
    """Return the query for the scorer that the options and the model's kind call for.

    Raises:
        NotApplicableError: the scorer that was asked for is not one for this kind of model.
        MissingDataError: what edge-probe's head is trained on is not there.
    """
    adapter, kind = options["scorer"], context.role
    if adapter == "auto":
        adapter = "own" if kind == SCORER else "substitution" if kind in _LMS else "edge-probe"
    query = CoreferenceScores(candidates, adapter, seed=context.seed if adapter == "edge-probe" else 0)
    if kind not in query.roles:
        raise NotApplicableError(f"scorer={adapter} needs {' or '.join(query.roles)}; the model's kind is {kind}")
    if adapter != "edge-probe":
        return query
    from pytest_genderbias.suites.families.shared.coreference_training import coreference_training

    return replace(query, training=coreference_training(context.data, options["training"]))


def scorer_facts(query: CoreferenceScores | StoredPredictions, n: int) -> dict[str, NDArray[Any]]:
    """Return who scores, and what was trained on, as facts of the cases: measurements by different scorers are never compared."""
    if not isinstance(query, CoreferenceScores):
        return {"scorer": np.full(n, "predictions")}
    facts = {"scorer": np.full(n, query.adapter)}
    return facts if query.training is None else {**facts, "training": np.full(n, query.training.digest)}


def genitive_fact(texts: Sequence[str], pronouns: Sequence[Span], versions: Sequence[Hashable]) -> NDArray[np.int8]:
    """Return whether each pronoun is a possessive, as a fact of the cases: 1, 0, or -1 where its form does not tell.

    "her" alone does not; beside "his" or "him" in another version of the sentence it does, so that all versions are treated alike.

    Args:
        texts: the sentences.
        pronouns: the span of the pronoun in each.
        versions: what is equal for the versions of one sentence, of each.

    >>> texts = ["The cook met her.", "The cook met him.", "The cook sold his car.", "The cook met her."]
    >>> genitive_fact(texts, [(13, 16), (13, 16), (14, 17), (13, 16)], [1, 1, 2, 3]).tolist()
    [0, 0, 1, -1]
    """
    forms: dict[Hashable, set[str]] = {}
    for text, span, version in zip(texts, pronouns, versions, strict=True):
        here = set(_forms().get(words_of(text, span).lower(), ()))
        forms[version] = forms[version] & here if version in forms else here
    genitive = {
        version: -1 if not left or len(left & _GENITIVE) not in (0, len(left)) else int(left <= _GENITIVE)
        for version, left in forms.items()
    }
    return np.asarray([genitive[version] for version in versions], dtype=np.int8)


@cache
def _forms() -> Mapping[str, frozenset[str]]:
    """Return the forms that a pronoun can be, by its lower-case word."""
    found: dict[str, set[str]] = {}
    for entry in load_wordlist("pronouns").entries:
        for form in ("nominative", "accusative", "possessive", "independent", "reflexive"):
            found.setdefault(entry.attributes[form].lower(), set()).add(form)
    return {word: frozenset(forms) for word, forms in found.items()}


def scorer_note(cases: TextCases) -> str:
    """Say who scored."""
    scorer = str(cases.facts["scorer"][0])
    return "scorer: " + _HOW.get(scorer, "predictions: the output of a coreference system")


@dataclass(frozen=True)
class Verdicts:
    """What was said of each of n sentences with C candidates.

    ``chosen``: the one candidate that is linked with the pronoun, -1 for none or several, shape (n,). ``scores``: of each
    candidate, -inf where it has none, shape (n, C). ``counts``: for the F1 against the right clusters, shape (n, metrics, 4):
    MUC, B-cubed and CEAF-phi4 where the system clusters, else the pairs. ``clusters`` tells which.
    """

    chosen: IntArray
    scores: NDArray[np.float64]
    counts: NDArray[np.float64]
    clusters: bool


def verdicts_of(answer: Answer) -> Verdicts:
    """Return what was said, in the order of the scored cases.

    The spans of a case are its candidates and the pronoun; its facts are ``id``, ``gold`` (number of the right candidate) and
    ``pronouns`` (all mentions of the right cluster beside that candidate).

    Raises:
        DataFileError: a file of predictions lacks a sentence, or has another text or other words there.
    """
    cases: TextCases = answer.cases
    numbers = cases.cases_of(answer.units)
    if isinstance(answer.content, CoreferenceOutput):
        return _stored_verdicts(cases, answer.content)
    scores = np.asarray(answer.values.reshape(len(numbers), -1), dtype=np.float64)
    return _pair_verdicts(scores, np.asarray(cases.facts["gold"])[numbers])


def _pair_verdicts(scores: NDArray[np.float64], gold: NDArray[Any]) -> Verdicts:
    chosen = likelier_profession(scores)
    candidates = np.arange(scores.shape[1])
    counts = pair_counts(candidates == gold[:, None], candidates == chosen[:, None])[:, None]
    return Verdicts(chosen, scores, counts, False)


def _stored_verdicts(cases: TextCases, content: CoreferenceOutput) -> Verdicts:
    texts, gold = [text for (text,) in cases.texts], np.asarray(cases.facts["gold"])
    outputs = outputs_for(content, zip(map(str, cases.facts["id"]), texts, strict=True))
    asked = [(out, text, spans[-1], spans[:-1]) for out, text, spans in zip(outputs, texts, cases.spans, strict=True)]
    linked = np.asarray([is_linked(*one) for one in asked])
    scores = np.asarray([scores_with_pronoun(*one) for one in asked]) if content.has_scores else None
    if not content.has_clusters:
        assert scores is not None  # the reader asks for one of them
        return _pair_verdicts(scores, gold)
    counts = [
        document_counts([(spans[right], *pronouns)], output.clusters or ())
        for output, spans, right, pronouns in zip(outputs, cases.spans, gold, cases.facts["pronouns"], strict=True)
    ]
    scores = np.where(linked, 0.0, -np.inf) if scores is None else scores
    return Verdicts(linked_profession(linked), scores, np.stack(counts), True)


def likelihoods(scores: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Return how likely each candidate is, 0 to 1, shape (n, C).

    Args:
        scores: shape (n, C), -inf for a candidate that was not considered.
        how: ``softmax`` over the candidates, exp(s) / sum exp(s) (of log-probabilities: their shares of the probability; 0 for
            all where none was considered); ``logistic``, 1 / (1 + exp(-s)), of log-odds; ``score``, the score itself.

    Raises:
        ScoreError: ``score``, and one is not from 0 to 1.

    >>> likelihoods(np.log([[3.0, 1.0]]), "softmax").round(6).tolist()
    [[0.75, 0.25]]
    """
    from scipy import special

    if how == "logistic":
        return np.asarray(special.expit(scores), dtype=np.float64)
    if how == "score":
        given = np.where(np.isneginf(scores), 0.0, scores)
        if given.min(initial=0.0) < 0 or given.max(initial=0.0) > 1:
            raise ScoreError(
                f"likelihood=score needs scores from 0 to 1, got {given.min():.3g} to {given.max():.3g}; "
                "softmax takes any scores"
            )
        return np.asarray(given, dtype=np.float64)
    top = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300), dtype=np.float64)
