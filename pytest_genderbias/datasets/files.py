"""Readers of lines and table rows: JSON lines, CSV, TSV (each plain or gzip) and Parquet. Errors name file and line."""

from __future__ import annotations

import csv
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pytest_genderbias.errors import DataFileError, SettingError, installing
from pytest_genderbias.text.normal_form import normal_form
from pytest_genderbias.text.plain_files import MOST_RATIO, MOST_UNPACKED, not_utf8, open_regular, parse_json, raw_lines
from pytest_genderbias.text.printable import brief, brief_list

#: Receives the error of an unreadable line. If it does not raise, the line is skipped.
OnBroken = Callable[[DataFileError], object]
LineT = TypeVar("LineT")

_ESCAPED, _HALF = re.compile(r"\\u[dD]"), re.compile("[\ud800-\udfff]")  #: Lone surrogates, which UTF-8 cannot encode.
_LARGEST_FIELD = min(sys.maxsize, 2**31 - 1)  # a C long, which has 32 bits on some systems


class Row(NamedTuple):
    """A row of a table: its line, its cells by column, and the file that it is from."""

    line: int
    cells: dict[str, Any]
    path: Path

    def text(self, column: str) -> str:
        """Return the text of a cell, without white space around it.

        Raises:
            DataFileError: the cell is empty or not a text.

        >>> Row(3, {"sentence": " He sings. "}, Path("a.tsv")).text("sentence")
        'He sings.'
        """
        value = self.cells[column]
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"expected a text in column {brief(column)}, got {brief(value)}")
        return value.strip()

    def name(self, column: str) -> str:
        """Return a label, a group or an id: a cell that is a text or a whole number, as text in its normal form.

        Raises:
            DataFileError: the cell is neither.

        >>> Row(3, {"label": 7}, Path("a.jsonl")).name("label")
        '7'
        """
        value = self.cells[column]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return normal_form(self.text(column)).strip()

    def error(self, message: str) -> DataFileError:
        """Return the error of something wrong in the row, which names file and line."""
        return DataFileError(f"{place(self.path, self.line)}: {message}")


@dataclass(frozen=True)
class LinesById(Generic[LineT]):
    """What a file says of each case of a data set, by the id of the case. It may hold other cases, too."""

    path: Path
    lines: Mapping[str, LineT]

    def of(self, ids: Sequence[str], what: str, cases: str) -> list[LineT]:
        """Return what it says of some cases, in their order.

        Args:
            ids: of the cases.
            what: what it should have of each, for messages: "a line".
            cases: the cases, in the plural, for messages.

        Raises:
            DataFileError: it lacks one.
        """
        missing = [name for name in ids if name not in self.lines]
        if missing:
            raise DataFileError(
                f"{self.path}: expected {what} for each of {len(ids)} {cases}, got none for {len(missing)} of them, the"
                f" first being {brief(missing[0])}"
            )
        return [self.lines[name] for name in ids]


def refuse(error: DataFileError) -> None:
    """Raise the error of an unreadable line; the default of ``on_broken``."""
    raise error from None


def read_lines(path: Path, on_broken: OnBroken = refuse) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a UTF-8 file, each with its number from 1 and without its line end.

    A file whose name ends in ``.gz`` is decompressed; a byte order mark is dropped. ``on_broken`` receives the error of
    a line that is not UTF-8, and by default raises it.

    Raises:
        DataFileError: at the first line, if the file is missing or unreadable; later, if the gzip file is truncated or
            damaged, or a line is not UTF-8.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.txt")
    ...     _ = path.write_bytes(b"one\r\ntwo")
    ...     list(read_lines(path))
    [(1, 'one'), (2, 'two')]
    """
    for number, line in raw_lines(path):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            on_broken(not_utf8(path, error, number))
            continue
        yield number, text.removesuffix("\n").removesuffix("\r")


def read_rows(path: Path, columns: Sequence[str], optional: Sequence[str] = ()) -> Iterator[Row]:
    r"""Yield the rows of a table, with the requested columns only.

    The suffix of the file is its format: ``.jsonl``, ``.csv``, ``.tsv`` (each also with ``.gz``) or ``.parquet``.
    A TSV file has no quoting: a cell contains no tab and no line end, and quotation marks are text, as in GAP. Cells of
    CSV and TSV are strings; cells of JSON lines and Parquet keep their types. Empty lines are skipped. The line is the
    one on which the row begins; in Parquet, which has no lines, it is the number of the row from 1.

    Names of columns are matched in their normal form (:mod:`~pytest_genderbias.text.normal_form`), without white space
    around them.

    Args:
        path: The file.
        columns: The required columns of every row.
        optional: Columns that a row may have.

    Raises:
        DataFileError: as :func:`read_lines`; an unknown format; a missing column; a row with too many or too few cells,
            or that is not a JSON object; a file without rows.
        SettingError: a Parquet file, but pyarrow, which the extra ``parquet`` installs, is missing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "bios.csv")
    ...     _ = path.write_text('text,job\n"Ann, born 1950, paints.",painter\n')
    ...     [row.cells for row in read_rows(path, ["text", "job"], optional=["name"])]
    [{'text': 'Ann, born 1950, paints.', 'job': 'painter'}]
    """
    empty = True
    wanted = (*columns, *optional)
    for line, cells, _ in _reader_of(path)(path, columns):
        empty = False
        spelled = _spellings(wanted, cells)
        yield Row(line, {column: cells[spelled[column]] for column in wanted if column in spelled}, path)
    if empty:
        raise DataFileError(f"{path}: the file has no rows")


def column_names(path: Path) -> tuple[str, ...]:
    """Return the columns of the first row of a table, to distinguish the published forms of a data set.

    Raises:
        DataFileError: as :func:`read_rows`.
    """
    for row in _reader_of(path)(path, ()):
        return tuple(normal_form(name).strip() for name in row.cells)
    raise DataFileError(f"{path}: the file has no rows")


def refuse_repeats(path: Path, ids: Iterable[tuple[int, str]], what: str = "id") -> None:
    """Raise an error if a name occurs twice.

    Args:
        path: The file, for the message.
        ids: The line and the name of each row.
        what: What the name is, for the message.

    Raises:
        DataFileError: a name occurs twice; the message names both lines.

    >>> refuse_repeats(Path("a.tsv"), [(2, "x"), (3, "y"), (4, "x")])
    Traceback (most recent call last):
    ...
    pytest_genderbias.errors.DataFileError: a.tsv:4: duplicate id 'x' (first on line 2); expected each id once
    """
    first: dict[str, int] = {}
    for line, name in ids:
        if name in first:
            raise DataFileError(
                f"{place(path, line)}: duplicate {what} {brief(name)} (first on line {first[name]}); expected each"
                f" {what} once"
            )
        first[name] = line


def place(path: Path, line: int) -> str:
    """Return ``FILE:LINE``, with which a message about a line begins."""
    return f"{path}:{line}"


def _reader_of(path: Path) -> Callable[[Path, Sequence[str]], Iterator[Row]]:
    name = path.name.lower()
    readers = {".jsonl": read_objects, ".csv": _csv_rows, ".tsv": _tsv_rows, ".parquet": _parquet_rows}
    suffix = Path(name.removesuffix(".gz")).suffix
    if suffix not in readers or name.endswith(".parquet.gz"):
        raise DataFileError(
            f"{path}: expected a table whose name ends in .jsonl, .csv, .tsv (each also with .gz) or .parquet, "
            f"got {brief(path.suffix)}"
        )
    return readers[suffix]


def read_objects(path: Path, columns: Sequence[str] = (), on_broken: OnBroken = refuse) -> Iterator[Row]:
    """Yield the objects of a JSON lines file with all their keys; otherwise as :func:`read_rows`.

    ``on_broken`` receives the error of an invalid line, as in :func:`read_lines`.
    """
    for number, text in read_lines(path, on_broken):
        if not text.strip():
            continue
        try:
            row = _object(path, number, text)
            _require_columns(path, number, columns, row)
        except DataFileError as error:
            on_broken(error)
        else:
            yield Row(number, row, path)


def _object(path: Path, number: int, text: str) -> dict[str, Any]:
    row = read_json(path, text, number)
    if not isinstance(row, dict):
        raise DataFileError(f"{place(path, number)}: expected a JSON object, got {brief(text[:40])}")
    return row


def read_json(path: Path, text: str, line: int | None = None) -> Any:
    """Return the JSON value of a data set, whose texts can be encoded; ``line`` is the line that the text is, if it is
    one.

    Raises:
        DataFileError: as :func:`~pytest_genderbias.text.plain_files.parse_json`; a text has a lone surrogate.
    """
    value = parse_json(text, str(path), line, finite=False)
    if _ESCAPED.search(text) and _HALF.search(json.dumps(value, ensure_ascii=False)):
        raise DataFileError(
            f"{place(path, line or 1)}: a text has a lone surrogate (\\ud800 to \\udfff without its pair)"
        )
    return value


def _csv_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    return _rows_below_header(path, columns, csv_records(path))


def _tsv_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    records = ((number, text.split("\t")) for number, text in read_lines(path) if text.strip())
    return _rows_below_header(path, columns, records)


def csv_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of a CSV file as (line, cells), its header among them; empty lines are skipped.

    Raises:
        DataFileError: as :func:`read_lines`; the file is not valid CSV.
    """
    reader = csv.reader((text + "\n" for _, text in read_lines(path)), strict=True)
    while True:
        line = reader.line_num + 1
        limit = csv.field_size_limit(_LARGEST_FIELD)  # the limit is global to the process: restore it
        try:
            record = next(reader, None)
        except csv.Error as error:
            why = "a carriage return outside quotes; end lines with \\n" if "new-line" in str(error) else error
            raise DataFileError(f"{path}:{line}: not valid CSV: {why}") from None
        finally:
            csv.field_size_limit(limit)
        if record is None:
            return
        if record:
            yield line, record


def _rows_below_header(path: Path, columns: Sequence[str], records: Iterator[tuple[int, list[str]]]) -> Iterator[Row]:
    first, header = next(records, (1, []))
    if not header:
        return
    refuse_repeats(path, ((first, normal_form(column).strip()) for column in header), "column")
    _require_columns(path, first, columns, header)
    for line, cells in records:
        if len(cells) != len(header):
            raise DataFileError(f"{path}:{line}: expected {len(header)} cells as in line {first}, got {len(cells)}")
        yield Row(line, dict(zip(header, cells, strict=True)), path)


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise SettingError(
            f"{path}: reading Parquet needs pyarrow, which is not installed; {installing('parquet')}"
        ) from None
    try:
        with open_regular(path) as stream, parquet.ParquetFile(stream) as file:
            _require_columns(path, 1, columns, file.schema_arrow.names)
            yield from (Row(number, cells, path) for number, cells in enumerate(_parquet_cells(path, file), start=1))
    except (OSError, ValueError, OverflowError, importlib.import_module("pyarrow").ArrowException) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"{path}: cannot be read: {error}") from None


def _parquet_cells(path: Path, file: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file, as long as they are not too large for it. pyarrow has no types."""
    most, count = max(MOST_UNPACKED, MOST_RATIO * path.stat().st_size), 0
    for batch in file.iter_batches():
        count += batch.nbytes
        if count > most:
            raise DataFileError(
                f"{path}: cannot be read: expected at most {most:,} bytes after decompression, got more"
            )
        yield from batch.to_pylist()


def _require_columns(path: Path, line: int, columns: Sequence[str], present: Iterable[str]) -> None:
    present = list(present)
    spelled = _spellings(columns, present)
    missing = [column for column in columns if column not in spelled]
    if missing:
        is_uncut = len(present) == 1 and re.search(r"[,;|\t]", present[0])
        hint = "; write commas between the columns of .csv, tabs of .tsv" if is_uncut else ""
        raise DataFileError(
            f"{path}:{line}: no column {', '.join(map(brief, missing))}; the columns are {brief_list(present)}{hint}"
        )


def _spellings(columns: Iterable[str], present: Iterable[str]) -> dict[str, str]:
    """Return how a table spells each of some columns that it has."""
    names = present if isinstance(present, dict) else dict.fromkeys(present)
    spelled = {column: column for column in columns if column in names}
    if len(spelled) < len(list(columns)):
        by_form = {normal_form(name).strip(): name for name in reversed(names)}
        for column in columns:
            if column not in spelled and (form := normal_form(column).strip()) in by_form:
                spelled[column] = by_form[form]
    return spelled
