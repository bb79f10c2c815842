"""The edge-probing recipe: the Trainer trains its head, its checkpoint is read and scored as any other, and mitigations
change what it sees.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from support.gap_files import write_gap
from support.interrupted import StopAt

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation import BiasCallback, make_method, make_recipe, mitigate
from pytest_genderbias.mitigation.methods.projection import project_embeddings
from pytest_genderbias.models.saving import save_model
from pytest_genderbias.recipes.coreference import EdgeProbing, _cases, _row_of_pieces
from pytest_genderbias.recipes.recipe import Training
from pytest_genderbias.scoring.edge_probe import features_of, head_of
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.families.shared.coreference_training import coreference_training


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_gap(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def recipe(data):
    return EdgeProbing(data=data)


@pytest.fixture(scope="module")
def trained(recipe, tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return load_model(str(recipe.train(recipe.start(tiny_model("bert"), 0), recipe.rows(), 0, folder)), device="cpu")


def all_examples(recipe):
    return coreference_training(recipe._data(), recipe.training).examples


def all_rows(recipe):
    examples = all_examples(recipe)
    facts = zip(examples.facts["label"], examples.facts["document"], strict=True)
    return [
        _row_of_pieces(text, spans, bool(label), int(document))
        for (text,), spans, (label, document) in zip(examples.texts, examples.spans, facts, strict=True)
    ]


def test_rows_give_their_texts_and_mentions_back(recipe):
    rows = all_rows(recipe)
    found, expected = _cases(rows), all_examples(recipe)
    assert found.texts == expected.texts and [tuple(s) for s in found.spans] == [tuple(s) for s in expected.spans]
    assert {row["turned"] for row in rows} == {True, False}
    assert _row_of_pieces("her news", [(0, 3), (0, 8)], True, 0) is None


def test_held_out_documents_are_those_of_no_training(recipe):
    kept, out = ({row["document"] for row in part} for part in recipe._parts[:2])
    assert len(out) == 5 and len(kept) == 43 and not kept & out
    assert len(recipe.rows()) == 86
    assert len(EdgeProbing(data=recipe.data, max_rows=7).rows()) == 7


@pytest.mark.parametrize("kind", ["bert", "albert", "deberta-v2", "modernbert", "gpt2", "bert-nli"])
def test_start_keeps_the_encoder_of_any_architecture(recipe, tiny_model, kind, tmp_path):
    model = tiny_model(kind)
    start = recipe.start(model, 1)
    ids = torch.arange(6, 26)[None]
    with torch.no_grad():
        expected = model.backend.network.base_model(input_ids=ids).last_hidden_state
        assert torch.equal(start.backend.network.base_model(input_ids=ids).last_hidden_state, expected)
    again, other = recipe.start(model, 1), recipe.start(model, 2)
    assert start.fingerprint == again.fingerprint != other.fingerprint
    assert start.role.kind == "coreference-scorer" and start.width == model.width
    read = load_model(str(save_model(start, tmp_path / "model")), device="cpu")
    assert read.fingerprint == start.fingerprint and read.role == start.role


def test_the_head_reads_vectors_by_their_distance_from_those_of_training(recipe, trained):
    network = trained.backend.network
    _, features = features_of(trained, _cases(recipe.rows()))
    assert network.mean.numpy() == pytest.approx(features.mean(axis=0, dtype=np.float64), abs=1e-6)
    assert network.scale.numpy() == pytest.approx(features.std(axis=0, dtype=np.float64), rel=1e-4)
    with torch.no_grad():
        by_network = torch.sigmoid(network(pairs=torch.as_tensor(features)).logits).numpy()
    assert head_of(network).probabilities(features) == pytest.approx(by_network, abs=1e-5)


def test_the_loss_is_the_cross_entropy_and_training_lowers_it(recipe, trained, tiny_model):
    cases = _cases(recipe.rows())
    _, features = features_of(trained, cases)
    labels = cases.facts["label"]

    def loss(network):
        said = head_of(network).probabilities(features)
        return float(-np.log(np.where(labels, said, 1 - said)).mean())

    with torch.no_grad():
        found = trained.backend.network(pairs=torch.as_tensor(features), labels=torch.as_tensor(labels)).loss
    assert float(found) == pytest.approx(loss(trained.backend.network), rel=1e-4)
    assert loss(trained.backend.network) < loss(recipe.start(tiny_model("bert"), 0).backend.network)


def test_a_training_that_was_interrupted_goes_on_and_ends_with_the_same_head(recipe, tiny_model, tmp_path):
    saving = replace(recipe, arguments={"save_steps": 7})
    start = saving.start(tiny_model("bert"), 0)
    whole = saving.train(start, saving.rows(), 0, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        saving.train(start, saving.rows(), 0, tmp_path / "stopped", Training([StopAt(17)]))
    assert (tmp_path / "stopped" / "checkpoints" / "checkpoint-14").is_dir()
    on = saving.train(start, saving.rows(), 0, tmp_path / "stopped")
    assert json.loads((on / "training.json").read_text())["log"][-1]["step"] == 30
    assert (on / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_head_that_is_trained_on_begins_as_it_was(recipe, trained, tmp_path):
    few = replace(recipe, max_rows=40, learning_rate=1e-12)
    on = load_model(str(few.train(few.start(trained, 0), few.rows(), 0, tmp_path, Training(max_steps=1))), device="cpu")
    _, features = features_of(trained, _cases(recipe.rows()))
    before, after = (head_of(one.backend.network).probabilities(features) for one in (trained, on))
    assert after == pytest.approx(before, abs=1e-6)


def test_the_checkpoint_is_measured_by_the_head_that_it_carries(trained):
    found = measure("coref-occupation", trained, cache=None)
    assert found.value > 0 and any("edge-probing head on layer" in note for note in found.notes)


def test_bias_is_watched_while_the_head_is_trained(recipe, tiny_model, tmp_path):
    start = recipe.start(tiny_model("bert"), 0)
    watch = BiasCallback("coref-occupation", every=[0, 5], model=start, limit=200)
    recipe.train(start, recipe.rows(), 0, tmp_path, Training([watch], max_steps=9))
    assert [entry["step"] for entry in watch.history] == [0, 5, 9]
    assert len({entry["values"]["coref-occupation/aggregate_bias"] for entry in watch.history}) == 3


def test_a_new_head_is_one_of_the_seed(recipe, trained, tmp_path):
    again = [
        load_model(
            str(recipe.train(trained, recipe.rows(), seed, tmp_path / f"{i}", Training(new_head=True, max_steps=1)))
        )
        for i, seed in enumerate((1, 1, 2))
    ]
    first, same, other = (one.fingerprint for one in again)
    assert first == same != other != trained.fingerprint


def test_the_encoder_is_frozen_and_the_head_is_not(recipe, trained, tiny_model):
    body = tiny_model("bert").backend.network.base_model.state_dict()
    found = trained.backend.network.encoder.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in body.items())
    first = head_of(recipe.start(tiny_model("bert"), 0).backend.network)
    assert not np.array_equal(first.weights["hidden_weight"], head_of(trained.backend.network).weights["hidden_weight"])
    assert head_of(trained.backend.network).pairs > 60


def test_a_seed_gives_one_head_and_what_is_there_is_kept(recipe, trained, tiny_model, tmp_path):
    start = recipe.start(tiny_model("bert"), 0)
    before = start.fingerprint
    folder = recipe.train(start, recipe.rows(), 0, tmp_path, Training(freeze="encoder"))
    assert load_model(str(folder), device="cpu").fingerprint == trained.fingerprint
    assert recipe.train(start, [], 1, tmp_path) == folder
    assert start.fingerprint == before == recipe.start(tiny_model("bert"), 0).fingerprint


def test_f1_is_that_of_scikit_learn(recipe, trained):
    cases = _cases(recipe._parts[1])
    read, features = features_of(trained, cases)
    said = head_of(trained.backend.network).probabilities(features) > 0.5
    (found,) = recipe.evaluate(trained)
    assert (found.name, found.direction) == ("f1", "lower")
    assert found.value == pytest.approx(f1_score(cases.facts["label"][read], said))
    assert float(found.item_sums.total) == pytest.approx(found.value)


def test_counterfactuals_change_what_the_head_sees_and_keep_its_mentions(recipe, tiny_model, tmp_path):
    run = mitigate(tiny_model("bert"), make_method("cda", sides="one"), recipe, seeds=1, folder=tmp_path)
    before, after = (load_model(str(getattr(run, side)[0]), device="cpu") for side in ("before", "after"))
    assert before.fingerprint != after.fingerprint
    assert before.role.kind == after.role.kind == "coreference-scorer"
    assert [found["f1"].name for (found,) in run.performance("after")] == ["f1"]


def test_projection_changes_the_encoder_below_the_head(trained, tmp_path):
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 2)))[0]
    projected = project_embeddings(trained, basis)
    read = load_model(str(save_model(projected, tmp_path / "model")), device="cpu")
    assert read.fingerprint == projected.fingerprint != trained.fingerprint


def test_what_cannot_be_is_refused(recipe, tiny_model, tmp_path):
    with pytest.raises(NotApplicableError, match="no model was given"):
        recipe.start(None, 0)
    with pytest.raises(NotApplicableError, match=r"without an edge-probing head; start\(\) adds one"):
        recipe.train(tiny_model("bert"), recipe.rows(), 0, tmp_path)
    with pytest.raises(NotApplicableError, match="without an edge-probing head"):
        recipe.evaluate(tiny_model("bert"))
    with pytest.raises(SettingError, match="there is no row"):
        recipe.train(recipe.start(tiny_model("bert"), 0), [], 0, tmp_path)
    wrong = {
        "held_out": (0, 1.0, "0.1"),
        "max_rows": (0,),
        "epochs": (0,),
        "batch_size": (1.5,),
        "learning_rate": (-1,),
    }
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        with pytest.raises(SettingError, match=name):
            EdgeProbing(**{name: value})


def test_settings_say_what_was_read_and_not_where(recipe, data):
    told = recipe.settings()
    assert data not in str(told)
    assert told == make_recipe("edge-probe", data=data).settings() != EdgeProbing(data=data, max_rows=7).settings()


def test_probabilities_of_a_stored_head_are_likelihoods_and_no_scores_to_take_the_softmax_of(trained, tmp_path):
    """The mean probability by occupation, from the head's own output on Winogender's vectors; a softmax of two
    probabilities lies in .27 to .73.
    """
    folder = tmp_path / "winogender"
    folder.mkdir()
    sentences = [
        f"{occupation}.customer.{answer}.{gender}.txt\tThe {occupation} told the customer that {pronoun} could pay."
        for occupation in ("technician", "nurse", "engineer")
        for answer in (0, 1)
        for gender, pronoun in (("female", "she"), ("male", "he"))
    ]
    (folder / "all_sentences.tsv").write_text("\n".join(["sentid\tsentence", *sentences]) + "\n")
    found = measure("coref-winogender", trained, data=str(tmp_path))
    assert "likelihood: score" in found.notes and "scorer: own: the object's scores" in found.notes
    by_occupation = {r["value"]: r["likelihood_female"] for r in found.records if r["slice"] == "occupation"}
    assert by_occupation.keys() == {"technician", "nurse", "engineer"}
    for occupation, likelihood in by_occupation.items():
        text = f"The {occupation} told the customer that she could pay."
        spans = [(0, 4 + len(occupation)), (text.index("she"), text.index("she") + 3)]
        _, features = features_of(trained, TextCases([(text,)], [tuple(spans)]))
        with torch.no_grad():
            log_odds = trained.backend.network(pairs=torch.as_tensor(features)).logits
        assert likelihood == pytest.approx(float(torch.sigmoid(log_odds.double())), abs=1e-5)
