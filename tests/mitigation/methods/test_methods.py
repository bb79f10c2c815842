"""Methods refuse wrong settings when they are made: before a gate file is run, and before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_genderbias.errors import BiasError, DataFileError, SettingError
from pytest_genderbias.mitigation import make_method
from pytest_genderbias.mitigation.methods.base import Columns, Method
from pytest_genderbias.mitigation.methods.registry import METHODS, RECIPES

STORED = (Path(__file__).parent / "stored_settings.jsonl").read_text()  #: a line a method


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("cda", {"intervention": "clever"}, "intervention should be one of naive, grammatical"),
        ("cda", {"sides": "three"}, "sides should be one of one, two"),
        ("cda", {"neutral": "thrice"}, "neutral should be one of"),
        ("cda", {"sides": "one", "neutral": "twice"}, "twice only with two sides"),
        ("cda", {"pairs": "no-pairs"}, "no-pairs"),
        ("cda", {"pairs": None}, "nothing is swapped without names; set names to same, other, random"),
        ("cda", {"initials": "A-M"}, "initials=A-M selects no name without names"),
        ("cda", {"names": "same", "initials": "a-m"}, "initials should be two letters such as A-M, got 'a-m'"),
        ("cda", {"names": "same", "initials": "M-A"}, "no name of names-us begins with M-A"),
        ("projection", {"components": 0}, "components should be a whole number of at least 1, got 0"),
        ("projection", {"pairs": "no-pairs"}, "no-pairs"),
        ("projection", {"words": "no-words"}, "no-words"),
        (
            "projection",
            {"layers": "some"},
            "layers should be embeddings, all or upper, or numbers from 0 on, got 'some'",
        ),
        ("projection", {"layers": [3, -1]}, "layers should be"),
        ("inlp", {"rounds": 0}, "rounds should be"),
        ("inlp", {"pairs": "no-pairs"}, "no-pairs"),
        ("wed", {"components": 0}, "components should be"),
        ("wed", {"lengths": "long"}, "lengths should be one of unit, kept, got 'long'"),
        ("wed", {"pairs": "no-pairs"}, "no-pairs"),
        ("wed", {"pairs": [["he", "she"], ["man", "she"]]}, "'she' has two partners"),
        ("regularisation", {"strength": -1.0}, "strength should be a number of 0 or more, got -1.0"),
        ("regularisation", {"strength": float("nan")}, "strength should be"),
        ("regularisation", {"share": 2.0}, "share should be above 0 and at most 1"),
        ("regularisation", {"matrices": "all"}, "matrices should be one of input, output, both"),
        ("regularisation", {"pairs": "no-pairs"}, "no-pairs"),
        ("scrubbing", {"words": "no-words"}, "no-words"),
        ("scrubbing", {"names": "no-names"}, "no-names"),
        ("iterative-scrubbing", {"rounds": 0}, "rounds should be a whole number of at least 1, got 0"),
        ("iterative-scrubbing", {"held_out": 1.0}, "held_out should be a number above 0 and below 1"),
        ("iterative-scrubbing", {"ridge": 0}, "ridge should be"),
    ],
)
def test_wrong_settings_are_refused_when_a_method_is_made(name: str, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BiasError, match=said):
        make_method(name, **wrong)


def test_a_broken_list_of_pairs_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.yaml"
    path.write_text("name: mine\nsource: me\nlicence: none\nentries:\n  - {word: he}\n")
    with pytest.raises(DataFileError, match=rf"{path}:"):
        make_method("cda", pairs=str(path))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_made_by_its_defaults(name: str) -> None:
    assert make_method(name) == make_method(name)
    assert make_method(name).settings()["method"] == name


def test_the_settings_that_identify_stored_runs_do_not_change() -> None:
    """Run folders are named by these bytes: where a line changes, everything that it trained is trained again. A new
    method adds its line.
    """
    control = make_method("projection", pairs=[["he", "she"]], layers=[1, 2]).control(3)
    both = make_method("scrubbing", words=["he"]) & make_method("cda", names="random")
    methods = [*map(make_method, METHODS), Method(), both, control]
    assert "".join(f"{json.dumps(method.settings())}\n" for method in methods if method is not None) == STORED


def test_a_method_of_ones_own_needs_a_name_or_its_runs_were_those_of_no_method() -> None:
    with pytest.raises(SettingError, match="the method Mine needs a name of its own"):

        class Mine(Method):
            def rows(self, rows, columns, seed):  # type: ignore[no-untyped-def]
                return rows[:1]


@pytest.mark.parametrize("name", [*METHODS, *RECIPES])
def test_the_registry_names_each_class_by_its_own_name(name: str) -> None:
    assert {**METHODS, **RECIPES}[name]().name == name


@pytest.mark.parametrize("name", METHODS)
def test_a_method_with_a_control_of_its_own_describes_it(name: str) -> None:
    """The harness reads a declared attribute, which a subclass inherits, and no attribute that may be missing."""
    method = make_method(name)
    assert bool(method.control_in_words) == (method.control(0) is not None)
    assert Method().control_in_words == ""


@pytest.mark.parametrize("name", ["cda", "scrubbing", "iterative-scrubbing", "anonymising"])
def test_a_text_that_is_none_is_named_with_its_row(name: str) -> None:
    rows = [{"text": "one", "group": "F"}, {"text": None, "group": "M"}]
    with pytest.raises(SettingError, match="row 2: expected a text in column 'text', got None"):
        make_method(name).rows(rows, Columns(("text",), None, "group"), 0)
    with pytest.raises(SettingError, match="row 1 has no column 'words'; it has text, group"):
        make_method(name).rows(rows, Columns(("words",), None, "group"), 0)


@pytest.mark.parametrize("name", ["balancing", "iterative-scrubbing"])
def test_a_group_that_is_a_list_is_refused(name: str) -> None:
    rows = [{"text": "one", "label": 0, "group": ["F", "M"]}]
    with pytest.raises(SettingError, match="row 1: expected a single value in column 'group'"):
        make_method(name).rows(rows, Columns(("text",), "label", "group"), 0)


@pytest.mark.parametrize("name", ["balancing", "iterative-scrubbing"])
def test_a_row_without_the_column_of_the_group_is_named(name: str) -> None:
    rows = [{"text": "one", "label": 0, "group": "F"}, {"text": "two", "label": 0}]
    with pytest.raises(SettingError, match="row 2 has no column 'group'; it has text, label"):
        make_method(name).rows(rows, Columns(("text",), "label", "group"), 0)
