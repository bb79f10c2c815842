"""Shared by the families ``bios`` and ``probe``: labelled texts of a named data set or of a table of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from pytest_genderbias.datasets.biographies import GENDERS, LabelledTexts, read_biographies, read_labelled
from pytest_genderbias.datasets.files import column_names
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.suites.family import Option, text
from pytest_genderbias.suites.statistic import Options
from pytest_genderbias.text.plain_files import expand

#: Data sets with text, profession and gender.
BIOGRAPHIES = ("bias_in_bios", "wiki_career")


#: Options of a family that reads tables of the user.
COLUMNS: Mapping[str, Option] = {
    f"{part}_column": text(f"column of the {part} in a table of your own", part, display=True)
    for part in ("text", "label", "group")
}


def read_texts(
    name: str, options: Options, data: DataFolder, any_group: bool
) -> tuple[LabelledTexts, tuple[Path, ...]]:
    """Read all files of a data set, or a table; return the texts and the paths of the files.

    With several files, the file name is added to each id.

    Args:
        name: One of :data:`BIOGRAPHIES`, or the path of a table.
        options: The columns of a table.
        data: The folder of the data sets.
        any_group: As in :func:`read_table`.

    Raises:
        MissingDataError: the data set is missing.
        DataFileError: as :func:`read_table`.
    """
    paths = data.find_all(name) if name in BIOGRAPHIES else (expand(name),)
    tables = [read_table(path, options, any_group) for path in paths]
    if len(tables) == 1:
        return tables[0], paths
    ids = tuple(f"{path.name}:{id_}" for path, table in zip(paths, tables, strict=True) for id_ in table.ids)
    columns = zip(*((table.texts, table.labels, table.groups, table.names) for table in tables), strict=True)
    texts, labels, groups, names = (tuple(chain.from_iterable(column)) for column in columns)
    return LabelledTexts(ids, texts, labels, groups, names), paths


def read_table(path: Path, options: Options, any_group: bool) -> LabelledTexts:
    """Read a table with the columns in the options, or a table of biographies.

    Args:
        path: The table.
        options: The columns of the table.
        any_group: Whether other groups than genders are allowed. F, M, female and male, in any case, are genders either
            way.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.datasets.biographies.read_labelled`.
    """
    columns = options["text_column"], options["label_column"], options["group_column"]
    present = column_names(path)
    if "profession" in present and not set(columns) <= set(present):
        return read_biographies(path)
    if not any_group:
        return read_labelled(path, *columns)
    table = read_labelled(path, *columns, groups=None)
    return replace(table, groups=tuple(GENDERS.get(group.lower(), group) for group in table.groups))
