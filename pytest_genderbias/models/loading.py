"""Load a model, or refuse it: nothing is measured whose weights, head, labels or mask are in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_genderbias.errors import SettingError
from pytest_genderbias.models import files
from pytest_genderbias.models.checkpoints import load_checkpoint
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import inspect_object, wrap_object
from pytest_genderbias.models.source import LoadSettings, ModelSource, inspect_checkpoint
from pytest_genderbias.models.spec import ModelSpec, parse_spec

DTYPES = ("float32", "float16", "bfloat16", "float64")


def load_model(
    spec: str,
    *,
    device: str = "auto",
    dtype: str = "float32",
    labels: Sequence[str] | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Load the model that a spec names.

    Args:
        spec: ``[NAME=]SPEC``: a checkpoint's directory, a hub id, an alias such as ``bert-base``, ``demo-mlm``,
            ``demo-lm``, ``demo-nli``, a ``.gguf`` file, or ``module:callable``.
        device: a torch device, or ``auto``.
        dtype: number format of the weights: float32 unless asked otherwise, whatever the checkpoint was saved in.
        labels: names of a classifier's outputs in their order, where the config has none that mean anything.
        trust_remote_code: run code that comes with the checkpoint.

    Raises:
        ModelError: the model is not there, is damaged, incomplete, has NaN weights, an untrained head, no mask token where
            one is needed, or labels that cannot be told apart.
    """
    if dtype not in DTYPES:
        raise SettingError(f"dtype should be one of {', '.join(DTYPES)}, got {dtype!r}")
    settings = LoadSettings(device, dtype, tuple(labels) if labels else None, trust_remote_code)
    return load(inspect(parse_spec(spec), settings), settings)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Find a model and read its role without loading its weights."""
    if spec.kind == "object":
        return inspect_object(spec)
    if spec.kind in files.KINDS:
        return ModelSource(spec, files.role_of_file(spec))
    return inspect_checkpoint(spec, settings)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load the weights of a model that was found, and check them."""
    if source.spec.kind == "object":
        return wrap_object(source.target, source.spec)
    if source.spec.kind in files.KINDS:
        return files.load_file(source.spec, source.role)
    return load_checkpoint(source, settings)
