"""Word lists: YAML files of words with attributes, validated on load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_genderbias.errors import DataFileError, UnknownNameError
from pytest_genderbias.text import packaged
from pytest_genderbias.text.located_yaml import MOST_BYTES, parse_map, plain
from pytest_genderbias.text.plain_files import read_whole
from pytest_genderbias.text.printable import brief, expected_instead
from pytest_genderbias.text.schema import (
    LocatedList,
    LocatedMap,
    Mismatch,
    Text,
    YamlValue,
    fit,
    refuse_unknown,
    take,
    take_texts,
)

#: The attributes that every list may use, and their types. A list declares other attributes under ``attributes``.
STANDARD_ATTRIBUTES: dict[str, Any] = {
    "word": str,
    "group": str | list[str],
    "partner": str | list[str],
    "article": str,
    "noun": bool,
    "number": str,
    "women_share": float,
    "class": str | list[str],
    "count": int,
    "share": float,
    "printed": str,
    "printed_article": str,
    "split": str,
    "mass": bool,
    "forms": dict[str, Text],
}
#: The forms of a pronoun, which the list ``pronouns`` has.
PRONOUN_FORMS = ("nominative", "accusative", "possessive", "independent", "reflexive")
FORMS = "forms"  #: the attribute with the forms of a word by name, and the key of a list with rules for further forms
_HEAD = ("list", "title", "source", "licence", "language", "note", "attributes", FORMS)
_IN_RULE = re.compile(r"\{([\w.]+)\}")
_BODIES = ("entries", "columns", "rows", "groups", "pairs")


@dataclass(frozen=True)
class WordEntry:
    """One word with its attributes, and its line in the file."""

    word: str
    attributes: Mapping[str, YamlValue]
    line: int

    def matches(self, where: Mapping[str, object]) -> bool:
        """Return whether each attribute in ``where`` (or ``word``) has the wanted value, or one of the wanted
        values.
        """
        return all(
            _overlap(self.word if key == "word" else self.attributes.get(key), wanted) for key, wanted in where.items()
        )


def _overlap(value: object, wanted: object) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(v in wanted if isinstance(wanted, (list, tuple)) else v == wanted for v in values)


@dataclass(frozen=True)
class WordList:
    """A validated word list. ``entries`` are in file order. In a list of pairs, each word has a ``group`` and a
    ``partner``.
    """

    name: str
    title: str
    source: str
    licence: str
    language: str
    path: Path
    entries: tuple[WordEntry, ...]

    def select(self, where: Mapping[str, object] | None = None) -> tuple[WordEntry, ...]:
        """Return the entries whose attributes match ``where``."""
        return tuple(e for e in self.entries if e.matches(where or {}))


def load_wordlist(name: str, beside: Path | None = None) -> WordList:
    """Load a packaged word list by its name, or any word list by a path that ends in ``.yaml``.

    Args:
        name: The name or the path.
        beside: The folder that a relative path starts from. None: the working directory.

    Raises:
        UnknownNameError: no packaged list has that name.
        DataFileError: the file is invalid; the message names file, line and what was expected.
    """
    path = packaged.locate("wordlists", name, beside)
    if path is None:
        advice = f"; name a list of your own by its path (./{name}.yaml)"
        expected = expected_instead(name, packaged.names("wordlists"), "packaged lists:", advice)
        raise UnknownNameError(f"no word list {brief(name)}; {expected}")
    return _read(path, read_whole(path, MOST_BYTES))


@lru_cache(maxsize=128)
def _read(path: Path, text: str) -> WordList:
    """Read the text of a file, once: many suites share lists, and a changed file has another text."""
    data = parse_map(text, str(path))
    refuse_unknown(data, (*_HEAD, *_BODIES), "a word list")
    keys = ("list", "title", "source", "licence", "language")
    name, title, source, licence, language = (take(data, key, str, "the word list") for key in keys)
    if name != path.stem:
        raise data.error_at("list", f"'list' is {brief(name)}, expected the file's name {brief(path.stem)}")
    declared = take(data, "attributes", LocatedMap, "the word list", default={})
    present = tuple(key for key in _BODIES if key in data)
    readers = {("entries",): _entries, ("columns", "rows"): _table, ("groups", "pairs"): _pairs}
    if present not in readers:
        raise data.error_at(
            "",
            f"expected 'entries', or 'columns' with 'rows', or 'groups' with 'pairs'; "
            f"got {', '.join(present) or 'none of them'}",
        )
    entries = _with_further_forms(readers[present](data, frozenset(declared)), data)
    _refuse_repeats(entries, path)
    return WordList(name, title, source, licence, language, path, entries)


def _with_further_forms(entries: tuple[WordEntry, ...], data: LocatedMap) -> tuple[WordEntry, ...]:
    """Return entries with the forms that the rules of the list make of other forms of a word (``male.the: "le
    {male}"``), where it does not declare them itself and has the other form.
    """
    rules = take(data, FORMS, LocatedMap, "the word list", default={})
    if not rules:
        return entries
    for name, rule in rules.items():
        if not isinstance(rule, str) or len(_IN_RULE.findall(rule)) != 1:
            raise data[FORMS].error_at(name, f"expected a text with one form in braces, as {{male}}, got {brief(rule)}")

    def further(forms: Mapping[str, str]) -> dict[str, str]:
        made = {
            name: _IN_RULE.sub(lambda found: forms[found[1]], rule)
            for name, rule in rules.items()
            if name not in forms and _IN_RULE.findall(rule)[0] in forms
        }
        return {**forms, **made}

    return tuple(
        replace(entry, attributes={**entry.attributes, FORMS: further(entry.attributes[FORMS])})
        if FORMS in entry.attributes
        else entry
        for entry in entries
    )


def _entries(data: LocatedMap, declared: frozenset[str]) -> tuple[WordEntry, ...]:
    items = take(data, "entries", LocatedList, "the word list")
    return tuple(_entry(item, data.file, line, declared) for item, line in zip(items, items.lines, strict=True))


def _table(data: LocatedMap, declared: frozenset[str]) -> tuple[WordEntry, ...]:
    columns = take_texts(data, "columns", "the word list")
    if len(set(columns)) != len(columns):
        raise data.error_at("columns", f"duplicate column in {brief(columns)}; expected each once")
    rows = take(data, "rows", LocatedList, "the word list")
    entries = []
    for row, line in zip(rows, rows.lines, strict=True):
        if not isinstance(row, LocatedList) or len(row) != len(columns):
            got = len(row) if isinstance(row, LocatedList) else repr(row)
            raise DataFileError(
                f"{data.file}:{line}: expected a row of {len(columns)} values ({', '.join(columns)}), got {got}"
            )
        entries.append(_entry(dict(zip(columns, row, strict=True)), data.file, line, declared))
    return tuple(entries)


def _entry(item: object, file: str, line: int, declared: frozenset[str]) -> WordEntry:
    if isinstance(item, str):
        item = {"word": item}
    if not isinstance(item, dict) or not isinstance(item.get("word"), str) or not item["word"].strip():
        raise DataFileError(
            f"{file}:{line}: expected a word, or a mapping with 'word'; got {brief(item)}; put it in quotes if YAML"
            " reads it otherwise"
        )
    _check_attributes(item, file, line, declared)
    return WordEntry(item["word"], {k: plain(v) for k, v in item.items() if k != "word"}, line)


def _check_attributes(item: Mapping[str, object], file: str, line: int, declared: frozenset[str]) -> None:
    for key, value in item.items():
        if key in declared:
            continue
        if key not in STANDARD_ATTRIBUTES:
            raise DataFileError(
                f"{file}:{line}: unknown attribute {brief(key)}; expected one of"
                f" {', '.join(sorted(STANDARD_ATTRIBUTES))}, or declare it under 'attributes'"
            )
        try:
            fit(STANDARD_ATTRIBUTES[key], value)
        except Mismatch:
            raise DataFileError(f"{file}:{line}: attribute {brief(key)} cannot be {brief(value)}") from None


def _pairs(data: LocatedMap, declared: frozenset[str]) -> tuple[WordEntry, ...]:
    groups = list(take_texts(data, "groups", "the word list"))
    if len(set(groups)) != len(groups):
        raise data.error_at("groups", f"duplicate group in {brief(groups)}; expected each once")
    items = take(data, "pairs", LocatedList, "the word list")
    pairs = (_pair(item, groups, data.file, line, declared) for item, line in zip(items, items.lines, strict=True))
    return tuple(chain.from_iterable(pairs))


def _pair(item: object, groups: list[str], file: str, line: int, declared: frozenset[str]) -> list[WordEntry]:
    if isinstance(item, LocatedList) and len(item) == len(groups):
        item = dict(zip(groups, item, strict=True))
    if not isinstance(item, dict) or any(not item.get(g) for g in groups):
        raise DataFileError(
            f"{file}:{line}: unbalanced pair {brief(item)}; expected one word for each of {', '.join(groups)}"
        )
    sides = {g: list(item[g]) if isinstance(item[g], list) else [item[g]] for g in groups}
    if not all(isinstance(w, str) and w.strip() for words in sides.values() for w in words):
        raise DataFileError(
            f"{file}:{line}: expected words in {brief(item)}; put it in quotes if YAML reads it otherwise"
        )
    shared = {k: v for k, v in item.items() if k not in (*groups, "default", "by_pos")}
    _check_attributes(shared, file, line, declared)
    default, by_pos = (_choices(item, key, f"{file}:{line}") for key in ("default", "by_pos"))
    many = any(len(words) > 1 for words in sides.values())
    for word in [w for words in sides.values() for w in words] if many and len(groups) == 2 else []:
        other = next((words for words in sides.values() if word not in words), [])
        if len(other) > 1 and default.get(word) not in other:
            raise DataFileError(
                f"{file}:{line}: {brief(word)} has several partners ({', '.join(other)}); choose one with default:"
                f" {{{word}: ...}}"
            )
    entries = []
    for group, words in sides.items():
        partners = [w for g, ws in sides.items() if g != group for w in ws]
        for word in words:
            attributes: dict[str, object] = {k: plain(v) for k, v in shared.items()} | {"group": group}
            attributes["partner"] = default.get(word, partners[0]) if len(groups) == 2 else partners
            if word in by_pos:
                attributes["by_pos"] = plain(by_pos[word])
            entries.append(WordEntry(word, attributes, line))
    return entries


def _choices(item: Mapping[str, YamlValue], key: str, where: str) -> Mapping[str, YamlValue]:
    """Return ``default`` or ``by_pos`` of a pair: a mapping with a partner, or several, for each word."""
    choices = item.get(key, {})
    if not isinstance(choices, dict):
        raise DataFileError(f"{where}: expected a mapping from words to partners in {key!r}, got {brief(choices)}")
    return choices


def _refuse_repeats(entries: tuple[WordEntry, ...], path: Path) -> None:
    if not entries:
        raise DataFileError(f"{path}:1: the word list has no words; add entries, rows or pairs")
    seen: dict[str, WordEntry] = {}
    for entry in entries:
        if entry.word in seen:
            first = seen[entry.word]
            groups = first.attributes.get("group"), entry.attributes.get("group")
            where = f"in two groups, {groups[0]} and {groups[1]}" if groups[0] != groups[1] else "twice"
            raise DataFileError(
                f"{path}:{entry.line}: {brief(entry.word)} is listed {where} (first on line {first.line}); expected"
                " each word once. Put several partners or groups into one entry: {male: [him, his], female: her}"
            )
        seen[entry.word] = entry
