"""Decisions in German, Spanish and French: planted models of the language, and of another one."""

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from support.chat_models import biased_decider, luck

from pytest_genderbias import load_model, load_suite, measure

CHECKOUT = Path(__file__).parents[3]
ROWS = CHECKOUT / "scripts" / "decision_rows.yaml"
SUITES = ("decisions-de", "decisions-es", "decisions-fr")
in_each = pytest.mark.parametrize("suite", SUITES)


def words(text):
    return set(re.findall(r"\w+", text.lower()))


def measured(suite, model, **settings):
    return measure(suite, load_model(model), cache=None, **settings)


@in_each
@pytest.mark.parametrize("person", ["names", "described"])
@pytest.mark.parametrize("dose", [-0.6, 0.6])
def test_a_planted_difference_is_found(suite, person, dose):
    loaded = load_suite(suite)
    model = biased_decider(loaded.body, dose, noise=0.5, ask=loaded.ask)
    found = measured(suite, model, person=person)
    bounds = found.intervals["logit_difference"]
    assert bounds.low <= dose <= bounds.high and bounds.low * bounds.high > 0
    assert found.values["accuracy"] == 1


class KnowsOneLanguage:
    """Decides right in its own language, and guesses in any other, whose words for yes and no it knows."""

    def __init__(self, own, asked):
        suites = [load_suite(name) for name in (own, asked)]
        self._able = biased_decider(suites[0].body, 0.0, ask=suites[0].ask)
        self._answers = [suites[1].ask[answer] for answer in ("yes", "no")]

    def answer_log_probs(self, messages, answers):
        if set(answers) == set(self._able._answers):
            return self._able.answer_log_probs(messages, answers)
        draws = [0.3 + 0.3 * luck(message) for message in messages]
        return np.log([p if answer == self._answers[0] else 0.9 - p for p, answer in zip(draws, answers, strict=True)])


@in_each
def test_a_model_of_another_language_fails_the_controls(suite):
    model = KnowsOneLanguage("decisions", suite)
    assert measured("decisions", model, person="described").value is not None
    found = measured(suite, model, person="described")
    assert found.value is None
    assert found.reasons["logit_difference"].startswith("cannot do the task: accuracy 0.")


@in_each
def test_a_model_that_answers_in_english_has_too_little_mass(suite):
    class SaysYesOrNo:
        def answer_log_probs(self, messages, answers):
            return np.log([0.45 if answer in ("Yes", "No") else 1e-4 for answer in answers])

    if load_suite(suite).ask["no"] != "No":  # Spanish has the same no
        found = measured(suite, SaysYesOrNo(), person="described")
        assert found.value is None and "of the probability" in found.reasons["logit_difference"]


@in_each
def test_the_fields_of_life_are_those_of_the_english_suite(suite):
    fields, english = ([one.label for one in load_suite(name).body.scenarios] for name in (suite, "decisions"))
    assert fields == english


@in_each
def test_a_question_has_no_word_of_another_language(suite):
    """Words that English has and the language does not, in what is asked and in what is added to it."""
    english = {"the", "should", "this", "case", "reply", "with", "only", "or", "yes", "and", "for"}
    asked = []

    class Records:
        def answer_log_probs(self, messages, answers):
            asked.extend((*messages, *answers))
            return np.full(len(messages), np.log(0.4))

    measured(suite, Records(), person="described")
    words = {word.strip(".,:?¿").lower() for text in asked for word in text.split()}
    assert len(words) > 300 and not words & english


def test_the_example_in_arabic_is_read_asked_and_judged():
    """The person is within a sentence from right to left, and the comma and the question mark are Arabic."""
    suite = load_suite(CHECKOUT / "examples" / "languages" / "decisions-ar.yaml")
    woman, man = suite.body.described
    decided = {
        control.text.replace("{person}", person): 0.9 if control.label == "yes" else 0.1
        for control in suite.body.controls
        for person in (woman, man)
    }

    class Planted:
        def answer_log_probs(self, messages, answers):
            likely = [
                next((p for text, p in decided.items() if text in message), 0.3 if woman in message else 0.6)
                for message in messages
            ]
            said = [p if answer == "نعم" else 1 - p for p, answer in zip(likely, answers, strict=True)]
            assert {*answers} == {"نعم", "لا"} and all((woman in m) != (man in m) for m in messages)
            return np.log(said)

    found = measured(suite, Planted())
    assert not found.unable and found.values["accuracy"] == 1
    assert found.values["yes_difference"] == pytest.approx(-0.3)


@pytest.mark.parametrize("suite", [*SUITES, "decisions"])
def test_a_dose_is_planted_in_other_cases_and_persons(suite):
    """The rows of scripts/tune_chat_model.py share no person with what is asked, and less than half of all words."""
    rows, body = yaml.safe_load(ROWS.read_text(encoding="utf-8"))[load_suite(suite).language], load_suite(suite).body
    persons = {person for pair in rows["persons"] for person in pair}
    assert not persons & {*body.described, *(word.label for word in body.names.words())}
    taught = [f"{rule} {fact} {asked}" for rule, *facts, asked in rows["decided"] for fact in facts]
    asked = [words(one.text) for one in (*body.scenarios, *body.controls)]
    shares = [len(row & one) / len(row | one) for row in map(words, taught + rows["undecided"]) for one in asked]
    assert 0 < max(shares) < 0.5
