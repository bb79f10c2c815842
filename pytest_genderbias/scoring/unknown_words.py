"""Words that a tokenizer does not know: words that become unknown tokens, and different words that become equal inputs.

A network that reads ``[UNK]`` for every word gives a figure that looks neutral and says nothing. Only the tokenizer is
asked, about the words of the cases that were scored, so that a run from the cache notices the same as the run that
scored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_genderbias.models.model import BareTokenizer, Model
from pytest_genderbias.models.protocols import LOG_PROBS
from pytest_genderbias.scoring.tokens import LIMITS
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.space import TEMPLATE, AskedPairs, CaseSpace
from pytest_genderbias.text.template import Piece, piece_texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

#: Share of words with unknown tokens above which a note names them.
MOST_UNKNOWN = 0.01
_SHOWN = 8  #: words that a message lists
_MOST_TEXTS, _MOST_CHARACTERS = 1_000, 200_000  #: how much of a data set is looked at, in the order of scoring
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_PART = re.compile(r"\w+|[^\w\s]+")  #: what a slow tokenizer, which gives no positions, is given at a time

_KNOWN, _UNKNOWN = 1, 2  #: states of a character; 0: no token stands for it

Range = tuple[int, int]  #: characters [start, stop) of a text
Token = tuple[int, int, int]  #: id, start, stop


@dataclass(frozen=True)
class Reading:
    """Tokens of a word, or of the words of a text.

    ``ids``: the tokens. ``words``: number of words with a letter or digit. ``unknown``: those of them with an unknown
    token, or without any. ``knows_any``: whether a known token stands for a letter or digit.
    """

    text: str
    ids: tuple[int, ...]
    words: int
    unknown: tuple[str, ...]
    knows_any: bool


@dataclass(frozen=True)
class PlaceReadings:
    """The readings in one place of the cases: a slot, the fixed text of the templates, a column of texts, or one span
    of each text.

    ``name``: what is there, in words, as *words of 'person'*. ``are_words``: whether figures compare these words, as
    those of a slot or a span. ``noted``: whether unknown words are noted; those of spans are noted with their texts.
    ``pairs``: neighbouring texts, which many figures subtract from each other.
    """

    name: str
    readings: tuple[Reading, ...]
    are_words: bool = False
    noted: bool = True
    pairs: tuple[tuple[Reading, Reading], ...] = ()

    def lost(self) -> str | None:
        """Return why the network cannot tell the texts in this place apart, or ``None`` if it can.

        The tokenizer knows no word in any of them; or different texts become one input; or, for words, each has an
        unknown token, and most become the same input as another; or both texts of each pair become one input.
        """
        input_of = {reading.text.casefold(): reading.ids for reading in self.readings}
        some, times = _listed(reading.text for reading in self.readings), Counter(input_of.values())
        if any(r.words for r in self.readings) and not any(r.knows_any for r in self.readings):
            return f"the tokenizer knows none of the {self.name}: {some}"
        alone = sum(times[ids] == 1 for ids in input_of.values())
        mostly_alike = self.are_words and all(r.unknown for r in self.readings) and 2 * alone < len(input_of)
        if len(input_of) > 1 and (len(times) == 1 or mostly_alike):
            inputs = "1 input" if len(times) == 1 else f"{len(times)} different inputs"
            return f"the tokenizer makes {inputs} of the {len(input_of)} {self.name}: {some}"
        differing = [pair for pair in self.pairs if pair[0].text.casefold() != pair[1].text.casefold()]
        if differing and all(first.ids == second.ids for first, second in differing):
            return (
                f"the tokenizer makes 1 input of both {self.name} of each pair, as of"
                f" {_listed(r.text for r in differing[0])}"
            )
        return None

    def note(self) -> str | None:
        """Return a note that names the unknown words if they are more than 1 %, or ``None``."""
        words = sum(reading.words for reading in self.readings)
        unknown = [word for reading in self.readings for word in reading.unknown]
        if not self.noted or len(unknown) <= MOST_UNKNOWN * words:
            return None
        where = self.name if self.name.startswith("words") else f"words of the {self.name}"
        return f"{len(unknown)} of {words} {where} are unknown to the tokenizer: {_listed(unknown)}"


def _listed(words: Iterable[str]) -> str:
    distinct = [repr(word if len(word) <= 40 else f"{word[:40]}...") for word in dict.fromkeys(words)]
    return ", ".join(distinct[:_SHOWN]) + (f" ... ({len(distinct)})" if len(distinct) > _SHOWN else "")


def unread_words(cases: Cases, units: IntArray, model: Model) -> tuple[str, list[str]]:
    """Return why the scores of cases say nothing (empty if they do), and notes on unknown words.

    Of a data set the first 1,000 texts in the order of scoring are looked at, up to 200,000 characters. A slot's words
    are looked at in the first template that has them.

    Args:
        cases: what was scored.
        units: numbers of the scored units, in the order of scoring.
        model: the model; only networks have a tokenizer.
    """
    if not model.can(LOG_PROBS) or not len(units):
        return "", []
    reader = _Reader(model.backend.word_tokenizer)
    cases = cases.pairs if isinstance(cases, AskedPairs) else cases
    places = list(_of_space(cases, units, reader) if isinstance(cases, CaseSpace) else _of_texts(cases, units, reader))
    reasons = [reason for place in places if (reason := place.lost()) is not None]
    notes = [note for place in places if (note := place.note()) is not None]
    if not reasons:
        return "", notes
    return (
        (
            f"{model.name} cannot tell the cases apart: {reasons[0]}; use a suite in the language of the model, or a"
            " tokenizer that knows its words"
        ),
        notes,
    )


class _Reader:
    """A tokenizer without its special tokens, and the ids of its unknown tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase | BareTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids, self._literal = _unknown_tokens(tokenizer)
        self._tokens_of: dict[str, list[Token]] = {}

    def read(self, texts: Sequence[str], ranges: Sequence[Sequence[Range]], whole_words: bool) -> list[Reading]:
        """Return the reading of each text inside its ranges.

        Args:
            texts: the texts that are tokenised.
            ranges: the ranges of each text that are read.
            whole_words: whether a range is one word (of a slot); else it has words between spaces.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._tokens_of]
        self._tokens_of.update(zip(new, self._tokens(new), strict=True))
        make = self._reading if whole_words else self._reading_of_texts
        return [make(text, self._tokens_of[text], inside) for text, inside in zip(texts, ranges, strict=True)]

    def _reading_of_texts(self, text: str, tokens: Sequence[Token], ranges: Sequence[Range]) -> Reading:
        """Return the reading of texts: without a look at each character where every token is known, as in nearly
        all.
        """
        if not tokens or any(token in self._ids for token, _, _ in tokens):
            return self._reading(text, tokens, ranges, whole_words=False)
        inside = [
            (token, text[start:stop])
            for low, high in ranges
            for token, start, stop in tokens
            if start < high and stop > low
        ]
        words = sum(len(_WORD.findall(text, low, high)) for low, high in ranges)
        shown = " ".join(text[low:high].strip() for low, high in ranges)
        return Reading(
            shown, tuple(token for token, _ in inside), words, (), any(map(_has_letter, (t for _, t in inside)))
        )

    def _reading(
        self, text: str, tokens: Sequence[Token], ranges: Sequence[Range], whole_words: bool = True
    ) -> Reading:
        state = bytearray(len(text))  # of each character
        for token, start, stop in tokens:
            known = token not in self._ids or text[start:stop] in self._literal
            state[start:stop] = bytes([_KNOWN if known else _UNKNOWN]) * (stop - start)
        ids: list[int] = []
        unknown: list[str] = []
        words, knows_any = 0, False
        for low, high in ranges:
            ids += [token for token, start, stop in tokens if start < high and stop > low]
            letters = [state[i] for i in range(low, high) if text[i].isalnum()]
            knows_any = knows_any or _KNOWN in letters
            for start, stop in [(low, high)] if whole_words else _words_in(text, low, high):
                of_word = [state[i] for i in range(start, stop) if text[i].isalnum()]
                words += bool(of_word)
                if _UNKNOWN in of_word or (of_word and not any(of_word)):
                    unknown.append(text[start:stop])
        shown = " ".join(text[low:high].strip() for low, high in ranges)
        return Reading(shown, tuple(ids), words, tuple(unknown), knows_any)

    def _tokens(self, texts: Sequence[str]) -> list[list[Token]]:
        """Return the tokens of each text with their characters: for a slow tokenizer, those of its word."""
        if isinstance(self._tokenizer, BareTokenizer) or self._tokenizer.is_fast:
            with _without_limits(self._tokenizer.backend_tokenizer) as backend:
                encodings = backend.encode_batch(list(texts), add_special_tokens=False)
            return [
                [(i, start, stop) for i, (start, stop) in zip(e.ids, e.offsets, strict=True) if stop > start]
                for e in encodings
            ]
        parts = {part: () for text in texts for part in _PART.findall(text)}
        rows = self._tokenizer(list(parts), add_special_tokens=False, verbose=False)["input_ids"] if parts else []
        of_part = dict(zip(parts, rows, strict=True))
        return [[(i, *m.span()) for m in _PART.finditer(text) for i in of_part[m[0]]] for text in texts]


@contextmanager
def _without_limits(backend: Tokenizer) -> Iterator[Tokenizer]:
    """Turn truncation and padding off inside a ``with`` block, and leave both as they were: fingerprints of the
    tokenizer contain them.

    Threads may share a tokenizer, so that one at a time does this.
    """
    with LIMITS:
        truncation, padding = backend.truncation, backend.padding
        backend.no_truncation()
        backend.no_padding()
        try:
            yield backend
        finally:
            if truncation is not None:
                backend.enable_truncation(**truncation)
            if padding is not None:
                backend.enable_padding(**padding)


def _has_letter(text: str) -> bool:
    return any(map(str.isalnum, text))


def _words_in(text: str, low: int, high: int) -> Iterator[Range]:
    return (match.span() for match in _WORD.finditer(text, low, high))


def _unknown_tokens(tokenizer: PreTrainedTokenizerBase | BareTokenizer) -> tuple[frozenset[int], frozenset[str]]:
    """Return the ids and the texts of the unknown token, as transformers and as the tokenizers library name it."""
    names = {tokenizer.unk_token}
    if tokenizer.is_fast:
        from tokenizers.models import BPE, WordLevel, WordPiece

        kernel = tokenizer.backend_tokenizer.model
        if isinstance(kernel, (BPE, WordLevel, WordPiece)):
            names.add(kernel.unk_token)
    texts = frozenset(name for name in names if name)
    ids = (tokenizer.convert_tokens_to_ids(text) for text in texts)
    return frozenset(i for i in ids if isinstance(i, int)), texts


def _of_space(space: CaseSpace, units: IntArray, reader: _Reader) -> Iterator[PlaceReadings]:
    """Yield the readings of the words of each slot, and of the fixed text of the templates."""
    present = _present(space, units)
    base = {name: int(values[0]) for name, values in present.items()}
    templates = present[TEMPLATE].tolist()
    for slot in space.words:
        where = next((place for t in templates if (place := _segment_with(space, t, slot)) is not None), None)
        if where is None:
            continue
        t, pieces, at = where
        made = [_filled(space, pieces, base | {TEMPLATE: t, slot: i}) for i in present[slot].tolist()]
        spans = [[_span(pieces, parts, at)] for parts in made]
        yield PlaceReadings(
            f"words of {slot!r}", tuple(reader.read(["".join(parts) for parts in made], spans, True)), are_words=True
        )
    fixed = [_fixed_text(space, t, base, reader) for t in templates]
    innermost = space.axes[-1].columns == (TEMPLATE,)
    yield PlaceReadings(
        "templates", tuple(reading for reading in fixed if reading.words), pairs=_pairs(fixed) if innermost else ()
    )


def _pairs(readings: Sequence[Reading]) -> tuple[tuple[Reading, Reading], ...]:
    """Return the pairs of neighbours; none of an odd number of readings."""
    return () if len(readings) % 2 else tuple(zip(readings[::2], readings[1::2], strict=True))


def _fixed_text(space: CaseSpace, t: int, base: dict[str, int], reader: _Reader) -> Reading:
    """Return the reading of a template without its slots and its blank."""
    texts, ranges = [], []
    for pieces in space.templates[t].segments:
        parts = _filled(space, pieces, base | {TEMPLATE: t})
        texts.append("".join(parts))
        ranges.append([_span(pieces, parts, i) for i, piece in enumerate(pieces) if not piece.slot])
    read = reader.read(texts, ranges, False)
    return Reading(
        " / ".join(one.text for one in read),
        tuple(token for one in read for token in one.ids),
        sum(one.words for one in read),
        tuple(word for one in read for word in one.unknown),
        any(one.knows_any for one in read),
    )


def _present(space: CaseSpace, units: IntArray) -> dict[str, IntArray]:
    """Return the numbers of the words of each slot, and of the templates, that occur in the scored cases."""
    if len(units) < space.n_units:
        columns = space.columns(space.cases_of(units))
        return {name: np.unique(values) for name, values in columns.items()}
    present = {column: np.unique(axis.choices[:, i]) for axis in space.axes for i, column in enumerate(axis.columns)}
    return {TEMPLATE: np.zeros(1, dtype=np.int64)} | present


def _segment_with(space: CaseSpace, t: int, slot: str) -> tuple[int, Sequence[Piece], int] | None:
    """Return a template's number, its first segment with a slot, and the number of the slot's piece there."""
    for pieces in space.templates[t].segments:
        for i, piece in enumerate(pieces):
            if piece.slot == slot and not piece.article:
                return t, pieces, i
    return None


def _filled(space: CaseSpace, pieces: Sequence[Piece], choice: dict[str, int]) -> list[str]:
    return piece_texts(pieces, lambda slot: space.words[slot][choice[slot]], "")


def _span(pieces: Sequence[Piece], parts: Sequence[str], at: int) -> Range:
    start = sum(map(len, parts[:at]))
    lead = len(pieces[at].lead) if parts[at] else 0
    return start + lead, start + len(parts[at])


def _of_texts(cases: Cases, units: IntArray, reader: _Reader) -> Iterator[PlaceReadings]:
    """Yield the readings of each column of texts, and of each span where all texts have equally many."""
    numbers = cases.cases_of(units[: max(1, _MOST_TEXTS // cases.cases_per_unit)])
    rows = [tuple(text[:_MOST_CHARACTERS] for text in row) for row in cases.sentences(numbers)]
    characters = np.cumsum([sum(map(len, row)) for row in rows])
    units_read = int(np.searchsorted(characters, _MOST_CHARACTERS)) // cases.cases_per_unit + 1
    numbers, rows = numbers[: units_read * cases.cases_per_unit], rows[: units_read * cases.cases_per_unit]
    columns = list(zip(*rows, strict=True))
    names = ("texts",) if len(columns) == 1 else ("first texts", "second texts")
    for name, column in zip(names, columns, strict=True):
        texts = list(dict.fromkeys(column))
        read = dict(zip(texts, reader.read(texts, [((0, len(text)),) for text in texts], False), strict=True))
        pairs = _pairs([read[text] for text in column]) if cases.cases_per_unit % 2 == 0 else ()
        yield PlaceReadings(name, tuple(read.values()), pairs=pairs)
    spans = [cases.spans[i] for i in numbers] if isinstance(cases, TextCases) and cases.spans else []
    if not spans or len({len(ranges) for ranges in spans}) > 1:
        return
    for k, of_span in enumerate(zip(*spans, strict=True)):
        marked = dict.fromkeys(zip(columns[0], of_span, strict=True))
        readings = reader.read([text for text, _ in marked], [(span,) for _, span in marked], False)
        yield PlaceReadings(f"words in span {k + 1} of the texts", tuple(readings), are_words=True, noted=False)
