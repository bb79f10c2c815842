"""How a measurement is shown, and what is said where it is taken for a number."""

import operator
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
import pytest

from pytest_genderbias import (
    Limit,
    assert_at_least,
    assert_at_most,
    assert_no_regression,
    assert_no_worse,
    assert_within,
    measure,
)
from pytest_genderbias.gates.limits import judge_limit
from pytest_genderbias.measurement.measurement import Measurement


@pytest.fixture(scope="module")
def whole():
    return measure("lm-occupation", "demo-lm", cache=None)


@pytest.fixture(scope="module")
def sample():
    return measure("nli-occupation", "demo-nli", limit=500, cache=None)


def test_repr_is_three_lines(whole):
    first, second, third = repr(whole).splitlines()
    interval = whole.interval
    assert (
        first == f"lm-occupation on demo-lm: aggregate_bias {whole.value:.4f} (95 % interval {interval.low:.4f} to"
        f" {interval.high:.4f} over occupations and templates); neutral 0, higher is worse"
    )
    assert second == "512 cases, all of the suite"
    assert third == "notes: none"
    assert str(whole) == repr(whole)


def test_repr_of_a_sample_gives_the_bounds_of_the_whole_suite(sample):
    first, second, _ = repr(sample).splitlines()
    bounds = sample.bounds["net_neutral"]
    assert first.endswith("neutral 1, lower is worse")
    assert (
        second
        == f"500 of {sample.n_total:,} cases; net_neutral over all of them: {bounds.low:.4f} to {bounds.high:.4f}"
    )


def test_repr_says_why_there_is_no_value_and_keeps_notes_in_one_line(whole):
    values = {**whole.values, "aggregate_bias": None}
    m = replace(whole, values=values, reasons={"aggregate_bias": "no\ncases"}, notes=("one\ntwo", "x" * 1000))
    first, _, third = repr(m).splitlines()
    assert "aggregate_bias has no value (no cases); neutral 0" in first
    assert third.startswith("notes: one two; xxx")
    assert third.endswith("...") and len(third) < 320
    assert "(no interval)" in repr(replace(whole, intervals=dict.fromkeys(whole.values)))


class Tags(HTMLParser):
    """Collects tags and text, and checks that every tag is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def parsed(m):
    parser = Tags()
    parser.feed(m._repr_html_())
    parser.close()
    assert not parser.open
    return parser


def test_the_html_table_has_a_row_a_statistic(whole):
    page = parsed(whole)
    assert page.tags.count("tr") == 1 + len(whole.values)
    assert f"{whole.value:.4f}" in page.texts
    assert "0, higher is worse" in page.texts
    assert any(text.startswith("lm-occupation on demo-lm: 512 cases") for text in page.texts)


def test_everything_in_the_html_table_is_escaped(whole):
    evil = "<script>alert('x')</script>&\""
    statistics = {name: replace(statistic, meaning=evil) for name, statistic in whole.statistics.items()}
    interval = replace(whole.interval, over=evil)
    m = replace(
        whole,
        suite=evil,
        model=evil,
        notes=(evil,),
        statistics=statistics,
        intervals=dict.fromkeys(whole.values, interval),
        values={**whole.values, "signed_bias": None},
        reasons={"signed_bias": evil},
    )
    renamed = replace(
        m,
        **{
            part: {evil: getattr(m, part)["aggregate_bias"]} for part in ("values", "intervals", "bounds", "statistics")
        },
    )
    for shown in (m, renamed):
        assert "<script" not in shown._repr_html_()
        assert "script" not in parsed(shown).tags
        assert sum(evil in text for text in parsed(shown).texts) >= 4


@pytest.mark.parametrize(
    ("compare", "advice"),
    [
        (lambda m: m < 0.3, "write m.value < 0.3, or assert_at_most(m, 0.3) for a verdict with bounds"),
        (lambda m: m <= 1, "write m.value <= 1, or assert_at_most(m, 1)"),
        (lambda m: m > 0.3, "write m.value > 0.3, or assert_at_least(m, 0.3)"),
        (lambda m: m >= 0.3, "write m.value >= 0.3, or assert_at_least(m, 0.3)"),
        (lambda m: operator.lt(0.3, m), "assert_at_least(m, 0.3) for a verdict"),
        (lambda m: m == 0.3, "write m.value == 0.3, or assert_at_most(m, 0.3)"),
        (lambda m: m != 0.3, "write m.value != 0.3, or assert_at_most(m, 0.3)"),
        (lambda m: m == np.float32(0.5), "write m.value == 0.5"),
        (lambda m: operator.ne(Decimal("0.3"), m), "write m.value != 0.3"),
        (lambda m: np.float64(0.3) > m, "write m.value < "),
        (lambda m: m < m, "write assert_no_worse(m, other) for a verdict with bounds"),
        (lambda m: max([m, m]), "m.value > other.value"),
        (lambda m: m < "0.3", "write m.value < 0.3"),
    ],
)
def test_a_measurement_is_not_compared_like_a_number(whole, compare, advice):
    with pytest.raises(TypeError) as caught:
        compare(whole)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    "use", [bool, lambda m: not m, lambda m: m and 1, lambda m: all([m])], ids=["bool", "not", "and", "all"]
)
def test_a_measurement_and_a_judgement_have_no_truth_value(whole, use):
    for thing in (whole, replace(whole, values=dict.fromkeys(whole.values)), judge_limit(whole, Limit(at_most=0.9))):
        with pytest.raises(TypeError, match=r"has no truth value.*assert_at_most"):
            use(thing)


def test_a_measurement_equals_itself_and_nothing_else(whole, sample):
    assert whole == Measurement.from_dict(whole.to_dict())
    assert whole != sample
    assert whole != None  # noqa: E711
    assert whole != "lm-occupation"


@pytest.mark.parametrize("value", [0.2, None, np.float64(0.2), "0.2"], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize(
    "assertion", [assert_at_most, assert_at_least, assert_within, assert_no_regression, assert_no_worse]
)
def test_an_assertion_over_a_bare_value_says_what_to_write(assertion, value):
    with pytest.raises(TypeError) as caught:
        assertion(value, 0.3)
    name = assertion.__name__
    assert str(caught.value).startswith(f"{name} judges a measurement with its bounds, got {type(value).__name__} ")
    assert f"write {name}(m, ...) with m = measure(...), or compare the bare value: assert m.value <= 0.3" in str(
        caught.value
    )


def test_the_reference_of_a_comparison_is_a_measurement(whole):
    with pytest.raises(TypeError, match=r"got float 0\.2"):
        assert_no_worse(whole, 0.2, margin=0.0)
