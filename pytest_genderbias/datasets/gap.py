"""GAP (Webster et al. 2018): ambiguous pronouns in Wikipedia, each with two names as candidate antecedents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_genderbias.datasets.files import Row, read_rows, refuse_repeats
from pytest_genderbias.datasets.mentions import Span, gender_of_pronoun, words_of
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.printable import brief

_COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref")


@dataclass(frozen=True)
class GapExample:
    """One example. ``candidates`` are the spans of the names A and B; ``labels`` whether the pronoun refers to each."""

    id: str
    text: str
    pronoun: Span
    gender: str
    candidates: tuple[Span, Span]
    labels: tuple[bool, bool]


def read_gap(path: Path) -> tuple[GapExample, ...]:
    """Read a GAP file (``.tsv`` or ``.tsv.gz``).

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an offset that is not a number, or not
            the position of its word; an unknown pronoun; a label other than TRUE and FALSE; a duplicate id.
    """
    rows = list(read_rows(path, _COLUMNS))
    refuse_repeats(path, ((row.line, row.cells["ID"]) for row in rows))
    return tuple(_read_example(row) for row in rows)


def _read_example(row: Row) -> GapExample:
    text = row.cells["Text"]
    pronoun, a, b = (_read_span(row, text, column) for column in ("Pronoun", "A", "B"))
    gender = gender_of_pronoun(words_of(text, pronoun))
    if gender is None:
        raise row.error(f"expected a third-person pronoun in column 'Pronoun', got {brief(row.cells['Pronoun'])}")
    labels = (_read_label(row, "A-coref"), _read_label(row, "B-coref"))
    return GapExample(row.text("ID"), text, pronoun, gender, (a, b), labels)


def _read_span(row: Row, text: str, column: str) -> Span:
    word, offset = row.text(column), row.text(f"{column}-offset")
    start = int(offset) if re.fullmatch(r"[0-9]{1,18}", offset) else -1
    if start < 0 or normal_form(text[start : start + len(word)]) != normal_form(word):
        got = repr(text[start : start + len(word)]) if start >= 0 else "no such character"
        raise row.error(f"expected {brief(word)} ({column}) at character {offset} of the text, got {got}")
    return start, start + len(word)


def _read_label(row: Row, column: str) -> bool:
    label = row.text(column).upper()
    if label not in ("TRUE", "FALSE"):
        raise row.error(f"expected TRUE or FALSE in column {brief(column)}, got {brief(row.cells[column])}")
    return label == "TRUE"
