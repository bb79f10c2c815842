"""A model both ways: replies that its own network writes, and how far they are what its probabilities say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.chat_models import AlwaysA, Sampled, biased_decider, iat_chooser
from support.tiny_checkpoints import make_network, tokenizer
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.measurement.reply_questions import can_think, replying_in_text, two_ways
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.models.replies import Asked
from pytest_genderbias.scoring.engine import ScoreSettings
from pytest_genderbias.scoring.sampled_texts import ChatSampler, ReplySampler
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import ChatReplies, GeneratedReplies

PLAIN = "{% for m in messages %}{{ m['content'] }}{% endfor %} is"
THINKING = PLAIN + "{% if enable_thinking is defined and enable_thinking %} thinking{% endif %}"
ALWAYS_THINKING = PLAIN + "<think>\n"
MESSAGES = ["The nurse and the cook", "The cook and the nurse", "He", "She is a teacher and he is a doctor, too"]
NOTHING = ScoreSettings(cache=None)


@pytest.fixture
def chat() -> Any:
    """Makes a chat model with a template."""
    words = tokenizer("gpt2")
    before = words.chat_template

    def make(template: str = PLAIN, **changes: int) -> Model:
        words.chat_template = template
        return wrap_network(make_network("gpt2", **{"n_positions": 128, **changes}), words, "chat")

    yield make
    words.chat_template = before


def sampled(model: Model, samples: int, seed: int = 0) -> np.ndarray:
    texts = [(text,) for text in MESSAGES for _ in range(samples)]
    query = ChatReplies(6, samples, seed, 1.0, "{prompt}")
    found = [kind(TextCases(texts), query, model, None) for kind in (ChatSampler, ReplySampler)]
    fast, slow = (sampler.score(np.arange(len(texts))) for sampler in found)
    for one, other in zip(fast.tolist(), slow.tolist(), strict=True):
        end = next((at for at, token in enumerate(other) if token in found[0]._ends), len(other))
        assert one[: end + 1] == other[: end + 1], "equal prompts that are read once draw what each of them draws"
    return fast


def test_equal_prompts_are_read_once_and_draw_the_same(chat: Any) -> None:
    model = chat()
    read: list[int] = []
    model.backend.network.register_forward_pre_hook(
        lambda module, args, kwargs: read.append(kwargs["input_ids"].shape[0] * kwargs["input_ids"].shape[1]),
        with_kwargs=True,
    )
    many = sampled(model, 12)
    assert len({tuple(row) for row in many[:12].tolist()}) > 6, "each sample has random numbers of its own"
    of_fast = read[: len(read) // 2]
    assert sum(of_fast) < sum(read) / 2
    assert not np.array_equal(sampled(model, 12, seed=1), many)


def test_the_first_tokens_have_the_probabilities_of_the_network(chat: Any) -> None:
    model, samples = chat(), 4000
    texts = TextCases([(MESSAGES[0],)] * samples)
    drawn = ChatSampler(texts, ChatReplies(1, samples, 0, 1.0, "{prompt}"), model, None).score(np.arange(samples))[:, 0]
    ids = model.backend.tokenizer(MESSAGES[0] + " is", add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        p = model.backend.network(ids).logits[0, -1].double().softmax(-1).numpy()
    rates = np.bincount(drawn, minlength=len(p)) / samples
    assert np.abs(rates - p).max() < 5 * np.sqrt(p.max() / samples)


def test_a_prompt_that_leaves_no_room_is_continued_as_before(chat: Any) -> None:
    short = chat(n_positions=16)
    asked = TextCases([(MESSAGES[-1],)] * 3)
    found = ChatSampler(asked, ChatReplies(12, 3, 0, 1.0, "{prompt}"), short, None)
    assert found.score(np.arange(3)).shape == (3, 12) and "texts go on from their last" in " ".join(found.notes)


def test_replies_of_a_network_whose_cache_cannot_be_divided() -> None:
    """Layers of convolutions have a state, of which no rows can be left out."""
    words = tokenizer("gpt2")
    config = CONFIG_MAPPING["lfm2"](
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        layer_types=["conv", "full_attention"],
        eos_token_id=words.eos_token_id,
    )
    torch.manual_seed(0)
    model = wrap_network(AutoModelForCausalLM.from_config(config).eval(), words, "hybrid")
    texts = TextCases([(text,) for text in MESSAGES[:3] * 4])
    for query, kind in ((ChatReplies, ChatSampler), (GeneratedReplies, ReplySampler)):
        words.chat_template = PLAIN
        sampler = kind(texts, query(8, 1, 0, 1.0, "{prompt}"), model, None)
        sampler._ends = tuple(range(0, len(words), 9))
        together = sampler.score(np.arange(12))
        alone = np.concatenate([sampler.score(np.asarray([case])) for case in range(12)])
        words.chat_template = None
        for one, other in zip(together.tolist(), alone.tolist(), strict=True):
            end = next((at for at, token in enumerate(other) if token in sampler._ends), len(other))
            assert one[: end + 1] == other[: end + 1]


def texts_of(system: Model, cache: Path | None = None, seed: int = 0) -> list[tuple[str, ...]]:
    ids = [f"q-{k}-0" for k in range(len(MESSAGES))]
    return system.backend.replies(Asked("q", "0", len(MESSAGES), ids, MESSAGES, system.role.samples, seed, cache))


def test_replies_are_kept_and_hang_on_the_seed(chat: Any, tmp_path: Path) -> None:
    system = replying_in_text(chat(), samples=3, tokens=4)
    found = texts_of(system, tmp_path)
    assert [len(texts) for texts in found] == [3] * len(MESSAGES)
    assert texts_of(system, tmp_path) == found == texts_of(system)
    assert texts_of(system, seed=1) != found


def test_thinking_has_a_switch_in_some_templates(chat: Any) -> None:
    assert not can_think(chat())
    model = chat(THINKING)
    assert can_think(model)
    off, on = (texts_of(replying_in_text(model, 4, 4, thinking)) for thinking in (False, True))
    assert off != on and off == texts_of(replying_in_text(chat(), 4, 4))


def test_a_reply_that_begins_inside_of_reasoning_is_marked(chat: Any) -> None:
    assert all(
        text.startswith("<think>") for row in texts_of(replying_in_text(chat(ALWAYS_THINKING), 2, 3)) for text in row
    )


def test_without_a_template_or_a_network_nothing_is_written(chat: Any) -> None:
    with pytest.raises(NotApplicableError, match="has no chat template"):
        replying_in_text(load_model("demo-lm"))
    with pytest.raises(NotApplicableError, match="no network here to sample replies from; give its replies"):
        replying_in_text(load_model(AlwaysA(), name="letters"))


@pytest.mark.parametrize("name", ["decisions", "chat-iat"])
def test_replies_of_a_planted_model_are_what_it_says(name: str) -> None:
    suite = load_suite(name)
    planted = biased_decider(suite.body, 1.5, 1.0) if name == "decisions" else iat_chooser(suite.body, 0.0, 0.9, 0.4)
    model, text = load_model(planted, name="planted"), load_model(Sampled(planted), name="product", samples=20)
    ways = two_ways(suite, model, text, 120)
    p, mass = ways.by_probability(model, NOTHING)
    assert ways.cost.startswith("120 questions, 2,400 replies, about ")
    assert len(p) == 120 and mass == pytest.approx(0.9)
    for number, message in list(zip(range(120), ways.messages, strict=True))[:10]:
        expected = np.exp(planted.answer_log_probs([message] * 2, list(ways.query.labels)))
        assert p[number] == pytest.approx(expected / expected.sum())
    found = ways.agreement(p, ways.in_text(text, NOTHING))
    assert found.refused == pytest.approx(0.1, abs=0.03) and found.unreadable == 0
    assert found.share_bounds.low <= found.drawn_share <= found.share_bounds.high
    assert found.r == pytest.approx(found.drawn_r, abs=0.05) and found.r > 0.8
    shy = load_model(Sampled(planted, lambda message: 1.0), name="shy", samples=2)
    assert two_ways(suite, model, shy, 20).agreement(p[:20], ways.in_text(shy, NOTHING)[:20]).share == 0


def test_the_largest_differences_are_named() -> None:
    suite = load_suite("decisions")
    planted = biased_decider(suite.body, 0.0)
    model, text = load_model(planted, name="planted"), load_model(Sampled(planted), samples=1)
    ways = two_ways(suite, model, text, 3)
    p, counts = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]), np.array([[9, 1, 0, 0], [0, 0, 10, 0], [10, 0, 0, 0]])
    first, second = ways.most_unlike(p, counts, 2)
    assert first == f"{ways.query.id_of(int(ways.numbers[2]))}: Yes 0.20, No 0.80 by probability, Yes 1.00 in text"
    assert second.endswith("by probability, declines 1.00 in text")


def test_a_file_of_replies_is_asked_what_it_answers(tmp_path: Path) -> None:
    suite = load_suite("chat-iat")
    planted = iat_chooser(suite.body, 0.4)
    model, path = load_model(planted, name="planted"), tmp_path / "replies.jsonl"
    ways = two_ways(suite, model, load_model(Sampled(planted), samples=2), 30)
    rows = [{"id": ways.query.id_of(int(number)), "replies": ["A", "B"]} for number in ways.numbers[:20]]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    stored = load_model(f"product={path}")
    again = two_ways(suite, model, stored, 200)
    assert again.numbers.tolist() == ways.numbers[:20].tolist() and again.in_text(stored, NOTHING).sum() == 40
    assert len(two_ways(suite, model, stored, 7).numbers) == 7
    path.write_text(path.read_text().replace(ways.query.digest, "00000000"))
    with pytest.raises(DataFileError, match="answers other questions than chat-iat-attributes asks now"):
        two_ways(suite, model, load_model(f"product={path}"), 200)


def test_what_has_no_probabilities_or_no_options_is_refused() -> None:
    suite, planted = load_suite("decisions"), biased_decider(load_suite("decisions").body, 0.0)
    model, text = load_model(planted, name="planted"), load_model(Sampled(planted), name="product")
    with pytest.raises(NotApplicableError, match=r"product .* gives no probabilities"):
        two_ways(suite, text, text, 5)
    with pytest.raises(NotApplicableError, match=r"planted .* gives no replies"):
        two_ways(suite, model, model, 5)
    with pytest.raises(NotApplicableError, match="decisions needs a causal LM"):
        two_ways(suite, load_model("demo-mlm"), text, 5)
    with pytest.raises(NotApplicableError, match="has no options to pick from"):
        two_ways(load_suite("counterfactual-generation"), load_model("demo-lm"), text, 5)


def test_a_checkpoint_that_replies_is_measured_as_any_system(chat: Any) -> None:
    found = measure("chat-iat", replying_in_text(chat(), samples=2, tokens=3), limit=6, cache=None)
    assert found.values["mass"] is not None and found.signature["model"]["max_tokens"] == "3"


LETTERS = """
{suite: letters, family: paired, title: Letters, source: test, licence: none, language: en, groups: [a, b],
 persons: {a: [Ann], b: [Bob]}, answer: text, prompts: [{field: x, text: "The nurse {person} is"},
 {field: x, text: "The cook {person} is"}, {field: y, text: "A teacher, {person}, was"}]}
"""


def test_a_checkpoint_writes_the_texts_that_a_suite_reads(chat: Any, tmp_path: Path) -> None:
    suite = tmp_path / "letters.yaml"
    suite.write_text(LETTERS)
    model = chat()
    model.backend.network.save_pretrained(tmp_path / "chat")
    model.backend.tokenizer.save_pretrained(tmp_path / "chat")
    asked, cache = {"samples": 3, "max_tokens": 5}, tmp_path / "cache"
    found = measure(suite, load_model(tmp_path / "chat", **asked), cache=cache)
    assert {name: found.signature["model"][name] for name in asked} == {"samples": "3", "max_tokens": "5"}
    assert found.values["readable"] == 1 and found.values["group_rms"] is not None
    explicit = measure(suite, replying_in_text(load_model(tmp_path / "chat"), 3, 5), cache=None)
    np.testing.assert_array_equal(found.items["score_0"], explicit.items["score_0"])
    assert measure(suite, load_model(tmp_path / "chat", **asked), cache=cache).values == found.values
    in_memory = load_model(model.backend.network, tokenizer=model.backend.tokenizer, samples=3)
    assert measure(suite, replying_in_text(in_memory, tokens=5), cache=None).signature["model"]["samples"] == "3"
    (tmp_path / "chat" / "chat_template.jinja").unlink()
    with pytest.raises(NotApplicableError, match="has no chat template"):
        measure(suite, str(tmp_path / "chat"), cache=None)
    with pytest.raises(NotApplicableError, match="measure a checkpoint, an object with reply"):
        measure(suite, load_model(AlwaysA()), cache=None)
