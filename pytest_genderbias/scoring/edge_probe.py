"""A coreference scorer made of any encoder: an edge-probing head on its frozen span vectors, trained once and kept."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError, NotApplicableError, SettingError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.models.model import Checkpoint, Model
from pytest_genderbias.scoring import SCORING_VERSION
from pytest_genderbias.scoring.base import check_finite
from pytest_genderbias.scoring.edge_training import FloatArray, Head, head_shapes, train_head
from pytest_genderbias.scoring.vectors import HiddenStates, Span
from pytest_genderbias.suites.cases import Cases, IntArray, TextCases
from pytest_genderbias.suites.families.shared.coreference_training import FEWEST_DOCUMENTS, CoreferenceTraining
from pytest_genderbias.suites.query import CoreferenceScores

#: Raise this whenever the head that is trained on the same data can change.
DEFINITION = "edge-probe/1"
_FACTS = ("pairs", "held_out", "f1", "f1_always")


def make(
    cases: Cases, query: CoreferenceScores, model: Model, batch_tokens: int | None, cache: Path | None = None
) -> EdgeProbe:
    """Return the scorer with a trained head: the one that is kept under ``cache``, else a new one, which is then kept there.

    Raises:
        NotApplicableError: the model has no hidden states.
        SettingError: the query names nothing to train on.
        DataFileError: the model reads too few of the training texts as far as their mentions.
        ScoreError: its vectors of the training texts are not finite.
    """
    if not isinstance(model.backend, Checkpoint):
        raise NotApplicableError(f"{model.name} is an object without hidden states, which this suite asks for")
    if query.training is None:
        raise SettingError(
            "the adapter edge-probe needs something to train on: gap, winobias, or a path of CoNLL files"
        )
    return EdgeProbe(cases, query, model, batch_tokens, cache)


class EdgeProbe:
    """The probability that a candidate and the pronoun corefer, by a head on their vectors.

    A span's vector is the mean over its tokens of one hidden layer, two thirds up (rounded up); a pair's features are those
    of the candidate, then of the pronoun. ``f1`` is the head's F1 on pairs that it never saw, ``f1_always`` that of answering yes to all
    of them, ``None`` where there is none.

    **choice.** Tenney et al. learn a mix of all layers, a projection and an attention over the span's tokens. Measured on GAP
    development, mean F1 of five seeds, always yes .62: all-MiniLM-L6-v2 .72 with layer 4 of 6 and .66 with the last, a masked LM
    of its shape .65 and .62. At probability .5 a head can have a lower F1 than always yes and still know something: a masked LM
    of two layers has .61, and the right one of two names in 71 % (an untrained network .32 and 52 %). A head that does well on its
    own data need not on the sentences of a suite, so look at the accuracy there before the bias.
    """

    def __init__(
        self, cases: Cases, query: CoreferenceScores, model: Model, batch_tokens: int | None, cache: Path | None
    ) -> None:
        self._cases: Any = cases
        self._model = model
        self._layer = probed_layer(model.backend.network.config)
        self._states = HiddenStates(model.backend, batch_tokens, self._layer)
        self._said: list[str] = []
        keeps = cache if model.fingerprint else None  # whose weights may change has no head that could be told apart
        self._head = self._kept_or_trained(query.training, query.seed, batch_tokens, keeps)
        self.f1, self.f1_always = self._head.f1, self._head.f1_always
        self._said.append(
            f"edge-probing head on layer {self._layer}, trained on {self._head.pairs:,} pairs of {query.training.name}, seed {query.seed}: "
            f"F1 {_figure(self.f1)} on {self._head.held_out:,} others (always yes: {_figure(self.f1_always)})"
        )

    @property
    def notes(self) -> list[str]:
        """Say what the head was trained on, its F1, and what was cut or halved."""
        return [*self._said, *self._states.notes]

    def score(self, cases: IntArray) -> NDArray[np.float64]:
        """Return the probability of each candidate of each case: shape (len(cases), candidates)."""
        texts = [sentence[0] for sentence in self._cases.sentences(cases)]
        vectors = self._states.span_vectors(texts, [self._cases.spans[i] for i in cases])
        found = self._head.probabilities(pair_features(vectors[:, :-1], vectors[:, -1:]))
        check_finite(np.asarray(np.isfinite(found).all(axis=1)), self._cases, cases, self._model.name)
        return found

    def _kept_or_trained(
        self, training: CoreferenceTraining, seed: int, batch_tokens: int | None, cache: Path | None
    ) -> Head:
        key = {
            "model": self._model.fingerprint,
            "device": self._model.details.get("device"),
            "data": training.digest,
            "seed": seed,
            "definition": DEFINITION,
            "version": SCORING_VERSION,
        }
        path = cache and cache / "heads" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.safetensors"
        if path is not None and path.exists():
            kept = read_head(path, key, 2 * self._model.width)
            if isinstance(kept, Head):
                with suppress(OSError):  # a cache that can only be read
                    path.touch()  # used: --bias-cache-size removes what was not for longest
                return kept
            self._said.append(f"the edge-probing head {path} {kept}: another was trained in its place")
        head = self._train(training, seed, batch_tokens)
        if path is not None:
            try:
                write_head(path, key, head)
            except OSError as error:
                self._said.append(f"edge-probing head not kept: {error.strerror or error} ({path.parent})")
        return head

    def _train(self, training: CoreferenceTraining, seed: int, batch_tokens: int | None) -> Head:
        head, left_out = fit_head(self._model, training.name, training.examples, seed, batch_tokens)
        if left_out:
            self._said.append(f"{left_out} training pairs left out: the model does not read so far")
        return head


class CarriedProbe(EdgeProbe):
    """The same by the head that a checkpoint carries (``EdgeProbingModel``)."""

    def __init__(self, cases: Cases, model: Model, batch_tokens: int | None) -> None:
        network = model.backend.network
        self._cases, self._model = cases, model
        self._layer = probed_layer(network.config.encoder)
        self._states = HiddenStates(model.backend, batch_tokens, self._layer)
        self._head = head_of(network)
        self.f1, self.f1_always = self._head.f1, self._head.f1_always
        self._said = [f"edge-probing head on layer {self._layer}, trained on {self._head.pairs:,} pairs"]


def head_of(network: Any) -> Head:
    """Return the head of an ``EdgeProbingModel``, its standardisation made part of the first layer."""
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
    facts = {"pairs": 0, "held_out": 0, "f1": None, "f1_always": None, **network.config.head}
    return Head(weights, **{name: facts[name] for name in _FACTS})


def fit_head(
    model: Model, name: str, examples: TextCases, seed: int, batch_tokens: int | None = None
) -> tuple[Head, int]:
    """Train a head on a model's vectors of pairs of mentions; return it, and the number of pairs that the model does not read so far.

    Args:
        model: any network.
        name: of the data, for messages.
        examples: as those of :class:`~pytest_genderbias.suites.families.shared.coreference_training.CoreferenceTraining`.
        seed: as of :func:`~pytest_genderbias.scoring.edge_training.train_head`.
        batch_tokens: tokens in a batch.

    Raises:
        DataFileError: the model reads too few of the texts as far as their mentions.
        ScoreError: its vectors are not finite.
    """
    read, features = features_of(model, examples, batch_tokens)
    documents = examples.facts["document"][read]
    if len(np.unique(documents)) < FEWEST_DOCUMENTS:
        raise DataFileError(
            f"{name}: {model.name} reads only {len(read)} of {examples.n_cases} pairs of mentions as far as the second one; "
            "a head cannot be trained on them"
        )
    return train_head(features, examples.facts["label"][read], documents, seed), examples.n_cases - len(read)


def features_of(model: Model, examples: TextCases, batch_tokens: int | None = None) -> tuple[IntArray, FloatArray]:
    """Return the numbers of the pairs that a network reads as far as the second mention, and their features, (n, 2 x hidden size).

    Raises:
        ScoreError: they are not finite.
    """
    config = model.backend.network.config
    encoder = config.encoder if config.model_type == "edge-probing" else config
    states = HiddenStates(model.backend, batch_tokens, probed_layer(encoder))
    texts, pairs = [row[0] for row in examples.texts], examples.spans
    read = np.flatnonzero(states.reads(texts, pairs))
    if not len(read):
        return read, np.zeros((0, 2 * model.width), dtype=np.float32)
    features = _vectors_of_pairs(states, [texts[int(i)] for i in read], [pairs[int(i)] for i in read])
    check_finite(np.asarray(np.isfinite(features).all(axis=1)), examples, read, model.name)
    return read, features


def probed_layer(config: Any) -> int:
    """Return the hidden layer whose vectors are probed: two thirds up, rounded up (4 of 6, 8 of 12, 2 of 2)."""
    return math.ceil(2 * int(config.get_text_config().num_hidden_layers) / 3)


def pair_features(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the vectors of both spans, one after the other; the axes before the last are broadcast."""
    return np.concatenate(np.broadcast_arrays(first, second), axis=-1)


def _vectors_of_pairs(states: HiddenStates, texts: Sequence[str], pairs: Sequence[tuple[Span, ...]]) -> FloatArray:
    """Return the features of pairs, (n, 2 x hidden size); each text is passed once, with all its spans."""
    spans: dict[str, dict[Span, None]] = {}
    for text, pair in zip(texts, pairs, strict=True):
        spans.setdefault(text, {}).update(dict.fromkeys(pair))
    vectors: dict[tuple[str, Span], FloatArray] = {}
    for count in sorted({len(chosen) for chosen in spans.values()}):
        some = [text for text, chosen in spans.items() if len(chosen) == count]
        for text, found in zip(some, states.span_vectors(some, [tuple(spans[text]) for text in some]), strict=True):
            vectors.update({(text, span): vector for span, vector in zip(spans[text], found, strict=True)})
    first, second = (
        np.stack([vectors[text, pair[side]] for text, pair in zip(texts, pairs, strict=True)]) for side in (0, 1)
    )
    return pair_features(first, second)


def write_head(path: Path, key: dict[str, Any], head: Head) -> None:
    """Keep a head: its weights, and in the header what it was made from, its figures and a checksum."""
    from safetensors.numpy import save

    about = {"key": key, "facts": {name: getattr(head, name) for name in _FACTS}, "sha256": _checksum(head)}
    write_whole(path, save(head.weights, {"head": json.dumps(about)}))


def read_head(path: Path, key: dict[str, Any], features: int) -> Head | str:
    """Return a head that was kept, or in words why it is not used."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            about = json.loads((file.metadata() or {})["head"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        head = Head(weights, **about["facts"])
        wrong = [name for name in key if about["key"].get(name) != key[name]]
        whole = about["sha256"] == _checksum(head)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        return "is damaged"
    if wrong:
        return f"was made for another {' and '.join(wrong)}"
    shapes = {name: array.shape for name, array in weights.items()}
    return head if whole and shapes == head_shapes(features) else "is damaged"


def _checksum(head: Head) -> str:
    digest = hashlib.sha256(json.dumps([getattr(head, name) for name in _FACTS]).encode())
    for name, array in sorted(head.weights.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _figure(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
