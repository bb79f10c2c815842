"""The settings that all recipes of this package have, and the steps of a training that are the same in each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from numpy.typing import ArrayLike

from pytest_genderbias.datasets.folder import DataFolder, own_path
from pytest_genderbias.errors import SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.recipes.recipe import ENCODER, NOTHING, PLAIN, Recipe, Row, Training, identifying_settings
from pytest_genderbias.recipes.trainer import (
    Collator,
    Examples,
    check_arguments,
    order_by_length,
    require_train,
    run_trainer,
)
from pytest_genderbias.text.schema import Count, Positive, at_least, check_fields

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
        check_arguments(self.arguments)
        check_fields(self)

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
        network, examples, collator, arguments, training = self._prepared(model, rows, seed, training)
        tokenizer = model.backend.tokenizer
        return run_trainer(
            network, tokenizer, examples, collator, folder, seed, arguments, training, divisible=self.divisible
        )

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
        return DataFolder(None if self.data is None else own_path(self.data))
