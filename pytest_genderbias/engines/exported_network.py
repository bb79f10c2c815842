"""A graph in the place of a transformers network: token ids in, logits or hidden states out. An ``.onnx`` file is run
by onnxruntime, an OpenVINO ``.xml`` with its ``.bin`` by openvino.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.config import labels_of
from pytest_genderbias.models.roles import CAUSAL_LM, ENCODER, MASKED_LM

_IDS, _TYPES, _PAST = "input_ids", "token_type_ids", "past_key_values"
#: Inputs that are fed: the ids, what follows from them, and the empty past of a decoder.
_FED = (_IDS, "attention_mask", _TYPES, "position_ids", "beam_idx", "use_cache_branch")
#: Files beside a graph that hold no weights of it: texts, and other graphs.
_NO_WEIGHTS = {".json", ".jsonl", ".txt", ".md", ".py", ".jinja", ".model", ".yaml", ".yml"}
_NO_WEIGHTS |= {".safetensors", ".onnx", ".xml"}
_DTYPES: dict[str, DTypeLike] = {
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


class ExportedNetwork(PreTrainedModel):  # type: ignore[no-untyped-call]
    """Runs a graph on the CPU. It has no layers: nothing reads, changes, copies or trains its weights."""

    config_class = PreTrainedConfig
    base_model_prefix = ""

    def __init__(self, config: PreTrainedConfig, graph: Graph, kind: str, name: str) -> None:
        """Check that the graph answers as the role needs; ``name`` is the model's, for messages.

        Raises:
            ModelError: an input is unknown or has a fixed size, or no output fits the config.
        """
        config = deepcopy(config)
        config._attn_implementation = "eager"  # there is no attention to choose
        super().__init__(config)
        self.graph, self._kind, self._name = graph, kind, name
        self.register_buffer("_device_of", torch.zeros(0), persistent=False)
        names = [port.name for port in graph.inputs]
        unknown = [port for port in names if port not in _FED and not port.startswith(_PAST)]
        if unknown or _IDS not in names:
            raise ModelError(
                f"the graph of {name} has the inputs {', '.join(names)}; expected {_IDS} and any of"
                f" {', '.join(_FED[1:])}, {_PAST}: export it for its task, without an encoder or a tokenizer of its own"
            )
        fixed = [
            port for port in graph.inputs if port.name in _FED[:4] and any(size is not None for size in port.shape)
        ]
        if fixed:
            shape = " x ".join("?" if size is None else str(size) for size in fixed[0].shape)
            raise ModelError(
                f"the graph of {name} reads only batches of {shape} tokens; export it with free batch and sequence axes"
            )
        self._output = self._port()
        if self._output.shape and self._output.shape[-1] is not None:
            self._check_width(self._output.shape[-1])

    @property
    def gives_hidden_states(self) -> bool:
        """Whether the output is the last hidden state instead of logits."""
        return self._kind == ENCODER

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> CausalLMOutput | BaseModelOutput:
        """Return logits, or the last hidden state of an encoder.

        Raises:
            ModelError: the graph fails, its output has another size than the config says, or it does not read token
                types that are not 0.
        """
        fed = self._fed(_array(input_ids), attention_mask, token_type_ids)
        try:
            output = self.graph.run(fed)[self._output.name]
        except Exception as error:  # of the libraries, each with classes of its own
            text = " ".join(str(error).split())
            if "alloc" in text.lower():
                raise RuntimeError(f"can't allocate memory: {text}") from None
            raise ModelError(
                f"the graph of {self._name} fails on {len(input_ids)} rows: {text:.300}; export it again"
            ) from None
        self._check_width(output.shape[-1])
        values = torch.from_numpy(np.asarray(output, dtype=np.float32))
        return BaseModelOutput(last_hidden_state=values) if self._kind == ENCODER else CausalLMOutput(logits=values)

    def get_input_embeddings(self) -> NoReturn:
        """Refuse: the graph does not show them."""
        self.refuse("input embeddings")

    def save_pretrained(self, *args: object, **kwargs: object) -> NoReturn:
        """Refuse: copy the folder."""
        self.refuse("weights to save")

    def __deepcopy__(self, memo: object) -> NoReturn:  # noqa: D105
        self.refuse("weights to change or train")

    def refuse(self, what: str) -> NoReturn:
        """Say that an exported graph lacks something.

        Raises:
            NotApplicableError: always.
        """
        raise NotApplicableError(
            f"{self._name} is an exported graph, which has no {what}; give the checkpoint that it was exported from"
        )

    def _fed(self, ids: NDArray[np.int64], mask: Tensor | None, types: Tensor | None) -> dict[str, NDArray[np.generic]]:
        n, longest = ids.shape
        known: dict[str, NDArray[np.generic]] = {
            _IDS: ids,
            "attention_mask": np.ones_like(ids) if mask is None else _array(mask),
            _TYPES: np.zeros_like(ids) if types is None else _array(types),
            "position_ids": np.ascontiguousarray(np.broadcast_to(np.arange(longest), ids.shape)),
            "beam_idx": np.arange(n),
            "use_cache_branch": np.zeros(1),
        }
        if types is not None and bool(types.any()) and all(port.name != _TYPES for port in self.graph.inputs):
            raise ModelError(
                f"the graph of {self._name} does not read {_TYPES}, which its tokenizer uses to tell two texts apart;"
                " export it with that input"
            )
        fed = {}
        for port in self.graph.inputs:
            # Of the empty past of a decoder, the free axes but the first are those of earlier tokens.
            shape = [n if axis == 0 else size or 0 for axis, size in enumerate(port.shape)]
            value = known.get(port.name)
            fed[port.name] = np.zeros(shape, dtype=port.dtype) if value is None else value.astype(port.dtype)
        return fed

    def _port(self) -> Port:
        """Return the output that is read: by its name, or the only one."""
        name = "last_hidden_state" if self._kind == ENCODER else "logits"
        ports = {port.name: port for port in self.graph.outputs}
        rank = 3 if self._kind in (ENCODER, MASKED_LM, CAUSAL_LM) else 2
        port = ports.get(name) or (
            self.graph.outputs[0] if len(ports) == 1 and not {"last_hidden_state", "logits"} & set(ports) else None
        )
        if port is None or (port.shape and len(port.shape) != rank):
            raise ModelError(
                f"the graph of {self._name} gives {', '.join(ports)}, not the {name} of"
                f" {', '.join(self.config.architectures or [])}; export it for the task that its config names"
            )
        return port

    def _check_width(self, width: int) -> None:
        if self._kind in (MASKED_LM, CAUSAL_LM):
            expected, what = self.config.get_text_config().vocab_size, "tokens"
        elif self._kind == ENCODER:
            return
        else:
            expected, what = len(labels_of(self.config)), "labels"
        if width != expected:
            raise ModelError(
                f"the graph of {self._name} scores {width} {what}, its config.json has {expected}; they do not belong"
                " together: export it again"
            )


def _array(tensor: Tensor) -> NDArray[np.int64]:
    return np.ascontiguousarray(tensor.cpu().numpy())


def open_graph(kind: str, path: Path, threads: int) -> Graph:
    """Load a graph for the CPU. What the library raises passes."""
    return (_onnx_graph if kind == "onnx" else _openvino_graph)(path, threads)


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
    return Port(port.name, _DTYPES.get(port.type, "float32"), shape)


def _openvino_port(port: Any) -> Port:
    shape = tuple(None if size.is_dynamic else size.get_length() for size in port.partial_shape)
    # Conversion leaves inner names beside the exporter's own, as /Concat_output_0.
    name = min(port.names, key=lambda n: (not n.replace(".", "_").isidentifier(), n), default="")
    return Port(name, port.element_type.to_dtype(), shape)
