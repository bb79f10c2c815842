"""``--bias-records``: all records of a run as a table."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from support.small_projects import model


def test_all_records_are_written_not_only_the_worst(project: pytest.Pytester) -> None:
    arguments = (
        "--bias-suite=tiny-nli.yaml,tiny-lm.yaml",
        model(project, "good"),
        f"--bias-model=w={project.models}:writer",
    )  # type: ignore[attr-defined]
    project.runpytest(*arguments, "--bias-records=out/r.csv", "--bias-json=r.json")
    with project.path.joinpath("out/r.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    measured = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
    assert {(row["suite"], row["model"]) for row in rows} == {("tiny-nli", "m"), ("tiny-lm", "w")}
    assert len(rows) == sum(len(measurement["records"]) for measurement in measured)
    foods = [row for row in rows if row["slice"] == "food"]
    assert len(foods) > 10, "a JSON report alone has the ten worst of a slice"
    [nurse] = [row for row in rows if row["suite"] == "tiny-lm" and row["occupation"] == "nurse"]
    assert float(nurse["bias"]) != 0
    assert rows[0]["rank"] == "1"


def test_parquet_without_pyarrow_is_a_usage_error(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(pytest.UsageError) as error:
        project.parseconfigure("--bias-records=r.parquet")
    assert str(error.value).startswith("--bias-records: a .parquet file needs pyarrow; install with: pip install")
