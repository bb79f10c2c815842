"""A graph of onnxruntime or OpenVINO in the place of a transformers network: token ids in, logits or hidden states
out.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from pytest_genderbias.engines.exported import Graph, Port
from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.config import labels_of
from pytest_genderbias.models.roles import CAUSAL_LM, ENCODER, MASKED_LM

_IDS, _TYPES, _PAST = "input_ids", "token_type_ids", "past_key_values"
#: Inputs that are fed: the ids, what follows from them, and the empty past of a decoder.
_FED = (_IDS, "attention_mask", _TYPES, "position_ids", "beam_idx", "use_cache_branch")


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
        return {
            port.name: known[port.name].astype(port.dtype) if port.name in known else _no_past(port, n)
            for port in self.graph.inputs
        }

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


def _no_past(port: Port, rows: int) -> NDArray[np.generic]:
    """Return the empty past of a decoder: the free axes but the first are those of earlier tokens."""
    shape = [rows if axis == 0 else size or 0 for axis, size in enumerate(port.shape)]
    return np.zeros(shape, dtype=port.dtype)
