"""The JSON Schema of gate files, held against the reader of gate files: both accept and refuse the same."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.command_lines import type_command
from support.snippets import snippets

from pytest_genderbias.errors import DataFileError
from pytest_genderbias.gates.gate_file import read_gates
from pytest_genderbias.mitigation.harness.file import mitigation_schema, read_mitigations
from pytest_genderbias.reports.json_schema import gates_schema
from pytest_genderbias.suites.suite import load_suite
from pytest_genderbias.text.located_yaml import parse_map, plain
from pytest_genderbias.text.schema import LocatedMap

jsonschema = pytest.importorskip("jsonschema", reason="the schema is checked with jsonschema")
ROOT = Path(__file__).resolve().parents[2]
_load = cache(load_suite)


@cache
def validator() -> Any:
    schema = gates_schema(mitigation_schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def written_texts() -> list[tuple[str, str]]:
    """Return the gate files of the checkout, and those that its pages show."""
    files = [(str(path.relative_to(ROOT)), path.read_text("utf-8")) for path in ROOT.glob("examples/**/*.bias.yaml")]
    shown = [
        (f"{page.relative_to(ROOT)}:{snippet.line}", snippet.text)
        for page in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
        for snippet in snippets(page.read_text("utf-8"))
        if snippet.language == "yaml" and re.search("^(gates|mitigate):", snippet.text, re.MULTILINE)
    ]
    assert len(files) > 8 and len(shown) > 15
    return files + shown


def texts_of_tests() -> list[tuple[str, str]]:
    """Return the gate files that the tests write as one text, right and wrong ones."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.value)
        for path in sorted(ROOT.glob("tests/**/*.py"))
        if re.search("(gates|mitigate):", text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and re.match(r"\s*(gates|mitigate):\s", str(node.value))
    ]


def refusal(data: LocatedMap) -> str | None:
    """Return why the reader refuses a file; ``None`` if it does not."""
    try:
        for key, read in (("gates", read_gates), ("mitigate", read_mitigations)):
            if key in data:
                read(data, load=_load)  # type: ignore[operator]
    except DataFileError as error:
        return str(error)
    return None


def messages(data: Any) -> list[str]:
    """Return what the schema finds wrong."""
    return [f"{list(one.absolute_path)}: {one.message}" for one in validator().iter_errors(plain(data))]


def test_every_gate_file_of_the_checkout_is_valid() -> None:
    for place, text in written_texts():
        assert not messages(parse_map(text, place)), place


def test_every_gate_file_of_the_tests_is_valid_if_it_can_be_read() -> None:
    read = 0
    for place, text in texts_of_tests():
        try:
            data = parse_map(text, place)
        except DataFileError:
            continue
        if refusal(data) is None:
            read += 1
            assert not messages(data), place
    assert read > 10


def drawn(values: Mapping[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return mappings with some of the keys and their first value, which is right, but for one that has any value."""
    right = {key: some[0] for key, some in values.items()}
    few = st.fixed_dictionaries({}, optional={key: st.just(value) for key, value in right.items()})
    one = st.sampled_from([(key, value) for key, some in values.items() for value in some])
    return st.builds(lambda entry, changed: {**entry, changed[0]: changed[1]}, few, one)


_SETTINGS = [
    {"limit": 5}, {}, {"limit": 0}, {"limit": None}, {"limit": "none"}, {"seed": -1}, {"seed": 0}, {"batch_tokens": 1},
    {"speed": 1}, {"templates": "both"}, {"templates": "x"}, {"items": "wide"}, {"single_word_only": 3}, 3,
]  # fmt: skip
_ABILITY = [
    "none: random",
    "own.yaml",
    "own.txt",
    ["own.yaml"],
    [],
    [3],
    None,
    {"none": "x"},
    {"none": "x", "of": 1},
    3,
]
GATES: dict[str, list[Any]] = {
    "suite": ["lm-occupation", "lm-job", 3, ""],
    "statistic": ["aggregate_bias", "bias", 3, None],
    "at_most": [0.3, "much", None, True],
    "baseline": [True, False, "yes", None],
    "no_worse_than": ["a", 3, ""],
    "same_as": ["a", 3],
    "margin": [0.1, "20%", "much", "auto", -1, None, True, [1]],
    "generalise": [True, False, "much"],
    "range": [True, False, 1],
    "settings": [*_SETTINGS, {"seeds": 2}, {"seeds": 1}, {"seeds": None}],
    "name": ["x", 3, "", None],
    "models": [["a"], [], [1], [None], "a"],
    "optional": [True, False, 0],
    "ability": _ABILITY,
    "tolerance": ["auto"],
    "colour": ["red"],
}
_REDUCTION = {"suite": "nli-occupation", "by": 0.3}
REDUCTIONS: dict[str, list[Any]] = {
    "suite": ["nli-occupation", "nli-job", 3],
    "by": [0.3, 0, 1, 1.5, -1, "x", None, True],
    "statistic": ["net_neutral", "bias", None],
    "budget": [{"accuracy": "5%"}, {"accuracy": 0.1}, {"accuracy": -1}, {"accuracy": "much"}, {}],
    "superficial": [False, "no"],
    "back": [0.5, -1],
    "overshoot": [0.1, -1, "x"],
    "settings": [
        {"unit": "pair"},
        {"unit": "word"},
        {"limit": 0},
        {"seeds": 2},
        {"ability": "none: x"},
        {"ability": "x"},
    ],
    "name": ["x", 3],
    "optional": [True, "x"],
    "at_most": [1],
}
MITIGATIONS: dict[str, list[Any]] = {
    "method": [
        "wed", ["wed", "projection"], {"name": "wed", "components": 2}, {"name": "wed", "components": 0}, "cdb", 3, [],
        {"name": "wed", "colour": 1}, {"components": 2}, ["wed", {"name": "projection", "components": "two"}],
        ["wed", 3],
        {"name": "wed", "when": "never"},
    ],
    "recipe": [{"name": "lstm", "dropout": 0.2}, "lstm", "nope", {"name": "lstm", "dropout": 2},
        {"name": "lstm", "epochs": "x"}, 3],
    "seeds": [3, 0, [1, 2], [1, 1], [-1], ["a"], True],
    "controls": [2, 0, "x"],
    "models": [["a"], [], "a"],
    "budget": [{"perplexity": "5%"}, {"perplexity": "x"}, 3],
    "optional": [True, 3],
    "choose_on": [2],
    "best": [{"lowest": "nli-occupation/net_neutral"}],
    "reduces": [[_REDUCTION], [], [3], [{**_REDUCTION, "by": 2}]],
    "colour": ["red"],
}  # fmt: skip


def compare(data: Mapping[str, Any]) -> bool:
    """Check that reader and schema agree, and return whether they accept a file."""
    located = parse_map(yaml.safe_dump(dict(data), sort_keys=False), "release.bias.yaml")
    refused, wrong = refusal(located), messages(located)
    assert (refused is None) == (not wrong), (data, refused, wrong)
    return refused is None


_SETTING = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@_SETTING
@given(drawn(GATES))
@example({"suite": "lm-occupation", "same_as": "a", "no_worse_than": "b", "margin": 0.1})
@example({"suite": "lm-occupation", "baseline": True, "margin": "20%", "settings": {"seeds": 2}})
def test_gates_are_refused_by_both_or_by_none(entry: dict[str, Any]) -> None:
    compare({"gates": [entry]})


@_SETTING
@given(drawn(REDUCTIONS))
def test_reductions_are_refused_by_both_or_by_none(entry: dict[str, Any]) -> None:
    compare({"mitigate": [{"method": "wed", "reduces": [entry]}]})


@_SETTING
@given(drawn(MITIGATIONS))
def test_mitigations_are_refused_by_both_or_by_none(entry: dict[str, Any]) -> None:
    compare({"mitigate": [_with_recipe(entry)]})


def _with_recipe(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with a recipe: without one, no budget can be measured."""
    return {"recipe": {"name": "lstm", "dropout": 0.2}, **entry}


def alone(values: Mapping[str, list[Any]], *keys: str) -> list[dict[str, Any]]:
    """Return an entry for each value: with it, and with the right values of some keys."""
    right = {key: values[key][0] for key in keys}
    return [{**right, key: value} for key, some in values.items() for value in some]


def test_each_value_is_refused_by_both_or_by_none() -> None:
    for entry in (*alone(GATES, "suite", "at_most"), *alone(GATES, "suite", "baseline", "no_worse_than")):
        compare({"gates": [entry]})
    for entry in alone(REDUCTIONS, "suite", "by"):
        compare({"mitigate": [{"method": "wed", "reduces": [entry]}]})
    for entry in alone(MITIGATIONS, "method", "recipe", "reduces"):
        compare({"mitigate": [entry]})


def test_entries_with_many_keys_are_accepted() -> None:
    """Agreement is not that of refusals only."""
    of_one_way = {"no_worse_than", "tolerance", "colour"}, {"back", "at_most"}, {"choose_on", "best", "colour"}
    gate, reduction, mitigation = (
        {key: some[0] for key, some in values.items() if key not in left_out}
        for values, left_out in zip((GATES, REDUCTIONS, MITIGATIONS), of_one_way, strict=True)
    )
    assert compare({"gates": [gate]})
    assert compare({"mitigate": [{"method": "wed", "reduces": [reduction]}]})
    assert compare({"mitigate": [mitigation]})


def test_the_command_prints_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = type_command(pytester, monkeypatch, "schema")
    assert printed.status == 0 and json.loads(printed.out) == json.loads(json.dumps(gates_schema(mitigation_schema)))
    of_report = type_command(pytester, monkeypatch, "schema", "report")
    assert json.loads(of_report.out)["title"] == "Report of pytest-genderbias"
