"""Texts with a label and a group: Bias in Bios, Wikipedia careers, and tables of the user."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pytest_genderbias.datasets.files import Row, column_names, read_rows, refuse_repeats
from pytest_genderbias.text.printable import brief

#: The group of each spelling of a gender; case is ignored.
GENDERS: Mapping[str, str] = {"f": "female", "female": "female", "m": "male", "male": "male"}
#: The same, with the numbers of the hub's copy of Bias in Bios. Use it for that copy only: other files swap the
#: numbers.
HUB_GENDERS: Mapping[str, str] = {**GENDERS, "0": "male", "1": "female"}
#: The 28 professions of Bias in Bios, in the order of their numbers in the hub's copy.
PROFESSIONS = (
    "accountant", "architect", "attorney", "chiropractor", "comedian", "composer", "dentist", "dietitian", "dj",
    "filmmaker", "interior_designer", "journalist", "model", "nurse", "painter", "paralegal", "pastor",
    "personal_trainer", "photographer", "physician", "poet", "professor", "psychologist", "rapper", "software_engineer",
    "surgeon", "teacher", "yoga_teacher",
)  # fmt: skip
_BY_NUMBER: Mapping[str, str] = {str(number): profession for number, profession in enumerate(PROFESSIONS)}


class LabelledTexts(NamedTuple):
    """Texts with labels and groups, as columns of equal length.

    Without a column ``id``, ``ids`` are the row numbers from 1. Without a column ``name``, ``names`` are empty texts.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    names: tuple[str, ...]


def read_biographies(path: Path) -> LabelledTexts:
    """Read biographies with profession and gender.

    The columns are ``hard_text``, ``profession`` and ``gender`` with numbers, as in the hub's copy of Bias in Bios, or
    ``text``, ``profession`` and ``gender`` (F, M, female, male), optionally with ``id`` and ``name``.

    Raises:
        DataFileError: as :func:`read_labelled`; an unknown number of a profession.
    """
    if "hard_text" in column_names(path):
        return read_labelled(path, "hard_text", "profession", "gender", HUB_GENDERS, _BY_NUMBER)
    return read_labelled(path, "text", "profession", "gender")


def read_labelled(
    path: Path,
    text: str = "text",
    label: str = "label",
    group: str = "group",
    groups: Mapping[str, str] | None = GENDERS,
    labels: Mapping[str, str] | None = None,
) -> LabelledTexts:
    """Read a table of labelled texts.

    Args:
        path: The table. It may also have the columns ``id`` (unique) and ``name`` (of the person).
        text: The column of the text.
        label: The column of the label: a text or a whole number.
        group: The column of the group.
        groups: Maps the cells of that column, in lower case, to groups. None: a cell is the group.
        labels: The same of the column of the label.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.files.read_rows`; an empty text; a label or group that is
            neither a text nor a whole number, or is not in ``labels`` or ``groups``; a duplicate id.
    """
    rows, lines = [], []
    for number, row in enumerate(read_rows(path, (text, label, group), optional=("id", "name")), start=1):
        name = row.cells.get("name")
        rows.append(
            (
                row.name("id") if "id" in row.cells else str(number),
                row.text(text),
                _mapped(row, label, labels),
                _mapped(row, group, groups),
                "" if name is None else str(name),
            )
        )
        lines.append(row.line)
    table = LabelledTexts(*zip(*rows, strict=True))
    refuse_repeats(path, zip(lines, table.ids, strict=True))
    return table


def _mapped(row: Row, column: str, names: Mapping[str, str] | None) -> str:
    value = row.name(column)
    if names is None:
        return value
    if value.lower() not in names:
        raise row.error(f"expected one of {', '.join(names)} in column {brief(column)}, got {brief(row.cells[column])}")
    return names[value.lower()]
