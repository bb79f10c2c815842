"""Chat models: the template around a message, and answers right after its end, against a plain loop."""

import json
from datetime import datetime, timezone

import numpy as np
import pytest
import torch
from support.chat_models import AlwaysA
from support.tiny_checkpoints import CAUSAL, make_network, save_checkpoint, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError
from pytest_genderbias.models.chat_template import DETAIL, ChatPrompts, chat_template_details
from pytest_genderbias.models.objects import wrap_network, wrap_object
from pytest_genderbias.scoring.chat import answer_ids
from pytest_genderbias.scoring.engine import ScoreSettings, _key, answer
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.query import ChatAnswers, SlotLogProbability

TURNS = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
SPACED = (
    "{% for m in messages %}{% if m['role'] == 'user' %}Q: {{ m['content'] }} A:{% else %} {{ m['content'] }} END{%"
    " endif %}{% endfor %}"
)
MESSAGES = [
    "Who is it?\nA: The nurse\nB: The cook",
    "Who?",
    "Who is it, then, of the two persons?\nA: The cook\nB: The nurse",
]
ANSWERS = ("A", "B", "The nurse is")


@pytest.fixture
def templated():
    """Give the tokenizers of the tests a chat template for one test: they are shared."""
    changed = []

    def give(kind, template=TURNS):
        words = tokenizer(kind)
        changed.append((words, words.chat_template))
        words.chat_template = template
        changes = {"n_positions": 128} if kind == "gpt2" else {"max_position_embeddings": 128}
        return wrap_network(make_network(kind, **changes), words, "chat")

    yield give
    for words, before in reversed(changed):
        words.chat_template = before


def cases(messages=MESSAGES):
    return TextCases([(message,) for message in messages])


def plain(model, message, answer, lead=""):
    """Score an answer token by token, one forward pass each."""
    words, network = model.backend.tokenizer, model.backend.network
    text = words.apply_chat_template([{"role": "user", "content": message}], add_generation_prompt=True, tokenize=False)
    ids = words(text, add_special_tokens=False)["input_ids"]
    whole = words(text + lead + answer, add_special_tokens=False)["input_ids"]
    assert whole[: len(ids)] == ids
    total = 0.0
    for at in range(len(ids), len(whole)):
        with torch.no_grad():
            total += float(network(torch.tensor([whole[:at]])).logits[0, -1].double().log_softmax(-1)[whole[at]])
    return total


@pytest.mark.parametrize("kind", CAUSAL)
def test_answers_are_scored_right_after_the_template(templated, kind):
    model = templated(kind)
    scorer = make_scorer(cases(), ChatAnswers(ANSWERS), model, None)
    found = scorer.score(np.array([2, 0, 1, 0]))
    expected = [[plain(model, MESSAGES[i], answer) for answer in ANSWERS] for i in (2, 0, 1, 0)]
    assert found == pytest.approx(np.array(expected), rel=1e-4, abs=1e-4)
    assert found.shape == (4, 3) and (found < 0).all()


def test_answers_of_one_token_share_a_pass(templated):
    model = templated("gpt2")
    passed = []
    network = model.backend.network
    handle = network.register_forward_pre_hook(
        lambda module, args, kwargs: passed.append(kwargs["input_ids"].shape), with_kwargs=True
    )
    make_scorer(cases(), ChatAnswers(("A", "B", "C")), model, None).score(np.arange(3))
    handle.remove()
    proofs = 2 * 2 + 1  # the longest and the shortest row with and without shortcuts, and the shortest alone
    assert sum(rows for rows, _ in passed) == proofs + 3, "one row per message, not one per answer"


def ordered(units=3, orders=6):
    """Return units of messages that begin alike: a question with its options in another order each time."""
    texts = [
        (
            (
                f"Who of them, in case {unit}, was it then?\nA: The {'nurse' if order % 2 else 'cook'}\nB: number"
                f" {order}{'!' * order}"
            ),
        )
        for unit in range(units)
        for order in range(orders)
    ]
    return TextCases(texts, cases_per_unit=orders)


@pytest.mark.parametrize("kind", CAUSAL)
def test_what_messages_begin_with_is_passed_once(templated, kind):
    model, cases = templated(kind), ordered()
    query = ChatAnswers(("A", "B"))
    shared, whole = (make_scorer(cases, query, model, None) for _ in range(2))
    whole._beginnings.usable = False
    passed = []
    handle = model.backend.network.register_forward_pre_hook(
        lambda module, args, kwargs: passed.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    found = shared.score(np.arange(6, 18))
    assert shared._beginnings.usable
    of_shared = sum(passed[1:])  # the first group is also passed as whole rows
    passed.clear()
    expected = whole.score(np.arange(6, 18))
    handle.remove()
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-4)
    assert of_shared < 0.8 * sum(passed)
    again = shared.score(np.arange(12, 18))
    assert np.array_equal(again, found[6:]), "a unit has the same scores whatever is scored beside it"


def test_a_network_that_cannot_reuse_a_beginning_is_passed_whole_rows(templated, monkeypatch):
    model, cases = templated("gpt2"), ordered()
    expected = make_scorer(cases, ChatAnswers(("A", "B")), model, None)
    expected._beginnings.usable = False
    body = type(model.backend.network.base_model)
    plain = body.forward

    def forgetful(self, *arguments, past_key_values=None, **more):
        return plain(self, *arguments, **more)

    monkeypatch.setattr(body, "forward", forgetful)
    scorer = make_scorer(cases, ChatAnswers(("A", "B")), model, None)
    found = scorer.score(np.arange(12))
    assert not scorer._beginnings.usable
    assert found == pytest.approx(expected.score(np.arange(12)), rel=1e-6)


def test_a_group_without_a_common_beginning_is_no_proof_that_beginnings_can_be_reused(templated, monkeypatch):
    model = templated("gpt2", "{% for m in messages %}{{ m['content'] }}{% endfor %}")
    cases = TextCases(
        [
            ("The nurse went home by the long way round the lake",),
            ("A cook",),
            *[(f"Who was it, {i}",) for i in (1, 2)],
        ],
        cases_per_unit=2,
    )
    body = type(model.backend.network.base_model)
    plain = body.forward
    monkeypatch.setattr(body, "forward", lambda self, *given, past_key_values=None, **more: plain(self, *given, **more))
    scorer, whole = (make_scorer(cases, ChatAnswers(("A", "B")), model, None) for _ in range(2))
    whole._beginnings.usable = False
    assert scorer.score(np.arange(4)) == pytest.approx(whole.score(np.arange(4)), rel=1e-5)
    assert not scorer._beginnings.usable


def test_beginnings_are_not_reused_for_parts_of_units_and_longer_answers(templated):
    model, cases = templated("gpt2"), ordered()
    for query, numbers in (
        (ChatAnswers(("A", "B")), [0, 1, 2, 6, 7, 8]),
        (ChatAnswers(("A", "The nurse is")), range(6)),
    ):
        scorer, whole = (make_scorer(cases, query, model, None) for _ in range(2))
        whole._beginnings.usable = False
        assert np.array_equal(scorer.score(np.array(list(numbers))), whole.score(np.array(list(numbers))))


def test_a_template_that_puts_a_space_before_answers_gets_it(templated):
    model = templated("gpt2", SPACED)
    prompts = ChatPrompts(model.backend.tokenizer, "chat")
    assert (prompts.prompt("Who?"), prompts.space_before("A")) == ("Q: Who? A:", " ")
    found = make_scorer(cases(), ChatAnswers(("A", "B")), model, None).score(np.array([1]))
    assert found[0] == pytest.approx([plain(model, "Who?", answer, " ") for answer in "AB"], rel=1e-4)
    assert ChatPrompts(templated("gpt2").backend.tokenizer, "chat").space_before("A") == ""


def test_an_answer_that_would_merge_with_the_template_is_tokenised_alone():
    words = tokenizer("gpt2")
    prompt = "Answer: "
    merged = words(prompt + "nurse", add_special_tokens=False)["input_ids"]
    ids = words(prompt, add_special_tokens=False)["input_ids"]
    assert merged[: len(ids)] != ids, "the space belongs to the word there"
    first, (answer,) = answer_ids(words, prompt, ["nurse"], "chat")
    assert first.tolist() == ids
    assert words.decode(np.concatenate([first, answer]).tolist()) == "Answer: nurse"


def test_an_answer_without_tokens_is_refused():
    words = tokenizer("llama")
    with pytest.raises(ModelError, match="has no tokens for the answer ' ' after its chat template"):
        answer_ids(tokenizer("bert"), "Answer:", [" "], "chat")
    first, (answer,) = answer_ids(words, "Answer:", ["nurse"], "chat")
    assert len(first) and len(answer)


def test_the_prompt_is_the_same_on_every_day_and_without_thinking_aloud(templated):
    template = (
        "{% set today = strftime_now('%Y-%m-%d') %}{{ today }} {{ strftime_now('%d %b %Y') }} {{ date_string }}{% if"
        " enable_thinking is defined and not enable_thinking %} quiet{% endif %}{% for m in messages %} {{ m['content']"
        " }}{% endfor %}"
    )
    prompts = ChatPrompts(templated("gpt2", template).backend.tokenizer, "chat")
    assert prompts.prompt("Hi") == "2024-07-26 26 Jul 2024 26 Jul 2024 quiet Hi"
    assert datetime.now(timezone.utc).strftime("%d %b %Y") not in prompts.prompt("Hi")


@pytest.mark.parametrize("begin", ["", "\n", "  ", "\n\n ", "  {% if true %}x{% endif %}", "\n{{ 1 }}"])
def test_a_template_that_writes_the_date_begins_as_without_it(templated, begin):
    """White space at its beginning stays, or goes, as it does in a template without the function."""
    rest = " on {}{{% for m in messages %}} {{{{ m['content'] }}}}{{% endfor %}}"
    plain, dated = (
        ChatPrompts(templated("gpt2", begin + rest.format(year)).backend.tokenizer, "chat").prompt("Hi")
        for year in ("2024", "{{ strftime_now('%Y') }}")
    )
    assert dated == plain
    assert plain.endswith(" on 2024 Hi")


def test_a_template_that_fails_is_one_error(templated):
    for template in ("{% for %}", "{{ raise_exception('no users') }}"):
        model = templated("gpt2", template)
        with pytest.raises(
            ModelError, match=r"the chat template of chat cannot be used: .*; correct chat_template\.jinja"
        ):
            make_scorer(cases(), ChatAnswers(("A", "B")), model, None).score(np.array([0]))


def test_several_templates_without_a_default_are_one_error(templated):
    model = templated("gpt2", {"rag": TURNS, "tool_use": TURNS})
    with pytest.raises(ModelError, match=r"the chat template of chat cannot be used: .*no default"):
        make_scorer(cases(), ChatAnswers(("A", "B")), model, None)


def test_a_question_that_is_too_long_is_refused(templated):
    model = templated("gpt2")
    long = cases(["word " * 300])
    with pytest.raises(ModelError, match=r"has \d+ tokens with its answer, the model reads 128"):
        make_scorer(long, ChatAnswers(("A", "B")), model, None).score(np.array([0]))


def test_a_causal_lm_without_a_template_does_not_apply():
    model = wrap_network(make_network("gpt2"), tokenizer("gpt2"), "plain")
    with pytest.raises(NotApplicableError, match="plain has no chat template, which this suite puts its questions in"):
        make_scorer(cases(), ChatAnswers(("A", "B")), model, None)


def test_the_template_is_named_and_part_of_the_cache_key(templated, tmp_path):
    def key(model, query):
        return _key(cases(), query, model, "d", ScoreSettings())

    one, other = templated("gpt2"), templated("gpt2", SPACED)
    assert one.details[DETAIL] != other.details[DETAIL]
    assert chat_template_details(one.backend.tokenizer) == {DETAIL: other.details[DETAIL]}, "the tokenizer is shared"
    query, slot = ChatAnswers(("A", "B")), SlotLogProbability("occupation")
    assert key(one, query)["template"] == one.details[DETAIL] != key(other, query)["template"]
    assert "template" not in key(one, slot), "scores of other questions stay as they are stored"


def test_a_saved_checkpoint_names_its_template_and_other_suites_say_that_they_do_not_use_it(tmp_path):
    folder = save_checkpoint("gpt2", tmp_path / "model")
    plain_model = measure("lm-occupation", str(folder), limit=8, cache=None)
    assert DETAIL not in plain_model.signature["model"]
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": TURNS}))
    chat = measure("lm-occupation", str(folder), limit=8, cache=None)
    assert chat.value == plain_model.value
    assert chat.signature["model"][DETAIL] == chat_template_details(load_model(str(folder)).backend.tokenizer)[DETAIL]
    note = "the model has a chat template, which this suite does not use: its texts are scored as they are"
    assert note in chat.notes and note not in plain_model.notes


def test_whether_a_suite_fits_is_told_by_the_files(tmp_path):
    from pytest_genderbias.measurement.fit import fit_of
    from pytest_genderbias.measurement.runner import Runner
    from pytest_genderbias.models.spec import parse_spec

    folder = save_checkpoint("gpt2", tmp_path / "model")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings.pop("chat_template", None)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))

    def fit():
        runner = Runner()
        return fit_of(runner, runner.suites("chat-iat"), parse_spec(f"m={folder}"))

    assert (fit().obstacle, fit().reason.partition(",")[0]) == ("other model", "m has no chat template")
    (folder / "chat_template.jinja").write_text(TURNS)
    assert (fit().obstacle, fit().cases) == ("", 460)
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": TURNS}))
    assert fit().obstacle == ""


def test_an_object_answers_for_itself():
    model = wrap_object(AlwaysA())
    assert model.role.kind == "chat-model"
    found = make_scorer(cases(), ChatAnswers(("A", "B")), model, None).score(np.array([1, 0]))
    assert np.exp(found) == pytest.approx(np.array([[0.9, 0.04]] * 2))


def test_an_object_that_answers_nonsense_is_refused():
    class Positive:
        def answer_log_probs(self, messages, answers):
            return np.ones(len(messages))

    class Missing:
        def answer_log_probs(self, messages, answers):
            return np.full(len(messages), -np.inf)

    for broken, message in ((Positive(), "at most 0"), (Missing(), "NaN or infinite")):
        with pytest.raises(ScoreError, match=message):
            answer(Question(cases(), ChatAnswers(("A", "B"))), wrap_object(broken), "0" * 64, ScoreSettings(), "asked")


def test_another_object_does_not_apply():
    class Writer:
        def continuation_log_probs(self, prefixes, continuations):
            return -np.ones(len(prefixes))

    with pytest.raises(NotApplicableError, match=r"has no answer_log_probs\(messages, answers\)"):
        make_scorer(cases(), ChatAnswers(("A", "B")), wrap_object(Writer()), None)
