"""Vectors of texts, of spans in texts, and of single words: from the hidden states or input embeddings of a network, or
from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.model import UNKNOWN_POOLING, Checkpoint, Model
from pytest_genderbias.scoring.network import Batches, check_embedded
from pytest_genderbias.scoring.packed_layers import PackedLayers
from pytest_genderbias.scoring.scorer import PlainScorer, check_finite
from pytest_genderbias.scoring.tokens import CuttingTokenizer, require_fast
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.query import PairSimilarity, TextVectors

if TYPE_CHECKING:
    from tokenizers import Encoding
    from torch import Tensor
    from transformers import PreTrainedModel


Span = tuple[int, int]
_Key = tuple[str, tuple[Span, ...], tuple[Span, ...]]  #: a text, the spans that are read, and the spans that are masked


def file_vectors(cases: Cases, query: TextVectors, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Look up the word in the first span of each text, or the text itself. Words that the file lacks have rows of
    NaN.
    """
    words = model.backend  # WordVectors

    def scores(numbers: IntArray) -> NDArray[np.float32]:
        texts = [sentence[0] for sentence in cases.sentences(numbers)]
        spans = _first_spans(cases, numbers, texts)
        rows = [words.row(text[start:stop]) for text, ((start, stop),) in zip(texts, spans, strict=True)]
        vectors = np.full((len(rows), words.matrix.shape[1]), np.nan, dtype=np.float32)
        known = np.asarray([row is not None for row in rows], dtype=np.bool_)
        vectors[known] = words.matrix[[row for row in rows if row is not None]]
        return vectors

    return PlainScorer(scores)


def network_vectors(cases: Cases, query: TextVectors, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Pool the hidden states of texts, or of the first span of each.

    Raises:
        NotApplicableError: the model lacks the mask token that the query needs.
    """
    checkpoint: Checkpoint = model.backend
    masked_spans = cases.spans if query.mask_others and isinstance(cases, TextCases) else None
    if query.mask_others and checkpoint.tokenizer.mask_token_id is None:
        raise NotApplicableError(f"{model.name} has no mask token, and this suite masks words")
    states = HiddenStates(checkpoint, batch_tokens, query.where, query.random_seed, packed=True)

    def scores(numbers: IntArray) -> NDArray[np.float32]:
        texts = [sentence[0] for sentence in cases.sentences(numbers)]
        masked = [()] * len(texts) if masked_spans is None else [masked_spans[i][1:] for i in numbers]
        return states.span_vectors(texts, _first_spans(cases, numbers, texts), query.pooling, masked)[:, 0]

    return PlainScorer(scores, lambda: states.notes)


def _first_spans(cases: Cases, numbers: IntArray, texts: Sequence[str]) -> list[tuple[Span]]:
    """Return the first span of each case, or the whole text if it has none."""
    spans = cases.spans if isinstance(cases, TextCases) else ()
    return [(spans[i][0],) if spans and spans[i] else ((0, len(text)),) for i, text in zip(numbers, texts, strict=True)]


class HiddenStates:
    """Hidden states of texts, in batches of similar length. Equal texts with equal spans are passed once.

    ``where`` and ``random_seed`` are those of :class:`~pytest_genderbias.suites.query.TextVectors`. Texts that are too
    long are cut, which ``notes`` reports. ``packed``: whether the network may multiply with packed weights, as scorers
    do; what trains on the states does not, since a training can turn rounding into another result.

    Raises:
        NotApplicableError: the tokenizer is not a fast one.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        batch_tokens: int | None,
        where: str | int = "last",
        random_seed: int | None = None,
        packed: bool = False,
    ) -> None:
        self._checkpoint, self._where = checkpoint, where
        require_fast(checkpoint.tokenizer)
        graph: Any = checkpoint.network  # of an encoder's graph there is the last hidden state alone
        if checkpoint.runtime and (where != "last" or random_seed is not None or not graph.gives_hidden_states):
            graph.refuse("hidden states that this suite needs")
        network = checkpoint.body
        self._network = network if random_seed is None else untrained(network, random_seed, checkpoint.device)
        layers = PackedLayers(self._network) if packed else None
        self._batches = Batches(checkpoint.device, batch_tokens, layers, checkpoint.batches)
        self._tokenize = CuttingTokenizer(checkpoint.tokenizer, checkpoint.max_length)

    @property
    def notes(self) -> list[str]:
        """Remarks on texts that were cut and batches that were halved."""
        return [note for note in (self._tokenize.note, self._batches.note) if note]

    def span_vectors(
        self,
        texts: Sequence[str],
        spans: Sequence[Sequence[Span]],
        pooling: str = "mean",
        masked: Sequence[Sequence[Span]] = (),
    ) -> NDArray[np.float32]:
        """Return a vector for each span of each text: shape (len(texts), spans of a text, hidden size).

        Args:
            texts: the texts.
            spans: character ranges [start, end), equally many for each text.
            pooling: ``mean`` over the span's tokens; ``first`` token of the text; ``own``: as the sentence encoder
                pools.
            masked: character ranges of each text whose tokens are masked; empty: none.

        Raises:
            ModelError: the model reads no token of a span, or its ``own`` pooling is not known.
        """
        if pooling == "own" and self._checkpoint.pooling == UNKNOWN_POOLING:
            raise ModelError(
                "how this model pools sentences is not known: the hub cannot be reached, and modules.json is not in the"
                " cache; load the model once with access to the hub, give its directory, or set the pooling (mean,"
                " first)"
            )
        keys = [
            (text, tuple(read), tuple(hidden))
            for text, read, hidden in zip(texts, spans, masked or [()] * len(texts), strict=True)
        ]
        distinct = {key: row for row, key in enumerate(dict.fromkeys(keys))}
        vectors = self._distinct(list(distinct), pooling)
        return np.asarray(vectors[[distinct[key] for key in keys]])

    def reads(self, texts: Sequence[str], spans: Sequence[Sequence[Span]]) -> NDArray[np.bool_]:
        """Return whether the model reads a token of each span of a text: shape (len(texts),). Adds no note on texts
        that are cut.
        """
        encodings = CuttingTokenizer(self._checkpoint.tokenizer, self._checkpoint.max_length).encode(list(texts))
        all_read = [
            tokens_in(encoding, ranges).any(axis=1).all() for encoding, ranges in zip(encodings, spans, strict=True)
        ]
        return np.asarray(all_read, dtype=np.bool_)

    def _distinct(self, keys: list[_Key], pooling: str) -> NDArray[np.float32]:
        import torch

        encodings = self._tokenize.encode([text for text, *_ in keys])
        weights = [self._weights(encoding, key, pooling) for encoding, key in zip(encodings, keys, strict=True)]
        lengths = np.asarray([len(encoding.ids) for encoding in encodings], dtype=np.int64)
        for encoding in encodings:
            check_embedded(self._network, np.asarray(encoding.ids))
        largest = (self._checkpoint.pooling if pooling == "own" else None) == "max"
        device = self._checkpoint.device
        vector_of: dict[int, NDArray[np.float32]] = {}

        def step(rows: IntArray) -> None:
            longest = int(lengths[rows].max())
            ids = np.full((len(rows), longest), int(self._checkpoint.tokenizer.pad_token_id or 0), dtype=np.int64)
            weight = np.zeros((len(rows), len(keys[0][1]), longest), dtype=np.float32)
            for i, row in enumerate(rows):
                ids[i, : lengths[row]] = encodings[row].ids
                for masked in tokens_in(encodings[row], keys[row][2]):
                    ids[i, : lengths[row]][masked] = self._checkpoint.tokenizer.mask_token_id
                weight[i, :, : lengths[row]] = weights[row]
            mask = np.arange(longest) < lengths[rows][:, None]
            hidden = self._hidden(torch.as_tensor(ids, device=device), torch.as_tensor(mask, device=device).long())
            if hidden.shape[1] != longest:
                raise ModelError(
                    f"layer {self._where} has {hidden.shape[1]} vectors for {longest} tokens, so that none is the"
                    " vector of a word; name another layer (where: last, or 0 for the embeddings)"
                )
            by_token = torch.as_tensor(weight, device=device)
            if largest:
                vectors = hidden[:, None].float().masked_fill(by_token[..., None] == 0, -torch.inf).amax(2)
            else:
                vectors = by_token @ hidden.float()
            vector_of.update(zip(rows.tolist(), vectors.cpu().numpy(), strict=True))

        self._batches.run(lengths, step)
        return np.stack([vector_of[row] for row in range(len(keys))])

    def _hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the hidden states of token ids: shape (rows, tokens, hidden size)."""
        hidden: Tensor
        if self._where == "input":
            hidden = self._network.get_input_embeddings()(ids)
            return hidden
        if self._where == "last":
            hidden = self._network(input_ids=ids, attention_mask=mask).last_hidden_state
            return hidden
        states: tuple[Tensor, ...] = self._network(
            input_ids=ids, attention_mask=mask, output_hidden_states=True
        ).hidden_states
        if not 0 <= int(self._where) < len(states):
            raise SettingError(
                f"layer {self._where} is not there; the model has layers 0 (embeddings) to {len(states) - 1}"
            )
        return states[int(self._where)]

    def _weights(self, encoding: Encoding, key: _Key, pooling: str) -> NDArray[np.float32]:
        """Return the weight of each token in the mean of each span: shape (spans, tokens); rows sum to one."""
        text, spans, _ = key
        n = len(encoding.ids)
        if pooling == "first" or (pooling == "own" and self._checkpoint.pooling == "first"):
            return np.repeat(np.eye(1, n, dtype=np.float32), len(spans), axis=0)
        if pooling == "own":
            return np.full((len(spans), n), 1.0 / n, dtype=np.float32)
        inside = tokens_in(encoding, spans)
        if not inside.any(axis=1).all():
            start, stop = spans[int(np.argmin(inside.any(axis=1)))]
            raise ModelError(
                f"the model reads no token of {text[start:stop]!r} in the text {text[:60]!r}; shorten the text"
            )
        return np.asarray(inside / inside.sum(axis=1, keepdims=True), dtype=np.float32)


def tokens_in(encoding: Encoding, spans: Sequence[Span]) -> NDArray[np.bool_]:
    """Return which tokens overlap which span: shape (spans, tokens). Special tokens overlap none."""
    offsets = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    real = (np.asarray(encoding.special_tokens_mask) == 0) & (offsets[:, 1] > offsets[:, 0])
    wanted = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    return np.asarray((offsets[:, 0] < wanted[:, 1:]) & (offsets[:, 1] > wanted[:, :1]) & real)


def untrained(network: PreTrainedModel, seed: int, device: str) -> PreTrainedModel:
    """Return a network of the same architecture and dtype with random weights, initialised from a seed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = type(network)(network.config)
    module: torch.nn.Module = fresh
    module.to(device=device, dtype=network.dtype).eval()
    return fresh


def network_cosines(cases: Cases, query: PairSimilarity, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Compare the sentence vectors that a network has for the two texts of each case, by their cosine."""
    states = HiddenStates(model.backend, batch_tokens, packed=True)

    def vectors(texts: list[str]) -> NDArray[np.float32]:
        return states.span_vectors(texts, [((0, len(text)),) for text in texts], query.pooling)[:, 0]

    return PlainScorer(lambda numbers: cosines(vectors, cases, numbers, model.name), lambda: states.notes)


def cosines(
    vectors_of: Callable[[list[str]], NDArray[np.floating]], cases: Cases, numbers: IntArray, name: str
) -> NDArray[np.float64]:
    """Return the cosine of the vectors of the two texts of each case, shape (len(numbers), 1).

    Args:
        vectors_of: returns the vectors of distinct texts.
        cases: pairs of texts.
        numbers: of the cases.
        name: of the model, for an error.

    Raises:
        ScoreError: a vector is not finite, or zero.
    """
    sentences = cases.sentences(numbers)
    texts = list(dict.fromkeys(text for pair in sentences for text in pair))
    vectors = dict(zip(texts, vectors_of(texts), strict=True))
    first, second = (np.stack([vectors[pair[side]] for pair in sentences]).astype(np.float64) for side in (0, 1))
    length = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    check_finite(np.isfinite(length) & (length > 0), cases, numbers, name)
    return np.asarray(((first * second).sum(axis=1) / length)[:, None])
