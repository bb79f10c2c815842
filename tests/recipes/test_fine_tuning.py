"""Fine-tuning: the weights below the head are those that were given, a training resumes, and what is held out is never
trained on.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from support.interrupted import StopAt
from support.tiny_checkpoints import NLI, make_network, save_checkpoint, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.mitigation.harness.run import mitigate
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.projection import Projection, project_embeddings
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.recipes.classification import ClassifierTuning, hold_out, some_rows, take_out
from pytest_genderbias.recipes.fine_tuning import InferenceTuning, SimilarityTuning
from pytest_genderbias.recipes.heads import is_of_head, with_head
from pytest_genderbias.recipes.recipe import Training
from pytest_genderbias.recipes.trainer import TokenisedRows, order_by_length

FEW = {"batch_size": 4, "epochs": 2, "learning_rate": 1e-2, "max_length": 32}


def pairs(count=24, seed=0):
    """Pairs whose label a word tells."""
    rng = np.random.default_rng(seed)
    words = {"entailment": "music", "neutral": "the", "contradiction": "doctor"}
    rows = []
    for i in range(count):
        label = list(words)[i % 3]
        subject = "the accountant ate a bagel " * int(rng.integers(1, 4))
        rows.append({"premise": subject, "hypothesis": " ".join([words[label]] * 4), "label": label})
    return rows


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def nli_files(tmp_path):
    return {
        "training": written(tmp_path / "train.jsonl", pairs()),
        "evaluation": written(tmp_path / "dev.jsonl", pairs(9, seed=1)),
    }


@pytest.fixture
def bios_file(tmp_path):
    """Forty persons of two professions, ten of each gender in each."""
    rows = [
        {
            "id": f"p{i}",
            "text": f"{'she' if i // 2 % 2 else 'he'} is a {job} number {i}",
            "label": job,
            "group": "MF"[i // 2 % 2],
        }
        for i, job in enumerate(["doctor", "accountant"] * 20)
    ]
    return written(tmp_path / "bios.jsonl", rows)


def weights(path):
    return load_file(path / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# Heads ----------------------------------------------------------------------------------------------------------------

KINDS = ("bert", "roberta", "distilbert", "albert", "deberta-v2", "electra", "mpnet", "modernbert", "gpt2", "llama")


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_is_put_on_the_same_weights(tiny_model, kind):
    given = tiny_model(kind)
    before = given.backend.network.state_dict()
    made = with_head(given, ("entailment", "neutral", "contradiction"), seed=3)
    body = dict(made.backend.network.base_model.named_parameters())
    assert body, "an empty body would be equal to anything"
    for name, tensor in given.backend.network.base_model.named_parameters():
        assert torch.equal(body[name], tensor), name
    assert {name for name in body if name not in dict(given.backend.network.base_model.named_parameters())} <= {
        "pooler.dense.weight",
        "pooler.dense.bias",
        "pooler.weight",
        "pooler.bias",
    }
    assert made.role.kind == "nli-classifier"
    assert made.fingerprint != given.fingerprint
    assert same(before, given.backend.network.state_dict()), "the given one stays as it is"
    assert made.backend.tokenizer.pad_token_id == made.backend.network.config.pad_token_id is not None
    assert given.role.kind != "nli-classifier"


@pytest.mark.parametrize("kind", ["bert", "roberta", "albert", "gpt2"])
def test_the_seed_makes_the_head_and_nothing_else(tiny_model, kind):
    one, again, other = (
        with_head(tiny_model(kind), ("a", "b"), seed).backend.network.state_dict() for seed in (0, 0, 1)
    )
    assert same(one, again)
    network = with_head(tiny_model(kind), ("a", "b"), 0).backend.network
    differ = {name for name in one if not torch.equal(one[name], other[name])}
    assert differ and all(is_of_head(network, name) for name in differ)


def test_making_a_head_leaves_the_generator_as_it_was(tiny_model):
    model = tiny_model("bert")  # where no test before had it, it is made here
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with_head(model, ("a", "b"), 0)
    assert torch.equal(torch.rand(3), expected)


def test_an_encoder_saved_without_its_pooler_gets_one_from_the_seed(tmp_path):
    make_network("bert").bert.save_pretrained(tmp_path / "encoder")
    tokenizer("bert").save_pretrained(tmp_path / "encoder")
    first, second = (load_model(str(tmp_path / "encoder"), device="cpu") for _ in range(2))
    assert first.role.kind == "encoder"
    heads = [with_head(one, ("a", "b"), 0).backend.network.state_dict() for one in (first, second)]
    assert same(*heads)


def test_a_head_for_the_same_labels_is_kept(tmp_path):
    names = {i: name.upper() for i, name in enumerate(reversed(list(NLI["id2label"].values())))}
    given = load_model(str(save_checkpoint("bert-nli", tmp_path / "nli", id2label=names)), device="cpu")
    made = with_head(given, ("entailment", "neutral", "contradiction"), seed=1)
    assert same(made.backend.network.state_dict(), given.backend.network.state_dict())
    assert made.backend.network is not given.backend.network
    assert made.role.labels == ("contradiction", "neutral", "entailment"), "in its own order"
    other = with_head(given, ("doctor", "nurse"), seed=1)
    assert other.role.labels == ("doctor", "nurse")
    pooler = "bert.pooler.dense.weight"
    assert torch.equal(other.backend.network.state_dict()[pooler], given.backend.network.state_dict()[pooler])


def test_a_sentence_encoder_becomes_an_ordinary_classifier(tiny_model):
    encoder = tiny_model("bert")
    encoder = replace(
        encoder, backend=replace(encoder.backend, pooling="mean"), details={**encoder.details, "pooling": "mean"}
    )
    made = with_head(encoder, ("a", "b"), 0)
    assert made.backend.pooling is None and "pooling" not in made.details
    assert made.details["architecture"] == "BertForSequenceClassification"


def test_what_cannot_have_a_head_is_refused(tiny_model):
    class Words:
        labels = ("a", "b")

        def class_probabilities(self, texts):
            return np.full((len(texts), 2), 0.5)

    for model in (None, wrap_object(Words())):
        with pytest.raises(NotApplicableError, match="transformers checkpoint"):
            with_head(model, ("a", "b"), 0)


# Order and splits -----------------------------------------------------------------------------------------------------


def test_rows_come_in_batches_of_like_length_each_once_an_epoch():
    lengths = np.random.default_rng(0).integers(5, 60, size=403)
    order = order_by_length(lengths, 8, 3, seed=1)
    assert (np.bincount(order) == 3).all()
    batches = [lengths[order[at : at + 8]] for at in range(0, 1200, 8)]
    assert np.mean([np.ptp(batch) for batch in batches]) < 5 < np.ptp(lengths)
    first = [batch.mean() for batch in batches[:50]]
    assert abs(np.corrcoef(first, np.arange(50))[0, 1]) < 0.4, "batches are shuffled"
    assert (order == order_by_length(lengths, 8, 3, seed=1)).all()
    assert (order != order_by_length(lengths, 8, 3, seed=2)).any()
    assert len(order_by_length(lengths, 8, 0.5, seed=1)) == 202
    assert (order_by_length(lengths, 8, 1, seed=1)[:400] == order[:400]).all(), (
        "an epoch more changes nothing before it"
    )


def test_rows_are_tokenised_as_the_tokenizer_does(tiny_model):
    tokenizer = tiny_model("bert").backend.tokenizer
    rows = pairs(5)
    columns = [[row["premise"] for row in rows], [row["hypothesis"] for row in rows]]
    found = TokenisedRows(tokenizer, columns, [0, 1, 2, 0, 1], 12)
    for i, row in enumerate(rows):
        expected = tokenizer(row["premise"], row["hypothesis"], truncation=True, max_length=12)
        assert found[i]["input_ids"] == expected["input_ids"]
        assert found[i]["token_type_ids"] == expected["token_type_ids"]
        assert found.lengths[i] == len(expected["input_ids"]) <= 12
    assert len(found) == 5 and found[4]["labels"] == 1


def test_a_share_of_each_cell_is_held_out():
    rows = [{"label": "ab"[i % 2], "gender": "fm"[i // 2 % 2], "id": i} for i in range(80)]
    rows += [{"label": "rare", "gender": "f", "id": 80}]
    train, out = hold_out(rows, ("label", "gender"), 0.3)
    assert sorted(row["id"] for row in train + out) == list(range(81))
    assert Counter((row["label"], row["gender"]) for row in out) == {(y, g): 6 for y in "ab" for g in "fm"}
    assert [row["id"] for row in out] == sorted(row["id"] for row in out)
    assert (train, out) == hold_out(rows, ("label", "gender"), 0.3)


def test_what_is_taken_out_is_a_share_of_a_label_and_a_group():
    rows = [{"label": "ab"[i % 2], "gender": "fm"[i // 2 % 2], "id": i} for i in range(80)]
    left = take_out(rows, (("a", "f", 0.8), ("b", "m", 1.0)), "label", "gender")
    counts = Counter((row["label"], row["gender"]) for row in left)
    assert counts == {("a", "f"): 4, ("a", "m"): 20, ("b", "f"): 20}
    with pytest.raises(SettingError, match=r"no row of 'c' and 'f'.*labels are a, b"):
        take_out(rows, (("c", "f", 0.8),), "label", "gender")
    with pytest.raises(SettingError, match="twice"):
        take_out(rows, (("a", "f", 0.8), ("a", "f", 0.1)), "label", "gender")
    assert [row["id"] for row in some_rows(rows, 5)] == sorted(row["id"] for row in some_rows(rows, 5))
    assert len(some_rows(rows, 5)) == 5 and some_rows(rows, 100) == rows


# Inference ------------------------------------------------------------------------------------------------------------


def test_inference_is_learnt_and_the_given_model_stays(tiny_model, nli_files, tmp_path):
    recipe = make_recipe("nli", **nli_files, **{**FEW, "epochs": 8})
    start = recipe.start(tiny_model("bert"), 0)
    before = {name: tensor.clone() for name, tensor in start.backend.network.state_dict().items()}
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run")
    assert same(before, start.backend.network.state_dict())
    trained = load_model(str(path), device="cpu")
    (found,) = recipe.evaluate(trained)
    assert (found.name, found.direction, found.value) == ("accuracy", "lower", 1.0)
    assert found.item_sums.total == found.value
    (untrained,) = recipe.evaluate(start)
    assert untrained.value < 1.0 and untrained.item_sums.labels.tolist() == found.item_sums.labels.tolist()


def test_accuracy_is_counted_as_by_hand(tiny_model, nli_files):
    recipe = InferenceTuning(**nli_files, max_evaluation=7)
    model = recipe.start(tiny_model("roberta"), 5)
    (found,) = recipe.evaluate(model)
    right = 0
    for row in pairs(9, seed=1)[:7]:
        batch = model.backend.tokenizer(row["premise"].strip(), row["hypothesis"], return_tensors="pt")
        with torch.no_grad():
            best = int(model.backend.network(**batch).logits.argmax())
        right += model.backend.network.config.id2label[best] == row["label"]
    assert found.value == pytest.approx(right / 7)
    with pytest.raises(NotApplicableError, match="NLI classifier"):
        recipe.evaluate(tiny_model("bert"))


@pytest.mark.parametrize(
    ("step", "more"), [(2, {}), (7, {}), (10, {"train_sampling_strategy": "group_by_length"})], ids=str
)
def test_an_interrupted_training_ends_with_the_weights_of_the_whole_one(tiny_model, nli_files, tmp_path, step, more):
    recipe = InferenceTuning(**nli_files, **FEW, arguments={"save_steps": 3, **more})
    start, rows = recipe.start(tiny_model("bert"), 0), recipe.rows()
    whole = weights(recipe.train(start, rows, 0, tmp_path / "whole"))
    with pytest.raises(KeyboardInterrupt):
        recipe.train(start, rows, 0, tmp_path / "cut", Training(callbacks=(StopAt(step),)))
    assert not (tmp_path / "cut/model").exists()
    path = recipe.train(start, rows, 0, tmp_path / "cut")
    assert same(weights(path), whole)
    log = json.loads((path / "training.json").read_text())["log"]
    assert log[-1]["step"] == 12
    again = recipe.train(start, [], 0, tmp_path / "cut", Training(callbacks=(StopAt(1),)))
    assert again == path and same(weights(again), whole), "what is finished is not trained again"


def test_seed_and_labels_of_a_kept_head(tmp_path, nli_files):
    names = {0: "contradiction", 1: "entailment", 2: "neutral"}
    given = load_model(
        str(save_checkpoint("bert-nli", tmp_path / "nli", id2label=names, initializer_range=0.1)), device="cpu"
    )
    recipe = InferenceTuning(**nli_files, **{**FEW, "epochs": 8})
    trained = load_model(str(recipe.train(recipe.start(given, 0), recipe.rows(), 0, tmp_path / "a")), device="cpu")
    assert trained.role.labels == ("contradiction", "entailment", "neutral")
    assert recipe.evaluate(trained)[0].value == 1.0
    short = replace(recipe, epochs=1)
    one, other = (weights(short.train(short.start(given, s), short.rows(), s, tmp_path / f"seed-{s}")) for s in (1, 2))
    assert not same(one, other)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_frozen_encoder_gets_a_new_head(tiny_model, nli_files, tmp_path, kind):
    recipe = InferenceTuning(**nli_files, **FEW)
    start = recipe.start(tiny_model(kind), 0)
    path = recipe.train(
        start, recipe.rows(), 0, tmp_path / "run", Training(freeze="encoder", new_head=True, max_steps=3)
    )
    network = start.backend.network
    old, new = network.state_dict(), weights(path)
    moved = {name for name in new if not torch.equal(new[name], old[name])}
    assert moved == {name for name in new if is_of_head(network, name)}
    again = recipe.train(
        start, recipe.rows(), 1, tmp_path / "again", Training(freeze="encoder", new_head=True, max_steps=1)
    )
    (matrix,) = [name for name in moved if name in ("classifier.weight", "classifier.out_proj.weight")]
    assert not torch.equal(weights(again)[matrix], old[matrix]), "from another seed"


def test_layers_are_frozen_and_callbacks_and_steps_heard(tiny_model, nli_files, tmp_path):
    seen = []

    class Watch(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **more):
            seen.append(state.global_step)

    recipe = InferenceTuning(**nli_files, **FEW)
    start = recipe.start(tiny_model("bert"), 0)
    training = Training(callbacks=(Watch(),), freeze=1, max_steps=5)
    new = weights(recipe.train(start, recipe.rows(), 0, tmp_path / "run", training))
    old = start.backend.network.state_dict()
    assert seen == [1, 2, 3, 4, 5]
    assert torch.equal(new["bert.embeddings.word_embeddings.weight"], old["bert.embeddings.word_embeddings.weight"])
    names = [f"bert.encoder.layer.{i}.output.dense.weight" for i in (0, 1)]
    assert [torch.equal(new[name], old[name]) for name in names] == [True, False]


@pytest.mark.parametrize("kind", ["distilbert", "gpt2", "llama"])
def test_other_architectures_train_and_are_read_again(tiny_model, nli_files, tmp_path, kind):
    recipe = InferenceTuning(**nli_files, **FEW)
    path = recipe.train(recipe.start(tiny_model(kind), 0), recipe.rows(), 0, tmp_path / "run", Training(max_steps=3))
    trained = load_model(str(path), device="cpu")
    assert trained.role.kind == "nli-classifier"
    assert 0 <= recipe.evaluate(trained)[0].value <= 1


# Mitigations ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_projected_embeddings_stay_projected_in_training(checkpoint, nli_files, tmp_path, kind):
    recipe = InferenceTuning(**nli_files, **FEW)
    method = Projection(when="training", pairs=(("man", "woman"),))
    run = mitigate(str(checkpoint(kind)), method, recipe, seeds=1, folder=tmp_path / "runs")
    basis = method.basis(recipe.start(load_model(str(checkpoint(kind)), device="cpu"), 0))
    after, before = (load_model(side[0], device="cpu") for side in (run.after, run.before))
    left = [
        np.abs(m.backend.network.get_input_embeddings().weight.detach().numpy() @ basis).max() for m in (after, before)
    ]
    assert left[0] < 1e-5 < 1e-2 < left[1]
    assert len(run.control) == 1
    assert set(run.performance("after")[0][0]) == {"accuracy"}


def test_a_network_projected_after_training_gets_a_new_head(tiny_model, nli_files, tmp_path):
    recipe = InferenceTuning(**nli_files, **FEW)
    start = recipe.start(tiny_model("bert"), 0)
    basis = np.eye(16)[:, :1]
    projected = project_embeddings(start, basis)
    path = recipe.train(projected, recipe.rows(), 0, tmp_path / "run", Training(freeze="encoder", new_head=True))
    trained = load_model(str(path), device="cpu").backend.network.get_input_embeddings().weight
    assert float(trained[:, 0].detach().abs().max()) < 1e-6
    untied = project_embeddings(tiny_model("bert"), basis)
    body = recipe.start(untied, 0).backend.network.get_input_embeddings().weight
    assert torch.equal(body, untied.backend.network.get_input_embeddings().weight)


# Similarity -----------------------------------------------------------------------------------------------------------


def test_similarity_is_a_regression(tiny_model, tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {
            "sentence1": "the woman has music",
            "sentence2": "the man has " + ("music" if i % 2 else "a doctor"),
            "score": float(np.clip(4 * (i % 2) + rng.random(), 0, 5)),
        }
        for i in range(24)
    ]
    file = written(tmp_path / "sts.jsonl", rows)
    recipe = make_recipe("similarity", training=file, evaluation=file, **{**FEW, "epochs": 8})
    start = recipe.start(tiny_model("bert"), 0)
    assert start.role.kind == "pair-regressor"
    trained = load_model(str(recipe.train(start, recipe.rows(), 0, tmp_path / "run")), device="cpu")
    (found,) = recipe.evaluate(trained)
    assert found.name == "pearson_r" and found.value > 0.9
    assert found.item_sums.total == pytest.approx(found.value)
    assert trained.backend.network.config.problem_type == "regression"
    (cosines,) = (
        recipe.evaluate(tiny_model("distilbert")) if tiny_model("distilbert").role.kind == "encoder" else (found,)
    )
    assert -1 <= cosines.value <= 1


# Labelled texts -------------------------------------------------------------------------------------------------------


def test_biographies_are_split_and_unbalanced_on_purpose(bios_file):
    recipe = make_recipe("classification", training=bios_file, taken_out=[["doctor", "female", 1.0]], held_out=0.4)
    train, lines = recipe.rows(), recipe.held_out_file(bios_file + "-out").read_text().splitlines()
    out = [json.loads(line) for line in lines]
    assert recipe.labels == ("accountant", "doctor") and recipe.group == "gender"
    assert Counter((row["label"], row["group"]) for row in out) == {
        (job, group): 4 for job in recipe.labels for group in ("female", "male")
    }
    assert Counter((row["label"], row["gender"]) for row in train) == {
        ("accountant", "female"): 6,
        ("accountant", "male"): 6,
        ("doctor", "male"): 6,
    }
    assert not {row["id"] for row in train} & {row["id"] for row in out}
    full = replace(recipe, taken_out=())
    assert full.held_out_file(bios_file + "-out") == recipe.held_out_file(bios_file + "-out"), "the same persons"
    assert len(replace(recipe, max_rows=5).rows()) == 5


@pytest.mark.parametrize(
    ("kind", "saved"), [("deberta-v2", "encoder"), ("roberta", "masked LM"), ("albert", "masked LM")]
)
def test_careers_are_learnt_saved_loaded_and_measured_by_other_architectures(kind, saved, tmp_path):
    rows = [
        {"id": f"p{i}", "text": f"number {i} " + " ".join([job] * 4), "label": job, "group": "MF"[i // 2 % 2]}
        for i, job in enumerate(["doctor", "music"] * 16)
    ]
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    network = make_network(kind, initializer_range=0.2, **still)
    whole = network if saved == "masked LM" else network.base_model  # DeBERTa v3 is published as an encoder
    whole.save_pretrained(tmp_path / "given")
    tokenizer(kind).save_pretrained(tmp_path / "given")
    given = load_model(str(tmp_path / "given"), device="cpu")
    recipe = ClassifierTuning(training=written(tmp_path / "careers.jsonl", rows), held_out=0.4, **{**FEW, "epochs": 4})
    start = recipe.start(given, 1)
    below = dict(start.backend.network.base_model.named_parameters())
    assert all(torch.equal(tensor, below[name]) for name, tensor in network.base_model.named_parameters())
    path = recipe.train(start, recipe.rows(), 1, tmp_path / "run")
    trained = load_model(str(path), device="cpu")
    assert recipe.evaluate(trained)[0].value == 1.0
    texts, training = recipe.held_out_file(tmp_path), recipe.training_file(tmp_path)
    found = measure("bios", trained, texts=str(texts), training=str(training), balanced=False)
    assert (found.values["accuracy"], found.values["tpr_gap_sum"], found.n) == (1.0, 0.0, 12)
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    words = transformers.AutoTokenizer.from_pretrained(path)
    batch = words([row["text"] for row in rows], padding=True, return_tensors="pt")
    with torch.no_grad():
        best = peer(**batch).logits.argmax(-1).tolist()
    assert [peer.config.id2label[i] for i in best] == [row["label"] for row in rows]
    few_steps = Training(freeze="encoder", new_head=True, max_steps=3)
    old, new = (
        start.backend.network.state_dict(),
        weights(recipe.train(start, recipe.rows(), 2, tmp_path / "head", few_steps)),
    )
    moved = {name for name in new if not torch.equal(new[name], old[name])}
    assert moved == {name for name in new if is_of_head(start.backend.network, name)}


def test_the_suite_bios_is_measured_on_what_is_held_out(tiny_model, bios_file, tmp_path):
    recipe = ClassifierTuning(training=bios_file, held_out=0.4, taken_out=(("doctor", "female", 0.5),), **FEW)
    start = recipe.start(tiny_model("bert"), 0)
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run")
    model = load_model(str(path), device="cpu")
    assert model.role.labels == ("accountant", "doctor")
    texts, training = recipe.held_out_file(tmp_path), recipe.training_file(tmp_path)
    found = measure("bios", model, texts=str(texts), training=str(training), balanced=False)
    (accuracy,) = recipe.evaluate(model)
    assert found.values["accuracy"] == pytest.approx(accuracy.value)
    assert found.n == 16
    assert texts.name.startswith("held-out-") and not list(tmp_path.glob(".held-out*"))


def test_a_file_without_groups_trains(tiny_model, tmp_path):
    rows = [{"text": f"the {word} number {i}", "label": word} for i in range(12) for word in ("doctor", "music")]
    file = written(tmp_path / "own.jsonl", rows)
    recipe = ClassifierTuning(training=file, **FEW)
    assert recipe.group is None and ClassifierTuning.group == "gender"
    assert set(recipe.rows()[0]) == {"id", "text", "label"}
    path = recipe.train(recipe.start(tiny_model("bert"), 0), recipe.rows(), 0, tmp_path / "run", Training(max_steps=2))
    assert 0 <= recipe.evaluate(load_model(str(path), device="cpu"))[0].value <= 1
    with pytest.raises(SettingError, match="taken_out"):
        ClassifierTuning(training=file, taken_out=(("doctor", "female", 1.0),))
    one = written(tmp_path / "one.jsonl", rows[::2])
    with pytest.raises(DataFileError, match="two labels"):
        _ = ClassifierTuning(training=one).labels
    other = ClassifierTuning(training=file, evaluation=one)
    assert len(other.rows()) == 24, "nothing is held out of the file for training"


def test_settings_tell_files_by_their_content(nli_files, tmp_path):
    recipe = InferenceTuning(**nli_files)
    moved = {
        name: written(tmp_path / f"moved-{name}.jsonl", pairs() if name == "training" else pairs(9, 1))
        for name in nli_files
    }
    assert InferenceTuning(**moved).settings() == recipe.settings()
    json.dumps(recipe.settings())
    assert str(tmp_path) not in json.dumps(recipe.settings())
    written(tmp_path / "moved-training.jsonl", pairs(23))
    assert InferenceTuning(**moved).settings() != recipe.settings()
    assert replace(recipe, epochs=1).settings() != recipe.settings()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": float("inf")}, "epochs"),
        ({"batch_size": None}, "batch_size"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"max_rows": 2.5}, "max_rows"),
        ({"arguments": {"seed": 1}}, "seed"),
        ({"arguments": {"no_such": 1}}, "no_such"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        SimilarityTuning(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"held_out": 0},
        {"held_out": 1.0},
        {"held_out": "0.3"},
        {"taken_out": (("a", "b"),)},
        {"taken_out": (3,)},
        {"taken_out": (("a", "b", 2),)},
        {"taken_out": ("abc",)},
        {"data_set": "snli"},
    ],
    ids=str,
)
def test_splits_that_make_no_sense_are_refused(settings):
    with pytest.raises(SettingError):
        ClassifierTuning(**settings)


def test_labels_that_differ_by_case_alone_are_refused(tmp_path):
    """They are one and the same to whoever reads a classifier's outputs."""
    rows = [{"text": f"the music {i}", "label": label} for i in range(6) for label in ("nurse", "Nurse", "doctor")]
    with pytest.raises(DataFileError, match=r"jobs.jsonl: the labels 'Nurse' and 'nurse' differ by case only"):
        assert ClassifierTuning(training=written(tmp_path / "jobs.jsonl", rows)).labels


def test_a_file_too_small_to_hold_any_out_is_refused(tmp_path):
    rows = [{"text": "the music", "label": label} for label in ("nurse", "doctor")]
    with pytest.raises(DataFileError, match=r"jobs.jsonl: too few rows .* to hold 0.3 of them out"):
        ClassifierTuning(training=written(tmp_path / "jobs.jsonl", rows)).rows()


def test_a_row_with_another_label_is_refused(tiny_model, nli_files, tmp_path):
    recipe = InferenceTuning(**nli_files, **FEW)
    with pytest.raises(SettingError, match="no output of the network is called 'maybe'; there are entailment"):
        recipe.train(recipe.start(tiny_model("bert"), 0), [{**pairs()[0], "label": "maybe"}], 0, tmp_path / "run")


def test_real_data_are_read(shared_data):
    inference = InferenceTuning(data=str(shared_data), max_rows=50)
    assert [len(inference.rows()), sorted(inference.rows()[0])] == [50, ["hypothesis", "label", "premise"]]
    similarity = SimilarityTuning(data=str(shared_data), max_rows=50)
    assert all(0 <= row["label"] <= 5 for row in similarity.rows())
    for data_set, count in (("wiki_career", 8), ("bias_in_bios", 28)):
        recipe = ClassifierTuning(data=str(shared_data), data_set=data_set)
        assert len(recipe.labels) == count
        assert {row["gender"] for row in recipe.rows()} == {"female", "male"}


def test_nothing_is_trained_without_the_head(tiny_model, nli_files, tmp_path):
    with pytest.raises(NotApplicableError, match=r"start\(\)"):
        InferenceTuning(**nli_files).train(tiny_model("bert"), pairs(), 0, tmp_path / "run")
    recipe = InferenceTuning(**nli_files)
    start = recipe.start(tiny_model("bert"), 0)
    with pytest.raises(SettingError, match="no row"):
        recipe.train(start, [], 0, tmp_path / "run")


def test_a_plain_method_trains_the_same_as_none(checkpoint, nli_files, tmp_path):
    recipe = InferenceTuning(**nli_files, **{**FEW, "epochs": 1})
    run = mitigate(str(checkpoint("bert")), Method(), recipe, seeds=[4], folder=tmp_path / "runs")
    start = recipe.start(load_model(str(checkpoint("bert")), device="cpu"), 4)
    by_hand = recipe.train(start, recipe.rows(), 4, tmp_path / "by-hand")
    assert same(weights(Path(run.before[0])), weights(by_hand))
