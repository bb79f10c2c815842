"""Raised dropout: where the rates are, that they change what a network computes, and that they are back afterwards."""

import pytest
import torch
import transformers
from support.tiny_checkpoints import CAUSAL, MASKED, make_network

from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation import make_method, make_recipe
from pytest_genderbias.mitigation.methods.dropout import Dropout, dropout_places, raised_dropout
from pytest_genderbias.recipes.recipe import Training

SENTENCES = ["The nurse said that she was tired.", "The baker likes music.", "He met the doctor in the street."] * 20


def spread(network, passes=8):
    """Return how much the logits of one input differ between its repetitions in a batch in training mode."""
    torch.manual_seed(0)
    network.train()
    with torch.no_grad():
        logits = network(input_ids=torch.arange(5, 45).reshape(2, 20).repeat(passes, 1)).logits
    network.eval()
    return float(logits.unflatten(0, (passes, 2)).std(0).mean())


def state(network):
    """Return everything of modules and config that dropout could have changed."""
    modules = {
        name: (type(module), module.training, {k: v for k, v in vars(module).items() if isinstance(v, float)})
        for name, module in network.named_modules()
    }
    return modules, network.config.to_dict()


@pytest.mark.parametrize(
    ("kind", "attention"),
    [
        (kind, attention)
        for kind in (*MASKED, *CAUSAL)
        for attention in (("its own",) if kind in ("deberta-v2", "mpnet") else ("sdpa", "eager"))
    ],
)
def test_raised_rates_are_felt_in_training_and_are_back_afterwards(kind, attention):
    network = make_network(kind)
    if attention != "its own":
        network.set_attn_implementation(attention)
    before, own = state(network), spread(network)
    for what in ("attention", "hidden"):
        if (kind, what) == ("llama", "hidden"):
            continue
        with raised_dropout(network, {what: 0.5}):
            assert spread(network) > own + 0.05
            with torch.no_grad():  # in evaluation mode nothing is dropped
                logits = [network(input_ids=torch.arange(5, 25)[None]).logits for _ in range(2)]
            assert torch.equal(*logits)
        assert state(network) == before
    assert spread(network) == own


def test_places_of_bert_are_those_of_its_source():
    network = make_network("bert")
    layers = [f"bert.encoder.layer.{i}" for i in range(2)]
    assert dropout_places(network, "attention") == [(f"{one}.attention.self.dropout", "p") for one in layers]
    hidden = [f"{one}.{part}.dropout" for one in layers for part in ("attention.output", "output")]
    assert sorted(dropout_places(network, "hidden")) == sorted(
        (name, "p") for name in ["bert.embeddings.dropout", *hidden]
    )


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.10])
def test_the_rates_of_albert_rise_from_nothing(rate):
    network = make_network("albert")
    assert network.config.attention_probs_dropout_prob == network.config.hidden_dropout_prob == 0
    assert spread(network) == 0
    dropped = {}
    for kind in ("attention", "hidden"):
        with raised_dropout(network, {kind: rate}):
            places = [network.get_submodule(module) for module, _ in dropout_places(network, kind)]
            assert places and all(module.p == rate for module in places)
            dropped[kind] = spread(network)
    assert min(dropped.values()) > 0 and spread(network) == 0


def test_the_rates_are_back_after_an_error():
    network = make_network("modernbert")
    before = state(network)

    def fail():
        with raised_dropout(network, {"attention": 0.3, "hidden": 0.4}):
            assert network.config.attention_dropout == 0.3
            assert network.config.mlp_dropout == network.config.embedding_dropout == 0.4
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert state(network) == before


def test_what_has_no_such_dropout_is_refused(tiny_model, real_static):
    with pytest.raises(NotApplicableError, match="LlamaForCausalLM has no hidden dropout"):
        Dropout(attention=0.1, hidden=0.2).hooks(tiny_model("llama"))
    Dropout(attention=0.1, hidden=None).hooks(tiny_model("llama"))
    with pytest.raises(NotApplicableError, match="not a network"):
        Dropout().hooks(real_static)


@pytest.fixture
def real_static(tmp_path):
    from pytest_genderbias import load_model

    path = tmp_path / "vectors.txt"
    path.write_text("he 1 0\nshe 0 1\n")
    return load_model(str(path))


@pytest.mark.parametrize("rates", [{"attention": 1.0}, {"hidden": -0.1}, {"hidden": "0.1"}, {"attention": True}])
def test_rates_that_there_are_not(rates):
    with pytest.raises(SettingError, match="should be a number of at least 0 and below 1"):
        Dropout(**rates)


def test_grid_settings_and_registry():
    with pytest.raises(SettingError, match="set the rate"):
        Dropout(None, None)
    assert make_method("dropout").settings() == {"method": "dropout", "attention": 0.15, "hidden": 0.2}
    assert Dropout().control(0) is None and Dropout().trains


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_the_rates_are_in_force_while_a_recipe_trains(kind, tiny_model, tmp_path):
    model = tiny_model(kind)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n\n".join(SENTENCES))
    recipe = make_recipe(
        "causal-lm" if kind == "gpt2" else "masked-lm", corpus=str(corpus), max_length=16, steps=3, batch_size=4
    )
    seen = []

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            assert model.training
            seen.append({m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)})

    start = recipe.start(model, 0)
    before = state(start.backend.network)
    hooks = Dropout(0.31, 0.47).hooks(start)
    raised = recipe.train(
        start,
        recipe.rows(),
        0,
        tmp_path / "raised",
        Training(callbacks=(*hooks.callbacks, Watch()), around=hooks.around),
    )
    plain = recipe.train(start, recipe.rows(), 0, tmp_path / "plain")
    assert seen == [{0.31, 0.47}] * 3
    assert state(start.backend.network) == before  # a copy was trained
    configs = [transformers.AutoConfig.from_pretrained(path).to_dict() for path in (raised, plain)]
    assert configs[0] | {"_name_or_path": ""} == configs[1] | {
        "_name_or_path": ""
    }  # the rates are the model's own again
    weights = [transformers.AutoModelForPreTraining.from_pretrained(path).state_dict() for path in (raised, plain)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
