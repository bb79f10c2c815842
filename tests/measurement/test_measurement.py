"""``Measurement`` as plain data: it comes back from JSON as it was, and damaged data are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answered_suites import CASES, make_case, measurement_of

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import DataFileError, UndefinedError
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.measurement.restarts import combine_restarts
from pytest_genderbias.statistics.inference.intervals import Interval, Null


@pytest.fixture(scope="module")
def small() -> Measurement:
    return measure("lm-occupation", load_model("demo-lm"), limit=20, cache=None)


def returned(measurement: Measurement) -> Measurement:
    return Measurement.from_dict(json.loads(json.dumps(measurement.to_dict(), allow_nan=False)))


@pytest.mark.parametrize("name", CASES)
def test_a_measurement_of_every_family_comes_back_from_json(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = measurement_of(make_case(name, tmp_path_factory))
    after = returned(before)
    assert after == before
    assert after.to_dict() == before.to_dict()
    assert (after.main, after.value, after.interval, after.direction) == (
        before.main,
        before.value,
        before.interval,
        before.direction,
    )
    for key, array in before.items.items():
        assert after.items[key].dtype == array.dtype and after.items[key].tobytes() == array.tobytes()
    for statistic in before.values:
        assert after.sampled(statistic) == before.sampled(statistic)
    assert list(after.sums) == list(before.sums)


@pytest.mark.parametrize("limit", [None, 90])
def test_a_real_measurement_comes_back_with_null_control_and_restarts(limit: int | None) -> None:
    one = measure("lm-occupation", "demo-lm", limit=limit, cache=None, null=40)
    assert one.null and returned(one) == one
    other = replace(one, values={name: None if v is None else v + 0.1 for name, v in one.values.items()})
    assert other != one and returned(other) != one
    combined = combine_restarts([one, other, one], [0, 1, 2])
    assert combined.restarts == 3 and returned(combined) == combined


def test_arrays_are_compared_bit_for_bit() -> None:
    one = measure("lm-occupation", "demo-lm", limit=90, cache=None)
    name = next(key for key, array in one.items.items() if array.dtype.kind == "f")
    changed = one.items[name].copy()
    changed.flat[0] = np.nextafter(changed.flat[0], np.inf)
    assert replace(one, items={**one.items, name: changed}) != one
    assert replace(one, items={**one.items, name: one.items[name].copy()}) == one


@given(
    values=st.lists(st.one_of(st.none(), st.floats(), st.floats(width=32).map(np.float32)), min_size=1, max_size=4),
    record=st.dictionaries(
        st.text(),
        st.one_of(
            st.text(), st.integers(), st.booleans(), st.floats(), st.floats().map(np.float64), st.tuples(st.floats())
        ),
    ),
    array=st.lists(st.floats(), max_size=5),
    labels=st.lists(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])), max_size=3),
)
def test_no_number_or_text_is_lost(small: Measurement, values: list, record: dict, array: list, labels: list) -> None:
    intervals = {f"s{i}": Interval(-np.inf, v or 0.0, 0.95, "items", "t") for i, v in enumerate(values)}
    statistics = dict.fromkeys(intervals, small.statistics[small.main])
    before = replace(
        small,
        values={f"s{i}": v for i, v in enumerate(values)},
        intervals=intervals,
        bounds=intervals,
        statistics=statistics,
        records=[record],
        null={"s0": Null("labels", 3, float("nan"), 0.0, float("inf"), 0.5)},
        items={"array": np.asarray(array), "labels": np.asarray(labels, dtype=np.str_), "file": np.float32(1.5)},
    )
    text = json.dumps(before.to_dict(), allow_nan=False)
    after = Measurement.from_dict(json.loads(text))
    assert after == before and json.dumps(after.to_dict(), allow_nan=False) == text


def test_sorted_keys_keep_the_main_statistic(small: Measurement) -> None:
    text = json.dumps(small.to_dict(), sort_keys=True)
    assert Measurement.from_dict(json.loads(text)).main == small.main


def test_fewer_records_and_no_arrays_make_a_report(small: Measurement) -> None:
    assert len(small.to_dict(records=1)["records"]) == len(small.worst(1)) < len(small.records)
    report = replace(small, records=[{"x": float("nan"), "y": np.float32(0.5)}]).to_dict(arrays=False)
    assert report["records"] == [{"x": None, "y": 0.5}]
    assert report.keys() == small.to_dict().keys() - {"arrays", "sums", "examples"}
    read = Measurement.from_dict(report)
    assert (read.to_dict(arrays=False), read.items) == (report, {})
    with pytest.raises(UndefinedError):
        read.item_sums(read.main)
    with pytest.raises(DataFileError, match="missing or unknown: sums"):
        Measurement.from_dict({key: value for key, value in small.to_dict().items() if key != "sums"})


def test_an_array_of_objects_is_refused_and_not_pickled(small: Measurement) -> None:
    with pytest.raises(TypeError, match="the array 'x' holds Python objects"):
        replace(small, items={"x": np.asarray([{}])}).to_dict()


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: None, r"measurement: expected a mapping, got None"),
        (lambda d: {**d, "schema": 2}, r"measurement: expected schema 1, got 2; read it with the version"),
        (lambda d: {**d, "more": 1}, r"missing or unknown: more"),
        (lambda d: {k: v for k, v in d.items() if k != "values"}, r"missing or unknown: values"),
        (lambda d: {**d, "n": "12"}, r"measurement.n: expected a whole number, got '12'"),
        (lambda d: {**d, "n": True}, r"measurement.n: expected a whole number, got True"),
        (lambda d: {**d, "values": {d["main"]: "x"}}, r"measurement.values.\w+: expected a number or null, got 'x'"),
        (
            lambda d: {**d, "intervals": {"a": {"low": 1}}},
            r"measurement.intervals.a: expected the keys low, high, .* missing",
        ),
        (lambda d: {**d, "notes": [1]}, r"measurement.notes\[0\]: expected a text, got 1"),
        (lambda d: {**d, "main": "no"}, r"measurement.main: expected one of .*, got 'no'"),
        (lambda d: {**d, "main": []}, r"measurement.main: expected one of .*, got \[\]"),
        (lambda d: {**d, "bounds": {}}, r"measurement.bounds: expected the names .* missing"),
        (
            lambda d: {**d, "signature": {**d["signature"], "model": 1}},
            r"measurement.signature.model: expected a mapping, got 1",
        ),
        (
            lambda d: {**d, "signature": {**d["signature"], "settings": {"restarts": "x"}}},
            r"settings.restarts: expected a whole number",
        ),
        (
            lambda d: {**d, "notes": [{"float": "zero"}]},
            r"measurement.notes\[0\]: expected a text, got {'float': 'zero'}",
        ),
        (
            lambda d: {**d, "records": nested(100)},
            r"measurement.records: expected at most 64 mappings and lists inside each other",
        ),
        (
            lambda d: {**d, "arrays": "AAAA"},
            r"measurement.arrays: expected an .npz archive, got a damaged one: BadZipFile",
        ),
        (
            lambda d: {**d, "arrays": d["arrays"][:-40]},
            r"measurement.arrays: expected an .npz archive, got a damaged one",
        ),
        (lambda d: {**d, "arrays": "@"}, r"measurement.arrays: expected an .npz archive in base64, got '@'"),
    ],
)
def test_damaged_data_are_refused_with_what_was_expected_and_got(small: Measurement, change, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        Measurement.from_dict(change(small.to_dict()))


@pytest.mark.parametrize(
    ("suite", "model", "options", "over", "templates"),
    [
        ("lm-occupation", "demo-lm", {}, "occupations and templates", 4),
        ("nli-occupation", "demo-nli", {"limit": 900}, "words for occupation (6 words in 1 template fixed)", 0),
        ("nli-religion", "demo-nli", {"limit": 900, "templates": "both"}, "words for polarity and templates", 9),
    ],
)
def test_intervals_say_what_they_are_over(
    suite: str, model: str, options: dict[str, object], over: str, templates: int
) -> None:
    """Values by template are those of all cases: two-way intervals are never within those over items alone."""
    found = measure(suite, model, cache=None, **options)
    interval = found.interval
    assert interval is not None and interval.over == over
    assert interval.templates >= templates if templates else interval.templates == 0
    assert found.item_sums(found.main).total == pytest.approx(found.value, rel=1e-9)
