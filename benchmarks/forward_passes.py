"""The baselines below our engine: the very batches that it passes through a network, and packed layers on and off."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pytest_genderbias.scoring.packed_layers import PackedLayers

Batch = dict[str, Any]


def batches_of(network: Any, call: Callable[[], Any]) -> list[Batch]:
    """Return the inputs of the network during a call, including a few rows for the label check and the layout check."""
    inputs: list[Batch] = []
    handle = network.register_forward_pre_hook(
        lambda module, args, kwargs: inputs.append(dict(kwargs)), with_kwargs=True
    )
    try:
        call()
    finally:
        handle.remove()
    return inputs


@torch.inference_mode()
def forward_all(network: Any, batches: list[Batch]) -> None:
    """Pass the batches through the network as torch does by itself."""
    for inputs in batches:
        network(**inputs)


def forward_packed(network: Any, packed: PackedLayers, batches: list[Batch]) -> None:
    """Pass the batches through the network with packed layers."""
    tokens = sum(int(inputs["input_ids"].numel()) for inputs in batches)
    with torch.inference_mode(), packed.in_use(tokens):
        for inputs in batches:
            network(**inputs)


@contextmanager
def without_packing() -> Iterator[None]:
    """Let our engine multiply as torch does by itself, inside a ``with`` block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the switch, about GPUs of another kind
        with torch.backends.mkldnn.flags(enabled=False):
            yield


def unpacked(call: Callable[[], Any]) -> None:
    """Call without packing."""
    with without_packing():
        call()
