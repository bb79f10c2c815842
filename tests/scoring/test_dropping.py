"""The hooks by which a network computes its last modules at the read positions only: they change logits by rounding
only, in their own passes only.
"""

import pytest
import torch
from support.tiny_checkpoints import make_network
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from pytest_genderbias.scoring.network import dropping, reading, shortcuts
from pytest_genderbias.scoring.parallel_batches import ONE_LENGTH_SHOWS, UNCHANGED_BY_A_PASS, is_known

LIKE_BERT = ("bert", "roberta", "xlm-roberta", "electra")


@pytest.fixture
def network():
    return make_network("bert").eval()


@pytest.fixture
def ids():
    return torch.randint(5, 100, (3, 9), generator=torch.Generator().manual_seed(0))


def alike(rows=20, tokens=9, seed=0):
    """Return rows that differ in one token each, as the sentences of a template do."""
    draws = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 100, (1, tokens), generator=draws).repeat(rows, 1)
    ids[:, 2] = torch.randint(5, 100, (rows,), generator=draws)
    return ids


def first_of(network, inputs, where):
    """Return the logits with the first of a network's shortcuts."""
    with torch.inference_mode(), dropping(shortcuts(network, vocabulary_head=True)[0]) as hook, reading(hook, where):
        return network(**inputs).logits


def test_a_hook_keeps_the_positions_that_are_read_with_it(network, ids):
    where = torch.tensor([[3, 5], [1, 8], [0, 2]])
    with torch.inference_mode():
        whole = network(input_ids=ids).logits
        with dropping(network.bert) as one, dropping(network.bert) as other:
            for hook in (one, other):
                with reading(hook, where):
                    kept = network(input_ids=ids).logits
                torch.testing.assert_close(kept, torch.stack([whole[i, row] for i, row in enumerate(where)]))
            assert torch.equal(network(input_ids=ids).logits, whole)
    assert not network.bert._forward_hooks


# Layers like BERT's


@pytest.mark.parametrize("kind", LIKE_BERT)
@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("padded", [False, True])
def test_a_last_layer_at_the_read_positions_gives_the_logits_of_a_whole_one(kind, width, padded):
    network, ids = make_network(kind).eval(), alike()
    inputs = {"input_ids": ids}
    if padded:
        inputs["attention_mask"] = (torch.arange(9) < torch.tensor([9, 7] * 10)[:, None]).long()
    if kind == "bert":
        inputs["token_type_ids"] = (torch.arange(9) > torch.tensor([3, 3, 5, 5] * 5)[:, None]).long()
    where = torch.arange(20)[:, None] % 3 + torch.arange(width)[None]
    with torch.inference_mode():
        whole = network(**inputs).logits
    expected = torch.stack([whole[i, row] for i, row in enumerate(where)])
    torch.testing.assert_close(first_of(network, inputs, where), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert-nli", "roberta-nli"])
def test_a_classifier_reads_the_first_position_of_its_last_layer(kind):
    network, inputs = make_network(kind).eval(), {"input_ids": alike()}
    with torch.inference_mode():
        whole = network(**inputs).logits
        with (
            dropping(shortcuts(network, vocabulary_head=False)[0]) as hook,
            reading(hook, torch.zeros((20, 1), dtype=torch.long)),
        ):
            short = network(**inputs).logits
    torch.testing.assert_close(short, whole, rtol=1e-5, atol=1e-5)


def test_what_follows_the_last_attention_is_computed_at_the_read_positions(network):
    inputs, where = {"input_ids": alike()}, torch.full((20, 1), 4)
    counts = []
    for shortcut in shortcuts(network, vocabulary_head=True):
        with (
            FlopCounterMode(display=False) as count,
            torch.inference_mode(),
            dropping(shortcut) as hook,
            reading(hook, where),
        ):
            network(**inputs)
        counts.append(count.get_total_flops())
    in_last_layer, before_head = counts
    products = 2 * network.config.hidden_size * network.config.intermediate_size  # of the two layers for a token
    assert before_head - in_last_layer == 2 * products * (180 - 20)


def test_a_network_has_the_shortcuts_that_its_modules_allow(network):
    assert shortcuts(network, vocabulary_head=True) == [network.bert.encoder.layer[-1].attention, network.bert]
    assert len(shortcuts(network, vocabulary_head=False)) == 1
    assert len(shortcuts(make_network("gpt2"), vocabulary_head=True)) == 1


# Causal LMs with rotary positions


@pytest.mark.parametrize("kind", sorted(ONE_LENGTH_SHOWS - UNCHANGED_BY_A_PASS))
def test_a_head_that_one_row_is_enough_to_try_gives_the_same_logits_at_any_length(kind):
    """Below, at and above the window of those whose attention has one."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "head_dim": 8, "vocab_size": 100}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "sliding_window": 8, "pad_token_id": 0}
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **heads)).eval()
    assert is_known(network, ONE_LENGTH_SHOWS)
    for tokens in range(1, 33):
        ids, where = alike(2, max(3, tokens))[:, :tokens], torch.tensor([[tokens - 1], [tokens // 2]])
        with torch.inference_mode():
            whole = network(input_ids=ids).logits
        expected = torch.stack([whole[i, row] for i, row in enumerate(where)])
        torch.testing.assert_close(first_of(network, {"input_ids": ids}, where), expected, rtol=1e-5, atol=1e-5)
