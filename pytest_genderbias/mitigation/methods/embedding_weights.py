"""The weights of a network's input and output embeddings, with their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def input_weight(network: PreTrainedModel) -> torch.Tensor:
    """Return the weight of the input embeddings, shape (vocabulary, dim); not a copy."""
    return _weight_of(network.get_input_embeddings())


def output_weight(network: PreTrainedModel) -> torch.Tensor | None:
    """Return the weight of the output embeddings, shape (vocabulary, dim), or ``None`` if the network has none; not a
    copy.
    """
    layer: torch.nn.Module | None = network.get_output_embeddings()  # type: ignore[no-untyped-call]
    return None if layer is None else _weight_of(layer)


def _weight_of(layer: torch.nn.Module) -> torch.Tensor:
    import torch

    weight = layer.weight
    assert isinstance(weight, torch.Tensor)
    return weight
