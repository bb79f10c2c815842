"""Recipes that fine-tune an encoder: natural language inference, sentence similarity, and labelled texts such as biographies."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.files import column_names, read_name, read_rows, read_text
from pytest_genderbias.datasets.folder import DATA_SETS, DataFolder, MissingDataError, own_path
from pytest_genderbias.datasets.inference import LABELS, read_inference
from pytest_genderbias.datasets.similarity import read_similarity
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import NLI_CLASSIFIER, TEXT_CLASSIFIER
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.checks import check_positive, check_share, check_whole
from pytest_genderbias.recipes.examples import TokenisedRows, order_by_length
from pytest_genderbias.recipes.heads import (
    CLASSIFICATION,
    REGRESSION,
    has_labels,
    refuse_hooks,
    renew_head,
    with_head,
)
from pytest_genderbias.recipes.held_out import TakenOut, hold_out, some_rows, take_out, write_rows
from pytest_genderbias.recipes.recipe import ENCODER, PLAIN, Performance, Recipe, Row, SuiteSettingsRecipe, Training
from pytest_genderbias.recipes.trainer import check_arguments, require_train, run_trainer
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.correlation import pearson, product_sums
from pytest_genderbias.statistics.inference.blocks import blocks_of
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.families.shared.labelled import BIOGRAPHIES, read_table
from pytest_genderbias.suites.query import ClassProbabilities, PairProbabilities, PairSimilarity, Query
from pytest_genderbias.suites.suite import Suite

#: Learning rates by the size of the hidden states, from the largest, and that of a head on a frozen encoder (orgad2022, appendix).
LEARNING_RATES = ((768, 3e-5), (256, 1e-4), (0, 3e-4))
HEAD_LEARNING_RATE = 1e-3
_WARM_UP = 0.06  #: of all steps
_SAVED_EVERY = 200  #: steps
_BY_LENGTH = "group_by_length"  #: done here (:func:`order_by_length`), so that an interrupted training can go on


@dataclass(frozen=True)
class FineTuning(Recipe):
    """What the recipes have in common. Fields are settings.

    ``data``: folder of the data sets. ``training`` and ``evaluation``: labelled files in place of the data set's. ``max_rows`` and
    ``max_evaluation``: at most so many of either. ``epochs`` may be a part of one. ``learning_rate``: by default 3e-5, 1e-4 for hidden states
    below 768 and 3e-4 below 256; 1e-3 where the encoder is frozen. It falls linearly, after 6 % of the steps. ``max_length``: tokens
    that a row is cut to in training. ``arguments``: of ``transformers.TrainingArguments``; they go before the settings.
    """

    name: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    label: ClassVar[str | None] = "label"
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = True
    data: str | None = None
    training: str | None = None
    evaluation: str | None = None
    max_rows: int | None = None
    max_evaluation: int | None = None
    epochs: float = 3.0
    batch_size: int = 32
    learning_rate: float | None = None
    max_length: int = 128
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse settings that make no sense."""
        check_arguments(self.arguments)
        for name, least in (("max_rows", 1), ("max_evaluation", 1), ("batch_size", 1), ("max_length", 8)):
            value = getattr(self, name)
            if value is not None or name in ("batch_size", "max_length"):
                check_whole(name, value, least)
        check_positive("epochs", self.epochs)
        if self.learning_rate is not None:
            check_positive("learning_rate", self.learning_rate)

    def settings(self) -> dict[str, object]:
        """Return the settings, and digests of the files in place of their names."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        told = {key: value for key, value in own.items() if key not in ("data", "training", "evaluation")}
        return {**told, "arguments": dict(self.arguments), "files": dict(self._digests)}

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The names of the outputs."""

    @property
    @abstractmethod
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files that are read, by what they are for."""

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a copy of a checkpoint with a head for the labels, from the seed; a head for the same labels is kept.

        Raises:
            NotApplicableError: the model is no checkpoint whose architecture has a sequence classifier.
        """
        return with_head(model, self.labels, seed)

    def train(self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = PLAIN) -> Path:
        """Train a copy of a model that :meth:`start` returned, or of a trained one, and return ``folder/model``.

        The order of the rows is known from the seed and their lengths. A frozen encoder is the network up to its pooler.

        Raises:
            NotApplicableError: ``accelerate`` is not installed, or the model lacks the head.
            ModelError: the loss became NaN or infinite.
            SettingError: there is no room for the files, or no row.
        """
        require_train()
        if (folder / "model").is_dir():
            return folder / "model"
        if not rows:
            raise SettingError("there is no row to train on")
        network = self._network(model, seed, training)
        tokenizer = model.backend.tokenizer
        longest = min(self.max_length, model.backend.max_length or self.max_length)
        columns = [[str(row[name]) for row in rows] for name in self.columns]
        examples: Any = TokenisedRows(tokenizer, columns, self._targets(network, rows), longest)
        arguments = self._arguments(model, training)
        if self.arguments.get("train_sampling_strategy", _BY_LENGTH) == _BY_LENGTH:
            batch = arguments["per_device_train_batch_size"]
            examples.order = order_by_length(examples.lengths, batch, arguments["num_train_epochs"], seed)
            arguments |= {"train_sampling_strategy": "sequential", "num_train_epochs": 1}
        from transformers import DataCollatorWithPadding

        if training.freeze == ENCODER:
            training = replace(training, around=partial(_training_pooler, around=training.around))
        return run_trainer(
            network, tokenizer, examples, DataCollatorWithPadding(tokenizer), folder, seed, arguments, training
        )

    def _network(self, model: Model, seed: int, training: Training) -> Any:
        """Return the copy that is trained."""
        if not isinstance(model.backend, Checkpoint) or not has_labels(model, self.labels):
            raise NotApplicableError(
                f"{model.name} is {model.role.text}; the recipe {self.name} trains a classifier of {', '.join(self.labels[:8])}: give it "
                "to start() first"
            )
        refuse_hooks(model)
        network = copied(model.backend.network)
        network.config.problem_type = REGRESSION if network.config.num_labels == 1 else CLASSIFICATION
        if training.new_head:
            renew_head(network, seed)
        return network

    def _targets(self, network: Any, rows: Sequence[Row]) -> list[Any]:
        """Return what the network should say of each row: the number of its label."""
        number = {str(name).casefold(): int(i) for i, name in network.config.id2label.items()}
        named = [str(row[self.label]) for row in rows]  # type: ignore[index]
        if unknown := sorted({name for name in named if name.casefold() not in number}):
            outputs = ", ".join(map(str, network.config.id2label.values()))
            raise SettingError(f"no output of the network is called {unknown[0]!r}; there are {outputs}")
        return [number[name.casefold()] for name in named]

    def _arguments(self, model: Model, training: Training) -> dict[str, Any]:
        rate = self.learning_rate or _learning_rate(model.width, training.freeze == ENCODER)
        return {
            "num_train_epochs": self.epochs, "per_device_train_batch_size": self.batch_size, "learning_rate": rate,
            "lr_scheduler_type": "linear", "warmup_steps": _WARM_UP, "save_strategy": "steps", "save_steps": _SAVED_EVERY,
            **self.arguments,
        }  # fmt: skip

    @cached_property
    def _digests(self) -> dict[str, list[str]]:
        return {
            name: [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in paths]
            for name, paths in self.files.items()
        }

    def _file(self, given: str | None, data_set: str, split: str | None) -> tuple[Path, ...]:
        """Return the file that the user gave, or that of a data set."""
        if given is None:
            return DataFolder(None if self.data is None else own_path(self.data)).find_all(data_set, split)
        path = own_path(given)
        if not path.is_file():
            raise DataFileError(f"{path}: no such file")
        return (path,)


@dataclass(frozen=True)
class InferenceTuning(FineTuning):
    """Natural language inference: SNLI, or a labelled file of its form. ``accuracy`` is on SNLI test, or dev where that is not there."""

    name: ClassVar[str] = "nli"
    columns: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")
    max_length: int = 64

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
        """Return labelled pairs, the first ones of the file."""
        return _inference_rows(self.files["training"], self.max_rows)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the share of pairs that are labelled right, by block of consecutive pairs.

        Raises:
            NotApplicableError: the model is no NLI classifier.
        """
        if model.role.kind != NLI_CLASSIFIER:
            raise NotApplicableError(f"{model.name} is {model.role.text}; accuracy is an NLI classifier's")
        rows = _inference_rows(self.files["evaluation"], self.max_evaluation)
        found = _answered(model, [(row["premise"], row["hypothesis"]) for row in rows], PairProbabilities(), self.name)
        gold = np.asarray([LABELS.index(row["label"]) for row in rows])
        return [_accuracy(found.argmax(axis=1) == gold, "sentence pairs", "pairs")]


@dataclass(frozen=True)
class SimilarityTuning(FineTuning):
    """Similarity of sentences on the scale of the STS Benchmark, 0 to 5, by regression. ``pearson_r`` is on STS-B dev."""

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
        """Return scored pairs, the first ones of the file."""
        return _similarity_rows(self.files["training"], self.max_rows)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return Pearson's r of scores with gold scores, by block of consecutive pairs; an encoder's scores are cosines.

        Raises:
            UndefinedError: the model gives all pairs the same score.
        """
        rows = _similarity_rows(self.files["evaluation"], self.max_evaluation)
        pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
        found = _answered(model, pairs, PairSimilarity(), self.name)[:, 0]
        gold = np.asarray([row["label"] for row in rows])
        labels, block = blocks_of(len(rows), "pairs")
        by_block = np.stack([np.bincount(block, sums) for sums in product_sums(gold, found).T], axis=1).astype(
            np.float64
        )
        item_sums = ItemSums(labels, by_block, "pearson", "blocks of sentence pairs")
        return [Performance("pearson_r", "lower", pearson(gold, found), item_sums)]

    def _targets(self, network: Any, rows: Sequence[Row]) -> list[Any]:
        return [float(row["label"]) for row in rows]


@dataclass(frozen=True)
class ClassifierTuning(FineTuning, SuiteSettingsRecipe):
    """Classification of texts whose persons have a gender: biographies, or a labelled file (docs/data.md). ``accuracy`` is on texts held out.

    ``held_out``: the share of each label and gender that is never trained on, by a draw that no seed changes; none where
    ``evaluation`` names a file. ``taken_out``: ``(label, gender, share)``: the training part loses this share of their rows, so that there
    is an imbalance to mend. Groups are ``female`` and ``male``, or what the file has. A file without the column ``group`` trains, but
    there is nothing to balance or to measure by group.

    The suite ``bios`` is measured on what was held out, with shares of women as in training (:meth:`suite_settings`).
    """

    name: ClassVar[str] = "classification"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    group: ClassVar[str | None] = "gender"
    data_set: str = "wiki_career"
    held_out: float = 0.3
    taken_out: TakenOut = ()
    text_column: str = "text"
    label_column: str = "label"
    group_column: str = "group"

    def __post_init__(self) -> None:
        """Refuse settings that make no sense; see whether a file has groups."""
        super().__post_init__()
        if self.data_set not in BIOGRAPHIES:
            raise SettingError(f"data_set should be one of {', '.join(BIOGRAPHIES)}, got {self.data_set!r}")
        check_share("held_out", self.held_out)
        for one in self.taken_out:
            if not (
                isinstance(one, (tuple, list)) and len(one) == 3 and type(one[2]) in (int, float) and 0 < one[2] <= 1
            ):
                raise SettingError(
                    f"taken_out should have entries of label, group and a share above 0, up to 1, got {one!r}"
                )
        if self.training is not None and not self._has_groups(self.files["training"][0]):
            object.__setattr__(self, "group", None)
            if self.taken_out:
                raise SettingError(f"{self.training} has no column {self.group_column!r}, which taken_out needs")

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of both parts, in alphabetical order."""
        found = tuple(sorted({row["label"] for part in self._parts for row in part}))
        if len(found) < 2:
            raise DataFileError(
                f"{self.files['training'][0]}: a classifier needs two labels, there is only {found[0]!r}"
            )
        spelt = {label.casefold(): label for label in reversed(found)}
        for label in found:
            if (other := spelt[label.casefold()]) != label:
                raise DataFileError(
                    f"{self.files['training'][0]}: the labels {other!r} and {label!r} differ by case alone; write them alike, or call one "
                    "something else"
                )
        return found

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files of training and, if one was given, of evaluation."""
        split = "train" if self._has_training_split() else None
        found = {"training": self._file(self.training, self.data_set, split)}
        return found if self.evaluation is None else {**found, "evaluation": self._file(self.evaluation, "", None)}

    def rows(self) -> list[Row]:
        """Return the training part: what is not held out, without what is taken out."""
        return list(self._parts[0])

    def held_out_file(self, folder: str | Path) -> Path:
        """Write the texts that are held out as JSON lines, which the suite ``bios`` reads (option ``texts``), and return the file."""
        return self._written(folder, "held-out", self._parts[1])

    def training_file(self, folder: str | Path) -> Path:
        """Write the training part as it is without a mitigation (option ``training`` of ``bios``: the shares of women), and return the file."""
        return self._written(folder, "training", self._parts[0])

    def suite_settings(self, suite: Suite, folder: str | Path) -> dict[str, object]:
        """Return the settings with which a suite is measured on texts that were not trained on, written to a folder: of ``bios``."""
        if suite.family.name != "bios":
            return {}
        return {"texts": str(self.held_out_file(folder)), "training": str(self.training_file(folder))}

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the share of held-out texts whose label is predicted, by block of consecutive texts.

        Raises:
            NotApplicableError: the model is no classifier of these labels.
        """
        present = [label.casefold() for label in model.role.labels]
        if model.role.kind not in (TEXT_CLASSIFIER, NLI_CLASSIFIER) or {y.casefold() for y in self.labels} - set(
            present
        ):
            raise NotApplicableError(
                f"{model.name} is {model.role.text}; accuracy is that of a classifier of {', '.join(self.labels[:8])}"
            )
        rows = some_rows(self._parts[1], self.max_evaluation)
        found = _answered(model, [(row["text"],) for row in rows], ClassProbabilities(), self.name)
        gold = np.asarray([present.index(row["label"].casefold()) for row in rows])
        return [_accuracy(found.argmax(axis=1) == gold, "texts", "texts")]

    @cached_property
    def _parts(self) -> tuple[list[Row], list[Row]]:
        """The part for training and the part held out."""
        files = self.files
        rows = self._read(files["training"])
        if "evaluation" in files:
            train, out = rows, self._read(files["evaluation"])
        else:
            train, out = hold_out(rows, ("label", *([self.group] if self.group else [])), self.held_out)
            if not out:
                raise DataFileError(
                    f"{files['training'][0]}: too few rows of each label and group to hold {self.held_out} of them out; name a file as evaluation"
                )
        if self.taken_out:
            train = take_out(train, self.taken_out, "label", "gender")
        return some_rows(train, self.max_rows), out

    def _read(self, paths: Sequence[Path]) -> list[Row]:
        several = len(paths) > 1
        return [row for path in paths for row in self._rows_of(path, f"{path.name}:" if several else "")]

    def _rows_of(self, path: Path, prefix: str) -> Iterator[Row]:
        """Yield the rows of a table; the file's name stands before their ids where there are several."""
        if not self._has_groups(path):
            columns = (self.text_column, self.label_column)
            for number, row in enumerate(read_rows(path, columns), start=1):
                text, label = read_text(path, row, columns[0]), read_name(path, row, columns[1])
                yield {"id": f"{prefix}{number}", "text": text, "label": label}
            return
        options = {name: getattr(self, name) for name in ("text_column", "label_column", "group_column")}
        read = read_table(path, options, any_group=True)
        for one, text, label, group, name in zip(
            read.ids, read.texts, read.labels, read.groups, read.names, strict=True
        ):
            found = {"id": prefix + one, "text": text, "label": label, "gender": group}
            yield {**found, "name": name} if name else found

    def _has_groups(self, path: Path) -> bool:
        present = column_names(path)
        return self.group_column in present or "profession" in present

    def _has_training_split(self) -> bool:
        """Tell whether a data set has a training split that is there."""
        if self.training is not None or "train" not in DATA_SETS[self.data_set].splits:
            return False
        try:
            self._file(None, self.data_set, "train")
        except MissingDataError:
            return False
        return True

    def _written(self, folder: str | Path, what: str, rows: Sequence[Row]) -> Path:
        """Write rows for the suite, under a name that changes with them."""
        told = [{("group" if key == "gender" else key): value for key, value in row.items()} for row in rows]
        digest = hashlib.sha256(repr(told).encode()).hexdigest()[:12]
        return write_rows(Path(folder) / f"{what}-{digest}.jsonl", told)


@contextmanager
def _training_pooler(network: Any, around: Callable[[Any], AbstractContextManager[Any]]) -> Iterator[Any]:
    """Train the pooler with the head: in RoBERTa both are the head, in BERT one lies in the body that is frozen."""
    for name, parameter in network.base_model.named_parameters():
        if name.startswith("pooler."):
            parameter.requires_grad_(True)
    with around(network) as found:
        yield found


def _learning_rate(width: int, frozen: bool) -> float:
    return HEAD_LEARNING_RATE if frozen else next(rate for least, rate in LEARNING_RATES if width >= least)


def _inference_rows(paths: Sequence[Path], most: int | None) -> list[Row]:
    found: list[Row] = []
    for one in map(read_inference, paths):
        columns = zip(one.premises, one.hypotheses, one.labels, strict=True)
        found += [{"premise": first, "hypothesis": second, "label": label} for first, second, label in columns]
    return found[:most]


def _similarity_rows(paths: Sequence[Path], most: int | None) -> list[Row]:
    found: list[Row] = []
    for one in map(read_similarity, paths):
        columns = zip(one.sentences1, one.sentences2, one.scores.tolist(), strict=True)
        found += [{"sentence1": first, "sentence2": second, "label": score} for first, second, score in columns]
    return found[:most]


def _answered(model: Model, texts: Sequence[tuple[str, ...]], query: Query, label: str) -> NDArray[Any]:
    """Return what a model answers to texts, in their order, shape (texts, outputs)."""
    cases = TextCases(texts)
    found, _ = answer(Question(cases, query, whole=True), model, cases.digest(), ScoreSettings(), label)
    return found.in_order()


def _accuracy(right: NDArray[np.bool_], over: str, what: str) -> Performance:
    """Return the share of examples that are right, by block of consecutive ones."""
    labels, block = blocks_of(len(right), what)
    item_sums = mean_sums(labels, np.bincount(block, right), np.bincount(block), f"blocks of {over}")
    return Performance("accuracy", "lower", float(right.mean()), item_sums)
