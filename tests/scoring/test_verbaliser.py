"""NLI suites on causal LMs that are asked in words, against a plain loop, and what is said where they are not."""

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import CAUSAL, suite_space

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.models.roles import Role
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import PairProbabilities, VerbalisedProbabilities
from pytest_genderbias.suites.suite import load_suite

OWN = "{hypothesis} is said, for {premise} So it | follows for sure | may be | is wrong"
PAIRS = [("The nurse ate a bagel.", "The man ate a bagel."), ("The doctor bought a car.", "The woman bought a car.")]


def asked(**options):
    return suite_space("nli-occupation", **options)


def plain(model, query, premise, hypothesis):
    """Return the three probabilities from one forward pass an answer."""
    prompt = query.template.replace("{premise}", premise).replace("{hypothesis}", hypothesis)
    tokenizer, total = model.backend.tokenizer, []
    for answer in query.answers:
        encoded = tokenizer(f"{prompt} {answer}", return_offsets_mapping=True)
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        with torch.no_grad():
            logits = model.backend.network(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        total.append(sum(float(logits[t - 1, ids[t]]) for t, (_, stop) in enumerate(offsets) if stop > len(prompt)))
    return np.exp(total) / np.exp(total).sum()


@pytest.mark.parametrize("kind", CAUSAL)
@pytest.mark.parametrize("verbaliser", [OWN, "{premise} {hypothesis} | yes | maybe | no"])
def test_probabilities_are_those_of_a_plain_loop(tiny_model, kind, verbaliser):
    model = tiny_model(kind)
    _, query = asked(verbaliser=verbaliser)
    found = make_scorer(TextCases(PAIRS), query, model, None).score(np.arange(2))
    assert np.allclose(found, [plain(model, query, *pair) for pair in PAIRS], atol=1e-5)
    assert np.allclose(found.sum(axis=1), 1.0)


def test_answers_of_one_token_cost_one_row_a_pair(tiny_model):
    model, rows = tiny_model("gpt2"), []
    _, query = asked(verbaliser="{premise} {hypothesis} It is | a | b | c")
    scorer = make_scorer(TextCases(PAIRS), query, model, None)
    scorer.score(np.arange(2))  # finds the short way
    handle = model.backend.network.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    scorer.score(np.arange(2))
    handle.remove()
    assert sum(rows) == 2


@pytest.mark.parametrize("name", ["yes-maybe-no", "true-neither-false"])
def test_named_questions(name):
    _, query = asked(verbaliser=name)
    assert isinstance(query, VerbalisedProbabilities)
    assert query.prompt("He sings.", "She sings.").startswith("He sings.\nQuestion: She sings.")
    assert len(set(query.answers)) == 3
    assert query.answers[0] in ("Yes", "True")
    assert query.answers[2] in ("No", "False")


def test_slots_may_stand_in_either_order_and_texts_are_not_read_again():
    _, query = asked(verbaliser=OWN)
    assert query.prompt("A {hypothesis}.", "B.") == "B. is said, for A {hypothesis}. So it"


@pytest.mark.parametrize(
    "wrong",
    [
        "maybe",
        "{premise} | a | b | c",
        "{premise} {hypothesis} | a | b",
        "{premise} {hypothesis} | a | b | a",
        3,
        "{premise} {premise} {hypothesis} | a | b | c",
        "{premise} {hypothesis} | a |  | c",
    ],
)
def test_wrong_questions_are_refused(wrong):
    with pytest.raises(
        SettingError, match="'verbaliser' of nli-occupation should be yes-maybe-no, true-neither-false, or"
    ):
        asked(verbaliser=wrong)


def test_a_causal_lm_without_a_chat_template_is_asked_with_the_option_only(tiny_model):
    suite = load_suite("nli-occupation")
    with pytest.raises(NotApplicableError, match=r"has no chat template.*--bias-option verbaliser=yes-maybe-no"):
        measure(suite, tiny_model("gpt2"), cache=None)
    with pytest.raises(NotApplicableError, match=r"has no answer_log_probs.*--bias-option verbaliser=yes-maybe-no"):
        measure(suite, wrap_object(Sayer()), cache=None)
    with pytest.raises(NotApplicableError, match="the option verbaliser is for causal LMs"):
        plan_measurement(suite, "m", Role("nli-classifier", "an NLI classifier"), {"verbaliser": "yes-maybe-no"})
    _, query = asked()
    assert query == PairProbabilities()


def test_the_question_stands_in_the_signature(tiny_model):
    found = measure("nli-occupation", tiny_model("llama"), verbaliser=OWN, limit=50, cache=None)
    assert found.n == 50
    assert found.signature["settings"]["verbaliser"] == OWN
    assert 0 < found.value < 1
    assert found.interval is not None


class Sayer:
    """Finds every answer as likely as its length says."""

    def __init__(self, shape=None):
        self.shape = shape

    def continuation_log_probs(self, prefixes, continuations):
        return np.zeros(self.shape) if self.shape else [-float(len(text)) for text in continuations]


def test_an_object_is_asked_in_words():
    found = measure(
        "nli-occupation", wrap_object(Sayer()), verbaliser="{premise} {hypothesis} | aaa | a | aa", limit=20, cache=None
    )
    e = np.exp([-3.0, -1.0, -2.0])
    assert found.value == pytest.approx(e[1] / e.sum())
    assert found.values["fraction_neutral"] == 1.0
    with pytest.raises(ScoreError, match=r"shape \(2,\), expected \(60,\)"):
        measure("nli-occupation", wrap_object(Sayer((2,))), verbaliser="yes-maybe-no", limit=20, cache=None)


def test_a_question_that_is_too_long_is_refused(tiny_model):
    _, query = asked(verbaliser="so " * 80 + "{premise} {hypothesis} | a | b | c")
    with pytest.raises(ModelError, match=r"longer than the 64 tokens that .* reads; shorten the template"):
        make_scorer(TextCases(PAIRS), query, tiny_model("gpt2"), None).score(np.arange(2))


def test_a_planted_answer_is_found(checkpoint):
    """A head that says one word, whatever is asked, has the probability one of that label."""
    model = load_model(str(checkpoint("gpt2")), device="cpu")
    model.backend.network.lm_head = torch.nn.Linear(16, len(model.backend.tokenizer), bias=True)
    word = model.backend.tokenizer(" man")["input_ids"]
    with torch.no_grad():
        model.backend.network.lm_head.bias[word] += 100.0
    _, query = asked(verbaliser="{premise} {hypothesis} This is the | woman | man | nurse")
    found = make_scorer(TextCases(PAIRS), query, model, None).score(np.arange(2))
    assert len(word) == 1
    assert np.allclose(found, [[0, 1, 0]] * 2, atol=1e-6)


def test_a_real_causal_lm(real_lm):
    found = measure("nli-occupation", real_lm, verbaliser="yes-maybe-no", limit=40, cache=None)
    record = next(r for r in found.records if r["slice"] == "largest entailment")
    premise, hypothesis = record["value"].split(" / ")
    _, query = asked(verbaliser="yes-maybe-no")
    assert record["entailment"] == pytest.approx(plain(real_lm, query, premise, hypothesis)[0], abs=1e-5)
