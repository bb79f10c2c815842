"""Calls of a tokenizer, one at a time: a fast one keeps the limit of its last call, so that a call in another thread
could cut these texts.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any

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
