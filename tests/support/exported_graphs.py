"""Graphs of tiny networks, exported with torch alone, and folders with a graph, config and tokenizer as exporters write
them.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from support.tiny_checkpoints import make_network, tokenizer
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

_FREE = {0: "batch", 1: "sequence"}


class _Answer(torch.nn.Module):
    """Gives the output of a network that its role needs, as a plain tensor."""

    def __init__(self, network: PreTrainedModel, names: list[str], output: str) -> None:
        super().__init__()
        self.network, self.names, self.output = network, names, output

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        fed = dict(zip(self.names, inputs, strict=True))
        if "llama" in self.network.config.model_type:
            fed["use_cache"] = False
        return self.network(**fed)[self.output]


class _WithPast(torch.nn.Module):
    """A decoder as exporters of generating models write it: keys and values of earlier tokens in and out."""

    def __init__(self, network: PreTrainedModel) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        output = self.network(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
        )
        return (
            output.logits,
            *(state for layer in output.past_key_values.layers for state in (layer.keys, layer.values)),
        )


def _export(
    module: torch.nn.Module,
    inputs: dict[str, torch.Tensor],
    outputs: list[str],
    path: Path,
    axes: dict[str, dict[int, str]],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing, and of the exporter that needs no further package
        try:
            torch.onnx.export(
                module.eval(),
                tuple(inputs.values()),
                str(path),
                input_names=list(inputs),
                output_names=outputs,
                dynamic_axes=axes,
                dynamo=False,
            )
        except IndexError:  # of masks, in transformers 5.7
            pytest.skip("this version of transformers cannot be traced, so that torch writes no graph of its networks")


def _write_rest(network: PreTrainedModel, words: PreTrainedTokenizerBase, folder: Path) -> None:
    network.config.architectures = [type(network).__name__]
    network.config.save_pretrained(folder)
    words.save_pretrained(folder)


def write_graph(
    kind: str,
    folder: Path,
    name: str = "model.onnx",
    types: bool = True,
    output: str = "logits",
    fixed: bool = False,
    network: PreTrainedModel | None = None,
) -> PreTrainedModel:
    """Write the graph of a tiny network (of the kind, or the given one), its config and its tokenizer; return the
    network.
    """
    network = network or make_network(kind, attn_implementation="eager")
    words = tokenizer(kind.removesuffix("-nli"))
    exported = network if output == "logits" else network.base_model
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types and kind.startswith("bert") else [])]
    ids = torch.arange(10, 24).reshape(2, 7)
    inputs = dict(zip(names, (ids, torch.tensor([[1] * 7, [1] * 5 + [0] * 2]), torch.zeros_like(ids)), strict=False))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    _export(
        _Answer(exported, names, output), inputs, [output], folder / name, {} if fixed else dict.fromkeys(names, _FREE)
    )
    _write_rest(exported, words, folder)
    return network


def write_decoder(folder: Path) -> PreTrainedModel:
    """Write the graph of a tiny Llama with keys and values of earlier tokens as inputs; return the network."""
    network = make_network("llama", attn_implementation="eager")
    config = network.config
    past = [
        torch.zeros(2, config.num_key_value_heads, 3, config.hidden_size // config.num_attention_heads)
        for _ in range(2 * config.num_hidden_layers)
    ]
    names = [f"past_key_values.{i // 2}.{'key' if i % 2 == 0 else 'value'}" for i in range(len(past))]
    ids = torch.arange(10, 20).reshape(2, 5)
    inputs = {
        "input_ids": ids,
        "attention_mask": torch.ones(2, 8, dtype=torch.long),
        "position_ids": torch.arange(3, 8).repeat(2, 1),
    }
    axes = dict.fromkeys(inputs, _FREE) | {name: {0: "batch", 2: "past"} for name in names}
    outputs = ["logits", *(name.replace("past_key_values", "present") for name in names)]
    folder.mkdir(parents=True)
    _export(_WithPast(network), inputs | dict(zip(names, past, strict=True)), outputs, folder / "model.onnx", axes)
    _write_rest(network, tokenizer("llama"), folder)
    return network
