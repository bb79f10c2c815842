"""Projection (dev2019): remove a direction or a subspace from vectors, input embeddings or hidden layers.

The projection is x - B B^T x, with a basis B from :mod:`~pytest_genderbias.mitigation.words.directions`. Functions that
return a model do not change the model that they take. Forward hooks project the output of hidden layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.mitigation.methods.base import Hooks, Method, Step
from pytest_genderbias.mitigation.words.directions import (
    HE_SHE,
    NAMED_LAYERS,
    NO_LAYERS,
    Pair,
    has_vectors,
    layer_bases,
    learn_basis,
    random_bases,
)
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, read_pairs
from pytest_genderbias.models.hidden_layers import (
    fingerprint_with_projections,
    project_hidden_layers,
    projection_details,
    projections_of,
)
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.protocols import HIDDEN_STATES, WORD_VECTORS
from pytest_genderbias.models.saving import (
    copied,
    described,
    input_embeddings,
    replace_input_embeddings,
    with_matrix,
    with_network,
)
from pytest_genderbias.statistics.bias_subspace import FloatArray, basis_digest, check_basis
from pytest_genderbias.text.schema import Count, Rule, at_least, check_fields, one_of
from pytest_genderbias.text.wordlist import load_wordlist

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, TrainerCallback


INPUT = "embeddings"  #: in place of layers: the input embeddings
TEST, TRAINING = "test", "training"
WHEN = (TEST, TRAINING)  #: ``training`` includes the test: the projection holds in the trained model

_ROWS = 1 << 16  #: number of rows in double precision at a time
_ROUNDING = 64  #: largest rounding error that projection leaves of a vector, in units of the machine epsilon


def project(vectors: ArrayLike, basis: ArrayLike) -> NDArray[np.floating]:
    """Return vectors without their part in a subspace: x - B B^T x.

    The projection is computed in double precision, and returned in the number format of the vectors (float64 for
    integers). The result is orthogonal to the basis and no longer than the vectors; projecting it again changes
    rounding errors only.

    Args:
        vectors: shape (..., dim).
        basis: shape (dim, k) with orthonormal columns, or (dim,) of length 1.

    Returns:
        The same shape.

    Raises:
        SettingError: the basis is not orthonormal, or has another number of dimensions.

    Source: dev2019, "Bias Subspace".

    >>> project([[3.0, 4.0], [0.0, 2.0]], [1.0, 0.0])
    array([[0., 4.],
           [0., 2.]])
    """
    x = np.asarray(vectors)
    b = check_basis(basis, x.shape[-1])
    out = np.empty(x.shape, dtype=x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64)
    rows, into = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])
    for start in range(0, len(rows), _ROWS):
        part = rows[start : start + _ROWS].astype(np.float64)
        into[start : start + _ROWS] = part - (part @ b) @ b.T
    return out


def project_embeddings(model: Model, basis: ArrayLike) -> Model:
    """Return a model without a subspace of its word vectors or input embeddings.

    In a network every row of the input embeddings is projected, also word pieces and special tokens (dev2019, "BERT
    Subword Projection"), before positions and layer norms are applied. Factorised embeddings, such as ALBERT's, are
    projected in their own, smaller space. Output weights that were tied to the input embeddings keep their values. The
    network is a copy, and :func:`~pytest_genderbias.models.saving.save_model` saves it as an ordinary checkpoint. This
    is projection at test; to project at training and test, train the returned network with :func:`projection_callback`.

    Args:
        model: word vectors, or a network.
        basis: shape (dim, k), for the input embeddings: ``learn_basis(model, pairs=HE_SHE)``.

    Raises:
        SettingError: the basis is not orthonormal, or has another number of dimensions.
        NotApplicableError: the model is neither word vectors nor a network.
    """
    what = described({"method": "projection", "where": "input", "basis": basis_digest(basis)})
    return with_embeddings(model, lambda matrix: project(matrix, basis), what)


def with_embeddings(model: Model, change: Callable[[NDArray[np.floating]], NDArray[np.floating]], what: str) -> Model:
    """Return a model whose word vectors, or whose input embeddings, are changed by a function of the matrix.

    Raises:
        NotApplicableError: the model is neither word vectors nor a network.
    """
    model.require(HIDDEN_STATES, WORD_VECTORS)
    if model.can(HIDDEN_STATES):
        network = copied(model.backend.network)
        replace_input_embeddings(network, change(input_embeddings(network)))
        return with_network(model, network, what)
    return with_matrix(model, change(model.backend.matrix), what)


def project_network(network: PreTrainedModel, basis: ArrayLike) -> None:
    """Project the input embeddings of a transformers network in place; its output layer is untied first and keeps its
    values.

    Raises:
        SettingError: the basis is not orthonormal, or has another number of dimensions.
    """
    replace_input_embeddings(network, project(input_embeddings(network), basis))


def projection_callback(basis: ArrayLike) -> TrainerCallback:
    """Return a ``TrainerCallback`` that keeps the input embeddings projected during training (projection at training
    and test).

    The embeddings are projected before the first step and after each step, so every checkpoint is an ordinary one, is
    projected, and can be resumed from. The network must be untied before the optimiser is created: apply
    :func:`project_embeddings` or :func:`project_network` to the network before it is passed to the Trainer.

    Args:
        basis: shape (dim, k).

    Raises:
        ModelError: (when training begins) the output weights are tied to the input embeddings.
    """
    from transformers import TrainerCallback

    class KeepProjected(TrainerCallback):
        """Projects the input embeddings after each step."""

        def on_train_begin(self, args: object, state: object, control: object, **given: Any) -> None:
            """Reject a tied network, and project the embeddings unless they are projected already."""
            model: PreTrainedModel = given["model"]
            weight: Any = model.get_input_embeddings().weight
            output: torch.nn.Module | None = model.get_output_embeddings()  # type: ignore[no-untyped-call]
            if output is not None and output.weight is weight:
                raise ModelError(
                    "the network's output weights are tied to the embeddings that are projected; apply project_network"
                    " before training"
                )
            # Projecting again would change the last digits, so that a resumed run would end with other weights.
            if not _is_projected(weight, basis):
                _project_weight(weight, basis)

        def on_step_end(self, args: object, state: object, control: object, **given: Any) -> None:
            """Project the embeddings that the step has changed."""
            _project_weight(given["model"].get_input_embeddings().weight, basis)

    check_basis(basis, len(np.asarray(basis)))
    return KeepProjected()


def _is_projected(weight: torch.Tensor, basis: ArrayLike) -> bool:
    """Return whether only rounding errors of a matrix lie in a subspace."""
    import torch

    w = weight.detach().cpu().double().numpy()
    left = np.abs(w @ check_basis(basis, w.shape[-1])).max()
    return bool(left <= _ROUNDING * torch.finfo(weight.dtype).eps * np.abs(w).max())


def _project_weight(weight: torch.Tensor, basis: ArrayLike) -> None:
    """Project a matrix in place; half precision is computed in single."""
    import torch

    with torch.no_grad():
        wide = weight if weight.dtype == torch.float64 else weight.float()
        b = torch.as_tensor(check_basis(basis, weight.shape[-1])).to(wide)
        weight.copy_(wide - (wide @ b) @ b.T)


@dataclass(frozen=True)
class Projection(Method):
    """Projection that removes a direction or subspace from the input embeddings, or from hidden layers (dev2019).

    ``pairs`` (the name of a list, of which pairs without vectors are left out, or pairs) or ``words`` (the name of a
    list, or words) define the subspace, which has ``components`` dimensions. ``when`` is ``test`` or ``training``
    (training and test). ``layers`` projects hidden layers in place of the input ``embeddings``: ``all``, ``upper`` (all
    but layer 0, the output of the embedding layer), or by number. ``random`` is the seed of random subspaces with as
    many dimensions, one per layer, which are the control.

    The subspaces of layers are learned from the encoder as it is before the training if the projection applies during
    training, else from the trained one. They do not change while the encoder is trained (**choice**; dev2019's ELMo is
    frozen, as with ``freeze: encoder`` of a recipe). Checkpoints of the training hold the projection of their layers.
    """

    name: ClassVar[str] = "projection"
    pairs: str | tuple[Pair, ...] = HE_SHE
    words: str | tuple[str, ...] = ()
    components: Count = 1
    when: Annotated[str, one_of(*WHEN)] = TEST
    layers: Annotated[
        Annotated[str, one_of("", INPUT, *NAMED_LAYERS)] | tuple[Annotated[int, at_least(0)], ...],
        Rule(f"{INPUT}, {' or '.join(NAMED_LAYERS)}, or numbers from 0 on"),
    ] = ()
    random: int | None = None

    control_in_words: ClassVar[str] = "random directions"

    def __post_init__(self) -> None:
        """Reject unknown settings."""
        check_fields(self)
        if self.layers == INPUT:
            object.__setattr__(self, "layers", ())  # equal settings: the runs of both are the same
        if isinstance(self.pairs, str):
            read_pairs(self.pairs)
        _word_list(self.words)

    def changes(self, step: Step) -> bool:
        """Return whether the settings use a step: ``after`` at test, ``before`` at training, and ``hooks`` there for
        input embeddings.
        """
        uses = {"after": self.when == TEST, "before": self.when == TRAINING}
        uses["hooks"] = uses["before"] and not self.layers
        return uses.get(step, super().changes(step))

    def before(self, model: Model, seed: int) -> Model:
        """Project the model if the projection applies during training."""
        return self._projected(model) if self.trains else model

    def hooks(self, model: Model) -> Hooks:
        """Keep the input embeddings projected during training. Projected layers are a part of the network, which
        nothing undoes.
        """
        return Hooks((projection_callback(self.basis(model)),)) if self.changes("hooks") else Hooks()

    def after(self, model: Model, seed: int) -> Model:
        """Project the trained model if the projection applies at test only."""
        return model if self.trains else self._projected(model)

    def _projected(self, model: Model) -> Model:
        if not self.layers:
            return project_embeddings(model, self.basis(model))
        layers = self.layers if isinstance(self.layers, str) else list(self.layers)
        bases = layer_bases(model, layers, components=self.components, **self._source(model))
        if self.random is not None:
            drawn = random_bases(model.width, self.components, len(bases), self.random)
            bases = dict(zip(bases, drawn, strict=True))
        return project_layers(model, bases)

    def basis(self, model: Model) -> FloatArray:
        """Return the subspace of a model's input embeddings that is removed, shape (dim, k)."""
        if self.random is not None:
            basis: FloatArray = random_bases(model.input_width, self.components, 1, self.random)[0]
            return basis
        return learn_basis(model, components=self.components, **self._source(model))

    def control(self, repeat: int) -> Method | None:
        """Return the same projection with a random subspace."""
        return replace(self, random=repeat)

    def _source(self, model: Model) -> dict[str, Any]:
        if self.words:
            return {"words": [word for word in _word_list(self.words) if has_vectors(model, word)]}
        if not isinstance(self.pairs, str):
            return {"pairs": self.pairs}
        return {"pairs": [pair for pair in distinct_pairs(self.pairs) if has_vectors(model, *pair)]}


def _word_list(words: str | tuple[str, ...]) -> list[str]:
    return [entry.word for entry in load_wordlist(words).entries] if isinstance(words, str) else list(words)


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
