"""``Model``: a loaded model under test, and ``Checkpoint``: a transformers network with its tokenizer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, cast

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.models.config import SIZES, hidden_size
from pytest_genderbias.models.protocols import HIDDEN_STATES, LOG_PROBS, METHODS, WORD_VECTORS, Backend
from pytest_genderbias.models.roles import Role
from pytest_genderbias.models.source import LoadSettings
from pytest_genderbias.models.spec import ModelSpec

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: Pooling of a hub model whose pooling files are not in the cache while the hub cannot be reached.
UNKNOWN_POOLING = "unknown"
_MOST_IDS = 1 << 31  #: of a network that does not say how many it has


@dataclass(frozen=True)
class BareTokenizer:
    """A fast tokenizer without transformers, of a model whose scores are stored: the object of the tokenizers library,
    and what transformers adds to it for single tokens.

    The names are those of transformers, so that callers take either. ``unk_token``: the unknown token as transformers
    names it, or ``None``.
    """

    backend_tokenizer: Tokenizer
    unk_token: str | None
    is_fast = True

    @classmethod
    def of_text(cls, content: str, unk_token: str | None) -> BareTokenizer:
        """Return a tokenizer from the JSON that :func:`bare_content` gives."""
        from tokenizers import Tokenizer

        return cls(Tokenizer.from_str(content), unk_token)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Return the id of a token, or ``None`` if it is not in the vocabulary."""
        return self.backend_tokenizer.token_to_id(token)

    def convert_ids_to_tokens(self, number: int) -> str | None:
        """Return the token of an id, or ``None`` if there is none."""
        return self.backend_tokenizer.id_to_token(number)

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of tokens, special ones included; of one token the text that transformers gives, but for
        spaces around it.
        """
        return self.backend_tokenizer.decode(list(numbers), skip_special_tokens=False)


def bare_content(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the JSON of a fast tokenizer that is the same without transformers; ``None`` for others.

    Others are slow tokenizers, and those where transformers takes spaces out of the text of some token
    (``clean_up_tokenization_spaces``).
    """
    if not tokenizer.is_fast:
        return None
    backend: Tokenizer = tokenizer.backend_tokenizer
    if tokenizer.clean_up_tokenization_spaces:
        texts = backend.decode_batch([[i] for i in range(backend.get_vocab_size())], skip_special_tokens=False)
        if any(" " in text.strip() for text in texts):
            return None
    return backend.to_str()


class Tokenized(Backend):
    """A backend that is asked by token ids, since its tokenizer is in this process, wherever its network is.

    ``max_length``: most tokens in a row, or ``None`` without a limit.
    """

    abilities: ClassVar[frozenset[str]] = frozenset({LOG_PROBS})
    tokenizer: PreTrainedTokenizerBase
    max_length: int | None

    @cached_property
    def word_tokenizer(self) -> PreTrainedTokenizerBase | BareTokenizer:
        """The tokenizer for single words and tokens."""
        return self.tokenizer


@dataclass(frozen=True)
class Checkpoint(Tokenized):
    """A transformers network in evaluation mode and its tokenizer, both checked.

    ``device``: where the network is. ``max_length``: most tokens in a row, or ``None`` without a limit. ``pooling``:
    how a sentence encoder pools token vectors into one (``mean``, ``first``, ``max``) according to its files; ``None``
    for other checkpoints, ``UNKNOWN_POOLING`` if the files could not be looked up. ``runtime``: the library that runs
    an exported graph, as ``onnxruntime 1.23.0``; ``None`` for a network of torch. ``batches``: which rows may share a
    batch, and ``widths``: sizes of the hidden states, as
    :meth:`~pytest_genderbias.models.behaviour.Probe.behaviour` finds them.
    ``files``: where the files beside the weights are; ``None``: where the model's spec says.
    """

    abilities: ClassVar[frozenset[str]] = frozenset({LOG_PROBS, HIDDEN_STATES})
    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: str
    max_length: int | None
    pooling: str | None = None
    runtime: str | None = None
    batches: str = ""
    widths: tuple[int, ...] = ()
    files: ModelSpec | None = None

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids that the network knows now, since a user may resize it; of one that does not say, a
        number above all ids.
        """
        size = getattr(self.network.config.get_text_config(), "vocab_size", None)
        return size if isinstance(size, int) else _MOST_IDS

    @cached_property
    def hidden_size(self) -> int | None:
        """Size of the hidden states, or ``None`` if the config does not have it."""
        return hidden_size(self.network.config)

    @cached_property
    def input_width(self) -> int:
        """Size of the input embeddings."""
        return int(self.network.get_input_embeddings().get_parameter("weight").shape[1])

    @property
    def body(self) -> PreTrainedModel:
        """The network without its head; of an encoder-decoder, the encoder."""
        return body_of(self.network)


class DeferredCheckpoint(Checkpoint):
    """A checkpoint that an earlier run loaded; its network and tokenizer are loaded when they are first asked for.

    A copy with other parts (``dataclasses.replace``) is an ordinary checkpoint: nothing is known of it.
    """

    @classmethod
    def of(cls, known: Mapping[str, object], load: Callable[[], Checkpoint]) -> DeferredCheckpoint:
        """Return a checkpoint that calls ``load`` when its network or tokenizer is needed.

        ``known``: entries and properties of a :class:`Checkpoint`, and ``reading``, of
        :func:`~pytest_genderbias.models.fingerprint.fingerprint_reading`.
        """
        checkpoint = object.__new__(cls)
        vars(checkpoint).update(known, _load=load)
        return checkpoint

    @property
    def vocabulary_size(self) -> int:
        """Number of token ids; before the network is loaded, the known one."""
        return super().vocabulary_size if "network" in vars(self) else int(vars(self)["vocabulary_size"])

    def __getattr__(self, name: str) -> Any:  # of what is not there yet
        """Load network and tokenizer."""
        if name not in ("network", "tokenizer"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        loaded: Checkpoint = vars(self)["_load"]()
        vars(self).update(network=loaded.network, tokenizer=loaded.tokenizer)
        return vars(self)[name]


@dataclass(frozen=True)
class Origin:
    """Where a model was loaded from, and how, so that another process can load it."""

    spec: ModelSpec
    settings: LoadSettings


@dataclass(frozen=True)
class Model:
    """A model under test.

    ``name``: the model's name in tables and baselines. ``fingerprint``: hash over parameters, config, tokenizer and the
    pooling and length of a sentence encoder; ``None`` for an object or a network in memory without one, whose scores
    are never cached. ``details``: architecture, tokenizer, dtype and device, and pooling and max_length of a sentence
    encoder; part of a measurement's signature. ``backend``: a :class:`Checkpoint`, the content of a file (word vectors,
    predictions, a text), or an object with the protocol of the role. ``origin``: where it was loaded from; ``None`` for
    what was made in memory.
    """

    name: str
    spec: str
    role: Role
    fingerprint: str | None
    details: dict[str, str]
    backend: Any = field(repr=False)  # the role decides what it is, and `can` what is asked of it
    origin: Origin | None = field(default=None, repr=False, compare=False)

    def can(self, ability: str) -> bool:
        """Return whether the backend has an ability: one that its class names, or a method of the user's object."""
        if isinstance(self.backend, Backend):
            return ability in self.backend.abilities
        return ability in METHODS and isinstance(self.backend, METHODS[ability])

    def require(
        self, *abilities: str, otherwise: str = "is neither a file of word vectors nor a network of transformers"
    ) -> None:
        """Refuse a model whose backend has none of some abilities.

        Raises:
            NotApplicableError: the model ``otherwise``.
        """
        if not any(map(self.can, abilities)):
            raise NotApplicableError(f"{self.name} {otherwise}")

    @property
    def network_class(self) -> str:
        """Name of the class of the network, empty for a model without one in this process."""
        return type(self.backend.network).__name__ if self.can(HIDDEN_STATES) else ""

    @property
    def on_gpu(self) -> bool:
        """Whether the model computes on another device than the CPU."""
        return str(self.details.get("device") or "cpu").partition(":")[0] != "cpu"

    @property
    def width(self) -> int:
        """Size of the model's vectors: the hidden size of a network, or the dimensions of word vectors.

        Raises:
            NotApplicableError: the model is an object without vectors, or runs elsewhere.
            ModelError: the config has no hidden size.
        """
        self.require(
            WORD_VECTORS, HIDDEN_STATES, otherwise=f"({self.role.text}) gives no vectors here, which this suite needs"
        )
        if self.can(WORD_VECTORS):
            return int(self.backend.matrix.shape[1])
        if self.backend.widths:
            return int(self.backend.widths[-1])
        if self.backend.hidden_size is None:
            raise ModelError(
                f"the config of {self.name} has no hidden size; expected one of the entries {', '.join(SIZES)}"
            )
        return int(self.backend.hidden_size)

    def width_of(self, where: str | int) -> int:
        """Return the size of the vectors at a place: ``input`` (embeddings), ``last``, or the number of a layer.

        Layers differ where embeddings are projected, as in OPT-350m.
        """
        if where == "input":
            return self.input_width
        widths: tuple[int, ...] = self.backend.widths[:-1] if self.can(HIDDEN_STATES) else ()
        return widths[int(where)] if where != "last" and 0 <= int(where) < len(widths) else self.width

    @property
    def input_width(self) -> int:
        """Size of the input embeddings; smaller than ``width`` in ALBERT, some ELECTRAs and MobileBERT."""
        return int(self.backend.input_width) if self.can(HIDDEN_STATES) else self.width


def body_of(network: PreTrainedModel) -> PreTrainedModel:
    """Return a network without its head; of an encoder-decoder, the encoder."""
    body = cast("PreTrainedModel", network.base_model)
    return cast("PreTrainedModel", body.get_encoder()) if body.config.is_encoder_decoder else body


def is_network(target: object) -> TypeGuard[PreTrainedModel]:
    """Return whether an object is a transformers network. Transformers is not imported for an object of something
    else.
    """
    if "transformers" not in sys.modules:
        return False
    from transformers import PreTrainedModel

    return isinstance(target, PreTrainedModel)


@contextmanager
def evaluation_mode(target: object) -> Iterator[None]:
    """Put the network of a model into evaluation mode inside a ``with`` block, then give each module its mode back.

    ``target``: a network or a :class:`Model`; anything else is left alone, also a network that is loaded later, in
    evaluation mode.
    """
    of_model = isinstance(target, Model) and target.can(HIDDEN_STATES)
    network = vars(target.backend).get("network") if isinstance(target, Model) and of_model else target
    modes = {module: module.training for module in network.modules()} if is_network(network) else {}
    for module in modes:
        module.training = False
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
