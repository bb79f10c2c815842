"""Check a folder of data sets: find each data set, and read it as the suite that needs it would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_genderbias.datasets.folder import DataFolder, MissingDataError, bbq_categories, known_data_sets
from pytest_genderbias.errors import BiasError, DataFileError
from pytest_genderbias.measurement.fit import cases_of
from pytest_genderbias.suites.suite import load_suite
from pytest_genderbias.text.columns import columns, paragraph

_WIDTH = 100


def has_data_sets(folder: Path) -> bool:
    """Return whether a folder holds a file of any data set."""
    return any(_splits(DataFolder(folder), name) for name in known_data_sets())


def describe_data(folder: Path) -> Iterator[str]:
    """Yield which data sets a folder holds, with how many cases a suite makes of them, and which it lacks.

    Raises:
        DataFileError: a data set is malformed; the message names each one that is.
    """
    data = DataFolder(folder)
    there = {name: splits for name in known_data_sets() if (splits := _splits(data, name))}
    troubles: list[str] = []
    rows = [(name, ", ".join(splits), _read(folder, name, splits, troubles)) for name, splits in there.items()]
    if troubles:
        raise DataFileError("; ".join(troubles))
    yield f"a folder with {len(there)} of {len(known_data_sets())} data sets"
    yield columns([("data set", "splits", "read by"), *rows], _WIDTH)
    if missing := [name for name in known_data_sets() if name not in there]:
        yield paragraph(
            f"not there: {', '.join(missing)} (docs/reference/data.md says where to get them)", _WIDTH, "    ", "  "
        )


def _splits(data: DataFolder, name: str) -> list[str]:
    """Return the splits of a data set that are there."""
    there = []
    for split in known_data_sets()[name].splits:
        try:
            data.locate(name, split)
            there.append(split)
        except MissingDataError:
            continue
    return there


def _read(folder: Path, name: str, splits: Sequence[str], troubles: list[str]) -> str:
    """Return what a suite makes of a data set; what is wrong with it is added to the troubles."""
    read_by = known_data_sets()[name].read_by
    suite, options, each = str(read_by["suite"]), read_by.get("options", {}), read_by.get("each")
    choices = [{each: split} for split in splits if each and split in bbq_categories()]
    try:
        counts = [cases_of(load_suite(suite), folder, {**options, **choice}) for choice in choices or [{}]]
    except BiasError as error:
        troubles.append(str(error))
        return ""
    known = [cases.n_cases for cases in counts if cases is not None]
    return f"{suite}: {sum(known):,} cases" if known else suite
