"""The columns of figures and gates, from which all tables are made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.hand_made import hand_made
from support.run_reports import PASSED, REGRESSED, settled

from pytest_genderbias.gates.judgement import BaselineFacts, LimitFacts, ReductionFacts, SinceAnchor
from pytest_genderbias.measurement.measurement import SUITE_CASES
from pytest_genderbias.reports.fields import FIGURE_COLUMNS, GATE_COLUMNS, change_and_bounds, change_in_full, figures_of
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.text.printable import format_figure


def test_every_column_of_a_figure_has_a_value_and_a_text() -> None:
    measurement = hand_made()
    for figure in figures_of([measurement]):
        values = {name: column.value(figure) for name, column in FIGURE_COLUMNS.items()}
        assert values["value"] == measurement.values[figure.name] and values["n"] == measurement.n
        assert all(isinstance(column.text(figure), str) for column in FIGURE_COLUMNS.values())


@pytest.mark.parametrize(
    ("facts", "known"),
    [
        (LimitFacts(0.1, 0.3), {"least": 0.1, "most": 0.3, "baseline": None, "reduction": None}),
        (BaselineFacts("2026-10-22", 0.25, 0.02), {"baseline": 0.25, "margin": 0.02, "anchor": None, "most": None}),
        (BaselineFacts("", 0.25, anchor=SinceAnchor(value=0.2)), {"anchor": 0.2, "accepted_on": "", "margin": None}),
        (
            ReductionFacts(0.1, 0.5, 0.25, reduction=0.5),
            {"before": 0.5, "after": 0.25, "reduction": 0.5, "least": None},
        ),
        (None, {"before": None, "baseline": None, "least": None, "suite": "tiny", "subject": "tiny (release)"}),
    ],
)
def test_every_column_of_a_gate_has_a_value_or_none(facts: object, known: dict[str, object]) -> None:
    row = settled(replace(REGRESSED, facts=facts), "failed")
    values = {name: column.value(row) for name, column in GATE_COLUMNS.items()}
    assert {name: values[name] for name in known} == known
    assert all(isinstance(column.text(row), str) for column in GATE_COLUMNS.values())


@pytest.mark.parametrize(
    ("difference", "low", "high", "over", "change"),
    [
        (0.15, 0.05, 0.25, "items", "0.150 worse (0.050 to 0.250)"),
        (-0.15, -0.25, 0.05, "items", "0.150 better (-0.050 to 0.250)"),
        (0.0, -0.25, 0.05, "items", "no change (-0.250 to 0.050)"),
        (0.15, 0.15, 0.15, SUITE_CASES, "0.150 worse, exact"),
        (0.15, 0.15, 0.15, "items", "0.150 worse, the same in every item"),
        (None, 0.15, 0.15, "items", ""),
    ],
)
def test_a_change_has_its_bounds(difference: float | None, low: float, high: float, over: str, change: str) -> None:
    judgement = replace(REGRESSED, difference=difference, interval=Interval(low, high, 0.95, over, "by hand"))
    assert change_in_full(judgement, format_figure) == change
    assert (
        change_in_full(replace(judgement, interval=None), format_figure) == change.partition(" (")[0].partition(",")[0]
    )


def test_a_gate_that_compares_nothing_has_no_change() -> None:
    assert change_and_bounds(PASSED) == ("", "")
