"""Log-probabilities of the words in a slot, from token ids that are built for many cases at once if possible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Model, Tokenized
from pytest_genderbias.scoring.layout import TokenLayout
from pytest_genderbias.scoring.reads import slot_tokens
from pytest_genderbias.scoring.scorer import check_finite
from pytest_genderbias.scoring.token_sums import token_sums
from pytest_genderbias.scoring.tokens import RowEncoder, check_lengths
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import SlotLogProbability
from pytest_genderbias.suites.space import CaseSpace


class SlotLikelihood:
    """Scores the words of a slot with a checkpoint or a served model."""

    def __init__(self, space: Cases, query: SlotLogProbability, model: Model, batch_tokens: int | None) -> None:
        assert isinstance(space, CaseSpace), "only templates have slots"
        backend: Tokenized = model.backend
        self._space, self._name, self._longest = space, model.name, backend.max_length
        self._layout = TokenLayout(space, RowEncoder(backend.tokenizer), query.slot)
        self._sums = token_sums(model, batch_tokens)

    @property
    def notes(self) -> list[str]:
        """Remarks on rows that the tokenizer had to encode, slower computations, and batches that were halved."""
        return [note for note in (self._layout.note, *self._sums.notes) if note]

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return the log-probability of the word in the slot of each case, in nats: shape (len(cases), 1)."""
        rows = self._layout.rows(cases)
        check_lengths(rows, self._longest)
        total = self._sums.sums(rows, *slot_tokens(rows))
        check_finite(np.isfinite(total), self._space, cases, self._name)
        return total[:, None]
