"""The vocabulary head of a masked LM in training: computed only where there is a label, and made anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.transformers_logging import quiet_transformers

UNLABELLED = -100  #: a position whose loss does not count, as transformers has it
_NEAR = 1e-4


@contextmanager
def head_at_labels(network: Any) -> Iterator[bool]:
    """Let a network compute its vocabulary head only at the positions that have a label: with 15 % masked, most of a small network's work.

    The loss is the same but for rounding. The logits that it returns then are those of the labelled positions, in the order of their
    rows: shape (1, labels, vocabulary). A pass both ways is made first; where the losses differ, or the architecture does not read its
    head from the last hidden state, all is left as it is. Yields whether it was done.
    """
    done = _loses_nothing(network)
    handles = _hooks(network) if done else []
    try:
        yield done
    finally:
        for handle in handles:
            handle.remove()


def _hooks(network: Any) -> list[Any]:
    places: list[Any] = []

    def take_labels(module: Any, args: Any, fed: dict[str, Any]) -> Any:
        labels = fed.get("labels")
        places[:] = [] if labels is None else [(labels != UNLABELLED).nonzero(as_tuple=True)]
        return args, fed if labels is None else {**fed, "labels": labels[places[0]][None]}

    def keep(module: Any, args: Any, output: Any) -> Any:
        if not places:  # called for other things than a loss
            return output
        where = places.pop()
        if isinstance(output, tuple):
            return (output[0][where][None], *output[1:])
        output.last_hidden_state = output.last_hidden_state[where][None]
        return output

    def forget(module: Any, args: Any, output: Any) -> None:
        places.clear()  # whoever asks the encoder alone between two steps, for its vectors, gets all of them

    return [
        network.register_forward_pre_hook(take_labels, with_kwargs=True),
        network.base_model.register_forward_hook(keep),
        network.register_forward_hook(forget),
    ]


def _loses_nothing(network: Any) -> bool:
    """Tell whether the loss at some labels is the same with hooks as without."""
    import torch

    ids = (torch.arange(16) * 7919 % int(network.config.vocab_size)).reshape(2, 8).to(network.device)
    labels = torch.where(torch.arange(16).reshape(2, 8).to(ids.device) % 5 == 2, ids, UNLABELLED)
    trains = network.training
    network.eval()
    handles: list[Any] = []
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
        network.train(trains)


def renew_vocabulary_head(network: Any, seed: int) -> None:
    """Let a vocabulary head start anew, from a seed, in place: what lies between the encoder and the output layer, and its bias.

    The vectors of the output layer stay: they are, or were, the input embeddings.

    Raises:
        NotApplicableError: there is nothing between them, as in most causal LMs.
    """
    import torch

    kept = {id(network.get_input_embeddings().weight), id(network.get_output_embeddings().weight)}
    body = f"{network.base_model_prefix}."
    names = [n for n, p in network.named_parameters() if not n.startswith(body) and id(p) not in kept]
    if not names:
        raise NotApplicableError(
            f"{type(network).__name__} has no head but its output layer, so there is none to train anew; measure a task's head instead"
        )
    with quiet_transformers(), torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        fresh = type(network)(deepcopy(network.config))
        for name in names:
            network.get_parameter(name).copy_(fresh.get_parameter(name))
