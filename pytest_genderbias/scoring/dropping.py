"""Hooks by which a network computes its last modules only at the positions that are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_genderbias.models.plain_tensors import is_quantised

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedModel

#: Gives a hook inside a ``with`` block.
Shortcut = Callable[[], AbstractContextManager[object]]
#: The hook that is in effect in this thread, and the positions that are read, shape (rows, positions).
_PASS: ContextVar[tuple[object, Tensor] | None] = ContextVar("_PASS", default=None)


def shortcuts(network: PreTrainedModel, vocabulary_head: bool) -> list[Shortcut]:
    """Return the ways to compute less that may suit a network, the one that saves most first. A classifier reads the
    first position.

    There are none in a quantised network, whose layers may scale a row by all positions of its batch.
    """
    from torch.nn import ModuleList
    from transformers import PreTrainedModel

    if isinstance(network, PreTrainedModel) and is_quantised(network):
        return []
    found: list[Shortcut] = []
    layers = _submodule(network.base_model, "encoder.layer")
    last = layers[-1] if isinstance(layers, ModuleList) and len(layers) else None
    if last is not None and (attention := _submodule(last, "attention")) is not None:
        found.append(partial(dropping, attention))
    return [*found, partial(dropping, network.base_model)] if vocabulary_head else found


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
    """Let a hook of :func:`dropping` take effect for calls in this thread.

    Args:
        hook: the hook; others stay without effect.
        where: positions that are read, shape (rows, positions).
    """
    token = _PASS.set((hook, where))
    try:
        yield
    finally:
        _PASS.reset(token)


@contextmanager
def dropping(module: Module) -> Iterator[object]:
    """Give a hook by which a module returns its hidden state at the positions of :func:`reading` only. Other calls, as
    of another thread, return it whole.
    """
    import torch

    hook = object()

    def keep(module: Module, args: object, output: Any) -> Any:
        here = _PASS.get()
        if here is None or here[0] is not hook:
            return output
        if isinstance(output, tuple):
            return (at_positions(output[0], here[1]), *output[1:])
        if isinstance(output, torch.Tensor):
            return at_positions(output, here[1])
        output.last_hidden_state = at_positions(output.last_hidden_state, here[1])
        return output

    handle = module.register_forward_hook(keep)
    try:
        yield hook
    finally:
        handle.remove()


def at_positions(hidden: Tensor, where: Tensor) -> Tensor:
    """Return hidden states, shape (rows, tokens, features), at some positions of each row, shape (rows, positions)."""
    return hidden.gather(1, where[:, :, None].expand(-1, -1, hidden.shape[-1]))
