"""Evaluation results in a model card, from objects alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.hand_made import hand_made
from support.run_reports import PASSED, hostile_report, run_report, settled

from pytest_genderbias.errors import BiasError
from pytest_genderbias.reports.model_card import write_model_card

huggingface_hub = pytest.importorskip("huggingface_hub", reason="model cards are written with huggingface_hub")

CARD = """---
license: mit # ours since 2024
released: 2024-01-02
model-index:
- name: my-model
  results:
  - task:
      type: text-classification
    dataset:
      name: SNLI
      type: snli
    metrics:
    - type: accuracy
      value: 0.90
      verified: true
      verifyToken: abc
    unknown_key: kept
# the tags of the Hub
tags:
- nli
---
# My model

--- not metadata ---
model-index: text
"""


def results_of(path: Path) -> list[huggingface_hub.EvalResult]:
    results: list[huggingface_hub.EvalResult] = huggingface_hub.ModelCard.load(path).data.eval_results
    return results


def test_a_new_card_is_read_back_by_the_hubs_own_classes(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    write_model_card(run_report(), path)
    [result] = results_of(path)
    assert (result.task_type, result.dataset_name, result.metric_type) == ("other", "tiny (pytest-genderbias)", "share")
    assert (result.metric_args["worse"], result.metric_args["neutral"]) == ("higher", 0.0)
    assert result.metric_value == pytest.approx(0.25)
    assert result.metric_args["interval_95"] == pytest.approx([0.25, 0.25], abs=1e-5)
    assert result.metric_args["verdicts"] == ["baseline 0.25 + 0.02: worse"]
    assert result.dataset_args == {"cases": 12, "cases_of_suite": 12, "measured_by": "pytest-genderbias 0.1.0"}
    assert "http" not in path.read_text(), "no page of the package is published"
    assert huggingface_hub.ModelCard.load(path).data.model_name == "m"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_only_our_results_are_replaced(tmp_path: Path, end: str) -> None:
    path = tmp_path / "README.md"
    path.write_bytes(CARD.replace("\n", end).encode())
    write_model_card(run_report(), path)
    once = path.read_bytes().decode()
    assert set(once.replace(end, "")).isdisjoint("\r\n")
    lines, kept = once.split(end), CARD.split("\n")
    assert lines[:3] == kept[:3]
    assert lines[-9:] == kept[-9:], "what follows, its comment and the text of the card"
    first, ours = yaml.safe_load(once.split("---")[1])["model-index"][0]["results"]
    assert first == yaml.safe_load(CARD.split("---")[1])["model-index"][0]["results"][0]
    assert ours["dataset"]["type"] == "pytest-genderbias-tiny"
    assert [result.metric_value for result in results_of(path)] == pytest.approx([0.9, 0.25])
    write_model_card(run_report(), path)
    assert path.read_bytes().decode() == once
    write_model_card(run_report(measurements=(hand_made(0.1, suite="other"),)), path)
    assert [result.dataset_name for result in results_of(path)] == ["SNLI", "other (pytest-genderbias)"]


@pytest.mark.parametrize(
    "card",
    ["", "# A model\n", "---\nlicense: mit\n---\n", "---\n---\ntext\n", "---\nmodel-index: []\nlicense: mit\n---\n"],
)
def test_cards_without_results_get_them(tmp_path: Path, card: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(card)
    write_model_card(run_report(), path)
    text = path.read_text()
    assert len(results_of(path)) == 1
    assert text.endswith(card.rpartition("---\n")[2])
    assert ("license: mit\n" in text) == ("license: mit\n" in card)


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("---\nlicense: [\n---\n", ":*not valid YAML"),
        ("---\nlicense: mit\nmodel-index: 3\n---\n", ":3: model-index: expected a list of models"),
        ("---\nmodel-index: [{name: m, results: [3]}]\n---\n", "model-index: expected a list of models"),
        ("---\n{license: mit, model-index: []}\n---\n", "cannot be changed line by line"),
        ("---\n- a list\n---\n", "expected a mapping"),
    ],
)
def test_a_card_that_cannot_be_changed_stays_as_it_is(tmp_path: Path, card: str, message: str) -> None:
    path = tmp_path / "README.md"
    path.write_text(card)
    with pytest.raises(BiasError) as error:
        write_model_card(run_report(), path)
    assert message.removeprefix(":*") in str(error.value)
    assert str(error.value).startswith(str(path))
    assert path.read_text() == card


def test_a_card_is_of_one_model(tmp_path: Path) -> None:
    report = run_report(measurements=(hand_made(), hand_made(model="release")))
    with pytest.raises(BiasError, match="the card is of one model, and the run measured m, release; measure one"):
        write_model_card(report, tmp_path / "README.md")
    report = replace(report, run=replace(report.run, settings={"no_worse_than": "release"}))
    write_model_card(report, tmp_path / "README.md")
    assert len(results_of(tmp_path / "README.md")) == 1
    with pytest.raises(BiasError, match="nothing was measured, so that the card stays as it is"):
        write_model_card(run_report(measurements=()), tmp_path / "README.md")


def test_values_that_are_missing_are_left_out_and_judged_ones_are_there(tmp_path: Path) -> None:
    values = {"share": None, "other": 0.1, "third": 0.2}
    first = hand_made()
    about = dict.fromkeys(values, first.statistics["share"])
    measurement = hand_made(
        values=values, statistics=about, intervals=dict.fromkeys(values), bounds=dict.fromkeys(values)
    )
    write_model_card(
        run_report(measurements=(measurement,), judgements=(settled(PASSED, "passed"),)), tmp_path / "c.md"
    )
    assert [result.metric_type for result in results_of(tmp_path / "c.md")] == ["other"]


def test_hostile_texts_are_cut_and_leave_a_card_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    write_model_card(hostile_report(), path)
    text = path.read_text(encoding="utf-8")
    assert len(text) < 10_000
    [result] = results_of(path)
    assert result.metric_value == pytest.approx(0.25)
