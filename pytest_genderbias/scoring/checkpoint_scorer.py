"""Scores of a checkpoint: fills, and outputs of classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import MASKED_LM
from pytest_genderbias.scoring.layout import TokenLayout
from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.reads import Inputs, whole_rows
from pytest_genderbias.scoring.scorer import answer_width, check_finite
from pytest_genderbias.scoring.tokens import RowEncoder, TextRows, check_lengths
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import PairProbabilities, Query, TopFills
from pytest_genderbias.suites.space import CaseSpace

if TYPE_CHECKING:
    from torch import Tensor


class CheckpointScorer:
    """Scores the queries about fills and classes, from token ids that are built for many cases at once if possible."""

    def __init__(self, space: Cases, query: Query, model: Model, batch_tokens: int | None) -> None:
        checkpoint: Checkpoint = model.backend
        self._space, self._query, self._model = space, query, model
        self._encoder = RowEncoder(checkpoint.tokenizer)
        self._mask_id: int | None = checkpoint.tokenizer.mask_token_id if model.role.kind == MASKED_LM else None
        self._longest = checkpoint.max_length
        self.layout: TokenLayout | TextRows = (
            TokenLayout(space, self._encoder)
            if isinstance(space, CaseSpace)
            else TextRows(space, self._encoder, self._longest)
        )
        self.network = Network(checkpoint, batch_tokens, vocabulary_head=isinstance(query, TopFills))

    @property
    def notes(self) -> list[str]:
        """Remarks on slower computations, texts that were cut, and batches that were halved."""
        return [note for note in (self.layout.note, self.network.note, self.network.batches.note) if note]

    def score(self, cases: IntArray) -> NDArray[np.generic]:
        """Return the scores of the cases: shape (len(cases), width of the query)."""
        rows = self.layout.rows(cases)
        check_lengths(rows, self._longest)
        if isinstance(self._query, TopFills):
            return self._fills(whole_rows(rows, self._mask_id), self._query.k, cases)
        return self._outputs(whole_rows(rows), cases)

    def _fills(self, inputs: Inputs, k: int, cases: IntArray) -> NDArray[np.int32]:
        """Return the ids of the k best fills of the mask in each case."""
        size = self._model.backend.vocabulary_size
        if size < k:
            raise SettingError(f"top_k is {k}, the vocabulary of {self._model.name} has {size} items")
        best, finite = self.network.best(inputs, k)
        check_finite(finite[inputs.back], self._space, cases, self._model.name)
        return best[inputs.back].astype(np.int32)

    def _outputs(self, inputs: Inputs, cases: IntArray) -> NDArray[np.generic]:
        """Return the probabilities of a classifier, or the score of a regressor."""
        outputs = np.zeros((len(inputs.lengths), answer_width(self._query, self._model)), dtype=self._query.dtype)
        pair = isinstance(self._query, PairProbabilities)
        order = list(self._model.role.label_order) if pair else list(range(outputs.shape[1]))

        def use(rows: NDArray[np.int64], logits: Tensor) -> None:
            output = logits.float()
            outputs[rows] = (output if outputs.shape[1] == 1 else output.softmax(-1))[:, order].cpu().numpy()

        self.network.run(inputs, use)
        answer = outputs[inputs.back]
        check_finite(np.asarray(np.isfinite(answer).all(axis=1)), self._space, cases, self._model.name)
        return answer
