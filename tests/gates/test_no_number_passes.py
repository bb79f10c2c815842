"""A verdict passes on a comparison of finite numbers only: NaN, infinity or no value in any place of any judge fails
its test.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.baseline_books import write_entries
from support.hand_made import ITEMS, hand_made

from pytest_genderbias import Baseline, Limit
from pytest_genderbias.gates.book import entry_of
from pytest_genderbias.gates.comparison import compare_models, judge_against
from pytest_genderbias.gates.judgement import Judgement, decide, make_judgement
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.gates.policy import Margin
from pytest_genderbias.gates.regression import Reference, code_of_worsening, find_regression
from pytest_genderbias.gates.verdicts import NO_VALUE, REASONS, REGRESSED, STORED, passes
from pytest_genderbias.measurement.measurement import ALL_CASES, Measurement
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.statistics.inference.item_sums import SumsByStatistic, mean_sums
from pytest_genderbias.statistics.inference.paired import Difference

NO_NUMBERS = [math.nan, math.inf, -math.inf]


def of_value(value: float | None) -> Measurement:
    return hand_made(values={"share": value})


def between(low: float, high: float) -> Measurement:
    return hand_made(
        bounds={"share": Interval(low, high, 1.0, ALL_CASES, "by hand")},
        intervals={"share": Interval(low, high, 0.95, "items", "by hand")},
    )


def fails(judgement: Judgement) -> bool:
    """Whether a judgement fails."""
    return not passes(judgement.code)


@pytest.mark.parametrize(
    "limit", [Limit(at_most=0.9), Limit(at_least=0.0, range=True), Limit(within=0.9), Limit(at_least=0.0, at_most=0.9)]
)
@pytest.mark.parametrize("generalise", [False, True])
def test_a_limit(limit: Limit, generalise: bool) -> None:
    assert passes(judge_limit(hand_made(), limit, generalise=generalise).code)
    for value in (*NO_NUMBERS, None):
        assert fails(judge_limit(of_value(value), limit, generalise=generalise)), value
    for low, high in ((math.nan, 0.3), (0.2, math.nan), (math.nan, math.nan)):
        found = judge_limit(between(low, high), limit, generalise=generalise)
        assert (found.code, "is nan, and only finite numbers decide" in found.text) == (NO_VALUE, True)


def test_infinite_bounds_decide_nothing_on_their_side() -> None:
    assert judge_limit(between(-math.inf, 0.3), Limit(at_most=0.4)).code == "within"
    assert judge_limit(between(-math.inf, 0.3), Limit(at_least=0.1, range=True)).code == "too_few"
    assert judge_limit(between(0.2, math.inf), Limit(at_most=0.4)).code == "too_few"


@pytest.mark.parametrize("value", [*NO_NUMBERS, None])
def test_a_model_against_a_model(value: float | None) -> None:
    assert passes(judge_against(hand_made(), hand_made(), margin=0.0).code)
    assert fails(judge_against(of_value(value), hand_made(), margin=9.0))
    found = judge_against(hand_made(), replace(of_value(value), model="other"), margin=9.0)
    assert fails(found) and "share has no value in the other" in found.text
    rows, _ = compare_models([hand_made(), replace(of_value(value), model="other")], ["m", "other"])
    assert [row.better for row in rows] == ["no value"]


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_model_against_items_that_are_no_numbers(value: float) -> None:
    labels = np.array([f"item {i}" for i in range(ITEMS)])
    sums = mean_sums(labels, np.r_[value, np.full(ITEMS - 1, 0.2)], np.ones(ITEMS), "items")
    broken = hand_made(sums=SumsByStatistic({"share": sums}))
    with np.errstate(all="ignore"):
        for now, then in ((broken, hand_made()), (hand_made(), broken)):
            found = judge_against(now, replace(then, model="other"), margin=0.01)
            assert (
                fails(found) and " its items give " in found.text and ", and only finite numbers decide" in found.text
            )


@pytest.mark.parametrize("update", ["no", "all"])
@pytest.mark.parametrize("value", [*NO_NUMBERS, None])
def test_a_baseline(tmp_path: Path, value: float | None, update: str) -> None:
    write_entries(tmp_path, "m", "t.py", {"tiny": entry_of(hand_made())})
    found = Baseline(tmp_path, "m", "t.py", update=update).judge(of_value(value), margin=9.0)
    if value is None and update == "all":
        assert found.code == STORED, "a value that is gone is accepted; every gate on it fails then"
    else:
        assert found.code == NO_VALUE and not passes(found.code)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_a_stored_value_that_is_no_number_is_none(value: float) -> None:
    before = Reference("baseline", value, None, fingerprint="f0.0")
    found = find_regression(hand_made(), "share", before, Margin(9.0))
    assert found.code == NO_VALUE and f"in the baseline: it is {value}" in found.text


@pytest.mark.parametrize("allowed", [Margin(), Margin(0.02)])
@pytest.mark.parametrize("figure", ["value", "low", "high", "p"])
def test_a_worsening(figure: str, allowed: Margin) -> None:
    worsening = Difference(-0.1, -0.2, -0.05, 0.9, 0.01, 12, 12, "", "items")
    code = code_of_worsening(replace(worsening, **{figure: math.nan}), allowed)
    interval = Interval(
        math.nan if figure == "low" else -0.2, math.nan if figure == "high" else -0.05, 0.95, "items", ""
    )
    found = make_judgement(
        hand_made(),
        "share",
        code,
        "",
        "",
        interval=interval,
        p=math.nan if figure == "p" else 0.9,
        difference=math.nan if figure == "value" else -0.1,
    )
    assert fails(found)


def test_the_rule_on_bounds_passes_nothing_that_is_no_number() -> None:
    for low, high in ((math.nan, 0.1), (0.1, math.nan), (math.nan, math.nan)):
        assert decide(low, high, 0.0, 0.3) != "within"
    assert decide(0.1, 0.2, math.nan, 0.3) != "within" and decide(0.1, 0.2, 0.0, math.nan) != "within"


@pytest.mark.parametrize("code", [code for code in REASONS if passes(code)])
def test_whoever_finds_it_a_finding_without_numbers_cannot_pass(code: str) -> None:
    def judged(
        measurement: Measurement, code: str = code, low: float = -0.1, high: float = 0.1, **changes: float
    ) -> str:
        interval = Interval(low, high, 0.95, "items", "")
        return make_judgement(
            measurement, "share", code, "", "", interval=interval, **{"p": 0.5, "difference": 0.0, **changes}
        ).code

    assert judged(hand_made()) == code
    for change in ({"low": math.nan}, {"high": math.nan}, {"p": math.nan}, *({"difference": x} for x in NO_NUMBERS)):
        assert judged(hand_made(), **change) == NO_VALUE, change
    for value in NO_NUMBERS:
        assert judged(of_value(value)) == NO_VALUE
    assert judged(of_value(math.nan), REGRESSED) == REGRESSED, "what fails anyway keeps its word"
