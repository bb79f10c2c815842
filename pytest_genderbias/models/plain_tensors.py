"""The weights of a network as plain tensors, and their number format. Weights that torchao, bitsandbytes and torch keep
packed are taken apart, since their ``dtype`` is that of the other weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel

#: Capabilities of an x86 processor, as torch names them, one of which is needed to multiply numbers in bfloat16.
_BFLOAT16 = ("avx512_bf16", "amx_bf16")
_FLOATS = ("float64", "float32", "float16", "bfloat16")


def plain_tensors(network: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield name and content of every parameter and buffer, each once, in the order of their names. A packed one of
    torchao gives its parts, as ``weight.scale``. One that accelerate keeps elsewhere is read, and holds until the next.
    """
    names = {name for named in (network.named_parameters(), network.named_buffers()) for name, _ in named}
    tied = getattr(network, "all_tied_weights_keys", {})
    for name in sorted(names):
        owner, _, own = name.rpartition(".")
        module = network.get_submodule(owner)
        if not hasattr(module, "_hf_hook"):
            yield from parts(name, getattr(module, own))
        elif tied.get(name) not in names:  # what is kept elsewhere is no longer one tensor
            from accelerate.utils import align_module_device

            with align_module_device(module):
                yield from parts(name, getattr(module, own))


def floats_of(network: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield name and content of the parameters and their packed parts that hold floating-point numbers; 8-bit ones as
    float32.
    """
    import torch

    packed = ((name, value) for name, value in packed_entries(network).items() if isinstance(value, torch.Tensor))
    buffers = {name for name, _ in network.named_buffers()}
    named = ((name, tensor) for name, tensor in plain_tensors(network) if name not in buffers)
    for name, tensor in chain(named, packed):
        if tensor.is_floating_point():
            yield name, tensor.float() if tensor.element_size() == 1 else tensor


def packed_entries(network: Module) -> dict[str, object]:
    """Return the entries of a network's state that are neither parameters nor buffers; empty for a network of plain
    tensors.

    bitsandbytes keeps the scales of its weights there (tensors), and torch's own quantisation the weights themselves
    (tuples), with their dtype.
    """
    known = {name for name, _ in network.named_parameters(remove_duplicate=False)}
    known |= {name for name, _ in network.named_buffers(remove_duplicate=False)}
    return {name: value for name, value in network.state_dict().items() if name not in known}


def entry_bytes(value: object) -> Iterator[bytes]:
    """Yield what tells one entry of a state from another: type, shape and bytes of a tensor, the text of another
    value.
    """
    import torch

    if isinstance(value, tuple):
        for part in value:
            yield from entry_bytes(part)
        return
    if not isinstance(value, torch.Tensor):
        yield repr(value).encode()
        return
    tensor = value.detach()
    if tensor.is_quantized:
        per_channel = tensor.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric)
        scales = (tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()) if per_channel else ()
        yield from entry_bytes(scales or (tensor.q_scale(), tensor.q_zero_point()))
        tensor = tensor.int_repr()
    yield f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    yield tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()


def parts(name: str, tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the plain tensors of a tensor: itself, or those of a subclass that wraps others, by torch's protocol for
    them.
    """
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    if not is_traceable_wrapper_subclass(tensor):
        yield name, tensor
        return
    for part in tensor.__tensor_flatten__()[0]:
        yield from parts(f"{name}.{part}", getattr(tensor, part))


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
