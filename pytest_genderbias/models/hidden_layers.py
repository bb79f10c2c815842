"""Hidden layers of a network: which module makes each one, what it depends on, and projections of them that a
checkpoint keeps.

A projection removes a subspace from the output of a layer by a forward hook. It is no weight: a checkpoint has its
bases in a file of their own (``PROJECTION_FILE``), and an entry of its config names the projected layers, so that they
are never lost unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models.config import PROJECTED_LAYERS, PROJECTIONS, hidden_size
from pytest_genderbias.models.model import body_of

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

FloatArray = NDArray[np.float64]
Place = tuple[str, int]  #: the name of a module, and the number of its call within one forward pass, from 0
Bases = Mapping[int, FloatArray]  #: the basis of each projected layer, shape (dim, k), orthonormal

PROJECTION_FILE = "projected_layers.safetensors"  #: the bases, beside the weights of a checkpoint


def project_hidden_layers(network: PreTrainedModel, bases: Mapping[int, ArrayLike]) -> None:
    """Project the output of hidden layers, in place and for good: copies, trainings and checkpoints of the network keep
    the projection.

    Args:
        network: a transformers network.
        bases: the basis of each layer, by number as in transformers' hidden states (0: the output of the embedding
            layer, L: the input of the head).

    Raises:
        SettingError: a basis is not orthonormal, or has another size.
        ModelError: there is no such layer, or it is not the output of a module that a hook can change.
    """
    from pytest_genderbias.statistics.bias_subspace import check_basis

    width = hidden_size(network.config)
    if width is None:
        raise ModelError(
            f"the config of {type(network).__name__} has no hidden size, so its hidden layers cannot be projected"
        )
    # In the order of rows, as a file of safetensors has them: another order changes the last digits of a product.
    checked = {layer: np.ascontiguousarray(check_basis(basis, width)) for layer, basis in bases.items()}
    _hook_layers(network, checked)
    setattr(network, PROJECTIONS, (*projections_of(network), checked))
    setattr(network.config, PROJECTED_LAYERS, [sorted(layers) for layers in projections_of(network)])


def projections_of(network: PreTrainedModel) -> tuple[Bases, ...]:
    """Return the projections that :func:`project_hidden_layers` added to a network, in their order."""
    projections: tuple[Bases, ...] = getattr(network, PROJECTIONS, ())
    return projections


def copy_projections(source: PreTrainedModel, target: PreTrainedModel) -> None:
    """Give a network with the body of another, such as a classifier that is made of an encoder, the projections of the
    other.
    """
    for bases in projections_of(source):
        project_hidden_layers(target, bases)


def described_projection(bases: Bases) -> str:
    """Return a projection as sorted JSON with digests of its bases, for fingerprints and a model's details."""
    from pytest_genderbias.statistics.bias_subspace import basis_digest

    digests = {str(layer): basis_digest(basis) for layer, basis in sorted(bases.items())}
    return json.dumps({"method": "projection", "layers": digests}, sort_keys=True)


def projection_details(network: PreTrainedModel) -> dict[str, str]:
    """Return the last projection of a network for a model's details, as the entry ``mitigation``; empty without any."""
    projections = projections_of(network)
    return {"mitigation": described_projection(projections[-1])} if projections else {}


def fingerprint_with_projections(fingerprint: str, projections: Sequence[Bases]) -> str:
    """Return the fingerprint of a network with projected layers, given that of its weights; the same one without
    projections.
    """
    for bases in projections:
        fingerprint = hashlib.sha256(f"{fingerprint} {described_projection(bases)}".encode()).hexdigest()
    return fingerprint


def save_projections(network: PreTrainedModel, folder: Path) -> None:
    """Write the bases of a network's projections beside its weights; write nothing if there are none."""
    from safetensors.numpy import save_file

    tensors = {
        f"{number}.layer_{layer}": basis
        for number, bases in enumerate(projections_of(network))
        for layer, basis in bases.items()
    }
    if tensors:
        save_file(tensors, folder / PROJECTION_FILE)


def restore_projections(network: PreTrainedModel, find: Callable[[], Path | None], name: str) -> dict[str, str]:
    """Project the layers of a network that was loaded, as its config says, with the bases of a file, and return
    :func:`projection_details`.

    Args:
        network: a network without hooks, as ``from_pretrained`` returns it, whose config names projected layers.
        find: returns the file of the bases, or ``None`` if the checkpoint has none.
        name: name of the model, for the message.

    Raises:
        ModelError: the file is missing, has other layers than the config, or a basis that is not orthonormal.
    """
    from safetensors.numpy import load_file

    layers = getattr(network.config, PROJECTED_LAYERS, None)
    advice = "copy it again from where the checkpoint was saved"
    path = find()
    if path is None:
        raise ModelError(
            f"the config of {name} says that its hidden layers are projected ({PROJECTED_LAYERS}), but the file with"
            f" their bases, {PROJECTION_FILE}, is missing; {advice}"
        )
    by_number: dict[int, dict[int, FloatArray]] = {}
    for key, basis in load_file(path).items():
        number, _, layer = key.partition(".layer_")
        by_number.setdefault(int(number), {})[int(layer)] = basis
    projections = [by_number[number] for number in sorted(by_number)]
    if [sorted(bases) for bases in projections] != layers:
        raise ModelError(
            f"{path} has bases of other layers than {PROJECTED_LAYERS} in config.json, {layers!r:.80}; {advice}"
        )
    try:
        for bases in projections:
            project_hidden_layers(network, bases)
    except SettingError as error:
        raise ModelError(f"{path}: {error}; {advice}") from None
    return projection_details(network)


def hidden_states(network: PreTrainedModel) -> Sequence[torch.Tensor]:
    """Return the hidden states of a few tokens, without dropout; of an encoder with a decoder, those of the encoder.

    Raises:
        ModelError: the network returns none.
    """
    import torch

    body = body_of(network)
    words = body.get_input_embeddings().get_parameter("weight")
    ids = torch.arange(6, 12, device=body.device)[None] % len(words)
    training = network.training
    try:
        network.eval()  # type: ignore[no-untyped-call]
        states: Sequence[torch.Tensor] | None = getattr(
            body(input_ids=ids, output_hidden_states=True), "hidden_states", None
        )
    finally:
        network.train(training)
    if not states:
        raise ModelError(f"{type(network).__name__} returns no hidden states")
    return states


def parameters_behind(state: torch.Tensor) -> set[int]:
    """Return the ids of the parameters that a tensor was computed from, of those that require gradients."""
    seen: set[object] = set()
    waiting: list[object] = [state.grad_fn]
    parameters: set[int] = set()
    while waiting:
        step = waiting.pop()
        if step is None or step in seen:
            continue
        seen.add(step)
        parameters.add(id(getattr(step, "variable", None)))  # only the nodes at the leaves have one
        waiting += [previous for previous, _ in getattr(step, "next_functions", ())]
    return parameters - {id(None)}


def layer_places(network: PreTrainedModel) -> list[Place | None]:
    """Return which call of which module produces each hidden state: L + 1 places, ``None`` if no hook can change the
    state.

    The places are found by a forward pass over a few tokens. So the result holds for architectures that share a layer
    (ALBERT calls one module L times), apply a norm after the last one (GPT-2, Llama), or map their embeddings
    (ELECTRA). Of the modules whose output equals the hidden state, it is the outermost one whose change reaches the
    hidden state and the next layer.
    """
    if network.config.is_encoder_decoder:
        raise ModelError(
            f"{type(network).__name__} has an encoder and a decoder; its hidden layers cannot be projected, only its"
            " input embeddings"
        )
    states, places_of_layers = _equal_outputs(network)
    return [
        next((place for place in places if _is_seen(network, place, layer, states)), None)
        for layer, places in enumerate(places_of_layers)
    ]


def _hook_layers(network: PreTrainedModel, bases: Bases) -> None:
    """Project the output of hidden layers by hooks.

    Raises:
        ModelError: see :func:`project_hidden_layers`.
    """
    places = layer_places(network)
    by_module: dict[str, dict[int, FloatArray]] = {}
    for layer, basis in bases.items():
        if type(layer) is not int or not 0 <= layer < len(places):
            raise ModelError(f"there is no layer {layer!r}; the model has layers 0 (embeddings) to {len(places) - 1}")
        place = places[layer]
        if place is None:
            raise ModelError(
                f"layer {layer} of {type(network).__name__} is not the output of a module that a hook can change"
            )
        by_module.setdefault(place[0], {})[place[1]] = basis
    base = network.base_model
    for name, by_call in by_module.items():
        hook = _ProjectionHook(name, by_call)
        base.register_forward_pre_hook(hook.start)
        # Before all other hooks: those that collect hidden states should see the input of the next layer.
        base.get_submodule(name).register_forward_hook(hook, prepend=True)


def _equal_outputs(network: PreTrainedModel) -> tuple[Sequence[torch.Tensor], list[list[Place]]]:
    """Return the hidden states, and for each one the calls with an equal output, the outermost first."""
    import torch

    outputs: list[tuple[Place, torch.Tensor]] = []
    calls: Counter[str] = Counter()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for name, module in network.base_model.named_modules():
            if name:

                def record(module: torch.nn.Module, args: object, output: object, name: str = name) -> None:
                    if (state := _state(output)) is not None:
                        outputs.append(((name, calls[name]), state.clone()))
                    calls[name] += 1

                stack.callback(module.register_forward_hook(record).remove)
        states = hidden_states(network)
    equal = [[place for place, output in outputs if torch.equal(output, state)] for state in states]
    return states, [sorted(places, key=lambda place: place[0].count(".")) for places in equal]


def _is_seen(network: PreTrainedModel, place: Place, layer: int, before: Sequence[torch.Tensor]) -> bool:
    """Return whether zeros in place of a module's output become the hidden state, and change the next one."""
    import torch

    name, call = place
    calls = count()

    def erase(module: torch.nn.Module, args: object, output: object) -> object:
        state = _state(output)
        return _with_state(output, 0.0 * state) if next(calls) == call and state is not None else output

    handle = network.base_model.get_submodule(name).register_forward_hook(erase, prepend=True)
    try:
        with torch.no_grad():
            after = hidden_states(network)
    finally:
        handle.remove()
    if after[layer].any():
        return False
    return layer + 1 == len(after) or not torch.equal(after[layer + 1], before[layer + 1])


class _ProjectionHook:
    """A forward hook that projects the output of some calls of a module, on any device and in any number format."""

    def __init__(self, name: str, by_call: Mapping[int, FloatArray]) -> None:
        self._name, self._by_call, self._calls = name, by_call, 0
        self._bases: dict[tuple[int, str], torch.Tensor] = {}

    def start(self, module: torch.nn.Module, args: object) -> None:
        """Begin a forward pass of the network."""
        self._calls = 0

    def __call__(self, module: torch.nn.Module, args: object, output: object) -> object:
        call, self._calls = self._calls, self._calls + 1
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
