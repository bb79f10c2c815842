"""Vectors of texts, of spans in texts, and of bare words: from the hidden states or input embeddings of a network, or from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import ModelError, NotApplicableError, SettingError
from pytest_genderbias.models.model import UNKNOWN_POOLING, Checkpoint, Model
from pytest_genderbias.scoring.base import Scorer, check_finite
from pytest_genderbias.scoring.network import Batches
from pytest_genderbias.scoring.tokens import CuttingTokenizer
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.query import TextVectors

Span = tuple[int, int]
_Key = tuple[str, tuple[Span, ...], tuple[Span, ...]]  #: a text, the spans that are read, those that are masked


def make(cases: Cases, query: TextVectors, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer of a model's vectors."""
    if isinstance(model.backend, Checkpoint):
        return NetworkVectors(cases, query, model, batch_tokens)
    if hasattr(model.backend, "matrix"):
        return FileVectors(cases, model)
    raise NotApplicableError(f"{model.name} is an object without hidden states, which this suite asks for")


class FileVectors:
    """Looks up the word in the first span of each text, or the text. A word that the file lacks gives a row of NaN."""

    def __init__(self, cases: Cases, model: Model) -> None:
        self._cases, self._vectors = cases, model.backend

    @property
    def notes(self) -> list[str]:
        """Say nothing: words that are lacking show in the rows."""
        return []

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return the vectors of the words."""
        texts = [sentence[0] for sentence in self._cases.sentences(cases)]
        places = _first_spans(self._cases, cases, texts)
        rows = [self._vectors.row(text[start:stop]) for text, ((start, stop),) in zip(texts, places, strict=True)]
        found = np.full((len(rows), self._vectors.matrix.shape[1]), np.nan, dtype=np.float32)
        there = np.asarray([row is not None for row in rows], dtype=np.bool_)
        found[there] = self._vectors.matrix[[row for row in rows if row is not None]]
        return found


class NetworkVectors:
    """Pools the hidden states of texts."""

    def __init__(self, cases: Cases, query: TextVectors, model: Model, batch_tokens: int | None) -> None:
        self._cases: Any = cases
        self._model, self._pooling, self._masks = model, query.pooling, query.mask_others
        if self._masks and model.backend.tokenizer.mask_token_id is None:
            raise NotApplicableError(f"{model.name} has no mask token, and this suite asks for words that are masked")
        self._states = HiddenStates(model.backend, batch_tokens, query.where, query.random_seed)

    @property
    def notes(self) -> list[str]:
        """Say what was cut or halved."""
        return self._states.notes

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return one vector a case."""
        texts = [sentence[0] for sentence in self._cases.sentences(cases)]
        hidden = [self._cases.spans[i][1:] for i in cases] if self._masks else [()] * len(texts)
        found = self._states.span_vectors(texts, _first_spans(self._cases, cases, texts), self._pooling, hidden)[:, 0]
        check_finite(np.asarray(np.isfinite(found).all(axis=1)), self._cases, cases, self._model.name)
        return found


def _first_spans(cases: Cases, numbers: IntArray, texts: Sequence[str]) -> list[tuple[Span]]:
    """Return the first span of each case, the whole text where it has none."""
    spans = cases.spans if isinstance(cases, TextCases) else ()
    return [(spans[i][0],) if spans and spans[i] else ((0, len(text)),) for i, text in zip(numbers, texts, strict=True)]


class HiddenStates:
    """Hidden states of texts, in batches of like length; equal texts with equal spans are passed once.

    ``where`` and ``random_seed`` as in :class:`~pytest_genderbias.suites.query.TextVectors`. Texts that are too long are cut, with a note.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        batch_tokens: int | None,
        where: str | int = "last",
        random_seed: int | None = None,
    ) -> None:
        self._checkpoint, self._where = checkpoint, where
        if not checkpoint.tokenizer.is_fast:
            raise NotApplicableError(
                "the positions of words need a fast tokenizer (tokenizer.json), which this checkpoint lacks"
            )
        network = checkpoint.network.base_model
        network = network.get_encoder() if network.config.is_encoder_decoder else network
        self._network = network if random_seed is None else untrained(network, random_seed, checkpoint.device)
        self._batches = Batches(checkpoint.device, batch_tokens)
        self._tokenize = CuttingTokenizer(checkpoint.tokenizer, checkpoint.max_length)

    @property
    def notes(self) -> list[str]:
        """Say what was cut or halved."""
        return [note for note in (self._tokenize.note, self._batches.note) if note]

    def span_vectors(
        self,
        texts: Sequence[str],
        spans: Sequence[Sequence[Span]],
        pooling: str = "mean",
        masked: Sequence[Sequence[Span]] = (),
    ) -> NDArray[np.float32]:
        """Return one vector for each span of each text: shape (len(texts), spans of a text, hidden size).

        Args:
            texts: the texts.
            spans: character ranges [start, end), as many for every text.
            pooling: ``mean`` over the span's tokens; ``first`` token of the text; ``own``: as the sentence encoder says.
            masked: character ranges whose tokens are masked, for each text where there are any.

        Raises:
            ModelError: no token of a span is among those that the model reads, or its ``own`` pooling is not known.
        """
        if pooling == "own" and self._checkpoint.pooling == UNKNOWN_POOLING:
            raise ModelError(
                "how this model pools sentences is not known: the hub cannot be reached, and modules.json is not in the cache; "
                "load the model once with the hub in reach, give its directory, or ask for a pooling (mean, first)"
            )
        keys = [
            (text, tuple(chosen), tuple(hidden))
            for text, chosen, hidden in zip(texts, spans, masked or [()] * len(texts), strict=True)
        ]
        distinct = {key: row for row, key in enumerate(dict.fromkeys(keys))}
        found = self._distinct(list(distinct), pooling)
        return np.asarray(found[[distinct[key] for key in keys]])

    def reads(self, texts: Sequence[str], spans: Sequence[Sequence[Span]]) -> NDArray[np.bool_]:
        """Tell of which texts the model reads a token of each span: shape (len(texts),). What it would cut is not noted."""
        encodings = CuttingTokenizer(self._checkpoint.tokenizer, self._checkpoint.max_length)(list(texts)).encodings
        found = [
            _tokens_in(encoding, chosen).any(axis=1).all() for encoding, chosen in zip(encodings, spans, strict=True)
        ]
        return np.asarray(found, dtype=np.bool_)

    def _distinct(self, keys: list[_Key], pooling: str) -> NDArray[np.float32]:
        import torch

        encodings = self._tokenize([text for text, *_ in keys]).encodings
        weights = [self._weights(encoding, key, pooling) for encoding, key in zip(encodings, keys, strict=True)]
        lengths = np.asarray([len(encoding.ids) for encoding in encodings], dtype=np.int64)
        largest = (self._checkpoint.pooling if pooling == "own" else None) == "max"
        device = self._checkpoint.device
        found: list[Any] = [None] * len(keys)

        def step(rows: IntArray) -> None:
            longest = int(lengths[rows].max())
            ids = np.zeros((len(rows), longest), dtype=np.int64)
            weight = np.zeros((len(rows), len(keys[0][1]), longest), dtype=np.float32)
            for i, row in enumerate(rows):
                ids[i, : lengths[row]] = self._ids(encodings[row], keys[row][2])
                weight[i, :, : lengths[row]] = weights[row]
            mask = np.arange(longest) < lengths[rows][:, None]
            hidden = self._hidden(torch.as_tensor(ids, device=device), torch.as_tensor(mask, device=device).long())
            by_token = torch.as_tensor(weight, device=device)
            if largest:
                vectors = hidden[:, None].float().masked_fill(by_token[..., None] == 0, -torch.inf).amax(2)
            else:
                vectors = by_token @ hidden.float()
            for row, vector in zip(rows, vectors.cpu().numpy(), strict=True):
                found[row] = vector

        self._batches.run(lengths, step)
        return np.stack(found)

    def _hidden(self, ids: Any, mask: Any) -> Any:
        if self._where == "input":
            return self._network.get_input_embeddings()(ids)
        if self._where == "last":
            return self._network(input_ids=ids, attention_mask=mask).last_hidden_state
        states = self._network(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        if not 0 <= int(self._where) < len(states):
            raise SettingError(
                f"layer {self._where} is not there; the model has layers 0 (embeddings) to {len(states) - 1}"
            )
        return states[int(self._where)]

    def _ids(self, encoding: Any, masked: tuple[Span, ...]) -> NDArray[np.int64]:
        ids = np.asarray(encoding.ids, dtype=np.int64)
        for span in _tokens_in(encoding, masked):
            ids[span] = self._checkpoint.tokenizer.mask_token_id
        return ids

    def _weights(self, encoding: Any, key: _Key, pooling: str) -> NDArray[np.float32]:
        """Return the weight of each token in each span's mean: shape (spans, tokens), rows sum to one."""
        text, spans, _ = key
        n = len(encoding.ids)
        if pooling == "first" or (pooling == "own" and self._checkpoint.pooling == "first"):
            return np.repeat(np.eye(1, n, dtype=np.float32), len(spans), axis=0)
        if pooling == "own":
            return np.full((len(spans), n), 1.0 / n, dtype=np.float32)
        inside = _tokens_in(encoding, spans)
        if not inside.any(axis=1).all():
            start, stop = spans[int(np.argmin(inside.any(axis=1)))]
            raise ModelError(
                f"no token of {text[start:stop]!r} is among those that the model reads of {text[:60]!r}; shorten the text"
            )
        return np.asarray(inside / inside.sum(axis=1, keepdims=True), dtype=np.float32)


def _tokens_in(encoding: Any, spans: Sequence[Span]) -> NDArray[np.bool_]:
    """Tell which tokens overlap which span: shape (spans, tokens); special tokens are in none."""
    offsets = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    real = (np.asarray(encoding.special_tokens_mask) == 0) & (offsets[:, 1] > offsets[:, 0])
    wanted = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    return np.asarray((offsets[:, 0] < wanted[:, 1:]) & (offsets[:, 1] > wanted[:, :1]) & real)


def untrained(network: Any, seed: int, device: str) -> Any:
    """Return a network of the same architecture as it is before any training, drawn with a seed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        fresh = type(network)(network.config)
    return fresh.to(device=device, dtype=network.dtype).eval()
