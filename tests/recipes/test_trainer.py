"""Trainings resume, end with the same weights, and lose nothing when the disk is full."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from support.forks import forked
from support.interrupted import StopAt
from support.tiny_checkpoints import make_network, save_checkpoint, tokenizer

from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.mitigation.methods.registry import make_recipe
from pytest_genderbias.models.loading import load_model
from pytest_genderbias.recipes import trainer
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
    prepared = network, rows(), transformers.default_data_collator, {**ARGUMENTS, **changes}, training
    path = run_trainer(prepared, tokenizer("bert"), Path(folder), seed)
    return load_file(path / "model.safetensors")


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Return the folder of a training that nothing interrupts; it must not be changed."""
    folder = tmp_path_factory.mktemp("whole")
    train(folder)
    return folder


@pytest.fixture(scope="module")
def whole(whole_run):
    """Return the weights of a training that nothing interrupts."""
    return load_file(whole_run / "model/model.safetensors")


@pytest.mark.parametrize("steps", [(6,), (3, 9, 14), (15,)], ids=str)
def test_an_interrupted_training_ends_with_the_weights_of_the_uninterrupted_one(tmp_path, whole, steps):
    for step in steps:
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "cut", Training(callbacks=(StopAt(step),)))
        assert not (tmp_path / "cut/model").exists()
    assert same(train(tmp_path / "cut"), whole)
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == ["model"], "nothing is left but the model"


def test_a_seed_decides_all(tmp_path, whole):
    assert same(train(tmp_path / "again"), whole)
    assert not same(train(tmp_path / "other", seed=1), whole)
    log = json.loads((tmp_path / "again/model/training.json").read_text())["log"]
    assert log[-1]["step"] == 15


def test_progress_is_one_bar_with_the_latest_loss(tmp_path, capsys):
    train(tmp_path / "shown", Training(progress=True), logging_steps=5)
    shown = capsys.readouterr()
    assert "15/15" in shown.err and "loss=" in shown.err
    assert "{" not in shown.err + shown.out
    train(tmp_path / "silent", logging_steps=5)
    assert capsys.readouterr() == ("", "")


class Kill(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **more):
        if state.global_step == 7:
            os.kill(os.getpid(), signal.SIGKILL)


APART = """
import sys
sys.path[:0] = {paths!r}
import torch
torch.set_num_threads({threads})  # as here: with another number the last digits differ
from test_trainer import Kill, Training, train
train({folder!r}, Training(callbacks=(Kill(),)))
"""


def killed(folder):
    """Start a training, in a copy of this process, that is killed in its seventh step."""
    told = folder.with_name("told")
    return forked(lambda: train(folder, Training(callbacks=(Kill(),))), told), told.exists() and told.read_text()


def killed_apart(folder):
    paths = [str(Path(__file__).parents[1]), os.path.dirname(__file__)]
    code = textwrap.dedent(APART.format(paths=paths, folder=str(folder), threads=torch.get_num_threads()))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("kill", [killed, pytest.param(killed_apart, marks=pytest.mark.slow)])
def test_a_killed_training_goes_on(tmp_path, whole, kill):
    folder = tmp_path / "killed"
    status, error = kill(folder)
    assert status == -signal.SIGKILL, error
    assert last_checkpoint(folder / "checkpoints").endswith("checkpoint-4")
    assert same(train(folder), whole)


class Fill(transformers.TrainerCallback):
    """Lets writes beyond a size fail from a step on, in whichever library they are, as a full disk does."""

    def __init__(self, resource, step, size):
        self.resource, self.step, self.size = resource, step, size

    def on_step_end(self, args, state, control, **more):
        if state.global_step == self.step:
            kind = self.resource.RLIMIT_FSIZE
            self.resource.setrlimit(kind, (self.size, self.resource.getrlimit(kind)[1]))


@pytest.fixture
def room():
    """Return a function that trains on a disk that fills up, and returns the error."""
    resource = pytest.importorskip("resource", reason="no limit to the size of a file can be set here")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def filled(folder, step, size):
        try:
            train(folder, Training(callbacks=(Fill(resource, step, size),)))
        except SettingError as error:
            return str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        return ""

    return filled


@pytest.mark.parametrize("size", [100, 5_000, 60_000])
def test_a_disk_that_fills_up_during_a_checkpoint_loses_nothing(tmp_path, room, whole, size):
    folder = tmp_path / "full"
    error = room(folder, 6, size)
    assert error.startswith(f"{folder} cannot be written: ")
    assert "the training resumes from the last complete checkpoint" in error
    assert last_checkpoint(folder / "checkpoints").endswith("checkpoint-4")
    assert not (folder / "model").exists()
    assert same(train(folder), whole)


def test_what_torch_says_of_a_full_disk_is_one_error(tmp_path):
    """As it was on a file system of 1.5 MB, when the end of optimizer.pt was written."""
    with pytest.raises(SettingError, match=r"cannot be written: .*make room"), trainer._one_error(tmp_path):
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 809280 vs 809172")
    with pytest.raises(RuntimeError, match="size mismatch"), trainer._one_error(tmp_path):
        raise RuntimeError("size mismatch")


def test_a_disk_that_fills_up_at_the_end_leaves_no_half_model(tmp_path, room, whole):
    folder = tmp_path / "full"
    assert "cannot be written" in room(folder, 14, 5_000)
    assert not list(folder.glob(".saving-*"))
    assert same(train(folder), whole)


@pytest.mark.parametrize("how", ["cut", "junk", "gone"])
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "config.json"])
def test_a_damaged_checkpoint_is_left_out(tmp_path, stopped, name, how):
    shutil.copytree(stopped, tmp_path / "checkpoints")
    file = tmp_path / "checkpoints/checkpoint-8" / name
    content = file.read_bytes()
    file.unlink() if how == "gone" else file.write_bytes(b"junk" if how == "junk" else content[: len(content) // 2])
    assert last_checkpoint(tmp_path / "checkpoints").endswith("checkpoint-4")
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["checkpoint-4"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Return the checkpoints of a training that was stopped."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        train(folder, Training(callbacks=(StopAt(9),)), save_total_limit=3)
    return folder / "checkpoints"


def test_a_checkpoint_that_was_cut_off_is_left_out(tmp_path, stopped, whole):
    folder = tmp_path / "cut"
    shutil.copytree(stopped, folder / "checkpoints")
    (folder / "checkpoints/checkpoint-8/trainer_state.json").write_text('{"global_step": 8, "lo')
    (folder / "checkpoints/checkpoint-12").mkdir()
    assert last_checkpoint(folder / "checkpoints").endswith("checkpoint-4")
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["checkpoint-4"]
    assert same(train(folder), whole)


def test_weights_that_are_no_numbers_are_no_model(tmp_path):
    with pytest.raises(ModelError, match="lower the learning rate"):
        train(tmp_path, learning_rate=1e30, max_grad_norm=0.0)
    assert not (tmp_path / "model").exists()


def test_without_accelerate_nothing_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(trainer, "find_spec", lambda name: None)
    with pytest.raises(NotApplicableError, match=r"needs accelerate: pip install '.*\[train\]'"):
        make_recipe("nli").train(None, [], 0, tmp_path)


def test_arguments_are_checked():
    check_arguments({"warmup_steps": 10, "weight_decay": 0.1})
    with pytest.raises(SettingError, match="warmup is no argument of"):
        check_arguments({"warmup": 10})
    with pytest.raises(SettingError, match="seed of arguments is decided by the recipe"):
        check_arguments({"seed": 1})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weight_decay", "1e-2", "should be a number, got '1e-2'"),
        ("gradient_accumulation_steps", 2.0, "should be a whole number, got 2.0"),
        ("gradient_accumulation_steps", 0, "should be above 0, got 0"),
        ("num_train_epochs", 0.0, r"should be above 0, got 0\.0"),
        ("bf16", "yes", "should be true or false, got 'yes'"),
        ("logging_steps", True, "should be a number, got True"),
        ("disable_tqdm", True, "is decided by the recipe"),
        ("save_only_model", True, "is decided by the recipe"),
    ],
)
def test_values_of_arguments_are_checked(name, value, message):
    with pytest.raises(SettingError, match=f"{name} of arguments {message}"):
        check_arguments({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("load_best_model_at_end", True), ("eval_strategy", "steps"), ("optim", "x"), ("report_to", "x")],
)
def test_what_the_trainer_refuses_is_one_error(tmp_path, name, value):
    with pytest.raises(SettingError, match="transformers' Trainer rejects its arguments: ") as caught:
        train(tmp_path, **{name: value})
    assert len(str(caught.value).splitlines()) == 1


def test_the_generators_of_the_caller_stay_as_they_were(tmp_path):
    def draw():
        return random.random(), np.random.random(), torch.rand(1).item()

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = draw()
    random.setstate(states[0]), np.random.set_state(states[1]), torch.set_rng_state(states[2])
    train(tmp_path, Training(max_steps=2))
    assert draw() == expected


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
    after = train(tmp_path, Training(freeze="encoder", max_steps=3))
    moved = {name for name in after if name in before and not torch.equal(after[name], before[name])}
    assert moved == {"classifier.weight", "classifier.bias"}


def test_the_trained_checkpoint_is_an_ordinary_one(tmp_path, whole_run):
    model = load_model(str(whole_run / "model"))
    assert model.role.kind == load_model(str(save_checkpoint("bert-nli", tmp_path / "plain"))).role.kind


def test_the_trainer_stays_on_the_gpu_of_the_network(tmp_path, monkeypatch):
    """The Trainer takes cuda:0 by itself; there is no GPU here, so that its real arguments are asked."""
    chosen = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    settings = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    trainer._stay_on(torch.device("cpu"), settings)
    assert (settings.device, chosen) == (torch.device("cpu"), [])
    trainer._stay_on(torch.device("cuda", 1), settings)
    assert (settings.device, chosen) == (torch.device("cuda", 1), [torch.device("cuda", 1)])
