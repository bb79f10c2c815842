"""Calls of a tokenizer, one at a time: a fast one keeps the limit of its last call, so that a call in another thread
could cut these texts. The tokens that a word adds are counted by them alone.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring.scorer import PlainScorer
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.suites.query import AddedTokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

#: Held while a tokenizer has the limits that a call sets.
LIMITS = RLock()


def tokenized(tokenizer: PreTrainedTokenizerBase, *texts: list[str] | str, **settings: Any) -> Any:
    """Return what a tokenizer makes of texts (transformers' ``BatchEncoding``), or of the first and second segments of
    pairs; ``settings`` are its own, such as ``truncation``.
    """
    with LIMITS:
        return tokenizer(*texts, verbose=False, **settings)


def added_tokens(cases: Cases, query: AddedTokens, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Count the tokens that the second text of each case has more than the first."""

    def scores(numbers: IntArray) -> NDArray[np.int32]:
        texts = [text for pair in cases.sentences(numbers) for text in pair]
        ids = tokenized(model.backend.tokenizer, texts, add_special_tokens=False, truncation=False)["input_ids"]
        lengths = np.asarray([len(row) for row in ids], dtype=np.int32).reshape(-1, 2)
        return lengths[:, 1:] - lengths[:, :1]

    return PlainScorer(cases, model, scores)
