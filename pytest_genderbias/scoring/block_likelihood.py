"""Log-probabilities of long texts by a causal LM, in blocks of the length that it reads, which do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.scorer import PlainScorer
from pytest_genderbias.scoring.token_sums import NetworkSums
from pytest_genderbias.scoring.tokens import RowEncoder, first_token, pack_rows, tokenized
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import BlockLogLikelihood

_LONGEST = 1024  #: tokens of a block for models without a limit
_WITHOUT_ENDS = (
    "perplexity: without the <eos> after each sentence, which word-level LSTMs are trained on; the recipe's perplexity"
    " includes it"
)


def block_likelihood(cases: Cases, query: BlockLogLikelihood, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score each token of a text once, given the tokens before it in its block. Each block begins with the token that
    begins a text.

    The scores are the sum of log-probabilities of the tokens of each text, in nats, and their number.
    """
    checkpoint: Checkpoint = model.backend
    start = first_token(checkpoint.tokenizer, model.name)
    length = (checkpoint.max_length or _LONGEST) - 1
    encoder = RowEncoder(checkpoint.tokenizer)
    network = Network(checkpoint, batch_tokens, vocabulary_head=True)
    blocks_note = f"perplexity: in blocks of {length} tokens, which do not overlap"
    ends_note = _WITHOUT_ENDS if checkpoint.network.config.model_type == "word-lstm" else None

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        texts = [text for (text,) in cases.sentences(numbers)]
        ids = tokenized(encoder.tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
        blocks = [
            (i, [start, *row[at : at + length]]) for i, row in enumerate(ids) for at in range(0, len(row), length)
        ]
        text_of = np.asarray([i for i, _ in blocks], dtype=np.int64)
        total, scored = block_sums(network, encoder, [block for _, block in blocks])
        return np.stack(
            [np.bincount(text_of, weights, len(texts)) for weights in (total, scored)], axis=1, dtype=np.float64
        )

    return PlainScorer(cases, model, scores, lambda: [blocks_note, ends_note, *network.notes])


def block_sums(
    network: Network, encoder: RowEncoder, blocks: Sequence[ArrayLike]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the log-probability of each block after its first token, in nats, and the number of these tokens."""
    rows = pack_rows(
        [np.asarray(block, dtype=np.int32) for block in blocks], encoder, np.zeros((len(blocks), 2), np.int64)
    )
    scored = rows.lengths - 1
    block = np.repeat(np.arange(len(blocks)), scored)
    position = np.arange(len(block)) - np.repeat(np.cumsum(scored) - scored, scored) + 1
    return NetworkSums(network, None).sums(rows, block, position), scored
