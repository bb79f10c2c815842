"""Pairs of sentences with a gold label or score: SNLI and MultiNLI, the STS Benchmark, and the templates that
webster2020 derives from its sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_genderbias.datasets.files import Row, column_names, place, read_lines, read_rows
from pytest_genderbias.datasets.mentions import pronoun_genders
from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief
from pytest_genderbias.text.wordlist import load_wordlist

#: The labels, in the order of their numbers 0, 1, 2 in the hub's copies.
LABELS = ("entailment", "neutral", "contradiction")
_BY_VALUE = {label: label for label in LABELS} | {str(number): label for number, label in enumerate(LABELS)}
_UNLABELLED = ("-", "-1")
_OFFICIAL = ("sentence1", "sentence2", "gold_label")
_PLAIN = ("premise", "hypothesis", "label")
_COLUMNS = ("sentence1", "sentence2")
_OFFICIAL_NAME = re.compile(r"sts-\w+\.csv(\.gz)?", re.IGNORECASE)
_OFFICIAL_COLUMNS = ("genre", "file", "year", "number", "score", *_COLUMNS)
_PERSON = re.compile(r"A (?:man|woman)\b")
_WORD = re.compile(r"\w+(?:[-']\w+)*")


def read_inference(path: Path) -> list[tuple[str, str, str]]:
    """Read pairs of premise and hypothesis, each with its label.

    The columns are ``sentence1``, ``sentence2``, ``gold_label`` as in the official release, or ``premise``,
    ``hypothesis``, ``label``. A label is one of :data:`LABELS` or its number. A pair without agreement of its
    annotators (``-`` or -1) is left out.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an unknown label; no pair with a label.
    """
    columns = _OFFICIAL if "gold_label" in column_names(path) else _PLAIN
    premise, hypothesis, gold = columns
    pairs, unlabelled = [], 0
    for row in read_rows(path, columns):
        value = str(row.cells[gold])
        if value in _UNLABELLED:
            unlabelled += 1
            continue
        if value not in _BY_VALUE:
            raise row.error(
                f"expected one of {', '.join(LABELS)}, 0, 1, 2, or - for none, in column {brief(gold)}, got"
                f" {brief(row.cells[gold])}"
            )
        pairs.append((row.text(premise), row.text(hypothesis), _BY_VALUE[value]))
    if not pairs:
        raise DataFileError(f"{path}: none of the {unlabelled} pairs has a label")
    return pairs


def read_similarity(path: Path) -> list[tuple[str, str, float]]:
    """Read pairs of sentences, each with its gold similarity: 0 (nothing in common) to 5 (the same meaning).

    The file is one of the official release (``sts-*.csv``: separated by tabs, without header, score and sentences in
    columns 5 to 7), or a table with the columns ``sentence1``, ``sentence2`` and ``score``.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; a score that is not a number from 0 to 5.
    """
    return [(row.text("sentence1"), row.text("sentence2"), _score(row)) for row in _rows(path, (*_COLUMNS, "score"))]


def read_sentences(path: Path) -> tuple[str, ...]:
    """Read only the sentences, both of each pair, in file order. A file without scores, such as GLUE's test split,
    works.

    Raises:
        DataFileError: as :func:`read_similarity`.
    """
    return tuple(row.text(column) for row in _rows(path, _COLUMNS) for column in _COLUMNS)


def sts_templates(sentences: Iterable[str]) -> tuple[str, ...]:
    """Return templates from the sentences that start with *A man* or *A woman* (webster2020, section 3).

    The first two words become ``{a:person} {person}``. Sentences with another gendered word (:func:`gendered_words`)
    are left out. Templates are unique, in the order of the sentences.

    >>> sts_templates(["A man is walking.", "A woman is walking.", "A man and his dog run.", "A mandrill eats."])
    ('{a:person} {person} is walking.',)
    """
    gendered = gendered_words()
    templates: dict[str, None] = {}
    for sentence in sentences:
        start = _PERSON.match(sentence)
        if start is None or "{" in sentence or "}" in sentence:
            continue
        rest = sentence[start.end() :]
        if not gendered & _words_of(rest):
            templates["{a:person} {person}" + rest] = None
    return tuple(templates)


def gendered_words() -> frozenset[str]:
    """Return the gendered words of the packaged lists zhao2018-pairs, lu2018-pairs and pronouns, in lower case."""
    pairs = [entry.word for name in ("zhao2018-pairs", "lu2018-pairs") for entry in load_wordlist(name).entries]
    forms = [form for form, gender in pronoun_genders().items() if gender in ("male", "female")]
    return frozenset(normal_form(word).lower() for word in (*pairs, *forms))


def _words_of(text: str) -> set[str]:
    """Return the words of a text in lower case, whole (ma'am, sister-in-law) and in parts (man's, ex-wife)."""
    whole = _WORD.findall(normal_form(text).lower())
    return {*whole, *(part for word in whole for part in re.split(r"[-']", word))}


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    return _official_rows(path) if _OFFICIAL_NAME.fullmatch(path.name) else read_rows(path, columns)


def _official_rows(path: Path) -> Iterator[Row]:
    line = 0
    for line, text in read_lines(path):
        cells = text.split("\t")
        if len(cells) < len(_OFFICIAL_COLUMNS):  # more is right: some rows name their sources
            raise DataFileError(
                f"{place(path, line)}: expected at least {len(_OFFICIAL_COLUMNS)} cells separated by tabs "
                f"({', '.join(_OFFICIAL_COLUMNS)}), got {len(cells)}"
            )
        yield Row(line, dict(zip(_OFFICIAL_COLUMNS, cells, strict=False)), path)
    if not line:
        raise DataFileError(f"{path}: the file has no rows")


def _score(row: Row) -> float:
    try:
        score = float(row.cells["score"])
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not 0 <= score <= 5:
        raise row.error(f"expected a score from 0 to 5, got {brief(row.cells['score'])}")
    return score
