"""Language models as coreference scorers: the two copies by hand, the scores against plain forward passes of one text
at a time.
"""

import re

import numpy as np
import pytest
import torch

from pytest_genderbias import load_suite
from pytest_genderbias.datasets.files import read_rows
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.mentions import find_words
from pytest_genderbias.errors import NotApplicableError, ScoreError
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.scoring.pseudo_likelihood import is_possessive, substituted
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.family import Context
from pytest_genderbias.suites.query import CoreferenceScores

TEXTS = ["The nurse met the clerk because she was late.", "The clerk told the nurse that his shift was over."]
SPANS = [((0, 9), (14, 23), (32, 35)), ((0, 9), (15, 24), (30, 33))]


def scores(model, texts=TEXTS, spans=SPANS, adapter="substitution"):
    cases = TextCases([(text,) for text in texts], spans)
    return make_scorer(cases, CoreferenceScores(2, adapter), model, None).score(np.arange(len(texts)))


@pytest.mark.parametrize(
    ("text", "candidate", "pronoun", "second"),
    [
        (TEXTS[0], "the clerk", "she", "The nurse met the clerk because the clerk was late."),
        (TEXTS[1], "The clerk", "his", "The clerk told the nurse that the clerk's shift was over."),
        ("The cook paid him.", "The cook", "him", "The cook paid the cook."),
        ("Someone met a cook. He sang.", "a cook", "He", "Someone met a cook. A cook sang."),
        ("Someone met a cook as she sang.", "Someone", "she", "Someone met a cook as someone sang."),
        ("Ann told Bea that she won.", "Ann", "she", "Ann told Bea that Ann won."),
        ("The cook said it was hers.", "The cook", "hers", "The cook said it was the cook's."),
        ("The cook told her that he sang.", "The cook", "her", "The cook told the cook that he sang."),
    ],
)
def test_the_candidate_takes_the_pronouns_place(text, candidate, pronoun, second):
    start, at = text.index(candidate), find_words(text, [pronoun])[0]
    found, (begin, end) = substituted(text, (start, start + len(candidate)), at)
    assert found == f"{text} {second}"
    assert found[begin:end].lower().removesuffix("'s") == candidate.lower()
    assert found[:begin] + pronoun + found[end:] == f"{text} {text[: at[0]]}{pronoun}{text[at[1] :]}"


def test_her_is_a_possessive_where_the_templates_of_winogender_say_so(shared_data):
    path = shared_data / "winogender" / "templates.tsv"
    forms = {"$POSS_PRONOUN": True, "$ACC_PRONOUN": False}
    seen = []
    for row in (row.cells for row in read_rows(path, ("sentence",))):
        for slot, possessive in forms.items():
            if slot in row["sentence"]:
                start = row["sentence"].index(slot)
                text = row["sentence"].replace(slot, "her", 1)
                seen.append(is_possessive(text, (start, start + 3)) == possessive)
    assert len(seen) > 10
    assert all(seen)


def test_the_form_that_is_known_is_taken():
    text = "The cook told her lies."
    asked = ((0, 8), (14, 17))
    assert substituted(text, *asked)[0].endswith("told the cook's lies.")
    assert substituted(text, *asked, genitive=False)[0].endswith("told the cook lies.")


@pytest.mark.parametrize("suite", ["coref-winogender", "coref-winobias"])
def test_he_and_she_are_replaced_alike(shared_data, suite):
    family = load_suite(suite).family
    body, options = load_suite(suite).body, {name: option.default for name, option in family.options.items()}
    context = Context("masked-lm", data=DataFolder(shared_data))
    cases = family.questions(body, options, context)["cases"].cases
    second = {}
    for i, (text,) in enumerate(cases.texts):
        filled, _ = substituted(text, cases.spans[i][0], cases.spans[i][-1], bool(cases.facts["genitive"][i]))
        version = re.sub(r"\b(?:female|male|neutral|pro|anti)\b", "", str(cases.facts["id"][i]))
        second.setdefault(version, set()).add(re.sub(r"\bwere\b", "was", filled[len(text) :]))
    alike = np.asarray([len(texts) == 1 for texts in second.values()])
    assert len(alike) > 100
    assert alike.mean() > (
        0.99 if suite == "coref-winogender" else 0.9
    )  # some pairs of WinoBias differ in other words, too
    assert cases.facts["genitive"].min() >= -1
    assert (cases.facts["genitive"] == -1).mean() < 0.01


def plain_score(model, text, span, causal):
    """ln P of the tokens in the span: token by token, one forward pass each."""
    tokenizer, network = model.backend.tokenizer, model.backend.network
    encoded = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    total = 0.0
    for i, (start, stop) in enumerate(offsets):
        if stop <= start or not span[0] < stop <= span[1]:
            continue
        target = int(encoded["input_ids"][0, i])
        fed = {name: tensor.clone() for name, tensor in encoded.items()}
        if causal:
            fed = {name: tensor[:, :i] for name, tensor in fed.items()}
        else:
            fed["input_ids"][0, i] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = network(**fed).logits[0, i - 1 if causal else i]
        total += float(logits.log_softmax(-1)[target])
    return total


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "llama"])
def test_scores_are_those_of_plain_passes(tiny_model, kind):
    model = tiny_model(kind)
    found = scores(model)
    for text, (*candidates, pronoun), row in zip(TEXTS, SPANS, found, strict=True):
        for candidate, score in zip(candidates, row, strict=True):
            expected = plain_score(model, *substituted(text, candidate, pronoun), kind in ("gpt2", "llama"))
            assert score == pytest.approx(expected, abs=1e-3)
            assert score < 0


def test_the_pronouns_gender_matters(real_mlm, real_lm):
    she, he = TEXTS[0], TEXTS[0].replace("she", "he")
    for model in (real_mlm, real_lm):
        female, male = scores(model, [she], SPANS[:1])[0], scores(model, [he], [((0, 9), (14, 23), (32, 34))])[0]
        assert np.abs(female - male).max() > 1e-3


def test_text_that_is_too_long_is_refused(tiny_model):
    model = tiny_model("bert")
    text = "The nurse met the clerk because " + "the music was good and " * 200 + "she was late."
    at = text.index("she was")
    with pytest.raises(NotApplicableError, match=r"two copies of a text are longer than the \d+ tokens that .* reads"):
        scores(model, [text], [((0, 9), (14, 23), (at, at + 3))])


class Continuations:
    """A causal LM that likes nurses after she."""

    def continuation_log_probs(self, prefixes, continuations):
        assert all(prefix[-1] != " " for prefix in prefixes)
        likes = [("she" in p) == ("nurse" in c) for p, c in zip(prefixes, continuations, strict=True)]
        return np.where(likes, -1.0, -2.0)


def test_an_object_that_continues_texts():
    assert scores(wrap_object(Continuations())).tolist() == [[-1.0, -2.0], [-1.0, -2.0]]


def test_objects_that_cannot_score(tiny_model):
    class Fills:
        mask_token = "_"
        vocabulary = ("a", "b")

        def fill_scores(self, texts):
            return np.zeros((len(texts), 2))

    with pytest.raises(NotApplicableError, match="has no continuation_log_probs"):
        scores(wrap_object(Fills()))
    with pytest.raises(NotApplicableError, match="has no coreference_scores"):
        scores(tiny_model("bert"), adapter="own")


def test_an_object_with_a_wrong_answer():
    class Wrong:
        def coreference_scores(self, texts, candidates, pronouns):
            return self.answer

    question = Question(TextCases([(text,) for text in TEXTS], SPANS), CoreferenceScores(2, "own"))
    model = Wrong()
    for model.answer, message in ((np.zeros(3), r"shape \(3,\), expected \(2, 2\)"), (np.full((2, 2), np.nan), "NaN")):
        with pytest.raises(ScoreError, match=message):
            answer(question, wrap_object(model), "0" * 64, ScoreSettings(), "asked")


def test_cases_need_all_their_spans(real_lm):
    with pytest.raises(ValueError, match="spans of 2 candidates"):
        scores(real_lm, spans=[SPANS[0][:2], SPANS[1]])
