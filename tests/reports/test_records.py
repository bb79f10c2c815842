"""The table of records, from objects alone."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from support.hand_made import hand_made
from support.run_reports import hostile_report, run_report

from pytest_genderbias.reports.records import write_records

parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")


def test_a_row_a_record_and_a_column_a_name(tmp_path: Path) -> None:
    write_records(run_report(), tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text().splitlines() == [
        "suite,model,rank,word,score,counts.female,counts.male,record.rank",
        "tiny,m,1,nurse,0.5,3,1,",
        "tiny,m,2,pilot,,,,-1",
    ]
    write_records(run_report(), tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    assert {name: str(kind) for name, kind in zip(table.schema.names, table.schema.types, strict=True)} == {
        "suite": "string", "model": "string", "rank": "int64", "word": "string", "score": "double",
        "counts.female": "int64", "counts.male": "int64", "record.rank": "int64",
    }  # fmt: skip
    assert table.to_pylist()[0]["counts.female"] == 3


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_mixed_large_and_missing_values(tmp_path: Path, ending: str) -> None:
    records = [{"a": 1, "b": math.nan, "c": True, "d": 2**80}, {"a": 0.5, "b": None, "c": "x", "d": -1}, {}]
    path = tmp_path / f"r.{ending}"
    write_records(run_report(measurements=(hand_made(records=records),)), path)
    if ending == "csv":
        rows = list(csv.reader(path.read_text().splitlines()))
        assert rows[1:] == [
            ["tiny", "m", "1", "1", "", "True", str(2**80)],
            ["tiny", "m", "2", "0.5", "", "x", "-1"],
            ["tiny", "m", "3", "", "", "", ""],
        ]
        return
    columns = parquet.read_table(path).to_pydict()
    assert columns["a"] == [1.0, 0.5, None]
    assert columns["b"] == [None, None, None]
    assert columns["c"] == ["True", "x", None]
    assert columns["d"] == [float(2**80), -1.0, None]


def test_no_spreadsheet_computes_a_text(tmp_path: Path) -> None:
    records = [{"=key": text} for text in ("=1+1", "+1", "-1", "@x", "\t=1", " =1", "＝1", "a=1")] + [{"=key": -1.5}]
    write_records(run_report(measurements=(hand_made(suite="=cmd", records=records),)), tmp_path / "r.csv")
    header, *rows = csv.reader((tmp_path / "r.csv").read_text().splitlines())
    assert header[3] == "'=key"
    assert {row[0] for row in rows} == {"'=cmd"}
    assert [row[3] for row in rows] == ["'=1+1", "'+1", "'-1", "'@x", "\\t=1", "' =1", "'＝1", "a=1", "-1.5"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_long_texts_are_cut(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"r.{ending}"
    write_records(hostile_report(), path)
    assert path.stat().st_size < 500_000


def test_a_run_without_records_has_a_header(tmp_path: Path) -> None:
    for name in ("r.csv", "r.parquet"):
        write_records(run_report(measurements=()), tmp_path / name)
    assert (tmp_path / "r.csv").read_text() == "suite,model,rank\n"
    assert parquet.read_table(tmp_path / "r.parquet").num_rows == 0
