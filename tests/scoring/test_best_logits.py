"""The largest logits of a masked LM at the read position are those of its whole output."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, ModernBertConfig, ModernBertForMaskedLM

from pytest_genderbias.models.model import Checkpoint
from pytest_genderbias.scoring.network import Inputs, Network

VOCABULARY, FEATURES = 3000, 256


def network_of(features):
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=features,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * features,
        initializer_range=0.1,
    )
    return BertForMaskedLM(config).eval()


@pytest.fixture
def checkpoint():
    torch.manual_seed(0)
    return Checkpoint(network_of(FEATURES), None, "cpu", 64)


def inputs_of(rows=60, seed=0):
    """Return rows of three lengths that differ in one token, and are read at the third."""
    draws = np.random.default_rng(seed)
    ids = np.repeat(draws.integers(5, VOCABULARY, (1, 11)), rows, axis=0).astype(np.int32)
    ids[:, 4] = draws.integers(5, VOCABULARY, rows)
    lengths = draws.integers(7, 12, rows)
    return Inputs(ids, None, lengths, np.full(rows, 2), np.ones(rows, np.int64), np.arange(rows))


def ordinary(checkpoint, inputs, k):
    """Return the largest logits of each row, passed by itself."""
    with torch.inference_mode():
        logits = [
            checkpoint.network(torch.tensor(ids[None, :length], dtype=torch.long)).logits[0, 2]
            for ids, length in zip(inputs.ids, inputs.lengths, strict=True)
        ]
    return torch.stack(logits).topk(k).indices.numpy()


def test_a_network_gives_the_best_items_of_its_logits(checkpoint):
    network, inputs = Network(checkpoint, None, vocabulary_head=True), inputs_of()
    ids, finite = network.best(inputs, 3)
    assert finite.all()
    assert np.array_equal(ids, ordinary(checkpoint, inputs, 3))
    assert not any(module._forward_hooks for module in checkpoint.network.modules())


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_a_network_with_weights_of_any_size_gives_the_best_items(scale):
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=VOCABULARY,
        hidden_size=FEATURES,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=FEATURES,
        local_attention=8,
        tie_word_embeddings=False,
        initializer_range=0.1,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0),
    )
    checkpoint = Checkpoint(ModernBertForMaskedLM(config).eval(), None, "cpu", 64)
    with torch.no_grad():
        checkpoint.network.decoder.weight *= scale
    network, inputs = Network(checkpoint, None, vocabulary_head=True), inputs_of()
    ids, finite = network.best(inputs, 3)
    assert finite.all()
    assert (ids == ordinary(checkpoint, inputs, 3)).mean() > 0.999  # single logits are nearer than rounding


@pytest.mark.parametrize(
    "after", [lambda logits: -logits, lambda logits: 30 * (logits / 30).tanh()], ids=["turned", "capped"]
)
def test_logits_that_change_after_the_last_layer_count_as_they_are(checkpoint, after):
    class Changed(BertForMaskedLM):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = after(output.logits)
            return output

    checkpoint.network.__class__ = Changed
    network, inputs = Network(checkpoint, None, vocabulary_head=True), inputs_of()
    ids, _ = network.best(inputs, 3)
    assert np.array_equal(ids, ordinary(checkpoint, inputs, 3))
