"""The vocabulary head of a masked LM in training: compute it at labelled positions only, and reinitialise it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TYPE_CHECKING, Protocol, cast

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.source import quiet_transformers

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.utils.hooks import RemovableHandle
    from transformers import PreTrainedModel

UNLABELLED = -100  #: label of positions that the loss ignores, as in transformers
_NEAR = 1e-4


class _EncoderOutput(Protocol):
    """The output of a transformers encoder."""

    last_hidden_state: Tensor


@contextmanager
def head_at_labels(network: PreTrainedModel) -> Iterator[bool]:
    """Make a network compute its vocabulary head at labelled positions only: with 15 % masked, this saves most work of
    a small network.

    The loss is equal up to rounding. The returned logits are those of the labelled positions, row by row: shape (1,
    labels, vocabulary). First a batch is passed both ways. If the losses differ, or the architecture does not compute
    its head from the last hidden state, the network is left unchanged. Yields whether it was changed.
    """
    equal = _has_equal_loss(network)
    handles = _hooks(network) if equal else []
    try:
        yield equal
    finally:
        for handle in handles:
            handle.remove()


def _hooks(network: PreTrainedModel) -> list[RemovableHandle]:
    places: list[tuple[Tensor, ...]] = []

    def take_labels(
        module: Module, args: object, fed: dict[str, Tensor | None]
    ) -> tuple[object, dict[str, Tensor | None]]:
        labels = fed.get("labels")
        places[:] = [] if labels is None else [(labels != UNLABELLED).nonzero(as_tuple=True)]
        return args, fed if labels is None else {**fed, "labels": labels[places[0]][None]}

    def keep(
        module: Module, args: object, output: tuple[Tensor, ...] | _EncoderOutput
    ) -> tuple[Tensor, ...] | _EncoderOutput:
        if not places:  # not called for a loss
            return output
        where = places.pop()
        if isinstance(output, tuple):
            return (output[0][where][None], *output[1:])
        output.last_hidden_state = output.last_hidden_state[where][None]
        return output

    def forget(module: Module, args: object, output: object) -> None:
        places.clear()  # a call of the encoder alone between two steps then returns all vectors

    return [
        network.register_forward_pre_hook(take_labels, with_kwargs=True),
        network.base_model.register_forward_hook(keep),
        network.register_forward_hook(forget),
    ]


def _has_equal_loss(network: PreTrainedModel) -> bool:
    """Return whether the loss at some labels is the same with hooks and without."""
    import torch

    ids = (torch.arange(16) * 7919 % int(network.config.vocab_size)).reshape(2, 8).to(network.device)
    labels = torch.where(torch.arange(16).reshape(2, 8).to(ids.device) % 5 == 2, ids, UNLABELLED)
    training, module = network.training, cast("Module", network)
    module.eval()
    handles: list[RemovableHandle] = []
    try:
        with torch.no_grad():
            whole = network(input_ids=ids, labels=labels)
            handles = _hooks(network)
            short = network(input_ids=ids, labels=labels)
        right_shape = short.logits.shape[:2] == (1, int((labels != UNLABELLED).sum()))
        return bool(right_shape and torch.allclose(whole.loss, short.loss, rtol=_NEAR, atol=_NEAR))
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError):
        return False
    finally:
        for handle in handles:
            handle.remove()
        network.train(training)


def renew_vocabulary_head(network: PreTrainedModel, seed: int) -> None:
    """Reinitialise a vocabulary head from a seed, in place: the modules between the encoder and the output layer, and
    its bias.

    The weights of the output layer are kept: they are, or were, the input embeddings.

    Raises:
        NotApplicableError: there are no such modules, as in most causal LMs.
    """
    import torch

    output: Module = network.get_output_embeddings()  # type: ignore[no-untyped-call]
    unchanged = {id(layer.get_parameter("weight")) for layer in (network.get_input_embeddings(), output)}
    body = f"{network.base_model_prefix}."
    names = [n for n, p in network.named_parameters() if not n.startswith(body) and id(p) not in unchanged]
    if not names:
        raise NotApplicableError(
            f"{type(network).__name__} has only an output layer and no head to retrain; measure the head of a task"
            " instead"
        )
    with quiet_transformers(), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        fresh = type(network)(deepcopy(network.config))
        for name in names:
            network.get_parameter(name).copy_(fresh.get_parameter(name))
