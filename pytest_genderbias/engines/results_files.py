"""Results of other tools as a model, ``results:FILE``, and their answers to questions with options, ``answers:FILE``.

A file is a table (CSV, TSV, JSON lines, Parquet), as the samples that lm-evaluation-harness logs, or JSON: a list of
rows, a log of Inspect (also ``.eval``), or the output of promptfoo or deepeval. ``FILE#NUMBER`` takes the rows of one
restart, counted from 0.
"""

from __future__ import annotations

import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from pytest_genderbias.datasets.corpora import corpus_sha256
from pytest_genderbias.datasets.files import LinesById, column_names, read_json, read_objects, read_rows
from pytest_genderbias.datasets.item_results import Results, cell, keys_of
from pytest_genderbias.errors import DataFileError, ModelError, SettingError, installing
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import CHAT_ANSWERS, RESULTS, Role
from pytest_genderbias.models.source import LoadSettings, ModelSource
from pytest_genderbias.models.spec import ModelSpec, safe_name
from pytest_genderbias.text.plain_files import MOST_RATIO, MOST_UNPACKED, open_regular, read_whole
from pytest_genderbias.text.printable import brief

_ZSTD = 93  #: a way of compression in archives
_NAME_AT = 26  #: where the header of a member has the lengths of its name and of more, before both
_MOST = 1 << 31  #: bytes of a JSON file
_ROLES = {
    "results": Role(RESULTS, "a file of results of another tool"),
    "answers": Role(CHAT_ANSWERS, "a file of another tool with a chat model's answers"),
}
_ROWS = ("samples", "results.results", "results", "testCases", "test_cases")  #: where a JSON file has its rows
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  #: of Inspect's scorers, with the numbers that Inspect gives them


def parse(spec: str) -> ModelSpec:
    """Parse ``results:FILE[#NUMBER]`` or ``answers:FILE``.

    Raises:
        ModelError: there is no such file.
    """
    kind, _, place = spec.partition(":")
    path = Path(place).expanduser()
    if not path.is_file():
        path = Path(place.rpartition("#")[0] or place).expanduser()
    if not path.is_file():
        raise ModelError(
            f"no file {brief(place)}; expected {kind}: with a table (.csv, .tsv, .jsonl, .parquet), a log of Inspect"
            " (.eval, .json), samples of lm-evaluation-harness (.jsonl), or the JSON of promptfoo or deepeval"
        )
    return ModelSpec(safe_name(path.name.partition(".")[0]), spec, kind, str(path.resolve()))


def inspect(spec: ModelSpec, settings: LoadSettings) -> ModelSource:
    """Return the role of a file, which is read when it is loaded."""
    return ModelSource(spec, _ROLES[spec.kind])


def load(source: ModelSource, settings: LoadSettings) -> Model:
    """Read a file of results, or of answers.

    Raises:
        DataFileError: as :func:`read_results` and :func:`read_answers`.
    """
    spec, path = source.spec, Path(source.spec.target)
    restart = spec.spec.rpartition("#")[2] if not spec.spec.endswith(path.name) and "#" in spec.spec else ""
    results = Results(path, read_results(path), restart)
    backend = results if spec.kind == "results" else read_answers(results)
    return Model(spec.name, spec.spec, source.role, corpus_sha256([path]), {"architecture": spec.kind}, backend)


def read_results(path: Path) -> list[Mapping[str, Any]]:
    """Return the rows of a file of results.

    Raises:
        DataFileError: the file cannot be read, has no rows where they are expected, or is a log of Inspect that did not
            end well.
    """
    if path.suffix == ".eval":
        return list(_archive(path))
    if path.suffix == ".json":
        return _document(path, read_json(path, read_whole(path, _MOST)))
    if ".jsonl" in path.suffixes:
        return [row.cells for row in read_objects(path)]
    return [row.cells for row in read_rows(path, column_names(path))]


def _document(path: Path, content: object) -> list[Mapping[str, Any]]:
    rows = content
    for key in _ROWS if isinstance(content, Mapping) else ():
        with suppress(KeyError):
            if isinstance(rows := cell(content, key), list):
                break
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise DataFileError(f"{path}: no rows; expected a list of objects, or an object with one in {', '.join(_ROWS)}")
    if isinstance(content, Mapping):
        _refuse_unfinished(path, content)
    return [_graded(row) for row in rows]


def _archive(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the samples of an archive of Inspect."""
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            most = max(MOST_UNPACKED, MOST_RATIO * path.stat().st_size)
            if sum(one.file_size for one in archive.infolist()) > most:
                raise DataFileError(f"{path}: cannot be read: expected at most {most:,} bytes after decompression")
            members = {one.filename: one for one in archive.infolist()}
            samples = [one for name, one in members.items() if name.startswith("samples/")]
            if "header.json" not in members or not samples:
                raise DataFileError(f"{path}: expected header.json and samples, as an evaluation that ended has")
            for member in (members["header.json"], *samples):
                content = read_json(path, _unpacked(path, archive, file, member).decode())
                if not isinstance(content, Mapping):
                    raise DataFileError(f"{path}: {member.filename} is no JSON object")
                if member in samples:
                    yield _graded(content)
                else:
                    _refuse_unfinished(path, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, UnicodeDecodeError, struct.error) as error:
        raise DataFileError(f"{path}: cannot be read as an archive of Inspect: {error}") from None


def _unpacked(path: Path, archive: zipfile.ZipFile, file: BinaryIO, member: zipfile.ZipInfo) -> bytes:
    """Return the content of a member of an archive. Inspect packs by Zstandard, which Python reads since 3.14."""
    if member.compress_type != _ZSTD or sys.version_info >= (3, 14):
        return archive.read(member)
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        raise SettingError(
            f"{path}: reading an archive of Inspect needs pyarrow, which is not installed; {installing('parquet')}, or"
            " write the log as JSON: inspect log convert --to json"
        ) from None
    file.seek(member.header_offset + _NAME_AT)
    file.seek(sum(struct.unpack("<HH", file.read(4))), os.SEEK_CUR)
    try:
        packed = file.read(member.compress_size)
        return bytes(pyarrow.decompress(packed, member.file_size, codec="zstd", asbytes=True))
    except (pyarrow.ArrowException, ValueError) as error:
        raise DataFileError(f"{path}: {member.filename} cannot be decompressed: {error}") from None


def _refuse_unfinished(path: Path, log: object) -> None:
    status = log.get("status", "success") if isinstance(log, Mapping) else None
    if status not in ("success", "completed"):
        raise DataFileError(
            f"{path}: the evaluation did not end well: its status is {brief(status)}, expected 'success'"
        )


def _graded(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row in which the grades of Inspect's scorers are numbers."""
    scores = row.get("scores")
    if not isinstance(scores, Mapping):
        return row
    numbered = {
        name: {**score, "value": _GRADES.get(str(score["value"]), score["value"])}
        if isinstance(score, Mapping) and "value" in score
        else score
        for name, score in scores.items()
    }
    return {**row, "scores": numbered}


def read_answers(results: Results) -> LinesById[str]:
    """Return the answers to questions with options, as a file of answers has them.

    A question is called ``CATEGORY-EXAMPLE_ID`` where a row has both, as those of BBQ do (inspect_evals calls the
    second ``source_id``), and as the tool calls it otherwise. The answer is the option that Inspect's scorer names by
    its letter, or that is the likeliest in the samples of lm-evaluation-harness. Whatever else these offer counts as
    the option that says the same.

    Raises:
        DataFileError: rows have no answer, or a question is there twice; with their number.
    """
    found: dict[str, str] = {}
    lacking, twice = [], []
    for number, row in enumerate(results.rows, start=1):
        try:
            name, answer = _question(row), _answer(row)
        except (KeyError, TypeError, ValueError, IndexError):
            lacking.append(f"row {number}")
            continue
        twice += [name] if name in found else []
        found[name] = answer
    wrong = [
        f"{len(some):,} {what}, first {some[0]}"
        for what, some in (("rows without a question and its answer", lacking), ("questions twice", twice))
        if some
    ]
    if wrong:
        raise DataFileError(f"{results.path}: of {len(results.rows):,} rows: {'; '.join(wrong)}")
    return LinesById(results.path, found)


def _question(row: Mapping[str, Any]) -> str:
    """Return the name of a question."""
    keys = {key.rpartition(".")[2]: key for key in keys_of(row)}
    number = keys.get("example_id", keys.get("source_id"))
    if "category" in keys and number is not None:
        return f"{cell(row, keys['category'])}-{cell(row, number)}"
    return str(row["id"] if "id" in row else row["doc_id"])


def _answer(row: Mapping[str, Any]) -> str:
    """Return the text of the option that was picked; empty for a reply that picks none."""
    if "filtered_resps" in row:
        return _likeliest(row["doc"], row["filtered_resps"], row["arguments"])
    letters = [str(score["answer"]) for score in row["scores"].values() if score.get("answer") is not None]
    letter = letters[0].strip().upper() if letters else ""
    return str(row["choices"][ord(letter) - ord("A")]) if len(letter) == 1 else ""


def _likeliest(doc: Mapping[str, Any], replies: Sequence[Any], asked: Mapping[str, Any]) -> str:
    """Return the likeliest option in a sample of lm-evaluation-harness. Its task of BBQ offers ten more texts for
    unknown, which are the unknown option of the question.
    """
    if isinstance(replies[0], str):
        return replies[0]
    numbers = [float(reply[0]) for reply in replies]
    best = numbers.index(max(numbers))
    picked = str(asked[f"gen_args_{best}"]["arg_1"]).strip()
    options = {name: str(doc[name]) for name in ("ans0", "ans1", "ans2") if name in doc}
    if not options or picked in options.values():
        return picked
    return next(options[name] for name, about in doc["answer_info"].items() if "unknown" in about)
