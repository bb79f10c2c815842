"""Calculated times of scoring: against torch's own count of operations, and a real tokenizer."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM, BertModel

from pytest_genderbias import load_suite
from pytest_genderbias.measurement.cost import MACHINES, SIZES, NetworkSize, Work
from pytest_genderbias.measurement.fit import cases_of, main_work
from pytest_genderbias.reports.suite_page import show_suite

SMALL = next(size for size in SIZES if size.name.startswith("small"))


def counted(network_class, size, rows, tokens):
    """Return the operations of a forward pass as torch counts them, without weights."""
    config = BertConfig(
        hidden_size=size.width, num_hidden_layers=size.layers, num_attention_heads=2, intermediate_size=4 * size.width
    )
    config._attn_implementation = "eager"
    with torch.device("meta"):
        network = network_class(config).eval()
        ids = torch.zeros((rows, tokens), dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(ids)
    return counter.get_total_flops()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_operations_are_those_that_torch_counts(size):
    assert Work(8, 17.0, 0).operations(size) == pytest.approx(counted(BertModel, size, 8, 17), rel=0.01)
    every_position = Work(8, 17.0, 17).operations(size)
    assert every_position == pytest.approx(counted(BertForMaskedLM, size, 8, 17), rel=0.01)


@pytest.mark.parametrize("name", ["nli-occupation", "disco-terms", "disco-names", "lm-occupation", "sts-occupation"])
def test_tokens_are_those_of_a_real_tokenizer(shared_data, name):
    tokenizer = AutoTokenizer.from_pretrained(shared_data / "models" / "minilm-mlm")
    cases, work = cases_of(load_suite(name)), main_work(load_suite(name))
    some = cases.sentences(np.random.default_rng(0).integers(cases.n_cases, size=300))
    texts = [(text,) for pair in some for text in pair] if name == "sts-occupation" else some
    assert work.tokens == pytest.approx(np.mean([len(tokenizer(*text)["input_ids"]) for text in texts]), rel=0.15)
    assert work.rows == cases.n_cases * (2 if name == "sts-occupation" else 1)


def test_more_of_anything_takes_longer():
    work, size = Work(100, 10.0, 1), NetworkSize("base, 12 x 768", 12, 768)
    longer = [Work(200, 10.0, 1), Work(100, 20.0, 1), Work(100, 10.0, 2)]
    assert all(other.seconds(size, MACHINES[0]) > work.seconds(size, MACHINES[0]) for other in longer)
    assert work.seconds(size, MACHINES[1]) == pytest.approx(work.seconds(size, MACHINES[0]) / 8)
    for machine in MACHINES:
        times = [work.seconds(size, machine) for size in SIZES]
        assert times == sorted(times)
        assert machine.measured <= set(machine.rates) == {size.name for size in SIZES}


@pytest.mark.parametrize("name", ["corpus-cooccurrence", "bios", "weat"])
def test_suites_without_a_calculated_time(name):
    assert main_work(load_suite(name)) is None


def test_the_page_of_a_suite_marks_what_is_calculated():
    suite = load_suite("nli-occupation")
    lines = show_suite(suite, [], 100, main_work(suite)).splitlines()
    base = next(line.split("  ") for line in lines if line.strip().startswith("base, 12 x 768"))
    two, sixteen, gpu = [cell for cell in base if cell.strip()][1:]
    assert not two.strip().endswith("*") and sixteen.strip().endswith("*") and not gpu.strip().endswith("*")
    assert "time to score" not in show_suite(load_suite("bios"), [], 100, None)
