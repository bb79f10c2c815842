"""Trainings resume, end with the same weights, and lose nothing when the disk is full."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny_checkpoints import make_network, save_checkpoint, tokenizer

from pytest_genderbias.errors import ModelError, SettingError
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.recipes.recipe import PLAIN, Training
from pytest_genderbias.recipes.trainer import check_arguments, freeze, last_checkpoint, run_trainer

ARGUMENTS = {
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-2,
    "save_strategy": "steps",
    "save_steps": 4,
    "num_train_epochs": 3,
}


def rows(count=20):
    draw = torch.Generator().manual_seed(3)
    return [{"input_ids": torch.randint(5, 90, (12,), generator=draw).tolist(), "labels": i % 3} for i in range(count)]


def train(folder, training=PLAIN, seed=0, **changes):
    network = make_network("bert-nli", hidden_dropout_prob=0.3)
    path = run_trainer(
        network,
        tokenizer("bert"),
        rows(),
        transformers.default_data_collator,
        Path(folder),
        seed,
        {**ARGUMENTS, **changes},
        training,
    )
    return load_file(path / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Stop(transformers.TrainerCallback):
    """Interrupts as Ctrl-C does."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **more):
        if state.global_step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("steps", [(6,), (3, 9, 14), (15,)], ids=str)
def test_an_interrupted_training_ends_with_the_weights_of_the_uninterrupted_one(tmp_path, steps):
    whole = train(tmp_path / "whole")
    for step in steps:
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut", Training(callbacks=(Stop(step),)))
        assert not (tmp_path / "cut/model").exists()
    assert same(train(tmp_path / "cut"), whole)
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == ["model"], "nothing is left but the model"


def test_a_seed_decides_all_and_a_finished_training_is_not_repeated(tmp_path):
    one = train(tmp_path / "one")
    assert same(train(tmp_path / "again"), one)
    assert not same(train(tmp_path / "other", seed=1), one)
    assert same(train(tmp_path / "one", Training(callbacks=(Stop(1),))), one), "no step is taken"
    log = json.loads((tmp_path / "one/model/training.json").read_text())["log"]
    assert log[-1]["step"] == 15


KILLED = """
import os, signal, sys
sys.path[:0] = {paths!r}
import transformers
from test_trainer import train, Training
class Kill(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        if state.global_step == 7:
            os.kill(os.getpid(), signal.SIGKILL)
train({folder!r}, Training(callbacks=(Kill(),)))
"""


def run_apart(code):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120, check=False
    )


def test_a_killed_training_goes_on(tmp_path):
    folder = str(tmp_path / "killed")
    done = run_apart(KILLED.format(paths=[os.path.dirname(__file__)], folder=folder))
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert last_checkpoint(tmp_path / "killed/checkpoints").endswith("checkpoint-4")
    whole = run_apart(
        f"import sys; sys.path[:0] = {[os.path.dirname(__file__)]!r}\nfrom test_trainer import train\n"
        f"train({str(tmp_path / 'whole')!r}); train({folder!r})"
    )
    assert whole.returncode == 0, whole.stderr
    assert same(
        load_file(tmp_path / "killed/model/model.safetensors"), load_file(tmp_path / "whole/model/model.safetensors")
    )


FULL = """
import resource, sys
sys.path[:0] = {paths!r}
import transformers
from test_trainer import train, Training, SettingError
class Fill(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        if state.global_step == {step}:
            resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
try:
    train({folder!r}, Training(callbacks=(Fill(),)))
except SettingError as error:
    print("SettingError", error)
"""


@pytest.mark.parametrize("size", [100, 5_000, 60_000])
def test_a_disk_that_fills_up_during_a_checkpoint_loses_nothing(tmp_path, size):
    """Writes beyond the limit fail, in whichever library they are."""
    folder = tmp_path / "full"
    done = run_apart(FULL.format(paths=[os.path.dirname(__file__)], folder=str(folder), step=6, size=size))
    assert done.returncode == 0, done.stderr
    assert f"SettingError {folder} cannot be written: " in done.stdout, done.stdout
    assert "it goes on from the last whole checkpoint" in done.stdout
    assert last_checkpoint(folder / "checkpoints").endswith("checkpoint-4")
    assert not (folder / "model").exists()
    assert same(train(folder), train(tmp_path / "whole"))


def test_a_disk_that_fills_up_at_the_end_leaves_no_half_model(tmp_path):
    folder = tmp_path / "full"
    done = run_apart(FULL.format(paths=[os.path.dirname(__file__)], folder=str(folder), step=14, size=5_000))
    assert "SettingError" in done.stdout, done.stderr
    assert not list(folder.glob(".saving-*"))
    assert same(train(folder), train(tmp_path / "whole"))


def test_a_checkpoint_that_was_cut_off_is_left_out(tmp_path):
    folder = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        train(folder, Training(callbacks=(Stop(9),)), save_total_limit=3)
    (folder / "checkpoints/checkpoint-8/trainer_state.json").write_text('{"global_step": 8, "lo')
    (folder / "checkpoints/checkpoint-12").mkdir()
    assert last_checkpoint(folder / "checkpoints").endswith("checkpoint-4")
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["checkpoint-4"]
    assert same(train(folder), train(tmp_path / "whole"))


def test_weights_that_are_no_numbers_are_no_model(tmp_path):
    with pytest.raises(ModelError, match="lower the learning rate"):
        train(tmp_path, learning_rate=1e38, max_grad_norm=0.0)
    assert not (tmp_path / "model").exists()


def test_arguments_are_checked():
    check_arguments({"warmup_steps": 10, "weight_decay": 0.1})
    with pytest.raises(SettingError, match="no argument 'warmup'"):
        check_arguments({"warmup": 10})
    with pytest.raises(SettingError, match="'seed' is decided by the recipe"):
        check_arguments({"seed": 1})


def test_a_read_only_folder_is_one_error(tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(SettingError, match="cannot be written"):
        train(tmp_path / "taken" / "run")


def trained_parts(network):
    return {name for name, parameter in network.named_parameters() if parameter.requires_grad}


def test_parts_are_frozen():
    network = make_network("bert-nli")
    everything = trained_parts(network)
    freeze(network, "encoder")
    assert trained_parts(network) == {name for name in everything if not name.startswith("bert.")} != set()
    freeze(network, "embeddings")
    assert everything - trained_parts(network) == {name for name in everything if name.startswith("bert.embeddings.")}
    freeze(network, 1)
    kept = everything - trained_parts(network)
    assert kept == {name for name in everything if name.startswith(("bert.embeddings.", "bert.encoder.layer.0."))}
    freeze(network, "nothing")
    assert trained_parts(network) == everything
    with pytest.raises(SettingError, match="0 to 2 layers, got 3"):
        freeze(network, 3)
    with pytest.raises(SettingError, match="got 'head'"):
        freeze(network, "head")


def test_what_is_frozen_stays_as_it_was(tmp_path):
    before = dict(make_network("bert-nli", hidden_dropout_prob=0.3).named_parameters())
    after = train(tmp_path, Training(freeze="encoder"))
    moved = {name for name in after if name in before and not torch.equal(after[name], before[name])}
    assert moved == {"classifier.weight", "classifier.bias"}


def test_the_trained_checkpoint_is_an_ordinary_one(tmp_path):
    train(tmp_path)
    model = load_model(str(tmp_path / "model"))
    assert model.role.kind == load_model(str(save_checkpoint("bert-nli", tmp_path / "plain"))).role.kind
