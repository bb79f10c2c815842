"""ln P of words in their sentences, however many each has: packed, so that the masks of all sentences share batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import NotApplicableError, ScoreError
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.models.roles import MASKED_LM
from pytest_genderbias.scoring.base import Scorer, check_finite
from pytest_genderbias.scoring.log_probability import sum_log_probabilities
from pytest_genderbias.scoring.network import Network
from pytest_genderbias.scoring.tokens import CuttingTokenizer, RowEncoder, pack_rows
from pytest_genderbias.suites.cases import Cases, IntArray, Spans, TextCases
from pytest_genderbias.suites.query import PseudoLogLikelihood


def make(cases: Cases, query: PseudoLogLikelihood, model: Model, batch_tokens: int | None) -> Scorer:
    """Return the scorer of an LM."""
    if isinstance(model.backend, Checkpoint):
        return NetworkLikelihood(cases, model, batch_tokens)
    if isinstance(cases, TextCases) and any(cases.spans):
        raise NotApplicableError(
            f"{model.name} is an object, which gives no probability of words inside a sentence; a causal LM scores whole sentences "
            "(option score=all)"
        )
    if not hasattr(model.backend, "continuation_log_probs"):
        raise NotApplicableError(
            f"{model.name} has no continuation_log_probs(prefixes, continuations), which this suite asks for"
        )
    return ObjectLikelihood(cases, model)


class NetworkLikelihood:
    """Scores the cases by a checkpoint."""

    def __init__(self, cases: Cases, model: Model, batch_tokens: int | None) -> None:
        self._cases, self._name = cases, model.name
        self._likelihood = SpanLikelihood(model, batch_tokens)

    @property
    def notes(self) -> list[str]:
        """Say what was cut or halved."""
        return self._likelihood.notes

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return ln P of the tokens of each case, and their number."""
        texts = [text for (text,) in self._cases.sentences(cases)]
        given = self._cases.spans if isinstance(self._cases, TextCases) else ()
        found = self._likelihood.score(texts, [given[i] if given else () for i in cases])
        check_finite(np.isfinite(found[:, 0]), self._cases, cases, self._name)
        return found


class SpanLikelihood:
    """ln P of the tokens in spans of texts: each masked alone (masked LM), or by the chain rule (causal LM).

    A token belongs to the span that holds its last character, as a word's leading space does not make it two words'. Special
    tokens are not scored, nor is the first token of a causal LM that puts none before it.
    """

    def __init__(self, model: Model, batch_tokens: int | None) -> None:
        checkpoint: Checkpoint = model.backend
        if not checkpoint.tokenizer.is_fast:
            raise NotApplicableError(
                "the positions of words need a fast tokenizer (tokenizer.json), which this checkpoint lacks"
            )
        self._encoder = RowEncoder(checkpoint.tokenizer)
        self._tokenize = CuttingTokenizer(checkpoint.tokenizer, checkpoint.max_length)
        self._mask_id: int | None = checkpoint.tokenizer.mask_token_id if model.role.kind == MASKED_LM else None
        self._network = Network(checkpoint, batch_tokens, vocabulary_head=True)

    @property
    def notes(self) -> list[str]:
        """Say what was cut or halved, and where the fast road could not be taken."""
        return [note for note in (self._tokenize.note, self._network.note, self._network.batches.note) if note]

    @property
    def cut(self) -> int:
        """Number of texts of which the end was not read."""
        return self._tokenize.cut

    def score(self, texts: list[str], spans: Sequence[Spans]) -> NDArray[np.float64]:
        """Return the sum of ln P, in nats, and the number of tokens in it: shape (len(texts), 2).

        Args:
            texts: the texts.
            spans: the character ranges [start, end) of each; none: the whole text.
        """
        encodings = self._tokenize.encode(texts)
        wanted = [self._wanted(encoding, chosen) for encoding, chosen in zip(encodings, spans, strict=True)]
        counts = np.asarray([len(positions) for positions in wanted], dtype=np.int64)
        ids = [self._encoder.packed(encoding) for encoding in encodings]
        rows = pack_rows(ids, self._encoder, np.zeros((len(ids), 2), dtype=np.int64))
        case = np.repeat(np.arange(len(texts)), counts)
        total = sum_log_probabilities(self._network, rows, case, np.concatenate(wanted), self._mask_id)
        return np.stack([total, counts], axis=1)

    def _wanted(self, encoding: Any, spans: Spans) -> IntArray:
        """Return the positions of the tokens that are scored."""
        wanted = np.asarray(encoding.special_tokens_mask) == 0
        if self._mask_id is None:
            wanted[:1] = False  # nothing comes before it
        if spans:
            start, stop = np.asarray(encoding.offsets, dtype=np.int64).reshape(-1, 2).T
            last = np.where(stop > start, stop - 1, start)[:, None]
            low, high = np.asarray(spans, dtype=np.int64).T
            wanted &= ((last >= low) & (last < high)).any(axis=1)
        return np.flatnonzero(wanted).astype(np.int64)


class ObjectLikelihood:
    """Scores whole texts by an object: the words after the first, given the first."""

    def __init__(self, cases: Cases, model: Model) -> None:
        self._cases, self._model = cases, model

    @property
    def notes(self) -> list[str]:
        """Say what is not in the scores."""
        return ["the first word of each sentence is given, not scored"]

    def score(self, cases: IntArray) -> NDArray[Any]:
        """Return ln P of the words of each case after the first, and their number."""
        parts = [text.partition(" ") for (text,) in self._cases.sentences(cases)]
        prefixes, rest = [first for first, _, _ in parts], [after for _, _, after in parts]
        found = continuation_log_probs(self._model, prefixes, rest)
        check_finite(np.isfinite(found), self._cases, cases, self._model.name)
        return np.stack([found, np.asarray([len(text.split()) for text in rest], dtype=np.float64)], axis=1)


def continuation_log_probs(model: Model, prefixes: list[str], continuations: list[str]) -> NDArray[np.float64]:
    """Return ln P of continuations by an object: shape (len(prefixes),)."""
    found = np.asarray(model.backend.continuation_log_probs(prefixes, continuations), dtype=np.float64)
    if found.shape != (len(prefixes),):
        raise ScoreError(f"{model.name} answered with an array of the shape {found.shape}, expected {(len(prefixes),)}")
    return found
