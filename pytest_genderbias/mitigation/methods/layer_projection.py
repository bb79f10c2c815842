"""Projection of hidden layers (dev2019): forward hooks remove a subspace from the output of a layer.

Functions that return a model do not change the model that they take.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from numpy.typing import ArrayLike

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.mitigation.methods.embedding_weights import input_weight
from pytest_genderbias.mitigation.words.directions import FloatArray, basis_digest, check_basis
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.saving import HOOKED, described

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle
    from transformers import PreTrainedModel

Place = tuple[str, int]  #: the name of a module, and the number of its call within one forward pass, from 0


def project_layers(model: Model, bases: Mapping[int, ArrayLike]) -> Model:
    """Return a model that projects the output of hidden layers, each with its own basis; ``measure`` accepts it like any other.

    The hooks are on a copy of the modules, which shares its weights with ``model``; ``model`` itself keeps its scores. A hook is
    not part of a checkpoint, so :func:`~pytest_genderbias.models.saving.save_model` rejects the model; save the bases instead.

    Args:
        model: a network.
        bases: the basis of each layer, by number as in transformers' hidden states (0: the output of the embedding layer, L: the
            input of the head); see :func:`~pytest_genderbias.mitigation.words.directions.layer_bases`.

    Raises:
        SettingError: a basis is not orthonormal, or has another size.
        ModelError: there is no such layer, or it is not the output of a module that a hook can change.
        NotApplicableError: the model is not a network.
    """
    if not isinstance(model.backend, Checkpoint):
        raise NotApplicableError(f"{model.name} has no layers; project its vectors with project_embeddings")
    original = model.backend.network
    shared = {id(tensor): tensor for tensor in [*original.parameters(), *original.buffers()]}
    network = deepcopy(original, shared)
    _hook_layers(network, bases)
    digests = {str(layer): basis_digest(basis) for layer, basis in sorted(bases.items())}
    what = described({"method": "projection", "layers": digests})
    fingerprint = hashlib.sha256(f"{model.fingerprint} {what}".encode()).hexdigest() if model.fingerprint else None
    details = {**model.details, "mitigation": what}
    return replace(model, fingerprint=fingerprint, details=details, backend=replace(model.backend, network=network))


@contextmanager
def projecting_layers(network: PreTrainedModel, bases: Mapping[int, ArrayLike]) -> Iterator[PreTrainedModel]:
    """Project the output of a network's hidden layers inside a ``with`` block, for example during training.

    Gradients flow through the projection. The hooks are removed at the end of the block, also after an error; a checkpoint that is
    saved inside it does not contain them. Do not measure inside the block: the fingerprint of a model does not change in it, so the
    score cache would mix up the scores. Use :func:`project_layers` to measure.

    Args:
        network: a transformers network.
        bases: see :func:`project_layers`.

    Yields:
        The network.

    Raises:
        SettingError, ModelError: see :func:`project_layers`.
    """
    handles = _hook_layers(network, bases)
    try:
        yield network
    finally:
        for handle, module in handles:
            handle.remove()
            vars(module).pop(HOOKED, None)


def layer_places(network: PreTrainedModel) -> list[Place | None]:
    """Return which call of which module produces each hidden state: L + 1 places, ``None`` if no hook can change the state.

    The places are found by a forward pass over a few tokens. So the result holds for architectures that share a layer (ALBERT
    calls one module L times), apply a norm after the last one (GPT-2, Llama), or map their embeddings (ELECTRA). Of the modules
    whose output equals the hidden state, it is the outermost one whose change reaches the hidden state and the next layer.
    """
    if network.config.is_encoder_decoder:
        raise ModelError(
            f"{type(network).__name__} has an encoder and a decoder; its hidden layers cannot be projected, only its input embeddings"
        )
    states, places_of_layers = _equal_outputs(network)
    return [
        next((place for place in places if _is_seen(network, place, layer, states)), None)
        for layer, places in enumerate(places_of_layers)
    ]


def _base_of(network: PreTrainedModel) -> PreTrainedModel:
    return cast("PreTrainedModel", network.base_model)


def _few_tokens(network: PreTrainedModel) -> Sequence[torch.Tensor]:
    """Return all hidden states of a few tokens, without dropout."""
    import torch

    base, training = _base_of(network), network.training
    ids = torch.arange(6, 12, device=base.device)[None] % len(input_weight(base))
    try:
        network.eval()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            states: Sequence[torch.Tensor] = base(input_ids=ids, output_hidden_states=True).hidden_states
            return states
    finally:
        network.train(training)


def _equal_outputs(network: PreTrainedModel) -> tuple[Sequence[torch.Tensor], list[list[Place]]]:
    """Return the hidden states, and for each one the calls with an equal output, the outermost first."""
    import torch

    outputs: list[tuple[Place, torch.Tensor]] = []
    count = _CallCount()

    with ExitStack() as stack:
        for name, module in network.base_model.named_modules():
            if name:

                def record(module: torch.nn.Module, args: object, output: object, name: str = name) -> None:
                    call, state = count.next(name), _state(output)
                    if state is not None:
                        outputs.append(((name, call), state.clone()))

                stack.callback(module.register_forward_hook(record).remove)
        states = _few_tokens(network)
    equal = [[place for place, output in outputs if torch.equal(output, state)] for state in states]
    return states, [sorted(places, key=lambda place: place[0].count(".")) for places in equal]


def _is_seen(network: PreTrainedModel, place: Place, layer: int, before: Sequence[torch.Tensor]) -> bool:
    """Return whether zeros in place of a module's output become the hidden state, and change the next one."""
    import torch

    name, call = place
    count = _CallCount()

    def erase(module: torch.nn.Module, args: object, output: object) -> object:
        state = _state(output)
        return _with_state(output, 0.0 * state) if count.next(name) == call and state is not None else output

    handle = network.base_model.get_submodule(name).register_forward_hook(erase, prepend=True)
    try:
        after = _few_tokens(network)
    finally:
        handle.remove()
    if after[layer].any():
        return False
    return layer + 1 == len(after) or not torch.equal(after[layer + 1], before[layer + 1])


def _hook_layers(
    network: PreTrainedModel, bases: Mapping[int, ArrayLike]
) -> list[tuple[RemovableHandle, torch.nn.Module]]:
    places = layer_places(network)
    width = network.config.get_text_config().hidden_size
    by_module: dict[str, dict[int, FloatArray]] = {}
    for layer, basis in bases.items():
        if type(layer) is not int or not 0 <= layer < len(places):
            raise ModelError(f"there is no layer {layer!r}; the model has layers 0 (embeddings) to {len(places) - 1}")
        place = places[layer]
        if place is None:
            raise ModelError(
                f"layer {layer} of {type(network).__name__} is not the output of a module that a hook can change"
            )
        by_module.setdefault(place[0], {})[place[1]] = check_basis(basis, width)
    base, count = network.base_model, _CallCount()
    handles = [(base.register_forward_pre_hook(count.start), base)]
    for name, by_call in by_module.items():
        module = base.get_submodule(name)
        # Before all other hooks: those that collect hidden states should see the input of the next layer.
        handles.append((module.register_forward_hook(_ProjectionHook(name, by_call, count), prepend=True), module))
        setattr(module, HOOKED, True)
    return handles


class _CallCount:
    """Number of calls of each module in the current forward pass."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def start(self, module: torch.nn.Module, args: object) -> None:
        """Begin a forward pass."""
        self.calls = {}

    def next(self, name: str) -> int:
        """Count a call, and return its number from 0."""
        self.calls[name] = self.calls.get(name, -1) + 1
        return self.calls[name]


class _ProjectionHook:
    """A forward hook that projects the output of some calls of a module, on any device and in any number format."""

    def __init__(self, name: str, by_call: Mapping[int, FloatArray], count: _CallCount) -> None:
        self._name, self._by_call, self._count = name, by_call, count
        self._bases: dict[tuple[int, str], torch.Tensor] = {}

    def __call__(self, module: torch.nn.Module, args: object, output: object) -> object:
        call = self._count.next(self._name)
        if call not in self._by_call:
            return output
        state = _state(output)
        if state is None:
            raise ModelError(f"the output of {self._name} holds no hidden state, so it cannot be projected")
        key = (call, f"{state.device} {state.dtype}")
        if key not in self._bases:
            import torch

            self._bases[key] = torch.as_tensor(self._by_call[call]).to(state)
        b = self._bases[key]
        return _with_state(output, state - (state @ b) @ b.T)


def _state(output: object) -> torch.Tensor | None:
    """Return the hidden state in a module's output, if there is one."""
    import torch

    first = output[0] if isinstance(output, tuple) and output else output
    return first if isinstance(first, torch.Tensor) and first.is_floating_point() else None


def _with_state(output: object, state: torch.Tensor) -> object:
    return (state, *output[1:]) if isinstance(output, tuple) else state
