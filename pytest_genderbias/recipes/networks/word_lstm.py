"""A language model over words: LSTM layers between word vectors and a distribution over the vocabulary (lu2018,
bordia2019).

lu2018 uses two layers of 1,500 units, bordia2019 three of 1,150 as in AWD-LSTM; here the number and the size of the
layers are free. It is saved as an ordinary transformers checkpoint, with a tokenizer whose tokens are words and
punctuation marks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    initialization,
)
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

from pytest_genderbias.datasets.corpora import WORD

UNKNOWN, END, PAD = "<unk>", "<eos>", "<pad>"
SPECIAL = (UNKNOWN, END, PAD)  #: the first rows of the vocabulary, in this order
#: h and c of each layer, each of the shape (1, rows, size).
States = tuple[tuple[Tensor, Tensor], ...]
_RANGE = 0.1  #: of the first weights of the output layer
#: Range of initial word vectors, unless tied to the output layer: at 0.1, "he" and "she" separate much later.
_WORD_RANGE = 1.0


class WordLstmConfig(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Sizes of the network.

    ``hidden_size``: units of the last layer, which the output layer reads. ``inner_size``: units of the layers before
    it (the same by default). ``embedding_size``: size of the word vectors. Tied output weights need ``hidden_size``
    equal to ``embedding_size`` (AWD-LSTM: 400, with an ``inner_size`` of 1,150). ``dropout``: applied between the
    layers. ``sampled_words``: number of words over which the loss of a training step is normalised; 0 for the whole
    vocabulary.
    """

    model_type = "word-lstm"

    def __init__(
        self,
        vocab_size: int = 100,
        embedding_size: int = 128,
        hidden_size: int = 128,
        inner_size: int | None = None,
        num_hidden_layers: int = 2,
        dropout: float = 0.2,
        sampled_words: int = 0,
        tie_word_embeddings: bool = False,
        unk_token_id: int = SPECIAL.index(UNKNOWN),
        bos_token_id: int = SPECIAL.index(END),
        eos_token_id: int = SPECIAL.index(END),
        pad_token_id: int = SPECIAL.index(PAD),
        **kwargs: Any,
    ) -> None:
        """Take the sizes."""
        if tie_word_embeddings and hidden_size != embedding_size:
            raise ValueError(
                f"tied output weights need hidden_size {hidden_size} to be embedding_size {embedding_size}"
            )
        super().__init__(**kwargs)
        self.bos_token_id, self.eos_token_id, self.pad_token_id = bos_token_id, eos_token_id, pad_token_id
        self.unk_token_id, self.tie_word_embeddings = unk_token_id, tie_word_embeddings
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.inner_size, self.num_hidden_layers = inner_size or hidden_size, num_hidden_layers
        self.dropout, self.sampled_words = dropout, sampled_words


class _WordLstmBase(PreTrainedModel):  # type: ignore[no-untyped-call]
    config_class = WordLstmConfig
    base_model_prefix = "model"
    _input_embed_layer = "embeddings"

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module. The forget gates of an LSTM start open."""
        if isinstance(module, nn.LSTM):
            bound = 1 / math.sqrt(module.hidden_size)
            for name, parameter in module.named_parameters():
                if name.startswith("bias_ih"):
                    gates = torch.zeros(4, module.hidden_size)
                    gates[1] = 1.0  # torch's order: input, forget, cell, output
                    initialization.copy_(parameter, gates.flatten())
                elif name.startswith("bias"):
                    initialization.zeros_(parameter)
                else:
                    initialization.uniform_(parameter, -bound, bound)
        elif isinstance(module, (nn.Embedding, nn.Linear)):
            is_apart = isinstance(module, nn.Embedding) and not self.config.tie_word_embeddings
            bound = _WORD_RANGE if is_apart else _RANGE
            initialization.uniform_(module.weight, -bound, bound)
            if isinstance(module, nn.Linear):
                initialization.zeros_(module.bias)


class WordLstmModel(_WordLstmBase):  # type: ignore[no-untyped-call]
    """Word vectors and LSTM layers. Rows are padded on the right, because later tokens do not affect the state of
    earlier ones.
    """

    def __init__(self, config: WordLstmConfig) -> None:
        super().__init__(config)
        last = config.num_hidden_layers - 1
        sizes = [config.embedding_size, *[config.inner_size] * last, config.hidden_size]
        self.embeddings = nn.Embedding(config.vocab_size, config.embedding_size)
        self.layers = nn.ModuleList(nn.LSTM(size, after, batch_first=True) for size, after in pairwise(sizes))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: States | None = None,
        use_cache: bool = False,
        output_hidden_states: bool = False,
        **kwargs: object,
    ) -> BaseModelOutputWithPast:
        """Return the state of the last layer at each token, after dropout in training.

        Args:
            input_ids: shape (rows, tokens).
            attention_mask: 0 where a row is padded, on the right; only checked.
            past_key_values: the states that an earlier call returned for the preceding tokens; zeros by default.
            use_cache: return the states after the last token.
            output_hidden_states: return the word vectors and the output of each layer.
            kwargs: other arguments that transformers passes to every network; ignored.

        Raises:
            ValueError: rows are padded on the left.
        """
        if attention_mask is not None and not bool(attention_mask[:, 0].all()):
            raise ValueError("rows should be padded on the right, because tokens on the left change the state")
        state = self.embeddings(input_ids)
        states, ends = [state], []
        for number, layer in enumerate(self.layers):
            state, end = layer(self.dropout(state), None if past_key_values is None else past_key_values[number])
            states.append(state)
            ends.append(end)
        return BaseModelOutputWithPast(
            last_hidden_state=self.dropout(state),
            past_key_values=tuple(ends) if use_cache else None,  # type: ignore[arg-type]
            hidden_states=tuple(states) if output_hidden_states else None,
        )


class WordLstmForCausalLM(_WordLstmBase):  # type: ignore[no-untyped-call]
    """LSTM layers and an output layer that predicts the next word."""

    _tied_weights_keys = {"lm_head.weight": "model.embeddings.weight"}  # noqa: RUF012 - transformers reads it from the class

    def __init__(self, config: WordLstmConfig) -> None:
        super().__init__(config)
        self.model = WordLstmModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()  # type: ignore[no-untyped-call]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: States | None = None,
        use_cache: bool = False,
        logits_to_keep: int | Tensor = 0,
        output_hidden_states: bool = False,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: object,
    ) -> CausalLMOutputWithPast:
        """Return the logits of the next word after each token, and the loss if there are labels.

        Args:
            input_ids: shape (rows, tokens), padded on the right.
            attention_mask: as in :class:`WordLstmModel`, like ``past_key_values``, ``use_cache`` and
                ``output_hidden_states``.
            labels: ``input_ids``, or -100 where a token is not predicted; shifted here. The loss is the mean of -ln P,
                in nats. In training with ``sampled_words`` it is an estimate, and no logits are returned.
            past_key_values: states.
            use_cache: return states.
            logits_to_keep: return the logits of this many last tokens (0: all), or of the tokens at these positions.
            output_hidden_states: return the output of each layer.
            num_items_in_batch: divisor of the sum of -ln P, instead of the number of labels.
            kwargs: as in :class:`WordLstmModel`.
        """
        output = self.model(input_ids, attention_mask, past_key_values, use_cache, output_hidden_states)
        state, loss, logits = output.last_hidden_state, None, None
        if labels is not None and self.training and self.config.sampled_words:
            loss = self._sampled_loss(state, labels, num_items_in_batch)
        else:
            positions = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
            logits = self.lm_head(state[:, positions])
        if labels is not None and logits is not None:
            how = {"vocab_size": self.config.vocab_size, "num_items_in_batch": num_items_in_batch}
            loss = self.loss_function(logits, labels, **how)
        return CausalLMOutputWithPast(
            loss=loss, logits=logits, past_key_values=output.past_key_values, hidden_states=output.hidden_states
        )

    def _sampled_loss(self, state: Tensor, labels: Tensor, count: Tensor | int | None) -> Tensor:
        """Return a sampled estimate of the loss, whose gradient is right in the limit of many samples (Jean et al.
        2015, section 3).

        The negative words are drawn once for all tokens of a batch, a word of rank r with a probability proportional to
        ln(1 + 1/r), which is close to Zipf's law. Each logit is lowered by the log of the probability that its word is
        drawn.
        """
        size = self.config.vocab_size
        target = labels[:, 1:].flatten()
        at = (target >= 0).nonzero()[:, 0]
        target, hidden = target[at], state[:, :-1].flatten(0, 1)[at]
        chance = torch.rand(self.config.sampled_words, device=state.device)
        drawn = (((size + 1.0) ** chance - 1).long().clamp(max=size - 1)).unique()

        def often(ids: Tensor) -> Tensor:
            """Return ln of the probability that each word is drawn."""
            once = torch.log1p(1.0 / (ids + 1)) / math.log(size + 1)
            return (-torch.expm1(self.config.sampled_words * torch.log1p(-once))).log()

        weight, bias = self.lm_head.weight, self.lm_head.bias
        right = (hidden * nn.functional.embedding(target, weight)).sum(-1) + bias[target] - often(target)
        wrong = hidden @ weight[drawn].T + (bias[drawn] - often(drawn))
        wrong = wrong.masked_fill(target[:, None] == drawn, -torch.inf)
        logits = torch.cat([right[:, None], wrong], 1).float()
        loss = cross_entropy(logits, torch.zeros_like(target), reduction="sum")
        return loss / (len(target) if count is None else count)


def word_pattern(cased: bool = False) -> re.Pattern[str]:
    """Return the pattern of a word: :data:`~pytest_genderbias.datasets.corpora.WORD`, ignoring case unless ``cased``.

    >>> word_pattern().findall("mr. smith, she's well-known.")
    ['mr.', 'smith', ',', 'she', "'s", 'well-known', '.']
    """
    return WORD if cased else re.compile(WORD.pattern, re.IGNORECASE)


def make_tokenizer(words: Sequence[str], cased: bool = False) -> PreTrainedTokenizerFast:
    """Return a tokenizer of words and punctuation marks, which puts ``<eos>`` before each text.

    Args:
        words: the vocabulary from row 3 on, the most frequent first. Other words become ``<unk>``.
        cased: keep capitals; otherwise texts are lower-cased.
    """
    vocabulary = {word: row for row, word in enumerate((*SPECIAL, *words))}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    if not cased:
        backend.normalizer = normalizers.Lowercase()
    pattern = WORD.pattern if cased else f"(?i:{WORD.pattern})"
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    backend.post_processor = processors.TemplateProcessing(single=f"{END} $A", special_tokens=[(END, vocabulary[END])])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        unk_token=UNKNOWN,
        bos_token=END,
        eos_token=END,
        pad_token=PAD,
        padding_side="right",
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
    )


def register() -> None:
    """Register the network with transformers' Auto classes."""
    AutoConfig.register(WordLstmConfig.model_type, WordLstmConfig, exist_ok=True)
    AutoModel.register(WordLstmConfig, WordLstmModel, exist_ok=True)
    AutoModelForCausalLM.register(WordLstmConfig, WordLstmForCausalLM, exist_ok=True)
