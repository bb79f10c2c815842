"""Language models that are trained on: rows of a corpus, blocks, masks, perplexity, and trainings that are
interrupted.
"""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support.interrupted import StopAt
from support.tiny_checkpoints import CAUSAL, MASKED, make_network, save_checkpoint

from pytest_genderbias import load_model
from pytest_genderbias.datasets.folder import MissingDataError
from pytest_genderbias.errors import DataFileError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.mitigation import make_method, make_recipe
from pytest_genderbias.mitigation.methods.base import Columns
from pytest_genderbias.recipes.heads import head_at_labels, renew_vocabulary_head
from pytest_genderbias.recipes.language_modelling import _Schedule, _streams, read_sentence_rows
from pytest_genderbias.recipes.recipe import Training

NAMES = ["nurse", "baker", "doctor", "teacher", "farmer", "lawyer", "engineer"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A text of short paragraphs, most of them about a person."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("corpus")
    lines = []
    for _ in range(120):
        name, other = rng.choice(NAMES, 2, replace=False)
        he = rng.choice(["he", "she"])
        lines.append(f"The {name} said that {he} likes the {other}. It is a good day for music.")
    path = folder / "people.txt"
    path.write_text("\n\n".join(lines))
    return str(path)


def recipe_of(kind, corpus, **settings):
    name = "causal-lm" if kind in CAUSAL else "masked-lm"
    small = {"corpus": corpus, "max_length": 16, "steps": 6, "batch_size": 4, "learning_rate": 1e-3}
    return make_recipe(name, **small | settings)


def weights(path):
    return load_model(str(path), device="cpu").backend.network.state_dict()


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- rows ------------------------------------------------------------------------------------------------------------


def test_every_sentence_is_in_one_part_and_held_out_ones_are_whole_passages(corpus):
    rows = read_sentence_rows(corpus, held_out=0.2)
    assert len(rows.training) + len(rows.held_out) == 240
    assert read_sentence_rows(corpus, held_out=0.2) == rows
    places = [row["place"] for row in rows.training]
    assert places == sorted(set(places))
    gaps = sorted(set(range(240)) - set(places))
    runs = np.split(gaps, np.flatnonzero(np.diff(gaps) > 1) + 1)
    assert len(runs) == len({row["passage"] for row in rows.held_out}) >= 5
    assert runs[0][0] > 0 and runs[-1][-1] < 239 and min(map(len, runs)) > 3
    share = sum(len(row["text"].split()) for row in rows.held_out) / sum(
        len(row["text"].split()) for part in rows[:2] for row in part
    )
    assert 0.15 < share < 0.25


def test_documents_are_held_out_whole(tmp_path):
    path = tmp_path / "documents.jsonl"
    documents = [{"sentences": [f"Word {i} {j} of a long document here ." for j in range(10)]} for i in range(40)]
    path.write_text("\n".join(map(json.dumps, documents)))
    rows = read_sentence_rows(str(path))
    apart = {row["text"].split()[1] for row in rows.held_out}
    assert len(apart) == 4 and apart.isdisjoint(row["text"].split()[1] for row in rows.training)


def test_a_broken_line_is_reported_and_reading_goes_on(tmp_path):
    path = tmp_path / "broken.jsonl"
    good = [
        json.dumps({"text": f"Day {day} is a day of rain, and of nothing else at all."}).encode() for day in range(60)
    ]
    path.write_bytes(b"\n".join([*good[:3], b'{"text": "cut', b'{"text": "\xff"}', b'{"other": 1}', *good[3:]]))
    with pytest.warns(UserWarning, match="broken.jsonl") as told:
        rows = read_sentence_rows(str(path))
    assert [str(one.message).partition("broken.jsonl")[2][:12] for one in told] == [
        ":4: not vali",
        ":5: not UTF-",
        ":6: expected",
    ]
    assert len(rows.training) + len(rows.held_out) == 60
    text = tmp_path / "broken.txt"
    text.write_bytes(
        b"\n\n".join([b"It rains. It snows. The sun shines.\n"] * 5 + [b"\xff\xfe bad"] + [b"It is dark here."] * 40)
    )
    with pytest.warns(UserWarning, match=r"broken\.txt:16: not UTF-8"):
        rows = read_sentence_rows(str(text))
    assert len(rows.training) + len(rows.held_out) == 55


def test_many_broken_lines_make_few_warnings(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"caf\xe9 noir\nIt rains again today in the town.\n\n" * 50)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        read_sentence_rows(str(path))
    assert len(told) == 6 and "50 lines in all" in str(told[-1].message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "", "too few words"),
        ("a.txt", " \n\n", "too few words"),
        ("a.jsonl", '{"sentences": []}\n', "too few words"),
        ("a.jsonl", "{\n", "the file has no rows"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*not valid JSON")
def test_a_corpus_without_words_is_one_error(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataFileError, match=message):
        read_sentence_rows(str(tmp_path / name))


@pytest.mark.parametrize("held_out", [0, 1, "0.1", True])
def test_what_is_held_out_is_a_share(tmp_path, held_out):
    with pytest.raises(SettingError, match="held_out should be a number above 0 and below 1"):
        read_sentence_rows(str(tmp_path), held_out=held_out)


def test_corpora_by_name(shared_data):
    rows = read_sentence_rows("wikitext2/valid", str(shared_data), max_tokens=5000)
    words = sum(len(row["text"].split()) for part in rows[:2] for row in part)
    assert 5000 <= words < 5100 and len(rows.digest) == 16
    assert read_sentence_rows("war_and_peace", str(shared_data), max_tokens=3000).training[0]["text"]


def test_what_is_no_corpus(tmp_path, corpus):
    with pytest.raises(MissingDataError, match="no Brown"):
        read_sentence_rows("brown")
    with pytest.raises(SettingError, match="no data set is called 'browm'"):
        read_sentence_rows("browm")
    with pytest.raises(DataFileError, match="no such file"):
        read_sentence_rows(str(tmp_path / "none.txt"))
    (tmp_path / "short.txt").write_text("It rains.")
    with pytest.raises(DataFileError, match="too few words"):
        read_sentence_rows(str(tmp_path / "short.txt"))
    for settings in ({"held_out": 0.0}, {"held_out": 1.0}, {"max_tokens": 0}):
        with pytest.raises(SettingError, match=next(iter(settings))):
            read_sentence_rows(corpus, **settings)


# --- blocks, order and masks -----------------------------------------------------------------------------------------


def test_a_counterfactual_is_never_in_the_block_of_its_sentence():
    rows = [{"text": "He sings.", "place": 0}, {"text": "It rains.", "place": 1}, {"text": "She is here.", "place": 2}]
    swapped = make_method("cda").rows(rows, Columns(("text",)), 0)
    assert _streams(swapped) == [["He sings.", "It rains.", "She is here."], ["She sings.", "He is here."]]
    assert _streams([{"text": "a"}, {"text": "b"}]) == [["a", "b"]]


@pytest.mark.parametrize("kind", ["bert", "roberta", "albert", "gpt2", "llama"])
def test_blocks_hold_the_text_and_nothing_else(kind, tiny_model, corpus):
    model, recipe = tiny_model(kind), recipe_of(kind, corpus)
    tokenizer = model.backend.tokenizer
    rows = recipe.rows()
    blocks = recipe._blocks(model.backend, rows)
    assert blocks.shape[1] == 16
    if kind in CAUSAL:
        found = blocks[:, 1:].ravel().tolist()
        assert len(set(blocks[:, 0])) == 1
        wanted = tokenizer(" ".join(row["text"] for row in rows), add_special_tokens=False)["input_ids"]
        assert found[:300] == wanted[:300]
    else:
        assert (blocks[:, 0] == tokenizer.cls_token_id).all() and (blocks[:, -1] == tokenizer.sep_token_id).all()
        special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
        found = [i for i in blocks.ravel().tolist() if i not in special]
        texts = [row["text"] for row in rows]
        wanted = [i for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] for i in ids]
        assert found == wanted[: len(found)] and len(wanted) - len(found) < 16


def test_the_order_is_that_of_the_seed_and_has_every_block_once_an_epoch():
    blocks = np.arange(10)[:, None]
    order = [int(one["input_ids"][0]) for one in (_Schedule(blocks, 25, 3)[i] for i in range(25))]
    assert sorted(order[:10]) == sorted(order[10:20]) == list(range(10)) and order[:10] != order[10:20]
    assert len(_Schedule(blocks, 25, 3)) == 25
    assert order != [int(_Schedule(blocks, 25, 4)[i]["input_ids"][0]) for i in range(25)]
    more = [int(_Schedule(np.arange(12)[:, None], 12, 3)[i]["input_ids"][0]) for i in range(12)]
    assert [i for i in more if i < 10] == order[:10]


def test_masks_are_those_of_the_seed_and_the_place(tiny_model):
    tokenizer = tiny_model("bert").backend.tokenizer
    ids = np.random.default_rng(0).integers(5, 600, size=(50, 40)).astype(np.int32)
    ids[:, 0] = tokenizer.cls_token_id
    examples = [{"input_ids": row, "place": i + 50} for i, row in enumerate(ids)]
    recipe = make_recipe("masked-lm", mask_probability=0.2)
    masking = recipe._collator(tokenizer, 1)
    first = masking(examples)
    torch.manual_seed(5)
    masking([{**one, "place": 7} for one in examples])
    again = recipe._collator(tokenizer, 1)(examples)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["labels"], recipe._collator(tokenizer, 2)(examples)["labels"])
    chosen = first["labels"] != -100
    assert not chosen[:, 0].any()
    assert 0.16 < chosen[:, 1:].float().mean() < 0.24
    masked = (first["input_ids"] == tokenizer.mask_token_id)[chosen].float().mean()
    kept = (first["input_ids"] == torch.from_numpy(ids))[chosen].float().mean()
    assert 0.72 < masked < 0.88 and 0.05 < kept < 0.16
    assert torch.equal(first["input_ids"][~chosen], torch.from_numpy(ids).long()[~chosen])


@pytest.mark.parametrize("kind", MASKED)
def test_the_head_at_labels_gives_the_same_loss_and_gradients(kind):
    network = make_network(kind)
    ids = torch.randint(5, 600, (3, 12), generator=torch.Generator().manual_seed(0))
    labels = torch.where(torch.rand(3, 12, generator=torch.Generator().manual_seed(1)) < 0.3, ids, -100)

    def step():
        network.zero_grad()
        output = network(input_ids=ids, labels=labels)
        output.loss.backward()
        return output, {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}

    whole, gradients = step()
    with head_at_labels(network) as done:
        assert done
        short, others = step()
        assert network(input_ids=ids).logits.shape[:2] == (3, 12)  # without labels all is as ever
        assert network.base_model(input_ids=ids).last_hidden_state.shape[:2] == (3, 12)
    assert short.logits.shape[:2] == (1, int((labels != -100).sum()))
    torch.testing.assert_close(short.loss, whole.loss)
    assert gradients.keys() == others.keys()
    for name in gradients:
        torch.testing.assert_close(gradients[name], others[name], rtol=1e-3, atol=1e-5)
    assert not network.training and torch.equal(step()[0].logits, whole.logits)


def test_a_head_that_cannot_be_shortened_is_left_alone():
    network = make_network("bert")

    class Odd(type(network)):
        def forward(self, input_ids=None, labels=None, **kwargs):
            output = super().forward(input_ids=input_ids, **kwargs)
            output.loss = None if labels is None else output.logits[:, 3].sum()
            return output

    network.__class__ = Odd
    with head_at_labels(network) as done:
        assert not done
        assert network(input_ids=torch.arange(5, 15)[None]).logits.shape[:2] == (1, 10)


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "modernbert", "gpt2", "llama"])
def test_training_lowers_the_perplexity_and_leaves_the_given_model_alone(kind, tiny_model, corpus, tmp_path):
    model, recipe = tiny_model(kind), recipe_of(kind, corpus, steps=30, learning_rate=1e-2)
    before = {name: tensor.clone() for name, tensor in model.backend.network.state_dict().items()}
    start = recipe.start(model, 0)
    assert start.backend.network is not model.backend.network and start.fingerprint == model.fingerprint
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run")
    assert path == tmp_path / "run" / "model" and not (tmp_path / "run" / "checkpoints").exists()
    assert same(before, model.backend.network.state_dict()) and same(before, start.backend.network.state_dict())
    values = [recipe.evaluate(one)[0].value for one in (model, load_model(str(path), device="cpu"))]
    assert values[1] < 0.5 * values[0]


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_an_interrupted_training_ends_with_the_weights_of_an_uninterrupted_one(kind, tiny_model, corpus, tmp_path):
    recipe = recipe_of(kind, corpus, steps=9, arguments={"save_steps": 2, "logging_steps": 1})
    start, rows = recipe.start(tiny_model(kind), 3), recipe.rows()
    whole = recipe.train(start, rows, 3, tmp_path / "whole")
    for step in (5, 8):  # twice, between checkpoints
        with pytest.raises(KeyboardInterrupt):
            recipe.train(start, rows, 3, tmp_path / "parts", Training(callbacks=(StopAt(step),)))
        assert not (tmp_path / "parts" / "model").exists()
    parts = recipe.train(start, rows, 3, tmp_path / "parts")
    assert same(weights(whole), weights(parts))
    other = recipe.train(start, rows, 4, tmp_path / "other")
    assert not same(weights(whole), weights(other))
    steps = [e["step"] for e in json.loads((parts / "training.json").read_text())["log"] if "loss" in e]
    assert steps == list(range(1, 10))


def test_a_training_goes_on_with_parameters_that_the_files_name_otherwise(corpus, tmp_path):
    """As the files of bert-base-uncased do."""
    folder = save_checkpoint("bert", tmp_path / "start")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(old, folder / "model.safetensors", {"format": "pt"})
    recipe = recipe_of("bert", corpus, steps=9, arguments={"save_steps": 2})
    start, rows = recipe.start(load_model(str(folder), device="cpu"), 0), recipe.rows()
    whole = load_file(recipe.train(start, rows, 0, tmp_path / "whole") / "model.safetensors")
    with pytest.raises(KeyboardInterrupt):
        recipe.train(start, rows, 0, tmp_path / "parts", Training(callbacks=(StopAt(5),)))
    assert same(load_file(recipe.train(start, rows, 0, tmp_path / "parts") / "model.safetensors"), whole)
    assert old.keys() == whole.keys(), "the model keeps the names of the files"


def test_layers_that_are_computed_twice_train_the_same_model_and_bfloat16_nearly(tiny_model, corpus, tmp_path):
    """They draw the same dropout, so that the weights are equal bit for bit."""
    model = tiny_model("bert")
    start = recipe_of("bert", corpus).start(model, 0)
    trained = {
        name: weights(recipe.train(start, recipe.rows(), 0, tmp_path / name))
        for name, recipe in {
            "plain": recipe_of("bert", corpus),
            "checkpointed": recipe_of("bert", corpus, arguments={"gradient_checkpointing": True}),
            "bfloat16": recipe_of("bert", corpus, arguments={"bf16": True}),
        }.items()
    }
    assert same(trained["plain"], trained["checkpointed"])
    far = max(float((trained["plain"][name] - trained["bfloat16"][name]).abs().max()) for name in trained["plain"])
    assert 0 < far < 0.02


def test_epochs_and_steps(tiny_model, corpus, tmp_path):
    recipe = recipe_of("bert", corpus, steps=None, epochs=1.5, batch_size=8)
    blocks = recipe._blocks(tiny_model("bert").backend, recipe.rows())

    def steps(folder, training=None):
        path = recipe.train(recipe.start(tiny_model("bert"), 0), recipe.rows(), 0, folder, training or Training())
        return json.loads((path / "training.json").read_text())["log"][-1]["step"]

    assert steps(tmp_path / "epochs") == math.ceil(math.ceil(1.5 * len(blocks)) / 8)
    assert steps(tmp_path / "few", Training(max_steps=2)) == 2


@pytest.mark.parametrize("freeze", ["embeddings", "encoder", 1])
def test_what_is_frozen_stays(freeze, tiny_model, corpus, tmp_path):
    recipe = recipe_of("bert", corpus, steps=2)
    start = recipe.start(tiny_model("bert"), 0)
    path = recipe.train(start, recipe.rows(), 0, tmp_path / "run", Training(freeze=freeze))
    before, after = start.backend.network.state_dict(), weights(path)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert any(name.startswith("cls.predictions.transform") for name in changed)
    assert not any(name.startswith("bert.embeddings") for name in changed)
    assert any("layer.1" in name for name in changed) == (freeze != "encoder")
    assert any("layer.0" in name for name in changed) == (freeze == "embeddings")


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "electra"])
def test_a_new_head_is_that_of_the_seed_and_keeps_the_word_vectors(kind):
    networks = [make_network(kind) for _ in range(4)]
    for network, seed in zip(networks[1:], (5, 5, 6), strict=True):
        renew_vocabulary_head(network, seed)
    old, first, again, other = (network.state_dict() for network in networks)
    assert same(first, again)
    changed = {name for name in old if not torch.equal(old[name], first[name])}
    assert changed and not any(name.startswith(networks[0].base_model_prefix) for name in changed)
    assert torch.equal(networks[0].get_output_embeddings().weight, networks[1].get_output_embeddings().weight)
    assert {name for name in old if not torch.equal(first[name], other[name])} & changed


def test_a_causal_lm_has_no_head_to_train_anew(tiny_model, corpus, tmp_path):
    recipe = recipe_of("gpt2", corpus)
    with pytest.raises(NotApplicableError, match="only an output layer"):
        recipe.train(recipe.start(tiny_model("gpt2"), 0), recipe.rows(), 0, tmp_path, Training(new_head=True))


# --- evaluation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bert", "roberta", "modernbert"])
def test_masked_perplexity_is_that_of_one_block_after_another(kind, tiny_model, corpus):
    model, recipe = tiny_model(kind), recipe_of(kind, corpus)
    found = {one.name: one for one in recipe.evaluate(model)}
    assert tuple(found) == recipe.evaluates
    network, tokenizer = model.backend.network, model.backend.tokenizer
    nats, right, number = 0.0, 0, 0
    passages = {}
    for row in recipe._text.held_out:
        passages.setdefault(row["passage"], []).append(row["text"])
    block_number = 0
    for texts in passages.values():
        for block in recipe._cut(model.backend, texts):
            inside = [i for i, token in enumerate(block.tolist()) if token not in tokenizer.all_special_ids]
            rng = np.random.default_rng([20, block_number])
            chosen = sorted(rng.choice(inside, max(1, round(0.15 * len(inside))), replace=False).tolist())
            ids = torch.from_numpy(block.astype(np.int64))[None]
            fed = ids.clone()
            fed[0, chosen] = tokenizer.mask_token_id
            with torch.no_grad():
                logits = network(input_ids=fed).logits[0].double().log_softmax(-1)
            for at in chosen:
                nats -= float(logits[at, ids[0, at]])
                right += int(logits[at].argmax()) == int(ids[0, at])
                number += 1
            block_number += 1
    assert found["perplexity"].value == pytest.approx(math.exp(nats / number), rel=1e-4)
    assert found["accuracy"].value == pytest.approx(right / number)
    for one in found.values():
        assert one.item_sums.total == pytest.approx(one.value) and one.item_sums.over == "passages"
    assert (found["perplexity"].direction, found["accuracy"].direction) == ("higher", "lower")


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_causal_perplexity_is_by_word(kind, tiny_model, corpus):
    model, recipe = tiny_model(kind), recipe_of(kind, corpus)
    (found,) = recipe.evaluate(model)
    network, tokenizer = model.backend.network, model.backend.tokenizer
    first = tokenizer.bos_token_id
    nats = words = 0
    passages = {}
    for row in recipe._text.held_out:
        passages.setdefault(row["passage"], []).append(row["text"])
    for texts in passages.values():  # each shorter than a part
        text = " ".join(texts)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        for at in range(0, len(ids), 63):
            row = torch.tensor([[first, *ids[at : at + 63]]])
            with torch.no_grad():
                logits = network(input_ids=row).logits[0].double().log_softmax(-1)
            nats -= float(logits[:-1].gather(1, row[0, 1:, None]).sum())
        words += len(text.replace(".", " .").split())
    assert found.value == pytest.approx(math.exp(nats / words), rel=1e-3)
    assert found.item_sums.total == pytest.approx(found.value)


def test_two_models_are_compared_on_the_same_masks(tiny_model, corpus):
    recipe = recipe_of("bert", corpus)
    model = tiny_model("bert")
    other = recipe.start(model, 0)
    with torch.no_grad():
        other.backend.network.cls.predictions.bias += torch.linspace(
            0, 1, len(other.backend.network.cls.predictions.bias)
        )
    a, b = recipe.evaluate(model)[0].item_sums, recipe.evaluate(other)[0].item_sums
    assert a.labels.tolist() == b.labels.tolist()
    assert np.array_equal(a.sums[:, 1], b.sums[:, 1]) and not np.array_equal(a.sums[:, 0], b.sums[:, 0])


def test_a_network_that_gives_no_numbers_has_no_perplexity(tiny_model, corpus):
    recipe = recipe_of("gpt2", corpus)
    broken = recipe.start(tiny_model("gpt2"), 0)
    with torch.no_grad():
        broken.backend.network.transformer.ln_f.bias.fill_(math.nan)
    with pytest.raises(ScoreError, match="NaN or infinite"):
        recipe.evaluate(broken)


# --- settings --------------------------------------------------------------------------------------------------------


def test_models_of_other_roles_are_refused(tiny_model, corpus):
    masked, causal = recipe_of("bert", corpus), recipe_of("gpt2", corpus)
    for recipe, model in ((masked, tiny_model("gpt2")), (causal, tiny_model("bert")), (masked, None)):
        with pytest.raises(NotApplicableError, match=r"trains on a checkpoint that is a (masked|causal)-lm"):
            recipe.start(model, 0)
        if model is not None:
            with pytest.raises(NotApplicableError):
                recipe.evaluate(model)


def test_settings_say_what_was_read_and_not_where(corpus, tmp_path):
    copy = tmp_path / "elsewhere" / "people.txt"
    copy.parent.mkdir()
    copy.write_bytes(Path(corpus).read_bytes())
    one, two = recipe_of("bert", corpus), recipe_of("bert", str(copy))
    assert one.settings() == two.settings() and json.loads(json.dumps(one.settings())) == one.settings()
    assert str(tmp_path) not in str(two.settings()) and one.settings()["digest"]
    copy.write_text(copy.read_text() + " More.")
    assert recipe_of("bert", str(copy)).settings() != one.settings()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_length": 2}, "max_length"),
        ({"steps": 0}, "steps"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": "5e-5"}, "learning_rate"),
        ({"warmup": 1}, "warmup"),
        ({"held_out": "0.1"}, "held_out"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"epochs": float("inf")}, "epochs"),
        ({"epochs": 0}, "epochs"),
        ({"mask_probability": 1}, "mask_probability"),
        ({"arguments": {"learning_rate": 1e-3}}, "has a setting of the recipe: learning_rate"),
        ({"arguments": {"weight_dekay": 1}}, "weight_dekay is no argument of"),
        ({"arguments": {"seed": 1}}, "decided by the recipe"),
    ],
)
def test_settings_that_there_are_not(settings, message, corpus):
    with pytest.raises(SettingError, match=message):
        recipe_of("bert", corpus, **settings)
