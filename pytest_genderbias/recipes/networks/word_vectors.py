"""The base class of the networks over word vectors."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel


class WordVectorModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """A network whose base model has its word vectors under ``embeddings``."""

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the word vectors."""
        embeddings = self.base_model.embeddings
        assert isinstance(embeddings, nn.Embedding)
        return embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word vectors."""
        self.base_model.embeddings = value
