"""Locate a model: read its config and role before its weights are loaded, and find its files in a folder or on the
hub.
"""

from __future__ import annotations

import gc
import json
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePath
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from pytest_genderbias.errors import BiasError, ModelError, SettingError
from pytest_genderbias.models.checkpoint_folder import damage_of
from pytest_genderbias.models.config import QUANTISED, labels_of, register_network
from pytest_genderbias.models.roles import Role
from pytest_genderbias.models.spec import ALIASES, GRAPHS, ModelSpec
from pytest_genderbias.text.printable import brief, brief_list
from pytest_genderbias.text.schema import Count, Temperature, check_setting

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedTokenizerBase


#: The number of layers in configs of several architectures, and the most that are built.
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")
_MOST_LAYERS = 1000
_MOST_LABELS = 10**6
#: Entries that count something of which each network has some, and the most that any has; and what is added to
#: variances.
_COUNTS = ("hidden_size", "d_model", "n_embd", "num_attention_heads", "n_head", "vocab_size", "intermediate_size")
_MOST_COUNTED = 10**8
_ROUNDED = ("layer_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps")
#: Files that say which file has which weight, where there are several.
_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")


#: Weights of the last layer of sequence classifiers.
_HEAD_WEIGHTS = (
    "classifier.weight",
    "classifier.out_proj.weight",
    "classification_head.out_proj.weight",
    "score.weight",
)

#: Held while transformers reads weights: it replaces functions of its own and of torch for all threads meanwhile, and
#: what two threads at once put back is not what was there. Networks that are read later would then lack their tied
#: weights.
READING = RLock()
SPLIT = "split"  #: a device: a network is spread over all that there are
TIME_LIMIT = 300.0  #: seconds in which a server should answer a request
MAX_REQUESTS, MAX_TOKENS = 1000, 1024  #: requests of a run to a system that answers in text, and tokens of a reply


@dataclass(frozen=True)
class ServedSettings:
    """Settings for models behind a server.

    ``tokenizers``: pairs of a model's name and its tokenizer: a folder, a hub id, or a tokenizer in memory.
    ``allow_remote``: texts may be sent to another machine. ``version``: the user's word for what is served; scores are
    cached under it, and not at all without one. ``time_limit``: seconds after which a request without a complete answer
    is sent again. Of systems that answer in text: ``system_prompt``, before each question; ``temperature`` of their
    replies; ``max_tokens`` of one reply; ``max_requests`` of a run.
    """

    tokenizers: tuple[tuple[str, str | PreTrainedTokenizerBase], ...] = ()
    allow_remote: bool = False
    version: str | None = None
    time_limit: float = TIME_LIMIT
    system_prompt: str | None = None
    temperature: float = 1.0
    max_requests: int = MAX_REQUESTS
    max_tokens: int = MAX_TOKENS

    def __post_init__(self) -> None:
        """Reject a time that no request can keep, and other numbers that mean nothing."""
        if not 0 < self.time_limit < float("inf"):
            raise SettingError(f"endpoint_timeout should be a number of seconds above 0, got {self.time_limit!r}")
        for name, hint in {"temperature": Temperature, "max_requests": Count, "max_tokens": Count}.items():
            check_setting(name, hint, getattr(self, name))


@dataclass(frozen=True)
class LoadSettings:
    """Settings for loading models.

    ``device``: a torch device; ``auto`` is a GPU if there is one, and ``split`` spreads a network over all GPUs, the
    memory of this machine and the files of the checkpoint. ``dtype``: number format of the weights; ``auto`` is that of
    the checkpoint. ``labels``: names of a classifier's outputs in their order, for a config without meaningful ones.
    ``trust_remote_code``: run code that comes with the checkpoint. ``served``: what applies to models behind a server
    only. ``samples``: replies to each question, of a system that answers in text; ``None``: one, and none of an
    endpoint that gives the probabilities of options.
    """

    device: str = "auto"
    dtype: str = "float32"
    labels: tuple[str, ...] | None = None
    trust_remote_code: bool = False
    served: ServedSettings = ServedSettings()
    samples: int | None = None


@dataclass(frozen=True)
class ModelSource:
    """A located model with a known role, before its weights are loaded.

    ``config``: the config of a checkpoint. ``found``: what else was found, which the loader of the kind needs.
    ``kind``: the kind, where files on the hub say another one than the spec. ``elsewhere``: another process runs the
    model, so that it needs no memory here.
    """

    spec: ModelSpec
    role: Role
    config: PreTrainedConfig | None = None
    found: object = None
    kind: str = ""
    elsewhere: bool = False


def settle_outputs(config: PreTrainedConfig, folder: Path, name: str, labels: Sequence[str] | None) -> None:
    """Give a classifier's config as many labels as its head has outputs, if the user or ``label2id`` names so many.

    Raises:
        ModelError: neither they nor ``id2label`` do.
    """
    shapes = _weight_shapes(folder)
    heads = [key for key in shapes if key.endswith(_HEAD_WEIGHTS) and key.count(".") <= 2]
    if not heads or len(shapes[heads[0]]) != 2:
        return
    outputs = shapes[heads[0]][0]
    named = labels_of(config)
    by_name = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("label2id") or {}
    inverse = {number: text for text, number in by_name.items()}
    if labels is not None:
        if len(labels) != outputs:
            raise ModelError(f"{name} has {outputs} outputs, --bias-labels names {len(labels)}")
        named = tuple(labels)
    elif set(inverse) == set(range(outputs)):
        by_number = tuple(inverse[number] for number in range(outputs))
        if len(named) != outputs or all(label.startswith("LABEL_") for label in named):
            named = by_number
        elif named != by_number and sorted(named) == sorted(by_number):
            raise ModelError(
                f"the config of {name} contradicts itself: id2label has the order {', '.join(named)}, and label2id"
                f" {', '.join(by_number)}; correct config.json, or name them in their order:"
                f" --bias-labels={','.join(named)} or --bias-labels={','.join(by_number)}"
            )
    by_output = getattr(config, "id2label", None)
    numbers = sorted(map(int, by_output)) if isinstance(by_output, dict) else []
    if labels is None and len(named) == outputs and named == labels_of(config) and numbers != list(range(outputs)):
        raise ModelError(
            f"id2label in the config of {name} numbers the outputs {brief_list(numbers)}; expected 0 to {outputs - 1}:"
            f" correct config.json, or name them in their order, as in --bias-labels={','.join(named)}"
        )
    if len(named) != outputs:
        raise ModelError(
            f"the config of {name} names {len(named)} label{'s' * (len(named) != 1)}"
            f" ({', '.join(map(brief, named[:6]))}), and its head has {outputs} outputs; name all of them in their"
            " order, as in --bias-labels=entailment,neutral,contradiction, or correct id2label in config.json"
        )
    if named != labels_of(config):
        config.id2label = dict(enumerate(named))
        config.label2id = {label: number for number, label in enumerate(named)}


def _weight_shapes(folder: Path) -> dict[str, list[int]]:
    """Return the shapes of the weights of a checkpoint in safetensors, by name; empty where none can be read."""
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, list[int]] = {}
    with suppress(OSError, ValueError, SafetensorError):
        for path in sorted(folder.glob("model*.safetensors")):
            with safe_open(path, "np") as file:
                shapes |= {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118 - no mapping
    return shapes


def read_arguments(spec: ModelSpec, settings: LoadSettings) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` for a checkpoint."""
    gguf = Path(spec.target) if spec.kind == "gguf" else None
    return {
        "pretrained_model_name_or_path": str(gguf.parent if gguf is not None else folder_of(spec) or spec.target),
        "trust_remote_code": settings.trust_remote_code,
        "local_files_only": gguf is not None or _is_local(spec),
        **({} if gguf is None else {"gguf_file": gguf.name}),
        **({} if spec.revision is None else {"revision": spec.revision}),
    }


def folder_of(spec: ModelSpec) -> Path | None:
    """Return the folder of the config and tokenizer of a local checkpoint or exported graph; ``None`` for others."""
    if spec.kind in GRAPHS:
        return config_folder(Path(spec.target))
    return Path(spec.target) if spec.kind == "directory" else None


def config_folder(graph: Path) -> Path:
    """Return the folder of the config and the tokenizer of a graph: its own, or, as in ``onnx/model.onnx``, the one
    above.
    """
    return next((f for f in (graph.parent, graph.parent.parent) if (f / "config.json").is_file()), graph.parent)


def checkpoint_file(spec: ModelSpec, name: str) -> Path | None:
    """Return the path of one file of a checkpoint, downloaded from the hub if needed; ``None`` if there is none or the
    hub is out of reach.

    Raises:
        ModelError: the hub answers that it does not give the file, which may be there.
    """
    folder = folder_of(spec)
    if folder is not None:
        return folder / name if (folder / name).is_file() else None
    if spec.kind != "hub":
        return None
    from transformers.utils.hub import cached_file

    try:
        path_in_cache = cached_file(spec.target, name, local_files_only=_is_local(spec), revision=spec.revision)
    except OSError as error:
        if all(_status(cause) in (None, 404) for cause in _causes(error)):  # none, or the hub says nothing
            return None
        raise loading_error(error, spec, name) from None
    return Path(path_in_cache) if path_in_cache else None


def snapshot_of(spec: ModelSpec) -> Path | None:
    """Return the folder of the commit of a model in the cache of the hub, whose config is downloaded if the hub has a
    newer one; ``None`` where loading the model says why there is none.
    """
    from huggingface_hub import hf_hub_download

    try:
        config = hf_hub_download(spec.target, "config.json", revision=spec.revision, local_files_only=_is_local(spec))
    except Exception:  # of the hub, of the network, of a name that is none
        return None
    return Path(config).parent


def loading_error(error: BaseException, spec: ModelSpec, part: str = "config") -> ModelError:
    """Return the error of transformers as one that says which part of the model failed and what to do."""
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return ModelError(
            f"{spec.name} comes with code of its own; if you trust it, add -o bias_trust_remote_code=true"
        )
    if spec.kind == "directory" and (damage := damage_of(Path(spec.target), "weight" in part)):
        return ModelError(f"the {part} of {spec.name} ({spec.target}) cannot be read: {damage}")
    if unknown := re.search(r"model type (`[^`]*`) but Transformers does not recognize", text):
        return ModelError(
            f"the config of {spec.name} ({spec.target}) has the model_type {unknown[1]:.80}, which transformers"
            f" {version('transformers')} does not know; correct it, or install a newer transformers"
        )
    if "weights_only" in text or "Weights only" in text or "torch.load" in text:
        return ModelError(
            f"{spec.name}: its weights are a pickle that cannot be read safely; save them with save_pretrained() as"
            f" safetensors ({text:.160})"
        )
    if part.startswith(QUANTISED) or part.endswith("in vLLM"):
        return ModelError(
            f"the {part} of {spec.name} ({spec.target}) cannot be read here ({type(error).__name__}: {text:.300}); its"
            " library says why: it may need a GPU, more memory or another version, or the checkpoint is damaged"
        )
    if isinstance(error, ImportError):
        return ModelError(
            f"the {part} of {spec.name} cannot be read without a package that is not installed here ({text:.300});"
            " install it: config.json asks for it (quantization_config names the method of quantised weights)"
        )
    if spec.kind == "hub" and (refusal := refusal_of_hub(error, spec)) is not None:
        return ModelError(f"the {part} of {spec.name} cannot be read: {refusal}")
    if spec.kind == "hub" and part == "config" and isinstance(error, OSError):
        from huggingface_hub import constants

        offline = ", since HF_HUB_OFFLINE is set" if constants.is_offline_mode() else ""
        has_answer = any(_status(cause) is not None for cause in _causes(error))
        reason = "the hub has none of that name" if has_answer else f"the hub cannot be reached{offline}"
        alias = "" if spec.spec in ALIASES else ", or an alias such as bert-base or demo"
        return ModelError(
            f"no model {spec.target!r} in the local cache, and {reason}; give a path,"
            f" --bias-model={spec.name}=/path/to/checkpoint{alias}"
        )
    resumed = "if its download was cut off, run again where the hub can be reached (hf download), or else "
    return ModelError(
        f"the {part} of {spec.name} ({spec.target}) cannot be read ({type(error).__name__}: {text:.300});"
        f" {resumed * (spec.kind == 'hub')}copy or save the whole checkpoint again"
    )


@contextmanager
def reading_errors(spec: ModelSpec, part: str) -> Iterator[None]:
    """Raise whatever reading a checkpoint raises as one :class:`ModelError`: files that break rules end in errors of
    many kinds.

    The Rust code of tokenizers can panic, which is no ``Exception``; a checkpoint's own code can exit. Interruptions
    and timeouts pass.
    """
    try:
        yield
    except BiasError:
        raise
    except BaseException as error:
        if isinstance(error, (Exception, SystemExit)) or type(error).__name__ == "PanicException":
            raise loading_error(error, spec, part) from None
        raise


def refuse_outside(spec: ModelSpec) -> None:
    """Refuse an index of weights that names files outside the checkpoint's folder.

    Raises:
        ModelError: it does, or it cannot be read.
    """
    if spec.kind != "directory":
        return
    with reading_errors(spec, "index of the weights"):
        for path, file in indexed_weights(Path(spec.target)):
            if not isinstance(file, str) or PurePath(file).name != file or "\\" in file:
                raise ModelError(
                    f"{path} names the file {brief(file)} for a weight; expected the name of a file in the same folder:"
                    " save the checkpoint again"
                )


def explicit_weights(folder: Path) -> object:
    """Return what the config of a checkpoint names as its file of weights, or as their index, by a path in the folder;
    ``None`` if it names none.
    """
    return json.loads((folder / "config.json").read_text(encoding="utf-8")).get("transformers_weights")


def indexed_weights(folder: Path) -> Iterator[tuple[Path, object]]:
    """Yield the files that the indexes in a checkpoint's folder name for its weights, each after its index.

    Raises:
        OSError, ValueError, KeyError, TypeError, AttributeError: the config or an index is damaged.
    """
    for name in (*_INDEXES, explicit_weights(folder)):
        if isinstance(name, str) and name.endswith(".index.json") and (folder / name).is_file():
            index = json.loads((folder / name).read_text(encoding="utf-8"))
            yield from ((folder / name, file) for file in index["weight_map"].values())


def refuse_size(config: PreTrainedConfig, name: str) -> None:
    """Refuse a config with numbers of which no network can be made, or only one that is none: without layers, or with
    so many that building would not end.

    Raises:
        ModelError: naming the entry and what was expected.
    """
    ranges: dict[str, tuple[float, float]] = {
        **dict.fromkeys(_LAYERS, (0, _MOST_LAYERS)),
        "num_hidden_layers": (1, _MOST_LAYERS),
        **dict.fromkeys(_COUNTS, (1, _MOST_COUNTED)),
        **dict.fromkeys(_ROUNDED, (0, 1)),
    }
    for key, (least, most) in ranges.items():
        number = getattr(config, key, None)
        if isinstance(number, (int, float)) and not least <= number <= most:
            raise _impossible(name, key, number, f"most {most}" if number > most else f"least {least}")


def _impossible(name: str, key: str, number: float, bound: str) -> ModelError:
    return ModelError(
        f"the config of {name} has {key}: {brief(number)}; expected at {bound}: copy the checkpoint again"
    )


def read_config(spec: ModelSpec, settings: LoadSettings) -> PreTrainedConfig:
    """Read the config of a checkpoint. A network of this package is registered with transformers first.

    Raises:
        ModelError: it cannot be read, or a number that it would count up to is too large.
    """
    with uncollected_imports("transformers"):
        from transformers import AutoConfig, PreTrainedConfig

    path = checkpoint_file(spec, "config.json")
    stated: Any = None
    with suppress(OSError, ValueError, AttributeError, TypeError, RecursionError):  # transformers reports them below
        if path is not None:
            stated = json.loads(path.read_text(encoding="utf-8"))
            register_network(stated.get("model_type"))
    _refuse_lists(stated, spec.name)
    with reading_errors(spec, "config"), quiet_transformers():
        config = AutoConfig.from_pretrained(**read_arguments(spec, settings))
    assert isinstance(config, PreTrainedConfig)
    if isinstance(config.architectures, str):
        config.architectures = [config.architectures]
    return config


def _refuse_lists(stated: object, name: str) -> None:
    """Refuse numbers for which a config of transformers makes a list as long, when it is made, in any of its parts."""
    for key, value in stated.items() if isinstance(stated, dict) else ():
        most = _MOST_LAYERS if key in _LAYERS else _MOST_LABELS if key == "num_labels" else None
        if most is not None and isinstance(value, int) and value > most:
            raise _impossible(name, key, value, f"most {most}")
        _refuse_lists(value, name)


def _is_local(spec: ModelSpec) -> bool:
    return folder_of(spec) is not None or not _hub_is_reachable()


@cache
def _hub_is_reachable() -> bool:
    """Try the hub once, for at most 3 seconds; the hub's own client retries for half a minute."""
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


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the reports and progress bars of transformers inside a ``with`` block; what matters in them is raised as
    an error.
    """
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def uncollected_imports(module: str) -> Iterator[None]:
    """Pause the garbage collector inside a ``with`` block that imports a module for the first time, and exclude from
    later collections all objects that are in memory after the block.

    Nearly all that transformers imports stays; to search it again and again finds nothing, and takes a quarter of a
    short run. What was garbage before the block is collected first. Networks are built outside of it.
    Cycles among other objects that the process holds at that moment are not freed later.
    """
    if module in sys.modules or not gc.isenabled():
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


#: What statuses of the hub mean, and what to do; ``{id}`` is the repository.
_BY_STATUS = {
    401: (
        "the hub asks for a login before it gives {id}: it is gated or private, or there is none of that name; correct"
        " the name, give a path, --bias-model={name}=/path/to/checkpoint, or accept its terms on its page and log in"
        " (hf auth login, or the environment variable HF_TOKEN)"
    ),
    403: (
        "the hub forbids this account to read {id}: ask for access on its page, or use a token (HF_TOKEN) with the"
        " right to read it"
    ),
    429: "the hub takes no more requests from here for now: wait some minutes, or log in (HF_TOKEN), which allows more",
}
#: The same by the classes of huggingface_hub's errors, which know more than the status.
_BY_ERROR = {
    "GatedRepoError": (
        "the hub has {id}, which is gated: accept its terms on its page, and log in with the account that did (hf auth"
        " login, or the environment variable HF_TOKEN)"
    ),
    "DisabledRepoError": "the hub has disabled {id}: give another model",
    "RevisionNotFoundError": "the hub has {id}, but no revision {revision} of it; expected a branch, a tag or a commit",
    "RemoteEntryNotFoundError": (
        "the hub has {id}, but not the file that was asked for; expected the repository of a checkpoint"
    ),
}


def refusal_of_hub(error: BaseException, spec: ModelSpec) -> str | None:
    """Return why the hub did not give a file of a model, and what to do; ``None`` if it gave no answer, or has no model
    of that name.

    Args:
        error: what transformers or huggingface_hub raised.
        spec: the model on the hub.
    """
    for cause in _causes(error):
        status = _status(cause)
        if status is None:
            continue
        known = next((_BY_ERROR[kind.__name__] for kind in type(cause).__mro__ if kind.__name__ in _BY_ERROR), None)
        if known is None and status >= 500:
            known = "the hub has a fault of its own: run again later, or give a folder"
        known = known or _BY_STATUS.get(status)
        if known is not None:
            revision = "main" if spec.revision is None else spec.revision
            return f"{known.format(id=spec.target, name=spec.name, revision=revision)} (status {status})"
        return None if status == 404 else f"the hub refuses the request for {spec.target} (status {status})"
    return None


def _status(error: BaseException) -> int | None:
    """Return the status of the HTTP answer that an error is about."""
    response = vars(error).get("response")
    status = getattr(response, "status_code", None)
    return status if isinstance(status, int) else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those from which it arose."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__
