"""``Model``: a loaded model under test, and ``Checkpoint``: a transformers network with its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.config_entries import SIZES, hidden_size
from pytest_genderbias.models.roles import Role
from pytest_genderbias.models.vectors import WordVectors

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: Pooling of a hub model whose pooling files are not in the cache while the hub cannot be reached.
UNKNOWN_POOLING = "unknown"


@dataclass(frozen=True)
class Checkpoint:
    """A transformers network in evaluation mode and its tokenizer, both checked.

    ``device``: where the network is. ``max_length``: most tokens in a row, or ``None`` without a limit. ``pooling``: how a sentence
    encoder pools token vectors into one (``mean``, ``first``, ``max``) according to its files; ``None`` for other checkpoints,
    ``UNKNOWN_POOLING`` if the files could not be looked up. ``runtime``: the library that runs an exported graph, as ``onnxruntime 1.23.0``;
    ``None`` for a network of torch.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: str
    max_length: int | None
    pooling: str | None = None
    runtime: str | None = None

    @property
    def body(self) -> PreTrainedModel:
        """The network without its head; of an encoder-decoder, the encoder."""
        body = cast("PreTrainedModel", self.network.base_model)
        return cast("PreTrainedModel", body.get_encoder()) if body.config.is_encoder_decoder else body


@dataclass(frozen=True)
class Model:
    """A model under test.

    ``name``: the model's name in tables and baselines. ``fingerprint``: hash over parameters, config, tokenizer and the pooling and
    length of a sentence encoder; ``None`` for an object or a network in memory without one, whose scores are never cached.
    ``details``: architecture, tokenizer, dtype and device, and pooling and max_length of a sentence encoder; part of a
    measurement's signature. ``backend``: a :class:`Checkpoint`, the content of a file (word vectors, predictions, a text), or an object with
    the protocol of the role.
    """

    name: str
    spec: str
    role: Role
    fingerprint: str | None
    details: dict[str, str]
    backend: Any = field(repr=False)  # the role decides what it is; callers narrow it with isinstance

    @property
    def width(self) -> int:
        """Size of the model's vectors: the hidden size of a network, or the dimensions of word vectors.

        Raises:
            NotApplicableError: the model is an object without vectors.
            ModelError: the config has no hidden size.
        """
        if isinstance(self.backend, Checkpoint):
            config = self.backend.network.config
            size = hidden_size(config)
            if size is None:
                raise ModelError(
                    f"the config of {self.name} has no hidden size; expected one of the entries {', '.join(SIZES)}"
                )
            return size
        if not isinstance(self.backend, WordVectors):
            raise NotApplicableError(f"{self.name} is an object without vectors, which this suite needs")
        return int(self.backend.matrix.shape[1])

    @property
    def input_width(self) -> int:
        """Size of the input embeddings; smaller than ``width`` in ALBERT, some ELECTRAs and MobileBERT."""
        if isinstance(self.backend, Checkpoint):
            return int(self.backend.network.get_input_embeddings().get_parameter("weight").shape[1])
        return self.width
