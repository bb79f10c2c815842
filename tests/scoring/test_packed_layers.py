"""Packed weights: when they are used, that they change scores by rounding only, and that nothing of them stays in a
network.
"""

import copy
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import make_network, tokenizer
from torch import nn
from torch.nn.utils import parametrizations, prune

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import ModelError
from pytest_genderbias.scoring import packed_layers
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.packed_layers import PackedLayers, pays

WIDE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "initializer_range": 0.05}
TOKENS = 4096
pytestmark = [
    pytest.mark.skipif(not packed_layers._can_pack(), reason="this torch has no packed linear layers"),
    pytest.mark.filterwarnings("ignore:TF32 acceleration"),  # of the switch of oneDNN
]


@pytest.fixture
def faster(monkeypatch):
    """Take the packed way on every processor that has it."""
    monkeypatch.setattr(packed_layers, "pays", bool)


@pytest.fixture
def multiplied(monkeypatch):
    """The shapes of the inputs that were multiplied with packed weights."""
    shapes, multiply = [], packed_layers._multiply

    def listed(x, *args, **kwargs):
        shapes.append(tuple(x.shape))
        return multiply(x, *args, **kwargs)

    monkeypatch.setattr(packed_layers, "_multiply", listed)
    return shapes


def layer(inputs=384, outputs=512, bias=True, seed=0):
    torch.manual_seed(seed)
    return nn.Linear(inputs, outputs, bias).eval()


def output(network, x, packed=None):
    with torch.inference_mode(), (packed or PackedLayers(network)).in_use(TOKENS):
        return network(x)


def changed(network):
    return [name for name, module in network.named_modules() if "forward" in vars(module)]


# The trial


@pytest.mark.parametrize("shape", [(256, 256), (384, 1536), (384, 30522)])
def test_the_trial_times_both_ways(shape):
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    packed_layers._trial.cache_clear()
    ordinary, packed = packed_layers._trial(*shape)
    assert 0.1 < ordinary / packed < 10
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_shape_is_tried_once(monkeypatch):
    packed_layers._trial.cache_clear()
    pays(Counter({(256, 256): 2}))
    monkeypatch.setattr(packed_layers, "timeit", None)
    pays(Counter({(256, 256): 9}))


def test_ways_that_disagree_are_not_taken(monkeypatch):
    packed_layers._trial.cache_clear()
    multiply = packed_layers._multiply
    monkeypatch.setattr(packed_layers, "_multiply", lambda *args: multiply(*args) * 1.001)
    assert packed_layers._trial(256, 256) is None
    packed_layers._trial.cache_clear()


def test_an_operator_that_fails_is_not_taken(monkeypatch):
    def fail(*args):
        raise RuntimeError("could not create a primitive descriptor")

    packed_layers._trial.cache_clear()
    monkeypatch.setattr(packed_layers, "_multiply", fail)
    threads = torch.get_num_threads()
    assert packed_layers._trial(256, 256) is None
    assert torch.get_num_threads() == threads
    packed_layers._trial.cache_clear()


@pytest.mark.parametrize(
    ("amd", "trials", "expected"),
    [
        (True, {(1, 1): (1.0, 1.0)}, True),
        (True, {(1, 1): (1.0, 1.2)}, False),
        (False, {(1, 1): (1.0, 1.0)}, False),
        (False, {(1, 1): (1.3, 1.0)}, True),
        (False, {(1, 1): (1.0, 1.0), (2, 2): (2.0, 1.0)}, True),  # 3 s and 2 s
        (True, {(1, 1): (2.0, 1.0), (2, 2): None}, False),
        (True, {}, False),
    ],
)
def test_when_packing_pays(monkeypatch, amd, trials, expected):
    monkeypatch.setattr(packed_layers, "_is_amd_with_avx512", lambda: amd)
    monkeypatch.setattr(packed_layers, "_trial", lambda *shape: trials[shape])
    assert pays(Counter(list(trials))) is expected


def test_a_layer_counts_as_often_as_it_occurs(monkeypatch):
    trials = {(1, 1): (1.0, 1.0), (2, 2): (2.0, 1.0)}
    monkeypatch.setattr(packed_layers, "_is_amd_with_avx512", lambda: False)
    monkeypatch.setattr(packed_layers, "_trial", lambda *shape: trials[shape])
    assert not pays(Counter({(1, 1): 9, (2, 2): 1}))  # 11 s and 10 s


# The values


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(700, 384), (7, 100, 384), (2, 3, 200, 384)])
def test_the_values_are_those_of_the_definition(faster, multiplied, shape, bias):
    network, x = layer(bias=bias), torch.randn(shape)
    values = output(network, x)
    weight, added = network.weight.detach().double().numpy(), network.bias.detach().double().numpy() if bias else 0.0
    expected = x.double().numpy() @ weight.T + added
    assert multiplied == [shape]
    assert values.shape == expected.shape
    assert np.abs(values.numpy() - expected).max() < 1e-5


def test_rows_in_any_layout(faster, multiplied):
    network, x = layer(), torch.randn(384, 700).t()
    whole = torch.randn(900, 700)[:, :384]
    assert torch.allclose(output(network, x), network(x), atol=1e-5)
    assert torch.allclose(output(network, whole), network(whole), atol=1e-5)
    assert len(multiplied) == 2


def test_little_work_takes_the_ordinary_way(faster, multiplied):
    network, x = layer(), torch.randn(4, 384)
    assert torch.equal(output(network, x), network(x))
    with torch.inference_mode(), PackedLayers(network).in_use(100):
        network(torch.randn(700, 384))
    assert multiplied == []


def test_another_number_format_takes_the_ordinary_way(faster, multiplied):
    network, x = layer(), torch.randn(700, 384)
    with torch.inference_mode(), PackedLayers(network).in_use(TOKENS), torch.autocast("cpu", dtype=torch.bfloat16):
        assert network(x).dtype == torch.bfloat16
    output(layer().bfloat16(), x.bfloat16())
    assert multiplied == []


def test_a_changed_weight_is_packed_again(faster, multiplied):
    network, x = layer(), torch.randn(700, 384)
    packed = PackedLayers(network)
    before = output(network, x, packed)
    kept = packed._layers[network].weight
    assert torch.equal(output(network, x, packed), before)
    assert packed._layers[network].weight is kept
    with torch.no_grad():
        network.weight.mul_(2)
    assert torch.allclose(output(network, x, packed), network(x), atol=1e-5)
    network.weight.data = torch.zeros_like(network.weight)
    assert torch.equal(output(network, x, packed), network.bias.expand(700, -1))
    assert len(multiplied) == 4


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_gelu_is_computed_with_its_layer(faster, multiplied, activation):
    network = make_network("bert", hidden_act=activation, **WIDE)
    intermediate = network.bert.encoder.layer[0].intermediate
    x = torch.randn(900, 256)
    packed = PackedLayers(intermediate)
    assert torch.allclose(output(intermediate, x, packed), intermediate(x), atol=1e-5)
    assert set(packed._layers) == {intermediate if activation == "gelu" else intermediate.dense}
    assert len(multiplied) == 1


def test_hooks_on_a_layer_before_gelu_see_its_output(faster):
    intermediate = make_network("bert", **WIDE).bert.encoder.layer[0].intermediate
    seen = []
    intermediate.dense.register_forward_hook(lambda module, args, output: seen.append(output))
    x = torch.randn(900, 256)
    expected, values = intermediate(x), output(intermediate, x)
    assert torch.allclose(values, expected, atol=1e-5)
    assert len(seen) == 2
    assert torch.allclose(seen[0], seen[1], atol=1e-5)


def test_a_module_that_does_more_than_gelu_is_left_alone(faster):
    class Doubling(type(make_network("bert").bert.encoder.layer[0].intermediate)):
        def forward(self, hidden_states):
            return 2 * super().forward(hidden_states)

    network = make_network("bert", **WIDE)
    module = Doubling(network.config).eval()
    packed, x = PackedLayers(module), torch.randn(900, 256)
    assert torch.allclose(output(module, x, packed), module(x), atol=1e-5)
    assert set(packed._layers) == {module.dense}


# What is not packed


def _pruned():
    return prune.l1_unstructured(layer(), "weight", 0.5)


def _parametrised():
    return parametrizations.weight_norm(layer()).eval()


def _with_hook_before():
    network = layer()
    network.register_forward_pre_hook(lambda module, args: None)
    return network


def _with_own_forward():
    network = layer()
    network.forward = lambda x: nn.functional.linear(x, network.weight) * 3
    return network


def _made_in_inference_mode():
    with torch.inference_mode():
        return layer()


class _Subclass(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 3


LEFT_ALONE = {
    "pruned": _pruned,
    "parametrised": _parametrised,
    "hook before": _with_hook_before,
    "own forward": _with_own_forward,
    "made in inference mode": _made_in_inference_mode,
    "subclass": lambda: _Subclass(384, 512).eval(),
    "training": lambda: layer().train(),
    "float64": lambda: layer().double(),
    "small": lambda: layer(128, 128),
    "LSTM": lambda: nn.LSTM(384, 512).eval(),
}


@pytest.mark.parametrize("make", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone(faster, multiplied, make):
    network = make()
    x = torch.randn(700, network.in_features if isinstance(network, nn.Linear) else 384)
    x = x.to(next(network.parameters()).dtype)
    own = changed(network)
    with torch.inference_mode(), PackedLayers(network).in_use(TOKENS):
        assert changed(network) == own
        network(x)
    assert multiplied == []
    assert changed(network) == own


def test_no_more_than_a_limit_is_packed(faster, monkeypatch):
    network = nn.Sequential(layer(), layer(512, 1024), layer(1024, 512)).eval()
    monkeypatch.setattr(packed_layers, "_MOST_BYTES", 4 * (384 * 512 + 1024 * 512))
    packed = PackedLayers(network)
    output(network, torch.randn(700, 384), packed)
    assert set(packed._layers) == {network[0], network[1]}


def test_onednn_switched_off(faster, multiplied):
    network = layer()
    with torch.backends.mkldnn.flags(enabled=False):
        output(network, torch.randn(700, 384))
    assert multiplied == []


def test_a_torch_without_the_operators(faster, monkeypatch):
    class Operators:
        pass

    monkeypatch.setattr(torch.ops, "mkldnn", Operators(), raising=False)
    assert not packed_layers._can_pack()
    network, x = layer(), torch.randn(700, 384)
    assert torch.equal(output(network, x), network(x))


def test_what_is_no_module_is_left_alone(faster):
    with PackedLayers(None).in_use(TOKENS), PackedLayers(object()).in_use(TOKENS):
        pass


# Nothing stays


def test_nothing_stays_after_an_error(faster):
    network = make_network("bert", **WIDE)

    def step(rows):
        assert changed(network)
        raise ModelError("planned")

    with pytest.raises(ModelError, match="planned"):
        Batches("cpu", None, PackedLayers(network)).run(np.full(64, 16), step)
    assert changed(network) == []


def test_blocks_within_blocks(faster):
    network, x = layer(), torch.randn(700, 384)
    with torch.inference_mode(), PackedLayers(network).in_use(TOKENS):
        output(network, x)
        assert changed(network) == [""]
    assert changed(network) == []


@pytest.mark.parametrize("ends_first", [0, 1])
@pytest.mark.parametrize("make", [layer, lambda: make_network("bert", **WIDE).bert.encoder.layer[0].intermediate])
def test_two_blocks_at_once_both_multiply_with_packed_weights_to_their_ends(faster, multiplied, make, ends_first):
    """As two threads that score with one network do, in whichever order they end."""
    network = make()
    x = torch.randn(900, next(network.parameters()).shape[1])
    whole = output(network, x)
    packed = [PackedLayers(network) for _ in range(2)]
    blocks = [one.in_use(TOKENS) for one in packed]
    with torch.inference_mode():
        for block in blocks:
            block.__enter__()
        assert torch.equal(network(x), whole)
        blocks[ends_first].__exit__(None, None, None)
        assert torch.equal(network(x), whole)
        blocks[1 - ends_first].__exit__(None, None, None)
    assert len(multiplied) == 3
    assert changed(network) == []
    assert packed[0]._layers.keys() == packed[1]._layers.keys()


def test_a_block_within_another_multiplies_with_a_weight_that_changed_in_the_meantime(faster, multiplied):
    network, x = layer(), torch.randn(700, 384)
    nothing = torch.zeros_like(network.weight.detach())
    with torch.inference_mode(), PackedLayers(network).in_use(TOKENS):
        network.weight.data = nothing
        with PackedLayers(network).in_use(TOKENS):
            assert torch.equal(network(x), network.bias.expand(700, -1))
    assert changed(network) == []


def test_another_thread_that_trains_gets_the_ordinary_way(faster, multiplied):
    network, x = layer(), torch.randn(700, 384)

    def gradient():
        network(x).sum().backward()
        return network.weight.grad

    expected = x.sum(0).expand(512, -1)
    with torch.inference_mode(), PackedLayers(network).in_use(TOKENS), ThreadPoolExecutor(1) as pool:
        found = pool.submit(gradient).result()
    assert torch.allclose(found, expected, atol=1e-3)
    assert multiplied == []


def test_threads_that_score_one_network(faster):
    network, x = layer(), torch.randn(700, 384)
    expected = network(x).detach()
    with ThreadPoolExecutor(4) as pool:
        for values in pool.map(lambda _: output(network, x), range(40)):
            assert torch.allclose(values, expected, atol=1e-5)
    assert changed(network) == []


@pytest.fixture
def scored(faster, multiplied):
    """A network whose ``disco-names`` was measured with packed weights, and its copy from before."""
    network = make_network("bert", **WIDE)
    before = copy.deepcopy(network)
    measure(load_suite("disco-names"), load_model(network, tokenizer=tokenizer("bert")), limit=280, cache=None)
    assert multiplied
    return network, before


def test_a_scored_network_is_as_before(scored):
    network, before = scored
    assert changed(network) == []
    assert {name: set(vars(module)) for name, module in network.named_modules()} == {
        name: set(vars(module)) for name, module in before.named_modules()
    }
    assert all(torch.equal(new, before.state_dict()[name]) for name, new in network.state_dict().items())
    assert network.get_output_embeddings().weight is network.get_input_embeddings().weight


def test_a_scored_network_can_be_copied_and_pickled(scored):
    network, before = scored
    ids = torch.arange(40)[None]
    for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert torch.equal(copied(ids).logits, before(ids).logits)


def test_training_after_scoring_gives_the_same_bits(scored):
    ids = torch.arange(5, 405).reshape(20, 20)
    trained = []
    for network in scored:
        network.eval()  # without dropout
        optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
        for _ in range(3):
            optimiser.zero_grad()
            network(input_ids=ids, labels=ids).loss.backward()
            optimiser.step()
        trained.append(network.state_dict())
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])


# Scores of real models


def values_of(suite, model, **options):
    measurement = measure(load_suite(suite), model, cache=None, **options)
    return measurement, {name: np.asarray(items) for name, items in measurement.items.items()}


@pytest.mark.parametrize(
    ("model", "suite", "wide"),
    [
        ("minilm-snli", "nli-occupation", True),
        ("minilm-mlm", "lm-occupation", True),
        ("bert-tiny-mlm", "lm-occupation", True),
        ("stories260k", "lm-occupation", False),
    ],
)
def test_scores_of_real_models_differ_by_rounding(shared_data, faster, multiplied, model, suite, wide):
    loaded = load_model(str(shared_data / "models" / model), device="cpu")
    packed, items = values_of(suite, loaded, limit=128)
    assert bool(multiplied) is wide
    with torch.backends.mkldnn.flags(enabled=False):
        ordinary, expected = values_of(suite, loaded, limit=128)
    assert packed.value == pytest.approx(ordinary.value, abs=1e-5)
    for name, array in expected.items():
        if array.dtype.kind == "f":
            assert np.allclose(items[name], array, atol=5e-5, equal_nan=True), name  # log-probabilities of about -10


def test_vectors_of_a_real_encoder_differ_by_rounding(real_encoder, faster, multiplied):
    packed, _ = values_of("sts-occupation", real_encoder, limit=128)
    assert multiplied
    with torch.backends.mkldnn.flags(enabled=False):
        ordinary, _ = values_of("sts-occupation", real_encoder, limit=128)
    assert packed.value == pytest.approx(ordinary.value, abs=1e-5)


def test_fills_of_a_real_model_are_the_same(shared_data, faster, multiplied):
    loaded = load_model(str(shared_data / "models" / "minilm-mlm"), device="cpu")
    _, packed = values_of("disco-terms", loaded, limit=128)
    assert multiplied
    with torch.backends.mkldnn.flags(enabled=False):
        _, ordinary = values_of("disco-terms", loaded, limit=128)
    assert (
        np.mean(packed["fills"] == ordinary["fills"]) > 0.999
    )  # fills whose logits are equal but for rounding may change places
