"""The recipe that fine-tunes an encoder with a span scorer for coreference (Lee et al. 2018, as Xu and Choi 2020 train
it; orgad2022, A.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import DataFolder, own_path
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import CAUSAL_LM
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.coreference_rows import CoreferenceRows, read_coreference_rows
from pytest_genderbias.recipes.freezing import frozen_parameters, with_freeze
from pytest_genderbias.recipes.heads import as_scorer, no_checkpoint, on_encoder, refuse_hooks, seeded
from pytest_genderbias.recipes.recipe import (
    ADDED_LATER,
    ENCODER,
    NOTHING,
    PLAIN,
    Freeze,
    FrozenEncoderRecipe,
    MentionRecipe,
    Performance,
    Recipe,
    Row,
    Training,
    identifying_settings,
)
from pytest_genderbias.recipes.trainer import check_arguments, require_train, run_trainer, tuning_arguments
from pytest_genderbias.recipes.training_examples import order_by_length
from pytest_genderbias.scoring.span_coreference import DocumentReader, DocumentTokens, batch_of, pair_scores
from pytest_genderbias.statistics.coreference_scores import antecedent_clusters, document_counts, f1_of_sums
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.text.schema import Count, Positive, Share, ShareOrNone, at_least, check_fields

if TYPE_CHECKING:
    from torch import Tensor

    from pytest_genderbias.recipes.networks.span_scorer import SpanCoreferenceModel

_MENTIONS = "mentions"


@dataclass(frozen=True)
class CoreferenceTuning(Recipe, MentionRecipe, FrozenEncoderRecipe):
    """An encoder and a span scorer, trained together on documents with mentions and their clusters.

    The trained model is a coreference scorer: ``measure("coref-winobias", model)`` needs no other data. Its scores are
    s(i, j) of :class:`~pytest_genderbias.recipes.networks.span_scorer.SpanCoreferenceModel`, log-odds of an
    antecedent against none. The candidates are the mentions that the data give, so that mentions need not be found.

    A row is a document with the spans and clusters of its mentions. Data methods that change words move the spans; the
    grammatical intervention of counterfactual augmentation goes by the clusters.

    ``training``: ``gap``, ``winobias`` (choose other data than those of the suite) or a path of CoNLL files.
    ``held_out``: share of the documents for ``f1`` and ``conll_f1``, which are never trained on; the draw does not
    depend on the seed. ``max_rows``: maximum number of documents. ``epochs``: may be fractional. ``batch_size``:
    documents. ``learning_rate``: by default 3e-5, 1e-4 for hidden sizes below 768 and 3e-4 below 256; 1e-3 with a
    frozen encoder. After a warm-up of 6 % of the steps it falls linearly. ``max_length``: maximum number of tokens that
    the encoder reads together; longer documents are cut at line ends. ``head_size`` and ``dropout``: of the head.
    ``freeze``: the part that is not trained: ``nothing``, ``embeddings``, ``encoder`` (all but the head), or a number
    k: the embeddings and the first k layers; a caller's ``Training.freeze`` takes its place. ``arguments``: arguments
    of ``transformers.TrainingArguments``, which override the settings.
    """

    name: ClassVar[str] = "coreference"
    columns: ClassVar[tuple[str, ...]] = ("text",)
    mentions: ClassVar[str] = _MENTIONS
    label: ClassVar[str | None] = None
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = True
    data: str | None = None
    training: str = "gap"
    held_out: Share = 0.1
    max_rows: Count | None = None
    epochs: Positive = 5.0
    batch_size: Count = 8
    learning_rate: Positive | None = None
    max_length: Annotated[int, at_least(16)] = 384
    head_size: Count = 256
    dropout: ShareOrNone = 0.3
    arguments: Mapping[str, object] = field(default_factory=dict)
    freeze: Freeze = field(default=NOTHING, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        check_fields(self)
        check_arguments(self.arguments)

    def settings(self) -> dict[str, object]:
        """Return the settings, with a digest of the documents in place of their source."""
        settings = identifying_settings(self)
        for name in ("data", "training"):
            del settings[name]
        return {**settings, "arguments": dict(self.arguments), "digest": self._parts.digest[:16]}

    @property
    def encoder_is_frozen(self) -> bool:
        """Whether the setting freezes all but the head."""
        return self.freeze == ENCODER

    def rows(self) -> list[Row]:
        """Return the training documents, in the order of the file."""
        return self._parts.training[: self.max_rows]

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a copy of a network's encoder with a span scorer that is initialised from the seed; a span scorer is
        kept.

        Raises:
            NotApplicableError: the model is not a checkpoint, is a causal LM, or has both an encoder and a decoder.
            SettingError: ``freeze`` does not fit the network.
        """
        if model is None or not isinstance(model.backend, Checkpoint):
            raise NotApplicableError(no_checkpoint(model))
        refuse_hooks(model)
        if model.role.kind == CAUSAL_LM or model.backend.network.config.is_encoder_decoder:
            kind = "has an encoder and a decoder" if model.role.kind != CAUSAL_LM else f"is {model.role.text}"
            raise NotApplicableError(
                f"{model.name} {kind}, and the vectors of mentions need the text on both sides; give a masked LM or an"
                " encoder"
            )
        network = copied(model.backend.network) if _has_scorer(model) else self._scorer(model, seed)
        frozen_parameters(network, self.freeze)
        return as_scorer(model, network)

    def train(self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = PLAIN) -> Path:
        """Train a copy of a model that :meth:`start` returned, or of a trained one, and return ``folder/model``.

        Raises:
            NotApplicableError: the model lacks the span scorer, or ``accelerate`` is not installed.
            DataFileError: the model reads two mentions in no document.
            ModelError: the loss became NaN or infinite.
            SettingError: there are no rows, a method changed a text without its mentions, or the files cannot be
                written.
        """
        require_train()
        _require_scorer(model)
        if (folder / "model").is_dir():
            return folder / "model"
        if not rows:
            raise SettingError("there is no row to train on")
        _check_mentions(rows)
        examples = self._examples(model, rows)
        if not len(examples):
            raise DataFileError(f"{model.name} reads two mentions in none of {len(rows)} documents")
        network: SpanCoreferenceModel = copied(model.backend.network)
        if training.new_head:
            seeded(seed, network.renew_head)
        network.config.head = {"documents": len(examples), "data": Path(self.training).name}
        training = with_freeze(training, self.freeze)
        arguments = tuning_arguments(self, model, training)
        batch = int(arguments["per_device_train_batch_size"])
        examples.order = order_by_length(examples.lengths, batch, float(arguments["num_train_epochs"]), seed)
        arguments |= {"train_sampling_strategy": "sequential", "num_train_epochs": 1, "remove_unused_columns": False}
        tokenizer = model.backend.tokenizer
        return run_trainer(network, tokenizer, examples, examples.collate, folder, seed, arguments, training)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return F1 on the held-out documents, which are its units.

        ``f1``: of "they corefer", for the pairs of each row, if the score is above 0, that is, if the antecedent is
        likelier than none (Tenney et al. 2019; webster2020). ``conll_f1``: mean F1 of MUC, B3 and CEAF-phi4 of the
        clusters that the best antecedents make, over the mentions that are read; left out where no cluster has two of
        them.

        Raises:
            NotApplicableError: the model lacks the span scorer.
            UndefinedError: no pair corefers, and none is predicted to.
        """
        _require_scorer(model)
        rows = self._parts.held_out
        reader = DocumentReader(model.backend.tokenizer, self._longest(model))
        documents = [reader.read(row["text"], _spans(row)) for row in rows]
        tables = pair_scores(model.backend, documents)
        pairs = _pair_performance(rows, tables)
        clusters = _cluster_performance(rows, documents, tables)
        return [pairs] if clusters is None else [pairs, clusters]

    def _examples(self, model: Model, rows: Sequence[Row]) -> _Documents:
        reader = DocumentReader(model.backend.tokenizer, self._longest(model))
        documents = [reader.read(row["text"], _spans(row)) for row in rows]
        read = [i for i, document in enumerate(documents) if document.is_read.sum() > 1]
        clusters = [_clusters(rows[i])[documents[i].is_read] for i in read]
        return _Documents([documents[i] for i in read], clusters, int(model.backend.tokenizer.pad_token_id or 0))

    def _longest(self, model: Model) -> int:
        return min(self.max_length, model.backend.max_length or self.max_length)

    def _scorer(self, model: Model, seed: int) -> SpanCoreferenceModel:
        """Return the encoder of a network with a span scorer that is initialised from the seed."""
        from pytest_genderbias.recipes.networks.span_scorer import (
            SpanCoreferenceConfig,
            SpanCoreferenceModel,
            register,
        )

        register()
        settings: dict[str, Any] = {"head_size": self.head_size, "dropout": self.dropout}
        return on_encoder(model, seed, lambda encoder: SpanCoreferenceModel(SpanCoreferenceConfig(encoder, **settings)))

    @cached_property
    def _parts(self) -> CoreferenceRows:
        data = DataFolder(None if self.data is None else own_path(self.data))
        return read_coreference_rows(data, self.training, self.held_out)


class _Documents:
    """Documents with the clusters of their mentions, as examples of a Trainer. ``order``: their numbers in the order of
    training.
    """

    def __init__(self, documents: Sequence[DocumentTokens], clusters: Sequence[NDArray[np.int64]], pad_id: int) -> None:
        self._documents, self._clusters, self._pad_id = documents, clusters, pad_id
        self.lengths = np.asarray([document.length for document in documents], dtype=np.int64)
        self.order: NDArray[np.int64] = np.arange(len(documents), dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of documents of all epochs."""
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, object]:
        """Return the number of the document at a place in the order."""
        return {"document": int(self.order[index])}

    def collate(self, numbers: Sequence[Mapping[str, object]]) -> dict[str, Tensor]:
        """Return a batch of documents."""
        import torch

        own = [int(number["document"]) for number in numbers]  # type: ignore[call-overload]  # an example has any values
        batch = batch_of([self._documents[i] for i in own], self._pad_id)
        clusters = np.full(batch["mentions"].shape[:2], -1, dtype=np.int64)
        for row, i in enumerate(own):
            clusters[row, : len(self._clusters[i])] = self._clusters[i]
        return {name: torch.from_numpy(array) for name, array in {**batch, "clusters": clusters}.items()}


def _spans(row: Row) -> list[tuple[int, int]]:
    return [(start, end) for start, end, *_ in row[_MENTIONS]]


def _clusters(row: Row) -> NDArray[np.int64]:
    """Return the cluster of each mention of a row, numbered from 0."""
    return np.unique([str(cluster) for *_, cluster in row[_MENTIONS]], return_inverse=True)[1].astype(np.int64).ravel()


def _check_mentions(rows: Sequence[Row]) -> None:
    """Reject rows whose mentions are not where their spans say: a data method changed the text only."""
    for number, row in enumerate(rows):
        for start, end, words, _ in row[_MENTIONS]:
            if row["text"][start:end] != words or not words:
                raise SettingError(
                    f"row {number + 1}: expected the mention {words!r} at characters {start} to {end}, got"
                    f" {row['text'][start:end]!r}; the method changed the text and left the column 'mentions' as it"
                    " was, so it does not apply to coreference"
                )


def _pair_performance(rows: Sequence[Row], tables: Sequence[NDArray[np.float64]]) -> Performance:
    """Return F1 over the pairs that are read; its units are the documents."""
    cells = [(row["document"], row[_MENTIONS], table, i, j) for row, table in zip(rows, tables, strict=True) for i, j in row["pairs"]]  # fmt: skip
    read = [cell for cell in cells if not np.isnan(cell[2][cell[3], cell[4]])]
    linked = np.asarray([table[i, j] > 0 for _, _, table, i, j in read], dtype=np.float64)
    corefer = np.asarray([mentions[i][-1] == mentions[j][-1] for _, mentions, _, i, j in read], dtype=np.float64)
    right, either = 2.0 * linked * corefer, linked + corefer
    if not either.any():
        raise UndefinedError("no pair corefers, and none is predicted to")
    labels, number = np.unique([document for document, *_ in read], return_inverse=True)
    sums = mean_sums(labels.astype(np.str_), np.bincount(number, right), np.bincount(number, either), "documents")
    return Performance("f1", "lower", float(right.sum() / either.sum()), sums)


def _cluster_performance(
    rows: Sequence[Row], documents: Sequence[DocumentTokens], tables: Sequence[NDArray[np.float64]]
) -> Performance | None:
    """Return the mean F1 of MUC, B3 and CEAF-phi4 over the mentions that are read, or ``None`` if the key has no
    cluster of two.
    """
    counts: dict[int, NDArray[np.float64]] = {}
    for row, document, table in zip(rows, documents, tables, strict=True):
        read = np.flatnonzero(document.is_read)
        numbers = _clusters(row)[read]
        key = [np.flatnonzero(numbers == number).tolist() for number in np.unique(numbers)]
        response = antecedent_clusters(table[np.ix_(read, read)])
        of_row = document_counts([cluster for cluster in key if len(cluster) > 1], response).ravel()
        counts[row["document"]] = counts.get(row["document"], 0.0) + of_row
    value = float(f1_of_sums(np.sum(list(counts.values()), axis=0)))
    if np.isnan(value):
        return None
    sums = ItemSums(np.asarray(list(map(str, counts)), dtype=np.str_), np.stack(list(counts.values())), "f1", "documents")  # fmt: skip
    return Performance("conll_f1", "lower", value, sums)


def _has_scorer(model: Model) -> bool:
    return isinstance(model.backend, Checkpoint) and type(model.backend.network).__name__ == "SpanCoreferenceModel"


def _require_scorer(model: Model) -> None:
    if not _has_scorer(model):
        raise NotApplicableError(f"{model.name} is {model.role.text} without a span scorer; start() adds one")
