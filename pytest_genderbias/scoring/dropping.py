"""Hooks by which a network computes its last modules at the positions that are read, and drops the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

from pytest_genderbias.models.number_format import is_quantised

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel

#: The hook that drops positions of the rows that this thread passes, as :func:`dropping` gives it, and the positions that it keeps: shape (rows, positions).
_READ: ContextVar[tuple[object, Tensor] | None] = ContextVar("_READ", default=None)


class _ModelOutput(Protocol):
    """The output of a transformers module that has a hidden state."""

    last_hidden_state: Tensor


def modules_before_dropping(network: PreTrainedModel, vocabulary_head: bool) -> list[Module]:
    """Return the modules after which positions may be dropped, the earliest first. A classifier reads the first position.

    There are none in an exported graph, nor in a quantised network, whose layers may scale a row by all positions of its batch.
    """
    from torch.nn import ModuleList
    from transformers import PreTrainedModel

    from pytest_genderbias.models.networks.exported import ExportedNetwork

    if isinstance(network, ExportedNetwork) or (isinstance(network, PreTrainedModel) and is_quantised(network)):
        return []
    layers = _submodule(network.base_model, "encoder.layer")
    attention = _submodule(layers[-1], "attention") if isinstance(layers, ModuleList) and len(layers) else None
    return [module for module in (attention, network.base_model if vocabulary_head else None) if module is not None]


def _submodule(module: Module, name: str) -> Module | None:
    try:
        return module.get_submodule(name)
    except AttributeError:
        return None


@contextmanager
def keeping(module: Module, where: Tensor) -> Iterator[None]:
    """Make a module return its hidden state at some positions only."""
    with dropping(module) as hook, reading(hook, where):
        yield


@contextmanager
def reading(hook: object, where: Tensor) -> Iterator[None]:
    """Name the positions that the module of a hook of :func:`dropping` keeps, for calls in this thread."""
    token = _READ.set((hook, where))
    try:
        yield
    finally:
        _READ.reset(token)


@contextmanager
def dropping(module: Module) -> Iterator[object]:
    """Give a hook by which a module returns its hidden state at the positions of :func:`reading` only. Other calls, as of another thread, return it whole."""
    import torch

    hook = object()

    def keep(
        module: Module, args: object, output: Tensor | tuple[Tensor, ...] | _ModelOutput
    ) -> Tensor | tuple[Tensor, ...] | _ModelOutput:
        wanted, where = _READ.get() or (None, None)
        if wanted is not hook or where is None:
            return output
        if isinstance(output, tuple):
            return (at_positions(output[0], where), *output[1:])
        if isinstance(output, torch.Tensor):
            return at_positions(output, where)
        output.last_hidden_state = at_positions(output.last_hidden_state, where)
        return output

    handle = module.register_forward_hook(keep)
    try:
        yield hook
    finally:
        handle.remove()


def at_positions(hidden: Tensor, where: Tensor) -> Tensor:
    """Return hidden states, shape (rows, tokens, features), at some positions of each row, shape (rows, positions)."""
    return hidden.gather(1, where[:, :, None].expand(-1, -1, hidden.shape[-1]))
