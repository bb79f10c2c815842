"""Numbers of tokens of words in their place, by the model's tokenizer alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.models.model import Model, Tokenized
from pytest_genderbias.scoring.scorer import Scorer
from pytest_genderbias.scoring.tokenizing import tokenized
from pytest_genderbias.suites.cases import Cases, IntArray


def make(cases: Cases, model: Model) -> Scorer:
    """Return the scorer of a model with a tokenizer.

    Raises:
        NotApplicableError: the model has none.
    """
    if not isinstance(model.backend, Tokenized):
        raise NotApplicableError(f"{model.name} has no tokenizer, whose tokens this suite counts")
    return AddedTokensScorer(cases, model.backend)


class AddedTokensScorer:
    """Counts the tokens that the second text of each case has more than the first."""

    def __init__(self, cases: Cases, tokenized: Tokenized) -> None:
        self._cases, self._tokenizer = cases, tokenized.tokenizer

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
