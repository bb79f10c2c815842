"""How old the baselines of a run are, and how far values have come."""

from __future__ import annotations

import datetime

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.judgement import Judgement, read_facts
from pytest_genderbias.gates.verdicts import Paragraph
from pytest_genderbias.reports.run_tables import baseline_history

TODAY = datetime.date(2026, 11, 22)


def settled(model: str, value: float | None = 0.28, **facts: object) -> Judgement:
    judgement = Judgement(
        "tiny", model, "share", value, None, 12, 12, "b", "within", (Paragraph("", "text"),), facts=read_facts(facts)
    )
    return judgement.settled("passed", "t")


def lines(*judgements: Judgement) -> list[str]:
    return list(baseline_history(judgements, TODAY))


def test_the_age_is_that_of_the_oldest_and_the_newest_entry() -> None:
    dates = "2026-11-22", "2026-11-21", "2026-01-01"
    assert lines(*(settled("a", accepted_on=date) for date in dates), settled("b", accepted_on="2026-11-21")) == [
        "baseline of a: accepted 325 days ago to today",
        "baseline of b: accepted 1 day ago",
    ]
    assert lines(settled("a", accepted_on="2027-01-01")) == ["baseline of a: accepted today"], "clocks differ"


def test_entries_without_a_date_have_no_age() -> None:
    unknown = settled("a", accepted_on="")
    assert lines(unknown) == ["baseline of a: of unknown age"]
    assert lines(unknown, settled("a", accepted_on="2026-11-12"), settled("a", accepted_on="2026-31-12")) == [
        "baseline of a: accepted 10 days ago; some entries are of unknown age"
    ]


def test_a_value_that_left_its_anchor_says_how_far() -> None:
    worse, better, same = (
        settled(
            "a",
            value,
            accepted_on="2026-11-22",
            anchor={"date": "2026-01-01", "value": 0.25, "worsening": value - 0.25},
        )
        for value in (0.28, 0.2, 0.25)
    )
    first, *rest = lines(worse, better, same, worse)
    assert first == "baseline of a: accepted today"
    assert rest == [
        "since 2026-01-01: tiny.share on a 0.25 -> 0.28, 0.03 worse",
        "since 2026-01-01: tiny.share on a 0.25 -> 0.2, 0.05 better",
    ]


def test_judgements_without_a_baseline_or_figures_have_no_history() -> None:
    assert lines(settled("a"), settled("a", before=1.0)) == []
    for anchor in (None, {}, {"value": 0.25}, {"worsening": 0.1, "value": None}):
        assert lines(settled("a", accepted_on="x", anchor=anchor)) == ["baseline of a: of unknown age"]
    with pytest.raises(DataFileError, match=r"^facts\.anchor: expected a mapping, got 3"):
        settled("a", anchor=3)
