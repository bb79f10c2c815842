"""An encoder of any architecture with an edge-probing head: whether two spans of a text corefer (Tenney et al. 2019)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, initialization

_RANGE = 0.02  #: of the first weights of the head


class EdgeProbingConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """The ``encoder``'s config, the units of the head (``head_size``), and ``head``: what it was trained on, and how well it does."""

    model_type = "edge-probing"
    sub_configs = {"encoder": AutoConfig}  # noqa: RUF012 - as transformers has it
    has_no_defaults_at_init = True

    def __init__(
        self, encoder: Any = None, head_size: int = 256, head: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Take the parts."""
        if isinstance(encoder, dict):
            told = dict(encoder)
            encoder = AutoConfig.for_model(told.pop("model_type"), **told)
        self.encoder, self.head_size, self.head = encoder, head_size, dict(head or {})
        super().__init__(**kwargs)
        self.tie_word_embeddings = False
        inner = encoder.get_text_config() if encoder is not None else None
        for name in ("vocab_size", "max_position_embeddings"):  # what is asked of any network
            setattr(self, name, getattr(inner, name, None))


class EdgeProbingModel(PreTrainedModel):  # type: ignore[no-untyped-call]
    """The encoder, and sigmoid(output . relu(hidden [first; second])) of the vectors of two spans."""

    config_class = EdgeProbingConfig
    base_model_prefix = "encoder"

    def __init__(self, config: EdgeProbingConfig) -> None:
        super().__init__(config)
        auto: Any = AutoModel
        self.encoder = auto.from_config(config.encoder)
        self.hidden = nn.Linear(2 * _width(config.encoder), config.head_size)
        self.output = nn.Linear(config.head_size, 1)
        self.post_init()  # type: ignore[no-untyped-call]

    def get_input_embeddings(self) -> nn.Module:
        """Return those of the encoder."""
        found: nn.Module = self.encoder.get_input_embeddings()
        return found

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Give the encoder others."""
        self.encoder.set_input_embeddings(value)

    def get_output_embeddings(self) -> None:
        """Return nothing: there is no output over the vocabulary."""
        return None

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **kwargs: Any) -> Any:
        """Return what the encoder does; :meth:`logits` reads its vectors."""
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kwargs)

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the log-odds that a pair corefers: its features (..., 2 x width) to (...)."""
        found: Tensor = self.output(torch.relu(self.hidden(pairs)))[..., 0]
        return found

    def _init_weights(self, module: nn.Module) -> None:
        if module in (self.hidden, self.output) and isinstance(module, nn.Linear):
            initialization.normal_(module.weight, std=_RANGE)
            initialization.zeros_(module.bias)


def _width(config: Any) -> int:
    found = config.get_text_config()
    return int(
        next(getattr(found, name) for name in ("hidden_size", "d_model", "dim", "n_embd") if hasattr(found, name))
    )


def register() -> None:
    """Make transformers' Auto classes know the network."""
    AutoConfig.register(EdgeProbingConfig.model_type, EdgeProbingConfig, exist_ok=True)
    AutoModel.register(EdgeProbingConfig, EdgeProbingModel, exist_ok=True)
