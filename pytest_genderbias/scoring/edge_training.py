"""The head of edge probing and its training: a two-layer MLP on the frozen vectors of two spans (Tenney et al.
2019).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_genderbias.errors import UndefinedError
from pytest_genderbias.statistics.coreference_scores import f1_pair

#: Units of the hidden layer.
HIDDEN = 256
_BATCH, _RATE, _DROPOUT = 32, 2e-4, 0.2
_EPOCHS, _PATIENCE = 40, 4

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Head:
    """sigmoid(output_weight . relu(hidden_weight x + hidden_bias) + output_bias), and its F1.

    ``weights``: the four arrays, of the shapes (hidden, features), (hidden,), (hidden,) and (1,). ``pairs``: number of
    training pairs. ``held_out``: number of held-out pairs. ``f1``: F1 of "they corefer" at probability .5 on the
    held-out pairs (``None``: the head links no pair, or none corefers). ``f1_always``: F1 of answering yes to all of
    them.
    """

    weights: dict[str, FloatArray]
    pairs: int
    held_out: int
    f1: float | None
    f1_always: float | None

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
    with _one_thread(), nullcontext(_ignore) if show is None else show(total=_EPOCHS * len(train)) as advance:
        fitted = _fit(standard[train], corefer[train], standard[stop], corefer[stop], seed, advance)
    hidden = fitted["hidden_weight"].astype(np.float64) / scale
    weights = {
        **fitted,
        "hidden_weight": hidden.astype(np.float32),
        "hidden_bias": (fitted["hidden_bias"] - hidden @ mean).astype(np.float32),
    }
    head = Head(weights, len(train), len(test), None, None)
    linked = head.probabilities(features[test]) > 0.5
    always = np.ones(len(test), dtype=np.bool_)
    return Head(weights, len(train), len(test), _f1(corefer[test], linked), _f1(corefer[test], always))


def split_documents(documents: IntArray, seed: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the rows for training, early stopping and F1: eight tenths, one tenth and one tenth of the documents.

    >>> [len(rows) for rows in split_documents(np.repeat(np.arange(10), 2), 0)]
    [16, 2, 2]
    """
    names, number = np.unique(documents, return_inverse=True)
    place = np.random.default_rng(seed).permutation(len(names))[number.ravel()]
    tenth = max(1, len(names) // 10)
    return np.flatnonzero(place >= 2 * tenth), np.flatnonzero(place < tenth), np.flatnonzero(place // tenth == 1)


def _ignore(count: int) -> None:
    """Show nothing."""


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


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run torch in one thread, for the same summation order on any machine; matrices this small gain nothing from more
    threads.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _f1(corefer: BoolArray, linked: BoolArray) -> float | None:
    try:
        return float(f1_pair(corefer[:, None], linked[:, None])[2])
    except UndefinedError:
        return None
