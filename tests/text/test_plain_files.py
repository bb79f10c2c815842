"""Files of others: what is opened, and how much of it is read."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from pytest_genderbias.datasets import files
from pytest_genderbias.datasets.corpora import Vocabulary, corpus_files, corpus_sha256, feed_corpus
from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.models.predictions import read_predictions
from pytest_genderbias.suites.cases import IntArray
from pytest_genderbias.suites.space import Axis, CaseSpace, product
from pytest_genderbias.text import plain_files
from pytest_genderbias.text.located_yaml import read_yaml
from pytest_genderbias.text.plain_files import expand, is_regular


def rows(path: Path, *columns: str) -> list[files.Row]:
    return list(files.read_rows(path, columns))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_a_pipe_in_place_of_a_table_does_not_wait(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataFileError, match="expected a file, got a pipe"):
        rows(tmp_path / name)
    with pytest.raises(DataFileError, match="expected a file, got a pipe"):
        read_predictions(tmp_path / name)


def test_a_device_in_place_of_a_table_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("/dev/zero")
    with pytest.raises(DataFileError, match="expected a file, got a device"):
        rows(tmp_path / "a.csv")


def test_a_gzip_bomb_is_read_up_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "MOST_UNPACKED", 100_000)
    bomb = gzip.compress(b'{"text": "a"}\n' * 40_000)
    for name in ("a.jsonl.gz", "a.txt.gz"):
        (tmp_path / name).write_bytes(bomb)
        with pytest.raises(
            DataFileError, match=rf"{name}: cannot be read: expected at most .* after decompression, got more"
        ):
            feed_corpus(tmp_path / name, Vocabulary())
    (tmp_path / "fine.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n' * 7_000))  # 98,000 bytes
    assert len(rows(tmp_path / "fine.jsonl.gz", "text")) == 7_000


def test_a_parquet_bomb_is_read_up_to_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"text": ["x" * 100] * 50_000}), tmp_path / "a.parquet")
    assert len(rows(tmp_path / "a.parquet", "text")) == 50_000
    monkeypatch.setattr(files, "MOST_UNPACKED", 100_000)
    with pytest.raises(DataFileError, match="after decompression, got more"):
        rows(tmp_path / "a.parquet", "text")


def test_a_line_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "MOST_LINE", 10)
    (tmp_path / "a.txt").write_bytes(b"123456789\n1234567890\n")
    with pytest.raises(DataFileError, match=r"a\.txt:2: expected a line of at most 10 bytes, got more"):
        list(files.read_lines(tmp_path / "a.txt"))


def test_a_corpus_that_is_not_utf8_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(DataFileError, match=r"a\.txt:3: not UTF-8: byte 0xe9 at position 4"):
        feed_corpus(tmp_path / "a.txt", Vocabulary())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[" * 65 + "]" * 65, "at most 64 mappings and lists inside each other"),
        ("[" * 100_000, "at most 64 mappings and lists inside each other"),
        ("9" * 5000, "a number of thousands of digits"),
        ('{"a": "\\ud800"}', "a text has a lone surrogate"),
        ('{"a": 1, "a": 2}', "expected every key once, got 'a' twice"),
        ('{"a": }', "not valid JSON: Expecting value at column 7"),
        ("[1]", r"expected a JSON object, got '\[1\]'"),
    ],
)
def test_a_line_of_json_that_is_refused(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"a": 1}}\n{line}\n')
    with pytest.raises(DataFileError, match=rf"a\.jsonl:2: .*{message}"):
        rows(tmp_path / "a.jsonl", "a")


def test_numbers_that_nobody_reads_may_be_infinite(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": "x", "loss": NaN}\n')
    assert [row.cells for row in rows(tmp_path / "a.jsonl", "a")] == [{"a": "x"}]


def test_names_that_no_file_has(tmp_path: Path) -> None:
    assert not is_regular(tmp_path / ("x" * 5000))
    assert not is_regular(tmp_path / "a\0b")
    with pytest.raises(SettingError, match="~nosuchuser/x: unknown home folder"):
        expand("~nosuchuser/x")
    with pytest.raises(SettingError, match="unknown home folder"):
        corpus_files("~nosuchuser/x")
    with pytest.raises(DataFileError, match="no such file"):
        corpus_sha256([tmp_path / "gone.txt"])


def test_numbers_in_a_table_that_no_float_holds(tmp_path: Path) -> None:
    row = {"id": 1, "prediction": "a", "gold": "a", "group": "f", "probabilities": {"a": 10**400}}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataFileError, match=r"a\.jsonl:1: expected a number as the probability of 'a', got 1000"):
        read_predictions(tmp_path / "a.jsonl")


def test_astronomically_many_cases_are_refused() -> None:
    axes = tuple(Axis.whole(f"slot{i}", 1000) for i in range(2000))
    with pytest.raises(SettingError, match=r"at most 100,000,000 cases in the suite, got 1,000 x .* x ...; shorten"):
        CaseSpace((), {}, axes, unit_axes=2000)
    columns: list[IntArray] = [np.arange(1)] * 2000
    assert product(columns).shape == (1, 2000)
    small = CaseSpace((), {}, axes[:1] + tuple(Axis.whole(f"one{i}", 1) for i in range(99)), unit_axes=1)
    assert small.columns(np.array([7]))["slot0"] == 7
    with pytest.raises(SettingError, match="at most 100,000,000 cases"):
        product([np.arange(1000)] * 2000)


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16LE"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-32", "UTF-32"),
        ("utf-32-le", "UTF-32LE"),
        ("utf-32-be", "UTF-32BE"),
    ],
)
@pytest.mark.parametrize("name", ["a.yaml", "a.csv", "a.jsonl", "a.json", "a.txt"])
def test_the_encoding_of_a_text_with_zero_bytes_is_named(tmp_path: Path, name: str, encoding: str, named: str) -> None:
    path = tmp_path / name
    path.write_bytes("gates:\n  - {suite: lm-occupation, at_most: 3.0}\n".encode(encoding))
    read = {
        ".yaml": read_yaml,
        ".json": lambda file: plain_files.read_whole(file, 1000),
        ".csv": lambda file: rows(file, "a"),
        ".jsonl": lambda file: rows(file, "a"),
        ".txt": lambda file: feed_corpus(file, Vocabulary()),
    }[path.suffix]
    with pytest.raises(DataFileError, match=rf"{name}:1: not UTF-8, but {named}; .* iconv -f {named} -t UTF-8$"):
        read(path)


@pytest.mark.parametrize(("byte", "named"), [(b"\x92", "WINDOWS-1252"), (b"\xe9", "LATIN1")])
def test_another_encoding_is_told_by_its_bytes(tmp_path: Path, byte: bytes, named: str) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\nx" + byte + b"y\n")
    with pytest.raises(DataFileError, match=rf"a\.csv:2: not UTF-8: byte 0x.* iconv -f {named} -t UTF-8"):
        rows(tmp_path / "a.csv", "a")
