"""Words that a tokenizer does not know: words that become unknown tokens, and different words that become equal inputs.

A network that reads ``[UNK]`` for every word gives a figure that looks neutral and says nothing. Only the tokenizer is
asked, about the words of the cases that were scored, so that a run from the cache notices the same as the run that
scored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, compress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pytest_genderbias.models.model import BareTokenizer, Model
from pytest_genderbias.models.protocols import LOG_PROBS
from pytest_genderbias.scoring.tokens import LIMITS
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.space import TEMPLATE, AskedPairs, CaseSpace
from pytest_genderbias.text.template import Piece, piece_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    AnyTokenizer: TypeAlias = PreTrainedTokenizerBase | BareTokenizer

#: Share of words with unknown tokens above which a note names them.
MOST_UNKNOWN = 0.01
_SHOWN = 8  #: words that a message lists
_MOST_TEXTS, _MOST_CHARACTERS = 1_000, 200_000  #: how much of a data set is looked at, in the order of scoring
_WORD = re.compile(r"\w+(?:['’-]\w+)*")
_PART = re.compile(r"\w+|[^\w\s]+")  #: what a slow tokenizer, which gives no positions, is given at a time

_KNOWN, _UNKNOWN = 1, 2  #: states of a character; 0: no token stands for it

Range = tuple[int, int]  #: characters [start, stop) of a text
Token = tuple[int, int, int]  #: id, start, stop
Segment = tuple[str, tuple[Range, ...]]  #: a text, and the ranges of it that are read


class Reading(NamedTuple):
    """Tokens of a word, or of the words of texts.

    ``ids``: the tokens. ``words``: number of words with a letter or digit. ``unknown``: those of them with an unknown
    token, or without any. ``knows_any``: whether a known token stands for a letter or digit.
    """

    text: str
    ids: tuple[int, ...]
    words: int
    unknown: tuple[str, ...]
    knows_any: bool


class Place(NamedTuple):
    """The readings in one place of the cases: a slot, the fixed text of the templates, a column of texts, or one span
    of each text.

    ``name``: what is there, as *words of 'person'*. ``are_words``: whether figures compare these words, as those of a
    slot or a span. ``noted``: whether unknown words are noted; those of spans are noted with their texts. ``paired``:
    neighbouring texts, which many figures subtract from each other; none, or an even number.
    """

    name: str
    readings: Sequence[Reading]
    are_words: bool = False
    noted: bool = True
    paired: Sequence[Reading] = ()

    def lost(self) -> str:
        """Return why the network cannot tell the texts in this place apart, or an empty text if it can.

        The tokenizer knows no word in any of them; or different texts become one input; or, for words, each has an
        unknown token, and most become the same input as another; or both texts of each pair become one input.
        """
        texts, ids, words, unknown, knows_any = zip(*self.readings, strict=True) if self.readings else [()] * 5
        if any(words) and not any(knows_any):
            return f"the tokenizer knows none of the {self.name}: {_listed(texts)}"
        input_of = dict(zip(map(str.casefold, texts), ids, strict=True))
        times = Counter(input_of.values())
        alone = list(times.values()).count(1)
        mostly_alike = self.are_words and all(unknown) and 2 * alone < len(input_of)
        if len(input_of) > 1 and (len(times) == 1 or mostly_alike):
            inputs = "1 input" if len(times) == 1 else f"{len(times)} different inputs"
            return f"the tokenizer makes {inputs} of the {len(input_of)} {self.name}: {_listed(texts)}"
        pairs = zip(self.paired[::2], self.paired[1::2], strict=True)
        differing = [(one, other) for one, other in pairs if one.text.casefold() != other.text.casefold()]
        if differing and all(one.ids == other.ids for one, other in differing):
            shown = _listed(reading.text for reading in differing[0])
            return f"the tokenizer makes 1 input of both {self.name} of each pair, as of {shown}"
        return ""

    def note(self) -> str:
        """Return a note that names the unknown words if they are more than 1 %, or an empty text."""
        words = sum(reading.words for reading in self.readings)
        unknown = [word for reading in self.readings for word in reading.unknown]
        if not self.noted or len(unknown) <= MOST_UNKNOWN * words:
            return ""
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
    cases = cases.pairs if isinstance(cases, AskedPairs) else cases
    find = _places_of_space if isinstance(cases, CaseSpace) else _places_of_texts
    places = list(find(cases, units, model.backend.word_tokenizer))  # type: ignore[arg-type]
    notes = [note for place in places if (note := place.note())]
    for place in places:
        if reason := place.lost():
            return (
                f"{model.name} cannot tell the cases apart: {reason}; use a suite in the language of the model, or a"
                " tokenizer that knows its words"
            ), notes
    return "", notes


def _places_of_space(space: CaseSpace, units: IntArray, tokenizer: AnyTokenizer) -> Iterator[Place]:
    """Yield the words of each slot, and the fixed text of the templates without slots and blank."""
    present = _present(space, units)
    base = {name: int(values[0]) for name, values in present.items()}
    templates = present[TEMPLATE].tolist()
    segments = [(t, pieces) for t in templates for pieces in space.templates[t].segments]
    for slot in space.words:
        for t, pieces in segments:
            if any(piece.slot == slot and not piece.article for piece in pieces):
                choices = [base | {TEMPLATE: t, slot: i} for i in present[slot].tolist()]
                rows = [(_segment(space, pieces, choice, slot),) for choice in choices]
                yield Place(f"words of {slot!r}", _readings(tokenizer, rows, whole_words=True), are_words=True)
                break
    fixed = _readings(
        tokenizer,
        [
            tuple(_segment(space, pieces, base | {TEMPLATE: t}) for pieces in space.templates[t].segments)
            for t in templates
        ],
    )
    are_paired = space.axes[-1].columns == (TEMPLATE,) and len(fixed) % 2 == 0
    yield Place("templates", [reading for reading in fixed if reading.words], paired=fixed if are_paired else ())


def _present(space: CaseSpace, units: IntArray) -> dict[str, IntArray]:
    """Return the numbers of the words of each slot, and of the templates, that occur in the scored cases."""
    if len(units) < space.n_units:
        columns = space.columns(space.cases_of(units))
        return {name: np.unique(values) for name, values in columns.items()}
    present = {column: np.unique(axis.choices[:, i]) for axis in space.axes for i, column in enumerate(axis.columns)}
    return {TEMPLATE: np.zeros(1, dtype=np.int64)} | present


def _segment(space: CaseSpace, pieces: Sequence[Piece], choice: dict[str, int], slot: str = "") -> Segment:
    """Return the text of a segment with the range of the first word of a slot, or the ranges of its fixed text; without
    the white space before a slot.
    """
    parts = piece_texts(pieces, lambda name: space.words[name][choice[name]], "")
    ranges = [
        (end - len(part[len(piece.lead) :]), end)
        for piece, part, end in zip(pieces, parts, accumulate(map(len, parts)), strict=True)
        if piece.slot == slot and not piece.article
    ]
    return "".join(parts), tuple(ranges[:1] if slot else ranges)


def _places_of_texts(cases: Cases, units: IntArray, tokenizer: AnyTokenizer) -> Iterator[Place]:
    """Yield each column of texts, and each span where all texts have equally many."""
    each = cases.cases_per_unit
    numbers = cases.cases_of(units[: max(1, _MOST_TEXTS // each)])
    rows = [tuple(text[:_MOST_CHARACTERS] for text in row) for row in cases.sentences(numbers)]
    characters = np.cumsum([sum(map(len, row)) for row in rows])
    most = each * (int(np.searchsorted(characters, _MOST_CHARACTERS)) // each + 1)
    columns = [[((text, ((0, len(text)),)),) for text in column] for column in zip(*rows[:most], strict=True)]
    spans = [cases.spans[i] for i in numbers[:most]] if isinstance(cases, TextCases) and cases.spans else []
    marked = []
    if len({len(ranges) for ranges in spans}) == 1:
        firsts = [row[0] for row in rows[:most]]
        marked = [[((text, (span,)),) for text, span in zip(firsts, k, strict=True)] for k in zip(*spans, strict=True)]
    distinct: list[tuple[Segment, ...]] = list(dict.fromkeys(chain(*columns, *marked)))
    read = dict(zip(distinct, _readings(tokenizer, distinct), strict=True))
    names = ("texts",) if len(columns) == 1 else ("first texts", "second texts")
    for name, column in zip(names, columns, strict=True):
        readings = [read[row] for row in dict.fromkeys(column)]
        yield Place(name, readings, paired=[read[row] for row in column] if each % 2 == 0 else ())
    for number, column in enumerate(marked, start=1):
        readings = [read[row] for row in dict.fromkeys(column)]
        yield Place(f"words in span {number} of the texts", readings, are_words=True, noted=False)


def _readings(tokenizer: AnyTokenizer, rows: Sequence[tuple[Segment, ...]], whole_words: bool = False) -> list[Reading]:
    """Return the reading of each row inside its ranges.

    Args:
        tokenizer: the tokenizer.
        rows: the texts of each row, and their ranges.
        whole_words: whether a range is one word (of a slot); else it has words between spaces.
    """
    texts = list(dict.fromkeys(text for row in rows for text, _ in row))
    found = dict(zip(texts, tokens_of(tokenizer, texts), strict=True))
    unknown_ids, literal = _unknown_tokens(tokenizer)
    readings = []
    for row in rows:
        ids: list[int] = []
        unknown: list[str] = []
        words, knows_any = 0, False
        for text, ranges in row:
            state = bytearray(len(text))  # of each character
            for token, start, stop in found[text]:
                known = token not in unknown_ids or text[start:stop] in literal
                state[start:stop] = bytes([_KNOWN if known else _UNKNOWN]) * (stop - start)
            for low, high in ranges:
                ids += [token for token, start, stop in found[text] if start < high and stop > low]
                inside = [(low, high)] if whole_words else [match.span() for match in _WORD.finditer(text, low, high)]
                for start, stop in inside:
                    word, states = text[start:stop], state[start:stop]
                    letters = set(compress(states, map(str.isalnum, word)))
                    words += bool(letters)
                    knows_any |= _KNOWN in letters
                    if _UNKNOWN in letters or letters == {0}:
                        unknown.append(word)
        shown = " / ".join(" ".join(text[low:high].strip() for low, high in ranges) for text, ranges in row)
        readings.append(Reading(shown, tuple(ids), words, tuple(unknown), knows_any))
    return readings


def tokens_of(tokenizer: AnyTokenizer, texts: list[str]) -> list[list[Token]]:
    """Return the tokens of each text with their characters (for a slow tokenizer, those of its word), without special
    tokens.

    The limits of a fast tokenizer are turned off, and left as they were, since fingerprints contain them. Threads may
    share a tokenizer, so that one at a time does this.
    """
    if not isinstance(tokenizer, BareTokenizer) and not tokenizer.is_fast:
        parts = dict.fromkeys(part for text in texts for part in _PART.findall(text))
        rows = tokenizer(list(parts), add_special_tokens=False, verbose=False)["input_ids"] if parts else []
        of_part = dict(zip(parts, rows, strict=True))
        return [[(i, *match.span()) for match in _PART.finditer(text) for i in of_part[match[0]]] for text in texts]
    backend = tokenizer.backend_tokenizer
    with LIMITS:
        truncation, padding = backend.truncation, backend.padding
        backend.no_truncation()
        backend.no_padding()
        try:
            encodings = backend.encode_batch(texts, add_special_tokens=False)
        finally:
            if truncation is not None:
                backend.enable_truncation(**truncation)
            if padding is not None:
                backend.enable_padding(**padding)
    return [
        [(i, start, stop) for i, (start, stop) in zip(encoding.ids, encoding.offsets, strict=True) if stop > start]
        for encoding in encodings
    ]


def _unknown_tokens(tokenizer: AnyTokenizer) -> tuple[frozenset[int], frozenset[str]]:
    """Return the ids and the texts of the unknown token, as transformers and as the tokenizers library name it."""
    names = {tokenizer.unk_token}
    if tokenizer.is_fast:
        from tokenizers.models import BPE, WordLevel, WordPiece

        kernel = tokenizer.backend_tokenizer.model
        if isinstance(kernel, (BPE, WordLevel, WordPiece)):
            names.add(kernel.unk_token)
    texts = frozenset(filter(None, names))
    ids = map(tokenizer.convert_tokens_to_ids, texts)
    return frozenset(i for i in ids if isinstance(i, int)), texts
