"""``genderbias report --to records.csv``: the records of a run as a table."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from support.command_lines import make_reports
from support.small_projects import model


def test_all_records_are_written_not_only_the_worst(project: pytest.Pytester) -> None:
    arguments = (
        "--bias-suite=tiny-nli.yaml,tiny-lm.yaml",
        model(project, "good"),
        f"--bias-model=w={project.models}:writer",
    )  # type: ignore[attr-defined]
    project.runpytest(*arguments, "-obias_all_records=true", "--bias-json=run.json")
    assert make_reports("out/r.csv").status == 0
    with project.path.joinpath("out/r.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    measured = json.loads(project.path.joinpath("run.json").read_text())["measurements"]
    assert {(row["suite"], row["model"]) for row in rows} == {("tiny-nli", "m"), ("tiny-lm", "w")}
    assert len(rows) == sum(len(measurement["records"]) for measurement in measured)
    foods = [row for row in rows if row["slice"] == "food"]
    assert len(foods) > 10, "a JSON report alone has the ten worst of a slice"
    [nurse] = [row for row in rows if row["suite"] == "tiny-lm" and row["occupation"] == "nurse"]
    assert float(nurse["bias"]) != 0
    assert rows[0]["rank"] == "1"


def test_without_the_key_the_worst_of_each_slice_are_written(project: pytest.Pytester) -> None:
    project.runpytest("--bias-suite=tiny-nli.yaml", model(project, "good"), "--bias-json=run.json")
    assert make_reports("r.csv").status == 0
    with project.path.joinpath("r.csv").open(encoding="utf-8", newline="") as stream:
        assert len([row for row in csv.DictReader(stream) if row["slice"] == "food"]) == 10


def test_parquet_without_pyarrow_is_a_usage_error(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    printed = make_reports("r.parquet")
    assert printed.status == pytest.ExitCode.USAGE_ERROR
    assert "--to: a .parquet file needs pyarrow; install with: pip install" in printed.err
