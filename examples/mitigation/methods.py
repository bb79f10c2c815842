"""Mitigation methods of your own: each has a function that takes a model and returns a changed one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.words.directions import HE_SHE, learn_basis, random_bases
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.saving import copied, input_embeddings, replace_input_embeddings, with_network


def changed(model: Model, change: Callable[[PreTrainedModel], None], what: str) -> Model:
    """Return a copy of a model with a changed network; the model itself does not change."""
    network = copied(model.backend.network)
    with torch.no_grad():
        change(network)
    return with_network(model, network, what)


@dataclass(frozen=True)
class Subtraction(Method):
    """Subtracts ``share`` times the part of the input embeddings along he - she: 1 is the projection, 2 mirrors them.

    ``random``: the seed of a random direction in its place, which is the control.
    """

    name: ClassVar[str] = "subtraction"
    share: float = 1.0
    random: int | None = None

    def after(self, model: Model, seed: int) -> Model:
        """Change the trained model."""
        he_she = learn_basis(model, pairs=HE_SHE)  # shape (width, 1)
        basis = he_she if self.random is None else random_bases(len(he_she), seed=self.random)[0]

        def subtract(network: PreTrainedModel) -> None:
            words = input_embeddings(network)
            replace_input_embeddings(network, words - self.share * words @ basis @ basis.T)

        return changed(model, subtract, f"{self.name} of {self.share:g}")

    def control(self, repeat: int) -> Method:
        """Return the same method with a random direction."""
        return replace(self, random=repeat)


@dataclass(frozen=True)
class Noise(Method):
    """Adds noise of ``scale`` standard deviations to the input embeddings."""

    name: ClassVar[str] = "noise"
    scale: float = 0.3

    def after(self, model: Model, seed: int) -> Model:
        """Change the trained model."""

        def add(network: PreTrainedModel) -> None:
            words = network.get_input_embeddings().weight
            words += self.scale * words.std() * torch.randn(words.shape, generator=torch.Generator().manual_seed(seed))

        return changed(model, add, self.name)
