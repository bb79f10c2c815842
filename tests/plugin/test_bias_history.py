"""``genderbias report --to history.db``: every run is added, and reports show the runs before."""

from __future__ import annotations

import pytest
from support.command_lines import make_reports
from support.small_projects import model

from pytest_genderbias.reports.history import read_history

JSON = "--bias-json=run.json"


def test_runs_follow_each_other_with_verdict_baseline_and_margin(gated: pytest.Pytester) -> None:
    path = gated.path / "bias.db"
    gated.runpytest(model(gated, "good"), "--bias-update-new", JSON).assert_outcomes(passed=1)
    assert make_reports("bias.db").status == 0
    gated.runpytest(model(gated, "worse"), JSON).assert_outcomes(failed=1)
    assert make_reports("bias.db", "page.html", "figures").status == 0
    trace = next(trace for trace in read_history(path) if trace.main)
    assert (trace.model, trace.suite, trace.statistic) == ("m", "tiny-nli", "net_neutral")
    assert [point.value for point in trace.points] == pytest.approx([0.9, 0.825])
    assert [point.verdict for point in trace.points] == ["pass (stored)", "worse"]
    assert (trace.last.outcome, trace.last.baseline, trace.last.margin) == ("failed", trace.points[0].value, 0.01)
    assert trace.worsening() == pytest.approx(0.075)
    assert "over 2 runs" in (gated.path / "page.html").read_text(encoding="utf-8")
    assert "over 2 runs" in (gated.path / "figures" / "figures.md").read_text(encoding="utf-8")


def test_a_file_that_is_no_history_is_named_and_stays(gated: pytest.Pytester) -> None:
    gated.runpytest(model(gated, "good"), "--bias-update-new", JSON).assert_outcomes(passed=1)
    (gated.path / "bias.db").write_text("precious")
    printed = make_reports("bias.db", "page.html")
    assert printed.status == 1
    assert "bias.db: expected a history that genderbias report wrote" in printed.err
    assert (gated.path / "bias.db").read_text() == "precious"
