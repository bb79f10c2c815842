"""Tolerances as they are written, and the numbers that they stand for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.margin import Margin, PlannedMargin, read_margin


@pytest.mark.parametrize(
    ("written", "amount", "share"),
    [(0, 0.0, None), (0.02, 0.02, None), ("20%", None, 0.2), (" 2.5 % ", None, 0.025), ("auto", None, None), (Margin(0.1), 0.1, None)],
)  # fmt: skip
def test_numbers_shares_and_auto_are_read(written: object, amount: float | None, share: float | None) -> None:
    assert read_margin(written) == Margin(amount, share)


@pytest.mark.parametrize(
    "written",
    [-0.1, math.nan, math.inf, True, "0.02", "-5%", "nan%", "%", "20", "Auto", "1e400%", "9" * 400 + "%", [], {}],
)
def test_anything_else_is_refused_with_the_forms(written: object) -> None:
    with pytest.raises(
        GateError, match="a margin should be a number of 0 or more in units of the statistic, a share"
    ) as caught:
        read_margin(written)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_no_tolerance_is_no_zero_and_names_the_plan() -> None:
    with pytest.raises(GateError, match=r"a comparison needs a margin: .*'20%'.*'auto'.*run pytest with --bias-plan"):
        read_margin(None)


@given(st.floats(0, 1e6), st.floats(-1e6, 1e6))
def test_a_share_is_of_the_distance_on_either_side_of_neutral(share: float, distance: float) -> None:
    margin = Margin(share=share).resolve(distance, PlannedMargin(7.0))
    assert margin is not None and margin.amount == share * abs(distance) >= 0
    assert f"of the distance {abs(distance):.4g} from neutral" in margin.written


@given(st.one_of(st.floats(0, 1e9), st.builds("{:.3f}%".format, st.floats(0, 500)), st.just("auto")))
def test_what_is_written_is_read_back(written: float | str) -> None:
    margin = read_margin(written)
    again = read_margin(str(margin) if margin.amount is None else float(str(margin)))
    for one, other in ((margin.amount, again.amount), (margin.share, again.share)):
        assert one == other is None or one == pytest.approx(other, rel=1e-5)


def test_auto_is_the_planned_one_or_nothing() -> None:
    auto, planned = read_margin("auto"), PlannedMargin(0.013, "2026-11-22")
    assert auto.is_auto and auto.resolve(0.5) is None
    assert auto.resolve(None, planned) == Margin(0.013, "auto, planned on 2026-11-22")
    assert read_margin(0.02).resolve(0.5, planned) == Margin(0.02)
    for nothing in (None, math.nan, -math.inf):
        assert read_margin("20%").resolve(nothing) == Margin(0.0, "20% of the distance 0 from neutral")
