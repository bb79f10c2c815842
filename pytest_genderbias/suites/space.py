"""The cases of a suite as a product of axes, so that two million cases take no memory before they are scored; and the
slots, templates and groups of suite files.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from pytest_genderbias.errors import DataFileError, SettingError, UnknownNameError
from pytest_genderbias.suites.cases import Cases, IntArray
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedList, LocatedMap, Rule, refuse_unknown, take, take_texts
from pytest_genderbias.text.template import BLANK, Piece, Word, parse_template, piece_texts, slots_of
from pytest_genderbias.text.wordlist import FORMS, WordEntry, load_wordlist

TEMPLATE = "template"
MOST_CASES = 10**8  #: The largest number of cases: they are shuffled before a sample of them is drawn.


@dataclass(frozen=True)
class Template:
    """One or two segments (two for a sentence pair), each a sequence of pieces."""

    segments: tuple[tuple[Piece, ...], ...]


@dataclass(frozen=True)
class Axis:
    """One factor of the product. Each row of ``choices`` picks a value for every column: a slot or ``template``."""

    columns: tuple[str, ...]
    choices: IntArray  # (size, len(columns))

    @property
    def size(self) -> int:
        """Number of values on this axis."""
        return int(self.choices.shape[0])

    @classmethod
    def whole(cls, column: str, size: int, beside: Iterable[str] = ()) -> Axis:
        """Make the axis that runs over all values of one column, and of the columns ``beside`` it in step."""
        columns = tuple(dict.fromkeys((column, *beside)))
        return cls(columns, np.repeat(np.arange(size, dtype=np.int64)[:, None], len(columns), axis=1))


@dataclass(frozen=True)
class CaseSpace(Cases):
    """All cases of a suite. The first ``unit_axes`` axes make the sampling units; the rest is scored with each unit."""

    templates: tuple[Template, ...]
    words: Mapping[str, tuple[Word, ...]]
    axes: tuple[Axis, ...]
    unit_axes: int

    def __post_init__(self) -> None:
        """Check that the cases can be numbered.

        Raises:
            SettingError: there are too many.
        """
        refuse_too_many([axis.size for axis in self.axes])

    @property
    def n_units(self) -> int:
        """Number of sampling units."""
        return math.prod(axis.size for axis in self.axes[: self.unit_axes])

    @property
    def cases_per_unit(self) -> int:
        """Number of cases that are scored together with one unit."""
        return math.prod(axis.size for axis in self.axes[self.unit_axes :])

    def digest(self) -> str:
        """Return a SHA-256 over templates, words and axes."""
        digest = hashlib.sha256(repr((self.templates, sorted(self.words.items()), self.unit_axes)).encode())
        for axis in self.axes:
            digest.update(repr(axis.columns).encode())
            digest.update(axis.choices.tobytes())
        return digest.hexdigest()

    def digits(self, cases: IntArray) -> list[IntArray]:
        """Return the position of each case on each axis: one array of shape (len(cases),) an axis."""
        return _digits(cases, [axis.size for axis in self.axes])

    def columns(self, cases: IntArray) -> dict[str, IntArray]:
        """Return, for each slot and for ``template``, the index of the value that each case has."""
        values: dict[str, IntArray] = {TEMPLATE: np.zeros(len(cases), dtype=np.int64)}
        for axis, digit in zip(self.axes, self.digits(cases), strict=True):
            values |= dict(zip(axis.columns, axis.choices[digit].T, strict=True))
        return values

    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the text of each case, one string a segment."""
        columns = self.columns(cases)
        return [
            self.sentence({name: int(values[row]) for name, values in columns.items()}, mask)
            for row in range(len(cases))
        ]

    def sentence(self, choice: Mapping[str, int], mask: str = "[MASK]") -> tuple[str, ...]:
        """Return the text for one choice of template and words."""
        return tuple(map("".join, self.texts(choice, mask)))

    def texts(self, choice: Mapping[str, int], mask: str) -> list[list[str]]:
        """Return the text of every piece for one choice of template and words, segment by segment."""
        segments = self.templates[choice[TEMPLATE]].segments
        return [piece_texts(s, lambda slot: self.words[slot][choice[slot]], mask) for s in segments]

    def prefix(self, choice: Mapping[str, int], slot: str) -> str:
        """Return the text before ``slot`` in the first segment, and with :meth:`word_of` the word that follows it."""
        (pieces, *_) = self.templates[choice[TEMPLATE]].segments
        at = next(i for i, piece in enumerate(pieces) if piece.fills(slot))
        return "".join(piece_texts(pieces[:at], lambda name: self.words[name][choice[name]], ""))

    def word_of(self, choice: Mapping[str, int], slot: str) -> str:
        """Return the word in a slot, as it stands inside a sentence."""
        (pieces, *_) = self.templates[choice.get(TEMPLATE, 0)].segments
        filled = next(piece.slot for piece in pieces if piece.fills(slot))
        return self.words[filled][choice[filled]].text


def words_by_templates(slot: str, words: Mapping[str, tuple[Word, ...]], templates: tuple[Template, ...]) -> CaseSpace:
    """Return each word of a slot, with its forms, in each template; a unit is a word."""
    axes = (Axis.whole(slot, len(words[slot]), words), Axis.whole(TEMPLATE, len(templates)))
    return CaseSpace(templates, words, axes, unit_axes=1)


def refuse_too_many(sizes: Sequence[int]) -> None:
    """Raise an error if the product of these axes has too many cases.

    Raises:
        SettingError: it has.
    """
    if math.prod(sizes) > MOST_CASES:
        shown = " x ".join(f"{size:,}" for size in sizes[:8]) + (" x ..." if len(sizes) > 8 else "")
        raise SettingError(f"expected at most {MOST_CASES:,} cases in the suite, got {shown}; shorten its word lists")


def product(columns: Sequence[IntArray]) -> IntArray:
    """Return all combinations of a value of each column, shape (product of the lengths, columns); the last varies
    fastest.

    Raises:
        SettingError: there are too many.

    >>> product([np.array([0, 1]), np.array([5, 6, 7])]).tolist()
    [[0, 5], [0, 6], [0, 7], [1, 5], [1, 6], [1, 7]]
    """
    refuse_too_many([len(column) for column in columns])
    sizes = [len(column) for column in columns]
    digits = _digits(np.arange(math.prod(sizes), dtype=np.int64), sizes)
    return np.stack([column[digit] for column, digit in zip(columns, digits, strict=True)], axis=1)


def _digits(numbers: IntArray, sizes: Sequence[int]) -> list[IntArray]:
    """Return the digits of numbers in a system of mixed radices, of any length: numpy's own have at most 64."""
    digits = []
    for size in reversed(sizes):
        numbers, digit = np.divmod(numbers, size)
        digits.append(digit)
    return digits[::-1]


@dataclass(frozen=True)
class AskedPairs(Cases):
    """The questions about pairs, in the orders of their options. A unit is a pair; its cases are the orders.

    Messages are made when they are asked for: a suite can have millions of pairs.

    Attributes:
        pairs: cases of two segments, one per unit.
        orders: number of orders in which a pair is asked about.
        ask: function from the number of a pair, premise and hypothesis to the message in each order.
    """

    pairs: Cases
    orders: int
    ask: Callable[[int, str, str], list[str]]

    @property
    def n_units(self) -> int:
        """Number of pairs."""
        return self.pairs.n_units

    @property
    def cases_per_unit(self) -> int:
        """Number of orders."""
        return self.orders

    def sentences(self, cases: IntArray, mask: str = "[MASK]") -> list[tuple[str, ...]]:
        """Return the message of each case."""
        units, index = np.unique(np.asarray(cases) // self.orders, return_inverse=True)
        messages = [
            self.ask(unit, *pair) for unit, pair in zip(units.tolist(), self.pairs.sentences(units), strict=True)
        ]
        return [
            (messages[at][order],)
            for at, order in zip(index.tolist(), (np.asarray(cases) % self.orders).tolist(), strict=True)
        ]

    def digest(self) -> str:
        """Return a SHA-256 over the pairs and the wording of the question."""
        wording = self.ask(0, "{premise}", "{hypothesis}")
        return hashlib.sha256(repr((self.pairs.digest(), self.orders, wording)).encode()).hexdigest()


@dataclass(frozen=True)
class SlotWords:
    """The words of a slot, which the suite file selects from word lists."""

    entries: tuple[WordEntry, ...]
    form: str

    def words(self, as_printed: bool = False) -> tuple[Word, ...]:
        """Return the fillers; ``as_printed``: in the form that the paper prints."""
        words = []
        for entry in self.entries:
            text, article = entry.word, entry.attributes.get("article")
            if as_printed:
                text = entry.attributes.get("printed", text)
                article = entry.attributes.get("printed_article", article)
            words.append(Word.of(self.form.replace("{word}", text), article, text))
        return tuple(words)

    def in_forms(self, slot: str, templates: Iterable[Template]) -> dict[str, tuple[Word, ...]]:
        """Return the fillers, and those of each form of the slot in templates, by the slot with its form."""
        pieces = (piece for template in templates for segment in template.segments for piece in segment)
        forms = sorted({piece.form for piece in pieces if piece.name == slot and piece.form})
        return {slot: self.words()} | {
            f"{slot}:{form}": tuple(
                Word.of(self.form.replace("{word}", entry.attributes[FORMS][form]), "", entry.word)
                for entry in self.entries
            )
            for form in forms
        }

    def content(self) -> list[object]:
        """Return words and attributes for the digest."""
        return [self.form, *([e.word, dict(e.attributes)] for e in self.entries)]


def read_slot(data: LocatedMap, key: str, with_forms: bool = False) -> SlotWords:
    """Read ``key: {list: NAME-or-path, where: {attribute: value}, form: "the {word}"}``.

    ``list`` may name several lists; ``{list: NAME}`` in ``where`` and ``combine`` then selects the entries of one of
    them. ``where: {word: [...]}`` selects words by name. ``with_forms``: whether templates may ask for forms of words.

    Raises:
        DataFileError: a key is unknown or has a wrong value, a list is missing, no word is left, or words have forms
            that the templates of the suite cannot ask for.
    """
    what = f"slot {brief(key)}"
    spec = take(data, key, LocatedMap, "the suite")
    refuse_unknown(spec, ("list", "where", "form"), what)
    where = _read_where(spec, what)
    form = take(spec, "form", str, what, default="{word}")
    if form.count("{word}") != 1:
        raise spec.error_at("form", f"'form' of {what} should hold {{word}} once, got {brief(form)}")
    names = [take(spec, "list", str, what)] if isinstance(spec.get("list"), str) else take_texts(spec, "list", what)
    entries: dict[str, WordEntry] = {}
    for name in names:
        try:
            words = load_wordlist(name, data.folder)
        except (SettingError, UnknownNameError) as error:
            raise spec.error_at("list", f"{error}") from None
        for entry in words.entries:
            if entry.word in entries:
                raise spec.error_at("list", f"{brief(entry.word)} is in two of the lists of {what}")
            of_list = replace(entry, attributes={**entry.attributes, "list": words.name})
            if of_list.matches(where):
                entries[entry.word] = of_list
    if not entries:
        raise spec.error_at("", f"{what} is empty: no word of the list has {brief(where)}")
    if not with_forms and (formed := [entry.word for entry in entries.values() if FORMS in entry.attributes]):
        raise spec.error_at(
            "list", f"{brief(formed[0])} has forms, which {what} of this suite cannot use; name a list of plain words"
        )
    named = where.get("word", ())
    if absent := [word for word in ([named] if isinstance(named, str) else named) if word not in entries]:
        raise spec.error_at("where", f"{what} asks for {', '.join(map(repr, absent))}, which the list lacks")
    return SlotWords(tuple(entries.values()), form)


def _read_where(spec: LocatedMap, what: str) -> LocatedMap:
    """Read ``where``: a value or a list of values for each attribute."""
    where = take(spec, "where", LocatedMap, what, default={})
    for key, wanted in where.items():
        values = wanted if isinstance(wanted, list) else [wanted]
        kinds = (str,) if key == "word" else (str, int, float)
        if not values or not all(isinstance(value, kinds) for value in values):
            raise DataFileError(
                f"{spec.file}:{where.lines[key]}: expected a value or a list of values for {brief(key)} in 'where' of"
                f" {what}, got {brief(wanted)}; put words in quotes"
            )
    return where


def read_template(
    text: object,
    file: str,
    line: int,
    slots: set[str],
    blank: bool = False,
    formed: Mapping[str, SlotWords] | None = None,
) -> tuple[Piece, ...]:
    """Parse a template and check that it uses exactly these slots, and ``{blank}`` once if ``blank``.

    Args:
        text: the template.
        file: the file that it is from.
        line: its line there.
        slots: names of the slots.
        blank: whether it has a blank.
        formed: words of the slots that it may use in forms (``{occupation:female}``).

    Raises:
        DataFileError: it does not, or a word lacks the form that it asks for.
    """
    if not isinstance(text, str) or not text.strip():
        raise DataFileError(f"{file}:{line}: expected a template (a text with slots in braces), got {brief(text)}")
    pieces = parse_template(text)
    formed = formed or {}
    used = {piece.name if piece.name in formed else piece.slot for piece in pieces if piece.is_slot}
    unknown, missing = used - slots, slots - used
    fixed = "".join(piece.text for piece in pieces)
    if unknown or missing or "{" in fixed or "}" in fixed:
        wanted = ", ".join(f"{{{slot}}}" for slot in sorted(slots))
        raise DataFileError(f"{file}:{line}: template {brief(text)} should use the slots {wanted} and no other")
    blanks = sum(piece.slot == BLANK for piece in pieces)
    if blanks != int(blank):
        raise DataFileError(
            f"{file}:{line}: template {brief(text)} should have {'one' if blank else 'no'} {{blank}}, has {blanks}"
        )
    for piece in pieces:
        if piece.name in formed:
            _check_forms(piece, formed[piece.name].entries, f"{file}:{line}: template {brief(text)}")
    return pieces


def read_templates(rows: LocatedList, slots: set[str], blank: bool = False) -> list[tuple[str, tuple[Piece, ...]]]:
    """Parse each template of a list; return its text and its pieces. Arguments as of :func:`read_template`."""
    return [
        (str(row), read_template(row, rows.file, line, slots, blank))
        for row, line in zip(rows, rows.lines, strict=True)
    ]


@dataclass(frozen=True)
class LabelledTemplate:
    """A template with a label: the field of life that it is about, or, of a control, the right answer."""

    label: str
    text: str
    pieces: tuple[Piece, ...]


def read_labelled_templates(
    data: LocatedMap,
    key: str,
    label: str,
    slots: set[str],
    needed: set[str],
    kind: Any = str,
    default: str | None = None,
) -> tuple[LabelledTemplate, ...]:
    """Read ``key``, a list of mappings with a ``label`` and a ``text``, each text once.

    Args:
        data: the suite.
        key: of the list.
        label: key of the labels.
        slots: that texts may use.
        needed: slots that each of them has to use.
        kind: what a label may be.
        default: the label of a text without one; required without it.

    Raises:
        DataFileError: a row has another form or lacks a label that is required, a text is there twice, or it uses other
            slots.
    """
    found = []
    row_of = Annotated[LocatedMap, Rule(f"a mapping with the keys {label} and text")]
    for row in take(data, key, list[row_of], "the suite"):
        refuse_unknown(row, (label, "text"), f"a text of {key}")
        text = take(row, "text", str, f"a text of {key}")
        about = default if default is not None and label not in row else take(row, label, kind, f"a text of {key}")
        used = needed | (slots_of(parse_template(text)) & slots)
        found.append(LabelledTemplate(str(about), text, read_template(text, data.file, row.lines["text"], used)))
    if len({one.text for one in found}) < len(found):
        raise data.error_at(key, f"a text of {key} is there twice; expected each once")
    return tuple(found)


def _check_forms(piece: Piece, entries: Iterable[WordEntry], where: str) -> None:
    """Refuse a form that a word lacks, and a word without one where it has several."""
    form = piece.form
    for entry in entries:
        word, forms = entry.word, entry.attributes.get(FORMS, {})
        if form and form not in forms:
            raise DataFileError(
                f"{where} asks for the form {brief(form)} of {brief(word)}, which its word list lacks; add it"
                f" under {FORMS!r}{'; it has ' if forms else ''}{', '.join(forms)}"
            )
        if forms and not form:
            raise DataFileError(
                f"{where} should say which form of {brief(word)} it wants: {{{piece.name}:{next(iter(forms))}}}"
            )


def read_groups(data: LocatedMap, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Read ``groups``: at least two different labels.

    Raises:
        DataFileError: there are fewer, or one repeats.
    """
    if default is not None and "groups" not in data:
        return default
    groups = take_texts(data, "groups", "the suite")
    if len(groups) < 2 or len(set(groups)) != len(groups):
        raise data.error_at("groups", f"'groups' should be two or more different labels, got {list(groups)}")
    return tuple(groups)


def read_two_groups(data: LocatedMap, default: tuple[str, str] | None = None) -> tuple[str, str]:
    """Read ``groups``: two labels.

    Raises:
        DataFileError: there are more or fewer, or they are the same.
    """
    groups = read_groups(data, default)
    if len(groups) != 2:
        raise data.error_at("groups", f"expected two groups to compare, got {len(groups)}")
    return groups[0], groups[1]


def read_slot_with_share(data: LocatedMap, name: str, with_forms: bool = False) -> tuple[SlotWords, str]:
    """Read a slot whose words have a share, and ``share``, the name of that attribute.

    Raises:
        DataFileError: a word has no number there.
    """
    slot, share = read_slot(data, name, with_forms), take(data, "share", str, "the suite")
    for entry in slot.entries:
        if not isinstance(entry.attributes.get(share), (int, float)):
            raise data.error_at("share", f"{entry.word!r} has no number {share!r} in its word list; add it")
    return slot, share


def read_word_of_each(data: LocatedMap, key: str, groups: tuple[str, str]) -> tuple[str, str]:
    """Read a word for each of two groups.

    Raises:
        DataFileError: there are others, or one is no text.
    """
    words = take(data, key, LocatedMap, "the suite")
    if set(words) != set(groups) or not all(isinstance(word, str) for word in words.values()):
        raise data.error_at(key, f"{key!r} should give a word for each of two groups, got {dict(words)}")
    return words[groups[0]], words[groups[1]]
