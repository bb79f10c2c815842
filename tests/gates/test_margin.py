"""Margins as they are written, and the numbers that they stand for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_genderbias.errors import GateError
from pytest_genderbias.gates.policy import Margin, read_margin, read_margin_of_sameness


@pytest.mark.parametrize(
    ("written", "amount", "share"),
    [
        (0, 0.0, None),
        (0.02, 0.02, None),
        ("20%", None, 0.2),
        (" 2.5 % ", None, 0.025),
        (None, None, None),
        (Margin(0.1), 0.1, None),
    ],
)
def test_numbers_shares_and_none_are_read(written: object, amount: float | None, share: float | None) -> None:
    assert read_margin(written) == Margin(amount, share)


@pytest.mark.parametrize(
    "written",
    [-0.1, math.nan, math.inf, True, "0.02", "-5%", "nan%", "%", "20", "Auto", "1e400%", "9" * 400 + "%", [], {}],
)
def test_anything_else_is_refused_with_the_forms(written: object) -> None:
    with pytest.raises(
        GateError, match=r"a margin should be a number of 0 or more in units of the statistic, or a share .*; got "
    ) as caught:
        read_margin(written)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_the_same_needs_a_margin() -> None:
    assert read_margin_of_sameness("5%") == Margin(share=0.05) and read_margin_of_sameness(0) == Margin(0.0)
    for nothing in (None, Margin()):
        with pytest.raises(GateError, match="'the same as' needs a margin, how much a figure may change"):
            read_margin_of_sameness(nothing)


@given(st.floats(0, 1e6), st.floats(-1e6, 1e6))
def test_a_share_is_of_the_distance_on_either_side_of_neutral(share: float, distance: float) -> None:
    margin = Margin(share=share).resolve(distance)
    assert margin is not None and margin.amount == share * abs(distance) >= 0
    assert f"of the distance {abs(distance):.4g} from neutral" in margin.origin


@given(st.one_of(st.floats(0, 1e9), st.builds("{:.3f}%".format, st.floats(0, 500))))
def test_what_is_written_is_read_back(written: float | str) -> None:
    margin = read_margin(written)
    again = read_margin(str(margin) if margin.amount is None else float(str(margin)))
    for one, other in ((margin.amount, again.amount), (margin.share, again.share)):
        assert one == other is None or one == pytest.approx(other, rel=1e-5)


def test_no_margin_allows_nothing_and_a_share_of_no_distance_is_zero() -> None:
    assert read_margin(None).resolve(0.5) == Margin() and str(Margin()) == "none"
    assert read_margin(0.02).resolve(0.5) == Margin(0.02)
    for nothing in (None, math.nan, -math.inf):
        assert read_margin("20%").resolve(nothing) == Margin(0.0, 0.2, 0.0)
