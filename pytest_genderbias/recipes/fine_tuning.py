"""Recipes that fine-tune an encoder for natural language inference, sentence similarity, or labelled texts such as
biographies.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.files import column_names, read_name, read_rows, read_text
from pytest_genderbias.datasets.folder import DATA_SETS, DataFolder, MissingDataError, own_path
from pytest_genderbias.datasets.inference import LABELS, read_inference
from pytest_genderbias.datasets.sentence_similarity import read_similarity
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.config_entries import labels_of
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import NLI_CLASSIFIER, TEXT_CLASSIFIER
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.freezing import frozen_parameters, with_freeze
from pytest_genderbias.recipes.heads import (
    CLASSIFICATION,
    REGRESSION,
    has_labels,
    refuse_hooks,
    renew_head,
    with_head,
)
from pytest_genderbias.recipes.held_out import TakenOut, hold_out, some_rows, take_out, write_rows
from pytest_genderbias.recipes.recipe import (
    ADDED_LATER,
    ENCODER,
    NOTHING,
    PLAIN,
    Freeze,
    Performance,
    Recipe,
    Row,
    SuiteSettingsRecipe,
    Training,
    identifying_settings,
)
from pytest_genderbias.recipes.trainer import check_arguments, require_train, run_trainer, tuning_arguments
from pytest_genderbias.recipes.training_examples import TokenisedRows, order_by_length
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.correlation import pearson, product_sums
from pytest_genderbias.statistics.inference.blocks import blocks_of
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.families.shared.labelled import BIOGRAPHIES, ColumnOptions, read_table
from pytest_genderbias.suites.query import ClassProbabilities, PairProbabilities, PairSimilarity, Query
from pytest_genderbias.suites.suite import Suite
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.schema import Count, Positive, Rule, Share, at_least, check_fields, one_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: What ``taken_out`` should be.
_TAKEN_OUT = Rule(
    "entries of label, group and a share above 0, up to 1", lambda entries: all(0 < share <= 1 for *_, share in entries)
)
_BY_LENGTH = "group_by_length"  #: done here (:func:`order_by_length`), so that an interrupted training can be resumed


@dataclass(frozen=True)
class FineTuning(Recipe):
    """What the recipes have in common. The fields are settings.

    ``data``: folder of the data sets. ``training`` and ``evaluation``: labelled files instead of the data set's.
    ``max_rows`` and ``max_evaluation``: maximum numbers of rows. ``epochs``: may be fractional. ``learning_rate``: by
    default 3e-5, 1e-4 for hidden sizes below 768 and 3e-4 below 256; 1e-3 with a frozen encoder. After a warm-up of 6 %
    of the steps it falls linearly. ``max_length``: maximum number of tokens of a row in training. ``freeze``: the part
    that is not trained: ``nothing``, ``embeddings``, ``encoder`` (all but the head), or a number k: the embeddings and
    the first k layers (:func:`~pytest_genderbias.recipes.freezing.frozen_parameters`); a caller's ``Training.freeze``
    takes its place. ``arguments``: arguments of ``transformers.TrainingArguments``, which override the settings.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    label: ClassVar[str | None] = "label"
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = True
    data: str | None = None
    training: str | None = None
    evaluation: str | None = None
    max_rows: Count | None = None
    max_evaluation: Count | None = None
    epochs: Positive = 3.0
    batch_size: Count = 32
    learning_rate: Positive | None = None
    max_length: Annotated[int, at_least(8)] = 128
    arguments: Mapping[str, object] = field(default_factory=dict)
    freeze: Freeze = field(default=NOTHING, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        check_fields(self)
        check_arguments(self.arguments)

    def settings(self) -> dict[str, object]:
        """Return the settings, with digests of the files in place of their names."""
        settings = identifying_settings(self)
        for name in ("data", "training", "evaluation"):
            del settings[name]
        return {**settings, "arguments": dict(self.arguments), "files": dict(self._digests)}

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The names of the outputs."""

    @property
    @abstractmethod
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files that are read, by purpose (``training``, ``evaluation``)."""

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a copy of a checkpoint with a head for the labels, initialised from the seed; a head for the same
        labels is kept.

        Raises:
            NotApplicableError: the model is not a checkpoint, or its architecture has no sequence classifier.
            SettingError: ``freeze`` does not fit the network.
        """
        start = with_head(model, self.labels, seed)
        frozen_parameters(start.backend.network, self.freeze)
        return start

    def train(self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = PLAIN) -> Path:
        """Train a copy of a model that :meth:`start` returned, or of a trained one, and return ``folder/model``.

        The seed and the lengths of the rows determine their order. A frozen encoder is the network below its pooler.

        Raises:
            NotApplicableError: ``accelerate`` is not installed, or the model lacks the head.
            ModelError: the loss became NaN or infinite.
            SettingError: the files cannot be written, or there are no rows.
        """
        require_train()
        if (folder / "model").is_dir():
            return folder / "model"
        if not rows:
            raise SettingError("there is no row to train on")
        training = with_freeze(training, self.freeze)
        network = self._network(model, seed, training)
        tokenizer = model.backend.tokenizer
        longest = min(self.max_length, model.backend.max_length or self.max_length)
        columns = [[str(row[name]) for row in rows] for name in self.columns]
        examples = TokenisedRows(tokenizer, columns, self._targets(network, rows), longest)
        arguments = tuning_arguments(self, model, training)
        if self.arguments.get("train_sampling_strategy", _BY_LENGTH) == _BY_LENGTH:
            batch = arguments["per_device_train_batch_size"]
            examples.order = order_by_length(examples.lengths, batch, arguments["num_train_epochs"], seed)
            arguments |= {"train_sampling_strategy": "sequential", "num_train_epochs": 1}
        from transformers import DataCollatorWithPadding

        if training.freeze == ENCODER:
            training = replace(training, around=partial(_training_pooler, around=training.around))
        return run_trainer(
            network,
            tokenizer,
            examples,
            DataCollatorWithPadding(tokenizer),
            folder,
            seed,
            arguments,
            training,
            divisible=True,
        )

    def _network(self, model: Model, seed: int, training: Training) -> PreTrainedModel:
        """Return the copy of the network that is trained."""
        if not isinstance(model.backend, Checkpoint) or not has_labels(model, self.labels):
            raise NotApplicableError(
                f"{model.name} is {model.role.text}; the recipe {self.name} trains a classifier of"
                f" {', '.join(self.labels[:8])}: give it to start() first"
            )
        refuse_hooks(model)
        network: PreTrainedModel = copied(model.backend.network)
        network.config.problem_type = REGRESSION if network.config.num_labels == 1 else CLASSIFICATION
        if training.new_head:
            renew_head(network, seed)
        return network

    def _targets(self, network: PreTrainedModel, rows: Sequence[Row]) -> Sequence[int | float]:
        """Return the target output of each row: the number of its label."""
        number = {folded(name): i for i, name in enumerate(labels_of(network.config))}
        named = [str(row[self.label]) for row in rows]  # type: ignore[index]
        if unknown := sorted({name for name in named if folded(name) not in number}):
            outputs = ", ".join(labels_of(network.config))
            raise SettingError(f"no output of the network is called {unknown[0]!r}; there are {outputs}")
        return [number[folded(name)] for name in named]

    @cached_property
    def _digests(self) -> dict[str, list[str]]:
        return {
            name: [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths]
            for name, paths in self.files.items()
        }

    def _file(self, file: str | None, data_set: str, split: str | None) -> tuple[Path, ...]:
        """Return the given file, or those of a data set."""
        if file is None:
            return DataFolder(None if self.data is None else own_path(self.data)).find_all(data_set, split)
        path = own_path(file)
        if not path.is_file():
            raise DataFileError(f"{path}: no such file")
        return (path,)


@dataclass(frozen=True)
class InferenceTuning(FineTuning):
    """Natural language inference: SNLI, or a labelled file of its form. ``accuracy`` is on SNLI test, or on dev if test
    is missing.
    """

    name: ClassVar[str] = "nli"
    columns: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")
    max_length: Annotated[int, at_least(8)] = 64

    @property
    def labels(self) -> tuple[str, ...]:
        """Entailment, neutral, contradiction."""
        return LABELS

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files of training and evaluation."""
        return {
            "training": self._file(self.training, "snli", "train"),
            "evaluation": self._file(self.evaluation, "snli", None),
        }

    def rows(self) -> list[Row]:
        """Return the labelled pairs, in the order of the file."""
        return _inference_rows(self.files["training"], self.max_rows)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the share of pairs with a correct label; its units are blocks of consecutive pairs.

        Raises:
            NotApplicableError: the model is not an NLI classifier.
        """
        if model.role.kind != NLI_CLASSIFIER:
            raise NotApplicableError(f"{model.name} is {model.role.text}; accuracy needs an NLI classifier")
        rows = _inference_rows(self.files["evaluation"], self.max_evaluation)
        probabilities = _answered(
            model, [(row["premise"], row["hypothesis"]) for row in rows], PairProbabilities(), self.name
        )
        gold = np.asarray([LABELS.index(row["label"]) for row in rows])
        return [_accuracy(probabilities.argmax(axis=1) == gold, "sentence pairs", "pairs")]


@dataclass(frozen=True)
class SimilarityTuning(FineTuning):
    """Regression of the similarity of sentences on the scale of the STS Benchmark, 0 to 5. ``pearson_r`` is on STS-B
    dev.
    """

    name: ClassVar[str] = "similarity"
    columns: ClassVar[tuple[str, ...]] = ("sentence1", "sentence2")

    @property
    def labels(self) -> tuple[str, ...]:
        """One output."""
        return ("similarity",)

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files of training and evaluation."""
        return {
            "training": self._file(self.training, "stsb", "train"),
            "evaluation": self._file(self.evaluation, "stsb", "dev"),
        }

    def rows(self) -> list[Row]:
        """Return the scored pairs, in the order of the file."""
        return _similarity_rows(self.files["training"], self.max_rows)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return Pearson's r of scores and gold scores; its units are blocks of consecutive pairs. Scores of an encoder
        are cosines.

        Raises:
            UndefinedError: all pairs have the same score.
        """
        rows = _similarity_rows(self.files["evaluation"], self.max_evaluation)
        pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
        scores = _answered(model, pairs, PairSimilarity(), self.name)[:, 0]
        gold = np.asarray([row["label"] for row in rows])
        labels, block = blocks_of(len(rows), "pairs")
        by_block = np.stack([np.bincount(block, sums) for sums in product_sums(gold, scores).T], axis=1).astype(
            np.float64
        )
        item_sums = ItemSums(labels, by_block, "pearson", "blocks of sentence pairs")
        return [Performance("pearson_r", "lower", pearson(gold, scores), item_sums)]

    def _targets(self, network: PreTrainedModel, rows: Sequence[Row]) -> Sequence[float]:
        return [float(row["label"]) for row in rows]


@dataclass(frozen=True)
class ClassifierTuning(FineTuning, SuiteSettingsRecipe):
    """Classification of texts about persons with a gender: biographies, or a labelled file (docs/reference/data.md).
    ``accuracy`` is on held-out texts.

    ``held_out``: share of each label and gender that is never trained on, unless ``evaluation`` names a file; the draw
    does not depend on the seed. ``taken_out``: entries ``(label, gender, share)``: this share of their rows is removed
    from the training part, for an imbalance that a mitigation can correct. Groups are ``female`` and ``male``, or those
    of the file. A file without the column ``group`` can be trained on, but neither balanced nor measured by group.

    The suite ``bios`` is measured on the held-out texts, with the shares of women in the training part
    (:meth:`suite_settings`).
    """

    name: ClassVar[str] = "classification"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    group: ClassVar[str | None] = "gender"
    data_set: Annotated[str, one_of(*BIOGRAPHIES)] = "wiki_career"
    held_out: Share = 0.3
    taken_out: Annotated[TakenOut, _TAKEN_OUT] = ()
    text_column: str = "text"
    label_column: str = "label"
    group_column: str = "group"

    def __post_init__(self) -> None:
        """Reject invalid settings, and set ``group`` to ``None`` for a file without groups."""
        super().__post_init__()
        if self.training is not None and not self._has_groups(self.files["training"][0]):
            object.__setattr__(self, "group", None)
            if self.taken_out:
                raise SettingError(f"{self.training} has no column {self.group_column!r}, which taken_out needs")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of both parts, in alphabetical order."""
        labels = tuple(sorted({row["label"] for part in self._parts for row in part}))
        if len(labels) < 2:
            raise DataFileError(
                f"{self.files['training'][0]}: a classifier needs two labels, there is only {labels[0]!r}"
            )
        spelt = {folded(label): label for label in reversed(labels)}
        for label in labels:
            if (other := spelt[folded(label)]) != label:
                raise DataFileError(
                    f"{self.files['training'][0]}: the labels {other!r} and {label!r} differ by case only; write them"
                    " alike, or rename one of them"
                )
        return labels

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files of training, and of evaluation if set."""
        split = "train" if self._has_training_split() else None
        files = {"training": self._file(self.training, self.data_set, split)}
        return files if self.evaluation is None else {**files, "evaluation": self._file(self.evaluation, "", None)}

    def rows(self) -> list[Row]:
        """Return the training part, without the rows that are held out or taken out."""
        return list(self._parts[0])

    def held_out_file(self, folder: str | Path) -> Path:
        """Write the held-out texts as JSON lines for the option ``texts`` of the suite ``bios``, and return the
        file.
        """
        return self._written(folder, "held-out", self._parts[1])

    def training_file(self, folder: str | Path) -> Path:
        """Write the unmitigated training part for the option ``training`` of ``bios`` (shares of women), and return the
        file.
        """
        return self._written(folder, "training", self._parts[0])

    def suite_settings(self, suite: Suite, folder: str | Path) -> dict[str, object]:
        """Return the options with which ``bios`` measures held-out texts, written to a folder; empty for other
        suites.
        """
        if suite.family.name != "bios":
            return {}
        return {"texts": str(self.held_out_file(folder)), "training": str(self.training_file(folder))}

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the share of held-out texts with a correct label; its units are blocks of consecutive texts.

        Raises:
            NotApplicableError: the model does not classify these labels.
        """
        present = [folded(label) for label in model.role.labels]
        if model.role.kind not in (TEXT_CLASSIFIER, NLI_CLASSIFIER) or {folded(y) for y in self.labels} - set(present):
            raise NotApplicableError(
                f"{model.name} is {model.role.text}; accuracy needs a classifier of {', '.join(self.labels[:8])}"
            )
        rows = some_rows(self._parts[1], self.max_evaluation)
        probabilities = _answered(model, [(row["text"],) for row in rows], ClassProbabilities(), self.name)
        gold = np.asarray([present.index(folded(row["label"])) for row in rows])
        return [_accuracy(probabilities.argmax(axis=1) == gold, "texts", "texts")]

    @cached_property
    def _parts(self) -> tuple[list[Row], list[Row]]:
        """The training part and the held-out part."""
        files = self.files
        rows = self._read(files["training"])
        if "evaluation" in files:
            train, out = rows, self._read(files["evaluation"])
        else:
            train, out = hold_out(rows, ("label", *([self.group] if self.group else [])), self.held_out)
            if not out:
                raise DataFileError(
                    f"{files['training'][0]}: too few rows of each label and group to hold {self.held_out} of them out;"
                    " set evaluation to a file"
                )
        if self.taken_out:
            train = take_out(train, self.taken_out, "label", "gender")
        return some_rows(train, self.max_rows), out

    def _read(self, paths: Sequence[Path]) -> list[Row]:
        several = len(paths) > 1
        return [row for path in paths for row in self._rows_of(path, f"{path.name}:" if several else "")]

    def _rows_of(self, path: Path, prefix: str) -> Iterator[Row]:
        """Yield the rows of a table, with a prefix before their ids."""
        if not self._has_groups(path):
            columns = (self.text_column, self.label_column)
            for number, row in enumerate(read_rows(path, columns), start=1):
                text, label = read_text(path, row, columns[0]), read_name(path, row, columns[1])
                yield {"id": f"{prefix}{number}", "text": text, "label": label}
            return
        options = ColumnOptions(
            text_column=self.text_column, label_column=self.label_column, group_column=self.group_column
        )
        table = read_table(path, options, any_group=True)
        for row_id, text, label, group, name in zip(
            table.ids, table.texts, table.labels, table.groups, table.names, strict=True
        ):
            fields_of_row = {"id": prefix + row_id, "text": text, "label": label, "gender": group}
            yield {**fields_of_row, "name": name} if name else fields_of_row

    def _has_groups(self, path: Path) -> bool:
        present = column_names(path)
        return self.group_column in present or "profession" in present

    def _has_training_split(self) -> bool:
        """Return whether the data set has a training split on disk."""
        if self.training is not None or "train" not in DATA_SETS[self.data_set].splits:
            return False
        try:
            self._file(None, self.data_set, "train")
        except MissingDataError:
            return False
        return True

    def _written(self, folder: str | Path, what: str, rows: Sequence[Row]) -> Path:
        """Write rows for the suite to a file whose name has their digest."""
        content = [{("group" if key == "gender" else key): value for key, value in row.items()} for row in rows]
        digest = hashlib.sha256(repr(content).encode()).hexdigest()[:12]
        return write_rows(Path(folder) / f"{what}-{digest}.jsonl", content)


@contextmanager
def _training_pooler(
    network: PreTrainedModel, around: Callable[[PreTrainedModel], AbstractContextManager[object]]
) -> Iterator[object]:
    """Train the pooler with the head: in RoBERTa it is part of the head, in BERT it belongs to the frozen body."""
    for name, parameter in network.base_model.named_parameters():
        if name.startswith("pooler."):
            parameter.requires_grad_(True)
    with around(network) as entered:
        yield entered


def _inference_rows(paths: Sequence[Path], most: int | None) -> list[Row]:
    rows: list[Row] = []
    for pairs in map(read_inference, paths):
        columns = zip(pairs.premises, pairs.hypotheses, pairs.labels, strict=True)
        rows += [{"premise": first, "hypothesis": second, "label": label} for first, second, label in columns]
    return rows[:most]


def _similarity_rows(paths: Sequence[Path], most: int | None) -> list[Row]:
    rows: list[Row] = []
    for pairs in map(read_similarity, paths):
        columns = zip(pairs.sentences1, pairs.sentences2, pairs.scores.tolist(), strict=True)
        rows += [{"sentence1": first, "sentence2": second, "label": score} for first, second, score in columns]
    return rows[:most]


def _answered(model: Model, texts: Sequence[tuple[str, ...]], query: Query, label: str) -> NDArray[np.floating]:
    """Return the answers of a model for texts, in their order: shape (texts, outputs)."""
    cases = TextCases(texts)
    scores, _ = answer(Question(cases, query, whole=True), model, cases.digest(), ScoreSettings(), label)
    ordered: NDArray[np.floating] = scores.in_order()
    return ordered


def _accuracy(right: NDArray[np.bool_], over: str, what: str) -> Performance:
    """Return the share of correct examples; its units are blocks of consecutive examples."""
    labels, block = blocks_of(len(right), what)
    item_sums = mean_sums(labels, np.bincount(block, right), np.bincount(block), f"blocks of {over}")
    return Performance("accuracy", "lower", float(right.mean()), item_sums)
