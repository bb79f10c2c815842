"""Trainings in several processes, as ``accelerate launch`` and ``torchrun`` start them: one model from several
processes, written once, and a refusal of what cannot be divided.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.tiny_checkpoints import save_checkpoint

from pytest_genderbias.errors import NotApplicableError
from pytest_genderbias.measurement.processes import process_count, refuse_several
from pytest_genderbias.mitigation.harness.run import train_with
from pytest_genderbias.mitigation.methods.registry import make_recipe, resolve_method
from pytest_genderbias.recipes.trainer import last_checkpoint, run_trainer

SCRIPT = Path(__file__).parents[1] / "support" / "divided_training.py"
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


def launched(processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the training in several processes, as ``accelerate launch`` starts those of several GPUs, or in one."""
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    return subprocess.run(
        [sys.executable, *(launch if processes > 1 else []), str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=550,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


MASKED = {"name": "masked-lm", "batch_size": 4, "steps": 12, "learning_rate": 1e-3, "max_length": 16}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [SETTINGS, MASKED], ids=["nli", "masked-lm"])
def test_two_processes_train_the_model_that_one_does_with_the_same_steps(settings, rows: Path, tmp_path: Path) -> None:
    """Two processes with batches of four, and one that adds up the gradients of two such batches; without dropout, of
    which each has its own.
    """
    if settings is MASKED:
        rows = tmp_path / "text.txt"
        rows.write_text("the accountant ate a bagel and the doctor met the nurse after the music\n\n" * 400)
    pytest.importorskip("accelerate", reason="transformers' Trainer needs accelerate")
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = save_checkpoint("bert", tmp_path / "start", **none)
    steps = {**settings, "arguments": {"gradient_accumulation_steps": 2}}
    two = launched(2, model, rows, tmp_path / "two", json.dumps(settings))
    one = launched(1, model, rows, tmp_path / "one", json.dumps(steps))
    assert (two.returncode, one.returncode) == (0, 0), two.stderr[-3000:] + one.stderr[-3000:]
    assert two.stdout.count("model.safetensors") == 2
    ours, theirs = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("two", "one"))
    before = load_file(model / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert max(float(np.abs(ours[name] - theirs[name]).max()) for name in ours) < 1e-5
    assert max(float(np.abs(ours[name] - before[name]).max()) for name in ours.keys() & before.keys()) > 1e-3
    assert sorted(path.name for path in (tmp_path / "two").iterdir()) == ["model"]
    log = [
        json.loads((tmp_path / name / "model" / "training.json").read_text())["log"][-1]["step"]
        for name in ("two", "one")
    ]
    assert log == [12, 12]


def test_what_cannot_be_divided_is_refused(monkeypatch: pytest.MonkeyPatch, rows: Path, tmp_path: Path) -> None:
    refuse_several("nothing")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert process_count() == 2
    message = r"cannot be divided between processes, and this is one of 2 \(WORLD_SIZE\).*start it with python"
    with pytest.raises(NotApplicableError, match="nor of a language model on a corpus, " + message):
        run_trainer(None, None, [], None, tmp_path / "run", 0, {})  # type: ignore[arg-type]
    recipe = make_recipe("nli", training=str(rows), evaluation=str(rows))
    with pytest.raises(NotApplicableError, match="a mitigation.*" + message):
        train_with(recipe, resolve_method("projection"), None, [], 0, tmp_path / "run")
    assert not (tmp_path / "run").exists()


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
