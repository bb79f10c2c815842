"""The records of all measurements as one table: CSV or Parquet, by the ending of the file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from pytest_genderbias.escaping import printable
from pytest_genderbias.folders import write_whole
from pytest_genderbias.measurement.plain_data import as_plain
from pytest_genderbias.reports.fields import Cell
from pytest_genderbias.reports.run_report import RunReport
from pytest_genderbias.text.printable import cut, json_text

PARQUET = ".parquet"
_OURS = ("suite", "model", "rank")
_FORMULA = "=+-@＝＋－＠\t\r\n"  #: with which a spreadsheet begins a formula
_LONGEST = 10_000  #: characters of a cell
_LARGEST = 2**63


def write_records(report: RunReport, path: Path) -> None:
    """Write the records of a run: a row a record, the worst of each measurement first.

    The first columns are ``suite``, ``model`` and ``rank``, the place of the record in its measurement, from 1. The
    others are those of the suites, in the order in which they first come. A mapping in a record has a column for each
    key, as ``counts.female``. A column of a suite that is called like one of ours begins with ``record.``. Texts in CSV
    that a spreadsheet would compute begin with an apostrophe.

    Raises:
        OSError: the file cannot be written.
    """
    rows = list(_rows(report))
    columns = list(dict.fromkeys([*_OURS, *(name for row in rows for name in row)]))
    write = _as_parquet if path.suffix.lower() == PARQUET else as_csv
    write_whole(path, write(columns, rows))


def _rows(report: RunReport) -> Iterator[dict[str, Cell]]:
    for measurement in report.measurements:
        for rank, record in enumerate(measurement.records, start=1):
            row: dict[str, Cell] = {
                "suite": cell_text(measurement.suite),
                "model": cell_text(measurement.model),
                "rank": rank,
            }
            for name, value in _flat("", record):
                row[f"record.{name}" if name in _OURS else name] = value
            yield row


def _flat(prefix: str, record: Mapping[str, object]) -> Iterator[tuple[str, Cell]]:
    """Yield the cells of a record; those of a mapping in it with the names of both."""
    for key, value in record.items():
        name = f"{prefix}{cell_text(str(key))}"
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.", value)
        else:
            yield name, _cell(as_plain(value, finite=True))


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return cell_text(value if isinstance(value, str) else json_text(value))


def cell_text(text: str) -> str:
    """Return a text as a cell of a file holds it: cut, and without characters that a terminal would obey."""
    return printable(cut(text, _LONGEST), keep="\n")


# CSV.


def as_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> bytes:
    """Return a table as CSV. Texts that a spreadsheet would compute begin with an apostrophe; a missing cell is
    empty.
    """
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_no_formula(column) for column in columns])
    for row in rows:
        writer.writerow([_no_formula(row.get(column)) for column in columns])
    return stream.getvalue().encode()


def _no_formula(value: Cell) -> Cell:
    """Return a cell that no spreadsheet computes.

    >>> _no_formula("=1+1"), _no_formula(-0.5), _no_formula(" @x")
    ("'=1+1", -0.5, "' @x")
    """
    if isinstance(value, str) and (value[:1] in tuple(_FORMULA) or value.lstrip()[:1] in tuple(_FORMULA)):
        return f"'{value}"
    return value


# Parquet.


def _as_parquet(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]]) -> bytes:
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")  # they have no types
    table = pyarrow.table({column: _column([row.get(column) for row in rows]) for column in columns})
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


def _column(values: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells of a column as one type: truth values, whole numbers, numbers, or else texts."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in present):
        return values
    if any(isinstance(value, (bool, str)) for value in present):
        return [value if value is None or isinstance(value, str) else str(value) for value in values]
    if all(isinstance(value, int) and abs(value) < _LARGEST for value in present):
        return values
    return [None if value is None else _float(value) for value in values]


def _float(value: Cell) -> float:
    try:
        return float(value or 0.0)
    except OverflowError:
        return math.inf
