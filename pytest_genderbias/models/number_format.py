"""The number format of a network's weights, also of a quantised one, whose ``dtype`` is that of the rest; and whether a
CPU computes in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_genderbias.models.plain_tensors import packed_entries, parts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: Capabilities of an x86 processor, as torch names them, one of which is needed to multiply numbers in bfloat16.
_BFLOAT16 = ("avx512_bf16", "amx_bf16")
_FLOATS = ("float64", "float32", "float16", "bfloat16")


def number_format(network: PreTrainedModel) -> str:
    """Return the number format of the weights, as ``float32``; of a quantised network all of them, as
    ``qint8 and float32``.
    """
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


def slow_format(name: str, device: str, capabilities: Mapping[str, object] | None = None) -> str | None:
    """Return a warning that an x86 CPU has no instructions for bfloat16, or ``None``.

    torch then converts each number, which took 2.2 times as long as float32 with AVX-512, and 3.7 times with AVX2
    (docs/evidence/speed.md).

    Args:
        name: the number format, as ``bfloat16``.
        device: where the network is, as ``cpu``.
        capabilities: of the processor, by their names in torch; by default of this one. If torch cannot tell them,
            nothing is said.
    """
    import torch

    if "bfloat16" not in name or not device.startswith("cpu"):
        return None
    if capabilities is None:
        try:
            capabilities = torch.cpu.get_capabilities()
        except AttributeError:  # newer than the oldest torch that is supported
            capabilities = {}
    if capabilities.get("architecture") != "x86_64" or any(capabilities.get(one) for one in _BFLOAT16):
        return None
    return (
        "this CPU has no instructions for bfloat16, so scoring takes several times as long as in float32; use"
        " --bias-dtype=float32, or a GPU"
    )
