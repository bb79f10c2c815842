"""The test for superficial mitigations: whether a new head on the frozen encoder restores the bias (orgad2022, sections
4 and 5).
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pytest_genderbias.errors import BiasError, ModelError, SettingError
from pytest_genderbias.gates.judgement import AFTER, BEFORE
from pytest_genderbias.mitigation.harness.run import MitigationRun, ModelOrSpec, kept_training, train_with
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.plain_tensors import plain_tensors
from pytest_genderbias.models.protocols import HIDDEN_STATES
from pytest_genderbias.recipes.heads import is_of_head
from pytest_genderbias.recipes.recipe import ENCODER, Recipe, Row

_COMPRESSION = "probe-compression"
_VERSION = 1  #: of the training of a new head; a head of another version is trained again
_SETTINGS_OF_ANY_SUITE = ("data", "cache", "seed", "batch_tokens", "progress")


def recipe_of_heads(run: MitigationRun) -> Recipe:
    """Return the recipe that trains a new head.

    Raises:
        SettingError: the run has none, or the encoders before and after are equal, so that their new heads would be,
            too.
    """
    recipe = recipe_that_trains(run)
    pairs = zip(run.models(BEFORE), run.models(AFTER), strict=True)
    if all(_encoder(run, before) == _encoder(run, after) is not None for (before,), (after,) in pairs):
        raise SettingError(_one_encoder(recipe))
    return recipe


def recipe_that_trains(run: MitigationRun, called: str = "this run") -> Recipe:
    """Return the recipe of a run.

    Raises:
        SettingError: the run has none; ``called`` says which run.
    """
    if not isinstance(run.recipe, Recipe):
        raise SettingError(
            f"superficial and new_heads train a new head on the frozen encoder, and {called} has no recipe that trains;"
            " give it one (recipe=...), or leave these out"
        )
    return run.recipe


def keeps_encoder(recipe: Recipe, method: Method) -> str | None:
    """Return why ``superficial`` would compare an encoder with itself, if neither the training nor the method changes
    it; else ``None``.
    """
    if not getattr(recipe, "encoder_is_frozen", False):
        return None
    if any(method.changes(step) for step in ("before", "hooks", "after")):
        return None
    return _one_encoder(recipe)


def _one_encoder(recipe: Recipe) -> str:
    return (
        "superficial compares new heads on the encoders before and after, and here they are one: the recipe"
        f" {recipe.name} left it as it was, and so did the method; use a recipe that trains the encoder, for"
        " coreference the recipe coreference"
    )


def _encoder(run: MitigationRun, model: ModelOrSpec) -> str | None:
    """Return a digest of the weights below the head of a model; ``None`` of a model that is no network."""
    import torch

    loaded = run.open(model)
    if not loaded.can(HIDDEN_STATES):
        return None
    network = loaded.backend.network
    digest = hashlib.sha256()
    for name, tensor in plain_tensors(network):
        if not is_of_head(network, name):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def new_heads(run: MitigationRun) -> Iterator[MitigationRun]:
    """Yield a run whose models, before and after, have a new head, trained on the original data with the encoder
    frozen.

    The run's recipe trains the heads with the seed of each model, in the run's folder, where equal trainings are
    shared. Without such a folder it is a temporary one that lasts as long as the context. The new run has no control.
    If the encoders before and after are one, so are their heads: :func:`recipe_of_heads` rejects such a run.

    Raises:
        SettingError: the run has no recipe that trains.
        ModelError: a model is not a network with an encoder to freeze.
    """
    recipe = recipe_that_trains(run)
    with ExitStack() as stack:
        folder = run.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="genderbias-")))
        rows = recipe.rows()
        before, after = (
            [
                _with_new_head(run, recipe, model, seed, rows, folder)
                for (model,), seed in zip(run.models(side), run.seeds, strict=True)
            ]
            for side in (BEFORE, AFTER)
        )
        yield replace(run, before=before, after=after, control=(), folder=folder)


def _with_new_head(
    run: MitigationRun, recipe: Recipe, model: ModelOrSpec, seed: int, rows: Sequence[Row], folder: Path
) -> str:
    """Train a new head on a model's encoder, unless the folder has an equal training, and return the folder of the
    model.
    """
    loaded = run.open(model)
    if loaded.fingerprint is None:  # an object that cannot be trained, and that the folder could not identify
        raise ModelError(
            f"{loaded.name} has no fingerprint, so its encoder cannot be frozen under a new head; leave superficial"
            " out, or mitigate a checkpoint"
        )
    key = {
        "version": _VERSION,
        "model": loaded.fingerprint,
        "reading": fingerprint_reading(loaded.backend) if loaded.can(HIDDEN_STATES) else None,
        "recipe": recipe.settings(),
        "freeze": ENCODER,
        "seed": seed,
    }

    def train(home: Path) -> None:
        how: dict[str, Any] = {"label": f"new head of {recipe.name}, seed {seed}", "freeze": ENCODER, "new_head": True}
        train_with(recipe, Method(), loaded, rows, seed, home, run.progress, **how)

    return str(kept_training(folder, f"retrained-{recipe.name}-{seed}", key, train) / "model")


def compress(run: MitigationRun, settings: Mapping[str, object]) -> dict[str, float | None] | str:
    """Return how well gender can be extracted from the vectors before and after (suite ``probe-compression``), or the
    reason why not.

    A new head does not change this figure: the encoder is the same.
    """
    common = {key: value for key, value in settings.items() if key in _SETTINGS_OF_ANY_SUITE}
    try:
        measured = {side: run.measure(side, _COMPRESSION, **common) for side in (BEFORE, AFTER)}
    except BiasError as error:
        return str(error)
    return {side: mean_of([one.value for group in models for one in group]) for side, models in measured.items()}


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of values, ``None`` if one is missing or there is none.

    >>> mean_of([1.0, 2.0]), mean_of([1.0, None]), mean_of([])
    (1.5, None, None)
    """
    numbers = [value for value in values if value is not None]
    return float(np.mean(numbers)) if len(numbers) == len(values) and numbers else None
