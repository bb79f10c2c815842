"""Read the slots, templates and groups of suite files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pytest_genderbias.errors import DataFileError, SettingError, UnknownNameError
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.schema import LocatedMap, refuse_unknown, take, take_texts
from pytest_genderbias.text.template import BLANK, Piece, Word, parse_template, slots_of
from pytest_genderbias.text.wordlist import WordEntry, load_wordlist


@dataclass(frozen=True)
class SlotWords:
    """The words of a slot, which the suite file selects from word lists."""

    entries: tuple[WordEntry, ...]
    form: str

    def words(self, as_printed: bool = False) -> tuple[Word, ...]:
        """Return the fillers; ``as_printed``: in the form that the paper prints."""
        return tuple(self._word(entry, as_printed) for entry in self.entries)

    def _word(self, entry: WordEntry, as_printed: bool) -> Word:
        text, article = entry.word, entry.attributes.get("article")
        if as_printed:
            text = entry.attributes.get("printed", text)
            article = entry.attributes.get("printed_article", article)
        return Word.of(self.form.replace("{word}", text), article, text)

    def content(self) -> list[object]:
        """Return words and attributes for the digest."""
        return [self.form, *([e.word, dict(e.attributes)] for e in self.entries)]


def read_slot(data: LocatedMap, key: str, beside: Path) -> SlotWords:
    """Read ``key: {list: NAME-or-path, where: {attribute: value}, form: "the {word}"}``.

    ``list`` may name several lists; ``{list: NAME}`` in ``where`` and ``combine`` then selects the entries of one of
    them. ``where: {word: [...]}`` selects words by name.

    Raises:
        DataFileError: a key is unknown or has a wrong value, a list is missing, or no word is left.
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
        for entry in _entries_of(name, beside, spec):
            if entry.word in entries:
                raise spec.error_at("list", f"{brief(entry.word)} is in two of the lists of {what}")
            if entry.matches(where):
                entries[entry.word] = entry
    if not entries:
        raise spec.error_at("", f"{what} is empty: no word of the list has {brief(where)}")
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


def _entries_of(name: str, beside: Path, spec: LocatedMap) -> list[WordEntry]:
    try:
        words = load_wordlist(name, beside)
    except (SettingError, UnknownNameError) as error:
        raise spec.error_at("list", f"{error}") from None
    return [replace(entry, attributes={**entry.attributes, "list": words.name}) for entry in words.entries]


def read_template(text: object, file: str, line: int, slots: set[str], blank: bool = False) -> tuple[Piece, ...]:
    """Parse a template and check that it uses exactly these slots, and ``{blank}`` once if ``blank``.

    Raises:
        DataFileError: it does not.
    """
    if not isinstance(text, str) or not text.strip():
        raise DataFileError(f"{file}:{line}: expected a template (a text with slots in braces), got {brief(text)}")
    pieces = parse_template(text)
    unknown, missing = slots_of(pieces) - slots, slots - slots_of(pieces)
    fixed = "".join(piece.text for piece in pieces)
    if unknown or missing or "{" in fixed or "}" in fixed:
        wanted = ", ".join(f"{{{slot}}}" for slot in sorted(slots))
        raise DataFileError(f"{file}:{line}: template {brief(text)} should use the slots {wanted} and no other")
    blanks = sum(piece.slot == BLANK for piece in pieces)
    if blanks != int(blank):
        raise DataFileError(
            f"{file}:{line}: template {brief(text)} should have {'one' if blank else 'no'} {{blank}}, has {blanks}"
        )
    return pieces


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


def read_slot_with_share(data: LocatedMap, name: str, beside: Path) -> tuple[SlotWords, str]:
    """Read a slot whose words have a share, and ``share``, the name of that attribute.

    Raises:
        DataFileError: a word has no number there.
    """
    slot, share = read_slot(data, name, beside), take(data, "share", str, "the suite")
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
