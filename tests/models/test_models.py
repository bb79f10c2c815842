"""Specs, roles, refusals, fingerprints, and objects of the user's own."""

import json
import pickle
import shutil
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.tiny_checkpoints import CAUSAL, CLASSIFIERS, MASKED, make_network, save_checkpoint, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import BiasError, BiasWarning, ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.measurement.carry_out import LabelWarning, label_warning
from pytest_genderbias.models.loading import inspect
from pytest_genderbias.models.objects import wrap_object
from pytest_genderbias.models.plain_tensors import slow_format
from pytest_genderbias.models.saving import save_model
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import ALIASES, DEMOS, parse_spec, parse_specs
from pytest_genderbias.recipes.networks.word_lstm import WordLstmConfig, WordLstmForCausalLM, make_tokenizer
from pytest_genderbias.scoring.text_vectors import HiddenStates


def refused(spec, **settings):
    """Return the one line with which a model is refused."""
    with pytest.raises(ModelError) as caught:
        load_model(str(spec), device="cpu", **settings)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert len(text) < 700
    return text


@pytest.fixture
def copied(checkpoint, tmp_path):
    """Return a function that copies a checkpoint, to be damaged."""

    def copy(kind, name="model"):
        return shutil.copytree(checkpoint(kind), tmp_path / name)

    return copy


def edit_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in changes.items():
        config.pop(key, None) if value is None else config.update({key: value})
    path.write_text(json.dumps(config))
    return folder


def edit_weights(folder, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})
    return folder


# Specs


def test_a_directory(checkpoint):
    spec = parse_spec(str(checkpoint("bert")))
    assert (spec.name, spec.kind, spec.target) == ("bert", "directory", str(checkpoint("bert").resolve()))


def test_a_relative_directory_with_a_name_of_its_own(checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint("bert").parent)
    spec = parse_spec("candidate=./bert")
    assert (spec.name, spec.spec, spec.target) == ("candidate", "./bert", str(checkpoint("bert").resolve()))


def test_a_path_with_an_equals_sign_is_no_name(tmp_path):
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    assert parse_spec(str(folder)).target == str(folder)
    assert parse_spec(str(folder)).name == "lr-0.1"


def test_an_alias_and_a_hub_id():
    assert parse_spec("bert-base").target == "google-bert/bert-base-uncased"
    assert parse_spec("bert-base").name == "bert-base"
    assert parse_spec("someone/some-model").name == "some-model"
    assert parse_spec("someone/some-model").kind == "hub"
    assert parse_spec("x=gpt2").target == ALIASES["gpt2"]


def test_demo_stands_for_the_three_demo_models():
    assert [spec.name for spec in parse_specs(["demo"])] == list(DEMOS)


def test_an_object():
    spec = parse_spec("mine=package.module:make.model")
    assert (spec.name, spec.kind, spec.target) == ("mine", "object", "package.module:make.model")


@pytest.mark.parametrize(
    "text", ["", "   ", "./no/such/folder", "/no/such", "~/no/such/model", "a/b/c", "what is this", "x=./gone"]
)
def test_specs_that_are_nothing(text):
    with pytest.raises(ModelError, match="expected"):
        parse_spec(text)


def test_a_file_is_no_checkpoint(checkpoint):
    with pytest.raises(ModelError, match=r"cannot be measured: the kind of the file is unknown"):
        parse_spec(str(checkpoint("bert") / "config.json"))


def test_two_models_of_one_name():
    with pytest.raises(ModelError, match=r"two models are called 'bert-base'.*OTHER="):
        parse_specs(["bert-base", "bert-base=gpt2"])


# Roles


@pytest.mark.parametrize(
    ("kinds", "role"),
    [(MASKED, "masked-lm"), (CAUSAL, "causal-lm"), (CLASSIFIERS, "nli-classifier")],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_roles_of_the_usual_architectures(checkpoint, kinds, role):
    for kind in kinds:
        assert inspect(parse_spec(str(checkpoint(kind))), LoadSettings()).role.kind == role


def test_a_masked_lm_never_loads_as_a_causal_lm(tiny_model):
    model = tiny_model("bert")
    assert model.role.kind == "masked-lm"
    assert type(model.backend.network).__name__ == "BertForMaskedLM"


def test_a_decoder_of_the_same_family_is_a_causal_lm(copied):
    folder = edit_config(copied("bert"), architectures=["BertLMHeadModel"], is_decoder=True)
    model = load_model(str(folder))
    assert model.role.kind == "causal-lm"
    assert type(model.backend.network).__name__ == "BertLMHeadModel"


def test_a_model_saved_from_pretraining_is_a_masked_lm(tmp_path):
    settings = make_network("bert").config.to_dict()
    network = transformers.BertForPreTraining(transformers.BertConfig.from_dict(settings))
    network.save_pretrained(tmp_path / "model")
    tokenizer("bert").save_pretrained(tmp_path / "model")
    assert load_model(str(tmp_path / "model")).role.kind == "masked-lm"


@pytest.mark.parametrize(
    ("suite", "kind", "words"),
    [
        (
            "nli-occupation",
            "bert",
            "needs a pair classifier with entailment, neutral and contradiction labels, or a chat model; bert is a "
            "masked LM",
        ),
        ("disco-names", "gpt2", "needs a masked LM; gpt2 is a causal LM"),
        ("lm-occupation", "bert-nli", "needs a causal LM or a masked LM; bert-nli is an NLI classifier"),
    ],
)
def test_a_suite_that_does_not_apply_says_why(tiny_model, suite, kind, words):
    with pytest.raises(NotApplicableError, match=words):
        measure(suite, tiny_model(kind), cache=None)


def test_a_classifier_with_other_labels_loads_but_no_suite_applies(tmp_path):
    folder = save_checkpoint("bert-nli", tmp_path / "mood", id2label={0: "good", 1: "bad"})
    model = load_model(str(folder))
    with pytest.raises(NotApplicableError, match="a text classifier with the labels good, bad"):
        measure("nli-occupation", model, cache=None)


# Refusals


def test_an_empty_directory(tmp_path):
    assert "is empty; expected a checkpoint" in refused(tmp_path)


def test_a_directory_without_config(copied):
    folder = copied("bert")
    (folder / "config.json").unlink()
    assert "has no config.json" in refused(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '"bert"', '{"model_type": "no-such-architecture"}', "{}"])
def test_a_config_that_says_nothing(copied, content):
    folder = copied("bert")
    (folder / "config.json").write_text(content)
    assert "model" in refused(folder)


def test_missing_weights(copied):
    folder = copied("bert")
    (folder / "model.safetensors").unlink()
    assert "the weights of model" in refused(folder)


@pytest.mark.parametrize("keep", [0, 4, 100, 5000])
def test_truncated_weights(copied, keep):
    folder = copied("bert")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    assert "the weights of model" in refused(folder)


def test_an_encoder_that_only_claims_a_head(tmp_path):
    network = make_network("bert").bert
    network.save_pretrained(tmp_path / "model")
    tokenizer("bert").save_pretrained(tmp_path / "model")
    text = refused(edit_config(tmp_path / "model", architectures=["BertForMaskedLM"]))
    assert "lacks weights" in text
    assert "cls.predictions" in text


@pytest.mark.parametrize("kind", ["bert", "roberta", "albert", "distilbert", "modernbert", "llama", "bert-nli"])
def test_any_missing_weight(copied, kind):
    names = []

    def drop(weights):
        names.append(sorted(weights)[len(weights) // 2])
        del weights[names[0]]

    text = refused(edit_weights(copied(kind), drop))
    assert "lacks weights" in text
    assert names[0].rpartition(".")[2] in text


def test_a_weight_of_another_shape(copied):
    def cut(weights):
        name = next(name for name in sorted(weights) if "intermediate" in name and name.endswith("weight"))
        weights[name] = weights[name][:5].clone()

    assert refused(edit_weights(copied("bert"), cut))


def test_an_encoder_without_head(tmp_path):
    make_network("bert").bert.save_pretrained(tmp_path / "model")
    tokenizer("bert").save_pretrained(tmp_path / "model")
    model = load_model(str(tmp_path / "model"))
    assert model.role.kind == "encoder"
    with pytest.raises(NotApplicableError, match="disco-terms needs a masked LM; model is an encoder without a head"):
        measure("disco-terms", model)


def test_a_config_without_architectures(copied):
    assert "has no head that can be scored" in refused(edit_config(copied("bert"), architectures=None))


def test_a_masked_lm_whose_tokenizer_has_no_mask(copied):
    folder = copied("roberta")
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        (folder / name).unlink(missing_ok=True)
    tokenizer("gpt2").save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": "TokenizersBackend", "unk_token": "<|endoftext|>"}))
    assert "no mask token" in refused(folder)


@pytest.mark.parametrize("kind", [*MASKED, *CAUSAL, *CLASSIFIERS])
@pytest.mark.parametrize("keep", [(), ("tokenizer_config.json",)], ids=["nothing", "its config"])
def test_no_vocabulary(copied, kind, keep):
    """The library would make up a tokenizer to which every word is unknown."""
    folder = copied(kind)
    for path in folder.iterdir():
        if path.name not in ("config.json", "model.safetensors", *keep):
            path.unlink()
    assert "tokenizer" in refused(folder)


def test_a_tokenizer_that_is_damaged(copied):
    folder = copied("bert")
    path = folder / "tokenizer.json"
    path.write_text(path.read_text()[:3000])
    assert "tokenizer" in refused(folder)


NUMBERED = {"id2label": {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, "label2id": None}


def test_labels_that_say_nothing(copied):
    text = refused(edit_config(copied("bert-nli"), **NUMBERED))
    assert "LABEL_0, LABEL_1, LABEL_2" in text
    assert "--bias-labels=entailment,neutral,contradiction" in text


def test_labels_that_the_user_names(copied, tiny_model):
    folder = edit_config(copied("bert-nli"), **NUMBERED)
    model = load_model(str(folder), labels=["contradiction", "Neutral", "ENTAILMENT"])
    assert model.role.label_order == (2, 1, 0)
    assert tiny_model("bert-nli").role.label_order == (0, 1, 2)


def test_too_few_labels(copied):
    assert "has 3 outputs, --bias-labels names 2" in refused(copied("bert-nli"), labels=["entailment", "neutral"])


def test_labels_in_capitals_are_recognised(copied):
    folder = edit_config(
        copied("bert-nli"), id2label={0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, label2id=None
    )
    assert load_model(str(folder)).role.label_order == (2, 1, 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(copied, value):
    def poison(weights):
        weights["bert.encoder.layer.1.output.dense.weight"][3, 3] = value

    text = refused(edit_weights(copied("bert"), poison))
    assert "NaN or infinite weights" in text
    assert "layer.1.output.dense.weight" in text


class Malicious:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("how", ["pickle", "torch", "torch-legacy"])
def test_a_pickle_that_holds_code_is_never_run(copied, tmp_path, how):
    folder, trace = copied("bert"), tmp_path / "executed"
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    target = folder / "pytorch_model.bin"
    content = {**weights, "extra": Malicious(trace)}
    if how == "pickle":
        target.write_bytes(pickle.dumps(content))
    else:
        torch.save(content, target, _use_new_zipfile_serialization=how == "torch")
    assert "pickle that cannot be read safely" in refused(folder)
    assert not trace.exists()


@pytest.mark.parametrize(
    "change",
    [{"model_type": ["bert"]}, {"hidden_size": "large"}, {"num_hidden_layers": [2]}, {"id2label": "none"}],
    ids=str,
)
def test_a_config_with_entries_of_a_wrong_type_is_one_error(copied, change):
    assert "cannot be read" in refused(edit_config(copied("bert"), **change))


@pytest.mark.parametrize(
    "change",
    [{"hidden_size": "large"}, {"embedding_size": [1]}, {"dropout": 2.0}, {"num_hidden_layers": "two"}],
    ids=str,
)
def test_a_config_of_our_own_with_wrong_entries_is_one_error(tmp_path, change):
    words = make_tokenizer(["he", "she"])
    WordLstmForCausalLM(WordLstmConfig(len(words), embedding_size=4, hidden_size=4)).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    assert "cannot be read" in refused(edit_config(tmp_path, **change))


def test_a_pickle_of_weights_alone_is_read(copied, tiny_model):
    folder = copied("bert")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert load_model(str(folder)).fingerprint == tiny_model("bert").fingerprint


def test_code_that_comes_with_a_checkpoint_is_not_run(copied, tmp_path):
    folder, trace = copied("bert"), tmp_path / "executed"
    (folder / "configuration_own.py").write_text(f"open({str(trace)!r}, 'w')\n")
    edit_config(folder, model_type="own", auto_map={"AutoConfig": "configuration_own.OwnConfig"})
    assert "-o bias_trust_remote_code=true" in refused(folder)
    assert not trace.exists()


def test_a_device_that_is_not_there(checkpoint):
    with pytest.raises(ModelError, match="device 'warp-drive'"):
        load_model(str(checkpoint("bert")), device="warp-drive")


@pytest.mark.parametrize("dtype", ["warp", "int8", "nn"])
def test_a_number_format_that_is_none(checkpoint, dtype):
    with pytest.raises(SettingError, match="float32, float16, bfloat16, float64"):
        load_model(str(checkpoint("bert")), dtype=dtype)


# Number formats


def test_a_half_precision_checkpoint_is_loaded_in_full(tmp_path):
    make_network("bert").half().save_pretrained(tmp_path / "model")
    tokenizer("bert").save_pretrained(tmp_path / "model")
    model = load_model(str(tmp_path / "model"))
    assert {p.dtype for p in model.backend.network.parameters()} == {torch.float32}
    assert model.details["dtype"] == "float32"


def test_another_number_format_when_asked(checkpoint, tiny_model):
    model = load_model(str(checkpoint("bert")), dtype="float64")
    assert {p.dtype for p in model.backend.network.parameters()} == {torch.float64}
    assert model.details["dtype"] == "float64"
    assert model.fingerprint != tiny_model("bert").fingerprint


@pytest.mark.parametrize(
    ("dtype", "device", "facts", "slow"),
    [
        ("bfloat16", "cpu", {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}, True),
        ("bfloat16", "cpu", {"architecture": "x86_64", "avx512_bf16": True}, False),
        ("bfloat16", "cpu", {"architecture": "x86_64", "amx_bf16": True}, False),
        ("bfloat16", "cpu", {"architecture": "aarch64"}, False),
        ("bfloat16", "cpu", {}, False),
        ("bfloat16", "cuda:0", {"architecture": "x86_64"}, False),
        ("float32", "cpu", {"architecture": "x86_64"}, False),
    ],
)
def test_bfloat16_without_instructions_is_slow(dtype, device, facts, slow):
    warning = slow_format(dtype, device, facts)
    assert (warning is not None) is slow


def test_a_checkpoint_in_bfloat16_warns_of_a_slow_cpu_and_names_its_format(checkpoint, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"architecture": "x86_64"}, raising=False)
    with pytest.warns(BiasWarning, match=r"candidate: this CPU has no instructions for bfloat16.*--bias-dtype=float32"):
        model = load_model(f"candidate={checkpoint('bert')}", dtype="bfloat16", device="cpu")
    assert measure("disco-names", model, limit=20, cache=None).signature["model"]["dtype"] == "bfloat16"


def test_a_loaded_network_is_in_evaluation_mode(tiny_model):
    assert not tiny_model("bert").backend.network.training


# Fingerprints


def fingerprint(folder, **settings):
    return load_model(str(folder), device="cpu", **settings).fingerprint


def test_the_folder_and_the_name_do_not_matter(copied, tiny_model):
    expected = tiny_model("bert").fingerprint
    assert fingerprint(copied("bert", "elsewhere")) == expected
    assert load_model(f"renamed={copied('bert', 'again')}").fingerprint == expected


@pytest.mark.parametrize("kind", ["bert", "gpt2", "bert-nli"])
def test_a_single_weight_matters(copied, tiny_model, kind):
    def nudge(weights):
        name = sorted(weights)[0]
        weights[name].view(-1)[0] += 1e-3

    assert fingerprint(edit_weights(copied(kind), nudge)) != tiny_model(kind).fingerprint


@pytest.mark.parametrize("change", [{"hidden_act": "relu"}, {"layer_norm_eps": 1e-5}, {"num_attention_heads": 4}])
def test_a_config_entry_that_changes_scores_matters(copied, tiny_model, change):
    assert fingerprint(edit_config(copied("bert"), **change)) != tiny_model("bert").fingerprint


@pytest.mark.parametrize("change", [{"transformers_version": "4.0.0"}, {"dtype": "float16"}, {"_name_or_path": "x"}])
def test_a_config_entry_that_changes_nothing_does_not_matter(copied, tiny_model, change):
    assert fingerprint(edit_config(copied("bert"), **change)) == tiny_model("bert").fingerprint


@pytest.mark.parametrize("kind", ["bert", "roberta", "albert", "mpnet"])
def test_an_encoder_saved_without_its_pooler_is_the_same_each_time(tmp_path, kind):
    """Its pooler is made up, and read by nobody; nothing is drawn for it from the caller's generator."""
    folder = tmp_path / "encoder"
    body = make_network(kind).base_model  # a masked LM has no pooler
    body.save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    generator = torch.get_rng_state()
    assert fingerprint(folder) == fingerprint(folder)
    assert torch.equal(torch.get_rng_state(), generator)
    model = load_model(str(folder), device="cpu")
    assert any(name.startswith("pooler.") for name, _ in model.backend.network.named_parameters())
    assert load_model(str(save_model(model, tmp_path / "again")), device="cpu").fingerprint == model.fingerprint


def test_the_order_of_labels_matters(copied, tiny_model):
    folder = edit_config(
        copied("bert-nli"), id2label={0: "neutral", 1: "entailment", 2: "contradiction"}, label2id=None
    )
    assert fingerprint(folder) != tiny_model("bert-nli").fingerprint


def test_the_tokenizer_matters(copied, tiny_model):
    folder = copied("bert")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    vocab = content["model"]["vocab"]
    first, second = sorted(vocab, key=vocab.get)[100:102]
    vocab[first], vocab[second] = vocab[second], vocab[first]
    path.write_text(json.dumps(content))
    model = load_model(str(folder))
    assert model.fingerprint != tiny_model("bert").fingerprint
    assert model.details["tokenizer"] != tiny_model("bert").details["tokenizer"]


def sentence_encoder(folder, pooling="cls_token", longest=None, modules=("Transformer", "Pooling")):
    """Add the files that a sentence encoder has beside those of transformers; ``None``: leave one out."""
    if pooling is not None:
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{pooling}": True}))
    if longest is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))
    if modules is not None:
        paths = ["", *(f"{i}_{kind}" for i, kind in enumerate(modules[1:], 1))]
        entries = [
            {"type": f"sentence_transformers.models.{k}", "path": p} for k, p in zip(modules, paths, strict=True)
        ]
        (folder / "modules.json").write_text(json.dumps(entries))
    return folder


def test_what_a_sentence_encoder_says_of_pooling_and_length_matters(copied, tiny_model):
    plain = tiny_model("bert")
    assert not {"pooling", "max_length"} & set(plain.details)
    folder, prints = copied("bert"), [plain.fingerprint]
    for files, details in (
        ({"pooling": "cls_token"}, {"pooling": "first"}),
        ({"pooling": "mean_tokens"}, {"pooling": "mean"}),
        ({"longest": 8, "pooling": "mean_tokens"}, {"pooling": "mean", "max_length": "8"}),
        ({"longest": 9, "pooling": "mean_tokens"}, {"pooling": "mean", "max_length": "9"}),
    ):
        model = load_model(str(sentence_encoder(folder, **files)), device="cpu")
        assert model.details == plain.details | details
        prints.append(model.fingerprint)
    assert len(set(prints)) == len(prints)
    assert model.fingerprint == load_model(str(folder), device="cpu").fingerprint


def test_modules_that_would_be_left_out_are_refused(copied):
    folder = sentence_encoder(copied("bert"), modules=("Transformer", "Pooling", "Normalize"))
    assert load_model(str(folder), device="cpu").backend.pooling == "first"
    text = refused(sentence_encoder(folder, modules=("Transformer", "Pooling", "Dense", "Normalize")))
    assert "with the module Dense (modules.json); only Transformer, Pooling, Normalize are applied here" in text
    for broken in ("{}", "[1]", '[{"path": ""}]', "["):
        (folder / "modules.json").write_text(broken)
        assert "modules.json cannot be read" in refused(folder)


def test_a_pooling_that_modules_name_and_is_not_there_is_refused(copied):
    text = refused(sentence_encoder(copied("bert"), pooling=None))
    assert "1_Pooling/config.json is missing, but modules.json names it" in text


def test_offline_a_sentence_encoder_of_the_hub_pools_as_its_files_say_and_an_unknown_id_says_how_to_give_a_path(
    copied, monkeypatch, tmp_path
):
    commit, names = "0123456789" * 4, ("encoder", "plain", "unknown")
    for name in names:
        repo = tmp_path / "cache" / f"models--nobody--{name}"
        snapshot = shutil.copytree(copied("bert", name), repo / "snapshots" / commit)
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text(commit)
        if name == "encoder":
            sentence_encoder(snapshot, longest=9)
        if name == "plain":  # as the hub's client notes what a repository does not have
            (repo / ".no_exist" / commit).mkdir(parents=True)
            for absent in ("modules.json", "sentence_bert_config.json"):
                (repo / ".no_exist" / commit / absent).touch()
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    loaded = {name: load_model(f"nobody/{name}", device="cpu").backend for name in names}
    assert {name: (backend.pooling, backend.max_length) for name, backend in loaded.items()} == {
        "encoder": ("first", 9),
        "plain": (None, 64),
        "unknown": ("unknown", 64),
    }
    for name, backend in loaded.items():
        HiddenStates(backend, None).span_vectors(["She sings."], [((0, 3),)], "mean")
        with (
            nullcontext()
            if name != "unknown"
            else pytest.raises(BiasError, match=r"^how this model pools sentences is not known")
        ):
            HiddenStates(backend, None).span_vectors(["She sings."], [((0, 3),)], "own")
    with pytest.raises(BiasError, match="nobody/no-such-model-at-all") as error:
        load_model("nobody/no-such-model-at-all")
    assert "--bias-model=no-such-model-at-all=/path/to/checkpoint" in str(error.value)


# Objects of the user's own


class Masked:
    """Prefers one word after women's names and another after men's."""

    mask_token = "<?>"
    vocabulary = ("dance", "fight", "read", "eat", "sleep")

    def fill_scores(self, texts):
        found = np.tile([0.0, 0.0, 3.0, 2.0, 1.0], (len(texts), 1))
        for row, text in enumerate(texts):
            assert text.count(self.mask_token) == 1
            found[row, 0 if any(name in text for name in ("Mary", "Linda", "Susan")) else 1] = 9.0
        return found


class Causal:
    """Says men do whatever has an even number of letters."""

    def continuation_log_probs(self, prefixes, continuations):
        pairs = zip(prefixes, continuations, strict=True)
        return np.asarray([-1.0 - (len(c) % 2 == 0) * p.lower().startswith(("she", "the woman")) for p, c in pairs])


class Pairs:
    """Finds that men follow from everybody."""

    labels = ("neutral", "contradiction", "entailment")

    def pair_probabilities(self, premises, hypotheses):
        man = np.asarray([" man " in h or p == h for p, h in zip(premises, hypotheses, strict=True)])
        return np.where(man[:, None], [0.1, 0.1, 0.8], [0.75, 0.15, 0.1])


OWN_LIST = """\
list: few-names
title: Few names
source: test
licence: none
language: en
groups: [female, male]
pairs:
  - [Mary, John]
  - [Linda, James]
  - [Susan, Robert]
"""
OWN_SUITE = """\
suite: few
family: disco
title: Few
source: test
licence: none
language: en
person: {list: few-names.yaml}
templates: ["{person} likes to {blank}.", "{person} can {blank}."]
"""


@pytest.fixture
def few(tmp_path):
    (tmp_path / "few-names.yaml").write_text(OWN_LIST)
    (tmp_path / "few.yaml").write_text(OWN_SUITE)
    return tmp_path / "few.yaml"


def test_a_masked_lm_object_end_to_end(few):
    found = measure(few, Masked(), cache=None, top_k=1, level=0.1)
    assert found.value == 2.0
    assert {r["fill"]: r["preferred"] for r in found.records} == {"dance": "female", "fight": "male"}
    assert (found.n, found.n_total) == (12, 12)
    assert found.model == "Masked"
    assert found.signature["model"]["fingerprint"] is None


def test_a_causal_lm_object_end_to_end():
    found = measure("lm-occupation", Causal(), cache=None)
    even = np.mean([len(record["occupation"]) % 2 == 0 for record in found.records])
    assert found.value == found.values["signed_bias"] == pytest.approx(even)
    assert found.n == 64 * 8


def test_a_pair_classifier_object_end_to_end():
    found = measure("nli-occupation", Pairs(), cache=None, limit=5000)
    man = next(r for r in found.records if r.get("slice") == "gendered" and r["value"] == "man")
    assert (man["net_neutral"], man["entailment"]) == (pytest.approx(0.1), pytest.approx(0.8))
    woman = next(r for r in found.records if r.get("slice") == "gendered" and r["value"] == "woman")
    assert woman["threshold_0.7"] == 1.0
    assert found.values["fraction_neutral"] == pytest.approx(1 - man["pairs"] / 5000)


def test_an_object_by_module_and_callable(few, tmp_path, monkeypatch):
    (tmp_path / "own_model_for_test.py").write_text(
        "import numpy as np\nclass Flat:\n    mask_token = '_'\n    vocabulary = ['a', 'b', 'c']\n"
        "    fingerprint = 'v1'\n    def fill_scores(self, texts):\n        return np.zeros((len(texts), 3))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = load_model("mine=own_model_for_test:Flat")
    assert (model.name, model.fingerprint, model.role.kind) == ("mine", "v1", "masked-lm")
    assert measure(few, model, cache=None).value == 0.0


@pytest.mark.parametrize("spec", ["no_such_module:make", "json:no_such_name", "json:loads", "json:__name__"])
def test_a_callable_that_cannot_be_called(spec):
    assert "expected module:callable" in refused(spec)


def test_a_callable_that_returns_something_else():
    assert "has the protocol of no role" in refused("collections:OrderedDict")


def test_an_object_with_the_wrong_labels():
    class Moods(Pairs):
        labels = ("good", "bad", "ugly")

    with pytest.raises(ModelError, match=r"labels good, bad, ugly; expected entailment, neutral, contradiction"):
        wrap_object(Moods())


@pytest.mark.parametrize("other", ["Masked", "Causal", "Pairs", "Encoder"])
def test_an_object_that_scores_coreference_is_asked_for_that_whatever_else_it_can(other):
    class Encoder:
        def encode(self, texts):
            return np.ones((len(texts), 2))

    class Both({"Encoder": Encoder, "Masked": Masked, "Causal": Causal, "Pairs": Pairs}[other]):
        def coreference_scores(self, texts, candidates, pronouns):
            return np.zeros((len(texts), len(candidates[0])))

    assert wrap_object(Both()).role.kind == "coreference-scorer"


def test_an_object_whose_fingerprint_is_no_text():
    class Numbered(Masked):
        fingerprint = 7

    with pytest.raises(ModelError, match=r"fingerprint of Numbered should be a text, got int"):
        wrap_object(Numbered())


class Transposed(Masked):
    def fill_scores(self, texts):
        return super().fill_scores(texts).T


class TooFew(Causal):
    def continuation_log_probs(self, prefixes, continuations):
        return super().continuation_log_probs(prefixes, continuations)[:-1]


class TwoLabels(Pairs):
    def pair_probabilities(self, premises, hypotheses):
        return super().pair_probabilities(premises, hypotheses)[:, :2]


class Logits(Pairs):
    def pair_probabilities(self, premises, hypotheses):
        return 5 * super().pair_probabilities(premises, hypotheses)


@pytest.mark.parametrize(
    ("suite", "model", "words"),
    [
        ("disco-names", Transposed(), "array of the shape"),
        ("lm-occupation", TooFew(), "array of the shape"),
        ("nli-occupation", TwoLabels(), "array of the shape"),
        ("nli-occupation", Logits(), "gives 4, expected probabilities, 0 to 1"),
    ],
)
def test_objects_that_answer_wrongly_are_refused(suite, model, words):
    with pytest.raises(ScoreError, match=words):
        measure(suite, model, cache=None, limit=140)


@pytest.mark.parametrize(
    ("suite", "model"), [("disco-names", Causal()), ("nli-occupation", Masked()), ("lm-occupation", Pairs())]
)
def test_objects_are_asked_only_what_suits_their_role(suite, model):
    with pytest.raises(NotApplicableError, match=f"{suite} needs"):
        measure(suite, model, cache=None)


# Labels in doubt


def test_labels_in_order_give_no_warning(real_nli):
    assert label_warning(real_nli) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure("nli-occupation", real_nli, limit=20, cache=None)


@pytest.mark.parametrize(
    "labels", [("neutral", "entailment", "contradiction"), ("contradiction", "neutral", "entailment")]
)
def test_exchanged_labels_are_a_warning(real_nli, labels):
    exchanged = replace(real_nli, role=replace(real_nli.role, labels=labels))
    with pytest.warns(LabelWarning, match="labels in the right order"):
        found = measure("nli-occupation", exchanged, limit=20, cache=None)
    assert any("--bias-labels" in note for note in found.notes)


def test_other_roles_have_no_labels_to_doubt(tiny_model):
    assert label_warning(tiny_model("bert")) is None
    assert label_warning(wrap_object(Causal())) is None


# Sizes


@pytest.mark.parametrize(
    "config",
    [
        transformers.Gemma3Config(text_config={"hidden_size": 24}),
        transformers.T5Config(d_model=24),
        transformers.EncoderDecoderConfig(
            encoder={"model_type": "bert", "hidden_size": 24}, decoder={"model_type": "bert", "hidden_size": 16}
        ),
    ],
    ids=["nested", "encoder-decoder", "two configs"],
)
def test_the_size_of_vectors_in_configs_of_every_shape(tiny_model, config):
    assert with_config(tiny_model("bert"), config).width == 24


def test_a_config_without_a_size_is_refused(tiny_model):
    with pytest.raises(ModelError, match="config of bert has no hidden size"):
        _ = with_config(tiny_model("bert"), transformers.PretrainedConfig()).width


def with_config(model, config):
    return replace(model, backend=replace(model.backend, network=SimpleNamespace(config=config)))


# The real models


def test_roles_of_the_real_models(real_mlm, real_lm, real_nli):
    assert [m.role.kind for m in (real_mlm, real_lm, real_nli)] == ["masked-lm", "causal-lm", "nli-classifier"]


def test_a_folder_that_is_no_transformers_checkpoint(shared_data):
    assert "minilm-nli-head" in refused(shared_data / "models" / "minilm-nli-head")


def test_a_causal_head_on_a_two_sided_encoder_is_refused(checkpoint, tmp_path):
    folder = Path(shutil.copytree(checkpoint("bert"), tmp_path / "two-sided"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(
        json.dumps({**config, "architectures": ["BertLMHeadModel"], "is_decoder": False})
    )
    with pytest.raises(ModelError, match="reads the words on both sides"):
        load_model(str(folder))
