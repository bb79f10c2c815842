"""Vectors, similarities and class probabilities of texts, against plain forward passes of one text at a time."""

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.scoring.scorers import make_scorer
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.query import ClassProbabilities, PairSimilarity, TextVectors

TEXTS = ["The nurse said that she was tired.", "A man is walking.", "The nurse said that she was tired.", "engineer"]
KINDS = ["bert", "roberta", "deberta-v2", "gpt2", "llama"]


def vectors(model, query, texts=TEXTS, spans=(), batch_tokens=None):
    cases = TextCases([(text,) for text in texts], spans)
    return make_scorer(cases, query, model, batch_tokens).score(np.arange(len(texts)))


def plain_states(model, text, layer=-1):
    """Hidden states of one text, and which tokens are the text's own."""
    encoded = model.backend.tokenizer(text, return_tensors="pt", return_special_tokens_mask=True)
    own = encoded.pop("special_tokens_mask")[0].numpy() == 0
    encoded.pop("token_type_ids", None)
    with torch.no_grad():
        states = model.backend.network.base_model(**encoded, output_hidden_states=True).hidden_states
    return states[layer][0].numpy(), own


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_over_the_tokens_of_a_text(tiny_model, kind):
    model = tiny_model(kind)
    found = vectors(model, TextVectors())
    for text, vector in zip(TEXTS, found, strict=True):
        states, own = plain_states(model, text)
        assert np.allclose(vector, states[own].mean(axis=0), atol=1e-5)
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_other_poolings(tiny_model, kind):
    model = tiny_model(kind)
    first, own = vectors(model, TextVectors(pooling="first")), vectors(model, TextVectors(pooling="own"))
    for i, text in enumerate(TEXTS):
        states, _ = plain_states(model, text)
        assert np.allclose(first[i], states[0], atol=1e-5)
        assert np.allclose(own[i], states.mean(axis=0), atol=1e-5)


def test_hidden_layers_and_input_embeddings(tiny_model):
    model = tiny_model("bert")
    for layer in (0, 1):
        states, own = plain_states(model, TEXTS[0], layer)
        assert np.allclose(vectors(model, TextVectors(where=layer))[0], states[own].mean(axis=0), atol=1e-5)
    ids = model.backend.tokenizer(TEXTS[0], add_special_tokens=False)["input_ids"]
    table = model.backend.network.get_input_embeddings().weight.detach().numpy()
    assert np.allclose(vectors(model, TextVectors(where="input"))[0], table[ids].mean(axis=0), atol=1e-6)
    with pytest.raises(SettingError, match="layer 99 is not there; the model has layers 0"):
        vectors(model, TextVectors(where=99))


@pytest.mark.parametrize("kind", ["bert", "roberta", "llama"])
def test_a_span_is_the_mean_of_its_tokens(tiny_model, kind):
    model, text = tiny_model(kind), TEXTS[0]
    found = vectors(model, TextVectors(), [text, text], [((4, 9),), ((20, 23),)])
    states, _ = plain_states(model, text)
    offsets = model.backend.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    for vector, (start, stop) in zip(found, [(4, 9), (20, 23)], strict=True):
        inside = [i for i, (a, b) in enumerate(offsets) if a < stop and b > start and b > a]
        assert inside
        assert np.allclose(vector, states[inside].mean(axis=0), atol=1e-5)


def test_an_untrained_network_is_drawn_anew_and_can_be_repeated(tiny_model):
    model = tiny_model("bert")
    one, again, other = (vectors(model, TextVectors(random_seed=seed)) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.allclose(one, other, atol=1e-3)
    assert not np.allclose(one, vectors(model, TextVectors()), atol=1e-3)


def test_long_texts_are_cut_with_a_note_and_a_span_behind_the_cut_is_refused(tiny_model):
    model = tiny_model("bert")
    text = "The nurse said that she was tired. " * 200
    cases = TextCases([(text,), ("A man.",)])
    scorer = make_scorer(cases, TextVectors(), model, None)
    assert np.isfinite(scorer.score(np.arange(2))).all()
    assert any("1 texts cut to the" in note for note in scorer.notes)
    with pytest.raises(ModelError, match="the model reads no token of 'tired'"):
        vectors(model, TextVectors(), [text], [((len(text) - 7, len(text) - 2),)])


def test_batches_change_nothing(tiny_model):
    model = tiny_model("roberta")
    assert np.allclose(vectors(model, TextVectors(), batch_tokens=1), vectors(model, TextVectors()), atol=1e-5)


def test_cosines_of_sentence_vectors(tiny_model):
    model = tiny_model("bert")
    pairs = TextCases([(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[1])])
    found = make_scorer(pairs, PairSimilarity(), model, None).score(np.arange(2))[:, 0]
    a, b = vectors(model, TextVectors(pooling="own"), TEXTS[:2]).astype(float)
    assert np.allclose(found, [a @ b / np.linalg.norm(a) / np.linalg.norm(b), 1.0], atol=1e-6)


def test_a_regressor_scores_pairs_and_a_classifier_texts(tmp_path):
    folder = save_checkpoint("bert-nli", tmp_path / "sts", num_labels=1, id2label={0: "LABEL_0"})
    model = load_model(str(folder), device="cpu")
    assert model.role.kind == "pair-regressor"
    cases = TextCases([(TEXTS[0], TEXTS[1]), (TEXTS[1], TEXTS[3])])
    found = make_scorer(cases, PairSimilarity(), model, None).score(np.arange(2))
    with torch.no_grad():
        for (a, b), score in zip(cases.texts, found, strict=True):
            plain = model.backend.network(**model.backend.tokenizer(a, b, return_tensors="pt")).logits
            assert np.allclose(score, plain[0].numpy(), atol=1e-5)
    folder = save_checkpoint("bert-nli", tmp_path / "jobs", num_labels=2, id2label={0: "nurse", 1: "actor"})
    model = load_model(str(folder), device="cpu")
    assert model.role.labels == ("nurse", "actor")
    found = make_scorer(TextCases([(t,) for t in TEXTS]), ClassProbabilities(), model, None).score(np.arange(4))
    with torch.no_grad():
        plain = model.backend.network(**model.backend.tokenizer(TEXTS[1], return_tensors="pt")).logits.softmax(-1)
    assert np.allclose(found[1], plain[0].numpy(), atol=1e-5)
    assert np.allclose(found.sum(axis=1), 1.0)


class Encoder:
    def __init__(self, dimensions=3):
        self.dimensions = dimensions

    def encode(self, texts):
        return np.asarray([[len(text), 1.0, 2.0][: self.dimensions] for text in texts])


class Similarity:
    def pair_scores(self, firsts, seconds):
        return [len(a) - len(b) for a, b in zip(firsts, seconds, strict=True)]


def test_objects_of_the_users_own():
    cases = TextCases([("abc", "a"), ("a", "a")])
    cosines = make_scorer(cases, PairSimilarity(), wrap_object(Encoder()), None).score(np.arange(2))
    assert np.allclose(cosines[:, 0], [(3 + 5) / np.sqrt(14 * 6), 1.0])
    scores = make_scorer(cases, PairSimilarity(), wrap_object(Similarity()), None).score(np.arange(2))
    assert scores.tolist() == [[2.0], [0.0]]
    with pytest.raises(NotApplicableError, match="object without hidden states"):
        make_scorer(cases, TextVectors(), wrap_object(Encoder()), None)
    with pytest.raises(ScoreError, match="NaN or infinite"):
        make_scorer(cases, PairSimilarity(), wrap_object(Encoder(0)), None).score(np.arange(2))


def test_cases_know_their_digest():
    texts = [("a", "b"), ("c", "d")]
    cases = TextCases(texts, facts={"gold": np.asarray([1, 0])})
    assert cases.digest() == TextCases(texts, facts={"gold": np.asarray([1, 0])}).digest()
    assert cases.digest() != TextCases(texts, facts={"gold": np.asarray([1, 1])}).digest()
    assert cases.digest() != TextCases(texts, [((0, 1),), ((0, 1),)], {"gold": np.asarray([1, 0])}).digest()
    with pytest.raises(ValueError, match="same length"):
        TextCases(texts, facts={"gold": np.asarray([1])})


def test_a_sentence_encoder_pools_and_cuts_as_its_own_files_say(checkpoint, tmp_path):
    import json
    import shutil

    folder = shutil.copytree(checkpoint("bert"), tmp_path / "encoder")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_max_tokens": True}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 5}))
    model = load_model(str(folder), device="cpu")
    assert model.backend.max_length == 5
    found = vectors(model, TextVectors(pooling="own"), [TEXTS[0], TEXTS[3]])
    short = model.backend.tokenizer.decode(model.backend.tokenizer(TEXTS[0])["input_ids"][1:4])
    states, own = plain_states(model, short)
    assert np.allclose(found[0], states.max(axis=0), atol=1e-5)
    assert own.sum() == 3
    for broken, message in (
        ("{", "cannot be read"),
        ("[1]", r"cannot be read: expected a JSON object, got \[1\]"),
        ("{}", "names no pooling"),  # never taken for a folder without that file, which does not say how to pool
    ):
        (folder / "1_Pooling" / "config.json").write_text(broken)
        with pytest.raises(ModelError, match=rf"1_Pooling/config\.json {message}"):
            load_model(str(folder), device="cpu")


def test_a_subclass_of_a_query_has_the_same_scorer(tiny_model):
    class WholeTextVectors(TextVectors):
        pass

    model = tiny_model("bert")
    assert np.array_equal(vectors(model, WholeTextVectors()), vectors(model, TextVectors()))
