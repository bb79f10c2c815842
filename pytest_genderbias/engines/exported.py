"""Networks exported as a graph, with the config and tokenizer beside it: an ``.onnx`` file (onnxruntime) or an OpenVINO
``.xml`` with its ``.bin`` (openvino), each run by its library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pytest_genderbias.errors import ModelError, SettingError, installing
from pytest_genderbias.models import checkpoints
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.checkpoints import batch_details, check_mask_token, load_tokenizer, observed
from pytest_genderbias.models.config import PROJECTED_LAYERS, entry
from pytest_genderbias.models.fingerprint import config_content, fingerprint_tokenizer
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.sentence_encoders import read_sentence_files
from pytest_genderbias.models.source import LoadSettings, ModelSource, config_folder, reading_errors
from pytest_genderbias.models.spec import ModelSpec

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_EXPORTED = "as exported"  #: the number format of a graph, which decides it itself
_PACKAGES = {"onnx": "onnxruntime", "openvino": "openvino"}
#: Files beside a graph that hold no weights of it: texts, and other graphs.
_NO_WEIGHTS = {".json", ".jsonl", ".txt", ".md", ".py", ".jinja", ".model", ".yaml", ".yml"}
_NO_WEIGHTS |= {".safetensors", ".onnx", ".xml"}
_TYPES: dict[str, DTypeLike] = {
    "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float)": "float32", "tensor(float16)": "float16",
    "tensor(bool)": "bool", "tensor(double)": "float64",
}  # fmt: skip


class Port(NamedTuple):
    """An input or output of a graph. ``shape`` has ``None`` where the size is free."""

    name: str
    dtype: DTypeLike
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Graph:
    """A loaded graph.

    Attributes:
        runtime: the library with its version, as ``onnxruntime 1.23.0``.
        inputs: what it is fed.
        outputs: what it returns.
        run: returns every output by its name, from the inputs by name.
    """

    runtime: str
    inputs: Sequence[Port]
    outputs: Sequence[Port]
    run: Callable[[Mapping[str, NDArray[np.generic]]], dict[str, NDArray[np.generic]]]


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config beside a graph, and its role.

    Raises:
        ModelError: the library that runs the graph is not installed, or the config is missing or cannot be used.
    """
    package, graph = _PACKAGES[spec.kind], Path(spec.target)
    if find_spec(package) is None:
        raise ModelError(
            f"{spec.name} is a graph that runs with {package}, not installed here: {installing(spec.kind)}"
        )
    if not (config_folder(graph) / "config.json").is_file():
        raise ModelError(
            f"{graph} has no config.json beside it or in the folder above; expected the folder that the export wrote,"
            " with the tokenizer"
        )
    return checkpoints.inspect(spec, settings)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load a graph and check that it answers as its config says.

    Raises:
        ModelError: a part is missing or damaged, the graph does not fit the config or the tokenizer, or another device
            than the CPU is asked for.
        SettingError: ``dtype`` asks for a number format.
    """
    import torch

    from pytest_genderbias.engines.exported_network import ExportedNetwork

    spec, config = source.spec, source.config
    assert config is not None
    if settings.dtype not in ("float32", "auto"):
        raise SettingError(f"{spec.name} is an exported graph, which keeps its number format; use --bias-dtype=auto")
    if settings.device not in ("auto", "cpu"):
        raise ModelError(
            f"{spec.name} is an exported graph, which runs on the CPU here, not on {settings.device!r}; use"
            " --bias-device=cpu"
        )
    if config.is_encoder_decoder:
        raise ModelError(
            f"{spec.name} has an encoder and a decoder; expected a graph of one: give the checkpoint that it was"
            " exported from"
        )
    if entry(config, PROJECTED_LAYERS):
        raise ModelError(
            f"the config of {spec.name} says that its hidden layers are projected, which an exported graph does not do;"
            " give the checkpoint that it was exported from"
        )
    tokenizer = load_tokenizer(spec, settings)
    check_mask_token(tokenizer, source.role, spec.name)
    path = Path(spec.target)
    with reading_errors(spec, "graph"):
        graph = (_onnx_graph if spec.kind == "onnx" else _openvino_graph)(path, torch.get_num_threads())
        digest = graph_sha256(path)
    network = ExportedNetwork(config, graph, source.role.kind, spec.name)
    network.train(False)
    with reading_errors(spec, "tokenizer"):
        words = fingerprint_tokenizer(tokenizer)
    sentences = read_sentence_files(spec)
    details = {
        "architecture": ", ".join(config.architectures or [config.model_type]),
        "tokenizer": words[:16],
        "dtype": _EXPORTED,
        "device": "cpu",
        "runtime": graph.runtime,
        **chat_template_details(tokenizer),
        **sentences.facts,
    }
    checkpoint = observed(network, tokenizer, source.role, spec.name, "cpu", sentences, graph.runtime)
    details.update(batch_details(checkpoint))
    content = json.dumps([digest, config_content(config), words, sentences.facts], sort_keys=True, default=str)
    fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return Model(spec.name, spec.spec, source.role, fingerprint, details, checkpoint)


def graph_sha256(path: Path) -> str:
    """Return the SHA-256 of a graph and of the files beside it that may hold its weights, with their names."""
    digest = hashlib.sha256()
    weights = [path.with_suffix(".bin")] if path.suffix == ".xml" else sorted(path.parent.iterdir())
    for file in [path, *(other for other in weights if other.is_file() and other.suffix not in _NO_WEIGHTS)]:
        digest.update(f"{file.name if file != path else ''} {file.stat().st_size}".encode())
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _onnx_graph(path: Path, threads: int) -> Graph:
    """Load a graph that onnxruntime runs on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # what matters is raised
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs = [_onnx_port(port) for port in session.get_outputs()]

    def run(fed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        return {port.name: value for port, value in zip(outputs, session.run(None, dict(fed)), strict=True)}

    inputs = [_onnx_port(port) for port in session.get_inputs()]
    return Graph(f"onnxruntime {onnxruntime.__version__}", inputs, outputs, run)


def _openvino_graph(path: Path, threads: int) -> Graph:
    """Load a graph that OpenVINO runs on the CPU, in float32 where it is not quantised: by default the processor would
    decide.
    """
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(str(path), "CPU", settings)
    request = compiled.create_infer_request()
    outputs = {_openvino_port(output): output for output in compiled.outputs}

    def run(fed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        request.reset_state()  # as the keys and values of a decoder: it begins anew
        results = request.infer(dict(fed))
        return {port.name: np.array(results[output]) for port, output in outputs.items()}

    inputs = [_openvino_port(port) for port in compiled.inputs]
    return Graph(f"openvino {openvino.__version__.partition('-')[0]}", inputs, list(outputs), run)


def _onnx_port(port: Any) -> Port:
    shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in port.shape)
    return Port(port.name, _TYPES.get(port.type, "float32"), shape)


def _openvino_port(port: Any) -> Port:
    shape = tuple(None if size.is_dynamic else size.get_length() for size in port.partial_shape)
    # Conversion leaves inner names beside the exporter's own, as /Concat_output_0.
    name = min(port.names, key=lambda n: (not n.replace(".", "_").isidentifier(), n), default="")
    return Port(name, port.element_type.to_dtype(), shape)
