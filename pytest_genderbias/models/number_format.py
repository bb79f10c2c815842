"""The number format of a network's weights, also of a quantised one, whose ``dtype`` is that of the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_genderbias.models.plain_tensors import packed_entries, parts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FLOATS = ("float64", "float32", "float16", "bfloat16")


def number_format(network: PreTrainedModel) -> str:
    """Return the number format of the weights, as ``float32``; of a quantised network all of them, as ``qint8 and float32``."""
    import torch

    formats = {part.dtype for name, tensor in network.named_parameters() for _, part in parts(name, tensor)}
    # Quantised modules of torch keep their weights packed, with the dtype as an entry of their state.
    formats |= {entry for entry in packed_entries(network).values() if isinstance(entry, torch.dtype)}
    names = sorted(str(dtype).removeprefix("torch.") for dtype in formats)
    quantised = [name for name in names if name not in _FLOATS and name != "bool"]
    own = str(network.dtype).removeprefix("torch.")
    return " and ".join(dict.fromkeys([*quantised, own])) if quantised else own


def is_quantised(network: PreTrainedModel) -> bool:
    """Return whether a network has weights in another format than a floating-point one."""
    return any(part not in _FLOATS for part in number_format(network).split(" and "))
