"""``load_model``: load a model and check it. Nothing is measured if its weights, head, labels or mask token are in
doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from os import PathLike, fspath
from types import ModuleType
from typing import TYPE_CHECKING

from pytest_genderbias.errors import SettingError
from pytest_genderbias.models.model import Model, Origin
from pytest_genderbias.models.source import (
    MAX_REQUESTS,
    MAX_TOKENS,
    TIME_LIMIT,
    LoadSettings,
    ModelSource,
    ServedSettings,
    checkpoint_file,
)
from pytest_genderbias.models.spec import ADAPTER, DTYPES, ENGINES, SERVED, ModelSpec, check_name, parse_spec, path_spec
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import Count, check_setting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: The module of each kind of model (``ModelSpec.kind``) of the core. Those of the room ``engines`` are in ``ENGINES``.
KINDS: Mapping[str, str] = {
    **dict.fromkeys(("directory", "hub", "gguf"), "models.checkpoints"),
    "object": "models.objects",
    **dict.fromkeys(("vectors", "predictions", "text"), "models.files"),
}


def load_model(
    model: str | PathLike[str] | object,
    *,
    tokenizer: PreTrainedTokenizerBase | PathLike[str] | str | None = None,
    name: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    labels: Sequence[str] | None = None,
    trust_remote_code: bool = False,
    allow_remote: bool = False,
    endpoint_version: str | None = None,
    endpoint_timeout: float = TIME_LIMIT,
    samples: int | None = None,
    system_prompt: str | None = None,
    temperature: float = 1.0,
    max_requests: int = MAX_REQUESTS,
    max_tokens: int = MAX_TOKENS,
) -> Model:
    """Load a model by its spec, or wrap an object in memory.

    Args:
        model: one of

            - a path, or a spec ``[NAME=]SPEC`` as ``--bias-model`` takes it (``docs/guides/your-model.md`` has all): a
              checkpoint's directory, a hub id, an alias such as ``bert-base``, a file, ``module:callable``, the address
              of a server;
            - a transformers network (any ``PreTrainedModel``), with its ``tokenizer``;
            - a table of predictions: a pandas DataFrame, or a list of dicts, with the columns of a predictions file;
            - an object with one of the protocols in :mod:`pytest_genderbias.models.protocols`, such as a sentence
              encoder with ``encode``.
        tokenizer: the tokenizer of a network in memory; of a served model also the folder or hub id of its tokenizer.
        name: the model's name in tables and baselines; by default that of the spec, or the class of the object.
        device: a torch device for a checkpoint; ``auto`` is a GPU if there is one, and ``split`` spreads a network over
            all GPUs, the memory of this machine and the files of the checkpoint.
        dtype: number format for the weights of a checkpoint, whatever format they were saved in; ``auto`` keeps that of
            the checkpoint.
        labels: names of a classifier's outputs in their order, for a config without meaningful ones.
        trust_remote_code: run code that comes with a checkpoint.
        allow_remote: a server may be on another machine.
        endpoint_version: your word for what is served; scores of a served model are cached under it, and not at all
            without one.
        endpoint_timeout: seconds after which a request to a server is sent again if its answer is not complete; six
            times, then it is an error.
        samples: replies to each question, of a system that answers in text, and of a checkpoint where a suite reads
            texts; one by default. A chat endpoint that lists the likeliest first tokens of a reply is asked for these
            instead where a question has options, unless ``samples`` or another ``temperature`` than 1 is given.
        system_prompt: before each question to a chat endpoint.
        temperature: of the replies of a chat endpoint.
        max_requests: most requests to a chat endpoint in all.
        max_tokens: of a reply of a chat endpoint, or of a checkpoint.

    A network in memory is shared, not copied, and put into evaluation mode; it stays on its device, in its dtype. Its
    scores are not cached, since its weights may change. The caller vouches for its weights: whether a head was trained
    or is newly initialised cannot be seen in memory, while a checkpoint without the weights of its head is refused. Of
    a sentence encoder give the ``SentenceTransformer`` or its folder, not its network alone, which does not know the
    encoder's pooling.

    Raises:
        ModelError: the model is missing, damaged or incomplete, has NaN weights, an untrained head, no mask token where
            one is needed, or labels without meaning; or the object is of a kind that cannot be measured.
        DataFileError: a table of predictions breaks a rule of
            :func:`~pytest_genderbias.models.predictions.read_predictions`.
        SettingError: a setting is wrong, or does not apply to this kind of model.
    """
    if dtype not in DTYPES:
        raise SettingError(f"dtype should be one of {', '.join(DTYPES)}, got {dtype!r}")
    check_setting("samples", Count | None, samples)
    of_replies = (system_prompt, temperature, max_requests, max_tokens)
    of_servers = (allow_remote, endpoint_version, endpoint_timeout, *of_replies)
    if not isinstance(model, (str, PathLike)):
        if ServedSettings((), *of_servers) != ServedSettings():
            raise SettingError(
                "allow_remote, endpoint_version, endpoint_timeout, system_prompt, temperature, max_requests and"
                " max_tokens apply to endpoints and checkpoints; a model in memory is asked as it is: leave them out"
            )
        if device != "auto" or dtype != "float32" or trust_remote_code:
            raise SettingError(
                "device, dtype and trust_remote_code apply to checkpoints; a model in memory is measured as it is: use"
                " network.to(...) before"
            )
        from pytest_genderbias.models.objects import wrap

        return wrap(model, tokenizer, name, labels, samples)
    spec = parse_spec(model if isinstance(model, str) else path_spec(model))
    spec = spec if name is None else replace(spec, name=check_name(name))
    if tokenizer is not None and spec.kind != SERVED:
        raise SettingError(f"tokenizer goes with a network in memory; {model} names a model that has its own")
    place = fspath(tokenizer) if isinstance(tokenizer, PathLike) else tokenizer
    served = ServedSettings(() if place is None else ((spec.name, place),), *of_servers)
    if isinstance(labels, str):
        raise SettingError(f"labels should be a list of names, got the text {brief(labels)}")
    settings = LoadSettings(device, dtype, tuple(labels) if labels else None, trust_remote_code, served, samples)
    return load(inspect(spec, settings), settings)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Locate a model and read its role without loading its weights."""
    is_adapter = spec.kind == "hub" and checkpoint_file(spec, ADAPTER) is not None
    source: ModelSource = _module("adapter" if is_adapter else spec.kind).inspect(spec, settings)
    return replace(source, role=source.role.writing(settings.samples))


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load the weights of a located model and check them."""
    model: Model = _module(source.kind or source.spec.kind).load(source, settings)
    return replace(model, role=model.role.writing(settings.samples), origin=Origin(source.spec, settings))


def _module(kind: str) -> ModuleType:
    """Return the module of a kind of model, which has :func:`inspect` and :func:`load` for it."""
    return import_module(f"pytest_genderbias.{KINDS.get(kind) or ENGINES[kind].module}")
