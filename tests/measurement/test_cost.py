"""Calculated times of scoring: against torch's own count of operations, and a real tokenizer."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

from pytest_genderbias import load_model, load_suite
from pytest_genderbias.measurement.fit import (
    MACHINES,
    MEASURED,
    SIZES,
    Work,
    cases_of,
    main_question,
    main_work,
    work_of,
)
from pytest_genderbias.models.chat_template import ChatPrompts
from pytest_genderbias.reports.suite_page import show_suite
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases


def counted(network_class, shape, rows, tokens):
    """Return the operations of a forward pass as torch counts them, without weights."""
    layers, width = shape
    config = BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=4 * width)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        network = network_class(config).eval()
        ids = torch.zeros((rows, tokens), dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(ids)
    return counter.get_total_flops()


@pytest.mark.parametrize("shape", SIZES.values(), ids=list(SIZES))
def test_operations_are_those_that_torch_counts(shape):
    assert Work(8, 17.0, 0).operations(*shape) == pytest.approx(counted(BertModel, shape, 8, 17), rel=0.01)
    every_position = Work(8, 17.0, 17).operations(*shape)
    assert every_position == pytest.approx(counted(BertForMaskedLM, shape, 8, 17), rel=0.01)


@pytest.mark.parametrize("name", ["nli-occupation", "disco-terms", "disco-names", "lm-occupation", "sts-occupation"])
def test_tokens_are_those_of_a_real_tokenizer(shared_data, name):
    tokenizer = AutoTokenizer.from_pretrained(shared_data / "models" / "minilm-mlm")
    cases, work = cases_of(load_suite(name)), main_work(load_suite(name))
    some = cases.sentences(np.random.default_rng(0).integers(cases.n_cases, size=300))
    texts = [(text,) for pair in some for text in pair] if name == "sts-occupation" else some
    assert work.tokens == pytest.approx(np.mean([len(tokenizer(*text)["input_ids"]) for text in texts]), rel=0.15)
    assert work.rows == cases.n_cases * (2 if name == "sts-occupation" else 1)


@pytest.fixture(scope="module")
def small_model(shared_data):
    """A network of a real vocabulary, whose passes take no time."""
    return load_model(f"small={shared_data / 'models' / 'bert-tiny-mlm'}", device="cpu")


@pytest.mark.parametrize(
    ("name", "scored", "near"),
    [
        ("pairs-pll", {"score": "shared"}, 0.15),
        ("pairs-pll", {"score": "all"}, 0.15),
        # a third of them all; it asks as the next one does
        pytest.param("coref-occupation", {"scorer": "substitution"}, 0.15, marks=pytest.mark.slow),
        ("coref-winobias", {"scorer": "substitution"}, 0.15),
        ("ceat", {}, 0.15),
        ("weat", {}, 0.35),  # names are rare words, of several tokens
    ],
)
def test_passes_are_those_of_the_scorer(shared_data, small_model, name, scored, near):
    """Count rows, tokens and operations in the network while some units are scored, and compare with those that were
    calculated.
    """
    question = main_question(load_suite(name), shared_data, scored, ("masked-lm",))
    units = np.arange(question.cases.n_units)[:: max(1, question.cases.n_units // 8)]
    cases = question.cases.cases_of(units)
    network, seen = small_model.backend.network.base_model, []
    handle = network.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(args[0] if args else kwargs["input_ids"]), with_kwargs=True
    )
    try:
        scorer = make_scorer(question.cases, question.query, small_model, None)
        scorer.score(cases)  # the first call has trials
        seen.clear()
        scorer.score(cases)
    finally:
        handle.remove()
    rows, tokens = sum(len(ids) for ids in seen), sum(ids.numel() for ids in seen)
    with FlopCounterMode(display=False) as counter, torch.no_grad(), torch.backends.mkldnn.flags(enabled=False):
        for ids in seen:
            network(ids)
    part = TextCases(
        [question.cases.texts[i] for i in cases],
        [question.cases.spans[i] for i in cases] if question.cases.spans else (),
        cases_per_unit=question.cases.cases_per_unit,
    )
    work = work_of(part, question.query)
    assert work.rows == pytest.approx(rows, rel=near)
    assert work.rows * work.tokens == pytest.approx(tokens, rel=2 * near)
    head = rows * work.reads * 2 * 128 * (128 + 30_522)
    counted_operations = counter.get_total_flops() + head
    assert work.operations(2, 128) == pytest.approx(counted_operations, rel=2 * near)


@pytest.mark.parametrize("name", ["chat-iat", "decisions", "bbq"])
def test_messages_of_chat_suites_are_those_of_a_real_tokenizer(shared_data, name):
    tokenizer = AutoTokenizer.from_pretrained(shared_data / "models" / "minilm-mlm")
    tokenizer.chat_template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }} {{ message['content'] }}<|im_end|> {% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
    )
    prompts, question = ChatPrompts(tokenizer, name), main_question(load_suite(name), shared_data)
    some = np.unique(np.linspace(0, question.cases.n_cases - 1, num=100).round().astype(int))
    lengths = [len(tokenizer(prompts.prompt(text))["input_ids"]) for (text,) in question.cases.sentences(some)]
    work = work_of(question.cases, question.query)
    assert work.tokens == pytest.approx(np.mean(lengths), rel=0.2)
    assert (work.rows, work.reads) == (question.cases.n_cases, 1)


def test_vectors_of_the_embedding_table_take_no_pass(shared_data):
    assert main_work(load_suite("subspace"), shared_data) is None


def test_more_of_anything_takes_longer():
    work = Work(100, 10.0, 1)
    longer = [Work(200, 10.0, 1), Work(100, 20.0, 1), Work(100, 10.0, 2)]
    assert all(other.operations(12, 768) > work.operations(12, 768) for other in longer)
    for name in SIZES:
        assert MACHINES["16 cores"][name] == pytest.approx(8 * MACHINES["two cores"][name])
    for rates in MACHINES.values():
        times = [work.operations(*shape) / rates[name] for name, shape in SIZES.items()]
        assert times == sorted(times)
        assert rates.keys() == SIZES.keys()
    assert {(machine, name) for machine, rates in MACHINES.items() for name in rates} > MEASURED


@pytest.mark.parametrize("name", ["corpus-cooccurrence", "bios", "subspace"])
def test_suites_without_a_calculated_time(name):
    assert main_work(load_suite(name)) is None


def test_the_page_of_a_suite_marks_what_is_calculated():
    suite = load_suite("nli-occupation")
    lines = show_suite(suite, [], 100, main_work(suite)).splitlines()
    base = next(line.split("  ") for line in lines if line.strip().startswith("base, 12 x 768"))
    two, sixteen, gpu = [cell for cell in base if cell.strip()][1:]
    assert not two.strip().endswith("*") and sixteen.strip().endswith("*") and not gpu.strip().endswith("*")
    assert "time to score" not in show_suite(load_suite("bios"), [], 100, None)
