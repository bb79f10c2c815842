"""What a recipe is: data, a training on them, and a figure that says how well the trained model does its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pytest_genderbias.models.model import Model
from pytest_genderbias.statistics.inference.item_sums import Moments

Row = Mapping[str, Any]  #: one example, as plain values by column

NOTHING, EMBEDDINGS, ENCODER = "nothing", "embeddings", "encoder"


@dataclass(frozen=True)
class Performance:
    """How well a model does its task: one figure, and the sums of the examples that make it up.

    ``name``: ``accuracy``, ``perplexity``, ``pearson_r``, ``f1`` or what the recipe says. ``direction``: which way is worse,
    ``higher`` or ``lower``. ``moments``: by example or passage, so that two models are compared on the same ones.
    """

    name: str
    direction: str
    value: float
    moments: Moments


@dataclass(frozen=True)
class Training:
    """What a caller adds to a training of a recipe; nothing by default.

    ``callbacks``: for transformers' Trainer. ``around``: a context manager around the training, given the network that is trained.
    ``freeze``: what is not trained: ``nothing``, ``embeddings``, ``encoder`` (all but the head), or a number k: the embeddings and the
    first k layers. ``new_head``: the head starts anew, from the seed. ``max_steps``: stop there; ``None`` as the recipe has it.
    ``progress``: whether a bar is shown.
    """

    callbacks: Sequence[Any] = ()
    around: Callable[[Any], AbstractContextManager[Any]] = nullcontext
    freeze: str | int = NOTHING
    new_head: bool = False
    max_steps: int | None = None
    progress: bool = False


PLAIN = Training()  #: a training to which nothing is added


class Recipe(Protocol):
    """A training, seeded and resumable, and the evaluation that goes with it.

    ``name`` is what YAML calls it. ``columns`` are the text columns of a row, which data methods may change. ``label`` is the column of the
    class, and ``group`` that of the person's gender, where rows have one. ``makes_task``: the model that it is given cannot do the task yet
    (an encoder without the head, a network that does not exist before), so that "before" is the one that was trained without a mitigation;
    a recipe that trains on has the given model itself as "before".

    A recipe may have ``suite_settings(suite, folder)``: the settings with which its models are measured, as texts that it held out and
    writes to the folder.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    label: ClassVar[str | None]
    group: ClassVar[str | None]
    makes_task: ClassVar[bool]

    def settings(self) -> dict[str, Any]:
        """Return all that decides what comes out, as JSON values, with digests of the data: equal settings, equal training."""

    def rows(self) -> list[Row]:
        """Return the training data as they are.

        Raises:
            MissingDataError: they are not there.
            DataFileError: a file breaks a rule; a corpus with a broken line reports the line and goes on.
        """

    def start(self, model: Model | None, seed: int) -> Model:
        """Return the model that training begins with: a copy of the given one, with a head for the task made from the seed.

        The head is that of ``new_head`` only where the given model lacks one. What a mitigation does before training is done to this.

        Raises:
            NotApplicableError: the recipe trains another kind of model.
        """

    def train(
        self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = Training()
    ) -> Path:
        """Train what :meth:`start` returned on rows, and return the folder of the checkpoint, ``folder/model``, written whole.

        Checkpoints on the way lie beside it, and an interrupted training goes on from the last whole one. The same model, rows and
        seed give the same weights, interrupted or not.

        Raises:
            NotApplicableError: ``accelerate`` is not installed.
            ModelError: the loss became NaN or infinite.
            SettingError: there is no room for the files.
        """

    def evaluate(self, model: Model) -> list[Performance]:
        """Return how well a model does the task on data that no training of the recipe sees, the main figure first."""
