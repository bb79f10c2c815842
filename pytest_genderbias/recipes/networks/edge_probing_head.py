"""An encoder of any architecture with an edge-probing head: whether two spans of a text corefer (Tenney et al.
2019).
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoConfig, AutoModel, PreTrainedConfig, initialization
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

from pytest_genderbias.models.config_entries import encoder_width
from pytest_genderbias.recipes.networks.encoder_with_head import EncoderWithHead, EncoderWithHeadConfig

_RANGE = 0.02  #: of the first weights of the head


class EdgeProbingConfig(EncoderWithHeadConfig):  # type: ignore[no-untyped-call]
    """The ``encoder``'s config, the units of the head (``head_size``) and its ``dropout``, and ``head``: a description
    of its training data.
    """

    model_type = "edge-probing"

    def __init__(
        self,
        encoder: PreTrainedConfig | dict[str, Any] | None = None,
        head_size: int = 256,
        dropout: float = 0.2,
        head: dict[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the settings."""
        self.head_size, self.dropout = head_size, dropout
        super().__init__(encoder, head, **kwargs)


class EdgeProbingModel(EncoderWithHead):
    """The encoder, and sigmoid(output . relu(hidden x)) of the vectors x of two spans, one after the other.

    x is standardised by ``mean`` and ``scale``, which are 0 and 1 until :meth:`standardise`.
    """

    config_class = EdgeProbingConfig
    mean: Tensor
    scale: Tensor

    def __init__(self, config: EdgeProbingConfig) -> None:
        super().__init__(config)
        assert config.encoder is not None
        self.encoder = AutoModel.from_config(config.encoder)  # type: ignore[no-untyped-call]
        features = 2 * encoder_width(config.encoder)
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(features))
        self.hidden = nn.Linear(features, config.head_size)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.head_size, 1)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        pairs: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: object,
    ) -> BaseModelOutput | SequenceClassifierOutput:
        """Return the output of the encoder; or for ``pairs``, (n, 2 x width), the log-odds of coreference, and the loss
        if there are labels.

        Args:
            input_ids: for the encoder.
            attention_mask: for the encoder.
            pairs: the concatenated vectors of both spans, instead of texts.
            labels: 1 where a pair corefers, else 0, shape (n,). The loss is the mean of -ln P, in nats.
            num_items_in_batch: divisor of the sum of -ln P, instead of n.
            kwargs: for the encoder.
        """
        if pairs is None:
            states: BaseModelOutput = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kwargs)
            return states
        logits, loss = self.logits(pairs), None
        if labels is not None:
            total = binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="sum")
            loss = total / (len(labels) if num_items_in_batch is None else num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def logits(self, pairs: Tensor) -> Tensor:
        """Return the log-odds that each pair corefers, from features of shape (..., 2 x width): shape (...)."""
        standard = (pairs.to(self.mean.dtype) - self.mean) / self.scale
        log_odds: Tensor = self.output(self.dropout(torch.relu(self.hidden(standard))))[..., 0]
        return log_odds

    def standardise(self, pairs: ArrayLike) -> None:
        """Make the head standardise its input by the mean and standard deviation of these vectors, shape (n, 2 x
        width).
        """
        scale, mean = torch.std_mean(torch.as_tensor(pairs).double(), dim=0, correction=0)
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(scale == 0, 1.0, scale))

    def renew_head(self) -> None:
        """Initialise the head anew, with torch's global generator."""
        for module in (self.hidden, self.output):
            module.weight.data.normal_(std=_RANGE)
            module.bias.data.zero_()

    def _init_weights(self, module: nn.Module) -> None:
        if module in (self.hidden, self.output) and isinstance(module, nn.Linear):
            initialization.normal_(module.weight, std=_RANGE)
            initialization.zeros_(module.bias)


def register() -> None:
    """Register the network with transformers' Auto classes."""
    AutoConfig.register(EdgeProbingConfig.model_type, EdgeProbingConfig, exist_ok=True)
    AutoModel.register(EdgeProbingConfig, EdgeProbingModel, exist_ok=True)
