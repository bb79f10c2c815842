"""transformers' Trainer, run so that it resumes, writes whole checkpoints, and says in one error what went wrong."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.transformers_logging import quiet_transformers
from pytest_genderbias.recipes.recipe import EMBEDDINGS, ENCODER, NOTHING, PLAIN, ReportingCallback, Training

#: What a recipe decides itself, so that a resumed run ends where an uninterrupted one does.
_OURS = (
    "output_dir", "seed", "data_seed", "resume_from_checkpoint", "max_steps", "disable_tqdm", "save_only_model", "ignore_data_skip"
)  # fmt: skip
_NUMBERS = {int: "a whole number", float: "a number", bool: "true or false"}
_ABOVE_ZERO = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs")
_STATE = "trainer_state.json"  #: the Trainer writes it last
_ARCHIVES = (
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
)  #: without one, a resumed training would end with other weights
#: In what torch raises where a file cannot be written, which is no error of its own kind.
_CANNOT_WRITE = ("PytorchStreamWriter", "inline_container", "iostream error", "No space left", "file write failed")


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Refuse arguments of the Trainer that do not exist, that a recipe decides itself, or that are no number where one is wanted.

    Raises:
        SettingError: the message names the argument.
    """
    if not arguments:
        return  # and import nothing: a gate file is read without transformers
    from dataclasses import fields

    from transformers import TrainingArguments

    known = {field.name: field.type for field in fields(TrainingArguments)}
    for name, value in arguments.items():
        if name in _OURS:
            raise SettingError(f"the training argument {name!r} is decided by the recipe; leave it out")
        if name not in known:
            raise SettingError(f"transformers.TrainingArguments has no argument {name!r}")
        kind: Any = known[name]
        if kind in _NUMBERS and type(value) not in ((int, float) if kind is float else (kind,)):
            raise SettingError(f"the training argument {name!r} should be {_NUMBERS[kind]}, got {value!r}")
        if name in _ABOVE_ZERO and not 0 < value < math.inf:
            raise SettingError(f"the training argument {name!r} should be above 0, got {value!r}")


def require_train() -> None:
    """Refuse to train without accelerate, which the Trainer needs."""
    if find_spec("accelerate") is None:
        raise NotApplicableError(
            "training needs transformers' Trainer, and that needs accelerate: pip install 'pytest-genderbias[train]'"
        )


def run_trainer(
    network: Any,
    tokenizer: Any,
    examples: Sequence[Mapping[str, Any]],
    collator: Any,
    folder: Path,
    seed: int,
    arguments: Mapping[str, Any],
    training: Training = PLAIN,
) -> Path:
    """Train a network in place and save it, with its tokenizer, as ``folder/model``.

    Args:
        network: a transformers network; it is changed.
        tokenizer: saved beside it.
        examples: tokenised rows, as a Trainer's ``train_dataset``.
        collator: makes batches of them.
        folder: of this run. If its ``model`` is there already, nothing is trained.
        seed: of the order of the data and of dropout.
        arguments: of ``transformers.TrainingArguments``; ``save_steps`` says how much an interruption loses.
        training: what the caller adds.

    Raises:
        NotApplicableError, ModelError, SettingError: as :meth:`~pytest_genderbias.recipes.recipe.Recipe.train`.
    """
    require_train()
    import transformers

    done = folder / "model"
    if done.is_dir():
        return done
    steps = -1 if training.max_steps is None else training.max_steps
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    freeze(network, training.freeze)
    given = {
        "save_strategy": "no", "logging_steps": 50, "report_to": [], "dataloader_pin_memory": False,
        "use_cpu": network.device.type == "cpu", "save_total_limit": 1, **arguments,
        "output_dir": str(folder / "checkpoints"), "seed": seed, "data_seed": seed, "max_steps": steps,
        "disable_tqdm": not training.progress,
    }  # fmt: skip
    with quiet_transformers(), _generators_kept(network.device):
        try:
            how = transformers.TrainingArguments(**given)
            if how.n_gpu > 1:  # several would make batches of another size
                how._n_gpu = 1
            trainer = transformers.Trainer(network, how, collator, examples, callbacks=list(training.callbacks))
        except (ValueError, TypeError, ImportError) as error:
            raise SettingError(
                f"transformers' Trainer refuses its arguments: {' '.join(str(error).split())}"
            ) from error
        if not training.progress:
            trainer.remove_callback(transformers.PrinterCallback)
        for callback in training.callbacks:
            if isinstance(callback, ReportingCallback):
                callback.report = trainer.log
        with _told(folder), training.around(network):
            trainer.train(resume_from_checkpoint=last_checkpoint(folder / "checkpoints"))
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        if any(not math.isfinite(loss) for loss in losses) or not _is_finite(network):
            raise ModelError(f"the loss became {losses[-1] if losses else 'no number'}; lower the learning rate")
        return save_whole(network.eval(), tokenizer, done, {"log": trainer.state.log_history})


def save_whole(network: Any, tokenizer: Any, path: Path, report: Mapping[str, Any]) -> Path:
    """Save a trained network under a name that nothing incomplete ever has, and remove the checkpoints on the way to it.

    Raises:
        SettingError: there is no room for it, or no permission.
    """
    with _told(path.parent), tempfile.TemporaryDirectory(dir=path.parent, prefix=".saving-") as folder:
        draft = Path(folder, "model")
        network.save_pretrained(draft)
        tokenizer.save_pretrained(draft)
        (draft / "training.json").write_text(json.dumps(dict(report), indent=1), encoding="utf-8")
        draft.rename(path)
    shutil.rmtree(path.parent / "checkpoints", ignore_errors=True)
    return path


@contextmanager
def _generators_kept(device: Any) -> Iterator[None]:
    """Leave the caller's generators of random numbers as they were: the Trainer seeds all that there are."""
    import torch

    ours, numpys = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Make one error of whatever a full or read-only disk does to those who write to it."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(sign in str(error) for sign in _CANNOT_WRITE):
            raise
        raise SettingError(
            f"{folder} cannot be written: {error}; make room and run again: it goes on from the last whole checkpoint"
        ) from error


def last_checkpoint(folder: Path) -> str | None:
    """Return the last checkpoint that was written whole, or ``None``; what was cut off in the middle, or lacks a part, is removed."""
    whole = None
    for path in sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2])):
        if _is_whole(path):
            whole = str(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return whole


def _is_whole(path: Path) -> bool:
    """Tell whether all of a checkpoint can be read, by the ends of its files."""
    from safetensors import SafetensorError, safe_open

    try:
        for name in (_STATE, "config.json"):
            json.loads((path / name).read_bytes())
        weights = list(path.glob("*.safetensors"))
        for file in weights:
            with safe_open(file, "numpy"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    return bool(weights) and all(is_zipfile(path / name) for name in _ARCHIVES)


def freeze(network: Any, what: str | int) -> None:
    """Keep parts of a network from being trained: ``nothing``, ``embeddings``, ``encoder``, or the first k layers and the embeddings.

    Raises:
        SettingError: it is none of these, or there are fewer layers.
    """
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    if what == NOTHING:
        return
    base = network.base_model
    if what == ENCODER:
        for parameter in base.parameters():
            parameter.requires_grad_(False)
        return
    inputs = network.get_input_embeddings()
    frozen = [inputs]
    if what != EMBEDDINGS:
        layers = _layers(base)
        if type(what) is not int or not 0 <= what <= len(layers):
            raise SettingError(
                f"freeze should be nothing, embeddings, encoder, or 0 to {len(layers)} layers, got {what!r}"
            )
        frozen += layers[:what]
    frozen += [module for name, module in base.named_children() if name in ("embeddings", "embed_tokens", "wpe")]
    for module in frozen:
        for parameter in module.parameters():
            parameter.requires_grad_(False)


def _layers(base: Any) -> list[Any]:
    """Return the layers of a network: its longest list of modules."""
    import torch

    lists = [list(module) for module in base.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len, default=[])


def _is_finite(network: Any) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in network.parameters())
