"""An encoder of any architecture below a head that says which mentions corefer: edge probing of two spans (Tenney et
al. 2019), and a span scorer of a mention and the earlier ones of a text (Lee et al. 2017, 2018).
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, initialization
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

from pytest_genderbias.models.config import encoder_width

_RANGE = 0.02  #: of the first weights of the head
BUCKETS = 10  #: of widths and distances: 0, 1, 2, 3, 4, 5 to 7, 8 to 15, 16 to 31, 32 to 63, 64 and more
_IMPOSSIBLE = -1e9  #: score of an antecedent that is not there; finite, so that its gradient is 0


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
            setattr(self, name, None if inner is None else getattr(inner, name, None))


class EncoderWithHead(PreTrainedModel):  # type: ignore[no-untyped-call]
    """An ``encoder`` below a head that is no output layer over the vocabulary."""

    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True  # in the encoder's layers

    def __init__(self, config: EncoderWithHeadConfig) -> None:
        super().__init__(config)
        assert config.encoder is not None
        self.encoder: PreTrainedModel = AutoModel.from_config(config.encoder)  # type: ignore[no-untyped-call]
        self.width = encoder_width(config.encoder)

    def renew_head(self) -> None:
        """Initialise the head anew, with torch's global generator."""
        for name, module in self.named_modules():
            if not name.startswith("encoder") and isinstance(module, (nn.Linear, nn.Embedding)):
                module.weight.data.normal_(std=_RANGE)
                if isinstance(module, nn.Linear):
                    module.bias.data.zero_()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            initialization.normal_(module.weight, std=_RANGE)
            if isinstance(module, nn.Linear):
                initialization.zeros_(module.bias)


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
        features = 2 * self.width
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


class SpanCoreferenceConfig(EncoderWithHeadConfig):  # type: ignore[no-untyped-call]
    """The ``encoder``'s config and the sizes of the head.

    ``head_size``: units of its hidden layers. ``feature_size``: dimensions of the vectors of widths and distances.
    ``dropout``: in the head. ``antecedents``: how many of the nearest earlier mentions are candidates. ``head``: a
    description of the training data; empty before training.
    """

    model_type = "span-coreference"

    def __init__(
        self,
        encoder: PreTrainedConfig | dict[str, Any] | None = None,
        head_size: int = 256,
        feature_size: int = 20,
        dropout: float = 0.3,
        antecedents: int = 50,
        head: dict[str, object] | None = None,
        **kwargs: Any,
    ) -> None:
        """Keep the settings."""
        self.head_size, self.feature_size = head_size, feature_size
        self.dropout, self.antecedents = dropout, antecedents
        super().__init__(encoder, head, **kwargs)


class SpanCoreferenceModel(EncoderWithHead):
    """The encoder, and s(i, j) = s_m(i) + s_m(j) + s_a(i, j) of a mention i and an earlier mention j.

    The vector g of a mention joins the hidden states of its first and its last token, their mean over the mention's
    tokens with learned attention, and a vector of its width. s_m is a two-layer network on g. s_a is one on g(i), g(j),
    their product and a vector of the distance in mentions. The dummy antecedent, which stands for none, has the score
    0: s(i, j) is the log-odds of the antecedent j against it.

    **choice.** The mentions are given, so that nothing is pruned: the coarse score of Lee et al. 2018 has no part, nor
    have refined vectors (Xu and Choi 2020: they help little), speakers and genres, which the data do not have.
    """

    config_class = SpanCoreferenceConfig
    accepts_loss_kwargs = False  # the loss is a mean over the mentions of a batch

    def __init__(self, config: SpanCoreferenceConfig) -> None:
        super().__init__(config)
        mention = 3 * self.width + config.feature_size
        self.attention = nn.Linear(self.width, 1)
        self.widths = nn.Embedding(BUCKETS, config.feature_size)
        self.distances = nn.Embedding(BUCKETS, config.feature_size)
        self.mention = _scorer(mention, config)
        self.antecedent = _scorer(3 * mention + config.feature_size, config)
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        mentions: Tensor | None = None,
        clusters: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutput | SequenceClassifierOutput:
        """Return the output of the encoder; or with ``mentions`` the scores of antecedents, and with ``clusters`` the
        loss.

        Args:
            input_ids: segments of the documents, shape (segments, length).
            attention_mask: 1 for tokens, 0 for padding, same shape.
            mentions: first and last token of each mention in the flattened ``input_ids``, in the order of the text,
                shape (documents, mentions, 2); -1 where a document has fewer mentions.
            clusters: number of each mention's cluster, shape (documents, mentions).
            output_hidden_states: for the encoder.

        Returns:
            With mentions, ``logits`` of shape (documents, mentions, K): s(i, j) of the K nearest earlier mentions j = i
            - 1, i - 2, ...; below -1e8 where there is none. The loss is :func:`antecedent_loss`, in nats.
        """
        states: BaseModelOutput = self.encoder(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=output_hidden_states
        )
        if mentions is None:
            return states
        hidden = states.last_hidden_state
        assert hidden is not None
        scores = self.scores(hidden.reshape(-1, hidden.shape[-1]), mentions)
        loss = None if clusters is None else antecedent_loss(scores, clusters)
        return SequenceClassifierOutput(loss=loss, logits=scores)

    def scores(self, tokens: Tensor, mentions: Tensor) -> Tensor:
        """Return the scores of antecedents from the hidden states of all tokens, (tokens, width): shape (documents,
        mentions, K).
        """
        there = mentions[..., 0] >= 0
        vectors = self.vectors(tokens, mentions.clamp(min=0))
        own = self.mention(vectors)[..., 0]
        count = mentions.shape[1]
        nearest = max(1, min(self.config.antecedents, count - 1))
        steps = torch.arange(1, nearest + 1, device=mentions.device)
        earlier = torch.arange(count, device=mentions.device)[:, None] - steps  # (mentions, K)
        valid = (earlier >= 0) & there[:, :, None]
        other = vectors[:, earlier.clamp(min=0)]  # (documents, mentions, K, size)
        mine = vectors[:, :, None].expand_as(other)
        distance = self.dropout(self.distances(bucket(steps))).expand(*other.shape[:-1], -1)
        pair = self.antecedent(torch.cat([mine, other, mine * other, distance], dim=-1))[..., 0]
        scores: Tensor = own[:, :, None] + own[:, earlier.clamp(min=0)] + pair
        return scores.float().masked_fill(~valid, _IMPOSSIBLE)

    def vectors(self, tokens: Tensor, mentions: Tensor) -> Tensor:
        """Return the vector of each mention: shape (documents, mentions, 3 x width + feature_size)."""
        first, last = mentions[..., 0], mentions[..., 1]
        inside = first[..., None] + torch.arange(int((last - first).max()) + 1, device=tokens.device)
        beyond = inside > last[..., None]
        states = tokens[inside.masked_fill(beyond, 0)]
        weights = self.attention(states)[..., 0].float().masked_fill(beyond, -torch.inf).softmax(dim=-1)
        head = (weights[..., None].to(states.dtype) * states).sum(dim=-2)
        width = self.dropout(self.widths(bucket(last - first + 1)))
        return torch.cat([tokens[first], tokens[last], head, width], dim=-1)


def antecedent_loss(scores: Tensor, clusters: Tensor) -> Tensor:
    """Return the mean over mentions of -ln P(a right antecedent), in nats (Lee et al. 2017, section 5).

    P is the softmax over the dummy, of score 0, and the earlier mentions. Right are all earlier mentions of the same
    cluster, whose probabilities are summed; for a mention without one, the dummy. Mentions without an earlier mention
    have no choice and do not count.

    Args:
        scores: as of :meth:`SpanCoreferenceModel.forward`, shape (documents, mentions, K).
        clusters: shape (documents, mentions).

    Example:
        The second mention is in the cluster of the first, whose score ln 3 makes P = 3 / (1 + 3).

        >>> scores = torch.tensor([[[-1e9], [3.0]]]).log().nan_to_num(-1e9)
        >>> round(float(antecedent_loss(scores, torch.tensor([[5, 5]])).neg().exp()), 4)
        0.75
    """
    valid = scores > _IMPOSSIBLE / 2
    count, nearest = scores.shape[1:]
    earlier = torch.arange(count, device=scores.device)[:, None] - torch.arange(1, nearest + 1, device=scores.device)
    right = valid & (clusters[:, earlier.clamp(min=0)] == clusters[:, :, None])
    none = ~right.any(dim=-1, keepdim=True)
    dummy = torch.zeros_like(scores[..., :1])
    allowed = torch.cat([none, right], dim=-1)
    all_scores = torch.cat([dummy, scores], dim=-1)
    lost = all_scores.logsumexp(dim=-1) - all_scores.masked_fill(~allowed, _IMPOSSIBLE).logsumexp(dim=-1)
    chosen = valid.any(dim=-1)
    return (lost * chosen).sum() / chosen.sum().clamp(min=1)


def bucket(numbers: Tensor) -> Tensor:
    """Return the bucket of numbers from 0: 0 to 4 have their own, then powers of two (Lee et al. 2017, section 4.2).

    >>> bucket(torch.tensor([0, 1, 4, 5, 7, 8, 31, 32, 63, 64, 500])).tolist()
    [0, 1, 4, 5, 5, 6, 7, 8, 8, 9, 9]
    """
    powers = numbers.clamp(min=1).float().log2().floor().long() + 3
    return torch.where(numbers <= 4, numbers, powers).clamp(0, BUCKETS - 1)


def _scorer(inputs: int, config: SpanCoreferenceConfig) -> nn.Sequential:
    hidden = nn.Linear(inputs, config.head_size)
    return nn.Sequential(hidden, nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(config.head_size, 1))


def register() -> None:
    """Register the networks with transformers' Auto classes."""
    for config, network in ((EdgeProbingConfig, EdgeProbingModel), (SpanCoreferenceConfig, SpanCoreferenceModel)):
        AutoConfig.register(config.model_type, config, exist_ok=True)
        AutoModel.register(config, network, exist_ok=True)
