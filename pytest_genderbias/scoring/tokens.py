"""Token ids of whole sentences from the tokenizer, and their division among the parts of a template.

A tokenizer is called by one thread at a time: a fast one keeps the limit of its last call, so that a call in another
thread could cut these texts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError
from pytest_genderbias.scoring.scorer import CountNote
from pytest_genderbias.suites.space import TEMPLATE, CaseSpace, Template

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import BatchEncoding, PreTrainedTokenizerBase

IdArray = NDArray[np.int32]
#: Token type ids are stored in the high bits of the token ids while rows are built.
TYPE_SHIFT = 26
ID_MASK = (1 << TYPE_SHIFT) - 1
#: A part of a row: (segment, piece). Piece -1 holds the special tokens before the segment.
Part = tuple[int, int]


#: Held while a tokenizer has the limits that a call sets.
LIMITS = RLock()


def require_fast(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that does not say where its tokens are.

    Raises:
        NotApplicableError: it is not a fast one.
    """
    if not tokenizer.is_fast:
        raise NotApplicableError(
            "the positions of words need a fast tokenizer (tokenizer.json), which this checkpoint lacks"
        )


def tokenized(tokenizer: PreTrainedTokenizerBase, *texts: list[str] | str, **settings: Any) -> Any:
    """Return what a tokenizer makes of texts (transformers' ``BatchEncoding``), or of the first and second segments of
    pairs; ``settings`` are its own, such as ``truncation``.
    """
    with LIMITS:
        return tokenizer(*texts, verbose=False, **settings)


@dataclass(frozen=True)
class TokenRows:
    """Token ids of cases. ``span_start`` and ``span_length``: tokens of the scored slot; 0 and 0 without one."""

    ids: IdArray  # (n, longest), padded
    types: IdArray | None
    lengths: NDArray[np.int64]
    span_start: NDArray[np.int64]
    span_length: NDArray[np.int64]


class PartsError(Exception):
    """The tokens of a sentence do not follow the order of the parts of its template."""


def parts_of(template: Template) -> list[Part]:
    """Return the parts of a row in order: for each segment special tokens and its pieces, then the last special
    tokens.
    """
    parts: list[Part] = []
    for segment, pieces in enumerate(template.segments):
        parts.append((segment, -1))
        parts.extend((segment, piece) for piece in range(len(pieces)))
    return [*parts, (len(template.segments), -1)]


class RowEncoder:
    """A tokenizer, with its mask token, padding and token types."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.mask: str = tokenizer.mask_token or ""
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0)
        self.has_types = "token_type_ids" in tokenizer.model_input_names
        self.has_offsets = bool(tokenizer.is_fast)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Return the tokenizer's encodings (ids, type ids, offsets, sequence ids) of sentences or pairs."""
        columns = [list(column) for column in zip(*sentences, strict=True)]
        return list(tokenized(self.tokenizer, *columns, add_special_tokens=True, truncation=False).encodings)

    def packed(self, encoding: Encoding) -> IdArray:
        """Return the token ids with the token types in the high bits."""
        ids = np.asarray(encoding.ids, dtype=np.int32)
        return ids | (np.asarray(encoding.type_ids, dtype=np.int32) << TYPE_SHIFT) if self.has_types else ids

    def split(self, encoding: Encoding, texts: Sequence[Sequence[str]]) -> dict[Part, IdArray]:
        """Return the packed ids of each part of a row. A token belongs to the piece with its last character.

        Raises:
            PartsError: the tokens do not follow the order of the parts.
        """
        ends = [list(accumulate(map(len, segment))) for segment in texts]
        part: Part = (0, -1)
        ids_by_part: dict[Part, list[int]] = {}
        for packed, sequence, (start, stop) in zip(
            self.packed(encoding).tolist(), encoding.sequence_ids, encoding.offsets, strict=True
        ):
            if sequence is None:
                here: Part = part if part[1] == -1 else (part[0] + 1, -1)
            else:
                piece = bisect_right(ends[sequence], stop - 1 if stop > start else start)
                here = (sequence, min(piece, len(ends[sequence]) - 1))
            if here < part:
                raise PartsError
            part = here
            ids_by_part.setdefault(part, []).append(packed)
        return {key: np.asarray(ids, dtype=np.int32) for key, ids in ids_by_part.items()}


def encode_cases(encoder: RowEncoder, space: CaseSpace, cases: NDArray[np.int64], scored: str | None) -> TokenRows:
    """Return the token rows of cases, tokenised as whole sentences: slow, for tokenizers whose rows cannot be built
    from parts.
    """
    columns = space.columns(cases)
    choices = [{name: int(values[row]) for name, values in columns.items()} for row in range(len(cases))]
    texts = [space.texts(choice, encoder.mask) for choice in choices]
    sentences = [["".join(segment) for segment in text] for text in texts]
    if not encoder.has_offsets:
        return _encode_without_offsets(encoder, space, choices, sentences, scored)
    encodings = encoder.encode(sentences)
    rows = [encoder.packed(encoding) for encoding in encodings]
    spans = np.zeros((len(rows), 2), dtype=np.int64)
    if scored is not None:
        for i, (encoding, text, choice) in enumerate(zip(encodings, texts, choices, strict=True)):
            pieces = space.templates[choice[TEMPLATE]].segments[0]
            wanted = 0, next(number for number, piece in enumerate(pieces) if piece.fills(scored))
            parts = encoder.split(encoding, text)
            spans[i] = sum(len(ids) for part, ids in parts.items() if part < wanted), len(parts.get(wanted, ()))
    return pack_rows(rows, encoder, spans)


class CuttingTokenizer:
    """A tokenizer that cuts texts, or pairs of texts, to ``longest`` tokens (``None``: no limit). ``cut`` counts the
    texts that were cut.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, longest: int | None) -> None:
        self._tokenizer, self._longest = tokenizer, longest
        self.cut = 0

    @property
    def note(self) -> str | None:
        """Remark that texts were cut, or ``None``."""
        return (
            CountNote(self.cut, f"{{}} texts cut to the {self._longest} tokens that the model reads")
            if self.cut
            else None
        )

    def __call__(self, *columns: list[str]) -> BatchEncoding:
        """Return the tokenizer's output for texts, or for the first and second segments of pairs."""
        output: BatchEncoding = tokenized(
            self._tokenizer, *columns, truncation=self._longest is not None, max_length=self._longest
        )
        if output.encodings is None:
            # A slow tokenizer does not report rows that were cut: those that are shorter than without a limit.
            rows = output["input_ids"]
            full = [i for i, row in enumerate(rows) if len(row) == self._longest]
            texts = [[column[i] for i in full] for column in columns]
            whole = tokenized(self._tokenizer, *texts, truncation=False)["input_ids"] if full else []
            self.cut += sum(len(row) > len(rows[i]) for i, row in zip(full, whole, strict=True))
        else:
            self.cut += sum(bool(encoding.overflowing) for encoding in output.encodings)
        return output

    def encode(self, texts: list[str]) -> list[Encoding]:
        """Return the encodings of texts: for fast tokenizers only."""
        encodings = self(texts).encodings
        assert encodings is not None, "a fast tokenizer"
        return encodings


def text_rows(tokenizer: CuttingTokenizer, encoder: RowEncoder, sentences: Sequence[Sequence[str]]) -> TokenRows:
    """Return the token rows of texts or pairs from a data set."""
    output = tokenizer(*map(list, zip(*sentences, strict=True)))
    ids = [np.asarray(row, dtype=np.int32) for row in output["input_ids"]]
    if encoder.has_types:
        types = [np.asarray(row, dtype=np.int32) << TYPE_SHIFT for row in output["token_type_ids"]]
        ids = [row | kind for row, kind in zip(ids, types, strict=True)]
    return pack_rows(ids, encoder)


def _encode_without_offsets(
    encoder: RowEncoder,
    space: CaseSpace,
    choices: Sequence[Mapping[str, int]],
    texts: list[list[str]],
    scored: str | None,
) -> TokenRows:
    rows, spans = [], np.zeros((len(texts), 2), dtype=np.int64)
    for i, sentence in enumerate(texts):
        output = tokenized(encoder.tokenizer, *sentence, add_special_tokens=True, truncation=False)
        ids = np.asarray(output["input_ids"], dtype=np.int32)
        types = np.asarray(output.get("token_type_ids", np.zeros_like(ids)), dtype=np.int32)
        rows.append(ids | (types << TYPE_SHIFT))
        if scored is not None:
            beginning = space.prefix(choices[i], scored).rstrip()
            before = tokenized(encoder.tokenizer, beginning, add_special_tokens=True)["input_ids"]
            after = len(ids) - len(before)
            start = next((k for k, (a, b) in enumerate(zip(before, ids, strict=False)) if a != b), len(before))
            spans[i] = start, after
    return pack_rows(rows, encoder, spans)


def pack_rows(rows: Sequence[IdArray], encoder: RowEncoder, spans: NDArray[np.int64] | None = None) -> TokenRows:
    """Return token rows from packed ids, padded to the longest row. ``spans``: start and length of the scored tokens,
    shape (n, 2); ``None``: 0 and 0.
    """
    spans = np.zeros((len(rows), 2), dtype=np.int64) if spans is None else spans
    lengths = np.asarray([len(row) for row in rows], dtype=np.int64)
    packed = np.full((len(rows), int(lengths.max(initial=1))), encoder.pad_id, dtype=np.int32)
    for i, row in enumerate(rows):
        packed[i, : len(row)] = row
    return unpack(packed, lengths, encoder, spans[:, 0], spans[:, 1])


def unpack(
    packed: IdArray,
    lengths: NDArray[np.int64],
    encoder: RowEncoder,
    start: NDArray[np.int64],
    length: NDArray[np.int64],
) -> TokenRows:
    """Return token rows from an array of packed ids, which are split into ids and token types."""
    types = packed >> TYPE_SHIFT if encoder.has_types else None
    return TokenRows(packed & ID_MASK if encoder.has_types else packed, types, lengths, start, length)


def check_lengths(rows: TokenRows, longest: int | None) -> None:
    """Reject sentences that are longer than the model's limit.

    Raises:
        ModelError: a sentence has more than ``longest`` tokens.
    """
    if longest is not None and int(rows.lengths.max(initial=0)) > longest:
        raise ModelError(
            f"a sentence has {int(rows.lengths.max())} tokens, the model reads {longest}; shorten the templates or"
            " words"
        )


def first_token(tokenizer: PreTrainedTokenizerBase, name: str) -> int:
    """Return the token that precedes a text: the beginning-of-text token, or else the end-of-text token.

    Raises:
        NotApplicableError: the tokenizer has neither, so that the model does not write texts from their beginning.
    """
    for token in (tokenizer.bos_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise NotApplicableError(
        f"{name} cannot begin a text, which this suite needs: its tokenizer has no token for the beginning or end of a"
        " text; save it with bos_token or eos_token set if it was trained with one"
    )
