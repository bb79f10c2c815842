"""Coreference scores of an edge-probing head on the frozen span vectors of an encoder; the head is trained once and
cached.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError, SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring import SCORING_VERSION
from pytest_genderbias.scoring.edge_training import FloatArray, Head, head_shapes, train_head
from pytest_genderbias.scoring.scorer import Progress, check_finite
from pytest_genderbias.scoring.text_vectors import HiddenStates, Span
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.families.shared.coreference_training import FEWEST_DOCUMENTS, CoreferenceTraining
from pytest_genderbias.suites.query import CoreferenceScores

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

#: Raise this whenever training on the same data can give another head.
DEFINITION = "edge-probe/1"


class EdgeProbe:
    """The probability that a candidate and the pronoun corefer, from a head on their vectors.

    The vector of a span is the mean over its tokens of one hidden layer, two thirds up (rounded up). The features of a
    pair are the vectors of the candidate and of the pronoun. ``f1`` is the head's F1 on held-out pairs, ``f1_always``
    the F1 of answering yes to all of them; ``None`` if undefined.

    **choice.** Tenney et al. learn a mix of all layers, a projection and an attention over the span's tokens. Measured
    on GAP development, mean F1 of five restarts, with .62 for always yes: all-MiniLM-L6-v2 .72 with layer 4 of 6 and
    .66 with the last, a masked LM of its shape .65 and .62. A head can have a lower F1 at probability .5 than always
    yes and still be informative: a masked LM of two layers has .61, and prefers the right one of two names in 71 % (an
    untrained network: .32 and 52 %). A head that performs well on its training data need not do so on the sentences of
    a suite: check the accuracy there before the bias.

    The head is that in ``cache``, if it is there, else a new one, which is then cached.

    Raises:
        SettingError: the query has no training data.
        DataFileError: the model reads both mentions in too few of the training texts.
        ScoreError: the vectors of the training texts are not finite.
    """

    def __init__(
        self,
        cases: Cases,
        query: CoreferenceScores,
        model: Model,
        batch_tokens: int | None,
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> None:
        if query.training is None:
            raise SettingError("the adapter edge-probe needs training data: gap, winobias, or a path of CoNLL files")
        assert isinstance(cases, TextCases)
        self._cases, self._model, self._progress = cases, model, progress
        self._layer = probed_layer(model.backend.network.config)
        self._states = HiddenStates(model.backend, batch_tokens, self._layer)
        self._remarks: list[str] = []
        folder = cache if model.fingerprint else None  # the weights of a model without a fingerprint may change
        self._head = self._stored_or_trained(query.training, query.seed, batch_tokens, folder)
        self.f1, self.f1_always = self._head.f1, self._head.f1_always
        self._remarks.append(
            f"edge-probing head on layer {self._layer}, trained on {self._head.pairs:,} pairs of {query.training.name},"
            f" seed {query.seed}: F1 {_figure(self.f1)} on {self._head.held_out:,} others (always yes:"
            f" {_figure(self.f1_always)})"
        )

    @property
    def notes(self) -> list[str]:
        """Remarks on the head's training data and F1, on texts that were cut, and on batches that were halved."""
        return [*self._remarks, *self._states.notes]

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return the probability of each candidate of each case: shape (len(cases), candidates)."""
        texts = [sentence[0] for sentence in self._cases.sentences(cases)]
        vectors = self._states.span_vectors(texts, [self._cases.spans[i] for i in cases])
        scores = self._head.probabilities(pair_features(vectors[:, :-1], vectors[:, -1:]))
        check_finite(np.asarray(np.isfinite(scores).all(axis=1)), self._cases, cases, self._model.name)
        return scores

    def _stored_or_trained(
        self, training: CoreferenceTraining, seed: int, batch_tokens: int | None, cache: Path | None
    ) -> Head:
        key: dict[str, object] = {
            "model": self._model.fingerprint,
            "reading": fingerprint_reading(self._model.backend),
            "device": self._model.details.get("device"),
            "data": training.digest,
            "seed": seed,
            "definition": DEFINITION,
            "version": SCORING_VERSION,
        }
        path = cache and cache / "heads" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.safetensors"
        if path is not None and path.exists():
            head = read_head(path, key, 2 * self._model.width_of(self._layer))
            if isinstance(head, Head):
                with suppress(OSError):  # the cache may be read-only
                    path.touch()  # marks it as used: bias_cache_size removes the least recently used entries
                return head
            self._remarks.append(f"the edge-probing head {path} {head}: another was trained in its place")
        head = self._train(training, seed, batch_tokens)
        if path is not None:
            try:
                write_head(path, key, head)
            except OSError as error:
                self._remarks.append(f"edge-probing head not cached: {error.strerror or error} ({path.parent})")
        return head

    def _train(self, training: CoreferenceTraining, seed: int, batch_tokens: int | None) -> Head:
        head, left_out = fit_head(self._model, training.name, training.examples, seed, batch_tokens, self._progress)
        if left_out:
            self._remarks.append(f"{left_out} training pairs left out: the model does not read that far")
        return head


class CarriedProbe(EdgeProbe):
    """An edge probe with the head of an ``EdgeProbingModel`` checkpoint."""

    def __init__(self, cases: TextCases, query: CoreferenceScores, model: Model, batch_tokens: int | None) -> None:
        network = model.backend.network
        self._cases, self._model = cases, model
        self._layer = probed_layer(network.config.encoder)
        self._states = HiddenStates(model.backend, batch_tokens, self._layer)
        self._head = head_of(network)
        self.f1, self.f1_always = self._head.f1, self._head.f1_always
        self._remarks = [f"edge-probing head on layer {self._layer}, trained on {self._head.pairs:,} pairs"]


def head_of(network: Any) -> Head:
    """Return the head of an ``EdgeProbingModel``; its first layer absorbs the standardisation."""
    mean, scale, hidden, bias = (
        part.detach().double().cpu().numpy()
        for part in (network.mean, network.scale, network.hidden.weight, network.hidden.bias)
    )
    weights = {
        "hidden_weight": (hidden / scale).astype(np.float32),
        "hidden_bias": (bias - (hidden / scale) @ mean).astype(np.float32),
        "output_weight": network.output.weight[0].detach().float().cpu().numpy(),
        "output_bias": network.output.bias.detach().float().cpu().numpy(),
    }
    head = Head(weights, 0, 0, None, None)
    return replace(head, **{name: value for name, value in network.config.head.items() if name in _facts(head)})


def fit_head(
    model: Model,
    name: str,
    examples: TextCases,
    seed: int,
    batch_tokens: int | None = None,
    progress: Progress | None = None,
) -> tuple[Head, int]:
    """Train a head on a model's vectors of pairs of mentions; return it and the number of pairs that were left out as
    too long.

    Args:
        model: a model with a network.
        name: name of the data, for messages.
        examples: pairs of mentions, as in
            :class:`~pytest_genderbias.suites.families.shared.coreference_training.CoreferenceTraining`.
        seed: see :func:`~pytest_genderbias.scoring.edge_training.train_head`.
        batch_tokens: tokens in a batch.
        progress: shows how far the training is, or ``None``.

    Raises:
        DataFileError: the model reads both mentions in too few of the texts.
        ScoreError: the vectors are not finite.
    """
    read, features = features_of(model, examples, batch_tokens)
    documents = examples.facts["document"][read]
    if len(np.unique(documents)) < FEWEST_DOCUMENTS:
        raise DataFileError(
            f"{name}: {model.name} reads both mentions in only {len(read)} of {examples.n_cases} pairs, which are too"
            " few to train a head"
        )
    show = None if progress is None else partial(progress, f"head on {name} for {model.name}, seed {seed}", done=0)
    head = train_head(features, examples.facts["label"][read], documents, seed, show)
    return head, examples.n_cases - len(read)


def features_of(model: Model, examples: TextCases, batch_tokens: int | None = None) -> tuple[IntArray, FloatArray]:
    """Return the numbers of the pairs of which the network reads both mentions, and their features: shape (n, 2 x
    hidden size).

    Raises:
        ScoreError: the features are not finite.
    """
    config = model.backend.network.config
    encoder = config.encoder if config.model_type == "edge-probing" else config
    layer = probed_layer(encoder)
    states = HiddenStates(model.backend, batch_tokens, layer)
    texts, pairs = [row[0] for row in examples.texts], examples.spans
    read = np.flatnonzero(states.reads(texts, pairs))
    if not len(read):
        return read, np.zeros((0, 2 * model.width_of(layer)), dtype=np.float32)
    features = _vectors_of_pairs(states, [texts[int(i)] for i in read], [pairs[int(i)] for i in read])
    check_finite(np.asarray(np.isfinite(features).all(axis=1)), examples, read, model.name)
    return read, features


def probed_layer(config: PreTrainedConfig) -> int:
    """Return the hidden layer whose vectors the head reads: two thirds up, rounded up (4 of 6, 8 of 12, 2 of 2)."""
    return math.ceil(2 * int(config.get_text_config().num_hidden_layers) / 3)


def pair_features(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the vectors of both spans, concatenated along the last axis; the other axes are broadcast."""
    return np.concatenate(np.broadcast_arrays(first, second), axis=-1)


def _vectors_of_pairs(states: HiddenStates, texts: Sequence[str], pairs: Sequence[tuple[Span, ...]]) -> FloatArray:
    """Return the features of pairs: shape (n, 2 x hidden size). Each text is passed once, with all its spans."""
    spans: dict[str, dict[Span, None]] = {}
    for text, pair in zip(texts, pairs, strict=True):
        spans.setdefault(text, {}).update(dict.fromkeys(pair))
    vectors: dict[tuple[str, Span], FloatArray] = {}
    for count in sorted({len(ranges) for ranges in spans.values()}):
        alike = [text for text, ranges in spans.items() if len(ranges) == count]
        for text, rows in zip(alike, states.span_vectors(alike, [tuple(spans[text]) for text in alike]), strict=True):
            vectors.update({(text, span): vector for span, vector in zip(spans[text], rows, strict=True)})
    first, second = (
        np.stack([vectors[text, pair[side]] for text, pair in zip(texts, pairs, strict=True)]) for side in (0, 1)
    )
    return pair_features(first, second)


def write_head(path: Path, key: dict[str, object], head: Head) -> None:
    """Store a head: its weights, and in the header its key, its figures and a checksum."""
    from safetensors.numpy import save

    about = {"key": key, "facts": _facts(head), "sha256": _checksum(head)}
    write_whole(path, save(head.weights, {"head": json.dumps(about)}))


def read_head(path: Path, key: dict[str, object], features: int) -> Head | str:
    """Return a stored head, or the reason why it cannot be used."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            about = json.loads((file.metadata() or {})["head"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        head = Head(weights, **about["facts"])
        numbers = [head.pairs, head.held_out, head.f1 or 0.0, head.f1_always or 0.0]
        wrong = [name for name in key if about["key"].get(name) != key[name]]
        whole = about["sha256"] == _checksum(head)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "is damaged"
    if not all(isinstance(n, (int, float)) and np.isfinite(n) for n in numbers):
        return "is damaged"
    if not all(np.isfinite(array).all() for array in weights.values()):
        return "is damaged"
    if wrong:
        return f"was trained for another {' and '.join(wrong)}"
    shapes = {name: array.shape for name, array in weights.items()}
    return head if whole and shapes == head_shapes(features) else "is damaged"


def _facts(head: Head) -> dict[str, int | float | None]:
    """Return the figures of a head as JSON values."""
    return {"pairs": head.pairs, "held_out": head.held_out, "f1": head.f1, "f1_always": head.f1_always}


def _checksum(head: Head) -> str:
    digest = hashlib.sha256(json.dumps(list(_facts(head).values())).encode())
    for name, array in sorted(head.weights.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
