"""The labelled texts that the families ``bios`` and ``probe`` read: data sets by their name, and tables of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_genderbias.datasets.biographies import GENDERS, LabelledTexts, read_biographies, read_labelled
from pytest_genderbias.datasets.files import column_names
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.suites.options import Option, text

#: Data sets with text, profession and gender.
BIOGRAPHIES = ("bias_in_bios", "wiki_career")

#: Options of a family that reads tables of the user's own.
COLUMNS: Mapping[str, Option] = {
    f"{part}_column": text(f"column of the {part} in a table of one's own", part, display=True)
    for part in ("text", "label", "group")
}


def read_texts(
    name: str, options: Mapping[str, Any], data: DataFolder, any_group: bool
) -> tuple[LabelledTexts, tuple[Path, ...]]:
    """Read a data set, all files that it is in, or a table, and return the texts and the files.

    The ids are those of the rows; where there are several files, the file's name stands before them.

    Args:
        name: One of :data:`BIOGRAPHIES`, or the path of a table.
        options: Those of :data:`COLUMNS`, with their values.
        data: Where data sets are.
        any_group: As in :func:`read_table`.

    Raises:
        MissingDataError: the data set is not there.
        DataFileError: as :func:`read_table`.
    """
    paths = data.find_all(name) if name in BIOGRAPHIES else (Path(name).expanduser(),)
    tables = [read_table(path, options, any_group) for path in paths]
    if len(tables) == 1:
        return tables[0], paths
    ids = tuple(f"{path.name}:{id_}" for path, table in zip(paths, tables, strict=True) for id_ in table.ids)
    columns = zip(*((table.texts, table.labels, table.groups, table.names) for table in tables), strict=True)
    texts, labels, groups, names = (tuple(chain.from_iterable(column)) for column in columns)
    return LabelledTexts(ids, texts, labels, groups, names), paths


def read_table(path: Path, options: Mapping[str, Any], any_group: bool) -> LabelledTexts:
    """Read a labelled table: with the columns that the options name, or one of biographies.

    Args:
        path: The table.
        options: Those of :data:`COLUMNS`, with their values.
        any_group: Whether groups may be other than genders; F, M, female and male, in any case, are these all the same.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.biographies.read_labelled`.
    """
    text_column, label_column, group_column = columns = [options[column] for column in COLUMNS]
    present = column_names(path)
    if "profession" in present and not set(columns) <= set(present):
        return read_biographies(path)
    if not any_group:
        return read_labelled(path, text_column, label_column, group_column)
    found = read_labelled(path, text_column, label_column, group_column, groups=None)
    return replace(found, groups=tuple(GENDERS.get(group.lower(), group) for group in found.groups))
