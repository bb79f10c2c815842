"""Numbers of tokens of words in their place, by the model's tokenizer alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.tokenizing import tokenized
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import AddedTokens


class AddedTokensScorer:
    """Counts the tokens that the second text of each case has more than the first."""

    def __init__(self, cases: Cases, query: AddedTokens, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._tokenizer = cases, model.backend.tokenizer

    @property
    def notes(self) -> list[str]:
        """No remarks."""
        return []

    def score(self, cases: IntArray) -> NDArray[np.int32]:
        """Return the number of tokens, shape (len(cases), 1)."""
        pairs = self._cases.sentences(cases)
        texts = [text for pair in pairs for text in pair]
        ids = tokenized(self._tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
        lengths = np.asarray([len(row) for row in ids], dtype=np.int32).reshape(-1, 2)
        return lengths[:, 1:] - lengths[:, :1]
