"""The hooks by which a network computes less: they change logits by rounding only, in their own passes only."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_checkpoints import make_network
from torch.utils.flop_counter import FlopCounterMode

from pytest_genderbias.scoring.dropping import (
    attention_at,
    dropping,
    ending_before,
    reading,
    repeated_tokens,
    shortcuts,
    shortening,
)

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
    with torch.inference_mode(), shortcuts(network, vocabulary_head=True)[0]() as hook, reading(hook, where, inputs):
        return network(**inputs).logits


def test_a_hook_keeps_the_positions_that_are_read_with_it(network, ids):
    where = torch.tensor([[3, 5], [1, 8], [0, 2]])
    with torch.inference_mode():
        whole = network(input_ids=ids).logits
        with dropping(network.bert) as one, dropping(network.bert) as other:
            for hook in (one, other):
                with reading(hook, where, {}):
                    kept = network(input_ids=ids).logits
                torch.testing.assert_close(kept, torch.stack([whole[i, row] for i, row in enumerate(where)]))
            assert torch.equal(network(input_ids=ids).logits, whole)
    assert not network.bert._forward_hooks


# Layers like BERT's


@pytest.mark.parametrize("kind", LIKE_BERT)
@pytest.mark.parametrize("width", [1, 2, 7])
@pytest.mark.parametrize("padded", [False, True])
def test_shortened_layers_give_the_logits_of_whole_ones(kind, width, padded):
    network, ids = make_network(kind).eval(), alike()
    inputs = {"input_ids": ids}
    if padded:
        inputs["attention_mask"] = (torch.arange(9) < torch.tensor([9, 7] * 10)[:, None]).long()
    if kind == "bert":
        inputs["token_type_ids"] = (torch.arange(9) > torch.tensor([3, 3, 5, 5] * 5)[:, None]).long()
    where = torch.arange(20)[:, None] % 3 + torch.arange(width)[None]
    with torch.inference_mode():
        whole = network(**inputs).logits
    assert repeated_tokens(inputs) is not None
    expected = torch.stack([whole[i, row] for i, row in enumerate(where)])
    torch.testing.assert_close(first_of(network, inputs, where), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["bert-nli", "roberta-nli"])
def test_a_classifier_reads_the_first_position_of_shortened_layers(kind):
    network, inputs = make_network(kind).eval(), {"input_ids": alike()}
    with torch.inference_mode():
        whole = network(**inputs).logits
        with (
            shortcuts(network, vocabulary_head=False)[0]() as hook,
            reading(hook, torch.zeros((20, 1), dtype=torch.long), inputs),
        ):
            short = network(**inputs).logits
    torch.testing.assert_close(short, whole, rtol=1e-5, atol=1e-5)


def test_tokens_that_repeat_and_positions_that_are_not_read_are_not_multiplied(network):
    inputs, where = {"input_ids": alike()}, torch.full((20, 1), 4)
    counts = []
    for shortcut in shortcuts(network, vocabulary_head=True)[:2]:
        with (
            FlopCounterMode(display=False) as count,
            torch.inference_mode(),
            shortcut() as hook,
            reading(hook, where, inputs),
        ):
            network(**inputs)
        counts.append(count.get_total_flops())
    short, dropped = counts
    width, heads = network.config.hidden_size, network.config.num_attention_heads
    distinct = 8 + len(inputs["input_ids"][:, 2].unique())
    # In the first layer three products for each token that repeats. In the last query, key, value and output for each of 180 tokens; the
    # same four for each of 20 queries, and for one token that the module is given, are computed instead, and scores of whole hidden states.
    products, scores = 3 * (180 - distinct) + 4 * 180 - 4 * 20 - 3, 2 * 2 * 20 * heads * 9 * width
    assert dropped - short == 2 * width**2 * products - scores


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_attention_at_some_positions_is_that_of_the_module(network, padded, biased):
    module = network.bert.encoder.layer[0].attention.self.double()
    draws = torch.Generator().manual_seed(0)
    for layer in (module.query, module.key, module.value):
        layer.bias = torch.nn.Parameter(torch.randn(layer.out_features, generator=draws).double()) if biased else None
    hidden = torch.randn((4, 9, network.config.hidden_size), generator=draws, dtype=torch.float64)
    where = torch.tensor([[0, 3], [2, 2], [5, 1], [4, 3]])
    mask = (torch.arange(9) < torch.tensor([9, 7, 6, 5])[:, None]).long() if padded else None
    with torch.inference_mode():
        whole = module(hidden, None if mask is None else (mask == 1)[:, None, None, :].expand(-1, -1, 9, -1))[0]
        part = attention_at(module, hidden, where, mask)
    torch.testing.assert_close(
        part, torch.stack([whole[i, row] for i, row in enumerate(where)]), rtol=1e-12, atol=1e-12
    )


def test_a_pass_that_ends_before_the_last_layer_keeps_what_it_is_given(network):
    inputs, where = {"input_ids": alike()}, torch.full((20, 1), 4)
    decoder, given = network.get_output_embeddings(), []
    for shortcut in shortcuts(network, vocabulary_head=True):
        with torch.inference_mode(), ending_before(decoder, shortcut) as hook:
            decoder.register_forward_pre_hook(lambda module, args: given.append(args[0]))
            with reading(hook, where, inputs) as here:
                assert network(**inputs).logits.shape[0] == 0
            whole = network(**inputs).logits  # of another pass
        assert [len(x) for x in given] == [0, 20]
        torch.testing.assert_close(here.kept, given[1][:, 4:5], rtol=1e-5, atol=1e-5)
        assert whole.shape[:2] == (20, 9)
        decoder._forward_pre_hooks.clear()
        given.clear()


def test_an_embedding_that_sees_its_neighbours_is_not_taken_for_a_repeat(network):
    inputs = {"input_ids": alike()}

    def mixed(module, args, output):
        return output + output.roll(1, dims=1)

    network.bert.embeddings.register_forward_hook(mixed)
    where = torch.full((20, 1), 4)
    with torch.inference_mode():
        whole = network(**inputs).logits[:, 4:5]
    torch.testing.assert_close(first_of(network, inputs, where), whole, rtol=1e-5, atol=1e-5)


def test_attention_that_does_not_see_all_tokens_is_not_computed_at_some(network):
    assert shortcuts(network, vocabulary_head=True)[0].func is shortening
    network.config.is_decoder = True
    assert shortcuts(network, vocabulary_head=True)[0].func is dropping
    network.config.is_decoder, network.config.model_type = False, "esm"
    assert shortcuts(network, vocabulary_head=True)[0].func is dropping


def test_a_network_that_another_thread_passes_has_the_same_shortcuts(network):
    layers = network.bert.encoder.layer
    with shortening(layers):
        assert shortcuts(network, vocabulary_head=True)[0].func is shortening
    layers[-1].attention.self.value.register_forward_hook(lambda module, args, output: output)
    assert shortcuts(network, vocabulary_head=True)[0].func is dropping


def test_shortened_layers_are_whole_in_other_passes_and_afterwards(network):
    inputs, layers = {"input_ids": alike()}, network.bert.encoder.layer
    with torch.inference_mode():
        whole = network(**inputs).logits
        with shortening(layers) as hook, shortening(layers):
            assert torch.equal(network(**inputs).logits, whole)
            with reading(object(), torch.zeros((20, 1), dtype=torch.long), inputs):
                assert torch.equal(network(**inputs).logits, whole)
            with reading(hook, torch.zeros((20, 1), dtype=torch.long), inputs):
                assert network(**inputs).logits.shape[1] == 1
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in layers.modules())


def test_a_single_layer_and_other_names_are_not_shortened():
    assert len(shortcuts(make_network("bert", num_hidden_layers=1), vocabulary_head=True)) == 2
    assert len(shortcuts(make_network("bert"), vocabulary_head=True)) == 3
    assert len(shortcuts(make_network("gpt2"), vocabulary_head=True)) == 1


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(2, 6), st.integers(1, 4), st.booleans())
def test_the_distinct_tokens_of_a_batch(seed, rows, tokens, vocabulary, masked):
    draws = torch.Generator().manual_seed(seed)
    inputs = {"input_ids": torch.randint(vocabulary, (rows, tokens), generator=draws)}
    if masked:
        inputs["attention_mask"] = torch.randint(2, (rows, tokens), generator=draws)
    keys = [[(place, *(int(x[i, place]) for x in inputs.values())) for place in range(tokens)] for i in range(rows)]
    flat = [key for row in keys for key in row]
    found = repeated_tokens(inputs)
    if found is None:
        assert 2 * len(set(flat)) > rows * tokens
        return
    assert len(found.one) == len(set(flat)) <= rows * tokens / 2
    for i, row in enumerate(keys):
        assert [flat[int(found.one[k])] for k in found.distinct[i]] == row
