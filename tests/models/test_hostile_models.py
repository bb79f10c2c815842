"""Folders, files, specs and modules that break rules: each is refused with one error of this package, in one line, and
never read in silence.
"""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.tiny_checkpoints import make_network, tokenizer

from pytest_genderbias import load_model
from pytest_genderbias.errors import BiasError, ModelError
from pytest_genderbias.models.source import reading_errors
from pytest_genderbias.models.spec import parse_spec

Change = Callable[[Path], object]


def refused(spec: Any, **settings: Any) -> str:
    """Return the message with which a model is refused."""
    with pytest.raises(ModelError) as caught:
        load_model(spec, **settings)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 1500
    return message


# Specs


@pytest.mark.parametrize(
    "spec",
    [
        "~nosuchuser/y",
        "a" * 5000,
        "/" + "b" * 5000,
        "text:~nosuchuser/y",
        "text:" + "c" * 5000,
        "~nosuchuser/run-{seed}",
        "nul\0character",
        "text:nul\0character",
        "mine=~nosuchuser/y",
    ],
)
def test_a_spec_of_which_no_path_can_be_made(spec: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_spec(spec)
    assert len(str(caught.value)) < 1500 and "expected" in str(caught.value)


def test_such_a_spec_on_the_command_line_is_one_line(pytester: pytest.Pytester) -> None:
    for spec in ("~nosuchuser/y", "a/" + "b" * 5000):
        result = pytester.runpytest_inprocess(f"--bias-model={spec}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
        result.stderr.fnmatch_lines(["ERROR: *expected*"])


# Modules of the user

MODULES = {
    "raises": "raise ValueError('no weights')",
    "exits": "import sys\nsys.exit(3)",
    "broken": "def (",
    "own": "class Odd(Exception): pass\nraise Odd('two\\nlines')",
    "imports": "import no_such_package_of_mine",
}
FACTORIES = """
class Odd:
    labels = None
    def class_probabilities(self, texts): return None
class Property:
    @property
    def labels(self): raise KeyError("labels")
    def class_probabilities(self, texts): return None
class Text(Odd):
    labels = "abc"
def typed(): return len(5)
def exits(): raise SystemExit("no licence")
def needs(path): return path
def odd(): return Odd()
def property_(): return Property()
def text(): return Text()
def interrupted(): raise KeyboardInterrupt
number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Return a function that writes a module of a unique name, and returns the name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> str:
        unique = f"hostile_{name}_{tmp_path.name.replace('-', '_')}"
        (tmp_path / f"{unique}.py").write_text(text, encoding="utf-8")
        return unique

    return write


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "ValueError: no weights"),
        ("exits", "SystemExit: 3"),
        ("broken", "SyntaxError"),
        ("own", "Odd: two lines"),
        ("imports", "ModuleNotFoundError: No module named 'no_such_package_of_mine'"),
    ],
)
def test_a_module_that_cannot_be_imported(module: Any, name: str, said: str) -> None:
    message = refused(f"{module(name, MODULES[name])}:make")
    assert "cannot be imported: " in message and said in message


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("typed", "failed: TypeError: object of type 'int' has no len"),
        ("exits", "failed: SystemExit: no licence"),
        ("needs", "failed: TypeError: needs() missing 1 required positional argument: 'path'"),
        ("nothing", "cannot be found: AttributeError"),
        ("number", "is a int; expected module:callable"),
        ("odd", "cannot be read: TypeError"),
        ("property_", "KeyError"),
        ("text", "should be several texts, got the one text 'abc'"),
    ],
)
def test_a_factory_that_gives_no_model(module: Any, attribute: str, said: str) -> None:
    assert said in refused(f"{module('factories', FACTORIES)}:{attribute}")


def test_an_interruption_is_left_alone(module: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_model(f"{module('factories', FACTORIES)}:interrupted")


def test_what_reading_raises_is_one_error_and_timeouts_pass() -> None:
    spec = parse_spec("demo-mlm")

    class PanicException(BaseException):
        """As the Rust code of tokenizers raises."""

    class Timeout(BaseException):
        """As pytest's own outcomes."""

    for error in (PanicException("index out of range"), SystemExit(2), MemoryError()):
        with pytest.raises(ModelError, match="cannot be read"), reading_errors(spec, "tokenizer"):
            raise error
    for passing in (Timeout(), KeyboardInterrupt()):
        with pytest.raises(type(passing)), reading_errors(spec, "tokenizer"):
            raise passing


# Checkpoints


def edit(name: str, **changes: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / name
        content = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**content, **changes}), encoding="utf-8")

    return change


def write(name: str, content: str | bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def cut(name: str, share: float) -> Change:
    def change(folder: Path) -> None:
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(len(content) * share)])

    return change


def with_index(target: object) -> Change:
    def change(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
        index = {"metadata": {}, "weight_map": {"bert.embeddings.word_embeddings.weight": target}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    return change


def with_index_of_another_name(folder: Path) -> None:
    with_index("../outside.safetensors")(folder)
    (folder / "model.safetensors.index.json").rename(folder / "other.safetensors.index.json")
    edit("config.json", transformers_weights="other.safetensors.index.json")(folder)


DEEP = "[" * 100_000
CHANGES: dict[str, tuple[Change, str]] = {
    "deep config": (write("config.json", '{"a": ' + DEEP), "the config"),
    "list as config": (write("config.json", "[1]"), "the config"),
    "binary config": (write("config.json", b"\xff\xfe\0"), "the config"),
    "architecture of a number": (edit("config.json", architectures=[1]), "config"),
    "architecture of a text": (edit("config.json", architectures={"a": 1}), ""),
    "labels of texts": (edit("config.json", id2label={"a": "b"}), "config"),
    "labels of a list": (edit("config.json", id2label=["a"]), ""),
    "many layers": (edit("config.json", num_hidden_layers=10**9),
        "num_hidden_layers: 1000000000; expected at most 1000"),
    "layers of a text": (edit("config.json", num_hidden_layers="two"), ""),
    "no width": (edit("config.json", hidden_size=0), ""),
    "negative width": (edit("config.json", hidden_size=-16), ""),
    "huge vocabulary": (edit("config.json", vocab_size=10**13), ""),
    "unknown type": (edit("config.json", model_type="no-such-type"), "the config"),
    "truncated weights": (cut("model.safetensors", 0.5), "the weights"),
    "empty weights": (cut("model.safetensors", 0.0), "the weights"),
    "header beyond the file": (write("model.safetensors", struct.pack("<Q", 1 << 60) + b"{}"), "the weights"),
    "deep header": (write("model.safetensors", struct.pack("<Q", len(DEEP)) + DEEP.encode()), "the weights"),
    "truncated tokenizer": (cut("tokenizer.json", 0.7), "the tokenizer"),
    "deep tokenizer": (write("tokenizer.json", '{"a": ' + DEEP), "the tokenizer"),
    "tokenizer of a list": (write("tokenizer.json", "[]"), "the tokenizer"),
    "tokenizer settings of a list": (write("tokenizer_config.json", "[1, 2]"), "the tokenizer"),
    "length of a mapping": (edit("tokenizer_config.json", model_max_length={"a": 1}),
        "has model_max_length {'a': 1}; expected a number"),
    "deep tokenizer settings": (write("tokenizer_config.json", '{"a": ' + DEEP), "the tokenizer"),
    "index that leaves the folder": (with_index("../outside.safetensors"),
        "names the file '../outside.safetensors' for a weight"),
    "index with an absolute path": (with_index("/etc/passwd"), "names the file '/etc/passwd' for a weight"),
    "index of a number": (with_index(5), "names the file 5 for a weight"),
    "index of another name": (with_index_of_another_name, "names the file '../outside.safetensors' for a weight"),
    "weights outside": (edit("config.json", transformers_weights="../outside.safetensors"), "the weights"),
    "weights of a number": (edit("config.json", transformers_weights=5), "the weights"),
    "broken index": (write("model.safetensors.index.json", '{"weight_map": []}'), "the index of the weights"),
    "adapter": (write("adapter_config.json", '{"peft_type": "LORA"}'), "beside weights of its own (model.safetensors)"),
    "pooling outside": (
        write("modules.json", '[{"type": "sentence_transformers.models.Pooling", "path": "../1_Pooling"}]'),
        "outside the encoder"
    ),
    "deep modules": (write("modules.json", DEEP), "modules.json cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_broken_checkpoint_is_refused_in_one_line(checkpoint: Any, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "broken"
    shutil.copytree(checkpoint("bert-nli"), folder)
    change, said = CHANGES[name]
    change(folder)
    assert said in refused(folder, device="cpu")


def test_an_adapter_without_content_is_named(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"adapter_config\.json names no peft_type"):
        load_model(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_the_format_of_a_quantised_network_is_named() -> None:
    pytest.importorskip("torch.ao.quantization", reason="this torch has no quantisation of its own")
    network = make_network("bert")
    words = tokenizer("bert")
    assert load_model(network, tokenizer=words).details["dtype"] == "float32"
    assert load_model(make_network("bert").to(torch.bfloat16), tokenizer=words).details["dtype"] == "bfloat16"
    quantised = torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear}, dtype=torch.qint8)
    assert load_model(quantised, tokenizer=words).details["dtype"] == "qint8 and float32"
    layer = (
        network.bert.pooler if network.bert.pooler is not None else network.bert.encoder.layer[0].attention.self.query
    )
    layer.weight = torch.nn.Parameter(layer.weight.to(torch.int8), requires_grad=False)
    assert load_model(network, tokenizer=words).details["dtype"] == "int8 and float32"


# Word vectors


def npy_header(shape: str, kind: str = "<f4") -> bytes:
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n"


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return stream.getvalue()


def saved(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


VECTORS: dict[str, tuple[str, bytes]] = {
    "huge shape": ("v.npy", npy_header("(1000000000000000, 300)") + bytes(64)),
    "negative shape": ("v.npy", npy_header("(-1, 2)") + bytes(64)),
    "shape of texts": ("v.npy", npy_header("('a', 2)") + bytes(64)),
    "shape without an end": ("v.npy", npy_header("(((((2, ") + bytes(64)),
    "odd type": ("v.npy", npy_header("(2, 2)", "zz") + bytes(64)),
    "objects": ("v.npy", npy_header("(2, 2)", "|O") + b"cposix\nsystem\n(S'true'\ntR."),
    "empty": ("v.npy", b""),
    "no archive": ("v.npz", b"PK\x03\x04 no archive"),
    "archive of objects": (
        "v.npz",
        archive(vectors=saved(np.array([{}, 1], dtype=object)), words=saved(np.array(["a", "b"]))),
    ),
    "huge member": ("v.npz", archive(vectors=npy_header("(100000000000000, 300)"), words=saved(np.array(["a"])))),
    "words of numbers": ("v.npz", archive(vectors=saved(np.ones((2, 2), np.float32)), words=saved(np.arange(2)))),
    "many digits": ("v.vec", b"9" * 5000 + b" 2\na 1 2\n"),
    "many dimensions": ("v.vec", b"1 " + b"9" * 5000 + b"\na 1 2\n"),
}


@pytest.mark.parametrize("name", VECTORS)
def test_broken_vectors_are_refused_in_one_line(tmp_path: Path, name: str) -> None:
    file, content = VECTORS[name]
    (tmp_path / file).write_bytes(content)
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    refused(tmp_path / file)


def test_an_archive_that_unpacks_to_far_more_is_refused_before_it_is_read(tmp_path: Path) -> None:
    bomb = archive(vectors=npy_header("(17000000, 1)") + bytes(68_000_000), words=saved(np.array(["a"])))
    assert len(bomb) < 100_000
    (tmp_path / "v.npz").write_bytes(bomb)
    assert "would unpack to 68,0" in refused(tmp_path / "v.npz")


def test_a_vocabulary_that_is_nested(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.ones((2, 2), np.float32))
    (tmp_path / "v.vocab.json").write_text(DEEP)
    refused(tmp_path / "v.npy")


# Tables of predictions


@pytest.mark.parametrize("cell", [np.ones(3), [1, [2, 3]], {"a": [1]}, object(), float("nan"), None, b"bytes"])
@pytest.mark.parametrize("column", ["id", "prediction", "gold", "group", "probabilities"])
def test_a_cell_of_another_kind_is_refused(cell: Any, column: str) -> None:
    rows = [
        {"id": i, "prediction": "a", "gold": "b", "group": "female", "probabilities": {"a": 0.5, "b": 0.5}}
        for i in range(3)
    ]
    rows[1] = {**rows[1], column: cell}
    with pytest.raises(BiasError) as caught:
        load_model(rows)
    assert "\n" not in str(caught.value)
