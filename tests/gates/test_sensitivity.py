"""What a gate sees: one that sees too little is none, whatever its baseline was stored with, and advice helps."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.baseline_books import write_entries
from support.hand_made import ITEMS, hand_made

from pytest_genderbias import Measurement
from pytest_genderbias.errors import BaselineError
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.sensitivity import seen_by, what_would_help, why_too_weak
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.statistics.inference.intervals import Interval
from pytest_genderbias.suites.statistic import Statistic


def blurred(width: float, shift: float = 0.0) -> Measurement:
    """Return a measurement by hand whose interval over items is ``width`` wide."""
    plain = hand_made(shift)
    value = plain.values["share"]
    assert value is not None
    interval = Interval(value - width / 2, value + width / 2, 0.95, "items", "by hand", items=ITEMS)
    return replace(plain, intervals={"share": interval})


def restarts(*shifts: float) -> Measurement:
    return combine_restarts([hand_made(shift) for shift in shifts], range(len(shifts)))


def test_a_wider_interval_sees_less() -> None:
    seen = [seen_by(blurred(width), "share") for width in (0.01, 0.2, 1.0)]
    sizes = [one.size for one in seen if one is not None]
    assert len(sizes) == 3 and sizes == sorted(sizes) and sizes[0] < sizes[1]
    assert [
        why_too_weak(blurred(width), "share", one, 0.5) == "" for width, one in zip((0.01, 0.2, 1.0), seen, strict=True)
    ] == [True, False, False]


def test_the_items_that_a_comparison_pairs_count_and_not_those_of_the_interval() -> None:
    measured = blurred(0.2)
    interval = measured.intervals["share"]
    assert interval is not None
    of_no_items = replace(measured, intervals={"share": replace(interval, items=0)})
    assert seen_by(of_no_items, "share") == seen_by(measured, "share")


def test_it_says_what_it_would_see_and_what_would_be_needed() -> None:
    weak = restarts(0.0, 0.3)
    why = why_too_weak(weak, "share", seen_by(weak, "share"), 0.5)
    assert why.startswith("would see a growth of ") and why.endswith("; a gate has to see +50 % (bias_sees)")
    assert (
        why_too_weak(weak, "share", None, 0.5) == "share has no bounds, so that nothing is worse than chance explains"
    )
    bounded = replace(weak, statistics={"share": Statistic("higher", 0.0, "a share", least=0.0, most=0.5)})
    assert why_too_weak(bounded, "share", seen_by(weak, "share"), 0.5).startswith(
        "would see nothing: share can worsen by "
    )


@pytest.mark.parametrize("value", [0.0, 1e-18])
def test_a_neutral_value_has_no_growth_and_is_told_so(value: float) -> None:
    neutral = blurred(0.1, shift=-0.25)
    assert neutral.values["share"] == pytest.approx(0.0)
    neutral = replace(neutral, values={"share": value})
    seen = seen_by(neutral, "share")
    assert seen is not None and seen.unit == 0.0 and math.isinf(seen.growth)
    assert why_too_weak(neutral, "share", seen, 0.5).startswith(f"share is {value:g}, its neutral value: ")
    assert "(+" not in seen.sentence and " worse in 80 % of releases" in seen.sentence


def test_advice_names_what_sees_enough() -> None:
    few = restarts(0.0, 0.02, 0.04)
    helps = what_would_help(few, "share", 0.5, 1)
    assert helps and all(" with " in one for one in helps)
    growths = [float(one.split(" ")[0].lstrip("+")) for one in helps]
    assert growths == sorted(growths, reverse=True) and max(growths) <= 50
    assert what_would_help(few, "share", 0.0001, 1) == []


def test_advice_names_nothing_that_would_be_refused_again() -> None:
    few = restarts(0.0, 0.02, 0.04)
    sizes = [float(one.split("%")[0].lstrip("+")) * 0.27 / 100 for one in what_would_help(few, "share", 0.5, 1)]
    share = Statistic("higher", 0.0, "a share", least=0.0, most=0.27 + min(sizes) / 2)
    assert what_would_help(replace(few, statistics={"share": share}), "share", 0.5, 1) == []


# Gates whose baseline was stored without the question.


def book_of(folder: Path, measurement: Measurement, margin: float | None) -> Path:
    baseline = Baseline(folder, "m", "t.py", update="new")
    assert baseline.judge(measurement, margin).code == "stored"
    return write_entries(folder, "m", "t.py", baseline.entries())


def test_an_entry_stored_with_a_margin_is_too_weak_without_one(tmp_path: Path) -> None:
    book_of(tmp_path, blurred(1.0), 0.2)
    changed = blurred(1.0, 0.001)
    judged = Baseline(tmp_path, "m", "t.py").judge(changed, 0.2)
    assert judged.code != "too_weak" and "stored" not in judged.code
    judged = Baseline(tmp_path, "m", "t.py").judge(replace(changed, sums=spread(changed)))
    assert (judged.verdict, judged.code) == ("cannot judge", "too_weak")
    assert "bias_sees" in judged.text


def spread(measurement: Measurement) -> object:
    """Return the sums of a measurement with items that moved both ways, so that chance explains the change."""
    sums = measurement.sums["share"]
    moved = sums.sums[:, 0] + np.where(np.arange(ITEMS) % 2, 0.05, -0.05)
    return type(measurement.sums)({"share": replace(sums, sums=np.stack([moved, sums.sums[:, 1]], axis=1))})


def test_an_entry_that_does_not_say_what_its_gate_sees_is_asked_too(tmp_path: Path) -> None:
    strong, weak = blurred(0.005), blurred(1.0)
    book = book_of(tmp_path, strong, None)
    data = json.loads(book.read_text())
    del data["entries"]["tiny"]["sees"]
    book.write_text(json.dumps(data))
    assert Baseline(tmp_path, "m", "t.py").judge(replace(strong, sums=spread(strong))).code == "within"
    assert Baseline(tmp_path, "m", "t.py").judge(replace(weak, sums=spread(weak))).code == "too_weak"
    assert Baseline(tmp_path, "m", "t.py").judge(weak).code == "unchanged", "the same figures are the same"


def test_stored_restarts_are_what_it_sees_by(tmp_path: Path) -> None:
    book = book_of(tmp_path, restarts(0.2, 0.201, 0.202, 0.203, 0.204), None)
    data = json.loads(book.read_text())
    del data["entries"]["tiny"]["sees"]
    book.write_text(json.dumps(data))
    one = blurred(0.3, 0.2021)
    assert why_too_weak(one, "share", seen_by(one, "share"), 0.5), "of itself it would see too little"
    assert Baseline(tmp_path, "m", "t.py").judge(one).code == "within"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("checkpoints", 0, r"entries\.tiny\.checkpoints: expected a whole number of at least 1, got 0"),
        (
            "sees",
            {"share": {"size": -1.0, "unit": 1.0, "red": 0.1}},
            r"entries\.tiny\.sees\.share\.size: expected a number of 0 or more, got -1",
        ),
        (
            "sees",
            {"share": {"size": 1.0, "unit": -0.5, "red": 0.1}},
            r"entries\.tiny\.sees\.share\.unit: expected a number of 0 or more",
        ),
    ],
)
def test_figures_that_cannot_be_are_refused(tmp_path: Path, key: str, value: object, message: str) -> None:
    book = book_of(tmp_path, blurred(0.005), None)
    data = json.loads(book.read_text())
    data["entries"]["tiny"][key] = value
    book.write_text(json.dumps(data))
    with pytest.raises(BaselineError, match=message):
        Baseline(tmp_path, "m", "t.py").judge(blurred(0.005))
