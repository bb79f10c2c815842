"""``--bias-labels``: the names of a classifier's outputs, where its config names none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.tiny_checkpoints import save_checkpoint


def test_labels_in_the_order_of_the_outputs(project: pytest.Pytester, tmp_path: Path) -> None:
    folder = save_checkpoint("bert-nli", tmp_path / "nli")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"], config["label2id"] = {str(k): f"LABEL_{k}" for k in range(3)}, None
    (folder / "config.json").write_text(json.dumps(config))
    run = (f"--bias-model=m={folder}", "--bias-suite=nli-occupation", "--bias-limit=32", "--bias-json=r.json")
    result = project.runpytest(*run)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["ModelError: *LABEL_0, LABEL_1, LABEL_2*--bias-labels=entailment,neutral,contradiction*"]
    )
    neutral = []
    for labels in ("entailment,neutral,contradiction", "neutral,entailment,contradiction"):
        project.runpytest(*run, f"--bias-labels={labels}").assert_outcomes(passed=1)
        (measurement,) = json.loads(project.path.joinpath("r.json").read_text())["measurements"]
        neutral.append(measurement["values"]["net_neutral"])
    assert neutral[0] != neutral[1], "another output is the neutral one"
