"""The baselines below our engine: the very batches that it passes through a network, and packed layers on and off."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from pytest_genderbias.scoring import network as networks
from pytest_genderbias.scoring.packed_layers import PackedLayers
from pytest_genderbias.scoring.parallel_batches import pass_side_by_side, plan, usable_threads

Batch = dict[str, Any]


def batches_of(network: Any, call: Callable[[], Any]) -> list[Batch]:
    """Return the inputs of the network during a call, without those of the trial of hooks, which is our engine's own
    work.
    """
    inputs: list[Batch] = []

    def record(module: Any, args: Any, kwargs: Batch) -> None:
        inputs.append(dict(kwargs))

    def untold(trial: Any, *given: Any) -> None:
        before = len(inputs)
        try_hooks(trial, *given)
        del inputs[before:]

    try_hooks = networks.Network._probe
    handle = network.register_forward_pre_hook(record, with_kwargs=True)
    try:
        with patch.object(networks.Network, "_probe", untold):
            call()
    finally:
        handle.remove()
    return inputs


def forward_all(network: Any, batches: list[Batch]) -> None:
    """Pass the batches through the network as torch does by itself, side by side as our engine does."""
    tokens = _tokens(batches)
    workers, threads, _ = plan(tokens, tokens, usable_threads())
    numbers = [np.array([number]) for number in range(len(batches))]

    def step(rows: Any) -> None:
        network(**batches[int(rows[0])])

    with torch.inference_mode():
        if workers == 1:
            for rows in numbers:
                step(rows)
            return
        failed, _ = pass_side_by_side(numbers, step, workers, threads)
    for _, error in failed:
        raise error


def forward_packed(network: Any, packed: PackedLayers, batches: list[Batch]) -> None:
    """Pass the batches through the network with packed layers."""
    with packed.in_use(_tokens(batches)):
        forward_all(network, batches)


def _tokens(batches: list[Batch]) -> int:
    return sum(int(inputs["input_ids"].numel()) for inputs in batches)


def one_at_a_time(call: Callable[[], Any]) -> None:
    """Call with one batch at a time in our engine, so that torch's threads share each operation."""
    with patch.object(networks, "usable_threads", lambda: 1):
        call()


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
