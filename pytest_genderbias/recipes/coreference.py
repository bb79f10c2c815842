"""Recipes that train a head for coreference, on documents of GAP, WinoBias, or files in the CoNLL-2012 format.

``coreference`` fine-tunes an encoder with a span scorer (Lee et al. 2018, as Xu and Choi 2020 train it; orgad2022,
A.2), and ``edge-probe`` trains an edge-probing head on a frozen encoder (Tenney et al. 2019).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_genderbias.datasets.conll import Document, read_conll
from pytest_genderbias.datasets.folder import DataFolder
from pytest_genderbias.datasets.mentions import Span
from pytest_genderbias.datasets.pronoun_sentences import GapExample, WinoBiasSentence, read_gap, read_winobias
from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError, UndefinedError
from pytest_genderbias.models.model import Model
from pytest_genderbias.models.roles import CAUSAL_LM
from pytest_genderbias.models.saving import copied
from pytest_genderbias.recipes.heads import as_scorer, on_encoder, seeded, trainable
from pytest_genderbias.recipes.recipe import (
    ADDED_LATER,
    ENCODER,
    NOTHING,
    Freeze,
    Performance,
    Row,
    SplitRows,
    Training,
)
from pytest_genderbias.recipes.trainer import Prepared, TrainingSettings, frozen_parameters
from pytest_genderbias.scoring.edge_probe import FloatArray, features_of, head_of
from pytest_genderbias.scoring.span_coreference import DocumentTokens, batch_of, pair_scores, read_document
from pytest_genderbias.statistics.coreference_scores import antecedent_clusters, document_counts, f1_of_sums
from pytest_genderbias.statistics.inference.item_sums import ItemSums, mean_sums
from pytest_genderbias.suites.cases import TextCases
from pytest_genderbias.suites.families.shared.coreference_training import conll_path, coreference_training, refuse_unfit
from pytest_genderbias.text.schema import Count, Positive, Share, ShareOrNone, at_least

if TYPE_CHECKING:
    from torch import Tensor

    from pytest_genderbias.recipes.networks.mention_scorers import SpanCoreferenceModel

_MENTIONS = "mentions"
_SCORER, _WITH_HEAD = "SpanCoreferenceModel", "EdgeProbingModel"  #: classes of the networks that the recipes train
_PIECES = ("before", "first", "between", "second", "after")  #: of a text with two mentions


@dataclass(frozen=True)
class CoreferenceTuning(TrainingSettings):
    """An encoder and a span scorer, trained together on documents with mentions and their clusters.

    The trained model is a coreference scorer: ``measure("coref-winobias", model)`` needs no other data. Its scores are
    s(i, j) of :class:`~pytest_genderbias.recipes.networks.mention_scorers.SpanCoreferenceModel`, log-odds of an
    antecedent against none. The candidates are the mentions that the data give, so that mentions need not be found.

    A row is a document with the spans and clusters of its mentions. Data methods that change words move the spans; the
    grammatical intervention of counterfactual augmentation goes by the clusters.

    ``training``: ``gap``, ``winobias`` (choose other data than those of the suite) or a path of CoNLL files.
    ``held_out``: share of the documents for ``f1`` and ``conll_f1``, which are never trained on; the draw does not
    depend on the seed. ``max_rows``: maximum number of documents. ``batch_size``: documents. ``learning_rate``: by
    default 3e-5, 1e-4 for hidden sizes below 768 and 3e-4 below 256; 1e-3 with a frozen encoder. After a warm-up of 6 %
    of the steps it falls linearly. ``max_length``: maximum number of tokens that the encoder reads together; longer
    documents are cut at line ends. ``head_size`` and ``dropout``: of the head.
    ``freeze``: the part that is not trained: ``nothing``, ``embeddings``, ``encoder`` (all but the head), or a number
    k: the embeddings and the first k layers; a caller's ``Training.freeze`` takes its place.
    """

    name: ClassVar[str] = "coreference"
    evaluates: ClassVar[tuple[str, ...]] = ("f1", "conll_f1")
    columns: ClassVar[tuple[str, ...]] = ("text",)
    mentions: ClassVar[str] = _MENTIONS
    located: ClassVar[tuple[str, ...]] = ("data", "training")
    training: str = "gap"
    held_out: Share = 0.1
    max_rows: Count | None = None
    epochs: Positive = 5.0
    batch_size: Count = 8
    max_length: Annotated[int, at_least(16)] = 384
    head_size: Count = 256
    dropout: ShareOrNone = 0.3
    freeze: Freeze = field(default=NOTHING, metadata=ADDED_LATER)

    def _identity(self) -> dict[str, object]:
        return {"digest": self._parts.digest[:16]}

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
        model = trainable(model)
        if model.role.kind == CAUSAL_LM or model.backend.network.config.is_encoder_decoder:
            kind = "has an encoder and a decoder" if model.role.kind != CAUSAL_LM else f"is {model.role.text}"
            raise NotApplicableError(
                f"{model.name} {kind}, and the vectors of mentions need the text on both sides; give a masked LM or an"
                " encoder"
            )
        from pytest_genderbias.recipes.networks import mention_scorers as ours

        ours.register()
        if model.network_class == _SCORER:
            network = copied(model.backend.network)
        else:
            settings: dict[str, Any] = {"head_size": self.head_size, "dropout": self.dropout}
            network = on_encoder(
                model, seed, lambda encoder: ours.SpanCoreferenceModel(ours.SpanCoreferenceConfig(encoder, **settings))
            )
        frozen_parameters(network, self.freeze)
        return as_scorer(model, network)

    def _prepared(self, model: Model, rows: Sequence[Row], seed: int, training: Training) -> Prepared:
        """Return what the Trainer is given.

        Raises:
            DataFileError: the model reads two mentions in no document.
            SettingError: a method changed a text without its mentions.
        """
        _check_mentions(rows)
        examples: list[dict[str, Any]] = [
            {"document": document, "clusters": _clusters(row)[document.is_read]}
            for row, document in zip(rows, self._read(model, rows), strict=True)
            if document.is_read.sum() > 1
        ]
        if not examples:
            raise DataFileError(f"{model.name} reads two mentions in none of {len(rows)} documents")
        network: SpanCoreferenceModel = copied(model.backend.network)
        if training.new_head:
            seeded(seed, network.renew_head)
        network.config.head = {"documents": len(examples), "data": Path(self.training).name}
        lengths = [example["document"].length for example in examples]
        ordered, arguments = self._by_length(examples, lengths, self._tuning_arguments(model, training), seed)
        collator = partial(_collate, pad_id=int(model.backend.tokenizer.pad_token_id or 0))
        return network, ordered, collator, {**arguments, "remove_unused_columns": False}, training

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
        self._require_own(model)
        rows = self._parts.held_out
        documents = self._read(model, rows)
        tables = pair_scores(model.backend, documents)
        pairs = _pair_performance(rows, tables)
        clusters = _cluster_performance(rows, documents, tables)
        return [pairs] if clusters is None else [pairs, clusters]

    def _read(self, model: Model, rows: Sequence[Row]) -> list[DocumentTokens]:
        read = partial(read_document, model.backend.tokenizer, self._longest(model.backend))
        return [read(row["text"], [(start, end) for start, end, *_ in row[_MENTIONS]]) for row in rows]

    def _require_own(self, model: Model) -> None:
        if model.network_class != _SCORER:
            raise NotApplicableError(f"{model.name} is {model.role.text} without a span scorer; start() adds one")

    @cached_property
    def _parts(self) -> SplitRows:
        return read_coreference_rows(self._data(), self.training, self.held_out)


def _collate(examples: Sequence[Mapping[str, Any]], pad_id: int) -> dict[str, Tensor]:
    """Return a batch of documents with the clusters of their mentions."""
    import torch

    batch = batch_of([example["document"] for example in examples], pad_id)
    clusters = np.full(batch["mentions"].shape[:2], -1, dtype=np.int64)
    for row, example in zip(clusters, examples, strict=True):
        row[: len(example["clusters"])] = example["clusters"]
    return {name: torch.from_numpy(array) for name, array in {**batch, "clusters": clusters}.items()}


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
    """Return F1 over the pairs that are read."""
    cells = [
        (row["document"], row[_MENTIONS], table, i, j)
        for row, table in zip(rows, tables, strict=True)
        for i, j in row["pairs"]
    ]
    read = [cell for cell in cells if not np.isnan(cell[2][cell[3], cell[4]])]
    linked = [table[i, j] > 0 for _, _, table, i, j in read]
    corefer = [mentions[i][-1] == mentions[j][-1] for _, mentions, _, i, j in read]
    return pair_f1(linked, corefer, [document for document, *_ in read])


def pair_f1(linked: ArrayLike, corefer: ArrayLike, documents: ArrayLike) -> Performance:
    """Return F1 of "they corefer" over pairs of mentions; its units are the documents.

    Args:
        linked: whether each pair is predicted to corefer, shape (pairs,).
        corefer: whether it does, same shape.
        documents: its document, same shape.

    Raises:
        UndefinedError: no pair corefers, and none is predicted to.
    """
    found, true = (np.asarray(of_pair, dtype=np.float64) for of_pair in (linked, corefer))
    right, either = 2.0 * found * true, found + true
    if not either.any():
        raise UndefinedError("no pair corefers, and none is predicted to")
    labels, number = np.unique(np.asarray(documents), return_inverse=True)
    sums = mean_sums(labels.astype(np.str_), np.bincount(number, right), np.bincount(number, either), "documents")
    return Performance("f1", "lower", float(right.sum() / either.sum()), sums)


def held_out_documents(count: int, share: float) -> NDArray[np.bool_]:
    """Return which of some documents are held out, at least one; the draw is always the same."""
    return np.random.default_rng(0).permutation(count) < max(1, round(share * count))


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
    sums = ItemSums(
        np.asarray(list(map(str, counts)), dtype=np.str_), np.stack(list(counts.values())), "f1", "documents"
    )
    return Performance("conll_f1", "lower", value, sums)


def read_coreference_rows(data: DataFolder, name: str, held_out: float) -> SplitRows:
    """Read documents with mentions, and hold some of them out; the draw is always the same.

    A row has ``text``; ``mentions``: (start, end, words, cluster) of each, in the order of the text, with a number for
    the cluster; ``pairs``: the numbers of the two mentions of each pair whose classification F1 is of; and
    ``document``, a number.

    - ``gap``: the pronoun and the two names of each passage of GAP's development part. Pairs: each name with the
      pronoun. Other mentions of the passage are not marked and not read.
    - ``winobias``: the mentions in brackets of the dev sentences, and the other profession. Pairs: each profession with
      the first pronoun. Sentences with the same two professions differ little, and form one document.
    - a path: documents in the CoNLL-2012 format with their gold mentions. Pairs: all mentions of a sentence (Tenney et
      al. 2019). The parts of a document are rows of their own and are held out together.

    The documents are those of
    :func:`~pytest_genderbias.suites.families.shared.coreference_training.coreference_training`, so that a head on a
    frozen encoder is evaluated on the same ones.

    Args:
        data: folder of the user's data sets.
        name: ``gap``, ``winobias`` or a path, relative to the working directory or the folder.
        held_out: share of the documents, above 0 and below 1.

    Raises:
        MissingDataError: the data set is missing.
        SettingError: the name is none of these.
        DataFileError: as the readers; no pair, or every pair corefers; too few documents.
    """
    if name == "gap":
        source = data.find("gap", "development")
        rows = [_gap_row(example) for example in read_gap(source)]
    elif name == "winobias":
        files = data.find_all("winobias", "dev")
        source = files[0].parent
        rows = [_winobias_row(sentence) for file in files for sentence in read_winobias(file)]
    else:
        source = conll_path(data, name)
        rows = [row for document in read_conll(source) if (row := _conll_row(document)) is not None]
    corefer = [row["mentions"][i][-1] == row["mentions"][j][-1] for row in rows for i, j in row["pairs"]]
    refuse_unfit(source, corefer, [row["document"] for row in rows])
    numbers = {document: number for number, document in enumerate(dict.fromkeys(str(row["document"]) for row in rows))}
    is_out = held_out_documents(len(numbers), held_out)
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        number = numbers[str(row["document"])]
        parts[int(is_out[number])].append({**row, "document": number})
    return SplitRows(*parts, digest)


def make_row(
    text: str, mentions: Sequence[tuple[Span, int]], is_pair: Callable[[Span, Span], bool], document: str | int
) -> Row:
    """Return a document as a row.

    Args:
        text: the document.
        mentions: span and cluster of each mention, in any order.
        is_pair: whether F1 is of the pair of two mentions, of which the first is the earlier one.
        document: its name; documents of one name are held out together.

    >>> row = make_row("Ann met her.", [((8, 11), 0), ((0, 3), 0)], lambda first, second: True, "d")
    >>> row["mentions"], row["pairs"]
    (((0, 3, 'Ann', 0), (8, 11, 'her', 0)), ((0, 1),))
    """
    ordered = sorted(mentions)
    spans = [span for span, _ in ordered]
    pairs = [(i, j) for i, j in combinations(range(len(spans)), 2) if is_pair(spans[i], spans[j])]
    return {
        "text": text,
        "mentions": tuple((start, end, text[start:end], cluster) for (start, end), cluster in ordered),
        "pairs": tuple(pairs),
        "document": document,
    }


def _gap_row(example: GapExample) -> Row:
    names = zip(example.candidates, example.labels, strict=True)
    mentions = [(span, 0 if label else 1 + number) for number, (span, label) in enumerate(names)]
    pronoun = example.pronoun
    return make_row(example.text, [(pronoun, 0), *mentions], lambda *pair: pronoun in pair, example.text)


def _winobias_row(sentence: WinoBiasSentence) -> Row:
    professions, pronoun = {sentence.gold, sentence.other}, sentence.pronouns[0]
    mentions = [(sentence.gold, 0), (sentence.other, 1), *((span, 0) for span in sentence.pronouns)]
    document = " and ".join(sorted(sentence.professions))
    return make_row(
        sentence.text, mentions, lambda *pair: pronoun in pair and not professions.isdisjoint(pair), document
    )


def _conll_row(document: Document) -> Row | None:
    """Return a document as a row, or ``None`` if it has no mentions. Mentions of one sentence are pairs."""
    mentions = [(span, number) for number, cluster in enumerate(document.clusters) for span in cluster]
    ends = [end for _, end in document.sentences]
    name = document.id.partition(";")[0]
    row = make_row(
        document.text, mentions, lambda *pair: len(set(np.searchsorted(ends, [end for _, end in pair]))) == 1, name
    )
    return row if mentions else None


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
    evaluates: ClassVar[tuple[str, ...]] = ("f1",)
    columns: ClassVar[tuple[str, ...]] = _PIECES
    label: ClassVar[str | None] = "label"
    located: ClassVar[tuple[str, ...]] = ("data", "training")
    training: str = "gap"
    held_out: Share = 0.1
    max_rows: Count | None = None
    epochs: Positive = 10.0
    learning_rate: Positive = 2e-4

    def _identity(self) -> dict[str, object]:
        return {"digest": self._parts.digest[:16]}

    @property
    def encoder_is_frozen(self) -> bool:
        """Always."""
        return True

    def rows(self) -> list[Row]:
        """Return the training pairs, in the order of the file."""
        return self._parts.training[: self.max_rows]

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
        return network, pairs, _collate_pairs, self._arguments(500), replace(training, freeze=ENCODER)

    def evaluate(self, model: Model) -> list[Performance]:
        """Return F1 of "they corefer", at probability .5, over the pairs in held-out documents; its units are the
        documents.

        Raises:
            NotApplicableError: the model lacks the head.
            UndefinedError: no pair corefers, and none is predicted to.
        """
        self._require_own(model)
        cases = _cases(self._parts.held_out)
        read, features = features_of(model, cases)
        linked = head_of(model.backend.network).probabilities(features) > 0.5
        return [pair_f1(linked, cases.facts["label"][read], cases.facts["document"][read])]

    def _require_own(self, model: Model) -> None:
        if model.network_class != _WITH_HEAD:
            raise NotApplicableError(
                f"{model.name} is {model.role.text} without an edge-probing head; start() adds one"
            )

    @cached_property
    def _parts(self) -> SplitRows:
        read = coreference_training(self._data(), self.training)
        examples, documents = read.examples, read.examples.facts["document"]
        is_out = held_out_documents(int(documents.max()) + 1, self.held_out)
        parts: tuple[list[Row], list[Row]] = ([], [])
        for (text,), spans, label, document in zip(
            examples.texts, examples.spans, examples.facts["label"], documents, strict=True
        ):
            row = _row_of_pieces(text, spans, bool(label), int(document))
            if row is not None:
                parts[int(is_out[document])].append(row)
        return SplitRows(*parts, read.digest)


def _collate_pairs(pairs: Sequence[Mapping[str, FloatArray | np.int64]]) -> dict[str, Tensor]:
    """Return a batch of pairs."""
    import torch

    return {name: torch.from_numpy(np.stack([np.asarray(pair[name]) for pair in pairs])) for name in pairs[0]}


def _row_of_pieces(text: str, spans: Sequence[tuple[int, int]], label: bool, document: int) -> Row | None:
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
