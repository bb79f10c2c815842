"""Linear softmax probes, trained many at once: one stack of weights, separate batches, separate early stopping.

An online code needs ten probes per seed, each trained on more of the same data. Every probe sees its whole training set
in batches that are drawn anew each epoch. All probes that have a batch left in an epoch take a step together. Probes
that differ in their labels only share their batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
SingleArray = NDArray[np.float32]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class ProbeTraining:
    """Hyperparameters of a probe, which is trained by AdamW (Loshchilov and Hutter 2019) on the mean cross entropy of a
    batch.

    A probe starts at zero weights, the uniform prediction. It stops after ``epochs``, or after ``patience`` consecutive
    epochs that did not lower the summed cross entropy of its held-out examples by ``tolerance`` nats. It keeps the
    weights of its best epoch; epoch 0 is the uniform prediction. Batch size and learning rate are those of orgad2022
    (appendix A), the others those of its reference code; the settings of AdamW are the defaults of torch.
    """

    batch: int = 16
    learning_rate: float = 1e-3
    epochs: int = 50
    patience: int = 4
    tolerance: float = 1e-3
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8


@dataclass(frozen=True)
class HeldOut:
    """The examples for early stopping on one training set: ``rows``, (S, L), and whether each one ``counts``, (S,
    L).
    """

    rows: IntArray
    counts: NDArray[np.bool_]


def with_bias(features: ArrayLike) -> SingleArray:
    """Append the constant feature 1, whose weight is the bias: (n, d) to (n, d + 1), in single precision.

    >>> with_bias([[2.0, 3.0]])
    array([[2., 3., 1.]], dtype=float32)
    """
    x = np.asarray(features)
    table = np.ones((x.shape[0], x.shape[1] + 1), dtype=np.float32)
    table[:, :-1] = x
    return table


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> FloatArray:
    """Return -ln p(label) of each example: 0 or more, in nats.

    Args:
        logits: one per label, shape (..., K); or shape (..., 1) for two labels, where z means the logits (-z, z).
        labels: label numbers, shape (...).

    Example:
        Equal logits give the uniform prediction: ln 2 = 0.693 for two labels.

        >>> float(cross_entropy([0.0], 1).round(3)), float(cross_entropy([5.0, 5.0], 0).round(3))
        (0.693, 0.693)
    """
    z, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if z.shape[-1] == 1:
        against = (2 - 4 * y) * z[..., 0]
        return np.asarray(np.maximum(against, 0.0) + np.log1p(np.exp(-np.abs(against))), dtype=np.float64)
    top = z.max(axis=-1, keepdims=True)
    total = top[..., 0] + np.log(np.exp(z - top).sum(axis=-1))
    return np.asarray(total - np.take_along_axis(z, y[..., None], axis=-1)[..., 0], dtype=np.float64)


def predicted(logits: ArrayLike) -> IntArray:
    """Return the number of the most likely label, the first one of a tie; shapes as in :func:`cross_entropy`.

    >>> predicted([[-1.0], [2.0]]), predicted([[0.0, 3.0, 1.0]])
    (array([0, 1]), array([1]))
    """
    z = np.asarray(logits)
    return np.asarray(z[..., 0] > 0 if z.shape[-1] == 1 else z.argmax(axis=-1), dtype=np.int64)


def epoch_order(size: int, epoch: int) -> IntArray:
    """Return the order in which a training set of ``size`` examples is read in an epoch, which counts from 1: (size,).

    Consecutive examples make a batch, so that each epoch has other batches. The order depends on nothing else, so that
    the training of a probe does not depend on the probes beside it.

    >>> sorted(epoch_order(4, 1).tolist())
    [0, 1, 2, 3]
    """
    return np.asarray(np.random.default_rng([epoch, size]).permutation(size), dtype=np.int64)


def train_probes(
    features: SingleArray,
    labels: ArrayLike,
    n_labels: int,
    order: IntArray,
    sizes: ArrayLike,
    held_out: Sequence[HeldOut],
    training: ProbeTraining | None = None,
) -> tuple[SingleArray, IntArray]:
    """Train R x S x P linear probes together. Probe p of seed s is trained on the first ``sizes[p]`` rows of
    ``order[s]``.

    Each epoch reads the training set once, in a new order (:func:`epoch_order`), in batches of which the last may be
    smaller. With two labels and zero initial weights, the two columns of the softmax remain negatives of each other, so
    only one is trained. In single precision; a probe trained alone ends at the same weights up to rounding.

    Args:
        features: shape (n, d + 1), the last column 1 (:func:`with_bias`).
        labels: label numbers 0 to K - 1 of each labelling, shape (R, n).
        n_labels: K, 2 or more.
        order: rows of the features, shape (S, at least the largest size).
        sizes: examples in each training set, ascending, each 1 or more, shape (P,).
        held_out: the examples for early stopping on each training set; at least one per seed counts.
        training: the hyperparameters; None: the defaults of :class:`ProbeTraining`.

    Returns:
        The weights of the probes, (R, S, P, C, d + 1), of which the last one is the bias; C is K, or 1 for two labels.
        And the epoch whose weights were kept, from 0, (R, S, P). Memory: copies of the features of all held-out
        examples, for S seeds.
    """
    training = training or ProbeTraining()
    y = np.asarray(labels, dtype=np.int64)
    examples = _Examples(features, y, n_labels, order, np.asarray(sizes, dtype=np.int64))
    held = [(features[part.rows], y[:, part.rows], part.counts) for part in held_out]
    columns = 1 if n_labels == 2 else n_labels
    shape = len(y), len(order), len(examples.sizes)
    best = np.zeros((*shape, columns, features.shape[1]), dtype=np.float32)
    best_epoch = np.zeros(shape, dtype=np.int64)
    lowest = np.stack([np.log(n_labels) * counts.sum(axis=1) for _, _, counts in held], axis=1)
    lowest = np.broadcast_to(lowest, shape).copy()
    stack = _Stack.fresh(shape[2], shape[1], shape[0], columns, features.shape[1])
    for epoch in range(1, training.epochs + 1):
        stack.run_epoch(examples, epoch, training)
        for index, p in enumerate(stack.sets):
            x, gold, counts = held[p]
            weights = stack.weights[index].swapaxes(0, 1)  # R, S, C, d + 1
            loss = (cross_entropy(_logits(x, weights), gold) * counts).sum(axis=2)
            # A stopped probe stays in the stack while another one trains on the same training set; ignore its loss.
            since = epoch - best_epoch[..., p]
            better = (loss <= lowest[..., p] - training.tolerance) & (since <= training.patience)
            if better.any():
                lowest[better, p], best_epoch[better, p], best[better, p] = loss[better], epoch, weights[better]
        active = np.asarray((epoch - best_epoch[..., stack.sets] < training.patience).any(axis=(0, 1)))
        if not active.any():
            break
        stack = stack.only(active)
    return best, best_epoch


def _logits(features: SingleArray, weights: SingleArray) -> SingleArray:
    """Return the logits of each labelling, (R, S, L, C), from features, (S, L, d + 1), and weights, (R, S, C, d +
    1).
    """
    labellings, seeds, columns, width = weights.shape
    together = weights.swapaxes(0, 1).reshape(seeds, labellings * columns, width)
    logits = features @ together.swapaxes(1, 2)
    return logits.reshape(*features.shape[:2], labellings, columns).transpose(2, 0, 1, 3)


#: A batch of each of A training sets and S seeds: features, (A, S, size, d + 1); targets, (A, S, R, C, size); and 1 /
#: the number of examples in the batch of a training set, 0 beyond its end, (A, 1, 1, 1, size).
_Batch: TypeAlias = tuple[SingleArray, SingleArray, SingleArray]


class _Examples:
    """The examples of all training sets, and their batches."""

    def __init__(
        self, features: SingleArray, labels: IntArray, n_labels: int, order: IntArray, sizes: IntArray
    ) -> None:
        codes = np.array([[-1], [1]]) if n_labels == 2 else np.eye(n_labels)
        self._features, self._labels, self._codes = features, labels, codes.astype(np.float32)
        self._rows = np.ascontiguousarray(order.T)  # a position of all seeds is read at once
        self.sizes = sizes

    def batches(self, sets: IntArray, epoch: int, size: int) -> tuple[IntArray, IntArray]:
        """Return the positions in each batch of an epoch, (sets, batches, size), and the length of each, (sets,
        batches).
        """
        examples = self.sizes[sets]
        most = -(-int(examples.max()) // size)
        positions = np.zeros((len(sets), most * size), dtype=np.int64)
        for row, n in zip(positions, examples.tolist(), strict=True):
            row[:n] = epoch_order(n, epoch)
        lengths = np.clip(examples[:, None] - size * np.arange(most), 0, size)
        return positions.reshape(len(sets), most, size), lengths

    def batch(self, positions: IntArray, lengths: IntArray) -> _Batch:
        """Return the examples at some positions, (A, size), of which the first ``lengths``, (A,), are in the batch."""
        rows = self._rows[positions].swapaxes(1, 2)
        inside = np.arange(positions.shape[1]) < lengths[:, None]
        share = (inside / lengths[:, None]).astype(np.float32)
        target = np.ascontiguousarray(self._codes[self._labels[:, rows]].transpose(1, 2, 0, 4, 3))
        return self._features[rows], target, share[:, None, None, None]


def _to_residuals(logits: SingleArray, target: SingleArray) -> None:
    """Replace logits (A, S, R, C, size) in place by the gradient of the cross entropy of each example."""
    if logits.shape[3] == 1:  # sigmoid(2 z) - y, for y = 0, 1
        np.tanh(logits, logits)
        logits -= target
        logits *= np.float32(0.5)
    else:
        logits -= logits.max(axis=3, keepdims=True)
        np.exp(logits, logits)
        logits /= logits.sum(axis=3, keepdims=True)
        logits -= target


class _Stack:
    """The probes in training, by training set: weights and moments (sets, S, R, C, d + 1), and steps taken (sets,)."""

    def __init__(
        self, sets: IntArray, taken: IntArray, weights: SingleArray, mean: SingleArray, square: SingleArray
    ) -> None:
        self.sets, self.taken, self.weights, self.mean, self.square = sets, taken, weights, mean, square
        self.gradient, self.change = np.empty_like(weights), np.empty_like(weights)

    @classmethod
    def fresh(cls, sets: int, *shape: int) -> _Stack:
        zeros = np.zeros((3, sets, *shape), dtype=np.float32)
        return cls(np.arange(sets), np.zeros(sets, dtype=np.int64), *zeros)

    def only(self, active: NDArray[np.bool_]) -> _Stack:
        """Return the stack without the training sets that have no probe in training."""
        if active.all():
            return self
        moments = (part[active] for part in (self.weights, self.mean, self.square))
        return _Stack(self.sets[active], self.taken[active], *moments)

    def run_epoch(self, examples: _Examples, epoch: int, training: ProbeTraining) -> None:
        """Train every probe on its training set once."""
        positions, lengths = examples.batches(self.sets, epoch, training.batch)
        batches = (lengths > 0).sum(axis=1)
        steps = np.arange(positions.shape[1])
        taken = (self.taken + steps[:, None] + 1)[..., None]  # the number of each step
        scale = np.sqrt((1 - training.beta2**taken) / (1 - training.beta2))
        rates = training.learning_rate * (1 - training.beta1) / (1 - training.beta1**taken) * scale
        rates, floors = rates.astype(np.float32), (training.epsilon * scale).astype(np.float32)
        starts = np.searchsorted(batches, steps, side="right").tolist()
        views = {start: self._views(start) for start in set(starts)}
        for step, start in enumerate(starts):
            batch = examples.batch(positions[start:, step], lengths[start:, step])
            self._step(views[start], batch, rates[step, start:], floors[step, start:], training)
        self.taken = self.taken + batches

    def _views(self, start: int) -> list[SingleArray]:
        """Return the arrays from training set ``start`` on: weights and gradient by seed, and all five flat."""
        sets, seeds, labellings, columns, width = self.weights[start:].shape
        by_seed = sets, seeds, labellings * columns, width
        arrays = (self.weights, self.mean, self.square, self.gradient, self.change)
        views = [array[start:].reshape(by_seed) for array in (self.weights, self.gradient)]
        return views + [array[start:].reshape(sets, -1) for array in arrays]

    def _step(
        self, views: list[SingleArray], batch: _Batch, rate: SingleArray, floor: SingleArray, training: ProbeTraining
    ) -> None:
        """Take one AdamW step of the probes that have a batch left in the epoch, whose arrays are :meth:`_views`.

        ``rate`` and ``floor``, (sets, 1), depend on the number of steps that a probe has taken. With the moments scaled
        by 1 / (1 - beta), m <- beta1 m + g and v <- beta2 v + g g, the step is
        w <- (1 - lr decay) w - rate m / (sqrt(v) + floor).
        """
        x, target, share = batch
        weights_by_seed, gradient_by_seed, weights, mean, square, gradient, change = views
        logits = np.matmul(weights_by_seed, x.swapaxes(2, 3))
        by_labelling = logits.reshape(*logits.shape[:2], *self.weights.shape[2:4], -1)
        _to_residuals(by_labelling, target)
        by_labelling *= share
        np.matmul(logits, x, gradient_by_seed)
        mean *= np.float32(training.beta1)
        mean += gradient
        square *= np.float32(training.beta2)
        gradient *= gradient
        square += gradient
        np.sqrt(square, change)
        change += floor
        np.divide(mean, change, change)
        change *= rate
        weights *= np.float32(1 - training.learning_rate * training.weight_decay)
        weights -= change
