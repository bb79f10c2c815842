"""Content hashes of a loaded model and its tokenizer."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pytest_genderbias.models.config import PROJECTED_LAYERS, PROJECTIONS
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.plain_tensors import entry_bytes, packed_entries, plain_tensors
from pytest_genderbias.models.protocols import HIDDEN_STATES

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

#: Config entries that do not affect scores, or whose effect is counted by itself.
_VOLATILE = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures_source", PROJECTED_LAYERS}


def fingerprint_network(network: PreTrainedModel, tokenizer: str, sentences: Mapping[str, str]) -> str:
    """Return a SHA-256 over parameters, buffers and packed weights (names, types, shapes, bytes), config, tokenizer
    fingerprint and projected layers.

    ``sentences``: pooling and length according to the files of a sentence encoder; empty for other checkpoints.
    """
    import torch

    digest = hashlib.sha256()
    digest.update(json.dumps(config_content(network.config), sort_keys=True, default=str).encode())
    digest.update(tokenizer.encode())
    if sentences:
        digest.update(json.dumps(dict(sentences), sort_keys=True).encode())
    for name, tensor in plain_tensors(network):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    for name, value in sorted(packed_entries(network).items()):
        digest.update(name.encode())
        for part in entry_bytes(value):
            digest.update(part)
    if not hasattr(network, PROJECTIONS):
        return digest.hexdigest()
    from pytest_genderbias.models.hidden_layers import fingerprint_with_projections, projections_of

    return fingerprint_with_projections(digest.hexdigest(), projections_of(network))


def config_content(config: PreTrainedConfig) -> dict[str, object]:
    """Return the entries of a config that may affect scores."""
    return {k: v for k, v in config.to_dict().items() if k not in _VOLATILE}


def fingerprint_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a SHA-256 over everything that determines the token ids of a text.

    How the last call cut and padded its texts is no part of it: every call sets that anew.
    """
    content = (
        _without_last_call(tokenizer.backend_tokenizer.to_str())
        if tokenizer.is_fast
        else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    )
    special = json.dumps(tokenizer.special_tokens_map, sort_keys=True, default=str)
    kind = type(tokenizer).__name__
    return hashlib.sha256(f"{kind}\n{content}\n{special}".encode()).hexdigest()


def _without_last_call(content: str) -> str:
    """Return the JSON of a tokenizer without truncation and padding, which stand before everything else that it has.

    >>> _without_last_call('{"version":"1.0","truncation":{"max_length":16},"padding":null,"model":{"truncation":1}}')
    '{"version":"1.0","truncation":null,"padding":null,"model":{"truncation":1}}'
    """
    decoder = json.JSONDecoder()
    for key in ('"truncation":', '"padding":'):
        before, there, rest = content.partition(key)
        if there:
            content = f"{before}{there}null{rest[decoder.raw_decode(rest)[1] :]}"
    return content


def fingerprint_reading(checkpoint: Checkpoint) -> str:
    """Return a SHA-256 over what decides scores beside the fingerprint of a model: how texts are cut and fed, a slow
    tokenizer's files, and code.

    The score cache has it in its keys. It is no part of the fingerprint, which baselines hold, so that those of earlier
    versions still name the same model.
    """
    if "reading" in vars(checkpoint):  # of a checkpoint that an earlier run loaded
        return str(vars(checkpoint)["reading"])
    tokenizer = checkpoint.tokenizer
    settings: dict[str, object] = {
        "max_length": checkpoint.max_length,
        "pooling": checkpoint.pooling,
        "model_input_names": list(tokenizer.model_input_names),
        "model_max_length": tokenizer.model_max_length,
        "sides": [tokenizer.truncation_side, tokenizer.padding_side],
    }
    if checkpoint.runtime is not None:
        settings["runtime"] = checkpoint.runtime
    if checkpoint.batches:  # earlier versions stored scores of other batches
        settings["batches"] = checkpoint.batches
    if not tokenizer.is_fast:
        settings["slow"] = _slow_content(tokenizer)
    # Code that came with the checkpoint, as transformers keeps it; that of the config is beside that of the network.
    classes = [c for kind in (type(checkpoint.network), type(tokenizer)) for c in kind.__mro__]
    modules = {c.__module__ for c in classes if c.__module__.startswith("transformers_modules.")}
    folders = sorted({Path(str(sys.modules[name].__file__)).parent for name in modules})
    code = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    settings["code"] = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in code}
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()


def _slow_content(tokenizer: PreTrainedTokenizerBase) -> dict[str, object]:
    """Return the settings of a slow tokenizer, and hashes of the files that it saves: vocabulary, merges or
    SentencePiece model.
    """
    settings = {
        name: value
        for name, value in tokenizer.init_kwargs.items()
        if isinstance(value, (bool, int, float, str))
        and not name.startswith("_")
        and not name.endswith(("_file", "path"))
    }
    files: object
    with tempfile.TemporaryDirectory() as folder:
        try:
            tokenizer.save_pretrained(folder)
            named = [path for path in sorted(Path(folder).iterdir()) if path.name != "tokenizer_config.json"]
            files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in named}
        except Exception:
            files = uuid4().hex  # a tokenizer of someone's own is not known then, and its scores are stored for nobody
    return {"class": type(tokenizer).__name__, "settings": settings, "files": files}


def known_by(model: Model) -> str:
    """Return a text that identifies a model: its fingerprint, the current one of a network in memory, or a new random
    name for other objects.
    """
    if model.fingerprint is not None:
        return model.fingerprint
    if model.can(HIDDEN_STATES):
        return fingerprint_network(model.backend.network, fingerprint_tokenizer(model.backend.tokenizer), {})
    return uuid4().hex
