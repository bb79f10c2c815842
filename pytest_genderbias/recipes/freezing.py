"""Freezing: which parameters of a network are excluded from training, by the setting ``freeze`` of recipes and of a
``Training``.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models.hidden_layers import hidden_states, parameters_behind
from pytest_genderbias.recipes.recipe import EMBEDDINGS, ENCODER, NOTHING, Training

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def with_freeze(training: Training, freeze: str | int) -> Training:
    """Return a training that freezes what a recipe says, unless the caller of the training freezes something: then
    that.
    """
    return replace(training, freeze=freeze) if training.freeze == NOTHING else training


def freeze(network: PreTrainedModel, what: str | int) -> None:
    """Exclude a part of a network from training, and no other; see :func:`frozen_parameters`.

    Raises:
        SettingError: as :func:`frozen_parameters`, or nothing is left to train.
    """
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    for parameter in frozen_parameters(network, what):
        parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise SettingError(
            f"freeze={what!r} leaves nothing of {type(network).__name__} to train: its output layer shares the weights"
            " of its embeddings"
        )


def frozen_parameters(network: PreTrainedModel, what: str | int) -> list[torch.nn.Parameter]:
    """Return the parameters that are frozen for a setting, whose values stay as they are, bit for bit.

    - ``nothing``: none.
    - ``embeddings``: those that the output of the embedding layer (hidden state 0) depends on: word, position and type
      vectors and their norm, and, in networks that have one, the map to the size of the layers. An output layer that
      shares the word vectors is frozen with them.
    - a number k: also those that hidden state k depends on, so that the k-th layer gives the same vectors after the
      training. In DeBERTa the relative positions, which all layers share, are frozen from k = 1.
    - ``encoder``: all but the head.

    Raises:
        SettingError: ``what`` is none of these, there are fewer layers, or layers share their parameters, as in ALBERT,
            so that they cannot be frozen one by one.
    """
    base: torch.nn.Module = network.base_model
    if what == NOTHING:
        return []
    if what == ENCODER:
        return list(base.parameters())
    inputs = list(network.get_input_embeddings().parameters())
    behind = _parameters_of_states(network)
    layers = max(len(behind) - 1, 0)
    if what != EMBEDDINGS:
        if type(what) is not int or not 0 <= what <= layers:
            raise SettingError(f"freeze should be nothing, embeddings, encoder, or 0 to {layers} layers, got {what!r}")
        if what and any(not upper - lower for lower, upper in pairwise(behind)):
            raise SettingError(
                f"the layers of {type(network).__name__} share their parameters, so the first {what} cannot be frozen"
                " without the others; freeze nothing, embeddings or encoder"
            )
    count = what if type(what) is int else 0
    ids = behind[count] if behind else set()
    ids |= {id(parameter) for layer in _layers(base, layers)[:count] for parameter in layer.parameters()}
    return [*inputs, *(parameter for parameter in base.parameters() if id(parameter) in ids)]


def _parameters_of_states(network: PreTrainedModel) -> list[set[int]]:
    """Return the ids of the parameters that each hidden state depends on; empty for a network without hidden states."""
    import torch

    required = [parameter.requires_grad for parameter in network.parameters()]
    try:
        for parameter in network.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        with torch.enable_grad():
            return [parameters_behind(state) for state in hidden_states(network)]
    except ModelError:
        return []
    finally:
        for parameter, before in zip(network.parameters(), required, strict=True):
            parameter.requires_grad_(before)


def _layers(base: torch.nn.Module, count: int) -> list[torch.nn.Module]:
    """Return the layers of a network, some of whose parameters a few tokens may not reach, such as experts; empty if
    they are in no list.
    """
    import torch

    lists = (list(module) for module in base.modules() if isinstance(module, torch.nn.ModuleList))
    return next((layers for layers in lists if len(layers) == count), [])
