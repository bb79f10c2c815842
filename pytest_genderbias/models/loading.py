"""Load a model, or refuse it: nothing is measured whose weights, head, labels or mask are in doubt."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models import files, networks
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.model import UNKNOWN_POOLING, Checkpoint, Model
from pytest_genderbias.models.protocols import (
    CausalLM,
    CoreferenceScorer,
    MaskedLM,
    PairClassifier,
    PairRegressor,
    SentenceEncoder,
    TextClassifier,
)
from pytest_genderbias.models.roles import (
    CAUSAL_LM,
    COREFERENCE_SCORER,
    ENCODER,
    MASKED_LM,
    NLI_CLASSIFIER,
    OTHER,
    PAIR_REGRESSOR,
    SENTENCE_ENCODER,
    TEXT_CLASSIFIER,
    Role,
    classifier_role,
    role_of,
)
from pytest_genderbias.models.spec import ModelSpec, parse_spec

DTYPES = ("float32", "float16", "bfloat16", "float64")


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
        return _inspect_object(spec)
    if spec.kind in files.KINDS:
        return ModelSource(spec, files.role_of_file(spec))
    if spec.kind == "gguf":
        _require_gguf(spec)
    config = _read_config(spec, settings)
    role = _role_of_gguf(spec, config) if spec.kind == "gguf" else _role_of_config(config)
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


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load the weights of a model that was found, and check them."""
    if source.spec.kind == "object":
        return wrap_object(source.target, source.spec)
    if source.spec.kind in files.KINDS:
        return files.load_file(source.spec, source.role)
    return _load_checkpoint(source, settings)


def wrap_object(target: object, spec: ModelSpec | None = None) -> Model:
    """Make a :class:`Model` of any object with the protocol of a role.

    An object with several is a coreference scorer before anything else, then a pair classifier, a text classifier, a masked LM,
    a causal LM, a pair regressor, a sentence encoder.
    """
    name = type(target).__name__
    spec = spec or ModelSpec(name, name, "object", name)
    fingerprint = getattr(target, "fingerprint", None)
    if fingerprint is not None and not isinstance(fingerprint, str):
        raise ModelError(f"the fingerprint of {spec.name} should be a text, got {type(fingerprint).__name__}")
    role = _object_role(target, spec.name)
    return Model(spec.name, spec.spec, role, fingerprint, {"architecture": name}, target)


def wrap_network(network: Any, tokenizer: Any, name: str | None = None) -> Model:
    """Make a :class:`Model` of a transformers network that is in memory, one in training say, and share it: its role is that of its class.

    It has no fingerprint, since its weights may change: it is measured and never cached.
    """
    config = deepcopy(network.config)
    config.architectures = [type(network).__name__]
    device = str(network.device)
    details = {
        "architecture": type(network).__name__,
        "tokenizer": fingerprint_tokenizer(tokenizer)[:16],
        "dtype": str(network.dtype).removeprefix("torch."),
        "device": network.device.type,
    }
    backend = Checkpoint(network, tokenizer, device, _longest_row(config, tokenizer, None))
    name = name or type(network).__name__
    return Model(name, name, _role_of_config(config), None, details, backend)


def _inspect_object(spec: ModelSpec) -> ModelSource:
    module_name, _, attribute = spec.target.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        target: Any = import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
        target = target()
    except (ImportError, AttributeError, TypeError) as error:
        raise ModelError(
            f"{spec.spec} cannot be called: {error}; expected module:callable that returns a model"
        ) from error
    return ModelSource(spec, _object_role(target, spec.name), target=target)


def _object_role(target: object, name: str) -> Role:
    if isinstance(target, CoreferenceScorer):  # the most specific: its other methods are likely what it scores with
        return Role(COREFERENCE_SCORER, "a coreference scorer")
    if isinstance(target, PairClassifier):
        role = classifier_role(target.labels)
        if role.kind != NLI_CLASSIFIER:
            raise ModelError(
                f"{name} has the labels {', '.join(map(str, target.labels))}; expected entailment, neutral, contradiction"
            )
        return role
    if isinstance(target, TextClassifier):
        return Role(TEXT_CLASSIFIER, "a text classifier", tuple(map(str, target.labels)))
    for protocol, role in _OBJECT_ROLES:
        if isinstance(target, protocol):
            return role
    raise ModelError(
        f"{name} ({type(target).__name__}) has the protocol of no role; expected pair_probabilities and labels, class_probabilities and "
        "labels, fill_scores with mask_token and vocabulary, continuation_log_probs, pair_scores, encode, or coreference_scores (see "
        "pytest_genderbias.models.protocols)"
    )


_OBJECT_ROLES: tuple[tuple[Any, Role], ...] = (
    (MaskedLM, Role(MASKED_LM, "a masked LM")),
    (CausalLM, Role(CAUSAL_LM, "a causal LM")),
    (PairRegressor, Role(PAIR_REGRESSOR, "a pair regressor")),
    (SentenceEncoder, Role(SENTENCE_ENCODER, "a sentence encoder")),
)


def _read_config(spec: ModelSpec, settings: LoadSettings) -> Any:
    from transformers import AutoConfig

    _register_own(spec, settings)
    try:
        with quiet_transformers():
            return AutoConfig.from_pretrained(**_how(spec, settings))
    except Exception as error:  # each class of configs has its own for entries of a wrong type
        raise _explain(error, spec) from None


def _register_own(spec: ModelSpec, settings: LoadSettings) -> None:
    """Make transformers know the network of a checkpoint, if it is one of ours."""
    path = _own_file(spec, settings, "config.json")
    with suppress(
        OSError, ValueError, AttributeError, TypeError
    ):  # a config that cannot be read is refused as any other
        if path is not None:
            networks.register(json.loads(path.read_text(encoding="utf-8")).get("model_type"))


def _how(spec: ModelSpec, settings: LoadSettings) -> dict[str, Any]:
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


def _role_of_config(config: Any) -> Role:
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


def _load_checkpoint(source: ModelSource, settings: LoadSettings) -> Model:
    import torch

    spec = source.spec
    tokenizer = _load_tokenizer(spec, settings)
    network = _load_network(source, settings)
    if source.role.kind == MASKED_LM and tokenizer.mask_token_id is None:
        raise ModelError(
            f"{spec.name} is a masked LM, but its tokenizer has no mask token; save the tokenizer with mask_token set"
        )
    device = _pick_device(settings.device)
    try:
        network = _aligned(network.to(device).eval())
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    for name, tensor in network.named_parameters():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{spec.name} has NaN or infinite weights (first: {name}); train or save it again")
    tokenizer_print = fingerprint_tokenizer(tokenizer)
    sentences = _own_sentences(spec, settings)
    details = {
        "architecture": type(network).__name__,
        "tokenizer": tokenizer_print[:16],
        "dtype": settings.dtype,
        "device": torch.device(device).type,
        **sentences.facts,
    }
    longest = _longest_row(network.config, tokenizer, sentences.longest)
    checkpoint = Checkpoint(network, tokenizer, device, longest, sentences.pooling)
    fingerprint = fingerprint_network(network, tokenizer_print, sentences.facts)
    return Model(spec.name, spec.spec, source.role, fingerprint, details, checkpoint)


def _aligned(network: Any) -> Any:
    """Give weights that lie askew in a mapped file a place of their own: at another address torch adds them up in another order.

    So one and the same weight gives one and the same score, from whichever file it was read.
    """
    for tensor in network.parameters():
        if tensor.data_ptr() % 64:
            tensor.data = tensor.data.clone()
    return network


@dataclass(frozen=True)
class _OwnSentences:
    """What the files of a sentence encoder say beside those of transformers; ``None`` where there are none."""

    pooling: str | None
    longest: int | None

    @property
    def facts(self) -> dict[str, str]:
        """What of it decides scores, by name; empty for any other checkpoint."""
        said = {"pooling": self.pooling, "max_length": self.longest}
        return {name: str(value) for name, value in said.items() if value not in (None, UNKNOWN_POOLING)}


_MODULES, _LENGTHS = "modules.json", "sentence_bert_config.json"
#: What a sentence encoder may do after its network: pooling is done here, and a unit length changes no cosine.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


def _own_sentences(spec: ModelSpec, settings: LoadSettings) -> _OwnSentences:
    """Read the files that a sentence encoder has beside those of transformers."""
    pooling = _pooling(spec, settings)
    longest = (_read_own_json(spec, settings, _LENGTHS, dict) or {}).get("max_seq_length")
    if pooling is None and not _own_files_are_known(spec):
        pooling = UNKNOWN_POOLING
    return _OwnSentences(pooling, longest)


def _pooling(spec: ModelSpec, settings: LoadSettings) -> str | None:
    """Return how a sentence encoder's own files say that sentences are pooled, or nothing."""
    modes = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first", "pooling_mode_max_tokens": "max"}
    named = _pooling_folder(spec, settings)
    name = f"{named or '1_Pooling'}/config.json"
    config = _read_own_json(spec, settings, name, dict)
    if config is None and named is not None:
        raise ModelError(f"{spec.target}/{name} is not there, but modules.json names it; copy the encoder again, whole")
    if config is None:
        return None
    chosen = [modes[key] for key, on in config.items() if on is True and key in modes]
    if len(chosen) != 1:
        raise ModelError(
            f"{spec.target}/{name} names no pooling that is known here; expected one of {', '.join(modes)} to be true"
        )
    return chosen[0]


def _pooling_folder(spec: ModelSpec, settings: LoadSettings) -> str | None:
    """Return the folder that ``modules.json`` gives to the pooling, if any; refuse modules that would be left out."""
    modules = _read_own_json(spec, settings, _MODULES, list) or []
    try:
        folders = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    except (TypeError, KeyError):
        raise ModelError(f"{spec.target}/{_MODULES} cannot be read: expected objects with 'type' and 'path'") from None
    others = [kind for kind in folders if kind not in _KNOWN_MODULES]
    if others:
        raise ModelError(
            f"{spec.name} is a sentence encoder with the module {', '.join(others)} ({_MODULES}); only {', '.join(_KNOWN_MODULES)} are "
            "applied here: give it as module:callable with encode(texts), or remove modules.json to measure its network alone"
        )
    return folders.get("Pooling")


def _read_own_json(spec: ModelSpec, settings: LoadSettings, name: str, kind: type) -> Any:
    """Return a file that a sentence encoder has beside those of transformers; nothing where there is none."""
    path = _own_file(spec, settings, name)
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, kind):
            raise ValueError(f"expected a JSON {'object' if kind is dict else 'array'}, got {content!r:.60}")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {error}; copy or save the sentence encoder again, whole") from None
    return content


def _own_file(spec: ModelSpec, settings: LoadSettings, name: str) -> Path | None:
    """Return where a file of a checkpoint is, from the hub where that can be reached."""
    if spec.kind == "directory":
        path = Path(spec.target) / name
        return path if path.is_file() else None
    if spec.kind != "hub":
        return None
    from transformers.utils.hub import cached_file

    with suppress(OSError):  # not there, or not to be had: _own_files_are_known tells which
        found = cached_file(spec.target, name, local_files_only=_how(spec, settings)["local_files_only"])
        return Path(found) if found else None
    return None


def _own_files_are_known(spec: ModelSpec) -> bool:
    """Tell whether a sentence encoder's files would have been found: a cache filled by transformers alone lacks them."""
    if spec.kind != "hub":
        return True
    from huggingface_hub import try_to_load_from_cache

    return all(try_to_load_from_cache(spec.target, name) is not None for name in (_MODULES, _LENGTHS))


def _longest_row(config: Any, tokenizer: Any, own: Any) -> int | None:
    """Return the tokens that fit: RoBERTa's positions begin behind the padding's, which only the tokenizer's limit shows."""
    limits = [getattr(config, "max_position_embeddings", None), tokenizer.model_max_length, own]
    sane = [limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**6]
    return min(sane, default=None)


def _pick_device(device: str) -> str:
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def _load_tokenizer(spec: ModelSpec, settings: LoadSettings) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(**_how(spec, settings))
    except Exception as error:
        raise _explain(error, spec, "tokenizer") from None
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # transformers makes one up, without any word
        raise ModelError(
            f"{spec.name} comes without its tokenizer's vocabulary; save the tokenizer beside the weights (tokenizer.json)"
        )
    return tokenizer


def _load_network(source: ModelSource, settings: LoadSettings) -> Any:
    import torch
    import transformers
    from safetensors import SafetensorError

    classes = {
        MASKED_LM: transformers.AutoModelForMaskedLM,
        CAUSAL_LM: transformers.AutoModelForCausalLM,
        ENCODER: transformers.AutoModel,
        COREFERENCE_SCORER: transformers.AutoModel,
    }
    auto: Any = classes.get(source.role.kind, transformers.AutoModelForSequenceClassification)
    try:
        with quiet_transformers(), torch.random.fork_rng(devices=[]):  # lacking weights are drawn
            network, info = auto.from_pretrained(
                config=source.config,
                dtype=getattr(torch, settings.dtype),
                output_loading_info=True,
                **_how(source.spec, settings),
            )
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        RuntimeError,
        SafetensorError,
        ImportError,
        UnpicklingError,
    ) as error:
        raise _explain(error, source.spec, "weights") from None
    missing = sorted({*info["missing_keys"], *(str(key[0]) for key in info["mismatched_keys"])})
    if source.role.kind == ENCODER:  # the pooler is read by nobody
        made_up = [name for name in missing if name.startswith("pooler.")]
        missing = [name for name in missing if name not in made_up]
        with torch.no_grad():  # random numbers would give the model another fingerprint each time
            for name in made_up:
                network.get_parameter(name).zero_()
    if missing:
        raise ModelError(
            f"{source.spec.name} lacks weights that its architecture {type(network).__name__} scores with: "
            f"{', '.join(missing[:4])}{' ...' if len(missing) > 4 else ''} ({len(missing)} in all); they would be random, so nothing is "
            "measured: save the checkpoint with its trained head"
        )
    return network


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep reports and progress bars of transformers to ourselves: what matters of them becomes one error."""
    from transformers.utils import logging as untyped

    logging: Any = untyped

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _explain(error: Exception, spec: ModelSpec, part: str = "config") -> ModelError:
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
