"""Decomposable attention over static vectors: slow loops by the papers' formulas, and an ordinary checkpoint in all
that is done to one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import suite_space

from pytest_genderbias import load_model, load_suite, measure
from pytest_genderbias.errors import ModelError
from pytest_genderbias.mitigation.methods.projection import project_embeddings, project_layers
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis, vectors_of
from pytest_genderbias.models.saving import input_embeddings, save_model
from pytest_genderbias.recipes.networks.decomposable_attention import (
    SPECIAL,
    DecomposableAttentionConfig,
    DecomposableAttentionForSequenceClassification,
    make_tokenizer,
    words_of,
)
from pytest_genderbias.scoring.engine import random_order
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.query import PairProbabilities
from pytest_genderbias.text.packaged import folder, names

HIDDEN, SIZE = 12, 7
PAIRS = [
    ("The accountant ate a bagel.", "The man ate a bagel."),
    ("A nurse", "She doesn't sing, and a bagel is not what the T-shirt ate."),
    ("Bagel", "Man"),
]


def packaged_words() -> list[str]:
    texts = [(folder(kind) / f"{name}.yaml").read_text() for kind in ("wordlists", "fixtures") for name in names(kind)]
    return sorted({word for text in texts for word in words_of(text.lower())})


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    """A random network over the words of the packaged lists, as a checkpoint."""
    path = tmp_path_factory.mktemp("static") / "nli"
    tokenizer = make_tokenizer(packaged_words())
    torch.manual_seed(1)
    config = DecomposableAttentionConfig(len(tokenizer), embedding_size=SIZE, hidden_size=HIDDEN)
    network = DecomposableAttentionForSequenceClassification(config)
    with torch.no_grad():
        network.get_input_embeddings().weight.normal_()
        network.classifier.output.weight.mul_(4)
    network.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(saved):
    return load_model(str(saved), device="cpu")


def logits(model, premise: str, hypothesis: str) -> torch.Tensor:
    with torch.inference_mode():
        return model.backend.network(**model.backend.tokenizer(premise, hypothesis, return_tensors="pt")).logits[0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, weights, suffix):
    """One direction of an LSTM by its equations, gates in torch's order: input, forget, cell, output."""
    w, u, b, c = (
        weights[f"encoder.layers.0.lstm.{name}_l0{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h, cell, found = np.zeros(HIDDEN // 2), np.zeros(HIDDEN // 2), []
    for row in x:
        i, f, g, o = np.split(w @ row + b + u @ h + c, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(cell)
        found.append(h)
    return np.array(found)


def by_formula(model, premise: str, hypothesis: str):
    """Parikh et al. 2016, equations 1 to 6, on the states of a BiLSTM, in loops over words and in double precision."""
    weights = {name: tensor.double().numpy() for name, tensor in model.backend.network.state_dict().items()}

    def layers(name, x):
        for number in (1, 4):
            x = np.maximum(
                weights[f"classifier.{name}.{number}.weight"] @ x + weights[f"classifier.{name}.{number}.bias"], 0
            )
        return x

    vocabulary = model.backend.tokenizer.get_vocab()
    sentences = []
    for text in (premise, hypothesis):
        rows = [vocabulary.get(word, vocabulary["[UNK]"]) for word in words_of(text.lower())] + [vocabulary["[SEP]"]]
        x = weights["encoder.embeddings.weight"][rows]
        sentences.append(np.hstack([lstm(x, weights, ""), lstm(x[::-1], weights, "_reverse")[::-1]]))
    sums = []
    for own, other in (sentences, sentences[::-1]):
        total = np.zeros(HIDDEN)
        for word in own:
            e = np.array([layers("attend", word) @ layers("attend", counterpart) for counterpart in other])
            aligned = (np.exp(e) / np.exp(e).sum()) @ other
            total += layers("compare", np.concatenate([word, aligned]))
        sums.append(total)
    return (
        weights["classifier.output.weight"] @ layers("aggregate", np.concatenate(sums))
        + weights["classifier.output.bias"]
    )


@pytest.mark.parametrize("pair", PAIRS)
def test_the_logits_are_those_of_loops_by_the_formulas(model, pair) -> None:
    np.testing.assert_allclose(logits(model, *pair).numpy(), by_formula(model, *pair), atol=2e-5)


def test_padding_on_either_side_and_neighbours_in_a_batch_change_nothing(model) -> None:
    network, tokenizer = model.backend.network, model.backend.tokenizer
    alone = torch.stack([logits(model, *pair) for pair in PAIRS])
    assert (alone[0] - alone[1]).abs().max() > 0.01
    for side in ("right", "left"):
        batch = tokenizer(*zip(*PAIRS, strict=True), padding=True, return_tensors="pt", padding_side=side)
        with torch.inference_mode():
            torch.testing.assert_close(network(**batch).logits, alone, atol=1e-5, rtol=0)


def test_a_row_without_token_types_is_divided_at_its_separator(model) -> None:
    batch = model.backend.tokenizer(*zip(*PAIRS, strict=True), padding=True, return_tensors="pt")
    network = model.backend.network
    with torch.inference_mode():
        whole = network(**batch).logits
        del batch["token_type_ids"]
        assert torch.equal(network(**batch).logits, whole)
        swapped = model.backend.tokenizer(
            [b for _, b in PAIRS], [a for a, _ in PAIRS], padding=True, return_tensors="pt"
        )
        assert (network(**swapped).logits - whole).abs().max() > 1e-3


def test_a_text_on_its_own_has_states_and_logits(model) -> None:
    row = model.backend.tokenizer("The man ate", return_tensors="pt")
    with torch.inference_mode():
        assert model.backend.network.base_model(**row).last_hidden_state.shape == (1, 4, HIDDEN)
        assert bool(model.backend.network(**row).logits.isfinite().all())


def test_words_are_cut_as_in_the_vocabulary_of_glove(model) -> None:
    tokens = model.backend.tokenizer("He DOESN'T like the nurse's Zqx-shirt; she'll say.").tokens()
    assert tokens[:9] == ["he", "does", "n't", "like", "the", "nurse", "'s", "[UNK]", "-"]
    assert tokens[-4:] == ["'ll", "say", ".", "[SEP]"]


def test_it_is_an_ordinary_checkpoint(model, saved, tmp_path) -> None:
    assert model.role.kind == "nli-classifier"
    assert model.role.labels == ("entailment", "neutral", "contradiction")
    assert (model.width, model.input_width, model.backend.max_length) == (HIDDEN, SIZE, None)
    again = load_model(str(save_model(model, tmp_path / "again")), device="cpu")
    assert again.fingerprint == model.fingerprint
    for pair in PAIRS:
        assert torch.equal(logits(again, *pair), logits(model, *pair))
    (saved.parent / "broken").mkdir()
    (saved.parent / "broken" / "config.json").write_text((saved / "config.json").read_text())
    with pytest.raises(ModelError):
        load_model(str(saved.parent / "broken"))


@pytest.mark.filterwarnings("ignore::pytest_genderbias.measurement.carry_out.LabelWarning")  # its weights are random
def test_a_suite_measured_in_batches_is_that_of_single_pairs(model) -> None:
    space, _ = suite_space("nli-occupation")
    cases = random_order(space.n_units, load_suite("nli-occupation").digest, 0)[:1000]
    alone = torch.stack([logits(model, *pair) for pair in space.sentences(cases[:200])]).softmax(-1).numpy()
    scorer = make_scorer(space, PairProbabilities(), model, None)
    scores = scorer.score(cases)
    np.testing.assert_allclose(scores[:200], alone, atol=1e-5)
    assert scorer.notes == []
    assert np.ptp(alone[:, 1]) > 0.01
    found = measure("nli-occupation", model, limit=1000, seed=0, cache=None)
    assert found.values["net_neutral"] == pytest.approx(scores[:, 1].mean(), abs=1e-5)


def test_projected_embeddings_lose_the_pair_and_come_back_bit_by_bit(model, tmp_path) -> None:
    basis = learn_basis(model, pairs=HE_SHE)
    mitigated = project_embeddings(model, basis)
    weights = input_embeddings(mitigated.backend.network)
    assert np.abs(weights @ basis).max() < 1e-5 < np.abs(input_embeddings(model.backend.network) @ basis).max()
    again = load_model(str(save_model(mitigated, tmp_path / "projected")), device="cpu")
    assert again.fingerprint == mitigated.fingerprint != model.fingerprint
    for pair in PAIRS:
        assert torch.equal(logits(again, *pair), logits(mitigated, *pair))
    assert not torch.equal(logits(mitigated, *PAIRS[0]), logits(model, *PAIRS[0]))


def test_a_basis_of_words_is_that_of_their_rows(model) -> None:
    words = ["American", "Chinese", "Egyptian", "French"]
    rows = [model.backend.tokenizer.get_vocab()[word.lower()] for word in words]
    np.testing.assert_array_equal(vectors_of(model, words), input_embeddings(model.backend.network)[rows])
    assert min(rows) >= len(SPECIAL)
    assert learn_basis(model, words=words).shape == (SIZE, 1)


def test_the_layer_above_the_vectors_can_be_projected(model) -> None:
    basis = learn_basis(model, pairs=HE_SHE, where=1)
    mitigated = project_layers(model, {1: basis})
    left = vectors_of(mitigated, ["he", "she", "bagel"], where=1) @ basis
    assert np.abs(left).max() < 1e-5
    assert not torch.equal(logits(mitigated, *PAIRS[0]), logits(model, *PAIRS[0]))


def test_it_is_read_in_half_precision_too(model):
    """As the training arguments bf16 and fp16 have it: products of half the width, the states or not."""
    fed = model.backend.tokenizer(*PAIRS[1], return_tensors="pt")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = model.backend.network(**fed).logits[0].float()
    torch.testing.assert_close(found, logits(model, *PAIRS[1]).clone(), rtol=0.05, atol=0.05)
