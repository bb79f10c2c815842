"""Trainings in several processes, as ``accelerate launch`` and ``torchrun`` start them: one model from several
processes, written once, and a refusal of what cannot be divided.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias import load_model
from pytest_genderbias.errors import NotApplicableError, SettingError
from pytest_genderbias.measurement.processes import process_count, refuse_several
from pytest_genderbias.mitigation.harness.run import train_with
from pytest_genderbias.mitigation.methods.base import Method
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.recipes.trainer import _divided, last_checkpoint, run_trainer

SUPPORT = Path(__file__).parents[1] / "support"
ROWS = [
    {"premise": "the accountant ate a bagel", "hypothesis": " ".join([word] * 4), "label": label}
    for label, word in (("entailment", "music"), ("neutral", "the"), ("contradiction", "doctor"))
] * 16
SETTINGS = {"batch_size": 4, "epochs": 2, "learning_rate": 1e-3, "max_length": 32}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def command(processes: int, script: str, *arguments: object) -> list[str]:
    """Return the command of a script in several processes, as ``accelerate launch`` starts those of several GPUs, or in
    one.
    """
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    return [sys.executable, *(launch if processes > 1 else []), str(SUPPORT / script), *map(str, arguments)]


def launched(processes: int, script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script in several processes, or in one."""
    return subprocess.run(
        command(processes, script, *arguments), capture_output=True, text=True, timeout=550, env=ONE_THREAD
    )


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TEXT = "the accountant ate a bagel and the doctor met the nurse after the music\n\n" * 400
MASKED = {
    "name": "masked-lm", "batch_size": 4, "steps": 12, "learning_rate": 1e-3, "max_length": 16,
    "arguments": {"gradient_accumulation_steps": 2}
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SETTINGS, MASKED], ids=["nli", "masked-lm"])
def test_two_processes_train_the_model_that_one_does(settings, rows: Path, tmp_path: Path) -> None:
    """Each of two processes takes half of a batch, or one of two that are added up; without dropout, of which each has
    its own.
    """
    if settings is MASKED:
        rows = tmp_path / "text.txt"
        rows.write_text(TEXT)
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    model = save_checkpoint("bert", tmp_path / "start", **NO_DROPOUT)
    two, one = (
        launched(processes, "divided_training.py", model, rows, tmp_path / name, json.dumps(settings))
        for processes, name in ((2, "two"), (1, "one"))
    )
    assert (two.returncode, one.returncode) == (0, 0), two.stderr[-3000:] + one.stderr[-3000:]
    assert two.stdout.count("model.safetensors") == 2
    ours, theirs = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("two", "one"))
    before = load_file(model / "model.safetensors")
    assert ours.keys() == theirs.keys()
    seen = [name for name in ours if not name.endswith("key.bias")]  # which changes no output: Adam scales its rounding
    assert len(seen) == len(ours) - 2
    assert max(float(np.abs(ours[name] - theirs[name]).max()) for name in seen) < 1e-5
    assert max(float(np.abs(ours[name] - before[name]).max()) for name in ours.keys() & before.keys()) > 1e-3
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["model"]
    log = [
        json.loads((tmp_path / name / "model" / "training.json").read_text())["log"][-1]["step"]
        for name in ("two", "one")
    ]
    assert log == [12 if settings is MASKED else 24] * 2


RUNS = """\
title: Doe 2020
order: [table-1]
runs:
  cda:
    title: CDA of a small network
    minutes: 1
    small:
      model: {model}
      method: [{{name: cda}}]
      recipe:
        {{name: masked-lm, corpus: {corpus}, batch_size: 4, steps: 120, learning_rate: 0.001, max_length: 16,
          arguments: {{gradient_accumulation_steps: 2, save_steps: 20}}}}
      seeds: 2
      measure: [{{suite: lm-occupation, limit: 40}}]
"""
TABLE = """\
title: Bias of a language model
columns: {Before: cda before, After: cda after}
rows:
  AOB: {ours: lm-occupation/aggregate_bias, paper: [0.054, 0.05]}
"""


@pytest.mark.slow
def test_a_papers_run_in_two_processes_has_the_figures_of_one_and_goes_on_after_one_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    psutil = pytest.importorskip("psutil")
    configs = tmp_path / "configs" / "doe2020"
    configs.mkdir(parents=True)
    (corpus := tmp_path / "text.txt").write_text(TEXT)
    model = save_checkpoint("bert", tmp_path / "start", **NO_DROPOUT)
    (configs / "runs.yaml").write_text(RUNS.format(model=model, corpus=corpus))
    (configs / "table-1.yaml").write_text(TABLE)
    run = ("divided_paper.py", configs.parent, tmp_path / "two")
    with subprocess.Popen(command(2, *run), stderr=subprocess.PIPE, text=True, env=ONE_THREAD) as killed:
        while killed.poll() is None and not list(tmp_path.glob("two/*/checkpoints/checkpoint-*/trainer_state.json")):
            time.sleep(0.1)
        psutil.Process(killed.pid).children()[1].kill()
        _, said = killed.communicate(timeout=60)
    assert killed.returncode and "SIGKILL" in said, said
    assert not (tmp_path / "two" / "results").exists()
    two, one = launched(2, *run), launched(1, *run[:2], tmp_path / "one")
    assert (two.returncode, one.returncode) == (0, 0), two.stderr[-3000:] + one.stderr[-3000:]
    assert two.stdout.count("made in") == 1, "the first process alone prints"
    ours, theirs = (json.loads((tmp_path / name / "results" / "cda.json").read_text()) for name in ("two", "one"))
    assert ours["figures"].keys() == theirs["figures"].keys()
    for name, figure in ours["figures"].items():
        assert figure["values"] == pytest.approx(theirs["figures"][name]["values"], abs=1e-4), name
    trained = [sorted(path.name for path in (tmp_path / name).glob("masked-lm-*")) for name in ("two", "one")]
    assert trained[0] == trained[1] and len(trained[0]) == 4


def test_what_cannot_be_divided_is_refused(monkeypatch: pytest.MonkeyPatch, rows: Path, tmp_path: Path) -> None:
    refuse_several("nothing")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert process_count() == 2
    message = r"cannot be divided between processes, and this is one of 2 \(WORLD_SIZE\).*start it with python"
    with pytest.raises(NotApplicableError, match="nor of a language model on a corpus, " + message):
        run_trainer(None, None, tmp_path / "run", 0)  # type: ignore[arg-type]
    recipe = make_recipe("nli", training=str(rows), evaluation=str(rows))
    with pytest.raises(NotApplicableError, match=r"does not call share_trainings\(\) " + message):
        train_with(recipe, Method(), load_model("demo-nli"), recipe.rows(), 0, tmp_path / "run")
    with pytest.raises(NotApplicableError, match="the recipe lstm " + message):
        train_with(make_recipe("lstm", corpus=str(rows)), Method(), None, [], 0, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_step_that_processes_cannot_share_equally_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 6}
    assert _divided(added) == added
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert _divided(added) == {**added, "gradient_accumulation_steps": 2}
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert _divided(added) == {**added, "per_device_train_batch_size": 2, "average_tokens_across_devices": False}
    monkeypatch.setenv("WORLD_SIZE", "5")
    with pytest.raises(SettingError, match="5 processes cannot divide a step equally"):
        _divided(added)


def test_a_checkpoint_of_several_processes_is_complete_with_the_state_of_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch
    from safetensors.numpy import save_file

    def checkpoint(step: int, states: list[str]) -> Path:
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        for name in ("trainer_state.json", "config.json"):
            (folder / name).write_text("{}")
        save_file({"w": np.zeros(1)}, folder / "model.safetensors")
        for name in ("optimizer.pt", "scheduler.pt", *states):
            torch.save({}, folder / name)
        return folder

    monkeypatch.setenv("WORLD_SIZE", "2")
    whole = checkpoint(1, ["rng_state_0.pth", "rng_state_1.pth"])
    half = checkpoint(2, ["rng_state_0.pth"])
    assert last_checkpoint(tmp_path) == str(whole)
    assert not half.exists()


def test_a_run_of_pytest_in_several_processes_is_a_usage_error(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = project.runpytest("--bias-model=m=demo-nli", "--bias-suite=nli-occupation")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --bias-model: this is one of 2 processes (WORLD_SIZE) that accelerate launch *"]
    )
