"""JSON from files: one value, of bounded depth, finite, and without a key twice; all else is one error with the
place.
"""

from __future__ import annotations

import pytest

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.text.plain_files import MOST_DEPTH, check_depth, parse_json

NESTED = "[" * MOST_DEPTH + "]" * MOST_DEPTH


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"a.json:1: not valid JSON: Expecting value at column 1"),
        ('{"a": 1,\n "b": }', r"a.json:2: not valid JSON"),
        ("[NaN]", r"a.json: expected finite numbers, got NaN"),
        ("[-Infinity]", r"a.json: expected finite numbers, got -Infinity"),
        ("[1e999]", r"a.json: expected finite numbers, got 1e999"),
        ("[" + "9" * 5000 + "]", r"a.json: not valid JSON: a number of thousands of digits"),
        ('{"b": {"a": 1, "a": 2}}', r"a.json: expected every key once, got 'a' twice"),
        (f"[{NESTED}]", rf"a.json: expected at most {MOST_DEPTH} mappings and lists inside each other, got more"),
        ("[" * 200_000, r"a.json: expected at most 64"),
        ('{"a":' * 200_000, r"a.json: expected at most 64"),
        ("\ufeff1", r"a.json"),
    ],
)
def test_what_is_no_json_of_a_file_is_one_error(text: str, message: str) -> None:
    with pytest.raises(DataFileError, match=message) as caught:
        parse_json(text, "a.json")
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_values_are_those_of_python_s_reader() -> None:
    assert parse_json(NESTED, "a.json") != []
    assert parse_json('{"a": [1, -2.5e-3, true, null, "\\ud800"]}', "a.json") == {
        "a": [1, -2.5e-3, True, None, "\ud800"]
    }


def test_the_depth_of_values_in_memory_is_bounded_without_recursion() -> None:
    value: object = 1
    for _ in range(100_000):
        value = {"a": [value]}
    with pytest.raises(DataFileError, match="report: expected at most 64"):
        check_depth(value, "report")
