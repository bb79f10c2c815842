"""What the networks of this package share that put a head of their own on an encoder of any architecture."""

from __future__ import annotations

from typing import Any

from torch import nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from pytest_genderbias.models.config import entry


class EncoderWithHeadConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """The ``encoder``'s config, and ``head``: a description of the head's training data; empty before training."""

    sub_configs = {"encoder": AutoConfig}  # noqa: RUF012 - as transformers has it
    has_no_defaults_at_init = True

    def __init__(
        self,
        encoder: PreTrainedConfig | dict[str, Any] | None = None,
        head: dict[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the settings; the entries of a stored config become the encoder's config."""
        if isinstance(encoder, dict):
            entries = dict(encoder)
            encoder = AutoConfig.for_model(entries.pop("model_type"), **entries)
        self.encoder, self.head = encoder, dict(head or {})
        super().__init__(**kwargs)
        self.tie_word_embeddings = False
        inner = encoder.get_text_config() if encoder is not None else None
        for name in ("vocab_size", "max_position_embeddings"):  # entries that every network needs
            setattr(self, name, None if inner is None else entry(inner, name))


class EncoderWithHead(PreTrainedModel):  # type: ignore[no-untyped-call]
    """An ``encoder`` below a head that is no output layer over the vocabulary."""

    base_model_prefix = "encoder"
    encoder: PreTrainedModel

    def get_input_embeddings(self) -> nn.Module:
        """Return the input embeddings of the encoder."""
        embeddings: nn.Module = self.encoder.get_input_embeddings()
        return embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the input embeddings of the encoder."""
        self.encoder.set_input_embeddings(value)

    def get_output_embeddings(self) -> None:
        """Return ``None``, since there is no output layer over the vocabulary."""
        return None
