"""Projection (dev2019): what lies along a direction, or in a subspace, is taken out of vectors, embeddings or hidden layers.

x <- x - B B^T x, with B from :mod:`~pytest_genderbias.mitigation.words.directions`. What returns a model leaves the one that it was given as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.base import Hooks, Method, check_count
from pytest_genderbias.mitigation.methods.layer_projection import project_layers
from pytest_genderbias.mitigation.words.directions import (
    HE_SHE,
    NAMED_LAYERS,
    FloatArray,
    Pair,
    basis_digest,
    check_basis,
    has_vectors,
    layer_bases,
    learn_basis,
    random_bases,
)
from pytest_genderbias.mitigation.words.pairs import distinct_pairs, read_pairs
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.saving import (
    copied,
    described,
    input_embeddings,
    replace_input_embeddings,
    with_matrix,
    with_network,
)
from pytest_genderbias.text.wordlist import load_wordlist

TEST, TRAINING = "test", "training"
WHEN = (TEST, TRAINING)  #: ``training`` means at training and test, as a model is what it was trained to be

_ROWS = 1 << 16  #: rows that are in double precision at once
_ROUNDING = 64  #: roundings that projection leaves of a vector, at most


def project(vectors: ArrayLike, basis: ArrayLike) -> NDArray[Any]:
    """Return vectors without their part in a subspace: x - B B^T x.

    Computed in double precision and returned in the number format that was given (integers become float64).
    What is left is at right angles to the basis; projecting again changes nothing but rounding; no vector gets longer.

    Args:
        vectors: shape (..., dim).
        basis: shape (dim, k) with orthonormal columns, or (dim,) of length 1.

    Returns:
        The same shape.

    Raises:
        SettingError: the basis is not orthonormal, or for another number of dimensions.

    Source: dev2019, "Bias Subspace".

    >>> project([[3.0, 4.0], [0.0, 2.0]], [1.0, 0.0])
    array([[0., 4.],
           [0., 2.]])
    """
    x = np.asarray(vectors)
    b = check_basis(basis, x.shape[-1])
    out = np.empty(x.shape, dtype=x.dtype if np.issubdtype(x.dtype, np.floating) else np.float64)
    rows, into = x.reshape(-1, x.shape[-1]), out.reshape(-1, x.shape[-1])
    for at in range(0, len(rows), _ROWS):
        part = rows[at : at + _ROWS].astype(np.float64)
        into[at : at + _ROWS] = part - (part @ b) @ b.T
    return out


def project_embeddings(model: Model, basis: ArrayLike) -> Model:
    """Return a model whose word vectors, or input embeddings, have lost a subspace.

    Of a network every row of the input embeddings is projected, word pieces and special tokens too (dev2019, "BERT Subword
    Projection"), before positions and layer norms are added to it; ALBERT's and other factorised embeddings in their own, smaller
    space. Output weights that were tied to them stay as they were. The network is a copy, and
    :func:`~pytest_genderbias.models.saving.save_model` makes an ordinary checkpoint of it. This is projection at test; to project at
    training and test, train the returned network with :func:`projection_callback`.

    Args:
        model: word vectors, or a network.
        basis: for its input embeddings, shape (dim, k): ``learn_basis(model, pairs=HE_SHE)``.

    Raises:
        SettingError: the basis is not orthonormal, or for another number of dimensions.
        NotApplicableError: the model is neither.
    """
    what = described({"method": "projection", "where": "input", "basis": basis_digest(basis)})
    if isinstance(model.backend, Checkpoint):
        network = copied(model.backend.network)
        project_network(network, basis)
        return with_network(model, network, what)
    if not hasattr(model.backend, "matrix"):
        raise NotApplicableError(f"{model.name} is neither a file of word vectors nor a network")
    return with_matrix(model, project(model.backend.matrix, basis), what)


def project_network(network: Any, basis: ArrayLike) -> None:
    """Project the input embeddings of a transformers network in place; its output layer is untied first and stays as it was.

    Raises:
        SettingError: the basis is not orthonormal, or for another number of dimensions.
    """
    replace_input_embeddings(network, project(input_embeddings(network), basis))


def projection_callback(basis: ArrayLike) -> Any:
    """Return a ``TrainerCallback`` that keeps the input embeddings projected while a network is trained (projection at training and test).

    The embeddings are projected before the first step and after each, so that every checkpoint is an ordinary one, obeys the
    constraint, and can be resumed from. The network is untied before the optimiser is made, so give the Trainer one that
    :func:`project_embeddings` or :func:`project_network` has been applied to; a tied one is refused.

    Args:
        basis: shape (dim, k).
    """
    from transformers import TrainerCallback

    class KeepProjected(TrainerCallback):
        """Projects the input embeddings after each step."""

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
            """Refuse a tied network; project what is not projected yet."""
            inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
            if outputs is not None and outputs.weight is inputs.weight:
                raise ModelError(
                    "the network's output weights are tied to the embeddings that are projected; apply project_network before training"
                )
            # Projecting again would change the last digits, and a run that goes on where it stopped would end elsewhere.
            if not _is_projected(inputs.weight, basis):
                _project_weight(inputs.weight, basis)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
            """Project what the step has changed."""
            _project_weight(model.get_input_embeddings().weight, basis)

    check_basis(basis, len(np.asarray(basis)))
    return KeepProjected()


def _is_projected(weight: Any, basis: ArrayLike) -> bool:
    """Tell whether nothing but rounding of a matrix lies in a subspace."""
    import torch

    w = weight.detach().cpu().double().numpy()
    left = np.abs(w @ check_basis(basis, w.shape[-1])).max()
    return bool(left <= _ROUNDING * torch.finfo(weight.dtype).eps * np.abs(w).max())


def _project_weight(weight: Any, basis: ArrayLike) -> None:
    """Project a matrix where it lies; half precision by way of single."""
    import torch

    with torch.no_grad():
        wide = weight if weight.dtype == torch.float64 else weight.float()
        b = torch.as_tensor(check_basis(basis, weight.shape[-1])).to(wide)
        weight.copy_(wide - (wide @ b) @ b.T)


@dataclass(frozen=True)
class Projection(Method):
    """Projection of a direction or subspace out of the input embeddings, or of hidden layers (dev2019).

    ``pairs`` (a list's name, or pairs) or ``words`` (a list's name, or words) give the subspace, of ``components`` dimensions. ``when``:
    at ``test`` only, or at ``training`` and test. ``layers``: ``all``, or numbers, in place of the input embeddings; at test only.
    ``random``: a random subspace of as many dimensions, from this seed, which is the control.
    """

    name: ClassVar[str] = "projection"
    pairs: str | tuple[Pair, ...] = HE_SHE
    words: str | tuple[str, ...] = ()
    components: int = 1
    when: str = TEST
    layers: str | tuple[int, ...] = ()
    random: int | None = None

    control_in_words: ClassVar[str] = "random directions"

    def __post_init__(self) -> None:
        """Refuse settings that there are not."""
        if self.when not in WHEN:
            raise SettingError(f"when should be {' or '.join(WHEN)}, got {self.when!r}")
        if self.layers and self.when != TEST:
            raise SettingError("hidden layers are projected at test only; leave layers out, or choose when='test'")
        named = self.layers in ("", *NAMED_LAYERS) if isinstance(self.layers, str) else min(self.layers, default=0) >= 0
        if not named:
            raise SettingError(
                f"layers should be {' or '.join(NAMED_LAYERS)}, or numbers from 0 on, got {self.layers!r}"
            )
        check_count("components", self.components)
        if isinstance(self.pairs, str):
            read_pairs(self.pairs)
        _listed_words(self.words)

    @property
    def trains(self) -> bool:
        """Whether the projection holds during training."""
        return self.when == TRAINING

    def changes(self, what: str) -> bool:
        """Tell whether the projection is done after training, or else before and during it."""
        return {"after": not self.trains, "before": self.trains, "hooks": self.trains}.get(what, super().changes(what))

    def before(self, model: Model, seed: int) -> Model:
        """Project the input embeddings, if that is to hold in training."""
        return project_embeddings(model, self.basis(model)) if self.trains else model

    def hooks(self, model: Model) -> Hooks:
        """Keep the input embeddings projected while they are trained."""
        return Hooks((projection_callback(self.basis(model)),)) if self.trains else Hooks()

    def after(self, model: Model, seed: int) -> Model:
        """Project the finished model, if the projection is at test only."""
        if self.trains:
            return model
        if not self.layers:
            return project_embeddings(model, self.basis(model))
        chosen = self.layers if isinstance(self.layers, str) else list(self.layers)
        bases = layer_bases(model, chosen, components=self.components, **self._source(model))
        if self.random is not None:
            drawn = random_bases(model.width, self.components, len(bases), self.random)
            bases = dict(zip(bases, drawn, strict=True))
        return project_layers(model, bases)

    def basis(self, model: Model) -> FloatArray:
        """Return the subspace of a model's input embeddings that is taken out."""
        if self.random is not None:
            found: FloatArray = random_bases(model.input_width, self.components, 1, self.random)[0]
            return found
        return learn_basis(model, components=self.components, **self._source(model))

    def control(self, repeat: int) -> Method | None:
        """Return the same with a random subspace."""
        return replace(self, random=repeat)

    def _source(self, model: Model) -> dict[str, Any]:
        if self.words:
            return {"words": [word for word in _listed_words(self.words) if has_vectors(model, word)]}
        return {"pairs": distinct_pairs(self.pairs) if isinstance(self.pairs, str) else self.pairs}


def _listed_words(words: str | tuple[str, ...]) -> list[str]:
    return [entry.word for entry in load_wordlist(words).entries] if isinstance(words, str) else list(words)
