"""Projection of hidden layers (dev2019): forward hooks remove a subspace from the output of a layer.

Functions that return a model do not change the model that they take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from pytest_genderbias.mitigation.words.directions import NO_LAYERS
from pytest_genderbias.models.hidden_layers import (
    HOOKED,
    fingerprint_with_projections,
    hook_layers,
    project_hidden_layers,
    projection_details,
    projections_of,
)
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def project_layers(model: Model, bases: Mapping[int, ArrayLike]) -> Model:
    """Return a model that projects the output of hidden layers, each with its own basis; ``measure`` accepts it like
    any other.

    The hooks are on a copy of the modules, which shares its weights with ``model``; ``model`` itself keeps its scores.
    A training of the returned model keeps the projection: gradients flow through it, and its checkpoints have it. So
    does :func:`~pytest_genderbias.models.saving.save_model`; the bases are in a file beside the weights, which
    ``load_model`` reads. Plain transformers does not read that file, and would load the network without the projection.

    Args:
        model: a network.
        bases: the basis of each layer, by number as in transformers' hidden states (0: the output of the embedding
            layer, L: the input of the head); see :func:`~pytest_genderbias.mitigation.words.directions.layer_bases`.

    Raises:
        SettingError: a basis is not orthonormal, or has another size.
        ModelError: there is no such layer, or it is not the output of a module that a hook can change.
        NotApplicableError: the model is not a network.
    """
    model.require(HIDDEN_STATES, otherwise=NO_LAYERS)
    original = model.backend.network
    shared = {id(tensor): tensor for tensor in [*original.parameters(), *original.buffers()]}
    network = deepcopy(original, shared)
    project_hidden_layers(network, bases)
    added = projections_of(network)[-1:]
    fingerprint = fingerprint_with_projections(model.fingerprint, added) if model.fingerprint else None
    details = {**model.details, **projection_details(network)}
    return replace(model, fingerprint=fingerprint, details=details, backend=replace(model.backend, network=network))


@contextmanager
def projecting_layers(network: PreTrainedModel, bases: Mapping[int, ArrayLike]) -> Iterator[PreTrainedModel]:
    """Project the output of a network's hidden layers inside a ``with`` block only, for example in a training loop of
    your own.

    Gradients flow through the projection. The hooks are removed at the end of the block, also after an error; a
    checkpoint that is saved inside it does not contain them. Do not measure inside the block: the fingerprint of a
    model does not change in it, so the score cache would mix up the scores. Use :func:`project_layers` to measure, and
    for a projection that checkpoints keep.

    Args:
        network: a transformers network.
        bases: see :func:`project_layers`.

    Yields:
        The network.

    Raises:
        SettingError, ModelError: see :func:`project_layers`.
    """
    handles = hook_layers(network, bases)
    try:
        yield network
    finally:
        for handle, module in handles:
            handle.remove()
            vars(module).pop(HOOKED, None)
