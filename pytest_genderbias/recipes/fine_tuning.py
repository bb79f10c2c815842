"""Recipes that train for natural language inference, sentence similarity, or labelled texts such as biographies: an
encoder is fine-tuned, or dev2019's decomposable attention is trained over static word vectors.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.gold_pairs import LABELS, read_inference, read_similarity
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.config import labels_of
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.objects import wrap_network
from pytest_genderbias.models.protocols import WORD_VECTORS
from pytest_genderbias.models.roles import NLI_CLASSIFIER
from pytest_genderbias.models.saving import copied
from pytest_genderbias.models.vectors import WordVectors
from pytest_genderbias.recipes.heads import (
    CLASSIFICATION,
    REGRESSION,
    device_for_new,
    has_labels,
    refuse_graph,
    renew_head,
    seeded,
    with_head,
)
from pytest_genderbias.recipes.recipe import (
    ADDED_LATER,
    EMBEDDINGS,
    ENCODER,
    NOTHING,
    Freeze,
    Performance,
    Row,
    Training,
    nested,
)
from pytest_genderbias.recipes.trainer import (
    Examples,
    MaxLength,
    Prepared,
    TokenisedRows,
    TrainingSettings,
    frozen_parameters,
)
from pytest_genderbias.scoring.engine import ScoreSettings, answer
from pytest_genderbias.statistics.correlation import pearson, product_sums
from pytest_genderbias.statistics.inference.item_sums import ItemSums, blocks_of, mean_sums
from pytest_genderbias.suites.cases import Question, TextCases
from pytest_genderbias.suites.query import PairProbabilities, PairSimilarity, Query
from pytest_genderbias.text import packaged
from pytest_genderbias.text.normal_form import folded
from pytest_genderbias.text.plain_files import expand
from pytest_genderbias.text.schema import Count, Positive, Rule, ShareOrNone

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_BY_LENGTH = "group_by_length"  #: done here (:func:`order_by_length`), so that an interrupted training can be resumed


@dataclass(frozen=True)
class FineTuning(TrainingSettings):
    """The common part of the recipes. The fields are settings.

    ``training`` and ``evaluation``: labelled files instead of the data set's. ``max_rows`` and ``max_evaluation``:
    maximum numbers of rows. ``learning_rate``: by default 3e-5, 1e-4 for hidden sizes below 768 and 3e-4 below 256;
    1e-3 with a frozen encoder. After a warm-up of 6 % of the steps it falls linearly. ``max_length``: maximum number of
    tokens of a row in training. ``freeze``: the part that is not trained: ``nothing``, ``embeddings``, ``encoder`` (all
    but the head), or a number k: the embeddings and the first k layers
    (:func:`~pytest_genderbias.recipes.trainer.frozen_parameters`); a caller's ``Training.freeze`` takes its place.
    """

    label: ClassVar[str | None] = "label"
    located: ClassVar[tuple[str, ...]] = ("data", "training", "evaluation")
    divisible: ClassVar[bool] = True
    #: The data set, and its splits for training and evaluation.
    source: ClassVar[tuple[str, str | None, str | None]]

    training: str | None = None
    evaluation: str | None = None
    max_rows: Count | None = None
    max_evaluation: Count | None = None
    max_length: MaxLength = 128
    freeze: Freeze = field(default=NOTHING, metadata=ADDED_LATER)

    def _identity(self) -> dict[str, object]:
        return {"files": dict(self._digests)}

    def rows(self) -> list[Row]:
        """Return the labelled rows, in the order of the file."""
        return self._read(self.files["training"])[: self.max_rows]

    @abstractmethod
    def _read(self, paths: Sequence[Path]) -> list[Row]:
        """Return the rows of labelled files."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The names of the outputs."""

    @property
    def files(self) -> dict[str, tuple[Path, ...]]:
        """The files that are read, by purpose (``training``, ``evaluation``)."""
        data_set, *splits = self.source
        return {
            name: self._file(vars(self)[name], data_set, split)
            for name, split in zip(("training", "evaluation"), splits, strict=True)
        }

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

    def _prepared(self, model: Model, rows: Sequence[Row], seed: int, training: Training) -> Prepared:
        """Return what the Trainer is given. The seed and the lengths of the rows determine their order. A frozen
        encoder is the network below its pooler.
        """
        network: PreTrainedModel = copied(model.backend.network)
        network.config.problem_type = REGRESSION if network.config.num_labels == 1 else CLASSIFICATION
        if training.new_head:
            renew_head(network, seed)
        tokenizer = model.backend.tokenizer
        columns = [[str(row[name]) for row in rows] for name in self.columns]
        examples: Examples = TokenisedRows(
            tokenizer, columns, self._targets(network, rows), self._longest(model.backend)
        )
        arguments = self._tuning_arguments(model, training)
        if self.arguments.get("train_sampling_strategy", _BY_LENGTH) == _BY_LENGTH:
            examples, arguments = self._by_length(examples, examples.lengths, arguments, seed)
        from transformers import DataCollatorWithPadding

        if training.freeze == ENCODER:
            training = replace(training, around=nested(_training_pooler, training.around))
        return network, examples, DataCollatorWithPadding(tokenizer), arguments, training

    def _require_own(self, model: Model) -> None:
        if not has_labels(model, self.labels):
            raise NotApplicableError(
                f"{model.name} is {model.role.text}; the recipe {self.name} trains a classifier of"
                f" {', '.join(self.labels[:8])}: give it to start() first"
            )
        refuse_graph(model)

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
            return self._data().find_all(data_set, split)
        path = expand(file)
        if not path.is_file():
            raise DataFileError(f"{path}: no such file")
        return (path,)


@dataclass(frozen=True)
class InferenceTuning(FineTuning):
    """Natural language inference: SNLI, or a labelled file of its form. ``accuracy`` is on SNLI test, or on dev if test
    is missing.
    """

    name: ClassVar[str] = "nli"
    evaluates: ClassVar[tuple[str, ...]] = ("accuracy",)
    columns: ClassVar[tuple[str, ...]] = ("premise", "hypothesis")
    source: ClassVar[tuple[str, str | None, str | None]] = ("snli", "train", None)
    max_length: MaxLength = 64

    @property
    def labels(self) -> tuple[str, ...]:
        """Entailment, neutral, contradiction."""
        return LABELS

    def _read(self, paths: Sequence[Path]) -> list[Row]:
        return [_labelled(self.columns, pair) for path in paths for pair in read_inference(path)]

    def evaluate(self, model: Model) -> list[Performance]:
        """Return the share of pairs with a correct label; its units are blocks of consecutive pairs.

        Raises:
            NotApplicableError: the model is not an NLI classifier.
        """
        if model.role.kind != NLI_CLASSIFIER:
            raise NotApplicableError(f"{model.name} is {model.role.text}; accuracy needs an NLI classifier")
        rows = self._read(self.files["evaluation"])[: self.max_evaluation]
        pairs = [(row["premise"], row["hypothesis"]) for row in rows]
        probabilities = answers_of(model, pairs, PairProbabilities(), self.name)
        gold = np.asarray([LABELS.index(row["label"]) for row in rows])
        return [accuracy(probabilities.argmax(axis=1) == gold, "sentence pairs", "pairs")]


@dataclass(frozen=True)
class SimilarityTuning(FineTuning):
    """Regression of the similarity of sentences on the scale of the STS Benchmark, 0 to 5. ``pearson_r`` is on STS-B
    dev.
    """

    name: ClassVar[str] = "similarity"
    evaluates: ClassVar[tuple[str, ...]] = ("pearson_r",)
    columns: ClassVar[tuple[str, ...]] = ("sentence1", "sentence2")
    source: ClassVar[tuple[str, str | None, str | None]] = ("stsb", "train", "dev")

    @property
    def labels(self) -> tuple[str, ...]:
        """One output."""
        return ("similarity",)

    def _read(self, paths: Sequence[Path]) -> list[Row]:
        return [_labelled(self.columns, pair) for path in paths for pair in read_similarity(path)]

    def evaluate(self, model: Model) -> list[Performance]:
        """Return Pearson's r of scores and gold scores; its units are blocks of consecutive pairs. Scores of an encoder
        are cosines.

        Raises:
            UndefinedError: all pairs have the same score.
        """
        rows = self._read(self.files["evaluation"])[: self.max_evaluation]
        pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
        scores = answers_of(model, pairs, PairSimilarity(), self.name)[:, 0]
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
class StaticInferenceTraining(InferenceTuning):
    """Decomposable attention over a BiLSTM encoder of word vectors, on SNLI or a labelled file of its form (dev2019,
    "Experimental Setup").

    It starts from a file of word vectors, ``mitigate(load_model("glove.6B.50d.txt"), ...)``. The vocabulary has the
    words of the data and of the packaged suites and word lists; all other words share the mean of the file's vectors
    (**choice**). ``hidden_size``: size of the encoder, both directions together, and of the layers after it.
    ``dropout``: between them. ``freeze_embeddings``: do not train the vectors, so that a projection before training
    persists (**choice**: dev2019 does so for ELMo, and does not say for GloVe); ``freeze`` takes its place if it
    freezes more. For other settings see :class:`~pytest_genderbias.recipes.fine_tuning.InferenceTuning`. dev2019: 300
    dimensions, all of SNLI, the best of 100 epochs.
    """

    name: ClassVar[str] = "static-nli"
    epochs: Positive = 10.0
    learning_rate: Positive | None = 1e-3
    hidden_size: Annotated[
        int, Rule("an even number, half of it for each direction of the encoder", minimum=2, multipleOf=2)
    ] = 200
    dropout: ShareOrNone = 0.2
    freeze_embeddings: bool = True

    def _identity(self) -> dict[str, object]:
        digest = hashlib.sha256("\0".join(_packaged_texts()).encode())  # their words are in the vocabulary
        return {**super()._identity(), "packaged": digest.hexdigest()[:16]}

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a network over a model's word vectors, initialised from the seed. A network of this recipe is returned
        unchanged.

        Raises:
            NotApplicableError: the model is neither.
        """
        if model is not None and model.network_class.startswith("DecomposableAttention"):
            return model
        if model is None or not model.can(WORD_VECTORS):
            reason = "no model was given" if model is None else f"{model.name} is {model.role.text}"
            raise NotApplicableError(
                f"the recipe {self.name} starts from a file of word vectors, such as glove.6B.50d.txt, and {reason}"
            )
        return self._network_over(model.backend, seed, model.name)

    @property
    def _frozen(self) -> str | int:
        return EMBEDDINGS if self.freeze_embeddings and self.freeze == NOTHING else self.freeze

    def _network_over(self, vectors: WordVectors, seed: int, name: str) -> Model:
        """Return a network over the words of the data and of the packaged lists and suites that have a vector."""
        import torch

        from pytest_genderbias.recipes.networks import decomposable_attention as ours

        pairs = (pair for paths in self.files.values() for path in paths for pair in read_inference(path))
        texts = (text for *both, _ in pairs for text in both)
        of_data = _words(texts, vectors.lowercased)
        words = sorted((_packaged_words(vectors.lowercased) | of_data) & vectors.words.keys())
        matrix = np.concatenate([np.zeros((len(ours.SPECIAL), vectors.matrix.shape[1])), vectors.get(words)])
        matrix[ours.SPECIAL.index(ours.UNKNOWN)] = vectors.matrix.mean(axis=0, dtype=np.float64)
        rows, size = matrix.shape
        config = ours.DecomposableAttentionConfig(rows, size, hidden_size=self.hidden_size, dropout=self.dropout)
        network: Any = seeded(seed, lambda: ours.DecomposableAttentionForSequenceClassification(config))
        with torch.no_grad():
            network.get_input_embeddings().weight.copy_(torch.as_tensor(matrix))
        network.config.architectures = [type(network).__name__]
        network.to(device_for_new()).eval()
        return wrap_network(network, ours.make_tokenizer(words, vectors.lowercased), name)


def _labelled(columns: Sequence[str], pair: tuple[str, str, str | float]) -> Row:
    """Return a pair of texts with its label as a row."""
    return dict(zip((*columns, "label"), pair, strict=True))


@contextmanager
def _training_pooler(network: PreTrainedModel) -> Iterator[None]:
    """Train the pooler with the head: in RoBERTa it is part of the head, in BERT it belongs to the frozen body."""
    for name, parameter in network.base_model.named_parameters():
        if name.startswith("pooler."):
            parameter.requires_grad_(True)
    yield


def answers_of(model: Model, texts: Sequence[tuple[str, ...]], query: Query, label: str) -> NDArray[np.floating]:
    """Return the answers of a model for texts, in their order: shape (texts, outputs)."""
    cases = TextCases(texts)
    scores, _ = answer(Question(cases, query, whole=True), model, cases.digest(), ScoreSettings(), label)
    ordered: NDArray[np.floating] = scores.in_order()
    return ordered


def accuracy(right: NDArray[np.bool_], over: str, what: str) -> Performance:
    """Return the share of correct examples; its units are blocks of consecutive examples."""
    labels, block = blocks_of(len(right), what)
    item_sums = mean_sums(labels, np.bincount(block, right), np.bincount(block), f"blocks of {over}")
    return Performance("accuracy", "lower", float(right.mean()), item_sums)


def _words(texts: Iterable[str], lowercased: bool) -> frozenset[str]:
    from pytest_genderbias.recipes.networks import decomposable_attention as ours

    split = (ours.words_of(text.lower() if lowercased else text) for text in texts)
    return frozenset(word for of_text in split for word in of_text)


@cache
def _packaged_words(lowercased: bool) -> frozenset[str]:
    return _words(_packaged_texts(), lowercased)


def _packaged_texts() -> list[str]:
    """Return the raw texts of the packaged word lists and suites, so that none of their words is missed."""
    return [
        path.read_text(encoding="utf-8")
        for kind in ("wordlists", "fixtures")
        for path in sorted(packaged.folder(kind).glob("*.yaml"))
    ]
