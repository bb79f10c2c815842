"""Log-probabilities of long texts by a causal LM, in blocks of the length that it reads, which do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.scorer import check_finite
from pytest_genderbias.scoring.token_sums import NetworkSums
from pytest_genderbias.scoring.tokenizing import tokenized
from pytest_genderbias.scoring.tokens import RowEncoder, first_token, pack_rows
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import BlockLogLikelihood

_LONGEST = 1024  #: tokens of a block for models without a limit
_WITHOUT_ENDS = (
    "perplexity: without the <eos> after each sentence, which word-level LSTMs are trained on; the recipe's perplexity"
    " includes it"
)


class BlockLikelihood:
    """Scores each token of a text once, given the tokens before it in its block. Each block begins with the token that
    begins a text.
    """

    def __init__(self, cases: Cases, query: BlockLogLikelihood, model: Model, batch_tokens: int | None) -> None:
        checkpoint: Checkpoint = model.backend
        self._cases, self._name = cases, model.name
        self._start = first_token(checkpoint.tokenizer, model.name)
        self._length = (checkpoint.max_length or _LONGEST) - 1
        self._encoder = RowEncoder(checkpoint.tokenizer)
        self._network = Network(checkpoint, batch_tokens, vocabulary_head=True)
        self._ends = _WITHOUT_ENDS if checkpoint.network.config.model_type == "word-lstm" else None

    @property
    def notes(self) -> list[str]:
        """Remarks on the length of the blocks, on sentence ends, on slower computations and on batches that were
        halved.
        """
        blocks = f"perplexity: in blocks of {self._length} tokens, which do not overlap"
        return [blocks, *(note for note in (self._ends, self._network.note, self._network.batches.note) if note)]

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return the sum of log-probabilities of the tokens of each text, in nats, and their number: shape (len(cases),
        2).
        """
        texts = [text for (text,) in self._cases.sentences(cases)]
        ids = tokenized(self._encoder.tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
        blocks = [
            (i, [self._start, *row[at : at + self._length]])
            for i, row in enumerate(ids)
            for at in range(0, len(row), self._length)
        ]
        text_of = np.asarray([i for i, _ in blocks], dtype=np.int64)
        total, scored = block_sums(self._network, self._encoder, [block for _, block in blocks])
        sums = np.stack([np.bincount(text_of, weights, len(texts)) for weights in (total, scored)], axis=1).astype(
            np.float64
        )
        check_finite(np.isfinite(sums[:, 0]), self._cases, cases, self._name)
        return sums


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
