"""Objects in memory as models: networks with their tokenizer, sentence encoders, and what is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from support.tiny_checkpoints import make_network, tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError, NotApplicableError, ScoreError, SettingError
from pytest_genderbias.models.model import evaluation_mode

KINDS = [
    ("bert", AutoModelForMaskedLM, "disco-terms", {"top_k": 2}),
    ("gpt2", AutoModelForCausalLM, "lm-occupation", {}),
    ("bert-nli", AutoModelForSequenceClassification, "nli-occupation", {}),
]


def refused(*arguments, error=ModelError, **settings):
    """Return the one line with which an object is refused."""
    with pytest.raises(error) as caught:
        load_model(*arguments, **settings)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert len(text) < 500
    return text


# Networks


@pytest.mark.parametrize(("kind", "auto", "suite", "options"), KINDS, ids=[kind for kind, *_ in KINDS])
def test_a_network_in_memory_gives_the_figures_of_its_folder(checkpoint, tiny_model, kind, auto, suite, options):
    network, words = auto.from_pretrained(checkpoint(kind)), AutoTokenizer.from_pretrained(checkpoint(kind))
    settings = {"limit": 150, "cache": None, **options}
    expected = measure(suite, tiny_model(kind), **settings)
    for m in (
        measure(suite, network, tokenizer=words, **settings),
        measure(suite, load_model(network, tokenizer=words, name="mine"), **settings),
    ):
        assert m.values == expected.values
        assert m.intervals == expected.intervals
        assert m.records == expected.records
        assert m.signature["model"]["fingerprint"] is None
    assert m.model == "mine"


def test_a_network_in_memory_is_shared_and_in_evaluation_mode(tiny_model):
    network = make_network("bert").train()
    model = load_model(network, tokenizer=tokenizer("bert"))
    assert model.backend.network is network
    assert not any(module.training for module in network.modules())
    assert (model.name, model.role.kind, model.fingerprint) == ("BertForMaskedLM", "masked-lm", None)
    assert model.details == tiny_model("bert").details | {"device": "cpu"}


def test_a_vocabulary_that_is_resized_between_two_measurements_is_counted_anew():
    network = make_network("bert")
    backend = load_model(network, tokenizer=tokenizer("bert")).backend
    size = backend.vocabulary_size
    network.resize_token_embeddings(size + 8)
    assert backend.vocabulary_size == size + 8


def test_measuring_a_network_in_training_leaves_its_modes_as_they_were():
    network = make_network("gpt2").train()
    network.transformer.drop.eval()
    before = [module.training for module in network.modules()]
    settings = {"limit": 64, "cache": None}
    values = [measure("lm-occupation", network, tokenizer=tokenizer("gpt2"), **settings).values for _ in range(2)]
    assert values[0] == values[1], "dropout was on"
    assert [module.training for module in network.modules()] == before
    model = load_model(network, tokenizer=tokenizer("gpt2"))
    network.train()
    assert measure("lm-occupation", model, **settings).values == values[0]
    assert network.training


def test_a_method_that_ends_the_process_is_one_error():
    class Ends:
        def continuation_log_probs(self, prefixes, continuations):
            raise SystemExit("no key")

    with pytest.raises(ScoreError, match="failed: SystemExit: no key"):
        measure("lm-occupation", Ends(), cache=None)


def test_evaluation_mode_ends_when_something_fails_and_leaves_other_objects_alone():
    network = make_network("bert").train()

    def fail():
        with evaluation_mode(network):
            assert not network.training
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert network.training
    with evaluation_mode("demo-mlm"), evaluation_mode(object()):
        pass


def test_labels_are_named_for_a_network_in_memory_as_for_a_folder(checkpoint, tiny_model):
    network = AutoModelForSequenceClassification.from_pretrained(checkpoint("bert-nli"))
    network.config.id2label = {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    words = tokenizer("bert")
    assert "does not say what its outputs mean: its labels are LABEL_0" in refused(network, tokenizer=words)
    assert "has 3 outputs" in refused(network, tokenizer=words, labels=["entailment", "neutral"])
    labels = ["entailment", "neutral", "contradiction"]
    model = load_model(network, tokenizer=words, labels=labels)
    assert model.role == tiny_model("bert-nli").role
    assert network.config.id2label[0] == "LABEL_0"


def test_a_network_without_tokenizer_says_what_to_write():
    text = "BertForMaskedLM needs its tokenizer: load_model(network, tokenizer=tokenizer)"
    assert refused(make_network("bert")) == text
    with pytest.raises(ModelError, match="needs its tokenizer"):
        measure("disco-names", make_network("bert"))


@pytest.mark.parametrize("wrong", ["bert-base-uncased", make_network("gpt2"), 7], ids=["a name", "a network", "7"])
def test_a_tokenizer_that_is_none(wrong):
    text = refused(make_network("bert"), tokenizer=wrong)
    assert text.startswith("the tokenizer of BertForMaskedLM should be a transformers tokenizer")
    assert text.endswith(f"got {type(wrong).__name__}")


def test_the_tokenizer_of_another_model():
    network = transformers.BertForMaskedLM(
        transformers.BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    )
    assert "embeddings of 50 tokens, its tokenizer has" in refused(network, tokenizer=tokenizer("bert"))


def test_a_masked_lm_without_mask_token():
    assert "no mask token" in refused(make_network("bert"), tokenizer=tokenizer("gpt2"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers(value):
    network = make_network("bert")
    with torch.no_grad():
        network.bert.encoder.layer[1].output.dense.weight[3, 3] = value
    text = refused(network, tokenizer=tokenizer("bert"))
    assert "NaN or infinite weights" in text
    assert "layer.1.output.dense.weight" in text


def test_a_network_without_a_head_that_can_be_scored():
    network = transformers.BertForTokenClassification(make_network("bert").config)
    assert "no head that can be scored" in refused(network, tokenizer=tokenizer("bert"))
    body = load_model(make_network("bert").bert, tokenizer=tokenizer("bert"))
    with pytest.raises(NotApplicableError, match="BertModel is an encoder without a head"):
        measure("disco-terms", body)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"device": "cuda"}, "apply to checkpoints"),
        ({"dtype": "float64"}, "apply to checkpoints"),
        ({"trust_remote_code": True}, "apply to checkpoints"),
        ({"max_tokens": 3}, "max_tokens apply to endpoints and checkpoints"),
        ({"temperature": 0.5}, "apply to endpoints and checkpoints"),
    ],
    ids=str,
)
def test_settings_of_others_are_refused_for_a_network(setting, said):
    assert said in refused(make_network("bert"), tokenizer=tokenizer("bert"), error=SettingError, **setting)


# Specs, paths and names


def test_a_path_and_a_name(checkpoint, tiny_model):
    model = load_model(Path(checkpoint("bert")), name="candidate")
    assert (model.name, model.fingerprint) == ("candidate", tiny_model("bert").fingerprint)
    assert load_model(str(checkpoint("bert")), name="candidate").name == "candidate"
    assert measure("disco-terms", Path(checkpoint("bert")), limit=20, cache=None).model == "bert"


def test_a_tokenizer_beside_a_spec_is_refused(checkpoint):
    text = refused(str(checkpoint("bert")), tokenizer=tokenizer("bert"), error=SettingError)
    assert "names a model that has its own" in text


@pytest.mark.parametrize("name", ["", "a b", "../a", "-a"])
def test_a_name_that_is_no_file_name(checkpoint, name):
    assert "name" in refused(str(checkpoint("bert")), name=name, error=SettingError)
    assert "name" in refused(make_network("bert"), tokenizer=tokenizer("bert"), name=name, error=SettingError)


# Other objects


class Encoder:
    """Gives each sentence the counts of five letters."""

    def encode(self, texts):
        return np.asarray([[text.count(letter) + 1 for letter in "aeont"] for text in texts], dtype=float)


def test_a_sentence_encoder_in_memory():
    assert load_model(Encoder()).role.kind == "sentence-encoder"
    assert measure("sts-occupation", Encoder(), limit=60, cache=None).value is not None


def test_a_real_sentence_transformer(checkpoint):
    reason = "needs the package sentence-transformers"
    parts = pytest.importorskip("sentence_transformers.sentence_transformer.modules", reason=reason)
    from sentence_transformers import SentenceTransformer

    words = parts.Transformer(str(checkpoint("bert")), max_seq_length=32)
    encoder = SentenceTransformer(modules=[words, parts.Pooling(words.get_embedding_dimension())])
    m = measure("sts-occupation", encoder, limit=60, cache=None)
    assert m.model == "SentenceTransformer"
    assert m.value is not None


def test_a_loaded_model_is_returned_as_it_is(tiny_model):
    model = tiny_model("bert")
    assert load_model(model) is model
    assert load_model(model, name="other").name == "other"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (7, "has the protocol of no role; expected a transformers network with its tokenizer"),
        (None, "has the protocol of no role"),
        (b"demo-mlm", "has the protocol of no role"),
        (torch.nn.Linear(2, 2), "Linear .*has the protocol of no role"),
        (Encoder, "Encoder is a class; expected an object of that class"),
        (tokenizer("bert"), r"is a tokenizer; write load_model\(network, tokenizer=tokenizer\)"),
        ([1, 2], "has the protocol of no role"),
    ],
    ids=["number", "none", "bytes", "module", "class", "tokenizer", "list"],
)
def test_objects_that_are_no_models(target, words):
    with pytest.raises(ModelError, match=words):
        load_model(target)
    with pytest.raises(ModelError, match=words):
        measure("disco-names", target)


def test_a_transformers_pipeline_says_what_to_write():
    pipeline = transformers.pipeline("fill-mask", model=make_network("bert"), tokenizer=tokenizer("bert"))
    text = refused(pipeline)
    assert text == ("FillMaskPipeline is a pipeline; write load_model(pipeline.model, tokenizer=pipeline.tokenizer)")
    assert load_model(pipeline.model, tokenizer=pipeline.tokenizer).role.kind == "masked-lm"


def test_a_tokenizer_or_labels_for_an_object_that_takes_none():
    assert "got Encoder, which takes none" in refused(Encoder(), tokenizer=tokenizer("bert"))
    assert "got Encoder" in refused(Encoder(), labels=["a", "b"])


def test_a_callable_may_return_a_loaded_model(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "own_network_for_test.py").write_text(
        "from transformers import AutoModelForMaskedLM, AutoTokenizer\nfrom pytest_genderbias import load_model\n"
        f"FOLDER = {str(checkpoint('bert'))!r}\n"
        "def bare():\n    return AutoModelForMaskedLM.from_pretrained(FOLDER)\n"
        "def whole():\n    return load_model(bare(), tokenizer=AutoTokenizer.from_pretrained(FOLDER))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    model = load_model("mine=own_network_for_test:whole")
    assert (model.name, model.spec, model.role.kind) == ("mine", "own_network_for_test:whole", "masked-lm")
    assert "needs its tokenizer" in refused("own_network_for_test:bare")


def test_transformers_is_not_imported_for_an_object_that_needs_none():
    import subprocess
    import sys

    script = (
        "import sys\nfrom pytest_genderbias import load_model\n"
        "class Encoder:\n    def encode(self, texts):\n        return []\n"
        "load_model(Encoder())\nload_model([{'id': 1, 'prediction': 'a', 'gold': 'a', 'group': 'F'}])\n"
        "print([name for name in ('torch', 'transformers', 'pandas', 'sklearn', 'spacy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.replace("'", '"')) == []


def test_a_path_with_an_equals_sign_is_no_name(checkpoint, tmp_path, monkeypatch):
    shutil.copytree(checkpoint("bert"), tmp_path / "lr=0.1")
    monkeypatch.chdir(tmp_path)
    assert load_model(Path("lr=0.1")).name == "lr-0.1"
    assert measure("disco-terms", Path("lr=0.1"), limit=20, cache=None).model == "lr-0.1"
