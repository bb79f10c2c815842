"""Coreference scores of an edge-probing head on the frozen span vectors of an encoder; the head, a two-layer MLP
(Tenney et al. 2019), is trained once and cached.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import DataFileError, SettingError, UndefinedError
from pytest_genderbias.folders import write_whole
from pytest_genderbias.models.fingerprint import fingerprint_reading
from pytest_genderbias.models.model import Model
from pytest_genderbias.scoring import SCORING_VERSION
from pytest_genderbias.scoring.parallel_batches import one_thread
from pytest_genderbias.scoring.scorer import PlainScorer, Progress, check_finite
from pytest_genderbias.scoring.text_vectors import HiddenStates, Span
from pytest_genderbias.statistics.coreference_scores import f1_pair
from pytest_genderbias.suites.cases import Cases, TextCases
from pytest_genderbias.suites.families.shared.coreference_training import FEWEST_DOCUMENTS
from pytest_genderbias.suites.query import CoreferenceScores

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


#: Raise this whenever training on the same data can give another head.
DEFINITION = "edge-probe/1"
#: Units of the hidden layer.
HIDDEN = 256
_BATCH, _RATE, _DROPOUT = 32, 2e-4, 0.2
_EPOCHS, _PATIENCE = 40, 4
FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def edge_probe(
    cases: Cases,
    query: CoreferenceScores,
    model: Model,
    batch_tokens: int | None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> PlainScorer:
    """Return the probability that a candidate and the pronoun corefer, from a head on their vectors.

    The vector of a span is the mean over its tokens of one hidden layer, two thirds up (rounded up). The features of a
    pair are the vectors of the candidate and of the pronoun.

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
    training = query.training
    if training is None:
        raise SettingError("the adapter edge-probe needs training data: gap, winobias, or a path of CoNLL files")
    layer, remarks = probed_layer(model.backend.network.config), list[str]()

    def train() -> Head:
        head, left_out = fit_head(model, training.name, training.examples, query.seed, batch_tokens, progress)
        if left_out:
            remarks.append(f"{left_out} training pairs left out: the model does not read that far")
        return head

    key: dict[str, object] = {
        "model": model.fingerprint,
        "reading": fingerprint_reading(model.backend),
        "device": model.details.get("device"),
        "data": training.digest,
        "seed": query.seed,
        "definition": DEFINITION,
        "version": SCORING_VERSION,
    }
    folder = cache if model.fingerprint else None  # the weights of a model without a fingerprint may change
    head = _kept_head(folder, key, 2 * model.width_of(layer), train, remarks) if folder else train()
    remarks.append(
        f"edge-probing head on layer {layer}, trained on {head.pairs:,} pairs of {training.name},"
        f" seed {query.seed}: F1 {_figure(head.f1)} on {head.held_out:,} others (always yes:"
        f" {_figure(head.f1_always)})"
    )
    return _with_head(cases, model, batch_tokens, layer, head, remarks)


def _kept_head(
    cache: Path, key: dict[str, object], features: int, train: Callable[[], Head], remarks: list[str]
) -> Head:
    """Return the head in the cache, or train one and keep it there; ``remarks`` says what went wrong.

    A file has the weights, and in its header the key, the figures and a checksum of the head.
    """
    from safetensors.numpy import save

    path = cache / "heads" / f"{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}.safetensors"
    if path.exists():
        head = read_head(path, key, features)
        if isinstance(head, Head):
            with suppress(OSError):  # the cache may be read-only
                path.touch()  # marks it as used: bias_cache_size removes the least recently used entries
            return head
        remarks.append(f"the edge-probing head {path} {head}: another was trained in its place")
    head = train()
    about = {"key": key, "facts": _facts(head), "sha256": _checksum(head)}
    try:
        write_whole(path, save(head.weights, {"head": json.dumps(about)}))
    except OSError as error:
        remarks.append(f"edge-probing head not cached: {error.strerror or error} ({path.parent})")
    return head


def carried_probe(cases: Cases, query: CoreferenceScores, model: Model, batch_tokens: int | None) -> PlainScorer:
    """Return the probabilities of :func:`edge_probe` by the head of an ``EdgeProbingModel`` checkpoint."""
    network = model.backend.network
    layer, head = probed_layer(network.config.encoder), head_of(network)
    remark = f"edge-probing head on layer {layer}, trained on {head.pairs:,} pairs"
    return _with_head(cases, model, batch_tokens, layer, head, [remark])


def _with_head(
    cases: Cases, model: Model, batch_tokens: int | None, layer: int, head: Head, remarks: Sequence[str]
) -> PlainScorer:
    """Return the scorer of a head: the probability of each candidate of each case."""
    assert isinstance(cases, TextCases)
    states = HiddenStates(model.backend, batch_tokens, layer)

    def scores(numbers: IntArray) -> NDArray[np.float64]:
        texts = [sentence[0] for sentence in cases.sentences(numbers)]
        vectors = states.span_vectors(texts, [cases.spans[i] for i in numbers])
        return head.probabilities(pair_features(vectors[:, :-1], vectors[:, -1:]))

    return PlainScorer(scores, lambda: [*remarks, *states.notes])


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
    head = Head(weights)
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
        seed: see :func:`~pytest_genderbias.scoring.edge_probe.train_head`.
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


def read_head(path: Path, key: dict[str, object], features: int) -> Head | str:
    """Return a stored head, or the reason why it cannot be used."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            about = json.loads((file.metadata() or {})["head"])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        head = Head(weights, **about["facts"])
        figures = [figure or 0.0 for figure in _facts(head).values()]
        is_finite = all(np.isfinite(array).all() for array in (figures, *weights.values()))
        wrong = [name for name in key if about["key"].get(name) != key[name]]
        whole = about["sha256"] == _checksum(head)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "is damaged"
    if is_finite and wrong:
        return f"was trained for another {' and '.join(wrong)}"
    shapes = {name: array.shape for name, array in weights.items()}
    return head if is_finite and whole and shapes == head_shapes(features) else "is damaged"


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


@dataclass(frozen=True)
class Head:
    """sigmoid(output_weight . relu(hidden_weight x + hidden_bias) + output_bias), and its F1.

    ``weights``: the four arrays, of the shapes (hidden, features), (hidden,), (hidden,) and (1,). ``pairs``: number of
    training pairs. ``held_out``: number of held-out pairs. ``f1``: F1 of "they corefer" at probability .5 on the
    held-out pairs (``None``: the head links no pair, or none corefers). ``f1_always``: F1 of answering yes to all of
    them.
    """

    weights: dict[str, FloatArray]
    pairs: int = 0
    held_out: int = 0
    f1: float | None = None
    f1_always: float | None = None

    def probabilities(self, features: FloatArray) -> NDArray[np.float64]:
        """Return the probability that each pair corefers: features (..., features of a pair), result (...)."""
        import torch

        w = {name: torch.as_tensor(array) for name, array in self.weights.items()}
        with torch.inference_mode():
            x = torch.as_tensor(features)
            hidden = torch.relu(x @ w["hidden_weight"].T + w["hidden_bias"])
            logits = hidden @ w["output_weight"] + w["output_bias"]
            return np.asarray(torch.sigmoid(logits.double()).numpy())


def head_shapes(features: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a head."""
    return {
        "hidden_weight": (HIDDEN, features),
        "hidden_bias": (HIDDEN,),
        "output_weight": (HIDDEN,),
        "output_bias": (1,),
    }


#: Shows ``total`` pairs of all epochs, none of them seen; the context yields a function that adds to those that were.
ShowPairs: TypeAlias = Callable[..., AbstractContextManager[Callable[[int], object]]]


def train_head(
    features: FloatArray, corefer: BoolArray, documents: IntArray, seed: int, show: ShowPairs | None = None
) -> Head:
    """Train a head on the CPU in one thread, so that a seed gives the same head on any machine.

    The documents are split into tenths by the seed: eight for training, one for early stopping, one for F1. The
    features are standardised with the mean and standard deviation of the training features, and the first layer absorbs
    the standardisation. Cross entropy, AdamW (rate 2e-4), batches of 32, dropout .2. The weights are those of the epoch
    with the lowest cross entropy on the stopping tenth; training ends after four epochs without improvement, or after
    forty epochs.

    Args:
        features: shape (n, features of a pair), finite.
        corefer: whether each pair corefers, shape (n,).
        documents: document of each pair, shape (n,); at least three documents. The pairs of a document stay in one
            part.
        seed: determines the split, the initial weights, the batches and the dropout.
        show: shows how far the training is, or ``None``; it may end before all epochs.
    """
    train, stop, test = split_documents(documents, seed)
    mean = features[train].mean(axis=0, dtype=np.float64)
    scale = features[train].std(axis=0, dtype=np.float64)
    scale[scale == 0] = 1.0
    standard = ((features - mean) / scale).astype(np.float32)
    with one_thread(), nullcontext(lambda count: None) if show is None else show(total=_EPOCHS * len(train)) as advance:
        fitted = _fit(standard[train], corefer[train], standard[stop], corefer[stop], seed, advance)
    hidden = fitted["hidden_weight"].astype(np.float64) / scale
    weights = {
        **fitted,
        "hidden_weight": hidden.astype(np.float32),
        "hidden_bias": (fitted["hidden_bias"] - hidden @ mean).astype(np.float32),
    }
    head = Head(weights, len(train), len(test))
    linked = head.probabilities(features[test]) > 0.5
    return replace(head, f1=_f1(corefer[test], linked), f1_always=_f1(corefer[test], np.ones_like(linked)))


def split_documents(documents: IntArray, seed: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the rows for training, early stopping and F1: eight tenths, one tenth and one tenth of the documents.

    >>> [len(rows) for rows in split_documents(np.repeat(np.arange(10), 2), 0)]
    [16, 2, 2]
    """
    names, number = np.unique(documents, return_inverse=True)
    place = np.random.default_rng(seed).permutation(len(names))[number.ravel()]
    tenth = max(1, len(names) // 10)
    return np.flatnonzero(place >= 2 * tenth), np.flatnonzero(place < tenth), np.flatnonzero(place // tenth == 1)


def _fit(
    x: FloatArray, y: BoolArray, stop_x: FloatArray, stop_y: BoolArray, seed: int, advance: Callable[[int], object]
) -> dict[str, FloatArray]:
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

    rows, labels = torch.as_tensor(x), torch.as_tensor(y).float()
    stop_rows, stop_labels = torch.as_tensor(stop_x), torch.as_tensor(stop_y).float()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        hidden, output = torch.nn.Linear(x.shape[1], HIDDEN), torch.nn.Linear(HIDDEN, 1)
        head = torch.nn.Sequential(hidden, torch.nn.ReLU(), torch.nn.Dropout(_DROPOUT), output)
        optimiser = torch.optim.AdamW(head.parameters(), lr=_RATE)
        least, waited, best = np.inf, 0, copy.deepcopy(head.state_dict())
        for _ in range(_EPOCHS):
            head.train()
            for batch in torch.split(torch.randperm(len(rows)), _BATCH):
                optimiser.zero_grad()
                loss = cross_entropy(head(rows[batch])[:, 0], labels[batch])
                torch.autograd.backward(loss)
                optimiser.step()
                advance(len(batch))
            head.eval()
            with torch.no_grad():
                missed = float(cross_entropy(head(stop_rows)[:, 0], stop_labels))
            if missed < least:
                least, waited, best = missed, 0, copy.deepcopy(head.state_dict())
            else:
                waited += 1
            if waited == _PATIENCE:
                break
        head.load_state_dict(best)
    weights = (hidden.weight, hidden.bias, output.weight[0], output.bias)
    return {name: w.detach().numpy() for name, w in zip(head_shapes(x.shape[1]), weights, strict=True)}


def _f1(corefer: BoolArray, linked: BoolArray) -> float | None:
    try:
        return float(f1_pair(corefer[:, None], linked[:, None])[2])
    except UndefinedError:
        return None
