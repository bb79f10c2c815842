"""Histories as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.reports.history_table import HEADERS, make_history_table, shown_traces
from pytest_genderbias.reports.run_report import Trace, TracePoint


def trace(*values: float | None, suite: str = "tiny", **about: object) -> Trace:
    points = tuple(
        TracePoint(f"2026-{month:02}-01T00:00:00+00:00", "", "", "a", value)
        for month, value in enumerate(values, start=1)
    )
    return replace(Trace("m", suite, "{}", "share", True, "higher", 0.0, "a share", points), **about)


def row(of: Trace, *others: Trace) -> dict[str, str]:
    line = make_history_table([of, *others]).splitlines()[2]
    return dict(zip(HEADERS, [cell.strip() for cell in line.strip("|").split(" | ")], strict=True))


def judged(of: Trace, **last: object) -> Trace:
    return replace(of, points=(*of.points[:-1], replace(of.last, **last)))


def test_a_row_says_how_far_a_value_has_come_and_what_is_allowed() -> None:
    of = judged(trace(0.25, 0.3, 0.35), verdict="worse", baseline=0.3, margin=0.02, anchor=0.25, most=0.5)
    assert row(of) == {
        "model": "m", "suite": "tiny", "statistic": "share", "runs": "3", "since": "2026-01-01", "first": "0.25",
        "last": "0.35", "change": "0.1 worse", "allowed": "baseline 0.3 + 0.02, anchor 0.25, at most 0.5",
        "verdict": "worse",
    }  # fmt: skip
    assert row(trace(0.25))["change"] == ""
    assert row(trace(0.25, 0.25))["change"] == "no change"
    assert row(trace(0.25, None))["last"] == "-"
    assert row(trace(0.5, 0.25, direction="lower", neutral=1.0))["change"] == "0.25 worse"
    assert row(trace(-0.5, 0.25, direction="away"))["change"] == "0.25 better"
    assert make_history_table([]) == ""


def test_options_stand_where_two_traces_have_others() -> None:
    by_pair = trace(0.3, options='{"unit": "pair"}')
    assert row(by_pair)["suite"] == "tiny"
    assert row(by_pair, trace(0.3))["suite"] == 'tiny {"unit": "pair"}'


def test_a_table_shows_main_statistics_and_gated_ones() -> None:
    side = trace(0.1, main=False)
    gated = judged(side, verdict="pass")
    assert shown_traces([trace(0.1), side, gated]) == [trace(0.1), gated]
    assert shown_traces([side], all_statistics=True) == [side]


def test_hostile_names_are_escaped_for_markdown() -> None:
    of = trace(0.1, 0.2, suite="<b>|\x1b[31m\u202e", statistic='"><script>')
    assert "<b>" not in make_history_table([of])
    assert make_history_table([of]).replace("\n", "").isprintable()


def test_a_trace_without_points_is_refused() -> None:
    with pytest.raises(DataFileError, match="expected at least one point of 'share', got none"):
        Trace.from_dict({**trace(0.1).to_dict(), "points": []})


def test_without_a_margin_nothing_but_the_baseline_is_allowed() -> None:
    of = judged(trace(0.25, 0.3), verdict="pass", outcome="passed", baseline=0.25)
    assert row(of)["allowed"] == "baseline 0.25"
