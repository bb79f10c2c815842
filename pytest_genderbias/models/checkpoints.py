"""Load the tokenizer and the weights of a checkpoint, and check them; and read the files of a sentence encoder that
transformers does not read: modules, pooling and length.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pytest_genderbias.errors import BiasWarning, ModelError, installing
from pytest_genderbias.models.behaviour import ANY_ROWS, NotComputedError, Probe
from pytest_genderbias.models.chat_template import chat_template_details
from pytest_genderbias.models.checkpoint_folder import weights_read
from pytest_genderbias.models.config import (
    PROJECTED_LAYERS,
    QUANTISED,
    name_head,
    promised_positions,
    quantisation_method,
    require_library,
    role_of_config,
    role_of_gguf,
    settled_role,
)
from pytest_genderbias.models.fingerprint import fingerprint_network, fingerprint_tokenizer
from pytest_genderbias.models.model import UNKNOWN_POOLING, Checkpoint, Model
from pytest_genderbias.models.plain_tensors import floats_of, number_format, slow_format
from pytest_genderbias.models.roles import CAUSAL_LM, COREFERENCE_SCORER, ENCODER, MASKED_LM, OTHER, Role
from pytest_genderbias.models.source import (
    READING,
    SPLIT,
    LoadSettings,
    ModelSource,
    checkpoint_file,
    quiet_transformers,
    read_arguments,
    read_config,
    reading_errors,
    refuse_outside,
    refuse_size,
    settle_outputs,
    uncollected_imports,
)
from pytest_genderbias.models.spec import HEADS, ModelSpec
from pytest_genderbias.text.printable import brief

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_GIB = 1 << 30
_MEMORY, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")  #: of Linux; no other system is asked
_MODULES, _LENGTHS = "modules.json", "sentence_bert_config.json"
#: Modules that a sentence encoder may have: pooling is applied here, and normalising changes no cosine.
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")
_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first", "pooling_mode_max_tokens": "max"}


@dataclass(frozen=True)
class SentenceFiles:
    """Pooling and length according to the files of a sentence encoder; ``None`` if the checkpoint has no such files."""

    pooling: str | None
    longest: object

    @property
    def facts(self) -> dict[str, str]:
        """The entries that decide scores, by name; empty for other checkpoints."""
        entries = {"pooling": self.pooling, "max_length": self.longest}
        return {name: str(value) for name, value in entries.items() if value not in (None, UNKNOWN_POOLING)}


_NO_FILES = SentenceFiles(None, None)


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Read the config of a checkpoint and its role.

    Raises:
        ModelError: the config cannot be read, or its head or labels cannot be used.
    """
    is_gguf = spec.kind == "gguf"
    missing = [name for name in ("gguf", "accelerate") if is_gguf and find_spec(name) is None]
    if missing:
        raise ModelError(
            f"{spec.name} is a GGUF file, which is read with {' and '.join(missing)}, not installed here: "
            f"{installing('gguf')}"
        )
    config = read_config(spec, settings)
    with reading_errors(spec, "config's entries"):  # of a wrong type
        refuse_size(config, spec.name)
        if spec.kind in ("directory", "hub"):
            require_library(config, spec.name)
        if spec.head is not None:
            name_head(config, spec.head, spec.name)
        role = role_of_gguf(config, spec.name) if is_gguf else role_of_config(config)
        if role.labels and spec.kind == "directory":
            settle_outputs(config, Path(spec.target), spec.name, settings.labels)
            role = role_of_config(config)
        if role.kind == OTHER and not config.architectures and spec.kind in ("directory", "hub"):
            raise ModelError(
                f"{spec.name} has no head that can be scored: its config names no architectures; name the head after"
                f" the checkpoint: {spec.name}={spec.spec:.300},head=HEAD, with HEAD"
                f" one of {', '.join(HEADS)}; or add architectures to config.json"
            )
        return ModelSource(spec, settled_role(role, config, spec.name, settings.labels), config)


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Load the tokenizer and the weights of a checkpoint, and check them.

    Raises:
        ModelError: a part is missing or damaged, a weight is NaN or infinite, a masked LM has no mask token, or the
            device cannot be used.
    """
    tokenizer = load_tokenizer(source.spec, settings)
    network, missing = read_network(source, settings)
    refuse_missing(network, missing, source.spec.name)
    return checked_checkpoint(source, network, tokenizer, source.spec, settings.device)


def checked_checkpoint(
    source: ModelSource, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, files: ModelSpec, device: str
) -> Model:
    """Make a :class:`Model` of a network that was read, on its device and checked.

    Args:
        source: the located model, with its name and role.
        network: its network, which is moved and put into evaluation mode.
        tokenizer: its tokenizer.
        files: the checkpoint that has the files beside the weights: pooling, and projections of hidden layers.
        device: a torch device, or ``auto``.

    Raises:
        ModelError: as :func:`load`.
    """
    import torch

    name = source.spec.name
    try:
        if device == SPLIT:  # that of the first layers: a GPU if the network uses one
            places = getattr(network, "hf_device_map", {"": network.device}).values()
            device = str(next((torch.device(place) for place in places if place not in ("cpu", "disk")), "cpu"))
        else:
            device = pick_device(device)
            network.to(torch.device(device))  # type: ignore[arg-type]  # a wrapper without types
        network.eval()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    for tensor in network.parameters():
        if tensor.data_ptr() % 64:  # in a mapped file; alignment changes torch's summation order, and so the scores
            tensor.data = tensor.data.clone()
    projected: dict[str, str] = {}
    if getattr(network.config, PROJECTED_LAYERS, None):
        from pytest_genderbias.models.hidden_layers import PROJECTION_FILE, restore_projections

        with reading_errors(files, "projection of hidden layers"):
            projected = restore_projections(network, partial(checkpoint_file, files, PROJECTION_FILE), name)
    sentences = read_sentence_files(files)
    with reading_errors(files, "tokenizer"):
        check_parts(network, tokenizer, source.role, name)
        dtype = number_format(network)
        slow = slow_format(dtype, device)
        tokenizer_print = fingerprint_tokenizer(tokenizer)
    if slow:
        warnings.warn(f"{name}: {slow}", BiasWarning, stacklevel=2)
    checkpoint = replace(observed(network, tokenizer, source.role, name, device, sentences), files=files)
    further = dict(sentences.facts)
    if source.spec.revision is not None:  # the commit of a pinned revision on the hub, as its folder in the cache
        config = checkpoint_file(source.spec, "config.json")
        is_snapshot = config is not None and config.parent.parent.name == "snapshots"
        further["revision"] = config.parent.name if config is not None and is_snapshot else source.spec.revision
    details = details_of(checkpoint, type(network).__name__, tokenizer_print, dtype, {**further, **projected})
    fingerprint = fingerprint_network(network, tokenizer_print, sentences.facts)
    return Model(name, source.spec.spec, source.role, fingerprint, details, checkpoint)


def observed(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    role: Role,
    name: str,
    device: str,
    sentences: SentenceFiles = _NO_FILES,
    runtime: str | None = None,
    refuse: bool = True,
) -> Checkpoint:
    """Make a :class:`Checkpoint` of a network in evaluation mode, after a few passes that show what its output depends
    on.

    Args:
        network: the network, on its device.
        tokenizer: its tokenizer.
        role: its role.
        name: the model's name, for messages.
        device: its device.
        sentences: what the files of a sentence encoder say.
        runtime: the library that runs an exported graph.
        refuse: refuse a network that cannot compute its output; else it says so when it is scored.

    Raises:
        ModelError: as of :class:`~pytest_genderbias.models.behaviour.Probe`.
    """
    import torch

    found: tuple[str, int | None, tuple[int, ...]] = (ANY_ROWS, None, ())
    try:
        if role.kind != OTHER:
            with torch.no_grad():
                found = Probe(network, tokenizer, role.kind, name, device).behaviour()
    except NotComputedError:
        if refuse:
            raise
    batches, positions, widths = found
    # RoBERTa's positions begin after that of the padding, so its config allows two more than there are.
    limits: Iterable[object] = (
        *(*promised_positions(network.config), tokenizer.model_max_length),
        *(sentences.longest, positions),
    )
    longest = min((limit for limit in limits if isinstance(limit, int) and 0 < limit < 10**6), default=None)
    return Checkpoint(network, tokenizer, device, longest, sentences.pooling, runtime, batches, widths)


def details_of(
    checkpoint: Checkpoint, architecture: str, tokenizer_print: str, dtype: str, further: Mapping[str, str]
) -> dict[str, str]:
    """Return the details of a model that is a checkpoint. ``batches`` says which rows share a batch, if not all may."""
    import torch

    return {
        "architecture": architecture,
        "tokenizer": tokenizer_print[:16],
        "dtype": dtype,
        "device": torch.device(checkpoint.device).type,
        **({} if checkpoint.runtime is None else {"runtime": checkpoint.runtime}),
        **chat_template_details(checkpoint.tokenizer),
        **further,
        **({"batches": checkpoint.batches} if checkpoint.batches else {}),
    }


def check_parts(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, role: Role, name: str) -> None:
    """Refuse a network and a tokenizer that would give meaningless scores.

    Raises:
        ModelError: a weight is NaN or infinite; the tokenizer has no vocabulary, or the model is a masked LM and it has
            no mask token.
    """
    import torch

    check_tokenizer(tokenizer, name)
    if role.kind == MASKED_LM and tokenizer.mask_token_id is None:
        raise ModelError(
            f"{name} is a masked LM, but its tokenizer has no mask token; save the tokenizer with mask_token set"
        )
    for weight, tensor in floats_of(network):
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{name} has NaN or infinite weights (first: {weight}); train or save it again")


def check_tokenizer(tokenizer: PreTrainedTokenizerBase, name: str) -> None:
    """Refuse a tokenizer of special tokens only, as transformers makes one up where the vocabulary is missing, and one
    without a limit.

    Raises:
        ModelError: it is such a tokenizer, or its ``model_max_length`` is no number.
    """
    if not isinstance(tokenizer.model_max_length, (int, float)):
        raise ModelError(
            f"the tokenizer of {name} has model_max_length {brief(tokenizer.model_max_length)}; expected a number:"
            " correct tokenizer_config.json"
        )
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ModelError(
            f"{name} comes without its tokenizer's vocabulary; save the tokenizer beside the weights (tokenizer.json)"
        )


def pick_device(device: str) -> str:
    """Return a torch device; for ``auto`` a GPU if there is one."""
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def load_tokenizer(spec: ModelSpec, settings: LoadSettings) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a checkpoint and check it.

    Raises:
        ModelError: it is missing or damaged.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerBase

    with reading_errors(spec, "tokenizer"):
        tokenizer = AutoTokenizer.from_pretrained(**read_arguments(spec, settings))
    assert isinstance(tokenizer, PreTrainedTokenizerBase)
    check_tokenizer(tokenizer, spec.name)
    return tokenizer


def read_network(source: ModelSource, settings: LoadSettings) -> tuple[PreTrainedModel, list[str]]:
    """Read the weights of a checkpoint into a network of the class of its role.

    Returns:
        The network, and the names of the weights that the checkpoint lacks, which are random; a missing pooler of an
        encoder is zero instead.

    Raises:
        ModelError: the weights cannot be read, or entries belong to layers that do not read them.
    """
    import torch
    import transformers

    with uncollected_imports("transformers.modeling_utils"):
        classes = {
            MASKED_LM: transformers.AutoModelForMaskedLM,
            CAUSAL_LM: transformers.AutoModelForCausalLM,
            ENCODER: transformers.AutoModel,
            COREFERENCE_SCORER: transformers.AutoModel,
        }
    auto = classes.get(source.role.kind, transformers.AutoModelForSequenceClassification)
    refuse_outside(source.spec)
    split = {"device_map": "auto"} if settings.device == SPLIT else {}
    if split and find_spec("accelerate") is None:
        raise ModelError(f"--bias-device={SPLIT} needs accelerate, which is not installed: pip install accelerate")
    # Weights that are missing are drawn at random.
    method = None if source.config is None else quantisation_method(source.config)
    part = "weights" if method is None else QUANTISED + method
    if method is None:
        _refuse_memory(source, settings)
    with READING, reading_errors(source.spec, part), quiet_transformers(), torch.random.fork_rng(devices=[]):
        read = partial(
            auto.from_pretrained,
            config=source.config,
            dtype=settings.dtype if settings.dtype == "auto" else getattr(torch, settings.dtype),
            output_loading_info=True,
            **split,
            **read_arguments(source.spec, settings),
        )
        try:
            network, info = read()
        except Exception as error:
            if "ignore_mismatched_sizes" in str(error):
                _refuse_mismatched(read(ignore_mismatched_sizes=True)[1]["mismatched_keys"], source.spec.name)
            elif method is None:  # the config is the cause if no network can be made of it alone
                trust = settings.trust_remote_code
                with reading_errors(source.spec, "config's entries"), torch.device("meta"):
                    auto.from_config(source.config, trust_remote_code=trust)  # type: ignore[no-untyped-call]
            raise
    assert isinstance(network, transformers.PreTrainedModel)
    missing = sorted({*info["missing_keys"], *(str(key[0]) for key in info["mismatched_keys"])})
    if source.role.kind == ENCODER:  # no suite reads the pooler; zeros keep the fingerprint the same
        pooler = [name for name in missing if name.startswith("pooler.")]
        with torch.no_grad():
            for name in pooler:
                network.get_parameter(name).zero_()
        missing = [name for name in missing if name not in pooler]
    _refuse_wrapped(missing, info["unexpected_keys"], source.spec.name)
    _refuse_unread(network, info["unexpected_keys"], source.spec.name)
    return network, missing


def _refuse_memory(source: ModelSource, settings: LoadSettings) -> None:
    """Refuse a local checkpoint whose weights, in the number format that is asked for, are more than the free memory.

    Weights that keep their format stay in their file until they are read, and need no memory of their own.

    Raises:
        ModelError: naming both sizes, and what to do.
    """
    import torch

    folder, free = Path(source.spec.target), free_memory()
    stored = getattr(source.config, "dtype", None) or torch.float32
    wanted = stored if settings.dtype == "auto" else getattr(torch, settings.dtype)
    if source.spec.kind != "directory" or free is None or wanted == stored or settings.device == SPLIT:
        return
    most = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())  # also what is not read
    if most * wanted.itemsize // stored.itemsize <= free:
        return
    size = sum(path.stat().st_size for path in weights_read(folder) if path.is_file())
    if (needed := size * wanted.itemsize // stored.itemsize) > free:
        raise ModelError(
            f"{source.spec.name} needs about {needed / _GIB:.1f} GiB of memory in {settings.dtype}, and"
            f" {free / _GIB:.1f} GiB are free; keep its own number format, {size / _GIB:.1f} GiB in"
            f" {str(stored).removeprefix('torch.')} (--bias-dtype=auto), or spread it over the devices, the memory and"
            f" the files of the machine (--bias-device={SPLIT})"
        )


def free_memory() -> int | None:
    """Return how many bytes this process may still take: of the machine, with its swap, and of the container around
    it; ``None`` where nothing says so.
    """
    left = []
    with suppress(OSError, ValueError, KeyError):
        lines = (line.split() for line in _MEMORY.read_text().splitlines())
        sizes = {words[0]: int(words[1]) << 10 for words in lines if words[2:] == ["kB"]}
        left.append(sizes["MemAvailable:"] + sizes["SwapFree:"])
    with suppress(OSError, ValueError, KeyError):  # without a limit there is no number
        counts = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        used = int((_GROUP / "memory.current").read_text()) - int(counts["inactive_file"])
        left.append(int((_GROUP / "memory.max").read_text()) - used)
    return min(left, default=None)


def _refuse_mismatched(keys: Iterable[tuple[str, Sequence[int], Sequence[int]]], name: str) -> None:
    """Refuse weights of other shapes than the config says; ``keys`` has the name of each, its shape, and the
    config's.
    """
    for weight, *shapes in sorted(keys):
        sizes = [" x ".join(map(str, shape)) for shape in shapes]
        raise ModelError(
            f"the weights of {name} do not fit its config.json: {weight} has the shape {sizes[0]}, and the config asks"
            f" for {sizes[1]}; copy both from one checkpoint, or correct the number in config.json (of labels:"
            " id2label)"
        )


def _refuse_wrapped(missing: Sequence[str], unexpected: Iterable[str], name: str) -> None:
    """Refuse weights whose names all begin with what a wrapper added, as torch.compile does."""
    keys = list(unexpected)
    prefixes = Counter(key.removesuffix(weight) for weight in missing for key in keys if key.endswith(f".{weight}"))
    if not prefixes:
        return
    prefix, count = prefixes.most_common(1)[0]
    if 2 * count >= len(missing):
        raise ModelError(
            f"the names of the weights of {name} begin with {brief(prefix)}, which a wrapper of the network adds"
            " (torch.compile adds _orig_mod., DataParallel module.); save the network inside the wrapper:"
            " network._orig_mod.save_pretrained(...) or network.module.save_pretrained(...)"
        )


def refuse_missing(network: PreTrainedModel, missing: Sequence[str], name: str) -> None:
    """Refuse a network with random weights.

    Raises:
        ModelError: ``missing`` names some.
    """
    if missing:
        raise ModelError(
            f"{name} lacks weights that its architecture {type(network).__name__} scores with:"
            f" {', '.join(missing[:4])}{' ...' if len(missing) > 4 else ''} ({len(missing)} in all); they would be"
            " random, so nothing is measured: save the checkpoint with its trained head"
        )


def _refuse_unread(network: PreTrainedModel, unexpected: Iterable[str], name: str) -> None:
    """Refuse entries of a checkpoint that belong to a layer of the network and are not read: the scales of quantised
    weights, or an adapter.

    The layer would compute with the numbers of its weight as they are, though they mean something else without the
    entry.
    """
    from torch.nn import Embedding, Linear
    from transformers.pytorch_utils import Conv1D

    prefix = f"{network.base_model_prefix}."
    layers = {path for path, module in network.named_modules() if isinstance(module, (Embedding, Linear, Conv1D))}
    layers |= {path.removeprefix(prefix) for path in layers} | {prefix + path for path in layers}
    unread = []
    for key in sorted(unexpected):
        parts = key.split(".")  # the first of them may be the path of a layer, the rest the name of its entry
        splits = [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(1, len(parts))]
        if any(path in layers and entry not in ("weight", "bias") for path, entry in splits):
            unread.append(key)
    if unread:
        raise ModelError(
            f"{name} has entries that its network {type(network).__name__} does not read:"
            f" {', '.join(unread[:4])}{' ...' if len(unread) > 4 else ''} ({len(unread)} in all); they belong to its"
            " layers, as the scales of quantised weights or an adapter do, so the weights would mean something else:"
            " save it with save_pretrained(), which writes quantization_config into config.json, or merge the adapter"
        )


def read_sentence_files(spec: ModelSpec) -> SentenceFiles:
    """Read the files that a sentence encoder has beside those of transformers.

    Raises:
        ModelError: a file cannot be read, or names modules or a pooling that are not supported.
    """
    pooling = _pooling(spec)
    longest = (_read_json(spec, _LENGTHS, dict) or {}).get("max_seq_length")
    if pooling is None and spec.kind == "hub":
        from huggingface_hub import try_to_load_from_cache

        # A cache that transformers alone has filled does not say whether these files are there.
        looked_up = [try_to_load_from_cache(spec.target, name, revision=spec.revision) for name in (_MODULES, _LENGTHS)]
        pooling = UNKNOWN_POOLING if None in looked_up else None
    return SentenceFiles(pooling, longest)


def _pooling(spec: ModelSpec) -> str | None:
    """Return the pooling according to the encoder's files, or ``None`` if it has none."""
    folder = pooling_folder(spec)
    name = f"{folder or '1_Pooling'}/config.json"
    content = _read_json(spec, name, dict)
    if content is None and folder is not None:
        raise ModelError(f"{spec.target}/{name} is missing, but modules.json names it; copy the whole encoder again")
    if content is None:
        return None
    modes = [_POOLINGS[key] for key, on in content.items() if on is True and key in _POOLINGS]
    if len(modes) != 1:
        raise ModelError(
            f"{spec.target}/{name} names no pooling that is supported; expected exactly one of {', '.join(_POOLINGS)}"
            " to be true"
        )
    return modes[0]


def pooling_folder(spec: ModelSpec) -> str | None:
    """Return the folder of the pooling in ``modules.json``, if any; refuse modules that would not be applied."""
    modules = _read_json(spec, _MODULES, list) or []
    try:
        folders = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    except (TypeError, KeyError):
        raise ModelError(f"{spec.target}/{_MODULES} cannot be read: expected objects with 'type' and 'path'") from None
    others = [kind for kind in folders if kind not in _KNOWN_MODULES]
    if others:
        raise ModelError(
            f"{spec.name} is a sentence encoder with the module {', '.join(others)} ({_MODULES}); only"
            f" {', '.join(_KNOWN_MODULES)} are applied here: give it as module:callable with encode(texts), or remove"
            " modules.json to measure its network alone"
        )
    folder = folders.get("Pooling")
    if folder is not None and (PurePath(folder).is_absolute() or ".." in PurePath(folder).parts or "\\" in folder):
        raise ModelError(
            f"{spec.target}/{_MODULES} names the folder {brief(folder)}, which is outside the encoder; copy the whole"
            " encoder again"
        )
    return folder


def _read_json(spec: ModelSpec, name: str, kind: type) -> Any:
    """Return the object or array in a JSON file of the encoder, or ``None`` if there is no such file."""
    path = checkpoint_file(spec, name)
    if path is None:
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, kind):
            raise ValueError(f"expected a JSON {'object' if kind is dict else 'array'}, got {content!r:.60}")
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}; copy or save the whole sentence encoder again") from None
    return content
