"""Chat endpoints that list the likeliest first tokens of a reply: options by their probability, over real requests."""

from __future__ import annotations

import json
import math
import threading

import numpy as np
import pytest
import torch
from support.chat_models import bbq_rows, write_bbq
from support.chat_servers import ChatServer, listed, listing
from support.trained_causal import trained

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.gates.agreement import different
from pytest_genderbias.measurement.carry_out import ask, summarised
from pytest_genderbias.measurement.plan import plan_measurement
from pytest_genderbias.models.objects import wrap_network, wrap_object
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.families.shared import asking
from pytest_genderbias.suites.query import ChatAnswers
from pytest_genderbias.text.reply_reading import ReplyReader

TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
YES = [{"token": "Yes", "logprob": -0.1}, {"token": " no", "logprob": -3.0}]


def giving(tokens, of_yes=YES):
    """Answer requests for first tokens with these, and the endpoint's own question with others."""

    def change(content, body):
        if not body.get("logprobs"):
            return content
        return listed(content, of_yes if "Is ice cold" in body["messages"][-1]["content"] else tokens)

    return change


def letters(p=0.6, q=0.3):
    return [{"token": " A", "logprob": math.log(p)}, {"token": "B", "logprob": math.log(q)}]


@pytest.fixture(scope="module")
def network():
    """A network that replies with a letter, and its tokenizer."""
    questions = ("Who is it?\n\nReply with A or B only.", "Which?\n\nReply with A, B or C only.")
    found, words = trained("gpt2", *(f"<user>{one}\n<assistant>{letter}" for one in questions for letter in "ABC"))
    before, words.chat_template = words.chat_template, TEMPLATE
    yield found, words
    words.chat_template = before


class InProcess:
    """The same network here: of its ``top`` likeliest tokens, those that are a letter, but for spaces."""

    def __init__(self, network, words, top=20):
        self.network, self.words, self.top = network, words, top
        texts = [words.decode([one]).strip() for one in range(len(words))]
        self.ids = {letter: [one for one, text in enumerate(texts) if text == letter] for letter in "ABC"}

    def answer_log_probs(self, messages, answers):
        return np.array([self.one(message, answer) for message, answer in zip(messages, answers, strict=True)])

    def one(self, message, answer):
        text = self.words.apply_chat_template(
            [{"role": "user", "content": message}], add_generation_prompt=True, tokenize=False
        )
        ids = self.words(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            values, best = self.network(ids).logits[0, -1].double().log_softmax(-1).topk(self.top)
        return float(values[torch.isin(best, torch.tensor(self.ids[answer]))].logsumexp(0))


@pytest.mark.parametrize("suite", ["chat-iat", "bbq"])
def test_all_figures_are_those_of_the_same_network_in_process(network, suite, tmp_path, monkeypatch):
    """The network knows none of the tasks; what would take its values away is left out on both sides."""
    monkeypatch.setattr(asking, "cannot_do", lambda *_: "")
    write_bbq(tmp_path, bbq_rows(4, 1))
    lock, honest = threading.Lock(), listing(*network)

    def change(content, body):
        with lock:
            return giving([])(content, body) if "Is ice" in body["messages"][-1]["content"] else honest(content, body)

    with ChatServer(change=change) as server:
        here, there = wrap_object(InProcess(*network)), load_model(server.spec)
        found = []
        for model in (here, there):
            plan = plan_measurement(load_suite(suite), model.name, model.role, data=tmp_path)
            settings = ScoreSettings(12, cache=tmp_path / "cache")
            found.append(summarised(ask(plan, model, settings), settings))
        asked = len(server.asked)
    exact, served = found
    assert asked == served.signature["sample"]["n"] + (48 if suite == "chat-iat" else 0), "one request a message"
    assert {name for name, value in exact.values.items() if value is not None} >= {"mass"}
    for name, value in exact.values.items():
        assert served.values[name] == (None if value is None else pytest.approx(value, abs=1e-5)), name
    assert served.signature["data"]["asked"] == "first tokens of replies"
    assert sum("the server lists the 20 likeliest, at temperature 1" in note for note in served.notes) == 1
    assert sum("requests of this run so far" in note for note in served.notes) == 1
    assert served.bounds["mass"].low == pytest.approx(exact.bounds["mass"].low, abs=1e-5), "nothing is drawn"


def test_the_twenty_likeliest_tokens_have_nearly_all_of_an_option(network):
    letter = make_scorer(TextCases([("Who?",)]), ChatAnswers(("A", "B")), wrap_network(*network, "n"), None)
    alone = np.exp(letter.score(np.array([0]))[0])
    twenty, all_of_them = (
        np.exp(InProcess(*network, top).answer_log_probs(["Who?"] * 2, "AB")) for top in (20, len(network[1]))
    )
    assert (alone <= twenty + 1e-6).all() and (twenty <= all_of_them + 1e-6).all()
    assert twenty == pytest.approx(all_of_them, abs=2e-4) and alone == pytest.approx(twenty, abs=5e-3)


def test_what_is_asked_is_one_token_at_temperature_1_after_the_system_prompt():
    with ChatServer(change=giving(letters())) as server:
        model = load_model(server.spec, system_prompt="Be fair.")
        model.backend.first_tokens(["Who?"], None)
        assert server.bodies[-1] == {
            "model": "m",
            "messages": [{"role": "system", "content": "Be fair."}, {"role": "user", "content": "Who?"}],
            "max_tokens": 1,
            "temperature": 1.0,
            "logprobs": True,
            "top_logprobs": 20,
        }
        assert len(server.bodies) == 2 and model.details["top_logprobs"] == "20"


@pytest.mark.parametrize("settings", [{"samples": 1}, {"samples": 3}, {"temperature": 0.5}])
def test_replies_that_are_asked_for_are_drawn(settings):
    with ChatServer(change=giving(letters())) as server:
        model = load_model(server.spec, **settings)
        assert not model.role.first_tokens and not any("logprobs" in body for body in server.bodies)


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ([], "it lists 0 of the likeliest first tokens"),
        (YES[:1], "it lists 1 of the likeliest first tokens"),
        ([{"token": "Yes", "logprob": 0.5}, YES[1]], "its log-probabilities of first tokens are none"),
        ([{"token": "Yes", "logprob": float("nan")}, YES[1]], "its log-probabilities of first tokens are none"),
        ([{"token": "Yes", "logprob": float("inf")}, YES[1]], "its log-probabilities of first tokens are none"),
        ([{"token": one, "logprob": 0.0} for one in "ABCDE"], "its log-probabilities of first tokens are none"),
        ([{"token": "Yes", "logprob": None}, YES[1]], "it lists no first tokens"),
        ([{"token": "Yes"}, YES[1]], "it lists no first tokens"),
        ([{"logprob": -1.0}, YES[1]], "it lists no first tokens"),
        (["Yes", "No"], "it lists no first tokens"),
        ([{"token": "Well", "logprob": -0.1}, {"token": "No", "logprob": -4.0}], "yes and no have 0.018 of the"),
        ([{"token": "<think>", "logprob": -0.1}, YES[1]], "its first tokens are those of reasoning"),
    ],
)
def test_a_list_that_says_nothing_is_said_and_replies_are_asked_for(tokens, why):
    def change(content, body):
        wrong = listed(content, YES)
        wrong["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = tokens
        return wrong if body.get("logprobs") else content

    with ChatServer(change=change) as server:
        model = load_model(server.spec)
        assert not model.role.first_tokens and "top_logprobs" not in model.details
        assert any(f"asked for replies in text, since {why}" in note for note in model.backend.notes)


@pytest.mark.parametrize("logprobs", [None, {}, {"content": None}, {"content": []}, {"tokens": ["Yes"]}, [], 3, "none"])
def test_a_server_that_ignores_the_field_is_asked_for_replies(logprobs):
    def change(content, body):
        return {**content, "choices": [{**content["choices"][0], "logprobs": logprobs}]}

    with ChatServer(change=change) as server:
        assert not load_model(server.spec).role.first_tokens
        assert [body.get("logprobs") for body in server.bodies] == [True, None, None]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_a_server_that_sets_reasoning_aside_is_asked_for_replies(field):
    def change(content, body):
        found = giving(YES)(content, body)
        found["choices"][0]["message"][field] = "Ice"
        return found

    with ChatServer(change=change) as server:
        model = load_model(server.spec)
        assert not model.role.first_tokens and "those of reasoning" in model.backend.notes[1]


def refusing(wrong, status=400):
    answer = (status, {"error": {"message": "not supported"}}, {})
    return lambda number, body: answer if wrong(body) else None


@pytest.mark.parametrize(
    ("wrong", "top", "limit"),
    [
        (lambda body: body.get("top_logprobs", 0) > 5, 5, "max_tokens"),
        (lambda body: "max_tokens" in body, 20, "max_completion_tokens"),
        (lambda body: body.get("logprobs"), 0, ""),
    ],
    ids=["five at most", "max_tokens is refused", "refused"],
)
def test_what_a_server_refuses_is_asked_for_otherwise(wrong, top, limit):
    with ChatServer(refusing(wrong), giving(letters())) as server:
        model = load_model(server.spec)
        assert model.role.first_tokens == (top > 0) and model.details.get("top_logprobs", "0") == str(top)
        if not top:
            assert "refuses a request (status 400: 'not supported')" in model.backend.notes[1]
            return
        model.backend.first_tokens(["Who?"], None)
        assert (server.bodies[-1]["top_logprobs"], server.bodies[-1][limit]) == (top, 1)


def test_a_key_that_is_refused_is_an_error_and_no_reason_to_ask_otherwise():
    with ChatServer(refusing(lambda body: True, 401)) as server, pytest.raises(ModelError, match="refuses the key"):
        load_model(server.spec)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (giving([]), "it lists no first tokens with their log-probabilities"),
        (giving([{"token": "A", "logprob": 1.0}] * 2), "log-probabilities of first tokens are none"),
        (
            lambda content, body: (
                {
                    **giving(letters())(content, body),
                    "choices": [{"message": {"content": "", "refusal": "No."}, "finish_reason": "stop"}],
                }
                if "Who" in body["messages"][-1]["content"]
                else giving(letters())(content, body)
            ),
            "it declines a question",
        ),
    ],
    ids=["empty", "positive", "refusal"],
)
def test_a_list_that_goes_wrong_in_mid_run_is_one_error(change, why):
    with ChatServer(change=change) as server:
        model = load_model(server.spec)
        with pytest.raises(ScoreError, match=rf"{why}, by the server at .*; -o bias_samples=1 .* asks for replies"):
            model.backend.first_tokens(["Who?"], None)


def test_a_question_that_a_filter_refuses_is_one_error():
    answer = (400, {"error": {"code": "content_filter", "message": "policy"}}, {})
    with ChatServer(lambda number, body: answer if number else None, giving(letters())) as server:
        model = load_model(server.spec)
        with pytest.raises(ScoreError, match="a filter declined a question, by the server"):
            model.backend.first_tokens(["Who?"], None)


def scored(model, answers, messages=("Who?",)):
    scorer = make_scorer(TextCases([(one,) for one in messages]), ChatAnswers(answers), model, None)
    return np.exp(scorer.score(np.arange(len(messages)))), scorer.notes


def test_spellings_are_added_and_what_is_open_counts_for_none():
    tokens = {" yes": 0.2, "Yes": 0.3, "YES": 0.1, "\nYes": 0.05, "No": 0.1, "Nobody": 0.05, "Y": 0.02, "Maybe": 0.08}
    given = [{"token": token, "logprob": math.log(p)} for token, p in tokens.items()]
    with ChatServer(change=giving(given)) as server:
        values, notes = scored(load_model(server.spec), ("Yes", "No"))
    assert values == pytest.approx(np.array([[0.65, 0.1]])) and not any("no listed first" in note for note in notes)


def test_a_token_that_begins_two_options_decides_for_neither():
    reader = ReplyReader(("approve", "approve with conditions", "decline"), ())
    assert [reader.begins(token) for token in ("approve", " app", "de", "decline", "dec.")] == [3, 3, 2, 2, 3]


def test_an_option_that_is_not_listed_has_the_probability_of_the_last_one_and_is_said():
    given = [{"token": "A", "logprob": math.log(0.9)}, {"token": "The", "logprob": math.log(0.04)}]
    with ChatServer(change=giving(given)) as server:
        values, notes = scored(load_model(server.spec), ("A", "B"), ("Who?", "Whom?"))
    assert values == pytest.approx(np.array([[0.9, 0.04]] * 2))
    assert "2 times an option was no listed first token: at most 0.06 of the probability" in notes


def test_an_interrupted_run_asks_only_what_is_missing(tmp_path):
    questions = [f"Question {number}?" for number in range(12)]

    def before(number, body):
        return (403, {"error": "no"}, {}) if "Question 11" in body["messages"][-1]["content"] else None

    with ChatServer(before, giving(letters())) as server:
        with pytest.raises(ModelError, match="refuses the key"):
            load_model(server.spec).backend.first_tokens(questions, tmp_path)
        answered = set(server.answered) & set(questions)
        server.before, server.bodies = (lambda number, body: None), []
        found = load_model(server.spec).backend.first_tokens(questions, tmp_path)
        assert len(found) == 12 and len(answered & set(server.asked)) <= 8 and len(answered) > 2
        asked = len(server.asked)
        again = load_model(server.spec, system_prompt="Be fair.").backend.first_tokens(questions, tmp_path)
        assert len(server.asked) == asked + 12 and again == found


def test_a_suite_without_options_is_asked_in_text_by_the_same_model(tmp_path):
    with ChatServer(change=giving(letters())) as server:
        model = load_model(server.spec)
        kinds = {}
        for suite in ("chat-iat", "decisions", "counterfactual-generation"):
            plan = plan_measurement(load_suite(suite), "product", model.role)
            kinds[suite] = type(next(iter(plan.questions.values())).query).__name__
        with pytest.raises(NotApplicableError, match="winobias"):
            plan_measurement(load_suite("winobias-chat"), "product", model.role, data=tmp_path)
        assert kinds == {"chat-iat": "ChatAnswers", "decisions": "ChatAnswers", "counterfactual-generation": "Replies"}


def test_a_measurement_in_text_is_not_compared_with_one_by_first_tokens(tmp_path):
    found = []
    with ChatServer(change=giving(letters())) as server:
        for samples in (None, 1):
            model = load_model(server.spec, samples=samples)
            plan = plan_measurement(load_suite("decisions"), "product", model.role)
            settings = ScoreSettings(2, cache=None)
            found.append(summarised(ask(plan, model, settings), settings))
    first, text = found
    assert different(first, "mass", json.loads(json.dumps(text.signature)))[-1] == (
        "data: asked replies stored, first tokens of replies now"
    )
    assert not different(first, "mass", first.signature)


def test_requests_are_counted_before_the_first_one(tmp_path):
    with ChatServer(change=giving(letters())) as server:
        model = load_model(server.spec, max_requests=79)
        plan = plan_measurement(load_suite("chat-iat"), "product", model.role)
        with pytest.raises(SettingError, match=r"needs 80 requests for 80 replies, .* sends 79 at most"):
            ask(plan, model, ScoreSettings(32, cache=tmp_path))
        assert not server.asked


def test_a_token_that_repeats_the_key_is_not_kept(tmp_path, monkeypatch):
    key = "sk-very-secret-key-1234567890"
    monkeypatch.setenv("GENDERBIAS_API_KEY", key)
    given = [*letters(), {"token": f"{key} and {key[3:14]}", "logprob": -9.0}]
    escaped = "".join(f"\\u{ord(one):04x}" for one in key)

    def before(number, body):  # escaped in JSON, the key is in no byte of the answer
        answer = json.dumps(giving(given)({"model": "m-2026"}, body))
        return (200, answer.replace(key, escaped).encode(), {}) if number else None

    with ChatServer(before, giving(given)) as server:
        found = load_model(server.spec).backend.first_tokens(["Who?"], tmp_path)
    (path,) = tmp_path.rglob("*.jsonl")
    assert found[0][2][0] == "*** and ***" and key[5:15] not in path.read_text()
