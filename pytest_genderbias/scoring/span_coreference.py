"""Coreference scores of a span scorer with its encoder: token ids of documents with mentions, batches of them, and the
scores of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError
from pytest_genderbias.models.behaviour import ANY_ROWS
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring.network import Batches, check_embedded
from pytest_genderbias.scoring.packed_layers import PackedLayers
from pytest_genderbias.scoring.scorer import PlainScorer
from pytest_genderbias.scoring.text_vectors import tokens_in
from pytest_genderbias.scoring.tokens import require_fast, tokenized
from pytest_genderbias.suites.cases import IntArray, TextCases
from pytest_genderbias.suites.query import CoreferenceScores

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class DocumentTokens:
    """A document as token ids, in segments that the encoder reads one by one, and the place of its mentions.

    ``mentions``: segment, first and last token of each mention, shape (n, 3); -1 where a mention lies beyond what the
    encoder reads.
    """

    segments: list[list[int]]
    mentions: IntArray

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """Whether the encoder reads a token of each mention, shape (n,)."""
        return np.asarray(self.mentions[:, 0] >= 0)

    @property
    def length(self) -> int:
        """Number of tokens, with the padding of its segments."""
        return len(self.segments) * max(map(len, self.segments))


def read_document(
    tokenizer: PreTrainedTokenizerBase, longest: int | None, text: str, spans: Sequence[Span]
) -> DocumentTokens:
    """Return the tokens of a document and the places of its mentions, character ranges [start, end).

    The document is cut into segments of at most ``longest`` tokens, at line ends (``None``: no limit). A line that is
    longer than a segment is cut, and the mentions beyond are not read.

    Raises:
        NotApplicableError: the tokenizer is not a fast one.
    """
    require_fast(tokenizer)
    starts = _starts(tokenizer, longest, text)
    texts = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    encodings = _encodings(tokenizer, texts, longest)
    places = np.full((len(spans), 3), -1, dtype=np.int64)
    for number, (begin, encoding) in enumerate(zip(starts, encodings, strict=True)):
        for mention, (first, last) in enumerate(_tokens_of(encoding, begin, spans)):
            if first >= 0 and places[mention, 0] < 0:
                places[mention] = number, first, last
    return DocumentTokens([list(encoding.ids) for encoding in encodings], places)


def _starts(tokenizer: PreTrainedTokenizerBase, longest: int | None, text: str) -> list[int]:
    """Return where the segments of a text begin."""
    if longest is None:
        return [0]
    (whole,) = _encodings(tokenizer, [text])
    if len(whole.ids) <= longest:
        return [0]
    lines = text.splitlines(keepends=True)
    room = longest - int(sum(whole.special_tokens_mask))
    starts, place, used = [0], 0, 0
    for line, encoding in zip(lines, _encodings(tokenizer, lines), strict=True):
        count = len(encoding.ids) - int(sum(encoding.special_tokens_mask))
        if used and used + count > room:
            starts.append(place)
            used = 0
        place, used = place + len(line), used + count
    return starts


def _encodings(tokenizer: PreTrainedTokenizerBase, texts: list[str], longest: int | None = None) -> list[Encoding]:
    encodings: list[Encoding] = tokenized(
        tokenizer, texts, truncation=longest is not None, max_length=longest
    ).encodings
    return encodings


def batch_of(documents: Sequence[DocumentTokens], pad_id: int) -> dict[str, IntArray]:
    """Return the arguments of :class:`~pytest_genderbias.recipes.networks.mention_scorers.SpanCoreferenceModel` for
    some documents.

    Mentions that are not read are left out.

    Returns:
        ``input_ids`` and ``attention_mask``, shape (segments of all, longest), and ``mentions``, shape (documents, most
        mentions, 2).
    """
    longest = max(len(segment) for document in documents for segment in document.segments)
    count = sum(len(document.segments) for document in documents)
    ids = np.full((count, longest), pad_id, dtype=np.int64)
    mask = np.zeros((count, longest), dtype=np.int64)
    most = max(int(document.is_read.sum()) for document in documents)
    mentions = np.full((len(documents), max(1, most), 2), -1, dtype=np.int64)
    row = 0
    for number, document in enumerate(documents):
        segment, first, last = document.mentions[document.is_read].T
        mentions[number, : len(segment)] = ((row + segment) * longest + np.stack([first, last])).T
        for tokens in document.segments:
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
            row += 1
    return {"input_ids": ids, "attention_mask": mask, "mentions": mentions}


def pair_scores(
    checkpoint: Checkpoint, documents: Sequence[DocumentTokens], batches: Batches | None = None
) -> list[FloatArray]:
    """Return the scores s(i, j) of the pairs of mentions of each document, in nats: arrays of shape (n, n), symmetric.

    Mentions should be in the order of the text. A pair with a mention that is not read has NaN, as has a mention with
    itself; a pair that is farther apart than the network's number of antecedents has -inf.
    """
    import torch

    network, device = checkpoint.network, checkpoint.device
    tables = [np.full((len(d.mentions), len(d.mentions)), np.nan) for d in documents]
    for document in documents:
        for segment in document.segments:
            check_embedded(network.get_submodule("encoder"), np.asarray(segment))
    lengths = np.asarray([document.length for document in documents], dtype=np.int64)

    def step(rows: IntArray) -> None:
        tensors = batch_of([documents[i] for i in rows], int(checkpoint.tokenizer.pad_token_id or 0))
        logits = network(**{name: torch.as_tensor(array, device=device) for name, array in tensors.items()}).logits
        for i, scores in zip(rows, logits.double().cpu().numpy(), strict=True):
            read = np.flatnonzero(documents[i].is_read)
            tables[i][np.ix_(read, read)] = _square(scores[: len(read)])

    # The segments of a document are padded to the longest of them; with those of others only if padding changes
    # nothing.
    most_rows = 1 << 30 if checkpoint.batches == ANY_ROWS else 1
    (batches or Batches(checkpoint.device, None)).run(lengths, step, most_rows)
    return tables


def span_scores(cases: TextCases, query: CoreferenceScores, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Return the scores s(i, j), in nats, of the candidates of a case with its pronoun, by the span scorer that a
    checkpoint carries.

    The mentions of a text are those of the case: its candidates and the pronoun.
    """
    checkpoint: Checkpoint = model.backend
    require_fast(checkpoint.tokenizer)
    batches = Batches(checkpoint.device, batch_tokens, PackedLayers(checkpoint.network))
    head: dict[str, object] = checkpoint.network.config.head
    trained = f"trained on {head['documents']:,} documents of {head['data']}" if head else "untrained"
    about = f"span scorer, {trained}: scores are log-odds against no antecedent, in nats"

    def scores(numbers: IntArray) -> FloatArray:
        texts = [sentence[0] for sentence in cases.sentences(numbers)]
        spans = [cases.spans[i] for i in numbers]
        orders = [sorted(range(len(own)), key=own.__getitem__) for own in spans]
        documents = [
            read_document(checkpoint.tokenizer, checkpoint.max_length, text, [own[k] for k in order])
            for text, own, order in zip(texts, spans, orders, strict=True)
        ]
        for text, document in zip(texts, documents, strict=True):
            if not document.is_read.all():
                raise ModelError(f"{model.name} does not read all mentions of the text {text[:60]!r}; shorten it")
        tables = pair_scores(checkpoint, documents, batches)
        return np.stack(
            [
                table[order.index(len(order) - 1), [order.index(k) for k in range(len(order) - 1)]]
                for table, order in zip(tables, orders, strict=True)
            ]
        )

    return PlainScorer(scores, lambda: [about, batches.note])


def _square(scores: FloatArray) -> FloatArray:
    """Return a symmetric table, (n, n), of the scores of n mentions with their K nearest earlier ones, (n, K); NaN on
    its diagonal.
    """
    count, nearest = scores.shape
    table = np.full((count, count), -np.inf)
    for step in range(1, min(nearest, count - 1) + 1):
        later = np.arange(step, count)
        table[later, later - step] = table[later - step, later] = scores[later, step - 1]
    np.fill_diagonal(table, np.nan)
    return table


def _tokens_of(encoding: Encoding, begin: int, spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the first and last token that overlap each span, or (-1, -1); the text of the encoding begins at
    ``begin``.
    """
    inside = tokens_in(encoding, [(start - begin, stop - begin) for start, stop in spans])
    places = [np.flatnonzero(row) for row in inside]
    return [(int(place[0]), int(place[-1])) if len(place) else (-1, -1) for place in places]
