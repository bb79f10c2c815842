"""Freezing: after a real training, what is frozen is equal to the start bit for bit, and the rest has moved."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file
from support.tiny_checkpoints import corpus, make_network

from pytest_genderbias.errors import SettingError
from pytest_genderbias.mitigation import make_recipe, mitigate, resilience
from pytest_genderbias.mitigation.harness.file import read_mitigations
from pytest_genderbias.mitigation.methods.regularisation import Regularisation
from pytest_genderbias.recipes.recipe import Training
from pytest_genderbias.recipes.trainer import freeze, frozen_parameters
from pytest_genderbias.text.located_yaml import read_yaml

FEW = {"batch_size": 4, "epochs": 1, "learning_rate": 1e-2, "max_length": 16}
IDS = torch.arange(6, 18)[None]
#: By kind and setting: the beginnings of the names of what is frozen in the classifier, written from the architecture's
#: own code.
FROZEN = {
    ("bert", "embeddings"): ("bert.embeddings.",),
    ("bert", 0): ("bert.embeddings.",),
    ("bert", 1): ("bert.embeddings.", "bert.encoder.layer.0."),
    ("bert", 2): ("bert.embeddings.", "bert.encoder."),
    ("bert", "encoder"): ("bert.embeddings.", "bert.encoder."),  # its pooler belongs to the head
    ("llama", "embeddings"): ("model.embed_tokens.",),
    ("llama", 1): ("model.embed_tokens.", "model.layers.0."),
    ("llama", "encoder"): ("model.",),
    ("deberta-v2", "embeddings"): ("deberta.embeddings.",),
    ("deberta-v2", 1): (
        "deberta.embeddings.",
        "deberta.encoder.layer.0.",
        "deberta.encoder.rel_embeddings.",
        "deberta.encoder.LayerNorm.",
    ),
    ("electra", 1): ("electra.embeddings.", "electra.embeddings_project.", "electra.encoder.layer.0."),
    ("albert", "embeddings"): ("albert.embeddings.", "albert.encoder.embedding_hidden_mapping_in."),
}


@pytest.fixture(scope="module")
def nli_files(tmp_path_factory):
    """Eight pairs, all of one length."""
    labels = ("entailment", "neutral", "contradiction")
    rows = [
        {"premise": "The nurse ate a bagel.", "hypothesis": "The man ate.", "label": labels[i % 3]} for i in range(8)
    ]
    path = tmp_path_factory.mktemp("nli") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"training": str(path), "evaluation": str(path)}


def states(network, ids=IDS):
    """Return the hidden states that transformers gives for the body of a network."""
    with torch.no_grad():
        return network.base_model(input_ids=ids, output_hidden_states=True).hidden_states


@pytest.mark.parametrize(("kind", "what"), list(FROZEN))
def test_what_a_recipe_freezes_stays_bit_for_bit_and_the_rest_moves(kind, what, tiny_model, nli_files, tmp_path):
    recipe = make_recipe("nli", **nli_files, **FEW, freeze=what)
    start = recipe.start(tiny_model(kind), 0)
    old = start.backend.network.state_dict()
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run")
    new = load_file(path / "model.safetensors")
    still = {name for name in new if torch.equal(new[name], old[name])}
    frozen = {name for name in new if name.startswith(FROZEN[kind, what])}
    assert frozen <= still
    # Rows of tokens that no text has, and biases without a gradient (keys of attention), stay where they are by
    # themselves.
    assert {name for name in new if name.endswith("weight")} - frozen <= set(new) - still | {
        name for name in still if "embeddings" in name
    }
    assert any(name not in still for name in new)
    if type(what) is int:
        trained = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
        before, after = states(start.backend.network), states(trained)
        assert all(torch.equal(*pair) for pair in zip(before[: what + 1], after[: what + 1], strict=True))
        assert not any(torch.equal(*pair) for pair in zip(before[what + 1 :], after[what + 1 :], strict=True))


def test_a_default_freezes_nothing_and_keeps_the_settings_that_name_a_folder(nli_files, tiny_model, tmp_path):
    plain, frozen = (make_recipe("nli", **nli_files, **FEW, **more) for more in ({}, {"freeze": 1}))
    assert "freeze" not in plain.settings()
    assert frozen.settings() == {**plain.settings(), "freeze": 1}
    text = tmp_path / "text.txt"
    text.write_text("\n".join(corpus()[:80]))
    models = [make_recipe("masked-lm", corpus=str(text), **more) for more in ({}, {"freeze": "embeddings"})]
    assert "freeze" not in models[0].settings()
    assert models[1].settings() == {**models[0].settings(), "freeze": "embeddings"}
    start = plain.start(tiny_model("bert"), 0)
    old, new = (
        start.backend.network.state_dict(),
        load_file(plain.train(start, plain.rows(), 0, tmp_path / "run") / "model.safetensors"),
    )
    assert not any(torch.equal(new[name], old[name]) for name in new if name.endswith("dense.weight"))


def test_what_the_caller_freezes_takes_the_place_of_the_setting(nli_files, tiny_model, tmp_path):
    recipe = make_recipe("nli", **nli_files, **FEW, freeze="encoder")
    start = recipe.start(tiny_model("bert"), 0)
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run", Training(freeze="embeddings"))
    old, new = start.backend.network.state_dict(), load_file(path / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(old[name], new[name])


def test_a_masked_lm_trains_on_above_frozen_layers(tiny_model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(corpus()[:80]))
    small = {"max_length": 16, "steps": 2, "batch_size": 4, "learning_rate": 1e-2, "held_out": 0.2}
    recipe = make_recipe("masked-lm", corpus=str(text), **small, freeze=1)
    start = recipe.start(tiny_model("bert"), 0)
    old = start.backend.network.state_dict()
    new = load_file(recipe.train(start, recipe.rows(), 0, tmp_path / "run") / "model.safetensors")
    frozen = ("bert.embeddings.", "bert.encoder.layer.0.")
    assert all(torch.equal(new[name], old[name]) for name in new if name.startswith(frozen))
    assert not any(
        torch.equal(new[name], old[name])
        for name in new
        if name.endswith("dense.weight") and not name.startswith(frozen)
    )
    causal = make_recipe("causal-lm", corpus=str(text), **small, freeze="encoder")
    with pytest.raises(SettingError, match="freeze='encoder' leaves nothing of GPT2LMHeadModel to train"):
        causal.train(causal.start(tiny_model("gpt2"), 0), causal.rows(), 0, tmp_path / "causal")


@pytest.mark.parametrize(
    "kind", ["distilbert", "mpnet", "modernbert", "gpt2", "roberta", "deberta-v2", "electra", "llama"]
)
def test_a_frozen_layer_gives_the_same_vectors_whatever_happens_to_the_rest(kind):
    """All that is not frozen is moved by hand: hidden states up to the k-th stay, and the next ones change."""
    for k in (0, 1):
        network = make_network(kind)
        before = states(network)
        freeze(network, k or "embeddings")
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(k)))
        after = states(network)
        assert all(torch.equal(*pair) for pair in zip(before[: k + 1], after[: k + 1], strict=True)), (kind, k)
        assert not torch.equal(before[k + 1], after[k + 1])
        assert network.training is False


def test_layers_that_share_their_parameters_cannot_be_frozen_one_by_one(tiny_model, nli_files):
    network = make_network("albert")
    for what in (1, 2):
        with pytest.raises(SettingError, match=f"AlbertForMaskedLM share their parameters, so the first {what} cannot"):
            freeze(network, what)
    assert {id(p) for p in frozen_parameters(network, 0)} == {id(p) for p in frozen_parameters(network, "embeddings")}
    assert len(frozen_parameters(network, "encoder")) == len(list(network.albert.parameters()))
    with pytest.raises(SettingError, match="share their parameters"):
        make_recipe("nli", **nli_files, freeze=1).start(tiny_model("albert"), 0)
    recipe = make_recipe("nli", **nli_files)
    with pytest.raises(SettingError, match="share their parameters"):
        resilience({"a": tiny_model("albert")}, "nli-occupation", recipe, frozen="all", limit=8)


@pytest.mark.parametrize("wrong", ["head", -1, 1.5, True])
def test_a_setting_that_names_no_part_is_refused(wrong, nli_files):
    for name in ("nli", "similarity", "classification", "static-nli", "masked-lm", "causal-lm"):
        with pytest.raises(SettingError, match="freeze"):
            make_recipe(name, freeze=wrong)


def test_more_layers_than_there_are_are_refused_before_the_training(tiny_model, nli_files, tmp_path):
    with pytest.raises(SettingError, match="0 to 2 layers, got 3"):
        make_recipe("nli", **nli_files, freeze=3).start(tiny_model("bert"), 0)
    text = tmp_path / "text.txt"
    text.write_text("\n".join(corpus()[:80]))
    with pytest.raises(SettingError, match="0 to 2 layers, got 3"):
        make_recipe("masked-lm", corpus=str(text), freeze=3).start(tiny_model("bert"), 0)


def test_a_file_of_mitigations_sets_it(tmp_path):
    file = tmp_path / "a.bias.yaml"
    file.write_text(
        "mitigate:\n  - method: dropout\n    recipe: {name: nli, freeze: 1}\n    reduces: [{suite: nli-occupation, by:"
        " 0.1}]\n  - method: dropout\n    recipe: {name: nli, freeze: encoder}\n    reduces: [{suite: nli-occupation,"
        " by: 0.1}]\n"
    )
    assert [reduction.mitigation.recipe.freeze for reduction in read_mitigations(read_yaml(file))] == [1, "encoder"]


def test_what_moves_embeddings_refuses_frozen_ones(tiny_model, nli_files, tmp_path):
    recipe = make_recipe("nli", **nli_files, **FEW, freeze=1)
    with pytest.raises(SettingError, match="regularisation moves embeddings, and this training freezes them"):
        mitigate(tiny_model("bert"), Regularisation(), recipe, seeds=1, folder=tmp_path)


def test_resilience_freezes_itself(tiny_model, nli_files):
    recipe = make_recipe("nli", **nli_files, freeze="encoder")
    with pytest.raises(SettingError, match="resilience freezes parts itself"):
        resilience({"a": tiny_model("bert")}, "nli-occupation", recipe, limit=8)
