"""``--bias-history``: every run is added, and reports show the runs before."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from support.small_projects import model

from pytest_genderbias.reports.history import read_history

FLAGS = ("--bias-history=bias.db", "--bias-json=report.json")


def test_runs_follow_each_other_with_verdict_baseline_and_margin(gated: pytest.Pytester) -> None:
    path = gated.path / "bias.db"
    gated.runpytest(model(gated, "good"), "--bias-update-new", *FLAGS).assert_outcomes(passed=1)
    gated.runpytest(model(gated, "worse"), *FLAGS).assert_outcomes(failed=1)
    trace = next(trace for trace in read_history(path) if trace.main)
    assert (trace.model, trace.suite, trace.statistic) == ("m", "tiny-nli", "net_neutral")
    assert [point.value for point in trace.points] == pytest.approx([0.9, 0.825])
    assert [point.verdict for point in trace.points] == ["pass (stored)", "worse"]
    assert (trace.last.outcome, trace.last.baseline, trace.last.margin) == ("failed", trace.points[0].value, 0.01)
    assert trace.worsening() == pytest.approx(0.075)
    report = json.loads((gated.path / "report.json").read_text())
    shown = next(trace for trace in report["history"] if trace["main"])
    assert [point["value"] for point in shown["points"]] == pytest.approx([0.9, 0.825])


@pytest.mark.slow
def test_a_parallel_run_is_added_once_by_the_controller(gated: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="runs tests in parallel")
    gated.runpytest(model(gated, "good"), "-n", "2", "--bias-update-new", *FLAGS).assert_outcomes(passed=1)
    with closing(sqlite3.connect(gated.path / "bias.db")) as store:
        assert store.execute("SELECT count(*) FROM runs").fetchall() == [(1,)]


def test_a_file_that_is_no_history_is_a_usage_error_before_the_run(gated: pytest.Pytester) -> None:
    (gated.path / "bias.db").write_text("precious")
    result = gated.runpytest(model(gated, "good"), "--bias-history=bias.db")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--bias-history: *bias.db: expected a history that --bias-history wrote*"])
    assert (gated.path / "bias.db").read_text() == "precious"


def test_without_the_flag_nothing_is_written(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update-new", "--bias-json=report.json").assert_outcomes(passed=1)
    assert json.loads((gated.path / "report.json").read_text())["history"] == []
    assert not list(gated.path.glob("*.db"))
