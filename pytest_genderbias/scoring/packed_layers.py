"""Linear layers with packed weights: a faster way to multiply on some processors, used only while a network is scored.

torch multiplies float32 matrices on a CPU with MKL. oneDNN, which torch contains too, multiplies with weights whose
layout was changed once (packed), and is faster on AMD processors with AVX-512 and for wide layers. Scores differ by
rounding only: at most 3e-6 of a probability and 2e-5 of a log-probability on the models that were measured
(docs/evidence/speed.md), as by another number of threads. So stored scores stay valid, and signatures do not name it.

The layers of a network belong to whoever trains, saves, copies or counts them. So nothing is changed in the network:
inside a ``with`` block each layer gets another ``forward``, and loses it at the end of the block, also after an error.
Packed weights belong to one scorer and are dropped with it. A weight that changed since is packed again, unless it was
changed in place through ``weight.data``, which torch does not count.
"""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from threading import Lock
from timeit import timeit
from typing import TYPE_CHECKING

from pytest_genderbias.scoring.parallel_batches import one_thread

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Linear, Module

_FEWEST_TOKENS = 512  #: fewer tokens do not earn the time to pack
_SMALLEST = 1 << 16  #: weights of the smallest layer that is packed; smaller ones are as fast as they are
_LEAST_WORK = 1 << 22  #: multiply-adds of the smallest call with packed weights
_MOST_BYTES = 2 << 30  #: of all packed weights of a network; layers beyond keep the ordinary way
_ROWS = 1024  #: the layout is the best one for about so many rows
_NEAR = 1e-4  #: largest difference between the two ways, relative to the largest output
_TRIAL_WORK, _TRIAL_OUTPUTS, _TRIALS = 1 << 23, 4096, 4
#: How much faster the packed way should be in the trial. MKL uses half the width of AMD's AVX-512, so on these
#: processors a trial only has to not contradict. Elsewhere both should be about equally fast, which was not measured:
#: no other processor was at hand.
#: Ratios measured on AMD are far from the number, so the load of the machine does not decide and runs repeat to the
#: last bit.
_RATIO_ON_AMD, _RATIO = 0.9, 1.25

#: Held while layers take their places and leave them, since several threads may score with one network.
_CHANGING = Lock()
_Shape = tuple[int, int]  #: inputs and outputs of a layer


class PackedLayers:
    """Packed copies of the weights of a network's linear layers, at most 2 GiB. They are made when they are first used.

    Only layers that are plain ``torch.nn.Linear`` in float32 on the CPU are packed, in evaluation mode, without
    parametrisation or foreign hooks before them. A GELU that a module of transformers applies to the output of such a
    layer is computed together with it.
    """

    def __init__(self, network: object) -> None:
        self._network = network
        self._layers: dict[Module, _PackedLayer] | None = None

    @contextmanager
    def in_use(self, tokens: int) -> Iterator[None]:
        """Let the network multiply with packed weights inside a ``with`` block, in inference mode, if that is faster
        here.

        Args:
            tokens: how many tokens are passed through the network; for a few nothing is packed.
        """
        layers = self._current() if tokens >= _FEWEST_TOKENS and _can_pack() else {}
        with _CHANGING:
            used = [in_place for layer in layers.values() if (in_place := layer.put_in_place()) is not None]
        try:
            yield
        finally:
            with _CHANGING:
                for in_place in used:
                    in_place.leave()

    def _current(self) -> dict[Module, _PackedLayer]:
        """Return the packed layers by the module whose ``forward`` they replace. If a weight changed, all is decided
        and packed again.
        """
        if self._layers is None or not all(layer.is_current for layer in self._layers.values()):
            plain = _plain_layers(self._network)
            shapes = Counter((layer.in_features, layer.out_features) for layer in plain)
            modules = _with_gelu(self._network, plain) if pays(shapes) else {}
            self._layers = {
                module: _PackedLayer(
                    module, linear, _pack(linear.weight), linear.weight.data_ptr(), linear.weight._version
                )
                for module, linear in modules.items()
            }
        return self._layers


@dataclass(eq=False)
class _PackedLayer:
    """A linear layer with its packed weight; called in place of the ``forward`` of ``module``: the layer, or one that
    applies GELU to it.

    ``users``: blocks of :meth:`PackedLayers.in_use` that need it in its place, each in a thread of its own or within
    another.
    """

    module: Module
    linear: Linear
    weight: Tensor
    address: int
    version: int
    users: int = 0

    def put_in_place(self) -> _PackedLayer | None:
        """Take the place of the module's ``forward``, and return the layer that is there: that of another block if one
        has the same weight.

        ``None`` if the module has a ``forward`` of somebody else.
        """
        there = vars(self.module).setdefault("forward", self)
        if not isinstance(there, _PackedLayer):
            return None
        in_place = there if there.is_current else self
        vars(self.module)["forward"] = in_place
        in_place.users += 1
        return in_place

    def leave(self) -> None:
        """Give the module its own ``forward`` back, unless another block needs this layer."""
        self.users -= 1
        if not self.users and vars(self.module).get("forward") is self:
            del vars(self.module)["forward"]

    @property
    def is_current(self) -> bool:
        """Whether the layer's weight is as it was when it was packed."""
        weight = self.linear.weight
        return (self.address, self.version) == (weight.data_ptr(), weight._version)

    def __call__(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
        """Return the output of the module. Small inputs and other threads, which may be training, get the ordinary
        way.
        """
        import torch

        if (
            len(args) != 1
            or kwargs
            or self.module.training
            or args[0].dtype != torch.float32
            or args[0].numel() * self.linear.out_features < _LEAST_WORK
            or not torch.is_inference_mode_enabled()
            or torch.is_autocast_enabled("cpu")
        ):
            ordinary: Tensor = type(self.module).forward(self.module, *args, **kwargs)
            return ordinary
        return _multiply(args[0], self.weight, self.linear.bias, gelu=self.module is not self.linear)


def pays(shapes: Counter[_Shape]) -> bool:
    """Return whether packed layers are faster here, from a trial of each shape, which takes tens of milliseconds and is
    made once a process.

    Args:
        shapes: number of layers of each shape.
    """
    ordinary = packed = 0.0
    for shape, count in shapes.items():
        seconds = _trial(*shape)
        if seconds is None:
            return False
        ordinary += count * seconds[0]
        packed += count * seconds[1]
    return bool(shapes) and ordinary / packed >= (_RATIO_ON_AMD if _is_amd_with_avx512() else _RATIO)


@lru_cache(maxsize=256)
def _trial(inputs: int, outputs: int) -> tuple[float, float] | None:
    """Return the seconds of the ordinary and of the packed way for a shape, or ``None`` if they disagree or there is no
    packed way.

    Of the time of the processor, with one thread: so other processes do not decide. Of a very wide layer, a part is
    tried.
    """
    import torch
    from torch.nn.functional import linear

    outputs = min(outputs, _TRIAL_OUTPUTS)
    rows = max(16, _TRIAL_WORK // (inputs * outputs))
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator) for shape in ((rows, inputs), (outputs, inputs), (outputs,))
    )
    try:
        with one_thread(), torch.inference_mode():
            ordinary, packed = partial(linear, x, weight, bias), partial(_multiply, x, _pack(weight), bias)
            expected, output = ordinary(), packed()
            if not bool((expected - output).abs().max() <= _NEAR * expected.abs().max()):
                return None
            # Windows counts the time of a thread in steps of 16 ms.
            clock = time.perf_counter if os.name == "nt" else time.thread_time
            # In turn, so that a machine that gets slower meanwhile does so for both.
            times = [[timeit(call, timer=clock, number=1) for call in (ordinary, packed)] for _ in range(_TRIALS)]
    except (RuntimeError, NotImplementedError):  # of operators that are there and do not work on this processor
        return None
    slower, faster = map(min, zip(*times, strict=True))
    return slower, faster


def _can_pack() -> bool:
    """Return whether torch has the operators, which are not public, and its user has not switched oneDNN off."""
    import torch

    onednn = torch.backends.mkldnn
    return bool(
        onednn.is_available()  # type: ignore[no-untyped-call]
        and onednn.enabled
        and all(hasattr(torch.ops.mkldnn, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )


@cache
def _is_amd_with_avx512() -> bool:
    import torch

    facts = Path("/proc/cpuinfo")
    vendor = facts.read_text(errors="replace")[:4096] if facts.is_file() else platform.processor()
    return "AuthenticAMD" in vendor and torch.backends.cpu.get_cpu_capability() == "AVX512"


def _pack(weight: Tensor) -> Tensor:
    import torch

    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _ROWS)
    return packed


def _multiply(x: Tensor, packed: Tensor, bias: Tensor | None, gelu: bool = False) -> Tensor:
    import torch

    attribute, algorithm = ("gelu", "none") if gelu else ("none", "")
    output: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, attribute, [], algorithm)
    return output


#: What a module has as a ``forward`` of its own where nobody else replaced it: nothing, or the packed layer of another
#: block.
_NOT_REPLACED = (type(None), _PackedLayer)


def _plain_layers(network: object) -> list[Linear]:
    """Return the linear layers that may be packed, in the order of the network, as many as memory allows: those that
    compute with their own float32 weight on the CPU, in evaluation mode, and are worth packing.
    """
    import torch

    layers: list[Linear] = []
    free = _MOST_BYTES
    for module in network.modules() if isinstance(network, torch.nn.Module) else ():
        if type(module) is not torch.nn.Linear:
            continue
        weight = dict(module.named_parameters(recurse=False)).get("weight")
        if (
            type(weight) is torch.nn.Parameter  # not the weight of a pruned, parametrised or quantised layer
            and weight.dtype == torch.float32
            and weight.device.type == "cpu"
            and weight.layout == torch.strided
            and not weight.is_inference()  # its changes are not counted
            and weight.numel() >= _SMALLEST
            and not module.training
            and not module._forward_pre_hooks
            and isinstance(vars(module).get("forward"), _NOT_REPLACED)
            and 4 * weight.numel() <= free
        ):
            layers.append(module)
            free -= 4 * weight.numel()
    return layers


def _with_gelu(network: object, layers: list[Linear]) -> dict[Module, Linear]:
    """Return the layer of each module whose ``forward`` is replaced: the layer itself, or a module that only applies
    GELU to it.
    """
    from torch.nn import Module

    found: dict[Module, Linear] = {layer: layer for layer in layers}
    for module in network.modules() if isinstance(network, Module) else ():
        dense = dict(module.named_children()).get("dense")
        if dense in found and _only_applies_gelu(module):
            found[module] = found.pop(dense)
    return found


def _only_applies_gelu(module: Module) -> bool:
    """Return whether a module consists of ``dense`` and the exact GELU, as BERT's intermediate layer does, with nothing
    that watches them.

    The code of the module is not read: its output for random inputs is compared with that of the two.
    """
    import torch
    from torch.nn.functional import gelu
    from transformers.activations import GELUActivation

    parts = dict(module.named_children())
    if parts.keys() != {"dense", "intermediate_act_fn"} or type(parts["intermediate_act_fn"]) is not GELUActivation:
        return False
    watched = any(part._forward_hooks or part._forward_pre_hooks for part in parts.values())
    plain = all(isinstance(vars(one).get("forward"), _NOT_REPLACED) for one in (module, *parts.values()))
    if watched or not plain or module.training:
        return False
    dense = parts["dense"]
    x = torch.randn((2, 3, int(dense.get_parameter("weight").shape[1])), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        expected, output = gelu(dense(x)), type(module).forward(module, x)
    return bool(torch.is_tensor(output) and output.shape == expected.shape and torch.equal(output, expected))
