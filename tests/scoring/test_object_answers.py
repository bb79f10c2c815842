"""What an object of the user's answers is checked before it is measured: shape, numbers, range, and the same answer
twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ScoreError
from pytest_genderbias.models.adapters import from_spacy
from pytest_genderbias.scoring.engine import ScoreSettings, answer, random_order
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import Cases, Question, TextCases
from pytest_genderbias.suites.query import (
    ClassProbabilities,
    CoreferenceScores,
    PairProbabilities,
    PairSimilarity,
    PseudoLogLikelihood,
    Query,
    SlotLogProbability,
    TopFills,
    VerbalisedProbabilities,
)
from pytest_genderbias.suites.space import TEMPLATE, Axis, CaseSpace, Template
from pytest_genderbias.text.template import Word, parse_template

NAMES = ("Anna", "Bob", "Carla", "Dora", "Emil", "Fritz")
DIGEST = "0" * 64
FIRST = NAMES[random_order(len(NAMES), DIGEST, 0)[0]]  # of the cases, as the engine asks for them
PAIRS = TextCases([(f"{name} sings.", f"{name} does.") for name in NAMES])
TEXTS = TextCases([(f"{name} sings.",) for name in NAMES])
SPANS = TextCases([("Anna met Bob, and she left.",)] * 6, [((0, 4), (9, 12), (18, 21))] * 6)


class Answers:
    """An object with the method of any protocol, which answers with a function of the number of cases and of the
    call.
    """

    labels = ("entailment", "neutral", "contradiction")
    mask_token, vocabulary = "_", ("a", "b", "c")

    def __init__(self, make: Any, method: str) -> None:
        self.make, self.calls = make, 0
        setattr(self, method, self.answer)

    def answer(self, first: Any, *rest: Any) -> Any:
        self.calls += 1
        return self.make(len(first), self.calls)


def space(template: str) -> CaseSpace:
    words = {"person": tuple(map(Word.of, NAMES))}
    return CaseSpace(
        (Template((parse_template(template),)),), words, (Axis.whole("person", len(NAMES)), Axis.whole(TEMPLATE, 1)), 1
    )


ASKED: dict[str, tuple[str, Cases, Query, Any]] = {
    "pairs": ("pair_probabilities", PAIRS, PairProbabilities(), lambda n, _: np.tile([0.2, 0.5, 0.3], (n, 1))),
    "classes": ("class_probabilities", TEXTS, ClassProbabilities(), lambda n, _: [[0.2, 0.5, 0.3]] * n),
    "fills": ("fill_scores", space("{person} likes {blank}."), TopFills(2), lambda n, _: [[3, 2, 1]] * n),
    "words": ("continuation_log_probs", space("Now {person}"), SlotLogProbability("person"), lambda n, _: [-1.0] * n),
    "texts": ("continuation_log_probs", TEXTS, PseudoLogLikelihood(), lambda n, _: [-1.0] * n),
    "verbalised": (
        "continuation_log_probs",
        PAIRS,
        VerbalisedProbabilities("{premise} {hypothesis}", ("yes", "maybe", "no")),
        lambda n, _: [-1.0] * n,
    ),
    "substitution": ("continuation_log_probs", SPANS, CoreferenceScores(2, "substitution"), lambda n, _: [-1.0] * n),
    "coreference": ("coreference_scores", SPANS, CoreferenceScores(2, "own"), lambda n, _: [[3.5, -1]] * n),
    "similarity": ("pair_scores", PAIRS, PairSimilarity(), lambda n, _: [4.5] * n),
    "vectors": ("encode", PAIRS, PairSimilarity(), lambda n, _: [[1.0, 2.0]] * n),
}
LOGARITHMS = ("words", "texts", "verbalised", "substitution")


def ask(kind: str, make: Any = None) -> Any:
    method, cases, query, right = ASKED[kind]
    model = load_model(Answers(make or right, method), name="mine")
    answered, _ = answer(Question(cases, query), model, DIGEST, ScoreSettings(), "asked")
    return answered.values.reshape(len(NAMES), -1)


@pytest.mark.parametrize("kind", ASKED)
def test_an_answer_of_the_right_form_is_measured(kind: str) -> None:
    assert len(ask(kind)) == len(NAMES)


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda right: lambda n, _: np.asarray(right(n, 1))[: n - 1], "array of the shape .*, expected "),
        (lambda right: lambda n, _: None, "array of the shape .*, expected "),
        (lambda right: lambda n, _: [*right(n, 1)[: n - 1], [[1.0], 2.0]], "no array of numbers|shape"),
        (lambda right: lambda n, _: np.asarray(right(n, 1)).astype(str), "array of <U.*, expected numbers"),
        (lambda right: lambda n, _: np.asarray(right(n, 1)).astype(complex), "array of complex128, expected numbers"),
        (lambda right: lambda n, _: np.asarray(right(n, 1)).astype(object), "array of object, expected numbers"),
        (lambda right: lambda n, _: np.asarray(right(n, 1), float) * np.nan, "NaN or infinite"),
        (lambda right: lambda n, _: 1 / 0, "of mine failed: ZeroDivisionError: division by zero"),
        (
            lambda right: lambda n, call: np.asarray(right(n, 1), float) * (1 - 1e-3 * call),
            "different answers to the same question|sum to one",
        ),
    ],
    ids=["short", "none", "ragged", "texts", "complex", "objects", "nan", "raises", "random"],
)
def test_an_answer_of_another_form_is_refused(kind: str, make: Any, message: str) -> None:
    with pytest.raises(ScoreError, match=message) as caught:
        ask(kind, make(ASKED[kind][3]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pairs", "classes"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([-1, 3, -1], f"gives -1, expected probabilities, 0 to 1 for '{FIRST}"),
        ([0.5, 0.6, -0.1], "gives -0.1, expected probabilities, 0 to 1"),
        ([1.1, 0, -0.1], "gives 1.1, expected"),
        ([0.4, 0.4, 0.4], r"do not sum to one \(they sum to 1.2\)"),
        ([0, 0, 0], "do not sum to one"),
        ([0.5, 0.3, 0.198], "do not sum to one"),
        ([np.inf, 0, 0], "gives inf, expected probabilities"),
    ],
)
def test_what_is_no_distribution_is_refused(kind: str, row: list[float], message: str) -> None:
    with pytest.raises(ScoreError, match=message):
        ask(kind, lambda n, _: [row] * n)


@pytest.mark.parametrize("row", [[0.5, 0.3, 0.1995], [1.0 + 1e-7, -1e-7, 0.0], [1, 0, 0]])
def test_rounding_is_allowed(row: list[float]) -> None:
    assert np.allclose(ask("pairs", lambda n, _: np.asarray([row] * n, np.float32)), row, atol=1e-6)


@pytest.mark.parametrize("kind", LOGARITHMS)
def test_a_logarithm_above_zero_is_refused(kind: str) -> None:
    with pytest.raises(ScoreError, match=r"gives 0\.5, expected natural logarithms of probabilities, at most 0"):
        ask(kind, lambda n, _: [0.5] * n)
    assert len(ask(kind, lambda n, _: [1e-7] * n)) == len(NAMES)


def test_noise_of_floats_is_no_difference() -> None:
    assert len(ask("words", lambda n, call: [-100.0 * (1 + 1e-6 * call)] * n)) == len(NAMES)
    with pytest.raises(ScoreError, match="put the model into evaluation mode"):
        ask("words", lambda n, call: [-100.0 * (1 + 1e-3 * call)] * n)
    with pytest.raises(ScoreError, match="arrays of the shapes"):
        ask("vectors", lambda n, call: np.ones((n, call)))


def test_few_cases_are_asked_about_twice_and_once_only() -> None:
    model = load_model(Answers(ASKED["words"][3], "continuation_log_probs"))
    scorer = make_scorer(ASKED["words"][1], ASKED["words"][2], model, None)
    for _ in range(3):
        scorer.score(np.arange(6))
    assert model.backend.calls == 3 + 2


def test_probabilities_that_cannot_be_never_make_a_measurement() -> None:
    model = Answers(lambda n, _: [[-1, 3, -1]] * n, "pair_probabilities")
    with pytest.raises(ScoreError, match="gives -1, expected probabilities"):
        measure("nli-occupation", model, limit=20, cache=None)


def test_a_spacy_pipeline_takes_no_texts_and_wrong_categories() -> None:
    class Document:
        def __init__(self, cats: dict[str, Any]) -> None:
            self.cats = cats

    class Textcat:
        labels = ("good", "bad")

    class Pipeline:
        pipe_names = ("textcat",)

        def __init__(self) -> None:
            self.cats: dict[str, Any] = {"good": 0.25, "bad": 0.75}

        def get_pipe(self, name: str) -> Textcat:
            return Textcat()

        def pipe(self, texts: Any) -> Any:
            return (Document(self.cats) for _ in texts)

    nlp = Pipeline()
    model = from_spacy(nlp, name="mine")
    assert model.backend.class_probabilities([]).shape == (0, 2)
    assert model.backend.class_probabilities(["a", "b"]).tolist() == [[0.25, 0.75]] * 2
    nlp.cats = {"good": 0.25}
    with pytest.raises(ScoreError, match="class_probabilities of mine failed: KeyError: 'bad'"):
        make_scorer(TEXTS, ClassProbabilities(), model, None).score(np.arange(6))
