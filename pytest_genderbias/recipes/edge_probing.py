"""The recipe that trains an edge-probing head for coreference on a frozen encoder (Tenney et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pytest_genderbias.errors import DataFileError, NotApplicableError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.coreference import held_out_documents, pair_f1
from pytest_genderbias.recipes.heads import as_scorer, on_encoder, seeded, trainable
from pytest_genderbias.recipes.recipe import ENCODER, Performance, Row, Training
from pytest_genderbias.recipes.settings import Prepared, TrainingSettings
from pytest_genderbias.scoring.edge_probe import FloatArray, features_of, head_of
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.families.shared.coreference_training import CoreferenceTraining, coreference_training
from pytest_genderbias.text.schema import Count, Positive, Share

if TYPE_CHECKING:
    from torch import Tensor


_SAVED_EVERY = 500  #: steps
_WITH_HEAD = "EdgeProbingModel"  #: class of the networks that this recipe trains
_PIECES = ("before", "first", "between", "second", "after")


@dataclass(frozen=True)
class EdgeProbing(TrainingSettings):
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
    ``max_rows``: maximum number of pairs.
    """

    name: ClassVar[str] = "edge-probe"
    columns: ClassVar[tuple[str, ...]] = _PIECES
    label: ClassVar[str | None] = "label"
    located: ClassVar[tuple[str, ...]] = ("data", "training")
    training: str = "gap"
    held_out: Share = 0.1
    max_rows: Count | None = None
    epochs: Positive = 10.0
    learning_rate: Positive = 2e-4

    def _identity(self) -> dict[str, object]:
        return {"digest": self._training.digest[:16]}

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
        model = trainable(model)
        if model.backend.network.config.is_encoder_decoder:
            raise NotApplicableError(f"{model.name} has an encoder and a decoder; a head is trained on an encoder")
        from pytest_genderbias.recipes.networks.mention_scorers import EdgeProbingConfig, EdgeProbingModel, register

        if model.network_class == _WITH_HEAD:
            return as_scorer(model, copied(model.backend.network))
        register()
        return as_scorer(model, on_encoder(model, seed, lambda encoder: EdgeProbingModel(EdgeProbingConfig(encoder))))

    def _prepared(self, model: Model, rows: Sequence[Row], seed: int, training: Training) -> Prepared:
        """Return what the Trainer is given; the encoder is frozen for any ``freeze``.

        Raises:
            DataFileError: the model does not read both mentions in any text.
            ScoreError: the vectors are not finite.
        """
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
        labels = cases.facts["label"][read].astype(np.int64)
        pairs = [{"pairs": pair, "labels": label} for pair, label in zip(features, labels, strict=True)]
        return network, pairs, _collate, self._arguments(_SAVED_EVERY), replace(training, freeze=ENCODER)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return F1 of "they corefer", at probability .5, over the pairs in held-out documents; its units are the
        documents.

        Raises:
            NotApplicableError: the model lacks the head.
            UndefinedError: no pair corefers, and none is predicted to.
        """
        self._require_own(model)
        cases = _cases(self._parts[1])
        read, features = features_of(model, cases)
        linked = head_of(model.backend.network).probabilities(features) > 0.5
        return [pair_f1(linked, cases.facts["label"][read], cases.facts["document"][read])]

    def _require_own(self, model: Model) -> None:
        if model.network_class != _WITH_HEAD:
            raise NotApplicableError(
                f"{model.name} is {model.role.text} without an edge-probing head; start() adds one"
            )

    @cached_property
    def _training(self) -> CoreferenceTraining:
        return coreference_training(self._data(), self.training)

    @cached_property
    def _parts(self) -> tuple[list[Row], list[Row]]:
        """The training rows and the held-out rows."""
        examples = self._training.examples
        documents = examples.facts["document"]
        is_out = held_out_documents(int(documents.max()) + 1, self.held_out)
        parts: tuple[list[Row], list[Row]] = ([], [])
        for (text,), spans, label, document in zip(
            examples.texts, examples.spans, examples.facts["label"], documents, strict=True
        ):
            row = _row(text, spans, bool(label), int(document))
            if row is not None:
                parts[int(is_out[document])].append(row)
        return parts


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
