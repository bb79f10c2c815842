"""Adapters of the peft library (LoRA and the like): merged into the weights of their base when they are loaded."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_genderbias.errors import BiasError, DataFileError, ModelError, SettingError, installing
from pytest_genderbias.models.behaviour import Probe, moved, rounding
from pytest_genderbias.models.checkpoints import checked_checkpoint, load_tokenizer, read_network, refuse_missing
from pytest_genderbias.models.config import class_with_head, quantisation_method, role_of_config, settled_role
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.plain_tensors import entry_bytes, parts
from pytest_genderbias.models.roles import CAUSAL_LM, ENCODER
from pytest_genderbias.models.source import (
    SPLIT,
    LoadSettings,
    ModelSource,
    checkpoint_file,
    quiet_transformers,
    read_config,
    reading_errors,
    refuse_size,
)
from pytest_genderbias.models.spec import (
    ADAPTER,
    ADAPTER_PREFIX,
    HUB_ID,
    ModelSpec,
    check_adapter_alone,
    parse_checkpoint,
    safe_name,
    split_adapter,
)
from pytest_genderbias.text.plain_files import parse_json, read_whole
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from peft import PeftModel
    from torch import Tensor
    from torch.nn import Module
    from transformers import PreTrainedConfig, PreTrainedModel

_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")
_NAME = "default"  #: of the one adapter that is loaded, inside peft
_PREFIX = "base_model.model."  #: of each entry of an adapter, before the name of the base's weight
_WHOLE = ".modules_to_save."  #: in the names of weights that peft saved whole, which it may save without it, too
_BASE = ".base_layer."  #: between the name of an adapted layer and that of its own weight, inside peft
_OTHER_BASE = "give the base that it was trained on: adapter:DIR@BASE"
_MOST_BYTES = 1 << 20  #: of adapter_config.json
#: Output layers of classification heads: their rows are the labels.
_HEADS = re.compile(
    r"(?:^|\.)(?:classifier|score|classifier\.out_proj|classification_head\.out_proj)(?:\.modules_to_save)?\.weight$"
)


def parse(spec: str) -> ModelSpec:
    """Parse ``adapter:DIR[@BASE]``. DIR may also be a hub id.

    Raises:
        ModelError: there is no such adapter, or the base is no checkpoint.
    """
    where, base = split_adapter(spec.removeprefix(ADAPTER_PREFIX))
    path = Path(where).expanduser()
    of_base = parse_checkpoint(base, "the base of an adapter should be") if base else None
    if where and path.is_dir():
        if not (path / ADAPTER).is_file():
            raise ModelError(
                f"{path} has no {ADAPTER}; expected the folder of an adapter as peft's save_pretrained() writes it"
            )
        if of_base is None:
            check_adapter_alone(path)
        return ModelSpec(safe_name(path.resolve().name), spec, "adapter", str(path.resolve()), of_base)
    if not HUB_ID.fullmatch(where):
        raise ModelError(
            f"no directory {brief(where)}; expected adapter:DIR or adapter:DIR@BASE, with DIR the folder of an adapter"
        )
    return ModelSpec(safe_name(where.rpartition("/")[2]), spec, "adapter", where, of_base)


def _located(spec: ModelSpec) -> tuple[ModelSpec, ModelSpec, Mapping[str, object]]:
    """Return the folder or hub repository of an adapter, its base, and the content of adapter_config.json.

    Raises:
        ModelError: adapter_config.json cannot be read, or the base is not known.
    """
    is_local = spec.kind == "adapter" and Path(spec.target).is_dir()
    place = ModelSpec(spec.name, spec.spec, "directory" if is_local else "hub", spec.target, revision=spec.revision)
    path = checkpoint_file(place, ADAPTER)
    if path is None:
        raise ModelError(
            f"{spec.name}: no {ADAPTER} at {spec.target}; expected the folder or the hub id of an adapter of peft"
        )
    try:
        entries = parse_json(read_whole(path, _MOST_BYTES), str(path), finite=False)
    except DataFileError as error:
        raise ModelError(
            f"the adapter of {spec.name} cannot be read: {error}; save it again with peft's save_pretrained()"
        ) from None
    if not isinstance(entries, dict) or not isinstance(entries.get("peft_type"), str):
        raise ModelError(
            f'{path} names no peft_type; expected what peft\'s save_pretrained() writes, as "peft_type": "LORA"'
        )
    if entries.get("megatron_config") is not None:
        raise ModelError(
            f"{path} has a megatron_config, for which peft would import the module that it names; expected an adapter"
            " without one"
        )
    base = spec.base or _named_base(entries, path.parent if is_local else None, spec)
    if checkpoint_file(base, ADAPTER) is not None:
        raise ModelError(
            f"the base of {spec.name}, {base.target}, has an adapter of its own; expected a checkpoint: merge that"
            " adapter first (merge_and_unload())"
        )
    return place, base, entries


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config of an adapter's base, and the role that the adapter gives it.

    Raises:
        ModelError: peft is not installed, adapter_config.json or the config cannot be read, or the head or its labels
            cannot be used.
    """
    place, base, entries = _located(spec)
    if find_spec("peft") is None:
        raise ModelError(
            f"{spec.name} is an adapter ({ADAPTER}), which is applied with peft, not installed here:"
            f" {installing('peft')}"
        )
    if base.kind == "hub" and checkpoint_file(base, "config.json") is None:
        raise ModelError(
            f"the base of the adapter {spec.name}, {brief(base.target)}, is not in the local cache, and the hub"
            " does not give it; give its folder:"
            f" --bias-model={spec.name}=adapter:{brief(place.target)}@/path/to/base"
        )
    config = read_config(base, settings)
    _refuse_quantised(config, spec.name, place, brief(base.target))
    if checkpoint_file(place, "config.json") is not None:  # of the base with the head that was trained
        own = read_config(place, settings)
        if own.model_type != config.model_type:
            raise ModelError(
                f"{spec.name} has a config.json of the type {own.model_type}, its base {base.target} is of the"
                f" type {config.model_type}; give the base that it was trained on:"
                f" adapter:{brief(place.target)}@BASE"
            )
        _refuse_quantised(own, spec.name, place)
        config = own
    with reading_errors(place, "config's entries"):
        refuse_size(config, spec.name)
        config.architectures = _architectures(config, entries, spec.name)
        if entries.get("task_type") == "SEQ_CLS" and (labels := _labels_of_head(place)):
            config.num_labels = labels
        role = settled_role(role_of_config(config), config, spec.name, settings.labels)
    return ModelSource(spec, role, config, (place, base, entries), "adapter")


def _refuse_quantised(config: PreTrainedConfig, name: str, place: ModelSpec, base: str = "") -> None:
    """Refuse a base with quantised weights: peft adds the adapter to them and rounds the sum again, without saying so.

    Args:
        config: of the base.
        name: the model's name, for the message.
        place: of the adapter.
        base: where the config is; by default it is the file beside the adapter.

    Raises:
        ModelError: its weights are quantised.
    """
    method = quantisation_method(config)
    if method is not None:
        further = "" if base else ", and take quantization_config out of that file"
        raise ModelError(
            f"{name} is an adapter of a base whose weights were quantised by {brief(method)}"
            f" ({base or 'config.json beside the adapter'}); merging would"
            " round the sum of both again, and the result is not what is served. Give the base with its full weights:"
            f" adapter:{brief(place.target)}@BASE{further}"
        )


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load the base of an adapter, merge the adapter into its weights, and check the result.

    The model is the one that ``merge_and_unload()`` and ``save_pretrained()`` would write: it has the same scores and
    the same fingerprint.

    Raises:
        ModelError: a part is missing or damaged, weights of the adapter do not fit the base or change nothing, or it
            cannot be merged.
    """
    place, base, entries = cast("tuple[ModelSpec, ModelSpec, Mapping[str, object]]", source.found)
    if settings.device == SPLIT:
        raise SettingError(
            f"{source.spec.name} is an adapter, which is merged into the weights of its base, and a network that is"
            f" split has not all of them at hand: save the merged network, or leave out --bias-device={SPLIT}"
        )
    name = source.spec.name
    has_tokenizer = any(checkpoint_file(place, file) is not None for file in _TOKENIZERS)
    tokenizer = load_tokenizer(place if has_tokenizer else base, settings)
    weights = next((path for file in _WEIGHTS if (path := checkpoint_file(place, file)) is not None), None)
    if weights is None:
        raise ModelError(
            f"the adapter {name} has no weights at {place.target}; expected {_WEIGHTS[0]}: save it again with peft's"
            " save_pretrained()"
        )
    of_base = ModelSource(replace(base, name=name, spec=source.spec.spec), source.role, source.config)
    network, missing = read_network(of_base, settings)
    rows = network.get_input_embeddings().get_parameter("weight").shape[0]
    if len(tokenizer) > rows:
        raise ModelError(
            f"{name} has a tokenizer of {len(tokenizer):,} tokens, its base has embeddings of {rows:,}; give the base"
            f" with the resized embeddings, adapter:{brief(place.target)}@BASE, or a checkpoint that it was merged into"
        )
    with reading_errors(place, "adapter"), _quiet():
        probe = Probe(network, tokenizer, source.role.kind, name, "cpu")
        network, given = _merge(network, weights.parent, entries, name, probe)
    refuse_missing(network, [weight for weight in missing if weight not in given], name)
    has_modules = checkpoint_file(place, "modules.json") is not None  # the pooling of a sentence encoder
    files = place if has_modules else base
    model = checked_checkpoint(source, network, tokenizer, files, settings.device)
    model.details["adapter"] = f"{entries.get('peft_type')}, merged"
    return model


def _named_base(entries: Mapping[str, object], folder: Path | None, spec: ModelSpec) -> ModelSpec:
    """Return the base that an adapter names: a folder from here or from the adapter's own, or a hub id."""
    named = entries.get("base_model_name_or_path")
    how = f"--bias-model={spec.name}=adapter:{brief(spec.target)}@BASE"
    if not isinstance(named, str) or not named:
        raise ModelError(
            f"the adapter {spec.name} does not name its base (base_model_name_or_path in {ADAPTER}); give it: {how}"
        )
    places = [Path(named).expanduser(), *([] if folder is None else [folder / named])]
    folders = list(dict.fromkeys(path.resolve() for path in places if path.is_dir()))
    if len(folders) > 1:
        raise ModelError(
            f"the adapter {spec.name} names the base {brief(named)}, which is {folders[0]} or {folders[1]}; give one:"
            f" {how}"
        )
    if folders:
        return ModelSpec(spec.name, spec.spec, "directory", str(folders[0]))
    if not HUB_ID.fullmatch(named):
        raise ModelError(
            f"the adapter {spec.name} names the base {brief(named)}, and there is no such folder; give the base: {how}"
        )
    if entries.get("revision") not in (None, "main"):
        raise ModelError(
            f"the adapter {spec.name} names the revision {brief(entries['revision'])} of its base {named}; download"
            f" that, and give the folder: {how}"
        )
    return ModelSpec(spec.name, spec.spec, "hub", named)


def _architectures(config: PreTrainedConfig, entries: Mapping[str, object], name: str) -> list[str] | None:
    """Return the class that an adapter was trained on: that of its task, the one that it names, or else that of the
    base.
    """
    task = entries.get("task_type")
    if task is None:
        mapping = entries.get("auto_mapping")
        own = mapping.get("base_model_class") if isinstance(mapping, dict) else None
        if not isinstance(own, str):
            return config.architectures
        import transformers

        expected = getattr(getattr(transformers, own, None), "config_class", None)
        if isinstance(expected, type) and not isinstance(config, expected):
            raise ModelError(
                f"{name} is an adapter of a {own}, and its base is of the type {config.model_type}; {_OTHER_BASE}"
            )
        return [own]
    head = {"SEQ_CLS": "classifier", "CAUSAL_LM": CAUSAL_LM, "FEATURE_EXTRACTION": ENCODER}.get(str(task))
    if head is None:
        raise ModelError(
            f"{name} is an adapter for the task {brief(task)}, which no suite measures; expected one of SEQ_CLS,"
            " CAUSAL_LM, FEATURE_EXTRACTION, or none of a masked LM"
        )
    found = class_with_head(config, head)
    if found is None:
        raise ModelError(
            f"{name} is an adapter for the task {task}, for which transformers has no class of the type"
            f" {config.model_type}"
        )
    return [found]


def _labels_of_head(place: ModelSpec) -> int | None:
    """Return the number of outputs of the classification head in an adapter's weights; ``None`` if it has none there,
    or no safetensors.
    """
    path = checkpoint_file(place, _WEIGHTS[0])
    if path is None:
        return None
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        heads = [key for key in file.keys() if _HEADS.search(key)]  # noqa: SIM118 - no mapping
        return int(file.get_slice(heads[0]).get_shape()[0]) if len(heads) == 1 else None


def _merge(
    network: PreTrainedModel, folder: Path, entries: Mapping[str, object], name: str, probe: Probe
) -> tuple[PreTrainedModel, set[str]]:
    """Merge an adapter into a network, and check that a text has the same output before and after. Return the network
    and the names of the weights that came whole with the adapter, as of a head.
    """
    import torch
    from peft import load_peft_weights, set_peft_model_state_dict

    saved = load_peft_weights(str(folder), device="cpu")
    other = {key: saved.get(key.replace(_WHOLE, "."), one) for key, one in saved.items()}  # where tokens were added
    weights = {key: one for key, one in saved.items() if other[key] is one or not torch.equal(one, other[key])}
    given = {key.removeprefix(_PREFIX).replace(_WHOLE, ".").replace(_BASE, ".") for key in weights}
    whole = _digests(network, given)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # some initialisations draw numbers; what matters of them is loaded
        wrapped = _wrap(network, folder, entries, name)
    unloaded = _adapter_entries(wrapped)
    for tensor in unloaded.values():
        if tensor.is_floating_point():
            tensor.fill_(float("nan"))
    try:
        with _fitting(name):
            loaded: Any = set_peft_model_state_dict(wrapped, weights)  # what load_state_dict() of torch returns
    except KeyError as error:
        raise ModelError(
            f"the adapter of {name} lacks the weight {error}; save it again with peft's save_pretrained()"
        ) from None
    _refuse_unfit(wrapped, loaded.unexpected_keys, name)
    before = _digests(wrapped.get_base_model()) | whole
    wrapped.eval()
    with torch.no_grad():
        applied = probe.output_of_text()
        merged = cast("PreTrainedModel", wrapped.merge_and_unload(safe_merge=True))
        if moved(applied, probe.output_of_text(), rounding(merged)):
            raise ModelError(
                f"the adapter of {name} cannot be merged: the merged network has other outputs than the base with the"
                " adapter beside it, as where a layer that the adapter changes shares its weights with another layer"
                " (tied embeddings). Train it without that layer (target_modules), or give a base that has the weights"
                " twice (tie_word_embeddings: false): adapter:DIR@BASE"
            )
    for parameter in merged.parameters():
        if parameter.is_floating_point():
            parameter.requires_grad_(True)
    if before == _digests(merged, before):
        raise ModelError(
            f"the adapter of {name} changes no weight of its base: it was not trained; give the base itself, or the"
            " trained adapter"
        )
    return merged, given


def _wrap(network: PreTrainedModel, folder: Path, entries: Mapping[str, object], name: str) -> PeftModel:
    """Return a network with the untrained layers of an adapter in it."""
    from peft import MODEL_TYPE_TO_PEFT_MODEL_MAPPING, PeftConfig, PeftModel, __version__

    config = PeftConfig.from_pretrained(str(folder))
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if config.is_prompt_learning or config.is_adaption_prompt:
        raise ModelError(
            f"{name} is an adapter of the type {kind}, which puts vectors before or between the tokens of each text and"
            " cannot be merged into weights, so it is not measured; expected one that changes weights, as LORA or IA3"
        )
    # Settings that this version of peft does not know it leaves out with a warning. Those that are off are no change.
    ignored = sorted(key for key in entries.keys() - vars(config).keys() - {"peft_version"} if entries[key])
    if ignored:
        saved = entries.get("peft_version")
        raise ModelError(
            f"the adapter of {name} has settings that peft {__version__} does not know and would leave out:"
            f" {', '.join(map(brief, ignored[:3]))}{' ...' if len(ignored) > 3 else ''};"
            f" {f'it was saved with peft {brief(saved)}: ' if saved else ''}pip install -U peft"
        )
    config.inference_mode = True
    with _fitting(name):
        return MODEL_TYPE_TO_PEFT_MODEL_MAPPING.get(config.task_type, PeftModel)(network, config, _NAME)


@contextmanager
def _fitting(name: str) -> Iterator[None]:
    """Raise what peft and torch raise where layers or sizes of an adapter are not those of the network."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        why = brief(" ".join(str(error).split()), 250)
        raise ModelError(f"the adapter of {name} does not fit its base ({why}); {_OTHER_BASE}") from None


def _adapter_entries(wrapped: PeftModel) -> dict[str, Tensor]:
    """Return what an adapter's file should have for a network, by its name in the file. The tensors are those of the
    network.
    """
    from peft import get_peft_model_state_dict

    return dict(get_peft_model_state_dict(wrapped, adapter_name=_NAME, save_embedding_layers=False))


def _refuse_unfit(wrapped: PeftModel, unexpected: Sequence[str], name: str) -> None:
    """Refuse an adapter with entries that the network does not have, or without some that it has."""
    import torch

    lacking = sorted(
        key
        for key, tensor in _adapter_entries(wrapped).items()
        if tensor.is_floating_point() and bool(torch.isnan(tensor).any())
    )
    for keys, what in (
        (sorted(unexpected), "has entries that its base does not have"),
        (lacking, "lacks entries, or they are NaN, for its base"),
    ):
        if keys:
            raise ModelError(
                f"the adapter of {name} {what} {type(wrapped.get_base_model()).__name__}:"
                f" {', '.join(keys[:3])}{' ...' if len(keys) > 3 else ''} ({len(keys)} in all); give the base that it"
                " was trained on, adapter:DIR@BASE, or save it again"
            )


def _digests(network: Module, names: Collection[str] | None = None) -> dict[str, str]:
    """Return a hash of each named parameter; without ``names``, of those that layers of an adapter hold, by their names
    in the base.
    """
    found = {}
    for key, parameter in network.named_parameters():
        if key in names if names is not None else _BASE in key:
            content = hashlib.sha256()
            for _, tensor in parts(key, parameter):
                for piece in entry_bytes(tensor):
                    content.update(piece)
            found[key.replace(_BASE, ".")] = content.hexdigest()
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of peft and transformers; what matters in them is raised as an error. What merging refuses
    is one error.
    """
    with warnings.catch_warnings(), quiet_transformers():
        warnings.simplefilter("ignore")
        try:
            yield
        except BiasError:
            raise
        except NotImplementedError as error:
            raise ModelError(
                f"the adapter cannot be merged ({brief(str(error))}); expected one that changes weights, as LORA or IA3"
            ) from None
