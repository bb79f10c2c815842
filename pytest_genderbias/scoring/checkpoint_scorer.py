"""Scores of a checkpoint: fills, outputs of classifiers, and numbers of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import MASKED_LM
from pytest_genderbias.scoring.network import Network, whole_rows
from pytest_genderbias.scoring.scorer import PlainScorer, answer_width, check_finite
from pytest_genderbias.scoring.tokens import (
    CuttingTokenizer,
    RowEncoder,
    TokenLayout,
    check_lengths,
    text_rows,
    tokenized,
)
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import AddedTokens, PairProbabilities, Query, TopFills
from pytest_genderbias.suites.space import CaseSpace

if TYPE_CHECKING:
    from torch import Tensor


def outputs_of_checkpoint(cases: Cases, query: Query, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Score the queries about fills and classes, from token ids that are built for many cases at once if possible."""
    checkpoint: Checkpoint = model.backend
    encoder = RowEncoder(checkpoint.tokenizer)
    mask_id: int | None = checkpoint.tokenizer.mask_token_id if model.role.kind == MASKED_LM else None
    layout = TokenLayout(cases, encoder) if isinstance(cases, CaseSpace) else None
    tokenizer = CuttingTokenizer(checkpoint.tokenizer, checkpoint.max_length)
    network = Network(checkpoint, batch_tokens, vocabulary_head=isinstance(query, TopFills))

    def scores(numbers: IntArray) -> NDArray[np.number]:
        rows = layout.rows(numbers) if layout else text_rows(tokenizer, encoder, cases.sentences(numbers))
        check_lengths(rows, checkpoint.max_length)
        if not isinstance(query, TopFills):
            inputs = whole_rows(rows)
            outputs = np.zeros((len(inputs.lengths), answer_width(query, model)), dtype=query.dtype)
            is_pair, width = isinstance(query, PairProbabilities), outputs.shape[1]
            order = list(model.role.label_order) if is_pair else list(range(width))

            def use(rows: NDArray[np.int64], logits: Tensor) -> None:
                output = logits.float()
                outputs[rows] = (output if width == 1 else output.softmax(-1))[:, order].cpu().numpy()

            network.run(inputs, use)
            return outputs[inputs.back]
        inputs = whole_rows(rows, mask_id)
        if checkpoint.vocabulary_size < query.k:
            raise SettingError(
                f"top_k is {query.k}, the vocabulary of {model.name} has {checkpoint.vocabulary_size} items"
            )
        best, finite = network.best(inputs, query.k)
        check_finite(finite[inputs.back], cases, numbers, model.name)
        return best.astype(np.int32)[inputs.back]

    return PlainScorer(scores, lambda: [layout.note if layout else tokenizer.note, *network.notes])


def added_tokens(cases: Cases, query: AddedTokens, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Count the tokens that the second text of each case has more than the first."""

    def scores(numbers: IntArray) -> NDArray[np.int32]:
        texts = [text for pair in cases.sentences(numbers) for text in pair]
        ids = tokenized(model.backend.tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
        lengths = np.asarray([len(row) for row in ids], dtype=np.int32).reshape(-1, 2)
        return lengths[:, 1:] - lengths[:, :1]

    return PlainScorer(scores)
