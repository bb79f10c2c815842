"""Networks exported as a graph: an ``.onnx`` file (onnxruntime) or an OpenVINO ``.xml`` with its ``.bin`` (openvino),
each run by its library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pytest_genderbias.errors import ModelError, installing
from pytest_genderbias.models.source import config_folder

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

_PACKAGES = {"onnx": "onnxruntime", "openvino": "openvino"}
#: Files beside a graph that hold no weights of it: texts, and other graphs.
_NO_WEIGHTS = {
    ".json",
    ".jsonl",
    ".txt",
    ".md",
    ".py",
    ".jinja",
    ".model",
    ".yaml",
    ".yml",
    ".safetensors",
    ".onnx",
    ".xml",
}
_TYPES: dict[str, DTypeLike] = {
    "tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float)": "float32", "tensor(float16)": "float16",
    "tensor(bool)": "bool", "tensor(double)": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class Port:
    """An input or output of a graph. ``shape`` has ``None`` where the size is free."""

    name: str
    dtype: DTypeLike
    shape: tuple[int | None, ...]


class Graph(Protocol):
    """A loaded graph. ``runtime`` is the library with its version, as ``onnxruntime 1.23.0``."""

    @property
    def runtime(self) -> str: ...  # noqa: D102 - see the class

    @property
    def inputs(self) -> Sequence[Port]: ...  # noqa: D102

    @property
    def outputs(self) -> Sequence[Port]: ...  # noqa: D102

    def run(self, fed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        """Return every output by its name."""


def require_runtime(kind: str, name: str, graph: Path) -> None:
    """Refuse a graph whose library is not installed; ``name`` is the model's, for messages.

    Raises:
        ModelError: it is not, or config.json is missing.
    """
    package = _PACKAGES[kind]
    if find_spec(package) is None:
        raise ModelError(f"{name} is a graph that runs with {package}, not installed here: {installing(kind)}")
    if not (config_folder(graph) / "config.json").is_file():
        raise ModelError(
            f"{graph} has no config.json beside it or in the folder above; expected the folder that the export wrote,"
            " with the tokenizer"
        )


def open_graph(kind: str, path: Path, threads: int) -> Graph:
    """Load a graph for the CPU. What the library raises passes."""
    return OnnxGraph(path, threads) if kind == "onnx" else OpenVinoGraph(path, threads)


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


class OnnxGraph:
    """A graph that onnxruntime runs on the CPU."""

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4  # what matters is raised
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.runtime = f"onnxruntime {onnxruntime.__version__}"
        self.inputs = [_onnx_port(port) for port in self._session.get_inputs()]
        self.outputs = [_onnx_port(port) for port in self._session.get_outputs()]

    def run(self, fed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        """Return every output by its name."""
        values = self._session.run(None, dict(fed))
        return {port.name: value for port, value in zip(self.outputs, values, strict=True)}


class OpenVinoGraph:
    """A graph that OpenVINO runs on the CPU, in float32 where it is not quantised: by default the processor would
    decide.
    """

    def __init__(self, path: Path, threads: int) -> None:
        import openvino

        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
        compiled = openvino.Core().compile_model(str(path), "CPU", settings)
        self._request = compiled.create_infer_request()
        self._outputs = list(compiled.outputs)
        self.runtime = f"openvino {openvino.__version__.partition('-')[0]}"
        self.inputs = [_openvino_port(port) for port in compiled.inputs]
        self.outputs = [_openvino_port(port) for port in self._outputs]

    def run(self, fed: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        """Return every output by its name. A state, as the keys and values of a decoder, begins anew."""
        self._request.reset_state()
        results = self._request.infer(dict(fed))
        return {port.name: np.array(results[output]) for port, output in zip(self.outputs, self._outputs, strict=True)}


def _onnx_port(port: Any) -> Port:
    shape = tuple(size if isinstance(size, int) and size >= 0 else None for size in port.shape)
    return Port(port.name, _TYPES.get(port.type, "float32"), shape)


def _openvino_port(port: Any) -> Port:
    shape = tuple(None if size.is_dynamic else size.get_length() for size in port.partial_shape)
    # Conversion leaves inner names beside the exporter's own, as /Concat_output_0.
    name = min(port.names, key=lambda n: (not n.replace(".", "_").isidentifier(), n), default="")
    return Port(name, port.element_type.to_dtype(), shape)
