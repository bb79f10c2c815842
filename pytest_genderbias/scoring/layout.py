"""Token ids of many cases at once, built from the tokens of words and of fixed parts.

The tokens of each part of a template are taken from whole sentences that the tokenizer encoded; each word of each slot
occurs in at least one. Other sentences, again with each word, are then built from the parts and compared with the
tokenizer's ids. Rows are built from parts only if all of them agree. Otherwise the tokenizer encodes each sentence, and
the layout's note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.scoring.tokens import (
    IdArray,
    Part,
    PartsError,
    RowEncoder,
    TokenRows,
    encode_cases,
    parts_of,
    unpack,
)
from pytest_genderbias.suites.space import TEMPLATE, CaseSpace, Template

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
        try:
            self._blocks = _read_parts(space, encoder, scored)
            wrong = _first_disagreement(space, encoder, self._blocks)
        except PartsError:
            wrong = "its tokens do not follow the words"
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
    lengths = np.asarray([len(row) for row in rows], dtype=np.int64)
    table = np.zeros((len(rows), int(lengths.max(initial=0))), dtype=np.int32)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return PartBlock(slot, table, lengths, scored)


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
