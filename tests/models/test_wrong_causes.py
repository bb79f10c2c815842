"""Checkpoints that cannot be measured are refused with the cause, and those whose labels or head are written otherwise
are read.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from support.tiny_checkpoints import CAUSAL, make_network, save_checkpoint, tokenizer

from pytest_genderbias import measure
from pytest_genderbias.errors import DataFileError, ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.loading import inspect, load_model
from pytest_genderbias.models.objects import wrap
from pytest_genderbias.models.predictions import read_predictions
from pytest_genderbias.models.roles import NLI_CLASSIFIER, NLI_LABELS, classifier_role, label_advice
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import ALIASES, HEADS, parse_spec
from pytest_genderbias.models.vectors import read_vectors
from pytest_genderbias.text.plain_files import read_whole

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 440449768\n"


@pytest.fixture
def folder(tmp_path):
    return save_checkpoint("bert", tmp_path / "tiny")


def refused(folder, **settings):
    with pytest.raises(ModelError) as error:
        load_model(folder, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


def edit(folder, **entries):
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **entries}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


# Pointers of Git LFS


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "vocab.txt", "1_Pooling/config.json"]
)
def test_a_pointer_in_the_place_of_any_file_of_a_checkpoint_is_named(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(POINTER)
    assert refused(folder) == f"{folder / name} is a Git LFS pointer, not the file itself; fetch the file: git lfs pull"


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "onnx/model.onnx", "tf_model.h5", "figure.png", "eval/scores.csv"]
)
def test_a_pointer_in_the_place_of_a_file_that_is_not_read_is_no_fault(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(POINTER)
    load_model(folder)


def test_a_shard_that_was_not_fetched_is_named(folder):
    (folder / "model-00002-of-00002.safetensors").write_text(POINTER)
    assert "model-00002-of-00002.safetensors is a Git LFS pointer" in refused(folder)


@pytest.mark.parametrize("name", ["m.gguf", "m.onnx", "m.vec", "m.npz", "m.csv", "m.jsonl", "m.parquet"])
def test_a_pointer_in_the_place_of_a_model_that_is_one_file_is_named(tmp_path, name):
    (tmp_path / name).write_text(POINTER)
    assert "is a Git LFS pointer" in refused(tmp_path / name)


@pytest.mark.parametrize("read", [read_vectors, read_predictions, lambda path: read_whole(path, 1 << 20)])
def test_a_pointer_in_the_place_of_data_is_named(tmp_path, read):
    for name in ("data.vec", "data.npy") if read is read_vectors else ("data.csv", "data.jsonl"):
        (tmp_path / name).write_text(POINTER)
        with pytest.raises((ModelError, DataFileError), match="is a Git LFS pointer"):
            read(tmp_path / name)


# What is no model


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_and_devices_are_not_missing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", "/dev/zero"):
        assert "is neither a file nor a folder, but a device, a pipe or a socket" in refused(place)
        with pytest.raises(DataFileError, match=r"expected a file, got a (pipe|device)"):
            measure("corpus-cooccurrence", f"x=text:{place}", cache=None)


@pytest.mark.parametrize("target", ["/models/bert", Path("bert")])
def test_a_path_that_a_callable_returns_is_no_model(target):
    with pytest.raises(ModelError, match="is no model; expected an object with the methods of one: give a path itself"):
        wrap(target)


def test_demo_models_have_no_revisions():
    with pytest.raises(ModelError, match="demo-lm comes with the package and has no revisions; leave out @v1"):
        load_model("demo-lm@v1")


# Other encodings


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-16", "not UTF-8, but UTF-16"),
        ("utf-32-be", "not UTF-8, but UTF-32BE"),
        ("latin-1", "not UTF-8: byte 0xf6"),
    ],
)
@pytest.mark.parametrize("name", ["words.txt", "words.vec", "answers.jsonl", "answers.csv"])
def test_the_encoding_of_a_model_that_is_one_file_is_named(tmp_path, name, encoding, said):
    (tmp_path / name).write_bytes("wörd 0.1 0.2\n".encode(encoding))
    with pytest.raises((ModelError, DataFileError), match=said):
        measure("weat", load_model(tmp_path / name), cache=None)


# Other weights


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "_fsdp_wrapped_module.", "net._orig_mod."])
def test_weights_of_a_wrapped_network_are_named(folder, prefix):
    weights = load_file(folder / "model.safetensors")
    save_file(
        {prefix + name: tensor for name, tensor in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    assert f"begin with {prefix!r}, which a wrapper of the network adds" in refused(folder)


def test_a_folder_of_a_training_says_which_checkpoint_to_give(folder, tmp_path):
    training = tmp_path / "training"
    for step in (500, 1500, 1000):
        shutil.copytree(folder, training / f"checkpoint-{step}")
    said = refused(training)
    assert said.endswith(f"give {training / 'checkpoint-1500'} (or one of checkpoint-500, checkpoint-1000)")
    shutil.copy(folder / "config.json", training)
    assert f"has no weights of its own, but checkpoints inside; give {training / 'checkpoint-1500'}" in refused(
        training
    )
    load_model(training / "checkpoint-1500")
    shutil.copytree(folder, training, dirs_exist_ok=True)
    load_model(training)


@pytest.mark.parametrize(
    ("name", "library"),
    [
        ("tf_model.h5", "TensorFlow"),
        ("flax_model.msgpack", "Flax"),
        ("bert_model.ckpt.index", "TensorFlow"),
        ("rust_model.ot", "Rust"),
    ],
)
def test_weights_of_another_library_are_named(folder, name, library):
    weights = (folder / "model.safetensors").rename(folder / "aside")
    (folder / name).write_bytes(b"\x89HDF")
    assert f"has its weights for {library} ({name}), which torch does not read" in refused(folder)
    weights.rename(folder / "model.safetensors")
    load_model(folder)


def as_torch(folder, name):
    torch.save({key: tensor.clone() for key, tensor in load_file(folder / "model.safetensors").items()}, folder / name)
    (folder / "model.safetensors").unlink()
    return folder


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.pt", "rename it to pytorch_model.bin; else load it in the code"),
        ("weights.bin", "rename it to pytorch_model.bin"),
        ("epoch=3.ckpt", "rename it to pytorch_model.bin"),
        ("weights.safetensors", "rename it to model.safetensors"),
        ("consolidated.00.pth", "converted for transformers"),
        ("adapter_model.safetensors", "copy its adapter_config.json, too"),
        ("model-00001-of-00002.safetensors", "shards need their index: copy model.safetensors.index.json"),
        ("model.safetensors.part", "its download is not complete"),
        ("pytorch_model.bin.zip", "unpack it"),
        ("weights/model.safetensors", "weights if it is the whole checkpoint"),
    ],
)
def test_weights_under_a_name_that_is_not_read_are_named(folder, name, said):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / "model.safetensors").rename(folder / name)
    (folder / "training_args.bin").write_bytes(b"no weights")
    message = refused(folder)
    assert f"no weights under a name that is read (model.safetensors or pytorch_model.bin), but {name!r}" in message
    assert said in message


def test_weights_that_are_renamed_as_the_advice_says_are_read(folder):
    as_torch(folder, "model.pt")
    refused(folder)
    (folder / "model.pt").rename(folder / "pytorch_model.bin")
    load_model(folder)


def test_a_folder_without_weights_says_so(folder):
    (folder / "model.safetensors").unlink()
    (folder / "optimizer.pt").write_bytes(b"")
    assert "pytorch_model.bin), and no others; copy them" in refused(folder)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty; copy it again"),
        (b"<!DOCTYPE html>" + b"x" * 999, "is an HTML or XML page, which a server sent"),
        (b"PK\x03\x04" + b"x" * 999, "is written by torch.save; rename it to pytorch_model.bin"),
        (b"\x1f\x8b" + b"x" * 99, "is a gzip file; unpack"),
        (b"/annex/objects/SHA256E-s1--1.safetensors\n", "is a pointer of git-annex"),
        (b"# xet version 0\n", "is a pointer of Xet"),
        (b"x" * 999, "it has no header; copy it again"),
    ],
)
def test_weights_that_are_something_else_are_named(folder, content, said):
    (folder / "model.safetensors").write_bytes(content)
    assert f"'model.safetensors' {said}" in refused(folder).replace("is no safetensors file: ", "")


def test_safetensors_under_the_name_of_a_pickle_are_named(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "'pytorch_model.bin' is a safetensors file; rename it to model.safetensors" in refused(folder)


def test_weights_that_were_cut_say_how_much_is_missing(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:20_000])
    assert f"'model.safetensors' is cut: it has 20,000 of {len(whole):,} bytes" in refused(folder)
    path.write_bytes(whole[:100])
    assert "'model.safetensors' is cut: it has 100 of " in refused(folder)


def test_links_to_what_is_not_there_are_named(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../blobs/abc")
    assert "'model.safetensors' is a link to '../blobs/abc', which is not there" in refused(folder)


def test_missing_shards_and_damaged_indexes_are_named(folder):
    network = transformers.BertForMaskedLM.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    network.save_pretrained(folder, max_shard_size="20KB")
    index, shards = folder / "model.safetensors.index.json", sorted(folder.glob("model-*"))
    load_model(folder)
    shards[1].unlink()
    said = f"names {len(shards)} files of weights, and the folder lacks 1: {shards[1].name!r}"
    assert said in refused(folder)
    index.write_text("{}")
    assert "'model.safetensors.index.json' has no weight_map" in refused(folder)


# Configs


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "config.json is empty"),
        (b"[]", "config.json has no entries"),
        (b'{"architectures": []}', "names no model_type"),
        (b'{"model_type": "bert",}', "config.json:1: not valid JSON: "),
        (b'\xef\xbb\xbf{"model_type": "bert"}', "begins with a byte order mark"),
        ('{"model_type": "bert"}'.encode("utf-16"), "config.json:1: not UTF-8, but UTF-16"),
        (b'{"model_type": "bertx"}', "does not know"),
    ],
)
def test_why_a_config_cannot_be_read_is_said(folder, content, said):
    (folder / "config.json").write_bytes(content)
    assert said in refused(folder)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"hidden_act": "gelu_magic"}, "KeyError: 'gelu_magic'"),
        ({"num_attention_heads": 3}, "is not a multiple of the number of attention heads (3)"),
    ],
)
def test_a_config_of_which_no_network_can_be_made_is_named(folder, entry, said):
    message = refused(edit(folder, **entry))
    assert message.startswith("the config's entries of tiny (") and said in message


@pytest.mark.parametrize("kind", ["bert", "qwen2", "modernbert", "t5"])
@pytest.mark.parametrize(
    "entry", [{"num_labels": 10**9}, {"num_hidden_layers": 10**9}, {"text_config": {"num_hidden_layers": 10**9}}]
)
def test_numbers_that_a_config_would_count_up_to_are_one_line(tmp_path, kind, entry):
    config = {"model_type": kind, "architectures": ["BertForMaskedLM"], **entry}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert "expected at most 1000" in refused(tmp_path)


def test_one_architecture_may_stand_outside_a_list(folder):
    edit(folder, architectures="BertForMaskedLM")
    assert load_model(folder).role.kind == "masked-lm"


def test_a_network_without_a_head_that_can_be_scored_is_called_by_its_class():
    made = transformers.BertForQuestionAnswering(make_network("bert").config)
    with pytest.raises(ModelError, match="it is of the class BertForQuestionAnswering; expected"):
        load_model(made, tokenizer=tokenizer("bert"), name="m")


@pytest.mark.parametrize(
    "name", ["bert-base-chinese", "xlnet-base-cased", "xlnet-large-cased", "xlm-roberta-large", "gpt2-xl"]
)
def test_an_old_name_of_the_hub_is_no_misspelt_alias(name):
    assert parse_spec(name).target == name


# Labels


@pytest.fixture
def nli(tmp_path):
    return save_checkpoint("bert-nli", tmp_path / "tiny-nli")


@pytest.fixture(scope="module")
def nli_values(tmp_path_factory):
    """The values of the same checkpoint, whose labels have their usual names."""
    folder = save_checkpoint("bert-nli", tmp_path_factory.mktemp("usual") / "tiny-nli")
    return measure("nli-occupation", f"m={folder}", limit=20, cache=None).values


def labelled(*labels):
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


@pytest.mark.parametrize(
    "labels",
    [
        ("entailment", "neutral", "contradictory"),
        ("e", "n", "c"),
        ("E", "N", "C"),
        ("ENTAILS", "Neutral", "CONTRADICTS"),
        ("Entail", "neutral", "contradict"),
        ("entailed", "neut", "contra"),
        ("entailing", " neutral ", "contradicting"),
    ],
)
def test_other_names_of_the_three_labels_are_read(nli, nli_values, labels):
    edit(nli, **labelled(*labels))
    found = measure("nli-occupation", f"m={nli}", limit=20, cache=None)
    assert found.values == nli_values


def test_the_order_of_other_names_is_kept():
    role = classifier_role(["c", "e", "n"])
    assert role.kind == NLI_CLASSIFIER
    assert role.labels == ("contradiction", "entailment", "neutral")
    assert classifier_role(["c", "e", "x"]).labels == ("c", "e", "x")


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (("SUPPORTS", "NOT ENOUGH INFO", "REFUTES"), "entailment,neutral,contradiction"),
        (("REFUTES", "SUPPORTS", "NEI"), "contradiction,entailment,neutral"),
        (("yes", "maybe", "no"), "entailment,neutral,contradiction"),
    ],
)
def test_three_labels_that_may_be_those_of_nli_come_with_advice_that_works(nli, labels, advice):
    edit(nli, **labelled(*labels))
    with pytest.raises(NotApplicableError, match=f"--bias-labels={advice}"):
        measure("nli-occupation", f"m={nli}", limit=20, cache=None)
    measure("nli-occupation", load_model(f"m={nli}", labels=advice.split(",")), limit=20, cache=None)
    assert label_advice(("a", "b")) == ""


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (
            labelled("entailment", "neutral", "contradiction", "other"),
            "names 4 labels ('entailment', 'neutral', 'contradiction', 'other'), and its head has 3 outputs",
        ),
        (
            {"id2label": {"0": "entailment"}, "label2id": None},
            "names 1 label ('entailment'), and its head has 3 outputs",
        ),
        (
            {"id2label": {"0": "entailment", "2": "contradiction"}, "label2id": None},
            "names 2 labels ('entailment', 'contradiction'), and its head has 3 outputs",
        ),
        ({"id2label": None, "label2id": None}, "names 2 labels ('LABEL_0', 'LABEL_1'), and its head has 3 outputs"),
    ],
)
def test_another_number_of_labels_than_outputs_is_named_and_the_advice_works(nli, entries, said):
    edit(nli, **entries)
    message = refused(nli)
    assert said in message
    assert "--bias-labels=entailment,neutral,contradiction" in message
    role = load_model(nli, labels=list(NLI_LABELS)).role
    assert (role.kind, role.labels) == (NLI_CLASSIFIER, NLI_LABELS)


@pytest.mark.parametrize(
    "half",
    [
        {"id2label": None},
        {"id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}},
        {"id2label": {"0": "neutral"}},
    ],
)
def test_labels_that_only_one_half_of_the_config_names_are_read(nli, half):
    edit(nli, **half, label2id={"neutral": 0, "entailment": 1, "contradiction": 2})
    assert load_model(nli).role.labels == ("neutral", "entailment", "contradiction")


@pytest.mark.parametrize(
    "labels", [("label_entailment", "label_neutral", "label_contradiction"), ("LABEL-E", "LABEL N", "Label_C")]
)
def test_labels_that_begin_with_label_are_read(nli, labels):
    assert load_model(edit(nli, **labelled(*labels))).role.labels == NLI_LABELS


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (("contra", "?", "entailment"), "contradiction,neutral,entailment"),
        (("x", "entailment", "y"), "neutral,entailment,contradiction"),
        (("no", "maybe", "yes"), "contradiction,neutral,entailment"),
        (("neutral", "neutral", "entailment"), "neutral,contradiction,entailment"),
    ],
)
def test_the_advice_keeps_the_labels_that_are_known_in_their_places(labels, advice):
    assert label_advice(labels).endswith(f"--bias-labels={advice}")


def test_a_config_that_contradicts_itself_is_refused(nli):
    edit(nli, id2label=labelled(*NLI_LABELS)["id2label"], label2id=labelled(*reversed(NLI_LABELS))["label2id"])
    said = "id2label has the order entailment, neutral, contradiction, and label2id contradiction, neutral, entailment"
    assert said in refused(nli)
    assert load_model(nli, labels=NLI_LABELS).role.labels == NLI_LABELS


def test_outputs_that_are_not_numbered_from_zero_are_refused(nli):
    edit(nli, id2label={str(i): name for i, name in enumerate(NLI_LABELS, 1)}, label2id=None)
    assert "numbers the outputs 1, 2, 3; expected 0 to 2" in refused(nli)
    assert load_model(nli, labels=NLI_LABELS).role.labels == NLI_LABELS


def test_labels_in_python_are_a_list(nli):
    with pytest.raises(SettingError, match="labels should be a list of names, got the text 'entailment,neutral"):
        load_model(nli, labels="entailment,neutral,contradiction")


# Heads


@pytest.fixture
def headless(folder):
    return edit(folder, architectures=None)


def test_a_checkpoint_without_architectures_can_name_its_head(headless):
    message = refused(headless)
    assert f"={headless},head=HEAD, with HEAD one of {', '.join(HEADS)};" in message
    expected = load_model(edit(headless, architectures=["BertForMaskedLM"]))
    edit(headless, architectures=None)
    model = load_model(f"m={headless},head=masked-lm")
    assert (model.name, model.role.kind) == ("m", "masked-lm")
    found = [measure("lm-occupation", one, limit=20, cache=None).value for one in (model, expected)]
    assert found[0] == found[1]
    assert load_model(f"{headless},head=encoder").role.kind == "encoder"


def test_each_head_has_a_record_of_its_own(headless, tmp_path):
    from pytest_genderbias.measurement.run_models import RunModels

    for _ in range(2):
        models = RunModels(LoadSettings(device="cpu"), cache=tmp_path / "cache")
        for head in ("masked-lm", "encoder"):
            spec = parse_spec(f"m={headless},head={head}")
            assert models.source(spec).role.kind == models.model(spec).role.kind == head


@pytest.mark.parametrize("kind", [*CAUSAL, "bert-nli"])
def test_every_head_can_be_named(tmp_path, kind):
    place = edit(save_checkpoint(kind, tmp_path / "m"), architectures=None)
    head = "classifier" if kind == "bert-nli" else "causal-lm"
    assert load_model(f"{place},head={head}").role.kind == ("nli-classifier" if kind == "bert-nli" else head)


def test_a_head_that_the_config_contradicts_or_nobody_knows_is_refused(folder):
    assert load_model(f"{folder},head=masked-lm").role.kind == "masked-lm"
    for spec, said in (
        (
            f"{folder},head=causal-lm",
            "names the architecture BertForMaskedLM, a masked LM, and head=causal-lm asks for another",
        ),
        (f"{folder},head=mlm", f"expected one of {', '.join(HEADS)}"),
        (f"{folder / 'config.json'},head=encoder", "kind of the file is unknown"),
    ):
        with pytest.raises(ModelError, match=said):
            load_model(spec)
    edit(folder, architectures=None)
    with pytest.raises(ModelError, match="reads the words on both sides"):
        load_model(f"{folder},head=causal-lm")
    with pytest.raises(ModelError, match="lacks weights"):
        load_model(f"{folder},head=classifier", labels=["a", "b"])


def test_a_folder_whose_name_looks_like_a_head_is_a_folder(folder):
    odd = folder.rename(folder.with_name("tiny,head=masked-lm"))
    assert parse_spec(str(odd)).target == str(odd)


#: Published configs without architectures, as far as they decide the head.
PUBLISHED = {
    **dict.fromkeys(("bert-tiny", "bert-mini", "bert-small", "bert-medium"), ({"model_type": "bert"}, "masked-lm")),
    "deberta-v3-base": ({"model_type": "deberta-v2"}, "encoder"),
}


@pytest.mark.parametrize("alias", PUBLISHED)
def test_aliases_of_checkpoints_without_architectures_name_their_head(tmp_path, alias):
    entries, kind = PUBLISHED[alias]
    (tmp_path / "config.json").write_text(json.dumps(entries))
    spec = parse_spec(f"m={alias}")
    assert (spec.kind, spec.spec, f"{spec.target},head={spec.head}") == ("hub", alias, ALIASES[alias])
    here = parse_spec(f"m={tmp_path},head={spec.head}")
    assert inspect(here, LoadSettings()).role.kind == kind


def test_all_heads_are_those_of_transformers():
    for kind in ("bert", "gpt2"):
        config = make_network(kind).config
        assert transformers.AutoConfig.for_model(config.model_type).architectures is None


# Suites that begin a text


def test_a_model_that_cannot_begin_a_text_skips_the_suites_that_do(tmp_path):
    words = tokenizer("gpt2")
    bare = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words.backend_tokenizer, unk_token="!", model_max_length=64
    )
    network = make_network("gpt2")
    network.save_pretrained(tmp_path / "m")
    bare.save_pretrained(tmp_path / "m")
    for suite in ("counterfactual-generation", "corpus-cooccurrence"):
        with pytest.raises(NotApplicableError, match="cannot begin a text"):
            measure(suite, f"m={tmp_path / 'm'}", limit=8, cache=None)
    assert np.isfinite(measure("lm-occupation", f"m={tmp_path / 'm'}", limit=20, cache=None).value)
