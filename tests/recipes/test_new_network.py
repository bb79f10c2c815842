"""Training from nothing: weights of the seed alone, sizes that are asked for, and a run without the method that begins
alike.
"""

import json

import numpy as np
import pytest
import torch
import transformers
from support.interrupted import StopAt
from support.tiny_checkpoints import CAUSAL, MASKED, make_network

from pytest_genderbias import load_model
from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation import make_method, make_recipe, mitigate
from pytest_genderbias.recipes.heads import new_network
from pytest_genderbias.recipes.recipe import Training


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)
    names = ["nurse", "baker", "doctor", "teacher"]
    lines = [
        f"The {rng.choice(names)} said that {rng.choice(['he', 'she'])} likes music. It is a good day."
        for _ in range(80)
    ]
    path = tmp_path_factory.mktemp("corpus") / "people.txt"
    path.write_text("\n\n".join(lines))
    return str(path)


def recipe_of(kind, corpus, **settings):
    small = {"corpus": corpus, "max_length": 16, "steps": 4, "batch_size": 4, "weights": "new"}
    return make_recipe("causal-lm" if kind in CAUSAL else "masked-lm", **small | settings)


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_weights_are_those_of_the_seed_and_of_no_given_one(kind):
    given = make_network(kind)
    before = {name: tensor.clone() for name, tensor in given.state_dict().items()}
    one, again, other = (new_network(given, seed) for seed in (5, 5, 6))
    assert type(one) is type(given) and not one.training
    assert same(one.state_dict(), again.state_dict()) and same(given.state_dict(), before)
    drawn = [name for name, weight in one.named_parameters() if weight.dim() == 2 and weight.std() > 0]
    assert drawn
    for name in drawn:
        weight = one.get_parameter(name)
        assert not torch.equal(weight, given.get_parameter(name)) and not torch.equal(weight, other.get_parameter(name))
    tied = given.get_output_embeddings().weight is given.get_input_embeddings().weight
    assert (one.get_output_embeddings().weight is one.get_input_embeddings().weight) == tied


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_networks_of_other_sizes_compute(kind):
    given = make_network(kind)
    made = new_network(given, 0, layers=1, hidden_size=24, heads=3)
    config = made.config
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (1, 24, 3)
    sizes = {len(layers) for layers in made.base_model.modules() if isinstance(layers, torch.nn.ModuleList)}
    assert 1 in sizes and 2 not in sizes
    with torch.no_grad():
        logits = made(input_ids=torch.arange(5, 15)[None]).logits
    assert logits.shape == (1, 10, given.config.vocab_size) and bool(logits.isfinite().all())


def test_a_head_keeps_its_size_and_the_layers_their_proportion():
    wider = new_network(make_network("bert"), 0, hidden_size=48).config  # of 16, with 2 heads and 32 inside
    assert (wider.num_attention_heads, wider.intermediate_size, wider.num_hidden_layers) == (6, 96, 2)


def test_weights_have_the_spread_that_the_architecture_names():
    network = new_network(make_network("bert", initializer_range=0.02), 1, hidden_size=128, heads=2)
    spreads = [float(p.detach().std()) for n, p in network.named_parameters() if p.dim() == 2]
    assert spreads == pytest.approx([0.02] * len(spreads), rel=0.1)
    for name, parameter in network.named_parameters():
        if parameter.dim() == 1:
            assert set(parameter.unique().tolist()) == ({1.0} if name.endswith("LayerNorm.weight") else {0.0})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden_size": 20}, "hidden_size=20 is not a multiple of 8, the size of a head"),
        ({"heads": 3}, "hidden_size=16 cannot be shared by 3 heads"),
        ({"hidden_size": 20, "heads": 3}, "hidden_size=20 cannot be shared by 3 heads"),
    ],
)
def test_sizes_that_cannot_be(sizes, message):
    with pytest.raises(SettingError, match=message):
        new_network(make_network("bert"), 0, **sizes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": "random"}, "weights should be given or new, got 'random'"),
        ({"weights": "given", "layers": 2}, "layers is a size of a new network; set weights to new"),
        ({"layers": 0}, "layers should be"),
        ({"heads": 1.5}, "heads"),
    ],
)
def test_settings_that_there_are_not(settings, message, corpus):
    with pytest.raises(SettingError, match=message):
        recipe_of("bert", corpus, **settings)


def test_trainings_of_given_weights_keep_their_identity(corpus):
    given, new = recipe_of("bert", corpus, weights="given"), recipe_of("bert", corpus, layers=1)
    added = {"weights", "layers", "hidden_size", "heads"}
    assert added.isdisjoint(given.settings()) and given.settings()["learning_rate"] == 5e-5
    assert new.settings().keys() & added == {"weights", "layers"} and new.settings()["learning_rate"] == 1e-3
    assert not given.makes_task and new.makes_task


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_a_training_from_nothing_is_seeded_resumes_and_is_an_ordinary_checkpoint(kind, tiny_model, corpus, tmp_path):
    recipe = recipe_of(kind, corpus, steps=6, layers=1, arguments={"save_steps": 2})
    rows = recipe.rows()
    starts = [recipe.start(tiny_model(kind), seed) for seed in (3, 3, 4)]
    whole = recipe.train(starts[0], rows, 3, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        recipe.train(starts[1], rows, 3, tmp_path / "parts", Training(callbacks=(StopAt(5),)))
    parts = recipe.train(recipe.start(tiny_model(kind), 3), rows, 3, tmp_path / "parts")
    other = recipe.train(starts[2], rows, 4, tmp_path / "other")
    loaded = [load_model(str(path), device="cpu") for path in (whole, parts, other)]
    first, second, third = (model.backend.network.state_dict() for model in loaded)
    assert same(first, second) and not same(first, third)
    assert loaded[0].role == tiny_model(kind).role and loaded[0].backend.network.config.num_hidden_layers == 1
    auto = transformers.AutoModelForCausalLM if kind in CAUSAL else transformers.AutoModelForMaskedLM
    assert same(auto.from_pretrained(whole).state_dict(), first)
    (untrained, trained) = (recipe.evaluate(model)[0].value for model in (starts[0], loaded[0]))
    assert trained < untrained


def test_the_run_before_is_the_same_training_without_the_method(tiny_model, corpus, tmp_path):
    recipe, method = recipe_of("bert", corpus), make_method("cda")
    run = mitigate(tiny_model("bert"), method, recipe, seeds=[3], folder=tmp_path / "runs")
    plain = recipe.train(recipe.start(tiny_model("bert"), 3), recipe.rows(), 3, tmp_path / "plain")
    before, after = (
        run.open(models[0][0]).backend.network.state_dict() for models in (run.models("before"), run.models("after"))
    )
    assert same(before, load_model(str(plain), device="cpu").backend.network.state_dict())
    assert not same(before, after) and not same(before, tiny_model("bert").backend.network.state_dict())
    assert json.loads(json.dumps(run.what["recipe"]))["weights"] == "new"
    assert [len(run.models(side)[0]) for side in ("before", "after", "control")] == [1, 1, 1]


def test_a_new_network_needs_a_model_for_its_tokenizer(corpus, tiny_model):
    for model in (None, tiny_model("gpt2")):
        with pytest.raises(
            NotApplicableError, match="takes architecture and tokenizer of a checkpoint that is a masked-lm"
        ):
            recipe_of("bert", corpus).start(model, 0)
