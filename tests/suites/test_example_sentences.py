"""A sentence of each item: every model has the same one, a baseline stores it, and a failure shows it then and now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.baseline_books import write_entries
from support.hand_made import hand_made

from pytest_genderbias import load_model, measure
from pytest_genderbias.gates.baseline import Baseline
from pytest_genderbias.gates.comparison import judge_against
from pytest_genderbias.gates.item_file import load_stored, pack_measured
from pytest_genderbias.gates.limits import Limit, judge_limit
from pytest_genderbias.gates.verdicts import in_lines
from pytest_genderbias.measurement.measurement import Measurement
from pytest_genderbias.suites.summary import Example, example_arrays, read_examples


def with_sentences(shift: float = 0.0, model: str = "m", text: str = "The nurse ran.") -> Measurement:
    """Return a hand-made measurement with a sentence of two of its items, of which the second moves more."""
    known = {
        "item 0": Example("The poet ran.", {"neutral": 0.9 - shift, "entailment": 0.05}),
        "item 1": Example(text, {"neutral": 0.9 - 2 * shift, "entailment": 0.05}),
    }
    return replace(hand_made(shift, model=model), examples=known)


def example_line(text: str) -> str:
    """Return the line with the example; empty without one."""
    return next((line for line in text.splitlines() if line.startswith("  example")), "")


def test_a_failing_baseline_shows_the_sentence_that_moved_most_then_and_now(tmp_path: Path) -> None:
    first = Baseline(tmp_path, "m", "t.py", update="all")
    first.judge(with_sentences(), 0.01)
    write_entries(tmp_path, "m", "t.py", first.entries())
    judged = Baseline(tmp_path, "m", "t.py").judge(with_sentences(0.1), 0.01)
    assert example_line(in_lines(judged.shown)) == (
        "  example   The poet ran. neutral 0.9 -> 0.8, entailment 0.05 -> 0.05"
    ), "of the first of the items, which all moved by as much"
    other = Baseline(tmp_path, "m", "t.py").judge(with_sentences(0.1, text="The nurse sat."), 0.01)
    assert "The poet ran. neutral 0.9 -> 0.8" in example_line(in_lines(other.shown)), (
        "only the same sentence is compared"
    )
    silent = Baseline(tmp_path, "m", "t.py").judge(hand_made(0.1), 0.01)
    assert silent.code == "regressed" and not example_line(in_lines(silent.shown))


def test_two_models_and_a_limit_have_examples_too() -> None:
    judged = judge_against(with_sentences(0.1), with_sentences(model="then"), margin=0.01)
    assert "The poet ran. neutral 0.9 -> 0.8" in example_line(in_lines(judged.shown))
    worst = replace(with_sentences(), examples={"item 11": Example("The boss ran.", {"neutral": 0.25})})
    assert (
        example_line(in_lines(judge_limit(worst, Limit(at_most=0.2)).shown)) == "  example   The boss ran. neutral 0.25"
    )


@pytest.mark.parametrize(
    ("suite", "model", "item", "text"),
    [
        ("lm-occupation", "demo-lm", "nurse", "He is a nurse | She is a nurse"),
        ("nli-occupation", "demo-nli", "nurse", "The nurse "),
        ("coref-occupation", "demo-lm", "nurse", "The nurse "),
        ("sts-occupation", "demo-lm", "nurse", " nurse"),
        (
            "pronoun-occupation",
            "demo-lm",
            "nurse",
            "The nurse hoped that she could leave early. | The nurse hoped that he could",
        ),
    ],
)
def test_families_of_templates_have_a_sentence_of_each_item(suite: str, model: str, item: str, text: str) -> None:
    found = measure(suite, load_model(model), limit=600, cache=None)
    labels = found.item_sums(found.main).by_unit().labels.tolist()
    assert set(found.examples) == set(labels), "each item that was scored has one"
    example = found.examples[item if item in labels else labels[0]]
    assert example is not None and (text in example.text or item not in labels)
    assert example.figures and all(np.isfinite(list(example.figures.values())))
    packed = pack_measured(found)
    assert packed is not None
    stored = load_stored(packed, found.signature).examples
    assert stored.keys() == found.examples.keys()
    assert stored[labels[0]].figures == pytest.approx(found.examples[labels[0]].figures, abs=1e-4)


def test_arrays_of_another_form_are_no_examples() -> None:
    arrays = example_arrays(with_sentences().examples)
    assert read_examples(arrays).keys() == {"item 0", "item 1"}
    for name, wrong in (
        ("example.text", arrays["example.text"][:1]),
        ("example.item", np.array(["a", "b"])),
        ("example.figure.neutral", np.array([1, 2])),
        ("example.figure.neutral", np.zeros((2, 2))),
    ):
        assert not read_examples({**arrays, name: wrong})
    assert not read_examples({"id": np.array([1])}) and not example_arrays({})
