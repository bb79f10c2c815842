"""Projection: directions, arrays, word vectors, input embeddings that round-trip, hidden layers by hooks."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_checkpoints import CAUSAL, CLASSIFIERS, MASKED, NLI, make_network, save_checkpoint, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError, UndefinedError, UnknownNameError
from pytest_genderbias.mitigation.methods.projection import (
    project,
    project_embeddings,
    project_layers,
    project_network,
    projection_callback,
)
from pytest_genderbias.mitigation.words.directions import (
    HE_SHE,
    layer_bases,
    learn_basis,
    pairs_basis,
    random_bases,
    set_basis,
    vectors_of,
)
from pytest_genderbias.models.hidden_layers import project_hidden_layers
from pytest_genderbias.models.saving import input_embeddings, save_model, untie_output
from pytest_genderbias.statistics.bias_subspace import check_basis, pair_direction, principal_ratios

KINDS = (*MASKED, *CAUSAL, *CLASSIFIERS)
IDS = torch.arange(6, 26)[None]
ENCODERS = ("bert", "albert", "distilbert", "electra", "deberta-v2", "mpnet", "modernbert", "roberta", "gpt2", "llama")


def logits(network, ids=IDS):
    with torch.no_grad():
        return network(input_ids=ids).logits


def aligned(network):
    """Put weights that were mapped from a file where torch's kernels have them otherwise: their sums depend on it by
    1e-7.
    """
    for parameter in network.parameters():
        parameter.data = parameter.data.clone()
    return network


def parameters(network):
    return dict(network.named_parameters(remove_duplicate=False))


# Directions


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_pairs_span_the_leading_eigenvectors_of_their_scatter(seed, k):
    rng = np.random.default_rng(seed)
    u, v = rng.standard_normal((2, 9, 6))
    found = pairs_basis(u, v, k)
    u, v = (side / np.sqrt((side**2).sum(axis=1))[:, None] for side in (u, v))
    scatter = sum(np.outer(a - b, a - b) for a, b in zip(u, v, strict=True))
    leading = np.linalg.eigh(scatter)[1][:, ::-1][:, :k]
    np.testing.assert_allclose(found @ found.T, leading @ leading.T, atol=1e-9)
    assert ((u - v).sum(axis=0) @ found >= 0).all()


def test_one_pair_is_the_learned_direction_of_the_subspace_suite():
    he, she = np.random.default_rng(1).standard_normal((2, 7))
    np.testing.assert_array_equal(pairs_basis([he], [she])[:, 0], pair_direction(she, he))


def test_a_set_has_the_component_of_the_subspace_suite():
    words = np.random.default_rng(2).standard_normal((8, 12))
    expected = principal_ratios(words, centred=True)[0]
    assert abs(set_basis(words, 2)[:, 0] @ expected) == pytest.approx(1, abs=1e-12)


def test_directions_that_are_not_there_are_refused():
    with pytest.raises(UndefinedError, match="span 1, not 2"):
        pairs_basis([[1.0, 0], [2, 0]], [[0.0, 1], [0, 3]], 2)
    with pytest.raises(UndefinedError, match="span 0, not 1"):
        set_basis([[1.0, 2.0], [1.0, 2.0]])
    with pytest.raises(UndefinedError, match="not finite"):
        set_basis([[1.0, np.nan], [1.0, 2.0]])
    with pytest.raises(SettingError, match="expected the same"):
        pairs_basis(np.ones((2, 3)), np.ones((1, 3)))
    with pytest.raises(SettingError, match="components should be 1 or more"):
        set_basis(np.eye(3), 0)


def test_random_bases_are_orthonormal_seeded_and_uniform():
    found = random_bases(5, 2, repeats=4000, seed=3)
    np.testing.assert_allclose(found.swapaxes(1, 2) @ found, np.broadcast_to(np.eye(2), (4000, 2, 2)), atol=1e-12)
    np.testing.assert_array_equal(found, random_bases(5, 2, repeats=4000, seed=3))
    assert not np.allclose(found, random_bases(5, 2, repeats=4000, seed=4))
    mean = np.einsum("rik,rjk->ij", found, found) / 4000  # of a uniform one: k / dim along the diagonal
    np.testing.assert_allclose(mean, np.eye(5) * 2 / 5, atol=0.03)
    assert random_bases(9).shape == (8, 9, 1)
    with pytest.raises(SettingError, match="1 to 3"):
        random_bases(3, 4)


@pytest.mark.parametrize(
    ("basis", "said"),
    [
        ([1.0, 1.0], "identity by 1;"),
        ([[1.0, 0.6], [0.0, 0.8]], "identity by 0.6;"),
        ([1.0, 0.0, 0.0], "shape"),
        ([np.nan, 0.0], "identity by nan;"),
        (np.zeros((2, 0)), "shape"),
    ],
)
def test_a_basis_that_is_not_orthonormal_is_refused(basis, said):
    with pytest.raises(SettingError, match=said):
        check_basis(basis, 2)


# Arrays


@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([np.float16, np.float32, np.float64]))
def test_projection_leaves_nothing_in_the_subspace_and_the_rest_alone(seed, k, dtype):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((11, 6)).astype(dtype)
    basis = random_bases(6, k, 1, seed)[0]
    found = project(x, basis)
    slow = np.array([row - sum((row @ b) * b for b in basis.T) for row in x.astype(np.float64)])
    tiny = np.finfo(dtype).eps * 16
    np.testing.assert_allclose(found, slow, atol=tiny)
    assert found.dtype == dtype
    assert np.abs(found.astype(np.float64) @ basis).max() <= tiny
    np.testing.assert_allclose(project(found, basis), found, atol=tiny)
    assert (np.linalg.norm(found, axis=1) <= np.linalg.norm(x, axis=1) * (1 + 10 * tiny)).all()


def test_projection_does_not_depend_on_blocks_or_on_the_basis_of_the_subspace():
    x = np.random.default_rng(0).standard_normal((70_000, 3)).astype(np.float32)
    basis = random_bases(3, 2, 1)[0]
    turned = basis @ np.array([[0.6, -0.8], [0.8, 0.6]])
    np.testing.assert_allclose(project(x, basis), project(x, turned), atol=1e-6)
    np.testing.assert_array_equal(project(x, basis)[-1], project(x[-1], basis))


# Word vectors


@pytest.fixture
def glove(tmp_path):
    words = ["he", "she", "nurse", "engineer", "café", "king", "queen"]
    matrix = np.random.default_rng(5).standard_normal((len(words), 6)).astype(np.float32)
    np.savez(tmp_path / "small.npz", vectors=matrix, words=np.array(words))
    return load_model(str(tmp_path / "small.npz"))


@pytest.mark.parametrize("name", ["out.npz", "out.txt", "out.vec", "out.safetensors"])
def test_word_vectors_round_trip_bit_for_bit(glove, tmp_path, name):
    basis = learn_basis(glove, pairs=HE_SHE)
    mitigated = project_embeddings(glove, basis)
    path = save_model(mitigated, tmp_path / "new" / name)
    loaded = load_model(str(path))
    assert loaded.role.kind == "vectors" and loaded.backend.words == glove.backend.words
    np.testing.assert_array_equal(loaded.backend.matrix, project(glove.backend.matrix, basis))
    he, she = loaded.backend.get(["he", "she"]).astype(np.float64) @ basis[:, 0]
    assert abs(he - she) < 1e-6 < abs(float(np.subtract(*(glove.backend.get(["he", "she"]) @ basis[:, 0]))))
    assert mitigated.fingerprint != glove.fingerprint
    with pytest.raises(SettingError, match="exists; give a new path"):
        save_model(mitigated, path)


def test_word_vectors_that_a_form_cannot_hold_are_not_written_in_it(glove, tmp_path):
    odd = replace(glove, backend=replace(glove.backend, words={"a 1": 0}, matrix=glove.backend.matrix[:1]))
    with pytest.raises(ModelError):
        save_model(odd, tmp_path / "new" / "odd.txt")
    assert not list((tmp_path / "new").iterdir())
    save_model(odd, tmp_path / "new" / "odd.npz")
    with pytest.raises(SettingError, match=r"saved as \.npz"):
        save_model(glove, tmp_path / "odd.bin")


def test_a_vocabulary_beside_the_new_file_is_not_overwritten(glove, tmp_path):
    (tmp_path / "out.vocab.txt").write_text("other\n")
    with pytest.raises(SettingError, match=r"out\.vocab\.txt exists"):
        save_model(glove, tmp_path / "out.safetensors")


def test_words_without_a_vector_are_named(glove):
    with pytest.raises(UnknownNameError, match="'nobody'"):
        learn_basis(glove, pairs=[("nobody", "she")])
    with pytest.raises(SettingError, match="either from pairs or from words"):
        learn_basis(glove)
    with pytest.raises(NotApplicableError, match="no layers"):
        layer_bases(glove, pairs=HE_SHE)
    with pytest.raises(NotApplicableError, match="no layers"):
        project_layers(glove, {})


# Input embeddings


def tied(kind):
    return {"tie_word_embeddings": True} if kind == "llama" else {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_projected_network_scores_the_same_after_the_round_trip(kind, tmp_path):
    """Biases are random, too: those of a fresh network are zero, and one that is lost would not show."""
    torch.manual_seed(1)
    network = make_network(kind, **tied(kind))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.normal_()
    network.save_pretrained(tmp_path / "base")
    tokenizer(kind.removesuffix("-nli")).save_pretrained(tmp_path / "base")
    base = load_model(str(tmp_path / "base"), device="cpu")
    before = {name: parameter.clone() for name, parameter in parameters(base.backend.network).items()}
    basis = learn_basis(base, pairs=HE_SHE)
    mitigated = project_embeddings(base, basis)
    loaded = load_model(str(save_model(mitigated, tmp_path / "mitigated")), device="cpu")

    changed = parameters(mitigated.backend.network)
    inputs = mitigated.backend.network.get_input_embeddings().weight
    for name, parameter in changed.items():
        same = torch.equal(parameter, before[name])
        assert same != (parameter is inputs), f"{name}: only the input embeddings change, the tied output stays"
    assert np.abs(input_embeddings(mitigated.backend.network).astype(np.float64) @ basis).max() < 1e-6
    assert torch.equal(logits(mitigated.backend.network), logits(aligned(loaded.backend.network)))
    again = parameters(loaded.backend.network)
    assert again.keys() == changed.keys()
    assert all(torch.equal(again[name], changed[name]) for name in changed)
    assert loaded.fingerprint == mitigated.fingerprint != base.fingerprint
    assert not torch.equal(logits(loaded.backend.network), logits(base.backend.network))
    assert all(torch.equal(p, before[name]) for name, p in parameters(base.backend.network).items())

    plain = transformers.AutoModel.from_pretrained(
        tmp_path / "mitigated"
    )  # without the head, as a user would fine-tune it
    assert torch.equal(plain.get_input_embeddings().weight, inputs)


@pytest.mark.parametrize("kind", ["bert", "albert", "gpt2"])
def test_nothing_ties_the_output_again(kind):
    network = make_network(kind)
    output = network.get_output_embeddings().weight.clone()
    project_network(network, random_bases(network.get_input_embeddings().weight.shape[1])[0])
    network.tie_weights()
    network.resize_token_embeddings(len(output) + 3)
    assert torch.equal(network.get_output_embeddings().weight[: len(output)], output)


def test_a_network_whose_output_is_not_tied_keeps_its_config():
    network = make_network("bert-nli")
    untie_output(network)
    assert network.config.tie_word_embeddings


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_number_formats_round_trip(checkpoint, tmp_path, dtype):
    base = load_model(str(checkpoint("bert")), device="cpu", dtype=dtype)
    mitigated = project_embeddings(base, learn_basis(base, pairs=HE_SHE))
    weight = mitigated.backend.network.get_input_embeddings().weight
    assert weight.dtype == getattr(torch, dtype) and bool(torch.isfinite(weight).all())
    loaded = load_model(str(save_model(mitigated, tmp_path / "out")), device="cpu", dtype=dtype)
    assert torch.equal(loaded.backend.network.get_input_embeddings().weight, weight)
    assert loaded.fingerprint == mitigated.fingerprint


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_network_on_a_gpu_is_projected_as_on_the_cpu(checkpoint, tmp_path):
    cpu, gpu = (load_model(str(checkpoint("bert")), device=device) for device in ("cpu", "cuda"))
    basis = learn_basis(cpu, pairs=HE_SHE)
    found = [project_embeddings(model, basis) for model in (cpu, gpu)]
    assert found[0].fingerprint == found[1].fingerprint
    assert found[1].backend.network.get_input_embeddings().weight.is_cuda
    hooked = project_layers(gpu, layer_bases(gpu, pairs=HE_SHE))
    assert torch.isfinite(logits(hooked.backend.network, IDS.cuda())).all()
    save_model(found[1], tmp_path / "out")


def test_what_does_not_come_back_is_not_saved(checkpoint, tmp_path, monkeypatch):
    model = project_embeddings(load_model(str(checkpoint("bert")), device="cpu"), random_bases(16)[0])
    kind = type(model.backend.network)
    right = kind.from_pretrained

    def lossy(*args, **how):
        network, info = right(*args, **how)
        return network, {**info, "missing_keys": {"cls.predictions.decoder.bias"}}

    monkeypatch.setattr(kind, "from_pretrained", lossy)
    with pytest.raises(
        ModelError, match=r"changes when it is saved .*missing cls\.predictions\.decoder\.bias; nothing was saved"
    ):
        save_model(model, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_the_trap_of_transformers_is_there_and_avoided(tmp_path):
    """With the flag off and the bias still shared, a masked LM comes back without its decoder bias."""
    network = make_network("bert")
    with torch.no_grad():
        network.cls.predictions.bias.normal_()
    decoder = network.cls.predictions.decoder
    decoder.weight = torch.nn.Parameter(decoder.weight.detach().clone())
    network.config.tie_word_embeddings = False
    network.save_pretrained(tmp_path)
    again, info = type(network).from_pretrained(tmp_path, output_loading_info=True)
    if not info["missing_keys"]:
        pytest.skip("this version of transformers keeps the bias")
    assert not torch.allclose(logits(again.eval()), logits(network))


def bart(kind):
    config = transformers.BartConfig(
        vocab_size=len(tokenizer("roberta")),
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=40,
        pad_token_id=1,
        eos_token_id=2,
        bos_token_id=0,
        decoder_start_token_id=2,
        init_std=0.4,
        num_labels=3,
        id2label=NLI["id2label"],
    )
    torch.manual_seed(0)
    return kind(config).eval()


def test_an_encoder_and_decoder_share_their_embeddings_after_the_round_trip(tmp_path):
    """An NLI classifier as bart-large-mnli, and one whose vocabulary head is tied to both."""
    folder = tmp_path / "bart"
    bart(transformers.BartForSequenceClassification).save_pretrained(folder)
    tokenizer("roberta").save_pretrained(folder)
    base = load_model(str(folder), device="cpu")
    mitigated = project_embeddings(base, random_bases(16)[0])
    loaded = load_model(str(save_model(mitigated, tmp_path / "out")), device="cpu")
    network = loaded.backend.network
    assert loaded.fingerprint == mitigated.fingerprint
    assert network.model.encoder.embed_tokens.weight is network.model.decoder.embed_tokens.weight

    tied = bart(transformers.BartForConditionalGeneration)
    head = tied.lm_head.weight.clone()
    project_network(tied, random_bases(16)[0])
    assert tied.model.encoder.embed_tokens.weight is tied.model.decoder.embed_tokens.weight
    assert torch.equal(tied.lm_head.weight, head)
    generator = replace(mitigated, backend=replace(mitigated.backend, network=tied))
    again = type(tied).from_pretrained(save_model(generator, tmp_path / "tied"))
    assert all(torch.equal(p, parameters(again)[name]) for name, p in parameters(tied).items())
    with pytest.raises(ModelError, match="encoder and a decoder"):
        project_layers(base, {0: random_bases(16)[0]})


def test_an_encoder_without_a_head_is_projected_and_saved(checkpoint, tmp_path):
    folder = tmp_path / "encoder"
    transformers.AutoModel.from_pretrained(checkpoint("bert")).save_pretrained(folder)
    tokenizer("bert").save_pretrained(folder)
    base = load_model(str(folder), device="cpu")
    mitigated = project_embeddings(base, learn_basis(base, pairs=HE_SHE))
    loaded = load_model(str(save_model(mitigated, tmp_path / "out")), device="cpu")
    assert loaded.fingerprint == mitigated.fingerprint
    hooked = project_layers(base, layer_bases(base, "all", pairs=HE_SHE))
    for layer in (0, 1, 2):
        basis = learn_basis(base, pairs=HE_SHE, where=layer)
        assert np.abs(vectors_of(hooked, ["nurse"], where=layer) @ basis).max() < 1e-5


def test_training_keeps_the_embeddings_projected_and_checkpoints_resume(tmp_path):
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    basis = random_bases(16, 2, 1, seed=4)[0]

    def trainer(folder, steps):
        network = make_network("bert-nli")
        project_network(network, basis)
        rows = [
            {"input_ids": torch.randint(5, 90, (12,), generator=torch.Generator().manual_seed(i)), "labels": i % 3}
            for i in range(32)
        ]
        how = transformers.TrainingArguments(
            output_dir=str(folder),
            max_steps=steps,
            save_steps=4,
            per_device_train_batch_size=4,
            learning_rate=1e-2,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            lr_scheduler_type="constant",
            logging_strategy="no",
        )
        return transformers.Trainer(network, how, train_dataset=rows, callbacks=[projection_callback(basis)])

    whole = trainer(tmp_path / "whole", 8)
    start = whole.model.get_input_embeddings().weight.detach().clone()
    whole.train()
    trained = whole.model.get_input_embeddings().weight.detach()
    assert not torch.equal(trained, start)
    for folder in ("checkpoint-4", "checkpoint-8"):
        kept = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "whole" / folder)
        assert np.abs(input_embeddings(kept) @ basis).max() < 1e-6
    resumed = trainer(tmp_path / "resumed", 8)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert torch.equal(resumed.model.get_input_embeddings().weight, trained)


def test_checkpoints_of_a_masked_lm_that_trains_on_keep_its_output_layer(tmp_path):
    """Whatever a Trainer saves of an untied network comes back whole: its decoder's weights and bias were trained."""
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    basis = random_bases(16, 1, 1)[0]
    network = make_network("bert")
    project_network(network, basis)
    start = network.cls.predictions.decoder.bias.detach().clone()
    how = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        save_steps=4,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
    )
    rows = [{"input_ids": IDS[0], "labels": IDS[0]} for _ in range(16)]
    transformers.Trainer(network, how, train_dataset=rows, callbacks=[projection_callback(basis)]).train()
    assert not torch.equal(network.cls.predictions.decoder.bias, start)
    again, info = type(network).from_pretrained(tmp_path / "checkpoint-4", output_loading_info=True)
    assert not info["missing_keys"]
    assert all(torch.equal(p, parameters(again)[name]) for name, p in parameters(network).items())


def test_training_refuses_a_tied_network():
    callback = projection_callback(random_bases(16)[0])
    with pytest.raises(ModelError, match="apply project_network before training"):
        callback.on_train_begin(None, None, None, model=make_network("bert"))


# Hidden layers


@pytest.mark.parametrize("kind", ENCODERS)
def test_each_layer_is_projected_where_the_next_one_reads_it(kind, tiny_model):
    model = tiny_model(kind)
    bases = layer_bases(model, pairs=HE_SHE)
    before = logits(model.backend.network)
    hooked = project_layers(model, bases)
    last = max(bases)
    for layer, basis in bases.items():
        own = vectors_of(model, ["he", "she"], where=layer) @ basis[:, 0]
        assert own[0] - own[1] > 1e-3, "the direction points to he"
        alone = project_layers(model, {layer: basis})
        for mitigated in (hooked, alone):
            read = vectors_of(mitigated, ["he", "she", "the"], where=layer)
            assert np.abs(read @ basis).max() < 1e-5
        if layer < last:
            above = vectors_of(model, ["nurse"], where=layer + 1)
            assert not np.allclose(vectors_of(alone, ["nurse"], where=layer + 1), above, atol=1e-5)
    assert not torch.allclose(logits(hooked.backend.network), before)
    assert torch.equal(logits(model.backend.network), before), "the model that was given scores as before"
    assert hooked.fingerprint not in (None, model.fingerprint)
    weights = [network.get_input_embeddings().weight for network in (hooked.backend.network, model.backend.network)]
    assert weights[0] is weights[1], "no second copy of the weights"


def test_a_projected_layer_is_the_projection_of_that_layer(tiny_model):
    """By hand: BERT's last layer, whose output the head reads."""
    model = tiny_model("bert")
    basis = random_bases(16, 3, 1, seed=2)[0]
    network = model.backend.network
    with torch.no_grad():
        hidden = network.bert(input_ids=IDS).last_hidden_state
        expected = network.cls(torch.as_tensor(project(hidden.numpy(), basis)))
    hooked = project_layers(model, {2: basis})
    torch.testing.assert_close(logits(hooked.backend.network), expected, atol=1e-5, rtol=1e-5)


def test_hooks_let_gradients_through():
    network = make_network("albert")
    before = logits(network)
    project_hidden_layers(network, {layer: random_bases(16, 1, 1, seed=layer)[0] for layer in (0, 2)})
    assert not torch.allclose(logits(network), before)
    network(input_ids=IDS, labels=IDS).loss.backward()
    assert network.get_input_embeddings().weight.grad.abs().sum() > 0


def test_layers_are_chosen_by_name_or_number(tiny_model):
    model = tiny_model("modernbert")
    assert list(layer_bases(model, "all", pairs=HE_SHE)) == [0, 1, 2, 3]
    assert list(layer_bases(model, "upper", words=["nurse", "he", "she", "king"], components=2)) == [1, 2, 3]
    for wrong in ("some", [7], [], [True]):
        with pytest.raises(SettingError, match="should be 'all', 'upper' or numbers from 0 to 3"):
            layer_bases(model, wrong, pairs=HE_SHE)
    with pytest.raises(ModelError, match="there is no layer 9"):
        project_layers(model, {9: random_bases(16)[0]})
    with pytest.raises(SettingError, match="shape"):
        project_layers(model, {1: random_bases(8)[0]})


def test_a_word_of_several_pieces_has_their_mean(tiny_model):
    model = tiny_model("gpt2")
    ids = model.backend.tokenizer(" xylophonist")["input_ids"]
    ids = ids[1:] if model.backend.tokenizer.decode(ids[:1]) == " " else ids  # a lone space is no piece of the word
    assert len(ids) > 1
    rows = input_embeddings(model.backend.network)[ids]
    np.testing.assert_allclose(vectors_of(model, ["xylophonist"])[0], rows.mean(axis=0), atol=1e-6)


def test_suites_measure_projected_models_and_caches_keep_them_apart(tiny_model, tmp_path):
    model = tiny_model("bert")
    bases = layer_bases(model, "upper", pairs=HE_SHE)
    mitigated = [model, project_embeddings(model, learn_basis(model, pairs=HE_SHE)), project_layers(model, bases)]
    fresh = [measure("lm-occupation", one, limit=6, cache=None).values for one in mitigated]
    for _ in range(2):
        kept = [measure("lm-occupation", one, limit=6, cache=tmp_path).values for one in mitigated]
        assert kept == fresh
    assert len({str(values) for values in fresh}) == 3
    signature = measure("lm-occupation", mitigated[2], limit=6, cache=None).signature["model"]
    assert '"method": "projection"' in signature["mitigation"]


# Real models


def test_the_real_masked_lm_round_trips_bit_for_bit(shared_data, tmp_path):
    base = load_model(str(shared_data / "models" / "bert-tiny-mlm"), device="cpu")
    mitigated = project_embeddings(base, learn_basis(base, pairs=HE_SHE))
    loaded = load_model(str(save_model(mitigated, tmp_path / "out")), device="cpu")
    ids = torch.tensor([base.backend.tokenizer("The nurse said that [MASK] was tired.")["input_ids"]])
    assert torch.equal(logits(loaded.backend.network, ids), logits(mitigated.backend.network, ids))
    assert loaded.fingerprint == mitigated.fingerprint
    decoder = "cls.predictions.decoder.bias"
    assert torch.equal(parameters(loaded.backend.network)[decoder], parameters(base.backend.network)[decoder])


def test_a_sentence_encoder_keeps_its_pooling(checkpoint, tmp_path):
    folder = tmp_path / "encoder"
    transformers.AutoModel.from_pretrained(checkpoint("bert")).save_pretrained(folder)
    tokenizer("bert").save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 24}')
    base = load_model(str(folder), device="cpu")
    mitigated = project_embeddings(base, learn_basis(base, pairs=HE_SHE))
    loaded = load_model(str(save_model(mitigated, tmp_path / "out")), device="cpu")
    assert loaded.backend.pooling == "mean" and loaded.backend.max_length == 24
    assert loaded.fingerprint == mitigated.fingerprint


def test_the_table_of_vectors_of_a_checkpoint_is_its_input(checkpoint, tmp_path):
    folder = save_checkpoint("albert", tmp_path / "albert")
    model = load_model(str(folder), device="cpu")
    assert learn_basis(model, pairs=HE_SHE).shape == (8, 1), "the factorised matrix, not the hidden size"
