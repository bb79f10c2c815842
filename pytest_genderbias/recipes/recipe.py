"""The interface of recipes: training data, a training on them, and the performance of the trained model on its task."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from pytest_genderbias.models.model import Model
from pytest_genderbias.statistics.inference.item_sums import ItemSums
from pytest_genderbias.text.schema import Rule, at_least, one_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from transformers import PreTrainedModel, TrainerCallback

Key = TypeVar("Key", bound=Hashable)
Row = Mapping[str, Any]  #: one example, as plain values by column; their types depend on the recipe


class SplitRows(NamedTuple):
    """Rows for training, rows that are held out, and a digest of all."""

    training: list[Row]
    held_out: list[Row]
    digest: str


#: Returns a context manager in which a network is trained.
Around: TypeAlias = "Callable[[PreTrainedModel], AbstractContextManager[object]]"
CHECKPOINTS = "checkpoints"  #: folder in that of a training, from which it resumes
UNFINISHED_MODEL = (
    ".saving-"  #: begins the name of a folder in that of a training, where the model is saved until it is complete
)
#: Metadata of a field that a later version added. At its default it is no part of :func:`identifying_settings`, so that
#: trainings of earlier versions keep their identity.
ADDED_LATER: Mapping[str, bool] = {"added later": True}
NOTHING, EMBEDDINGS, ENCODER = "nothing", "embeddings", "encoder"
#: The part that a recipe does not train. Whether the network has as many layers,
#: :func:`~pytest_genderbias.recipes.trainer.frozen_parameters` checks.
Freeze: TypeAlias = Annotated[
    Annotated[str, one_of(NOTHING, EMBEDDINGS, ENCODER)] | Annotated[int, at_least(0)],
    Rule(f"{NOTHING}, {EMBEDDINGS}, {ENCODER}, or a number of layers from 0"),
]


def numbers_by_key(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the numbers of rows, from 0, by the key of each: its class, its group, or both.

    >>> numbers_by_key("aab")
    {'a': [0, 1], 'b': [2]}
    """
    numbers: dict[Key, list[int]] = {}
    for number, key in enumerate(keys):
        numbers.setdefault(key, []).append(number)
    return numbers


def identifying_settings(owner: DataclassInstance) -> dict[str, object]:
    """Return the fields of a method or a recipe that identify its trainings, without :data:`ADDED_LATER` ones at their
    defaults.

    >>> from pytest_genderbias.mitigation import make_method
    >>> "initials" in identifying_settings(make_method("cda")), "pairs" in identifying_settings(make_method("cda"))
    (False, True)
    """
    values = asdict(owner)
    for field in fields(owner):
        if field.metadata == ADDED_LATER and values[field.name] == field.default:
            del values[field.name]
    return values


@dataclass(frozen=True)
class Performance:
    """How well a model performs its task: one figure, and the sums over the examples that it is computed from.

    ``name``: ``accuracy``, ``perplexity``, ``pearson_r``, ``f1``, or a name of your own recipe. ``direction``: the
    worse direction, ``higher`` or ``lower``. ``item_sums``: by example or passage, so that two models are compared on
    the same ones.
    """

    name: str
    direction: str
    value: float
    item_sums: ItemSums


@dataclass(frozen=True)
class Training:
    """Options that a caller adds to a recipe's training; the defaults change nothing.

    ``callbacks``: for transformers' Trainer; one with an attribute ``report`` is given the Trainer's ``log`` there, so
    that its figures go where the Trainer's go (``report_to``). ``around``: returns a context manager that is entered
    during the training, given the network. ``freeze``: the part that is not trained: ``nothing``, ``embeddings``,
    ``encoder`` (all but the head), or a number k: the embeddings and the first k layers
    (:func:`~pytest_genderbias.recipes.trainer.frozen_parameters`). A recipe may have a setting of the same name, which
    holds where the caller freezes ``nothing``. ``new_head``: reinitialise the head from the seed. ``max_steps``: number
    of steps; ``None``: as the recipe sets it. ``progress``: show transformers' progress bar.
    """

    callbacks: Sequence[TrainerCallback] = ()
    around: Around = nullcontext
    freeze: str | int = NOTHING
    new_head: bool = False
    max_steps: int | None = None
    progress: bool = False


PLAIN = Training()  #: a training with the recipe's options only


def nested(*arounds: Around) -> Around:
    """Return a function like ``around`` of :class:`Training` that enters several contexts, the first one outermost."""

    @contextmanager
    def around(network: PreTrainedModel) -> Iterator[PreTrainedModel]:
        with ExitStack() as stack:
            for enter in arounds:
                stack.enter_context(enter(network))
            yield network

    return around


@runtime_checkable
class Evaluator(Protocol):
    """Measures how well models perform a task, as every recipe does."""

    @abstractmethod
    def evaluate(self, model: Model) -> list[Performance]:
        """Return the performance on data that the recipe never trains on, the main figure first.

        Raises:
            NotApplicableError: the model cannot perform the task.
        """


@runtime_checkable
class Recipe(Evaluator, Protocol):
    """A seeded, resumable training for a task, and the evaluation on that task.

    Recipes of your own need these attributes and methods, and no base class.

    A recipe may also have ``suite_settings(suite, folder)``: returns the options with which a suite measures its
    models, such as texts that it held out and writes to the folder; empty for suites without any.
    ``encoder_is_frozen``: whether its trainings change the head alone, so that ``superficial`` would compare an encoder
    with itself. ``mentions``: column of the mentions, (start, end, words, cluster) each, in the only text column; data
    methods move them when they change the text. ``evaluates``: names of the figures of :meth:`evaluate`, so that a
    budget for another is refused before the training.

    Attributes:
        name: name of the recipe in YAML files.
        columns: text columns of a row, which data methods may change.
        label: column of the class, or ``None``.
        group: column of the person's gender, or ``None``.
        makes_task: whether the model given to :meth:`start` cannot perform the task yet, such as an encoder without the
            head. Models "before" a mitigation are then trained without the mitigation; otherwise the given model is
            "before".
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    label: ClassVar[str | None]
    group: ClassVar[str | None]
    makes_task: ClassVar[bool]

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Return everything that determines the trained model, as JSON values, with digests of the data.

        Equal settings mean equal trainings: a folder of runs identifies trainings by them.
        """

    @abstractmethod
    def rows(self) -> list[Row]:
        """Return the unchanged training data.

        Raises:
            MissingDataError: the data are not there.
            DataFileError: a file has an invalid format. Broken lines of a corpus are reported and skipped.
        """

    @abstractmethod
    def start(self, model: Model | None, seed: int) -> Model:
        """Return the model that training starts from: a copy of the given model, with a head for the task.

        A head that the given model lacks is initialised from the seed. Mitigations before training change the returned
        model.

        Raises:
            NotApplicableError: the recipe trains another kind of model.
        """

    @abstractmethod
    def train(
        self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = Training()
    ) -> Path:
        """Train a model that :meth:`start` returned, and return the folder of the checkpoint, ``folder/model``.

        ``folder/model`` exists only once it is complete. Checkpoints of the training lie beside it, and an interrupted
        training resumes from the last complete one. The same model, rows and seed give the same weights, interrupted or
        not.

        Raises:
            NotApplicableError: ``accelerate`` is not installed.
            ModelError: the loss became NaN or infinite.
            SettingError: the files cannot be written.
        """
