"""The largest logits of a last layer are those of computing all, and most of the others are not computed."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForMaskedLM, ModernBertConfig, ModernBertForMaskedLM

from pytest_genderbias.models.model import Checkpoint
from pytest_genderbias.scoring.largest_logits import LargestLogits, Norm, grouped, plain_output_layer
from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.reads import Inputs

VOCABULARY, FEATURES = 3000, 256


def layer_of(seed=0, bias=True, vocabulary=VOCABULARY):
    """Return a layer whose rows have different lengths, as embeddings have. Whole numbers have products without rounding, and ties."""
    draws = torch.Generator().manual_seed(seed)
    layer = torch.nn.Linear(FEATURES, vocabulary, bias=bias).eval()
    with torch.no_grad():
        lengths = 8 * torch.rand((vocabulary, 1), generator=draws)
        layer.weight.copy_((torch.randn((vocabulary, FEATURES), generator=draws) * lengths).round())
        if bias:
            layer.bias.copy_(torch.randint(-99, 100, (vocabulary,), generator=draws))
    return layer


def alike(rows, kinds, spread, seed=0):
    """Return hidden states of a few kinds, in whole numbers; within a kind they differ in few directions more than in others."""
    draws = torch.Generator().manual_seed(seed)
    kind = torch.randn((kinds, FEATURES), generator=draws)
    reach = spread * torch.logspace(0, -2, FEATURES)
    return (64 * (kind[torch.arange(rows) % kinds] + torch.randn((rows, FEATURES), generator=draws) * reach)).round()


def largest(layer, hidden, k):
    """Return the ids of the k largest logits, ties by id, from all of them in numpy."""
    with torch.inference_mode():
        logits = layer(hidden).numpy()
    return np.argsort(-logits, axis=1, kind="stable")[:, :k]


# The largest logits


@pytest.mark.parametrize("spread", [0.02, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("bias", [True, False])
def test_the_largest_logits_are_those_of_all(spread, k, bias):
    layer = layer_of(bias=bias)
    head = LargestLogits(layer)
    with torch.inference_mode():
        for seed in range(3):  # the norm is learned from the first rows
            hidden = alike(300, 7, spread, seed)
            ids, finite = head.best(hidden, k)
            assert np.array_equal(ids, largest(layer, hidden, k))
            assert finite.all()


@given(
    rows=st.one_of(st.integers(0, 9), st.integers(256, 330)),
    kinds=st.integers(1, 9),
    spread=st.floats(0, 3),
    k=st.integers(1, 30),
    seed=st.integers(0, 99),
)
def test_any_rows_have_their_largest_logits(rows, kinds, spread, k, seed):
    layer, hidden = layer_of(seed), alike(rows, kinds, spread, seed)
    with torch.inference_mode():
        ids, _ = LargestLogits(layer).best(hidden, k)
    assert np.array_equal(ids, largest(layer, hidden, k))


@given(
    weights=st.integers(-125, 100),
    states=st.integers(-125, 100),
    biased=st.sampled_from([None, -120, -60, 0, 60, 120]),
    k=st.integers(1, 5),
    seed=st.integers(0, 99),
)
@example(weights=-83, states=0, biased=0, k=3, seed=0)  # 1e-25
@example(weights=-83, states=0, biased=None, k=3, seed=0)
@example(weights=83, states=0, biased=0, k=3, seed=0)
@example(weights=-40, states=-40, biased=None, k=3, seed=0)
@example(weights=0, states=0, biased=40, k=3, seed=0)  # a bias of which rounding is larger than the logits
def test_weights_of_any_size_have_their_largest_logits(weights, states, biased, k, seed):
    """Powers of two scale whole numbers without rounding, until the sum with a bias is rounded, or a product underflows or overflows."""
    layer, hidden = layer_of(seed, bias=biased is not None), alike(300, 5, 0.3, seed) * 2.0**states
    with torch.no_grad():
        layer.weight *= 2.0**weights
        if biased is not None:
            layer.bias *= 2.0**biased
    with torch.inference_mode():
        ids, finite = LargestLogits(layer).best(hidden, k)
        logits = layer(hidden)
    every = logits.topk(k)
    assert np.array_equal(finite, every.values.isfinite().all(1).numpy())
    found = logits.gather(1, torch.from_numpy(ids))[finite]
    assert all(len(set(row)) == k for row in ids.tolist())
    torch.testing.assert_close(found, every.values[finite], rtol=1e-6, atol=0.0)


def test_equal_logits_come_in_the_order_of_their_ids():
    layer, hidden = layer_of(bias=False), alike(300, 5, 0.05)
    with torch.no_grad():
        first = int(largest(layer, hidden[:1], 1)[0, 0])
        layer.weight[[40, 90, 7, 2500, 2999]] = layer.weight[first].clone()
    with torch.inference_mode():
        ids, _ = LargestLogits(layer).best(hidden, 3)
    assert ids[0].tolist() == sorted([first, 40, 90, 7, 2500, 2999])[:3]
    assert np.array_equal(ids, largest(layer, hidden, 3))


def test_a_row_far_from_the_mean_of_its_group_has_the_best_item_of_its_own():
    hidden = torch.zeros((260, FEATURES))
    hidden[:, 0] = 1.0
    hidden[torch.arange(220, 260), torch.arange(1, 41)] = 3.0  # of forty rows far away, a few have groups of their own
    layer = torch.nn.Linear(FEATURES, VOCABULARY, bias=False).eval()
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[:41, :41] = torch.eye(41)
    with torch.inference_mode():
        ids, _ = LargestLogits(layer).best(hidden, 1)
    assert ids[:, 0].tolist() == [0] * 220 + list(range(1, 41))


def test_most_logits_of_rows_that_are_alike_are_not_computed():
    layer = layer_of()
    head = LargestLogits(layer)
    with torch.inference_mode(), FlopCounterMode(display=False) as all_of_them:
        layer(alike(512, 14, 0.1))
    with torch.inference_mode():
        head.best(alike(512, 14, 0.1), 3)
        with FlopCounterMode(display=False) as some:
            head.best(alike(512, 14, 0.1, seed=1), 3)
    assert some.get_total_flops() < 0.25 * all_of_them.get_total_flops()


def test_a_learned_norm_leaves_more_logits_out():
    layer, operations = layer_of(vocabulary=20_000), []
    for learned_before in (False, True):
        head = LargestLogits(layer)
        head._learned = learned_before  # if so, the head keeps the Euclidean norm
        with torch.inference_mode():
            head.best(alike(512, 14, 0.5), 3)
            with FlopCounterMode(display=False) as count:
                head.best(alike(512, 14, 0.5, seed=1), 3)
        operations.append(count.get_total_flops())
    assert operations[0] < 0.5 * operations[1]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_logit_that_is_not_finite_is_told(bad):
    layer, hidden = layer_of(), alike(256, 3, 0.1)
    hidden[17] = bad
    with torch.inference_mode():
        assert (~LargestLogits(layer).best(hidden, 3)[1]).nonzero()[0].tolist() == [17]
    hidden[17] = 0.0
    with torch.no_grad():
        layer.weight[5] = bad
    with torch.inference_mode():
        assert not LargestLogits(layer).best(hidden, 3)[1].any()
    with torch.no_grad():
        layer.weight[5] = 0.0
        layer.bias[5] = bad
    with torch.inference_mode():
        assert not LargestLogits(layer).best(hidden, 3)[1].any()


@pytest.mark.parametrize("way", ["autocast", "precision"])
def test_products_of_lower_precision_are_all_computed(way):
    head, hidden = LargestLogits(layer_of()), alike(300, 3, 0.1)
    assert head._is_bounded(hidden, 3)
    before = torch.get_float32_matmul_precision()
    try:
        if way == "precision":
            torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", enabled=way == "autocast"):
            assert not head._is_bounded(hidden, 3)
    finally:
        torch.set_float32_matmul_precision(before)


def test_an_item_that_is_never_chosen_may_have_a_logit_of_minus_infinity():
    layer, hidden = layer_of(), alike(256, 3, 0.1)
    with torch.no_grad():
        layer.bias[2000:] = float("-inf")
    with torch.inference_mode():
        ids, finite = LargestLogits(layer).best(hidden, 3)
    assert finite.all()
    assert np.array_equal(ids, largest(layer, hidden, 3))


# Norms and groups


@given(seed=st.integers(0, 10**6), rows=st.integers(1, 200), reach=st.floats(-6, 3), learned=st.booleans())
@example(seed=24743, rows=190, reach=-2.75, learned=True)  # no eigenvectors are found on some processors
def test_no_product_exceeds_its_norms(seed, rows, reach, learned):
    draws = torch.Generator().manual_seed(seed)
    like = alike(rows, 1, 10.0**reach, seed) - alike(rows, 1, 0.0, seed)
    norm = Norm.learned(like) if learned else Norm.euclidean(FEATURES)
    weight, others = torch.randn((50, FEATURES), generator=draws), torch.randn((20, FEATURES), generator=draws)
    differences = torch.cat([like, others]).double()
    bound = norm.of_weights(weight).double()[:, None] * norm.coordinates(differences).norm(dim=1)
    assert ((weight.double() @ differences.T).abs() <= bound * (1 + 1e-5) + 1e-30).all()


def test_a_learned_norm_bounds_closer_than_the_euclidean_one():
    differences = alike(500, 1, 1.0) - alike(500, 1, 0.0)
    weight = layer_of().weight.detach()
    means = [
        float(norm.of_weights(weight).mean() * norm.coordinates(differences).norm(dim=1).mean())
        for norm in (Norm.learned(differences), Norm.euclidean(FEATURES))
    ]
    assert means[0] < 0.8 * means[1]


def _not_found(matrix):
    raise torch.linalg.LinAlgError("failed to converge")


def _not_orthonormal(matrix, eigh=torch.linalg.eigh):
    variances, directions = eigh(matrix)
    return variances, directions * (1 + 1e-6)


@pytest.mark.parametrize("eigh", [_not_found, _not_orthonormal])
def test_without_eigenvectors_the_norm_is_the_euclidean_one(monkeypatch, eigh):
    differences = alike(300, 1, 1.0) - alike(300, 1, 0.0)
    assert Norm.learned(differences).scales.shape == (64,)
    monkeypatch.setattr(torch.linalg, "eigh", eigh)
    assert Norm.learned(differences).scales.shape == (0,)


def test_rows_that_are_equal_have_no_norm_of_their_own():
    assert Norm.learned(torch.zeros((300, FEATURES))).scales.shape == (0,)


@given(points=st.lists(st.integers(0, 30), min_size=1, max_size=40), groups=st.integers(1, 12))
def test_each_point_is_in_the_group_of_the_nearest_of_points_far_apart(points, groups):
    group = grouped(torch.tensor(points, dtype=torch.float64)[:, None], groups).tolist()
    first = {number: points[group.index(number)] for number in set(group)}
    assert len(first) == min(groups, len(set(points)))
    assert all(group[i] == group[j] for i, x in enumerate(points) for j, y in enumerate(points) if x == y)


# Networks


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


def inputs_of(rows=300, seed=0):
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
    assert network._last is not None
    assert finite.all()
    assert np.array_equal(ids, ordinary(checkpoint, inputs, 3))
    assert not checkpoint.network.get_output_embeddings()._forward_pre_hooks


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
def test_a_network_with_weights_of_any_size_gives_the_best_items(scale):
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=VOCABULARY, hidden_size=FEATURES, num_hidden_layers=2, num_attention_heads=4, intermediate_size=FEATURES,
        local_attention=8, tie_word_embeddings=False, initializer_range=0.1,
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 0),
    )  # fmt: skip
    checkpoint = Checkpoint(ModernBertForMaskedLM(config).eval(), None, "cpu", 64)
    with torch.no_grad():
        checkpoint.network.decoder.weight *= scale
    network, inputs = Network(checkpoint, None, vocabulary_head=True), inputs_of(400)
    ids, finite = network.best(inputs, 3)
    assert network._last is not None
    assert finite.all()
    assert (ids == ordinary(checkpoint, inputs, 3)).mean() > 0.999  # single logits are nearer than rounding


@pytest.mark.parametrize(
    "after", [lambda logits: -logits, lambda logits: 30 * (logits / 30).tanh()], ids=["turned", "capped"]
)
def test_logits_that_change_after_the_last_layer_are_all_computed(checkpoint, after):
    class Changed(BertForMaskedLM):
        def forward(self, *args, **kwargs):
            output = super().forward(*args, **kwargs)
            output.logits = after(output.logits)
            return output

    checkpoint.network.__class__ = Changed
    network, inputs = Network(checkpoint, None, vocabulary_head=True), inputs_of()
    ids, _ = network.best(inputs, 3)
    assert network._last is None
    assert np.array_equal(ids, ordinary(checkpoint, inputs, 3))


def test_a_layer_that_is_watched_narrow_or_of_another_format_is_not_taken_apart(checkpoint):
    layer = checkpoint.network.get_output_embeddings()
    assert plain_output_layer(checkpoint.network) is layer
    handle = layer.register_forward_hook(lambda module, args, output: output * 2)
    assert plain_output_layer(checkpoint.network) is None
    handle.remove()
    layer.double()
    assert plain_output_layer(checkpoint.network) is None
    assert plain_output_layer(network_of(128)) is None
