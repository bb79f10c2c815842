"""The recipe that trains an edge-probing head for coreference on a frozen encoder (Tenney et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.datasets.folder import DataFolder, own_path
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.heads import as_scorer, no_checkpoint, on_encoder, refuse_hooks, seeded
from pytest_genderbias.recipes.recipe import ENCODER, PLAIN, FrozenEncoderRecipe, Performance, Recipe, Row, Training
from pytest_genderbias.recipes.trainer import check_arguments, require_train, run_trainer
from pytest_genderbias.scoring.edge_probe import features_of, head_of
from pytest_genderbias.scoring.edge_training import FloatArray
from pytest_genderbias.statistics.inference.item_sums import mean_sums
from pytest_genderbias.statistics.inference.undefined import UndefinedError
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.families.shared.coreference_training import CoreferenceTraining, coreference_training
from pytest_genderbias.text.schema import Count, Positive, Share, check_fields

if TYPE_CHECKING:
    from torch import Tensor

    from pytest_genderbias.recipes.networks.edge_probing_head import EdgeProbingModel

_SAVED_EVERY = 500  #: steps
_PIECES = ("before", "first", "between", "second", "after")


@dataclass(frozen=True)
class EdgeProbing(Recipe, FrozenEncoderRecipe):
    """An edge-probing head on the frozen vectors of two mentions, like that of the ``coref-*`` suites, saved with its
    encoder.

    The trained model is a coreference scorer: ``measure("coref-winogender", model)`` needs no other data. The encoder
    is frozen. Its vectors of the mentions are computed once, before the first step, and the Trainer reads them
    standardised.

    A row is a text in five pieces, so that data methods can change words without losing the mentions: the text before
    the first mention, the first mention, the text between, the second mention, and the text after it. Grammatical rules
    see each piece separately. Pairs with a mention inside the other are left out.

    ``training``: ``gap``, ``winobias`` (choose other data than those of the suite) or a path of CoNLL files.
    ``held_out``: share of the documents for ``f1``, which are never trained on; the draw does not depend on the seed.
    ``max_rows``: maximum number of pairs. ``epochs``: may be fractional. ``learning_rate``: initial rate of AdamW,
    which falls linearly. ``arguments``: arguments of ``transformers.TrainingArguments``, which override the settings.
    """

    name: ClassVar[str] = "edge-probe"
    columns: ClassVar[tuple[str, ...]] = _PIECES
    label: ClassVar[str | None] = "label"
    group: ClassVar[str | None] = None
    makes_task: ClassVar[bool] = True
    data: str | None = None
    training: str = "gap"
    held_out: Share = 0.1
    max_rows: Count | None = None
    epochs: Positive = 10.0
    batch_size: Count = 32
    learning_rate: Positive = 2e-4
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        check_fields(self)
        check_arguments(self.arguments)

    def settings(self) -> dict[str, object]:
        """Return the settings, with a digest of the pairs in place of their source."""
        settings = {f.name: vars(self)[f.name] for f in fields(self) if f.name not in ("data", "training")}
        return {**settings, "arguments": dict(self.arguments), "digest": self._training.digest[:16]}

    @property
    def encoder_is_frozen(self) -> bool:
        """Always."""
        return True

    def rows(self) -> list[Row]:
        """Return the training pairs, in the order of the file."""
        return self._parts[0][: self.max_rows]

    def start(self, model: Model | None, seed: int) -> Model:
        """Return a copy of a network's encoder with a head that is initialised from the seed; an edge-probing head is
        kept.

        Raises:
            NotApplicableError: the model is not a checkpoint, or has both an encoder and a decoder.
        """
        if model is None or not isinstance(model.backend, Checkpoint):
            raise NotApplicableError(no_checkpoint(model))
        refuse_hooks(model)
        if model.backend.network.config.is_encoder_decoder:
            raise NotApplicableError(f"{model.name} has an encoder and a decoder; a head is trained on an encoder")
        network = copied(model.backend.network) if _has_head(model) else _probing(model, seed)
        return as_scorer(model, network)

    def train(self, model: Model, rows: Sequence[Row], seed: int, folder: Path, training: Training = PLAIN) -> Path:
        """Train the head of a model that :meth:`start` returned, and return ``folder/model``. The encoder is frozen for
        any ``freeze``.

        Raises:
            NotApplicableError: the model lacks the head, or ``accelerate`` is not installed.
            DataFileError: the model does not read both mentions in any text.
            ScoreError: the vectors are not finite.
            SettingError: there are no rows, or the files cannot be written.
        """
        require_train()
        self._require_head(model)
        if (folder / "model").is_dir():
            return folder / "model"
        if not rows:
            raise SettingError("there is no row to train on")
        cases = _cases(rows)
        read, features = features_of(model, cases)
        if not len(read):
            raise DataFileError(f"{model.name} does not read both mentions in any of {len(rows)} pairs")
        network = copied(model.backend.network)
        if training.new_head:
            seeded(seed, network.renew_head)
        if training.new_head or not network.config.head:  # a trained head keeps the standardisation of its training
            network.standardise(features)
        network.config.head = {"pairs": len(read)}
        arguments = {
            "num_train_epochs": self.epochs, "per_device_train_batch_size": self.batch_size, "learning_rate": self.learning_rate,
            "lr_scheduler_type": "linear", "save_strategy": "steps", "save_steps": _SAVED_EVERY, **self.arguments,
        }  # fmt: skip
        return run_trainer(
            network, model.backend.tokenizer, _PairVectors(features, cases.facts["label"][read]), _collate, folder, seed, arguments,
            replace(training, freeze=ENCODER),
        )  # fmt: skip

    def evaluate(self, model: Model) -> list[Performance]:
        """Return F1 of "they corefer", at probability .5, over the pairs in held-out documents; its units are the
        documents.

        Raises:
            NotApplicableError: the model lacks the head.
            UndefinedError: no pair corefers, and none is predicted to.
        """
        self._require_head(model)
        cases = _cases(self._parts[1])
        read, features = features_of(model, cases)
        linked = head_of(model.backend.network).probabilities(features) > 0.5
        corefer, documents = cases.facts["label"][read], cases.facts["document"][read]
        labels, number = np.unique(documents, return_inverse=True)
        right = 2.0 * (linked & corefer)
        either = linked.astype(np.float64) + corefer
        if not either.any():
            raise UndefinedError("no pair corefers, and none is predicted to")
        item_sums = mean_sums(
            labels.astype(np.str_), np.bincount(number, right), np.bincount(number, either), "documents"
        )
        return [Performance("f1", "lower", float(right.sum() / either.sum()), item_sums)]

    def _require_head(self, model: Model) -> None:
        if not _has_head(model):
            raise NotApplicableError(
                f"{model.name} is {model.role.text} without an edge-probing head; start() adds one"
            )

    @cached_property
    def _training(self) -> CoreferenceTraining:
        return coreference_training(DataFolder(None if self.data is None else own_path(self.data)), self.training)

    @cached_property
    def _parts(self) -> tuple[list[Row], list[Row]]:
        """The training rows and the held-out rows."""
        examples = self._training.examples
        documents = examples.facts["document"]
        count = int(documents.max()) + 1
        is_out = np.random.default_rng(0).permutation(count) < max(1, round(self.held_out * count))
        parts: tuple[list[Row], list[Row]] = ([], [])
        for (text,), spans, label, document in zip(
            examples.texts, examples.spans, examples.facts["label"], documents, strict=True
        ):
            row = _row(text, spans, bool(label), int(document))
            if row is not None:
                parts[int(is_out[document])].append(row)
        return parts


class _PairVectors:
    """The vectors of pairs of mentions and their labels, as examples of a Trainer."""

    def __init__(self, features: FloatArray, corefer: NDArray[np.bool_]) -> None:
        self._features, self._corefer = features, corefer

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self._corefer)

    def __getitem__(self, i: int) -> dict[str, FloatArray | np.int64]:
        """Return the features and the label of a pair."""
        return {"pairs": self._features[i], "labels": np.int64(self._corefer[i])}


def _collate(pairs: Sequence[Mapping[str, FloatArray | np.int64]]) -> dict[str, Tensor]:
    """Return a batch of pairs."""
    import torch

    return {name: torch.from_numpy(np.stack([np.asarray(pair[name]) for pair in pairs])) for name in pairs[0]}


def _row(text: str, spans: Sequence[tuple[int, int]], label: bool, document: int) -> Row | None:
    """Return a pair as a row, or ``None`` if a mention lies inside the other."""
    (a, b), (c, d) = sorted(spans)
    if c < b:
        return None
    pieces = (text[:a], text[a:b], text[b:c], text[c:d], text[d:])
    turned = spans[0] != (a, b)
    return {**dict(zip(_PIECES, pieces, strict=True)), "turned": turned, "label": label, "document": document}


def _cases(rows: Sequence[Row]) -> TextCases:
    """Return rows as texts with two spans, in the original order of the mentions."""
    texts, spans = [], []
    for row in rows:
        pieces = [str(row[name]) for name in _PIECES]
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        pair = ((ends[0], ends[1]), (ends[2], ends[3]))
        texts.append(("".join(pieces),))
        spans.append(pair[::-1] if row["turned"] else pair)
    facts = {
        "label": np.asarray([row["label"] for row in rows], dtype=np.bool_),
        "document": np.asarray([row["document"] for row in rows], dtype=np.int64),
    }
    return TextCases(texts, spans, facts)


def _has_head(model: Model) -> bool:
    return isinstance(model.backend, Checkpoint) and type(model.backend.network).__name__ == "EdgeProbingModel"


def _probing(model: Model, seed: int) -> EdgeProbingModel:
    """Return the encoder of a network with a head that is initialised from the seed."""
    from pytest_genderbias.recipes.networks.edge_probing_head import EdgeProbingConfig, EdgeProbingModel, register

    register()
    return on_encoder(model, seed, lambda encoder: EdgeProbingModel(EdgeProbingConfig(encoder)))
