"""Natural language inference over static word vectors: decomposable attention behind a BiLSTM encoder (dev2019,
"Experimental Setup").

Parikh et al. 2016 attend to, compare and aggregate projected word vectors; dev2019 replaces the projection by a
bidirectional LSTM. The network is saved as an ordinary transformers checkpoint, with the word vectors as input
embeddings.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    initialization,
)
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput

if TYPE_CHECKING:
    from tokenizers.pre_tokenizers import PreTokenizer

PAD, UNKNOWN, SEPARATOR = "[PAD]", "[UNK]", "[SEP]"
SPECIAL = (PAD, UNKNOWN, SEPARATOR)  #: the first rows of the vocabulary, in this order
#: Words as GloVe's own tokenizer splits them, in any case: do n't, she 's. Compounds are split into their parts
#: (**choice**).
WORD = r"\w+(?=[nN]['’][tT]\b)|[nN]['’][tT]\b|['’](?:[sSmMdD]|[rR][eE]|[vV][eE]|[lL][lL])\b|\w+|[^\w\s]"


class DecomposableAttentionConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes of the network: ``embedding_size`` of the word vectors, ``hidden_size`` of all that follows (dev2019: 200),
    and ``dropout``.
    """

    model_type = "decomposable-attention"

    def __init__(
        self,
        vocab_size: int = 100,
        embedding_size: int = 50,
        hidden_size: int = 200,
        dropout: float = 0.2,
        pad_token_id: int = 0,
        sep_token_id: int = 2,
        **kwargs: Any,
    ) -> None:
        """Keep the sizes. The labels are those of SNLI by default."""
        labels = ("entailment", "neutral", "contradiction")
        kwargs.setdefault("id2label", dict(enumerate(labels)))
        kwargs.setdefault("label2id", {label: number for number, label in enumerate(labels)})
        super().__init__(**kwargs)
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.dropout, self.pad_token_id, self.sep_token_id = dropout, pad_token_id, sep_token_id
        self.num_hidden_layers, self.tie_word_embeddings = 1, False


class SentenceBiLstm(nn.Module):
    """One BiLSTM that encodes the premise and the hypothesis of each row separately, with half of the hidden size in
    each direction.
    """

    def __init__(self, config: DecomposableAttentionConfig) -> None:
        """Make the weights."""
        super().__init__()
        self.lstm = nn.LSTM(config.embedding_size, config.hidden_size // 2, batch_first=True, bidirectional=True)

    def forward(self, embedded: Tensor, segments: Tensor) -> Tensor:
        """Return the states of the words at their positions in the row, 0 at padding: shape (rows, length,
        hidden_size).
        """
        inside = torch.cat([segments == 0, segments == 1])
        lengths = inside.sum(dim=1)
        lengths = lengths[lengths > 0]  # a text on its own has no hypothesis
        there = torch.arange(int(lengths.max()), device=lengths.device) < lengths[:, None]
        words = embedded.new_zeros(*there.shape, embedded.shape[-1])
        words[there] = torch.cat([embedded, embedded])[inside]
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        in_row = states.new_zeros(*inside.shape, states.shape[-1])
        in_row[inside] = states[there]
        premises, hypotheses = in_row.chunk(2)
        return premises + hypotheses


class DecomposableAttention(nn.Module):
    """Attend, compare and aggregate (Parikh et al. 2016, section 3), then three logits."""

    def __init__(self, config: DecomposableAttentionConfig) -> None:
        """Make the weights."""
        super().__init__()
        size = config.hidden_size
        self.attend = _feed_forward(size, size, config.dropout)
        self.compare = _feed_forward(2 * size, size, config.dropout)
        self.aggregate = _feed_forward(2 * size, size, config.dropout)
        self.output = nn.Linear(size, len(config.id2label or ()))

    def forward(self, states: Tensor, segments: Tensor) -> Tensor:
        """Return the logits of each row: shape (rows, labels)."""
        premise, hypothesis = segments == 0, segments == 1
        other = premise[:, :, None] & hypothesis[:, None, :]
        other = other | other.mT
        seen = self.attend(states)
        scores = seen @ seen.mT  # of another type than the states under autocast
        scores = scores.masked_fill(~other, torch.finfo(scores.dtype).min)
        aligned = (scores.softmax(dim=-1) * other) @ states
        compared = self.compare(torch.cat([states, aligned], dim=-1))
        sums = [(compared * part[..., None]).sum(dim=1) for part in (premise, hypothesis)]
        logits: Tensor = self.output(self.aggregate(torch.cat(sums, dim=-1)))
        return logits


class _DecomposableAttentionBase(PreTrainedModel):  # type: ignore[no-untyped-call]
    config_class = DecomposableAttentionConfig
    base_model_prefix = "encoder"
    _input_embed_layer = "embeddings"

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise linear layers as Glorot and Bengio 2010, other modules as transformers does."""
        if isinstance(module, nn.Linear):
            initialization.xavier_uniform_(module.weight)
            initialization.zeros_(module.bias)
        else:
            super()._init_weights(module)  # type: ignore[no-untyped-call]


class DecomposableAttentionModel(_DecomposableAttentionBase):  # type: ignore[no-untyped-call]
    """Word vectors and the BiLSTM."""

    def __init__(self, config: DecomposableAttentionConfig) -> None:
        """Make the weights."""
        super().__init__(config)
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size)
        self.layers = nn.ModuleList([SentenceBiLstm(config)])
        self.post_init()  # type: ignore[no-untyped-call]

    def segments(self, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None) -> Tensor:
        """Return 0 for the tokens of the premise, 1 for those of the hypothesis, -1 for padding: shape (rows, length).

        A separator belongs to the sentence before it. It has no meaning of its own, so that words without a counterpart
        can attend to it (the NULL token of Parikh et al. 2016). Without ``token_type_ids`` the first separator divides
        the row.
        """
        if token_type_ids is None:
            ends = (input_ids == self.config.sep_token_id).long()
            token_type_ids = (ends.cumsum(dim=1) - ends).clamp(max=1)
        return token_type_ids if attention_mask is None else token_type_ids.masked_fill(attention_mask == 0, -1)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> BaseModelOutput:
        """Return the states of the BiLSTM; the hidden states are the word vectors and these."""
        embedded = self.embeddings(input_ids)
        states = self.layers[0](embedded, self.segments(input_ids, attention_mask, token_type_ids))
        return BaseModelOutput(states, (embedded, states) if output_hidden_states else None)


class DecomposableAttentionForSequenceClassification(_DecomposableAttentionBase):  # type: ignore[no-untyped-call]
    """The whole network: rows "premise [SEP] hypothesis [SEP]" in, logits of the labels out."""

    def __init__(self, config: DecomposableAttentionConfig) -> None:
        """Make the weights."""
        super().__init__(config)
        self.encoder = DecomposableAttentionModel(config)
        self.classifier = DecomposableAttention(config)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> SequenceClassifierOutput:
        """Return the logits, and the cross-entropy if there are labels."""
        read = self.encoder(input_ids, attention_mask, token_type_ids, output_hidden_states)
        segments = self.encoder.segments(input_ids, attention_mask, token_type_ids)
        logits = self.classifier(read.last_hidden_state, segments)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss, logits, read.hidden_states)


def make_tokenizer(words: Iterable[str], lowercased: bool = True) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the special tokens and one token for each word; pairs become "premise [SEP] hypothesis
    [SEP]".

    Args:
        words: different words, split as by :func:`words_of`; their rows follow those of :data:`SPECIAL`.
        lowercased: convert texts to lower case first.

    >>> tokenizer = make_tokenizer(["he", "does", "n't", "sing"])
    >>> tokenizer("He doesn't sing", "He dances").tokens()
    ['he', 'does', "n't", 'sing', '[SEP]', 'he', '[UNK]', '[SEP]']
    """
    from tokenizers import Tokenizer, models, normalizers, processors

    rows = {word: row for row, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(rows, unk_token=UNKNOWN))
    if lowercased:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = _cutter()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {SEPARATOR}",
        pair=f"$A:0 {SEPARATOR}:0 $B:1 {SEPARATOR}:1",
        special_tokens=[(SEPARATOR, rows[SEPARATOR])],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        sep_token=SEPARATOR,
        padding_side="right",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def words_of(text: str) -> list[str]:
    """Return the words of a text as the tokenizer splits them, in their own case.

    >>> words_of("The T-shirt isn't the nurse's.")
    ['The', 'T', '-', 'shirt', 'is', "n't", 'the', 'nurse', "'s", '.']
    """
    return [word for word, _ in _cutter().pre_tokenize_str(text)]


@cache
def _cutter() -> PreTokenizer:
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(WORD), behavior="isolated")]
    )


def _feed_forward(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    """Return two layers, as in Parikh et al. 2016."""
    layers = [nn.Dropout(dropout), nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(outputs, outputs), nn.ReLU())


def register() -> None:
    """Register the network with transformers' Auto classes."""
    AutoConfig.register(DecomposableAttentionConfig.model_type, DecomposableAttentionConfig, exist_ok=True)
    AutoModel.register(DecomposableAttentionConfig, DecomposableAttentionModel, exist_ok=True)
    AutoModelForSequenceClassification.register(
        DecomposableAttentionConfig, DecomposableAttentionForSequenceClassification, exist_ok=True
    )
