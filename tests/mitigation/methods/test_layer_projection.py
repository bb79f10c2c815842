"""Projected hidden layers: measured by plain forward hooks, in memory, during training, and after a checkpoint is read
again.
"""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file, save_file
from support.interrupted import StopAt
from support.tiny_checkpoints import CAUSAL, MASKED, NLI, make_network, tokenizer

from pytest_genderbias import load_model
from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.mitigation import make_recipe, mitigate
from pytest_genderbias.mitigation.methods.projection import Projection, project_embeddings, project_layers
from pytest_genderbias.mitigation.words.directions import HE_SHE, layer_bases, learn_basis, random_bases
from pytest_genderbias.models.hidden_layers import PROJECTION_FILE
from pytest_genderbias.models.saving import save_model
from pytest_genderbias.recipes.recipe import Training

IDS = torch.arange(6, 26)[None]
FEW = {"batch_size": 4, "epochs": 1, "learning_rate": 1e-2, "max_length": 16}


def layer_modules(network):
    """Return the modules whose outputs are the hidden states of a tiny BERT, from layer 0."""
    return [network.bert.embeddings, *network.bert.encoder.layer]


def outputs(network, ids=IDS):
    """Return what each layer of a tiny BERT gives to the next one, by plain forward hooks, and the logits."""
    seen = {}

    def keep(number):
        def hook(module, args, output):
            seen[number] = (output[0] if isinstance(output, tuple) else output).detach().double().numpy()[0]

        return hook

    handles = [module.register_forward_hook(keep(i)) for i, module in enumerate(layer_modules(network))]
    with torch.no_grad():
        logits = network(input_ids=ids).logits
    for handle in handles:
        handle.remove()
    return [seen[i] for i in range(len(seen))], logits


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


# Checkpoints


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL])
def test_a_checkpoint_keeps_its_projection_bit_for_bit(kind, tiny_model, tmp_path):
    base = tiny_model(kind)
    projected = project_layers(base, layer_bases(base, [0, 1], pairs=HE_SHE))
    path = save_model(projected, tmp_path / "out")
    loaded = load_model(str(path), device="cpu")
    assert loaded.fingerprint == projected.fingerprint != base.fingerprint
    assert loaded.details["mitigation"] == projected.details["mitigation"]
    with torch.no_grad():
        logits = [model.backend.network(input_ids=IDS).logits for model in (projected, loaded, base)]
    assert torch.equal(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2])


def test_a_subspace_of_several_dimensions_is_saved_in_its_own_order(tiny_model, tmp_path):
    """np.linalg.svd and .T give arrays whose memory runs down the columns."""
    base = tiny_model("bert")
    basis = np.asfortranarray(random_bases(16, 2, 1, seed=5)[0])
    projected = project_layers(base, {1: basis})
    loaded = load_model(str(save_model(projected, tmp_path / "out")), device="cpu")
    np.testing.assert_array_equal(outputs(loaded.backend.network)[0][1], outputs(projected.backend.network)[0][1])
    assert loaded.fingerprint == projected.fingerprint


def test_what_is_read_again_is_projected_where_it_should_be_and_nowhere_else(tiny_model, tmp_path):
    base = tiny_model("bert")
    basis = random_bases(16, 2, 1, seed=3)[0]
    loaded = load_model(str(save_model(project_layers(base, {1: basis}), tmp_path / "out")), device="cpu")
    (zero, one, two), _ = outputs(loaded.backend.network)
    (zero_before, one_before, two_before), _ = outputs(base.backend.network)
    np.testing.assert_allclose(zero, zero_before, atol=1e-6)
    np.testing.assert_allclose(one, one_before - one_before @ basis @ basis.T, atol=1e-5)
    assert np.abs(one_before @ basis).max() > 0.1
    assert np.abs(two @ basis).max() > 0.1 and not np.allclose(two, two_before, atol=1e-3)


def test_a_model_is_projected_again_and_again(tiny_model, tmp_path):
    base = tiny_model("bert")
    first, second = random_bases(16, 1, 2, seed=4)
    twice = project_layers(project_layers(base, {1: first}), {1: second, 2: second})
    loaded = load_model(str(save_model(twice, tmp_path / "out")), device="cpu")
    assert loaded.fingerprint == twice.fingerprint
    np.testing.assert_allclose(outputs(loaded.backend.network)[1], outputs(twice.backend.network)[1], atol=1e-6)
    embeddings = project_embeddings(twice, learn_basis(base, pairs=HE_SHE))
    again = load_model(str(save_model(embeddings, tmp_path / "embeddings")), device="cpu")
    assert again.fingerprint == embeddings.fingerprint != twice.fingerprint


def test_a_checkpoint_that_lost_its_projection_is_refused(tiny_model, tmp_path):
    base = tiny_model("bert")
    path = save_model(project_layers(base, {1: random_bases(16)[0]}), tmp_path / "out")
    assert json.loads((path / "config.json").read_text())["genderbias_projected_layers"] == [[1]]
    bases = load_file(path / PROJECTION_FILE)

    def refused(match):
        with pytest.raises(ModelError, match=match):
            load_model(str(path), device="cpu")

    save_file({"0.layer_2": bases["0.layer_1"]}, path / PROJECTION_FILE)
    refused("other layers than genderbias_projected_layers")
    save_file({"0.layer_1": 2 * bases["0.layer_1"]}, path / PROJECTION_FILE)
    refused("orthonormal")
    save_file({"here": bases["0.layer_1"]}, path / PROJECTION_FILE)
    refused("projection of hidden layers of out")
    (path / PROJECTION_FILE).write_bytes(b"no tensors")
    refused("projection of hidden layers of out")
    (path / PROJECTION_FILE).unlink()
    refused("its hidden layers are projected .* is missing")
    plain = save_model(base, tmp_path / "plain")
    shutil.copytree(plain, tmp_path / "same")
    assert load_model(str(tmp_path / "same"), device="cpu").fingerprint == base.fingerprint
    assert "genderbias_projected_layers" not in (plain / "config.json").read_text()


# Training


@pytest.mark.parametrize(("layers", "freeze"), [((0,), "encoder"), ("all", "encoder"), ((1,), "nothing"), ("upper", 1)])
def test_layers_are_projected_in_training_and_in_what_it_saves(layers, freeze, checkpoint, nli_files, tmp_path):
    recipe = make_recipe("nli", **nli_files, **FEW, freeze=freeze)
    method = Projection(when="training", layers=layers)
    run = mitigate(
        str(checkpoint("bert")), method, recipe, seeds=1, controls=2 if layers == "all" else 1, folder=tmp_path
    )
    given = load_model(str(checkpoint("bert")), device="cpu")
    places = {"all": (0, 1, 2), "upper": (1, 2)}.get(layers, layers)
    learned = layer_bases(given, places, pairs=HE_SHE)  # of the encoder before the training
    before, after, *controls = (
        load_model(model, device="cpu").backend.network for model in (run.before[0], run.after[0], *run.control[0])
    )
    states = outputs(after)[0]
    for layer in range(3):
        part = np.abs(states[layer] @ learned.get(layer, random_bases(16)[0])).max()
        assert part < 1e-5 if layer in places else part > 0.05
    plain = outputs(before)[0]
    assert min(np.abs(plain[layer] @ basis).max() for layer, basis in learned.items()) > 0.05, "the training without it"
    for number, control in enumerate(controls):
        drawn = dict(zip(places, random_bases(16, 1, len(places), number), strict=True))
        of_control = outputs(control)[0]
        assert max(np.abs(of_control[layer] @ basis).max() for layer, basis in drawn.items()) < 1e-5
        assert not np.allclose(of_control[places[0]], states[places[0]], atol=1e-3)
    weights, start = after.state_dict(), given.backend.network.state_dict()
    body = [name for name in weights if name.startswith("bert.encoder.") and name.endswith("weight")]
    assert all(torch.equal(weights[name], start[name]) for name in body) == (freeze == "encoder")
    if freeze == "encoder":
        untouched = outputs(given.backend.network)[0]
        assert all(np.allclose(states[i], untouched[i], atol=1e-6) for i in range(places[0]))


def test_the_head_is_trained_on_the_projected_features(tiny_model, nli_files, tmp_path):
    """One step of plain gradient descent, computed by hand from the projected features of a frozen encoder."""
    recipe = make_recipe(
        "nli",
        **nli_files,
        **{**FEW, "batch_size": 8},
        freeze="encoder",
        arguments={"optim": "sgd", "max_grad_norm": 0.0, "warmup_steps": 0},
    )
    start = recipe.start(tiny_model("roberta"), 0)
    network = start.backend.network
    network.config.hidden_dropout_prob = 0.0
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    bases = layer_bases(start, [2], pairs=HE_SHE)
    trained = recipe.train(project_layers(start, bases), recipe.rows(), 0, tmp_path / "run")
    new = load_model(str(trained), device="cpu").backend.network.classifier
    rows = recipe.rows()
    fed = start.backend.tokenizer(
        [r["premise"] for r in rows],
        [r["hypothesis"] for r in rows],
        return_tensors="pt",
        truncation=True,
        max_length=16,
    )
    with torch.no_grad():
        features = network.roberta(**fed).last_hidden_state.double()
    b = torch.as_tensor(bases[2])
    head = network.classifier.double()
    labels = torch.tensor([["entailment", "neutral", "contradiction"].index(r["label"]) for r in rows])
    torch.nn.functional.cross_entropy(head(features - (features @ b) @ b.T), labels).backward()
    for name, parameter in head.named_parameters():
        step = parameter - FEW["learning_rate"] * parameter.grad
        torch.testing.assert_close(new.get_parameter(name).double(), step, rtol=1e-4, atol=1e-6)
    network.classifier.float()


def test_a_projected_model_gets_a_new_head_that_sees_the_projection(tiny_model, nli_files, tmp_path):
    recipe = make_recipe("nli", **nli_files, **FEW)
    projected = project_layers(tiny_model("bert"), {2: random_bases(16)[0]})
    start = recipe.start(projected, 0)
    assert start.fingerprint not in (projected.fingerprint, recipe.start(tiny_model("bert"), 0).fingerprint)
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run", Training(freeze="encoder", new_head=True))
    trained = load_model(str(path), device="cpu")
    assert np.abs(outputs(trained.backend.network)[0][2] @ random_bases(16)[0]).max() < 1e-5
    again = recipe.train(recipe.start(trained, 0), recipe.rows(), 1, tmp_path / "again", Training(max_steps=1))
    assert (
        np.abs(outputs(load_model(str(again), device="cpu").backend.network)[0][2] @ random_bases(16)[0]).max() < 1e-5
    )


def test_an_interrupted_training_goes_on_projected(tiny_model, nli_files, tmp_path):
    recipe = make_recipe("nli", **nli_files, **{**FEW, "epochs": 3}, arguments={"save_steps": 2})
    start = project_layers(recipe.start(tiny_model("bert"), 0), {1: random_bases(16)[0]})
    whole = recipe.train(start, recipe.rows(), 0, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        recipe.train(start, recipe.rows(), 0, tmp_path / "parts", Training([StopAt(4)]))
    parts = recipe.train(start, recipe.rows(), 0, tmp_path / "parts")
    assert load_model(str(parts), device="cpu").fingerprint == load_model(str(whole), device="cpu").fingerprint


def test_the_embeddings_are_named_like_layers():
    assert Projection(layers="embeddings") == Projection()
    assert Projection(layers="embeddings").settings() == Projection().settings()
    with pytest.raises(SettingError, match="layers should be embeddings, all or upper, or numbers"):
        Projection(layers="some")
    assert replace(Projection(when="training", layers="all"), random=1).changes("before")


def test_a_classifier_of_shared_layers_is_projected_at_each_call(tmp_path):
    """ALBERT calls one module for all layers; only the call that was chosen is projected, also after the round trip."""
    network = make_network("albert")
    torch.manual_seed(0)
    classifier = transformers.AlbertForSequenceClassification(
        type(network.config)(**{**network.config.to_dict(), **NLI, "num_labels": 3})
    ).eval()
    classifier.save_pretrained(tmp_path / "base")
    tokenizer("albert").save_pretrained(tmp_path / "base")
    base = load_model(str(tmp_path / "base"), device="cpu")
    basis = random_bases(16)[0]
    loaded = load_model(str(save_model(project_layers(base, {2: basis}), tmp_path / "out")), device="cpu")
    with torch.no_grad():
        states = loaded.backend.network.base_model(input_ids=IDS, output_hidden_states=True).hidden_states
    parts = [float(np.abs(state.double().numpy() @ basis).max()) for state in states]
    assert parts[2] < 1e-5 < 1e-2 < min(parts[:2])
