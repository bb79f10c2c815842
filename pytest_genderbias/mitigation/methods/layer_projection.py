"""Projection of hidden layers (dev2019): hooks take a subspace out of what a layer gives to the next.

What returns a model leaves the one that it was given as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.mitigation.words.directions import basis_digest, check_basis
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.saving import HOOKED, described

Place = tuple[str, int]  #: a module's name, and which of its calls in one forward pass


def project_layers(model: Model, bases: Mapping[int, ArrayLike]) -> Model:
    """Return a model that projects the output of hidden layers, each with a basis of its own, and that ``measure`` takes as any other.

    The hooks sit on a copy of the modules that shares its weights with ``model``: the one that was given gives its own scores as before,
    and to remove the projection is to drop the copy. It does not survive saving: a hook is no weight, and
    :func:`~pytest_genderbias.models.saving.save_model` refuses it. Save the bases instead.

    Args:
        model: a network.
        bases: by number of layer, as transformers numbers hidden states (0: output of the embedding layer, L: what the
            head reads); from :func:`~pytest_genderbias.mitigation.words.directions.layer_bases`.

    Raises:
        SettingError: a basis is not orthonormal, or for another size.
        ModelError: a layer is not there, or is the output of no module that a hook can change.
        NotApplicableError: the model is no network.
    """
    if not isinstance(model.backend, Checkpoint):
        raise NotApplicableError(f"{model.name} has no layers; project its vectors")
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
def projecting_layers(network: Any, bases: Mapping[int, ArrayLike]) -> Iterator[Any]:
    """Project the output of hidden layers of a transformers network inside a ``with`` block, for training with it, say.

    Gradients run through the projection. The hooks are gone after the block, whatever happens in it, and a checkpoint that is saved inside it
    lacks them. To measure, use :func:`project_layers`: a model keeps its fingerprint in here, and the score cache would be misled.

    Args:
        network: a transformers network.
        bases: as in :func:`project_layers`.

    Yields:
        The network.

    Raises:
        SettingError, ModelError: as :func:`project_layers`.
    """
    handles = _hook_layers(network, bases)
    try:
        yield network
    finally:
        for handle, module in handles:
            handle.remove()
            if hasattr(module, HOOKED):
                delattr(module, HOOKED)


def layer_places(network: Any) -> list[Place | None]:
    """Return which call of which module gives each hidden state: L + 1 places, ``None`` where a hook can change none that does.

    Found by passing a few tokens, so that it holds for architectures that share a layer (ALBERT calls one module L times), have a norm
    behind the last (GPT-2, Llama), or map their embeddings (ELECTRA): of the modules whose output is the hidden state the outermost
    whose change is seen there, and by the layer above.
    """
    if getattr(network.config, "is_encoder_decoder", False):
        raise ModelError(
            f"{type(network).__name__} has an encoder and a decoder; hidden layers of such are not projected"
        )
    states, found = _equal_outputs(network)
    return [
        next((place for place in places if _is_seen(network, place, layer, states)), None)
        for layer, places in enumerate(found)
    ]


def _few_tokens(network: Any) -> Any:
    """Return all hidden states of a few tokens, without dropout."""
    import torch

    base, training = network.base_model, network.training
    ids = torch.arange(6, 12, device=base.device)[None] % base.get_input_embeddings().weight.shape[0]
    try:
        network.eval()
        with torch.no_grad():
            return base(input_ids=ids, output_hidden_states=True).hidden_states
    finally:
        network.train(training)


def _equal_outputs(network: Any) -> tuple[Any, list[list[Place]]]:
    """Return the hidden states, and for each the calls whose output is equal to it, the outermost first."""
    import torch

    seen: list[tuple[Place, Any]] = []
    count = _CallCount()

    def record(name: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            call, state = count.next(name), _state(output)
            if state is not None:
                seen.append(((name, call), state.clone()))

        return hook

    with ExitStack() as stack:
        for name, module in network.base_model.named_modules():
            if name:
                stack.callback(module.register_forward_hook(record(name)).remove)
        states = _few_tokens(network)
    found = [[place for place, output in seen if torch.equal(output, state)] for state in states]
    return states, [sorted(places, key=lambda place: place[0].count(".")) for places in found]


def _is_seen(network: Any, place: Place, layer: int, before: Any) -> bool:
    """Tell whether zeros in place of a module's output become the hidden state, and change the next one."""
    import torch

    name, call = place
    count = _CallCount()

    def erase(module: Any, args: Any, output: Any) -> Any:
        return _with_state(output, 0.0 * _state(output)) if count.next(name) == call else output

    handle = network.base_model.get_submodule(name).register_forward_hook(erase, prepend=True)
    try:
        after = _few_tokens(network)
    finally:
        handle.remove()
    if after[layer].any():
        return False
    return layer + 1 == len(after) or not torch.equal(after[layer + 1], before[layer + 1])


def _hook_layers(network: Any, bases: Mapping[int, ArrayLike]) -> list[tuple[Any, Any]]:
    places = layer_places(network)
    width = network.config.get_text_config().hidden_size
    by_module: dict[str, dict[int, Any]] = {}
    for layer, basis in bases.items():
        if type(layer) is not int or not 0 <= layer < len(places):
            raise ModelError(f"layer {layer!r} is not there; the model has layers 0 (embeddings) to {len(places) - 1}")
        place = places[layer]
        if place is None:
            raise ModelError(f"layer {layer} of {type(network).__name__} is the output of no module that can be hooked")
        by_module.setdefault(place[0], {})[place[1]] = check_basis(basis, width)
    base, count = network.base_model, _CallCount()
    handles = [(base.register_forward_pre_hook(count.start), base)]
    for name, by_call in by_module.items():
        module = base.get_submodule(name)
        # Before every other hook: those that collect hidden states should see what the next layer reads.
        handles.append((module.register_forward_hook(_Projection(name, by_call, count), prepend=True), module))
        setattr(module, HOOKED, True)
    return handles


class _CallCount:
    """How often each module was called in this forward pass."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}

    def start(self, module: Any, args: Any) -> None:
        """Begin a forward pass."""
        self.calls = {}

    def next(self, name: str) -> int:
        """Count a call, and return its number from 0."""
        self.calls[name] = self.calls.get(name, -1) + 1
        return self.calls[name]


class _Projection:
    """A forward hook that projects the output of some calls of a module, on whatever device and in whatever format it is."""

    def __init__(self, name: str, by_call: Mapping[int, NDArray[np.float64]], count: _CallCount) -> None:
        self._name, self._by_call, self._count = name, by_call, count
        self._bases: dict[tuple[int, str], Any] = {}

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        call = self._count.next(self._name)
        if call not in self._by_call:
            return output
        state = _state(output)
        key = (call, f"{state.device} {state.dtype}")
        if key not in self._bases:
            import torch

            self._bases[key] = torch.as_tensor(self._by_call[call]).to(state)
        b = self._bases[key]
        return _with_state(output, state - (state @ b) @ b.T)


def _state(output: Any) -> Any:
    """Return the hidden state in a module's output, if there is one."""
    import torch

    first = output[0] if isinstance(output, tuple) and output else output
    return first if isinstance(first, torch.Tensor) and first.is_floating_point() else None


def _with_state(output: Any, state: Any) -> Any:
    return (state, *output[1:]) if isinstance(output, tuple) else state
