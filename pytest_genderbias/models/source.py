"""Find a model and read its role, before its weights are loaded."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models import networks
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    COREFERENCE_SCORER,
    OTHER,
    TEXT_CLASSIFIER,
    Role,
    classifier_role,
    role_of,
)
from pytest_genderbias.models.spec import ModelSpec
from pytest_genderbias.models.transformers_logging import quiet_transformers


@dataclass(frozen=True)
class LoadSettings:
    """How models are loaded.

    ``device``: ``auto`` takes a GPU where there is one. ``labels``: names of a classifier's outputs in their order, for a
    config that does not say. ``trust_remote_code`` runs code that comes with the checkpoint.
    """

    device: str = "auto"
    dtype: str = "float32"
    labels: tuple[str, ...] | None = None
    trust_remote_code: bool = False


@dataclass(frozen=True)
class ModelSource:
    """A model that has been found, and whose role is known, but whose weights are not in memory."""

    spec: ModelSpec
    role: Role
    config: Any = None
    target: Any = None


def inspect_checkpoint(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config of a checkpoint and the role that it gives."""
    if spec.kind == "gguf":
        _require_gguf(spec)
    config = _read_config(spec, settings)
    role = _role_of_gguf(spec, config) if spec.kind == "gguf" else role_of_config(config)
    if settings.labels is not None and role.labels:
        if len(settings.labels) != len(role.labels):
            raise ModelError(f"{spec.name} has {len(role.labels)} outputs, --bias-labels names {len(settings.labels)}")
        role = classifier_role(settings.labels)
    if role.kind == TEXT_CLASSIFIER and all(label.lower().startswith("label_") for label in role.labels):
        raise ModelError(
            f"{spec.name} does not say what its outputs mean: its labels are {', '.join(_labels(config))}; name them in their "
            "order, as in --bias-labels=entailment,neutral,contradiction for NLI (or in the checkpoint's id2label)"
        )
    if role.kind == OTHER and not role.labels:
        raise ModelError(
            f"{spec.name} has no head that scores: its architectures are {', '.join(config.architectures or ['none'])}; expected "
            "an encoder, or a checkpoint saved with its head: ...ForMaskedLM, ...ForCausalLM or ...ForSequenceClassification"
        )
    return ModelSource(spec, role, config)


def _read_config(spec: ModelSpec, settings: LoadSettings) -> Any:
    from transformers import AutoConfig

    _register_own(spec, settings)
    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(**read_arguments(spec, settings))
    except Exception as error:  # each class of configs has its own for entries of a wrong type
        raise explain(error, spec) from None


def _register_own(spec: ModelSpec, settings: LoadSettings) -> None:
    """Make transformers know the network of a checkpoint, if it is one of ours."""
    path = own_file(spec, settings, "config.json")
    with suppress(
        OSError, ValueError, AttributeError, TypeError
    ):  # a config that cannot be read is refused as any other
        if path is not None:
            networks.register(json.loads(path.read_text(encoding="utf-8")).get("model_type"))


def read_arguments(spec: ModelSpec, settings: LoadSettings) -> dict[str, Any]:
    """Return where a checkpoint is and how it is read, as every ``from_pretrained`` takes it."""
    how = {"pretrained_model_name_or_path": spec.target, "trust_remote_code": settings.trust_remote_code}
    if spec.kind == "gguf":
        path = Path(spec.target)
        return how | {
            "pretrained_model_name_or_path": str(path.parent),
            "gguf_file": path.name,
            "local_files_only": True,
        }
    return how | {"local_files_only": spec.kind == "directory" or not _hub_is_reachable()}


def own_file(spec: ModelSpec, settings: LoadSettings, name: str) -> Path | None:
    """Return where a file of a checkpoint is, from the hub where that can be reached."""
    if spec.kind == "directory":
        path = Path(spec.target) / name
        return path if path.is_file() else None
    if spec.kind != "hub":
        return None
    from transformers.utils.hub import cached_file

    with suppress(OSError):  # not there, or not to be had: _own_files_are_known tells which
        found = cached_file(spec.target, name, local_files_only=read_arguments(spec, settings)["local_files_only"])
        return Path(found) if found else None
    return None


def _require_gguf(spec: ModelSpec) -> None:
    lacking = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if lacking:
        raise ModelError(
            f"{spec.name} is a GGUF file, which is read with {' and '.join(lacking)}, not installed here: "
            "pip install 'pytest-genderbias[gguf]'"
        )


def _role_of_gguf(spec: ModelSpec, config: Any) -> Role:
    """Return the role of a GGUF file, which names no class: a causal LM, if transformers has one of its architecture."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{spec.name} is a GGUF file of the architecture {config.model_type}; only causal LMs are read from GGUF: give a "
            "checkpoint as save_pretrained() writes it"
        )
    return Role(CAUSAL_LM, "a causal LM")


@cache
def _hub_is_reachable() -> bool:
    """Find out once, and soon: the hub's own client would try for half a minute."""
    from huggingface_hub import constants

    if constants.is_offline_mode():
        return False
    if getproxies():
        return True
    endpoint = urlsplit(constants.ENDPOINT)
    port = endpoint.port or (443 if endpoint.scheme == "https" else 80)
    try:
        socket.create_connection((endpoint.hostname or "", port), timeout=3.0).close()
    except OSError:
        return False
    return True


def role_of_config(config: Any) -> Role:
    """Return the role of a transformers config by its architectures and labels.

    Raises:
        ModelError: a causal head on an encoder that reads in both directions.
    """
    from transformers.models.auto import modeling_auto as auto

    if networks.ARCHITECTURES["coreference"] & set(config.architectures or []):
        return Role(COREFERENCE_SCORER, "a coreference scorer")
    names = {
        "masked": frozenset(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.values()),
        "causal": frozenset(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()) | networks.ARCHITECTURES["causal"],
        "classifier": frozenset(auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.values()),
        "encoder": _single_names(auto.MODEL_MAPPING_NAMES.values()),
    }
    id2label = {int(k): str(v) for k, v in (getattr(config, "id2label", None) or {}).items()}
    is_decoder = bool(getattr(config, "is_decoder", False))
    role = role_of(config.architectures or [], id2label, names, is_decoder)
    if role.kind == CAUSAL_LM and not is_decoder and config.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        raise ModelError(
            f"{', '.join(config.architectures)} with is_decoder off reads the words on both sides, so it gives no probability of "
            "a next word; save it with is_decoder: true if it was trained that way"
        )
    return role


def _single_names(values: Iterable[Any]) -> frozenset[str]:
    return frozenset(name for value in values for name in ([value] if isinstance(value, str) else value))


def _labels(config: Any) -> list[str]:
    return [str(config.id2label[i]) for i in sorted(config.id2label)]


def explain(error: Exception, spec: ModelSpec, part: str = "config") -> ModelError:
    """Return the error of transformers as one that says which part of the model failed and what to do."""
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return ModelError(f"{spec.name} comes with code of its own; if you trust it, add --bias-trust-remote-code")
    if "weights_only" in text or "Weights only" in text or "torch.load" in text:
        return ModelError(
            f"{spec.name}: its weights are a pickle that cannot be read safely; save them with save_pretrained() as safetensors ({text:.160})"
        )
    if spec.kind == "hub" and part == "config":
        why = "the hub has none of that name" if _hub_is_reachable() else "the hub cannot be reached"
        return ModelError(
            f"no model {spec.target!r} in the local cache, and {why}; give a path, --bias-model={spec.name}=/path/to/checkpoint, "
            "or an alias such as bert-base or demo"
        )
    return ModelError(
        f"the {part} of {spec.name} ({spec.target}) cannot be read ({type(error).__name__}: {text:.300}); "
        "copy or save the checkpoint again, whole"
    )
