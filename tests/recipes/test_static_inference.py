"""Inference over static word vectors: what is in the vocabulary, what is trained, and what a projection of the vectors
does to it.
"""

from __future__ import annotations

import json
import os
from itertools import product

import numpy as np
import pytest
import torch

from pytest_genderbias import load_model
from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.mitigation.harness.run import mitigate
from pytest_genderbias.mitigation.methods.projection import Projection
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis
from pytest_genderbias.models.saving import input_embeddings
from pytest_genderbias.recipes.fine_tuning import StaticInferenceTraining
from pytest_genderbias.recipes.heads import on_device
from pytest_genderbias.recipes.networks.decomposable_attention import SPECIAL
from pytest_genderbias.recipes.recipe import Training

SIZE = 6
PEOPLE = ["man", "woman", "nurse", "clerk", "he", "she"]
VERBS = ["sings", "sleeps", "reads", "waits"]
#: What the hypothesis says decides: the same verb, none, or that nobody does.
CLAIMS = {"entailment": "{who} {verb}.", "neutral": "{who} zyzzyva.", "contradiction": "Nobody {verb}."}


def inference_rows():
    return [
        {
            "premise": f"The {who} {verb} outside.",
            "hypothesis": claim.format(who=f"The {who}", verb=verb),
            "label": label,
        }
        for (label, claim), who, verb in product(CLAIMS.items(), PEOPLE, VERBS)
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "snli").mkdir()
    for split in ("train", "dev"):
        (folder / "snli" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in inference_rows()))
    return folder


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Random vectors of the data's words but one, of two that only the packaged lists have, and of one that nothing
    has.
    """
    words = sorted({*PEOPLE, *VERBS, "the", "outside", "nobody", ".", "american", "hindu", "quetzal"})
    path = tmp_path_factory.mktemp("vectors") / "small.npz"
    np.savez(path, vectors=np.random.default_rng(0).standard_normal((len(words), SIZE)).astype("f4"), words=words)
    return load_model(str(path))


def recipe_of(data, **settings):
    chosen = {"epochs": 6, "batch_size": 8, "learning_rate": 3e-3, "hidden_size": 16, "dropout": 0.0, **settings}
    return StaticInferenceTraining(data=str(data), **chosen)


def train(recipe, vectors, folder, seed=0, **training):
    start = recipe.start(vectors, seed)
    return start, load_model(str(recipe.train(start, recipe.rows(), seed, folder, Training(**training))), device="cpu")


def weights(model):
    return dict(model.backend.network.named_parameters())


def changed(one, other):
    return {name for name in weights(one) if not torch.equal(weights(one)[name].cpu(), weights(other)[name].cpu())}


@pytest.fixture(scope="module")
def trained(data, vectors, tmp_path_factory):
    return train(recipe_of(data, epochs=20, learning_rate=1e-2), vectors, tmp_path_factory.mktemp("run"))


def test_the_vocabulary_is_that_of_the_data_and_the_packaged_lists(data, vectors) -> None:
    start = recipe_of(data).start(vectors, 0)
    vocabulary = start.backend.tokenizer.get_vocab()
    assert set(vocabulary) == {*SPECIAL, *vectors.backend.words} - {"quetzal"}
    matrix = input_embeddings(start.backend.network)
    for word in vectors.backend.words.keys() - {"quetzal"}:
        np.testing.assert_array_equal(matrix[vocabulary[word]], vectors.backend.get([word])[0])
    np.testing.assert_array_equal(matrix[[vocabulary["[PAD]"], vocabulary["[SEP]"]]], 0)
    np.testing.assert_allclose(matrix[vocabulary["[UNK]"]], vectors.backend.matrix.mean(axis=0), atol=1e-6)
    assert start.role.kind == "nli-classifier"


def test_words_keep_their_case_where_the_vectors_have_one(data, tmp_path) -> None:
    np.savez(tmp_path / "cased.npz", vectors=np.eye(4, dtype="f4"), words=["The", "nurse", "American", "american"])
    start = recipe_of(data).start(load_model(str(tmp_path / "cased.npz")), 0)
    assert start.backend.tokenizer("The American nurse", "the nurse").tokens() == [
        "The",
        "American",
        "nurse",
        "[SEP]",
        "[UNK]",
        "nurse",
        "[SEP]",
    ]


def test_it_learns_and_says_how_well(data, vectors, trained) -> None:
    recipe = recipe_of(data)
    (accuracy,) = recipe.evaluate(trained[1])
    (before,) = recipe.evaluate(trained[0])
    assert (accuracy.name, accuracy.direction) == ("accuracy", "lower")
    assert accuracy.value > 0.9 > before.value
    assert accuracy.item_sums.total == pytest.approx(accuracy.value)
    right = [
        trained[1]
        .backend.network(**trained[1].backend.tokenizer(row["premise"], row["hypothesis"], return_tensors="pt"))
        .logits.argmax()
        == list(CLAIMS).index(row["label"])
        for row in inference_rows()
    ]
    assert accuracy.value == pytest.approx(float(np.mean(right)))


def test_word_vectors_stay_as_they_are_unless_they_are_to_be_trained(data, vectors, trained, tmp_path) -> None:
    assert changed(*trained) == weights(trained[0]).keys() - {"encoder.embeddings.weight"}
    start, free = train(recipe_of(data, epochs=1, freeze_embeddings=False), vectors, tmp_path)
    assert changed(start, free) == weights(start).keys()


def test_equal_seeds_give_equal_weights_and_others_do_not(data, vectors, tmp_path) -> None:
    recipe = recipe_of(data, epochs=1)
    first, again, other = (
        train(recipe, vectors, tmp_path / name, seed)[1] for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert not changed(first, again) and changed(first, other)
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_a_new_head_on_a_frozen_encoder(data, trained, tmp_path) -> None:
    recipe = recipe_of(data, epochs=1)
    model = recipe.start(trained[1], 5)
    assert model is trained[1]
    path = recipe.train(model, recipe.rows(), 5, tmp_path, Training(freeze="encoder", new_head=True))
    assert all(name.startswith("classifier.") for name in changed(model, load_model(str(path), device="cpu")))
    assert not changed(model, trained[1])


def test_settings_name_the_content_of_the_data_not_its_place(data, tmp_path) -> None:
    told = recipe_of(data).settings()
    assert json.loads(json.dumps(told)) == told and str(data) not in json.dumps(told)
    copy = tmp_path / "elsewhere" / "snli"
    copy.mkdir(parents=True)
    for split in ("train", "dev"):
        (copy / f"{split}.jsonl").write_text((data / "snli" / f"{split}.jsonl").read_text())
    assert recipe_of(copy.parent).settings() == told
    with (copy / "train.jsonl").open("a") as file:
        file.write(json.dumps(inference_rows()[0]) + "\n")
    assert recipe_of(copy.parent).settings() != told
    assert recipe_of(data, freeze_embeddings=False).settings() != told


def test_projection_at_training_and_test_holds_in_frozen_vectors(data, vectors, tmp_path) -> None:
    recipe = recipe_of(data, epochs=1)
    run = mitigate(vectors, Projection(when="training"), recipe, seeds=1, folder=tmp_path)
    before, after, control = (
        load_model(run.models(side)[0][0], device="cpu") for side in ("before", "after", "control")
    )
    basis = learn_basis(recipe.start(vectors, 0), pairs=HE_SHE)
    parts = [np.abs(input_embeddings(model.backend.network) @ basis).max() for model in (before, after, control)]
    assert parts[1] < 1e-5 < parts[0] and parts[2] > 1e-5
    rows = input_embeddings(before.backend.network)
    np.testing.assert_allclose(input_embeddings(after.backend.network), rows - (rows @ basis) @ basis.T, atol=1e-5)
    assert run.performance("after")[0][0]["accuracy"].value > 0


def test_projection_at_training_and_test_holds_in_vectors_that_are_trained(data, vectors, tmp_path) -> None:
    recipe = recipe_of(data, epochs=1, freeze_embeddings=False)
    run = mitigate(vectors, Projection(when="training"), recipe, seeds=1, folder=tmp_path)
    before, after = (load_model(run.models(side)[0][0], device="cpu") for side in ("before", "after"))
    basis = learn_basis(recipe.start(vectors, 0), pairs=HE_SHE)
    assert np.abs(input_embeddings(after.backend.network) @ basis).max() < 1e-5
    assert not np.array_equal(input_embeddings(after.backend.network), input_embeddings(before.backend.network))


def test_projection_at_test_needs_one_training(data, vectors, tmp_path) -> None:
    run = mitigate(vectors, Projection(when="test"), recipe_of(data, epochs=1), seeds=1, folder=tmp_path)
    before, after = load_model(run.before[0], device="cpu"), run.after[0]
    assert changed(before, after) == {"encoder.embeddings.weight"}
    assert len(run.models("control")[0]) == 8 and len(list(tmp_path.glob("*/model"))) == 1


def test_what_it_cannot_start_from_is_refused(data, tiny_model) -> None:
    recipe = recipe_of(data)
    with pytest.raises(
        NotApplicableError, match=r"static-nli starts from a file of word vectors, .*no model was given"
    ):
        recipe.start(None, 0)
    with pytest.raises(NotApplicableError, match="is a masked LM"):
        recipe.start(tiny_model("bert"), 0)
    for wrong in ({"hidden_size": 15}, {"hidden_size": 0}, {"dropout": 1.0}, {"dropout": True}, {"batch_size": 0}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            recipe_of(data, **wrong)
    assert make_recipe("static-nli", hidden_size=100) == StaticInferenceTraining(hidden_size=100)


@pytest.mark.slow
def test_real_vectors_on_real_pairs(shared_data, tmp_path) -> None:
    """GloVe 6B 50d and 4,000 pairs of SNLI: far above a third within two epochs."""
    path = os.environ.get("GENDERBIAS_GLOVE")
    if path is None:
        pytest.skip("no real word vectors; name glove.6B.50d.txt with GENDERBIAS_GLOVE")
    recipe = StaticInferenceTraining(data=str(shared_data), max_rows=4000, epochs=2, hidden_size=100)
    start, model = train(recipe, load_model(path), tmp_path)
    unknown = start.backend.tokenizer.unk_token_id
    ids = [i for row in recipe.rows() for i in start.backend.tokenizer(row["premise"], row["hypothesis"])["input_ids"]]
    assert ids.count(unknown) < 0.002 * len(ids)
    assert recipe.evaluate(model)[0].value > 0.45


def test_a_new_network_is_made_on_the_device_of_the_run(data, vectors, monkeypatch) -> None:
    chosen, to = [], torch.nn.Module.to
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.Module, "to", lambda module, device: chosen.append(device) or to(module, "cpu"))
    with on_device("cuda:1"):
        recipe_of(data).start(vectors, 0)
    assert chosen == ["cuda:1"]
