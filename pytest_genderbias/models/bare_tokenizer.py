"""A fast tokenizer without transformers: the object of the tokenizers library, and what transformers adds to it for
single tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class BareTokenizer:
    """Interface of a tokenizer whose model's scores are stored: tokens with their characters, and texts of single
    tokens.

    The names are those of transformers, so that callers take either. ``unk_token``: the unknown token as transformers
    names it, or ``None``.
    """

    backend_tokenizer: Tokenizer
    unk_token: str | None
    is_fast = True

    @classmethod
    def of_text(cls, content: str, unk_token: str | None) -> BareTokenizer:
        """Return a tokenizer from the JSON that :func:`bare_content` gives."""
        from tokenizers import Tokenizer

        return cls(Tokenizer.from_str(content), unk_token)

    def convert_tokens_to_ids(self, token: str) -> int | None:
        """Return the id of a token, or ``None`` if it is not in the vocabulary."""
        return self.backend_tokenizer.token_to_id(token)

    def convert_ids_to_tokens(self, number: int) -> str | None:
        """Return the token of an id, or ``None`` if there is none."""
        return self.backend_tokenizer.id_to_token(number)

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the text of tokens, special ones included; of one token the text that transformers gives, but for
        spaces around it.
        """
        return self.backend_tokenizer.decode(list(numbers), skip_special_tokens=False)


def bare_content(tokenizer: PreTrainedTokenizerBase) -> str | None:
    """Return the JSON of a fast tokenizer that is the same without transformers; ``None`` for others.

    Others are slow tokenizers, and those where transformers takes spaces out of the text of some token
    (``clean_up_tokenization_spaces``).
    """
    if not tokenizer.is_fast:
        return None
    backend: Tokenizer = tokenizer.backend_tokenizer
    if tokenizer.clean_up_tokenization_spaces:
        texts = backend.decode_batch([[i] for i in range(backend.get_vocab_size())], skip_special_tokens=False)
        if any(" " in text.strip() for text in texts):
            return None
    return backend.to_str()
