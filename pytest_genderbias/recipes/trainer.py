"""The settings that all recipes of this package have, and their training with transformers' Trainer: resumable, with
atomic checkpoints, rows in an order that is known before the training, and one error for each kind of failure.

The setting ``freeze`` of recipes and of a ``Training`` says which parameters are excluded from it.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias
from zipfile import is_zipfile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError, installing
from pytest_genderbias.measurement.processes import is_left_alone, process_count, refuse_several
from pytest_genderbias.models.hidden_layers import hidden_states, parameters_behind, save_projections
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.source import quiet_transformers
from pytest_genderbias.recipes.recipe import (
    CHECKPOINTS,
    EMBEDDINGS,
    ENCODER,
    NOTHING,
    PLAIN,
    UNFINISHED_MODEL,
    Recipe,
    Row,
    Training,
    identifying_settings,
)
from pytest_genderbias.scoring.scorer import Progress
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Count, Positive, Rule, at_least, check_fields, check_setting

if TYPE_CHECKING:
    import torch
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
        TrainerCallback,
        TrainerState,
        TrainingArguments,
    )

#: Tokenised rows with a length, by number, as a Trainer reads them.
Examples: TypeAlias = Any
#: Makes a batch of examples.
Collator: TypeAlias = "Callable[..., dict[str, torch.Tensor]]"

#: Arguments that the recipe sets, so that a resumed training ends with the weights of an uninterrupted one.
_OURS = (
    "output_dir", "seed", "data_seed", "resume_from_checkpoint", "max_steps", "disable_tqdm", "save_only_model",
    "ignore_data_skip"
)  # fmt: skip
_Above: TypeAlias = Annotated[float, Rule("above 0", exclusiveMinimum=0)]
_ABOVE_ZERO = ("per_device_train_batch_size", "gradient_accumulation_steps", "num_train_epochs")
_STATE = "trainer_state.json"  #: the file that the Trainer writes last
_ARCHIVES = ("optimizer.pt", "scheduler.pt")  #: without these, a resumed training would end with other weights
#: Texts in the RuntimeErrors that torch raises if a file cannot be written.
_CANNOT_WRITE = ("PytorchStreamWriter", "inline_container", "iostream error", "No space left", "file write failed")
MaxLength: TypeAlias = Annotated[int, at_least(8)]  #: of the tokens that are read together
#: Learning rates by the minimum hidden size, and the rate for a head on a frozen encoder.
LEARNING_RATES = ((768, 3e-5), (256, 1e-4), (0, 3e-4))
HEAD_LEARNING_RATE = 1e-3
#: What the Trainer is given: the network to change, tokenised rows, what makes a batch of them, arguments of
#: ``transformers.TrainingArguments``, and the options of the training.
Prepared: TypeAlias = "tuple[PreTrainedModel, Examples, Collator, Mapping[str, object], Training]"


@dataclass(frozen=True)
class TrainingSettings(Recipe):
    """The settings of every training. Recipes add their own, and give some of these another default.

    ``data``: folder of the data sets. ``epochs``: may be fractional. ``batch_size``: rows of a batch.
    ``learning_rate``: the highest one; it falls linearly. ``arguments``: arguments of
    ``transformers.TrainingArguments``, which override the settings.
    """

    label: ClassVar[str | None] = None
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = True
    #: Settings that say where the data lie; digests identify them.
    located: ClassVar[tuple[str, ...]] = ("data",)
    #: Whether several processes may divide each step.
    divisible: ClassVar[bool] = False

    data: str | None = None
    epochs: Positive = 3.0
    batch_size: Count = 32
    learning_rate: Positive | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        check_fields(self)
        check_arguments(self.arguments)

    def settings(self) -> dict[str, object]:
        """Return the settings, with digests of the data in place of their names."""
        settings = identifying_settings(self)
        for name in self.located:
            del settings[name]
        return {**settings, "arguments": dict(self.arguments), **self._identity()}

    @abstractmethod
    def _identity(self) -> dict[str, object]:
        """Return digests of the data, and settings under which a training is known otherwise than they are given."""

    def train(self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = PLAIN) -> Path:
        """Train a copy of a model that :meth:`start` returned, or of a trained one, and return ``folder/model``.

        Raises:
            NotApplicableError: ``accelerate`` is not installed, or the model is not one that :meth:`start` returned.
            DataFileError: the model can read no row.
            ModelError: the loss became NaN or infinite.
            SettingError: the files cannot be written, or there are no rows.
        """
        require_train()
        self._require_own(model)
        if (folder / "model").is_dir():
            return folder / "model"
        if not rows:
            raise SettingError("there is no row to train on")
        if training.freeze == NOTHING:  # else what the caller freezes
            training = replace(training, freeze=self._frozen)
        prepared = self._prepared(model, rows, seed, training)
        return run_trainer(prepared, model.backend.tokenizer, folder, seed, self.divisible)

    @property
    def _frozen(self) -> str | int:
        """The part that is not trained, unless the caller of a training freezes another."""
        frozen: str | int = getattr(self, "freeze", NOTHING)
        return frozen

    @abstractmethod
    def _require_own(self, model: Model) -> None:
        """Reject a model that :meth:`start` did not return.

        Raises:
            NotApplicableError: it is another one.
        """

    @abstractmethod
    def _prepared(self, model: Model, rows: Sequence[Row], seed: int, training: Training) -> Prepared:
        """Return what the Trainer is given; the model is copied."""

    def _arguments(self, save_steps: int, **own: object) -> dict[str, Any]:
        """Return arguments of the Trainer: the settings, those of the recipe, and the user's, which override both."""
        return {
            "num_train_epochs": self.epochs,
            "per_device_train_batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "save_strategy": "steps",
            "save_steps": save_steps,
            **own,
            **self.arguments,
        }

    def _tuning_arguments(self, model: Model, training: Training) -> dict[str, Any]:
        """Return the arguments for the tuning of an encoder.

        The learning rate is by default 3e-5, 1e-4 for hidden sizes below 768 and 3e-4 below 256, and 1e-3 for a head on
        a frozen encoder (orgad2022, appendix). It falls linearly after a warm-up of 6 % of the steps.
        """
        by_size = next(rate for least, rate in LEARNING_RATES if model.width >= least)
        rate = self.learning_rate or (HEAD_LEARNING_RATE if training.freeze == ENCODER else by_size)
        return self._arguments(200, learning_rate=rate, warmup_steps=0.06)

    def _longest(self, checkpoint: Checkpoint) -> int:
        """Return the number of tokens that are read together: the setting ``max_length``, or the network's if that is
        less.
        """
        most: int = vars(self)["max_length"]
        return min(most, checkpoint.max_length or most)

    def _by_length(
        self, examples: Examples, lengths: ArrayLike, arguments: dict[str, Any], seed: int
    ) -> tuple[Examples, dict[str, Any]]:
        """Return examples in the order of all epochs (:func:`order_by_length`), and the arguments for one epoch of
        them.
        """
        from torch.utils.data import Subset

        batch, epochs = int(arguments["per_device_train_batch_size"]), float(arguments["num_train_epochs"])
        order: Any = order_by_length(lengths, batch, epochs, seed)  # of whole numbers, in 8 bytes each
        return Subset(examples, order), {**arguments, "train_sampling_strategy": "sequential", "num_train_epochs": 1}

    def _data(self) -> DataFolder:
        return DataFolder(None if self.data is None else expand(self.data))


def check_arguments(arguments: Mapping[str, object]) -> None:
    """Check arguments of the Trainer: reject unknown ones, those that the recipe sets, and invalid numbers.

    Raises:
        SettingError: beginning with the name of the argument.
    """
    if not arguments:
        return
    from transformers import TrainingArguments  # takes seconds

    kinds = {one.name: one.type for one in fields(TrainingArguments)}
    for name, value in arguments.items():
        if name in _OURS:
            raise SettingError(f"{name} of arguments is decided by the recipe; leave it out")
        if name not in kinds:
            raise SettingError(f"{name} is no argument of transformers.TrainingArguments")
        if kinds[name] in (int, float, bool):
            check_setting(f"{name} of arguments", kinds[name], value)
        if name in _ABOVE_ZERO:
            check_setting(f"{name} of arguments", _Above, value)


def require_train() -> None:
    """Check that accelerate is installed, which the Trainer needs.

    Raises:
        NotApplicableError: it is not.
    """
    if find_spec("accelerate") is None:
        raise NotApplicableError(
            f"training needs transformers' Trainer, and that needs accelerate: {installing('train')}"
        )


def run_trainer(
    prepared: Prepared, tokenizer: PreTrainedTokenizerBase, folder: Path, seed: int, divisible: bool = False
) -> Path:
    """Train a network in place, save it with its tokenizer as ``folder/model``, and return that folder.

    Args:
        prepared: the network, which is changed, and what the Trainer is given; ``save_steps`` limits what an
            interruption loses.
        tokenizer: saved with the network.
        folder: folder of this training, which has no ``model`` yet.
        seed: seed of the order of the data and of dropout.
        divisible: whether several processes may divide each step, as ``accelerate launch`` starts them: the batches
            that are added up, else the rows of a batch. The first process saves.

    Raises:
        NotApplicableError, ModelError, SettingError: as :meth:`~pytest_genderbias.recipes.recipe.Recipe.train`.
    """
    if is_left_alone():
        refuse_several("a training outside of a mitigation")
    if not divisible:
        refuse_several("this training, which is neither of a classifier nor of a language model on a corpus,")
    with _one_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    network, *_, training = prepared
    freeze(network, training.freeze)
    with quiet_transformers(), generators_restored(network):
        trainer = _make_trainer(prepared, folder, seed)
        _show_progress(trainer, training.progress)
        for callback in training.callbacks:
            if hasattr(callback, "report"):
                callback.report = trainer.log
        with _one_error(folder), training.around(network), _names_of_class(network):
            trainer.train(resume_from_checkpoint=last_checkpoint(folder / CHECKPOINTS))
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        is_finite = all(map(math.isfinite, losses)) and all(one.isfinite().all() for one in network.parameters())
        if not is_finite:
            raise ModelError(f"the loss became {losses[-1] if losses else 'no number'}; lower the learning rate")
        module: torch.nn.Module = network
        module.eval()
        try:
            if trainer.is_world_process_zero():
                save_whole(network, tokenizer, folder / "model", {"log": trainer.state.log_history})
        finally:  # the others wait for the first one, and then find the model
            trainer.accelerator.wait_for_everyone()
        return folder / "model"


def _make_trainer(prepared: Prepared, folder: Path, seed: int) -> Trainer:
    """Return the Trainer, with the arguments of the recipe and those that make it resumable.

    Raises:
        SettingError: the Trainer rejects an argument.
    """
    import transformers
    from transformers.training_args import ParallelMode

    network, examples, collator, arguments, training = prepared
    options: dict[str, Any] = {  # their types differ by name
        "save_strategy": "no",
        "logging_steps": 50,
        "report_to": [],
        "dataloader_pin_memory": False,
        "use_cpu": network.device.type == "cpu",
        "save_total_limit": 1,
        **_divided(arguments),
        "output_dir": str(folder / CHECKPOINTS),
        "seed": seed,
        "data_seed": seed,
        "max_steps": -1 if training.max_steps is None else training.max_steps,
        "disable_tqdm": not training.progress,
    }
    try:
        settings = transformers.TrainingArguments(**options)
        if settings.n_gpu > 1:  # several devices would have batches of another size
            settings._n_gpu = 1
        if settings.parallel_mode != ParallelMode.DISTRIBUTED:
            _stay_on(network.device, settings)
        return transformers.Trainer(network, settings, collator, examples, callbacks=list(training.callbacks))
    except (ValueError, TypeError, ImportError) as error:
        raise SettingError(f"transformers' Trainer rejects its arguments: {' '.join(str(error).split())}") from error


@contextmanager
def _names_of_class(network: PreTrainedModel) -> Iterator[None]:
    """Save checkpoints with the names of parameters that the network's class has, as the Trainer looks for them.

    transformers writes the names of the files that a network is from, such as ``LayerNorm.gamma`` of early BERTs, but
    the Trainer then resumes with the first values of these parameters.
    """
    conversions = vars(network).pop("_weight_conversions", None)
    try:
        yield
    finally:
        vars(network)["_weight_conversions"] = conversions


def _divided(arguments: Mapping[str, object]) -> Mapping[str, object]:
    """Return the arguments of the Trainer with the share of one of several processes in each step.

    Raises:
        SettingError: neither the batches of a step nor the rows of a batch are a multiple of the processes.
    """
    processes = process_count()
    added, rows = arguments.get("gradient_accumulation_steps", 1), arguments.get("per_device_train_batch_size", 8)
    if isinstance(added, int) and added % processes == 0:
        return {**arguments, "gradient_accumulation_steps": added // processes}
    if isinstance(rows, int) and rows % processes == 0:  # the mean over processes of the mean loss of their rows
        share = {"per_device_train_batch_size": rows // processes, "average_tokens_across_devices": False}
        return {**arguments, **share}
    raise SettingError(
        f"{processes} processes cannot divide a step equally; make gradient_accumulation_steps or the batch size a"
        " multiple of their number"
    )


def _stay_on(device: torch.device, settings: TrainingArguments) -> None:
    """Let the Trainer use the GPU that a network is on: by itself it takes the first one, and moves the network
    there.
    """
    import torch

    if device.type == "cuda":
        torch.cuda.set_device(device)  # which accelerate calls "cuda"
        vars(settings)["_setup_devices"] = device  # the cached value of TrainingArguments.device


def _show_progress(trainer: Trainer, progress: bool) -> None:
    """Show one bar with the latest loss at its end, where the Trainer's own bar writes a line for each loss; or
    nothing.
    """
    import transformers

    if not progress:
        trainer.remove_callback(transformers.PrinterCallback)
        return

    class Bar(transformers.ProgressCallback):
        def on_log(self, args: object, state: object, control: object, logs: Any = None, **others: object) -> None:
            if self.training_bar is not None and logs and "loss" in logs:
                self.training_bar.set_postfix(loss=f"{float(logs['loss']):.3g}")

    if trainer.pop_callback(transformers.ProgressCallback) is not None:  # a notebook has another
        trainer.add_callback(Bar())


def save_whole(
    network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, path: Path, report: Mapping[str, object]
) -> Path:
    """Save a trained network, and remove the checkpoints of its training. ``path`` exists only once it is complete.

    Raises:
        SettingError: the files cannot be written.
    """
    with _one_error(path.parent), tempfile.TemporaryDirectory(dir=path.parent, prefix=UNFINISHED_MODEL) as folder:
        draft = Path(folder, "model")
        network.save_pretrained(draft)
        save_projections(network, draft)
        tokenizer.save_pretrained(draft)
        (draft / "training.json").write_text(json.dumps(dict(report), indent=1), encoding="utf-8")
        draft.rename(path)
    shutil.rmtree(path.parent / CHECKPOINTS, ignore_errors=True)
    return path


@contextmanager
def generators_restored(network: PreTrainedModel) -> Iterator[None]:
    """Restore the caller's random number generators and GPU afterwards, which the Trainer seeds and sets: those of
    Python, numpy and torch, on the CPU and the network's GPUs.
    """
    import torch

    ours, numpys = random.getstate(), np.random.get_state()
    gpus = list(dict.fromkeys(tensor.device for tensor in network.parameters() if tensor.device.type == "cuda"))
    try:
        with torch.random.fork_rng(devices=gpus), torch.cuda.device(gpus[0] if gpus else -1):
            yield
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)


@contextmanager
def _one_error(folder: Path) -> Iterator[None]:
    """Raise a SettingError for any error of writing to a full or read-only disk."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(sign in str(error) for sign in _CANNOT_WRITE):
            raise
        raise SettingError(
            f"{folder} cannot be written: {error}; make room and run again: the training resumes from the last complete"
            " checkpoint"
        ) from error


def last_checkpoint(folder: Path) -> str | None:
    """Return the last complete checkpoint, or ``None``. Incomplete checkpoints are removed."""
    whole = None
    for path in sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2])):
        if _is_whole(path):
            whole = str(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return whole


def _is_whole(path: Path) -> bool:
    """Return whether a checkpoint is complete: all files are there and are not truncated."""
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
    processes = process_count()
    generators = ["rng_state.pth"] if processes == 1 else [f"rng_state_{rank}.pth" for rank in range(processes)]
    return bool(weights) and all(is_zipfile(path / name) for name in (*_ARCHIVES, *generators))


_TOKENISED_AT_ONCE = 4096
_MEGABATCH = 50  #: number of batches whose rows are sorted by length together, as in transformers


class TokenisedRows:
    """Rows of token ids with a label, in arrays (a hundred bytes for a row of SNLI)."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        columns: Sequence[Sequence[str]],
        labels: Sequence[float],
        max_length: int,
    ) -> None:
        self._labels = labels
        parts: dict[str, list[NDArray[np.int32]]] = {}
        lengths: list[int] = []
        for start in range(0, len(labels), _TOKENISED_AT_ONCE):
            texts = [list(column[start : start + _TOKENISED_AT_ONCE]) for column in columns]
            output = tokenizer(
                *texts, truncation=True, max_length=max_length, return_attention_mask=False, verbose=False
            )
            lengths += map(len, output["input_ids"])
            for name, rows in output.items():
                parts.setdefault(name, []).extend(np.asarray(row, dtype=np.int32) for row in rows)
        self._parts = {name: np.concatenate(rows) for name, rows in parts.items()}
        self.lengths = np.asarray(lengths, dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.lengths)])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._labels)

    def __getitem__(self, row: int) -> dict[str, object]:
        """Return a row."""
        span = slice(self._starts[row], self._starts[row + 1])
        return {name: part[span].tolist() for name, part in self._parts.items()} | {"labels": self._labels[row]}


def order_by_length(lengths: ArrayLike, batch_size: int, epochs: float, seed: int) -> NDArray[np.int64]:
    """Return the order of rows over all epochs, in shuffled batches of rows of similar length: shape (ceil(rows *
    epochs),).

    The sampler of transformers that groups by length draws each epoch's order from the same generator as dropout, so
    that a training which is interrupted after the first epoch resumes with other batches; and its batches come longest
    first. Here the order is known before the first step. Rows that do not fill a batch at the end of an epoch begin the
    next one.

    Args:
        lengths: tokens of each row, shape (rows,).
        batch_size: rows of a batch.
        epochs: number of epochs; a fraction of an epoch has some of the rows.
        seed: seed of the shuffles.

    >>> sorted(order_by_length([3, 1, 2], 2, 1, seed=0).tolist()), len(order_by_length([3, 1, 2], 2, 1.5, seed=0))
    ([0, 1, 2], 5)
    """
    sizes = np.asarray(lengths)
    order: list[NDArray[np.int64]] = []
    left = np.zeros(0, dtype=np.int64)
    for epoch in range(int(np.ceil(epochs))):
        rng = np.random.default_rng([seed, epoch])
        rows = rng.permutation(len(sizes))[: int(np.ceil(min(1.0, epochs - epoch) * len(sizes)))]
        rows = np.concatenate([left, rows])
        whole = len(rows) - len(rows) % batch_size
        rows, left = rows[:whole], rows[whole:]
        many = [rows[at : at + _MEGABATCH * batch_size] for at in range(0, whole, _MEGABATCH * batch_size)]
        batches = [
            batch for group in many for batch in group[np.argsort(sizes[group], kind="stable")].reshape(-1, batch_size)
        ]
        order += [batches[i] for i in rng.permutation(len(batches))]
    return np.concatenate([*order, left])


def show_steps(progress: Progress, label: str, until: ExitStack) -> TrainerCallback:
    """Return a callback of transformers' Trainer that shows the steps of a training on a bar.

    Args:
        progress: shows a bar, given a label, the total number of steps, and the number of completed steps.
        label: label of the bar.
        until: removes the bar when it closes, whether or not the training was completed.
    """
    from transformers import TrainerCallback

    class Bar(TrainerCallback):
        """Advances the bar with each step."""

        def on_train_begin(self, args: object, state: TrainerState, control: object, **given: object) -> None:
            """Show the bar, with the steps that a resumed training has completed."""
            self._advance = until.enter_context(progress(label, state.max_steps, state.global_step))

        def on_step_end(self, args: object, state: object, control: object, **given: object) -> None:
            """Advance the bar by one step."""
            self._advance(1)

    return Bar()


def freeze(network: PreTrainedModel, what: str | int) -> None:
    """Exclude a part of a network from training, and no other; see :func:`frozen_parameters`.

    Raises:
        SettingError: as :func:`frozen_parameters`, or nothing is left to train.
    """
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    for parameter in frozen_parameters(network, what):
        parameter.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise SettingError(
            f"freeze={what!r} leaves nothing of {type(network).__name__} to train: its output layer shares the weights"
            " of its embeddings"
        )


def frozen_parameters(network: PreTrainedModel, what: str | int) -> list[torch.nn.Parameter]:
    """Return the parameters that are frozen for a setting, whose values stay as they are, bit for bit.

    - ``nothing``: none.
    - ``embeddings``: those that the output of the embedding layer (hidden state 0) depends on: word, position and type
      vectors and their norm, and, in networks that have one, the map to the size of the layers. An output layer that
      shares the word vectors is frozen with them.
    - a number k: also those that hidden state k depends on, so that the k-th layer gives the same vectors after the
      training. In DeBERTa the relative positions, which all layers share, are frozen from k = 1.
    - ``encoder``: all but the head.

    Raises:
        SettingError: ``what`` is none of these, there are fewer layers, or layers share their parameters, as in ALBERT,
            so that they cannot be frozen one by one.
    """
    base: torch.nn.Module = network.base_model
    if what == NOTHING:
        return []
    if what == ENCODER:
        return list(base.parameters())
    inputs = list(network.get_input_embeddings().parameters())
    behind = _parameters_of_states(network)
    layers = max(len(behind) - 1, 0)
    if what != EMBEDDINGS:
        if type(what) is not int or not 0 <= what <= layers:
            raise SettingError(
                f"the frozen part should be nothing, embeddings, encoder, or 0 to {layers} layers, got {what!r}"
            )
        if what and any(not upper - lower for lower, upper in pairwise(behind)):
            raise SettingError(
                f"the layers of {type(network).__name__} share their parameters, so the first {what} cannot be frozen"
                " without the others; freeze nothing, embeddings or encoder"
            )
    count = what if type(what) is int else 0
    ids = behind[count] if behind else set()
    ids |= {id(parameter) for layer in _layers(base, layers)[:count] for parameter in layer.parameters()}
    return [*inputs, *(parameter for parameter in base.parameters() if id(parameter) in ids)]


def _parameters_of_states(network: PreTrainedModel) -> list[set[int]]:
    """Return the ids of the parameters that each hidden state depends on; empty for a network without hidden states."""
    import torch

    required = [parameter.requires_grad for parameter in network.parameters()]
    try:
        for parameter in network.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
        with torch.enable_grad():
            return [parameters_behind(state) for state in hidden_states(network)]
    except ModelError:
        return []
    finally:
        for parameter, before in zip(network.parameters(), required, strict=True):
            parameter.requires_grad_(before)


def _layers(base: torch.nn.Module, count: int) -> list[torch.nn.Module]:
    """Return the layers of a network, some of whose parameters a few tokens may not reach, such as experts; empty if
    they are in no list.
    """
    import torch

    lists = (list(module) for module in base.modules() if isinstance(module, torch.nn.ModuleList))
    return next((layers for layers in lists if len(layers) == count), [])
