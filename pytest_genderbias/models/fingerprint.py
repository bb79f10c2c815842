"""Content hashes of a loaded model and its tokenizer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from uuid import uuid4

from pytest_genderbias.models.model import Checkpoint, Model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: Config entries that do not affect scores.
_VOLATILE = {"_name_or_path", "transformers_version", "dtype", "torch_dtype", "architectures_source"}


class _Serialisable(Protocol):
    def to_str(self) -> str: ...


@runtime_checkable
class _FastTokenizer(Protocol):
    """A tokenizer of the tokenizers library."""

    @property
    def backend_tokenizer(self) -> _Serialisable: ...


def fingerprint_network(network: PreTrainedModel, tokenizer: str, sentences: Mapping[str, str]) -> str:
    """Return a SHA-256 over parameters and buffers (names, types, shapes, bytes), config and tokenizer fingerprint.

    ``sentences``: pooling and length according to the files of a sentence encoder; empty for other checkpoints.
    """
    import torch

    digest = hashlib.sha256()
    config = {k: v for k, v in network.config.to_dict().items() if k not in _VOLATILE}
    digest.update(json.dumps(config, sort_keys=True, default=str).encode())
    digest.update(tokenizer.encode())
    if sentences:
        digest.update(json.dumps(dict(sentences), sort_keys=True).encode())
    tensors = [*network.named_parameters(), *network.named_buffers()]
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def fingerprint_tokenizer(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a SHA-256 over everything that determines the token ids of a text."""
    content = (
        tokenizer.backend_tokenizer.to_str()
        if isinstance(tokenizer, _FastTokenizer)
        else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    )
    special = json.dumps(tokenizer.special_tokens_map, sort_keys=True, default=str)
    kind = type(tokenizer).__name__
    return hashlib.sha256(f"{kind}\n{content}\n{special}".encode()).hexdigest()


def known_by(model: Model) -> str:
    """Return a text that identifies a model: its fingerprint, the current one of a network in memory, or a new random name for other objects."""
    if model.fingerprint is not None:
        return model.fingerprint
    if isinstance(model.backend, Checkpoint):
        return fingerprint_network(model.backend.network, fingerprint_tokenizer(model.backend.tokenizer), {})
    return uuid4().hex
