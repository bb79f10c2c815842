"""Histories as a table, as small pictures and in words."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from support.hand_made import hand_made

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.judgement import SettledJudgement
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.reports.history_table import HEADERS, make_history_table, shown_traces
from pytest_genderbias.reports.run_report import RunInfo, RunReport
from pytest_genderbias.reports.sparklines import in_words, sparkline, sparklines, trace_of
from pytest_genderbias.reports.traces import Trace, TracePoint

SVG = "{http://www.w3.org/2000/svg}"


def trace(*values: float | None, suite: str = "tiny", **about: object) -> Trace:
    points = tuple(
        TracePoint(f"2026-{month:02}-01T00:00:00+00:00", "", "", "a", value)
        for month, value in enumerate(values, start=1)
    )
    return replace(Trace("m", suite, "{}", "share", True, "higher", 0.0, "a share", points), **about)


def row(of: Trace, *others: Trace) -> dict[str, str]:
    line = make_history_table([of, *others]).splitlines()[2]
    return dict(zip(HEADERS, [cell.strip() for cell in line.strip("|").split(" | ")], strict=True))


def drawn(of: Trace) -> ET.Element:
    return ET.fromstring(sparkline(of).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '))


def judged(of: Trace, **last: object) -> Trace:
    return replace(of, points=(*of.points[:-1], replace(of.last, **last)))


def test_a_row_says_how_far_a_value_has_come_and_what_is_allowed() -> None:
    of = judged(trace(0.25, 0.3, 0.35), verdict="worse", baseline=0.3, margin=0.02, anchor=0.25, most=0.5)
    assert row(of) == {
        "model": "m", "suite": "tiny", "statistic": "share", "runs": "3", "since": "2026-01-01", "values": "▁▅█", "first": "0.25",
        "last": "0.35", "change": "0.1 worse", "allowed": "baseline 0.3 + 0.02, anchor 0.25, at most 0.5", "verdict": "worse",
    }  # fmt: skip
    assert row(trace(0.25))["change"] == ""
    assert row(trace(0.25, 0.25))["change"] == "none"
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


def test_hostile_names_are_escaped_for_markdown_and_markup() -> None:
    of = trace(0.1, 0.2, suite="<b>|\x1b[31m\u202e", statistic='"><script>')
    assert "<b>" not in make_history_table([of])
    assert make_history_table([of]).replace("\n", "").isprintable()
    assert drawn(of).get("aria-label") == in_words(of)
    assert "<script>" not in sparkline(of)


def test_a_picture_shows_line_allowance_anchor_and_failures() -> None:
    plain = drawn(trace(0.1, 0.2, 0.3))
    assert [len(plain.findall(f"{SVG}{tag}")) for tag in ("path", "rect", "circle")] == [1, 0, 1]
    failed = drawn(judged(trace(0.1, 0.2, 0.3), outcome="failed", baseline=0.2, margin=0.02))
    assert [len(failed.findall(f"{SVG}{tag}")) for tag in ("path", "rect", "circle")] == [2, 1, 1]
    assert failed.find(f"{SVG}circle").get("fill") == "none"  # type: ignore[union-attr]


def test_the_line_breaks_where_values_cannot_be_compared_or_are_missing() -> None:
    of = trace(0.1, 0.2, 0.3, 0.4)
    broken = replace(of, points=tuple(replace(p, comparable="ab"[i > 1]) for i, p in enumerate(of.points)))
    lines = [path.get("d") for path in drawn(broken).findall(f"{SVG}path")]
    assert [str(line).count("L") for line in lines] == [1, 1]
    assert [
        len(drawn(trace(*values)).findall(f"{SVG}path")) for values in ((0.1,), (None, None), (0.1, None, 0.3))
    ] == [0, 0, 1]


def test_of_many_runs_the_last_are_drawn() -> None:
    many = drawn(trace(*(i / 100 for i in range(12))))
    more = replace(trace(0.1), points=trace(*[0.1] * 12).points * 10)
    assert str(many.find(f"{SVG}path").get("d")).count("L") == 11  # type: ignore[union-attr]
    assert str(drawn(more).find(f"{SVG}path").get("d")).count("L") == 29  # type: ignore[union-attr]


@pytest.mark.parametrize("direction", ["higher", "lower", "away"])
@pytest.mark.parametrize("value", [1e308, -1e308, 5e-324, 0.0])
def test_any_numbers_can_be_drawn(direction: str, value: float) -> None:
    of = judged(trace(-value, value, direction=direction), baseline=value, margin=abs(value), outcome="failed")
    marks = sparkline(of).partition("viewBox")[2]
    assert "nan" not in marks
    assert "inf" not in marks
    of.sparkline()


def test_gates_that_were_judged_before_have_a_picture() -> None:
    judgement = judge_limit(hand_made(0.05), Limit(at_most=0.2))
    settled = SettledJudgement(judgement, "failed")
    other = SettledJudgement(replace(judgement, suite="other"), "passed")
    report = RunReport(
        RunInfo("", ""), judgements=(other, settled), history=(trace(0.25, 0.3), trace(0.25, suite="other"))
    )
    assert list(sparklines(report)) == [2]
    assert "2 runs since 2026-01-01: share 0.25, now 0.3, 0.05 worse" in sparklines(report)[2]


def test_of_several_samples_in_a_run_the_judged_one_is_drawn() -> None:
    judgement = judge_limit(hand_made(0.05), Limit(at_most=0.2))
    months = ("2026-01-01", "2026-02-01", "2026-03-01")
    samples = [
        TracePoint(month, "", "", sample, value, n=n)
        for month in months
        for sample, value, n in (("small", 0.9, 3), ("all", judgement.value, judgement.n), ("medium", 0.6, 6))
    ]
    of = replace(trace(0.1), points=tuple(samples))
    report = RunReport(RunInfo("", ""), judgements=(SettledJudgement(judgement, "failed"),), history=(of,))
    found = trace_of(report, report.judgements[0])
    assert found is not None
    assert [point.comparable for point in found.points] == ["all"] * 3
    changed = replace(of, points=(TracePoint("2025-12-01", "", "", "before", 0.5), *of.points))
    found = trace_of(replace(report, history=(changed,)), report.judgements[0])
    assert found is not None
    assert [point.comparable for point in found.points] == ["before", "all", "all", "all"]


def test_a_trace_without_points_is_refused() -> None:
    with pytest.raises(DataFileError, match="expected at least one point of 'share', got none"):
        Trace.from_dict({**trace(0.1).to_dict(), "points": []})


def test_what_an_earlier_version_wrote_has_the_words_of_today() -> None:
    of = trace(0.25, 0.3)
    before = of.to_dict()
    for point, verdict, outcome in zip(
        before["points"], ("inconclusive", "regressed"), ("warned", "failed"), strict=True
    ):  # type: ignore[call-overload]
        del point["margin"]
        point |= {"verdict": verdict, "outcome": outcome, "baseline": 0.25, "tolerance": 0.02}
    now = Trace.from_dict(before)
    assert [(point.verdict, point.outcome) for point in now.points] == [
        ("cannot judge (too few cases)", "passed"), ("worse", "failed"),
    ]  # fmt: skip
    assert row(now)["allowed"] == "baseline 0.25 + 0.02"
    with pytest.raises(DataFileError, match="tolerance"):
        Trace.from_dict({**before, "points": [{**now.last.__dict__, "tolerance": 0.1}]})


def test_without_a_margin_nothing_but_the_baseline_is_drawn() -> None:
    of = judged(trace(0.25, 0.3), verdict="pass", outcome="passed", baseline=0.25)
    assert row(of)["allowed"] == "baseline 0.25"
    assert not drawn(of).findall(f"{SVG}rect")
