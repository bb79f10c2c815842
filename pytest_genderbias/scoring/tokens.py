"""Token ids of whole sentences from the tokenizer, and of many cases at once, built from those of words and of fixed
parts.

A tokenizer is called by one thread at a time: a fast one keeps the limit of its last call, so that a call in another
thread could cut these texts.

The tokens of each part of a template are taken from whole sentences that the tokenizer encoded; each word of each slot
occurs in at least one. Other sentences, again with each word, are then built from the parts and compared with the
tokenizer's ids. Rows are built from parts only if all of them agree. Otherwise the tokenizer encodes each sentence, and
the layout's note says so.
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
        """Return the packed ids of each part of a row. A token belongs to the piece with its last character."""
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
    return unpack(*padded(rows, encoder.pad_id), encoder, spans[:, 0], spans[:, 1])


def padded(rows: Sequence[IdArray], fill: int = 0) -> tuple[IdArray, NDArray[np.int64]]:
    """Return rows as an array, filled up to the longest of them, and their lengths."""
    lengths = np.asarray([len(row) for row in rows], dtype=np.int64)
    table = np.full((len(rows), int(lengths.max(initial=1))), fill, dtype=np.int32)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table, lengths


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
            f"a sentence has {int(rows.lengths.max())} tokens, the model reads {longest}, by its config or the"
            " model_max_length of its tokenizer; mend these, or shorten the templates or words"
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


# Rows of many cases, from the tokens of words and of fixed parts.

_PieceKey = tuple[str, str, str, int]


@dataclass(frozen=True)
class PartBlock:
    """A part of a row, whose ids depend on the word of a slot, or on nothing (``slot`` is empty)."""

    slot: str
    table: IdArray  # (choices, longest)
    lengths: NDArray[np.int64]  # (choices,)
    scored: bool = False


class TokenLayout:
    """Builds the token rows of cases. ``note`` gives the reason if the tokenizer has to encode each sentence."""

    def __init__(self, space: CaseSpace, encoder: RowEncoder, scored: str | None = None) -> None:
        self.space, self.encoder, self.scored = space, encoder, scored
        self.note: str | None = None
        self._blocks: list[list[PartBlock]] = []
        if not encoder.has_offsets:
            self.note = "token ids from the tokenizer, sentence by sentence: it gives no offsets"
            return
        self._blocks = _read_parts(space, encoder, scored)
        wrong = _first_disagreement(space, encoder, self._blocks)
        if wrong is not None:
            self.note = f"token ids from the tokenizer, sentence by sentence: rows built from words differ ({wrong})"

    def rows(self, cases: NDArray[np.int64]) -> TokenRows:
        """Return the token rows of the cases, equal to those of the tokenizer for whole sentences."""
        if self.note is not None:
            return encode_cases(self.encoder, self.space, cases, self.scored)
        index = self.space.columns(cases)
        templates = index[TEMPLATE]
        parts = []
        for t in np.unique(templates):
            rows = np.flatnonzero(templates == t)
            subset = {key: values[rows] for key, values in index.items()}
            parts.append((rows, *assemble(self._blocks[int(t)], subset, len(rows), self.encoder.pad_id)))
        n = len(templates)
        width = max((packed.shape[1] for _, packed, *_ in parts), default=0)
        ids = np.full((n, width), self.encoder.pad_id, dtype=np.int32)
        numbers = np.zeros((3, n), dtype=np.int64)
        for rows, packed, *rest in parts:
            ids[rows, : packed.shape[1]] = packed
            numbers[:, rows] = rest
        return unpack(ids, numbers[0], self.encoder, numbers[1], numbers[2])


def assemble(
    blocks: Sequence[PartBlock], index: Mapping[str, NDArray[np.int64]], n: int, pad: int
) -> tuple[IdArray, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Build rows from blocks and the number of the word in each slot: return packed ids (n, longest), lengths, and the
    start and length of the scored block.

    Each block writes its whole padded table row. The next block overwrites the excess, and the excess of the last
    becomes padding.
    """
    index = {**index, "": np.zeros(n, dtype=np.int64)}
    sizes = [block.lengths[index[block.slot]] for block in blocks]
    lengths: NDArray[np.int64] = np.sum(sizes, axis=0)
    width = int(lengths.max(initial=0)) + max((block.table.shape[1] for block in blocks), default=0)
    out = np.empty((n, width), dtype=np.int32)
    flat, row = out.reshape(-1), np.arange(n, dtype=np.int64) * width
    at: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
    start: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
    length: NDArray[np.int64] = np.zeros(n, dtype=np.int64)
    for block, size in zip(blocks, sizes, strict=True):
        for column, values in enumerate(block.table.T):
            flat[row + at + column] = values[index[block.slot]]
        if block.scored:
            start, length = at, size
        at = at + size
    out = np.ascontiguousarray(out[:, : int(lengths.max(initial=0))])
    out[np.arange(out.shape[1]) >= lengths[:, None]] = pad
    return out, lengths, start, length


def _block(slot: str, rows: Sequence[IdArray], scored: bool = False) -> PartBlock:
    return PartBlock(slot, *padded(rows), scored)


def _read_parts(space: CaseSpace, encoder: RowEncoder, scored: str | None) -> list[list[PartBlock]]:
    """Return the blocks of each template, with tokens from whole sentences. A word in equal surroundings is read once
    for all templates.
    """
    known: dict[_PieceKey, IdArray] = {}
    by_template = []
    nothing = np.zeros(0, dtype=np.int32)
    for t, template in enumerate(space.templates):
        keys = _keys_of_words(space, encoder, t)
        texts = [space.texts(choice, encoder.mask) for choice in _choices_for_unknown(space, t, keys, known)]
        encodings = encoder.encode([["".join(segment) for segment in text] for text in texts])
        fixed: dict[Part, IdArray] = {}
        for text, encoding in zip(texts, encodings, strict=True):
            parts = encoder.split(encoding, text)
            fixed = fixed or parts
            for segment, piece in keys:
                known.setdefault(_key(text[segment], segment, piece), parts.get((segment, piece), nothing))
        blocks = []
        for segment, piece in parts_of(template):
            if (segment, piece) not in keys:
                blocks.append(_block("", [fixed.get((segment, piece), nothing)]))
                continue
            shape = template.segments[segment][piece]
            rows = [known[key] if key[0] else nothing for key in keys[segment, piece]]
            blocks.append(_block(shape.slot, rows, scored is not None and shape.fills(scored)))
        by_template.append(blocks)
    return by_template


def _key(texts: Sequence[str], segment: int, piece: int) -> _PieceKey:
    """Return a piece's text and surroundings: the character before it ("^" at the start), the one after it, and its
    segment.
    """
    before, after = "".join(texts[:piece]), "".join(texts[piece + 1 :])
    left = "^" if not before else "" if texts[piece][:1].isspace() else before[-1]
    return texts[piece], left, after[:1], segment


def _keys_of_words(space: CaseSpace, encoder: RowEncoder, t: int) -> dict[Part, list[_PieceKey]]:
    """Return the key of each word for each slot of a template, with the other slots at their first word."""
    keys: dict[Part, list[_PieceKey]] = {}
    base = dict.fromkeys(space.words, 0) | {TEMPLATE: t}
    parts = _slots_of(space.templates[t])
    for slot in dict.fromkeys(parts.values()):
        here = [part for part, other in parts.items() if other == slot]
        for option in range(len(space.words[slot])):
            texts = space.texts(base | {slot: option}, encoder.mask)
            for segment, piece in here:
                keys.setdefault((segment, piece), []).append(_key(texts[segment], segment, piece))
    return keys


def _slots_of(template: Template) -> dict[Part, str]:
    return {
        (s, p): piece.slot
        for s, pieces in enumerate(template.segments)
        for p, piece in enumerate(pieces)
        if piece.is_slot
    }


def _choices_for_unknown(
    space: CaseSpace, t: int, keys: Mapping[Part, Sequence[_PieceKey]], known: Mapping[_PieceKey, IdArray]
) -> list[dict[str, int]]:
    """Return choices of words for sentences with all words of a template whose tokens are not known yet; at least one
    choice.
    """
    slots = _slots_of(space.templates[t])
    wanted: dict[str, list[int]] = {}
    for part, of_words in keys.items():
        wanted.setdefault(slots[part], []).extend(i for i, key in enumerate(of_words) if key not in known)
    base = dict.fromkeys(space.words, 0) | {TEMPLATE: t}
    # Vary one slot at a time: the other words are those that _keys_of_words() assumes.
    choices = [base | {slot: option} for slot, options in wanted.items() for option in dict.fromkeys(options)]
    return choices or [base]


def _first_disagreement(space: CaseSpace, encoder: RowEncoder, blocks: Sequence[Sequence[PartBlock]]) -> str | None:
    """Build other sentences, with each word in at least one, and return the first whose ids differ from the
    tokenizer's.
    """
    rng = np.random.default_rng(0)
    used = [sorted(set(_slots_of(template).values())) for template in space.templates]
    for t, slots in enumerate(used):
        users = {s: [u for u, others in enumerate(used) if s in others] for s in slots}
        shares = {s: rng.permutation(np.arange(users[s].index(t), len(space.words[s]), len(users[s]))) for s in slots}
        # With fewer words than templates, some templates have no share.
        n = max([1, *(len(share) for share in shares.values())])
        index = {
            s: np.resize(share, n) if len(share) else rng.integers(len(space.words[s]), size=n)
            for s, share in shares.items()
        }
        packed, lengths, _, _ = assemble(blocks[t], index, n, encoder.pad_id)
        sentences = []
        for i in range(n):
            choice = {TEMPLATE: t} | {s: int(values[i]) for s, values in index.items()}
            sentences.append(space.sentence(choice, encoder.mask))
        for i, encoding in enumerate(encoder.encode(sentences)):
            if not np.array_equal(encoder.packed(encoding), packed[i, : lengths[i]]):
                return repr(" / ".join(sentences[i]))
    return None
