"""Checkpoints with quantised weights: what their fingerprint and number format say, and what is refused because it did
not load.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.tiny_checkpoints import make_network, save_checkpoint, tokenizer

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.fingerprint import fingerprint_network
from pytest_genderbias.models.objects import wrap_network

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def int8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny NLI classifier that transformers quantised with torchao and saved."""
    config = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    folder = tmp_path_factory.mktemp("torchao")
    save_checkpoint("bert-nli", folder / "float32")
    settings = transformers.TorchAoConfig(config.Int8DynamicActivationInt8WeightConfig())
    network = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder / "float32", quantization_config=settings, dtype=torch.float32
    )
    network.save_pretrained(folder / "int8")
    tokenizer("bert").save_pretrained(folder / "int8")
    return folder / "int8"


def rewritten(folder: Path, target: Path, change: Callable[[Tensors], Tensors]) -> Path:
    """Copy a checkpoint with other tensors."""
    shutil.copytree(folder, target)
    with safe_open(folder / "model.safetensors", "pt") as file:
        metadata = file.metadata()
    save_file(change(load_file(folder / "model.safetensors")), target / "model.safetensors", metadata)
    return target


def test_a_torchao_checkpoint_is_measured_and_known_by_its_weights(int8: Path, tmp_path: Path) -> None:
    model, again = load_model(int8, device="cpu"), load_model(int8, device="cpu")
    assert model.details["dtype"] == "int8 and float32"
    assert model.fingerprint == again.fingerprint
    measured = [
        measure("nli-occupation", m, limit=64, cache=None).value
        for m in (model, load_model(int8.parent / "float32", device="cpu"))
    ]
    assert 0 < abs(measured[0] - measured[1]) < 0.05
    (scale,) = [
        name for name in load_file(int8 / "model.safetensors") if name.endswith("1.attention.self.query._weight_scale")
    ]
    louder = rewritten(int8, tmp_path / "louder", lambda t: t | {scale: t[scale] * 2})
    assert load_model(louder, device="cpu").fingerprint != model.fingerprint
    broken = rewritten(int8, tmp_path / "nan", lambda t: t | {scale: t[scale] * np.nan})
    with pytest.raises(
        ModelError,
        match=r"NaN or infinite weights \(first: bert\.encoder\.layer\.1\.attention\.self\.query\.weight\.scale\)",
    ):
        load_model(broken, device="cpu")


@pytest.mark.parametrize("lost", ["_weight_qdata", "_weight_scale", "_weight_zero_point", "bias", ""])
@pytest.mark.parametrize("layer", ["bert.encoder.layer.0.attention.self.query.", "classifier."])
def test_a_torchao_checkpoint_without_a_part_of_a_weight_is_refused(
    int8: Path, tmp_path: Path, layer: str, lost: str
) -> None:
    names = [name for name in load_file(int8 / "model.safetensors") if name.startswith(layer + lost)]
    assert names
    holes = rewritten(
        int8, tmp_path / "holes", lambda t: {name: tensor for name, tensor in t.items() if name not in names}
    )
    with pytest.raises(ModelError, match="holes"):
        load_model(holes, device="cpu")


def test_scales_that_no_layer_reads_are_refused(tmp_path: Path) -> None:
    plain = save_checkpoint("bert-nli", tmp_path / "plain")
    layer = "bert.encoder.layer.0.attention.self.query"

    def quantise(tensors: Tensors) -> Tensors:
        """As bitsandbytes stores 8-bit weights: integers, and the scale of each row."""
        scale = tensors[f"{layer}.weight"].abs().amax(1)
        numbers = (tensors[f"{layer}.weight"] / scale[:, None] * 127).round().to(torch.int8)
        return tensors | {f"{layer}.weight": numbers, f"{layer}.SCB": scale}

    with pytest.raises(ModelError, match=rf"does not read: {layer}\.SCB \(1 in all\).*quantization_config"):
        load_model(rewritten(plain, tmp_path / "integers", quantise), device="cpu")
    adapter = rewritten(
        plain, tmp_path / "adapter", lambda t: t | {f"{layer}.lora_A.default.weight": torch.ones(2, 16)}
    )
    with pytest.raises(ModelError, match=r"does not read: .*lora_A.*merge the adapter"):
        load_model(adapter, device="cpu")
    head = rewritten(plain, tmp_path / "head", lambda t: t | {"cls.predictions.decoder.scale": torch.ones(2)})
    assert load_model(head, device="cpu").fingerprint == load_model(plain, device="cpu").fingerprint


def test_packed_weights_tell_networks_apart() -> None:
    quantisation = pytest.importorskip("torch.ao.quantization", reason="this torch has no quantisation of its own")

    def made(factor: float) -> str:
        network = make_network("bert-nli")
        with torch.no_grad():
            network.bert.encoder.layer[0].attention.self.query.weight.mul_(factor)
        quantised = quantisation.quantize_dynamic(network, {torch.nn.Linear}, dtype=torch.qint8)
        return fingerprint_network(quantised, "words", {})

    assert made(1.0) == made(1.0)
    assert made(1.0) != made(1.5)


def with_method(folder: Path, settings: object) -> Path:
    """Write a checkpoint whose config says how its weights were quantised."""
    save_checkpoint("bert-nli", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": settings}))
    return folder


@pytest.mark.parametrize(
    ("settings", "packages"),
    [
        ({"quant_method": "gptq", "bits": 4}, "gptqmodel optimum"),
        ({"quant_method": "awq", "bits": 4}, "gptqmodel"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes accelerate"),
        ({"load_in_8bit": True}, "bitsandbytes accelerate"),
        ({"quant_method": "torchao", "quant_type": "int8_weight_only"}, "torchao"),
        ({"quant_method": "quanto", "weights": "int8"}, "optimum-quanto"),
        ({"quant_method": "aqlm"}, r"'aqlm\[cpu,gpu\]'"),
    ],
)
def test_the_library_that_the_weights_need_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], packages: str
) -> None:
    monkeypatch.setattr("pytest_genderbias.models.config.find_spec", lambda name: None)
    folder = with_method(tmp_path / "model", settings)
    with pytest.raises(
        ModelError,
        match=rf"^model has weights that were quantised by '\w+' .* not installed here: pip install {packages}$",
    ):
        load_model(folder, device="cpu")


def test_a_method_that_would_be_ignored_is_refused(tmp_path: Path) -> None:
    for settings in ({"quant_method": "mine"}, {"bits": 4}):
        with pytest.raises(
            ModelError, match="which this transformers does not know, so that their numbers would be taken as they are"
        ):
            load_model(with_method(tmp_path / "model", settings), device="cpu")
    with pytest.raises(ModelError, match="the config of model"):
        load_model(with_method(tmp_path / "model", [1]), device="cpu")


def test_what_a_library_refuses_is_no_damaged_copy(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("SpQR runs on this GPU")
    with pytest.raises(
        ModelError, match=r"the weights quantised by spqr of model .* its library says why: it may need a GPU"
    ):
        load_model(with_method(tmp_path / "model", {"quant_method": "spqr"}), device="cpu")


def test_a_folder_of_gguf_files_names_them(tmp_path: Path) -> None:
    (tmp_path / "model-q4.gguf").write_bytes(b"GGUF")
    with pytest.raises(
        ModelError, match=r"has its weights in GGUF \(model-q4\.gguf\); give the file as SPEC: .*/model-q4\.gguf"
    ):
        load_model(tmp_path)


def test_a_folder_of_gguf_and_a_graph_names_both(tmp_path: Path) -> None:
    for name in ("model-q4.gguf", "model.onnx"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(
        ModelError,
        match=(
            r"has its weights in GGUF \(model-q4\.gguf\) and in a graph \(model\.onnx\); give the file as SPEC:"
            r" .*/model-q4\.gguf or .*/model\.onnx$"
        ),
    ):
        load_model(tmp_path)


def test_an_int8_network_in_memory_says_int8() -> None:
    quantisation = pytest.importorskip("torch.ao.quantization", reason="this torch has no quantisation of its own")
    network = quantisation.quantize_dynamic(make_network("bert-nli"), {torch.nn.Linear}, dtype=torch.qint8)
    assert wrap_network(network, tokenizer("bert")).details["dtype"] == "qint8 and float32"


def test_a_kernel_that_refuses_is_one_error_of_the_package() -> None:
    network = make_network("bert-nli")

    def refuse(*_: object) -> None:
        raise AssertionError("N must be divisible by block_n")

    network.classifier.register_forward_pre_hook(refuse)
    with pytest.raises(ModelError, match=r"cannot compute its output here \(AssertionError: N must be divisible"):
        measure("nli-occupation", load_model(network, tokenizer=tokenizer("bert")), limit=16, cache=None)


def test_each_checkpoint_in_its_own_number_format(tmp_path: Path) -> None:
    save_checkpoint("bert-nli", tmp_path / "float32")
    make_network("bert-nli").to(torch.bfloat16).save_pretrained(tmp_path / "half")
    tokenizer("bert").save_pretrained(tmp_path / "half")
    formats = {
        name: load_model(tmp_path / name, device="cpu", dtype="auto").details["dtype"] for name in ("float32", "half")
    }
    assert formats == {"float32": "float32", "half": "bfloat16"}
    assert load_model(tmp_path / "half", device="cpu").details["dtype"] == "float32"
